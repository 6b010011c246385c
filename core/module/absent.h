/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-ins for modules whose plugin is not there. */
#ifndef BACKPLANE_CORE_MODULE_ABSENT_H
#define BACKPLANE_CORE_MODULE_ABSENT_H

#include <backplane/module.h>

/* A module of that kind which keeps its bytes and fails, with this thread's error, which it takes,
 * when one of its functions is asked for. NULL with an error only without memory. `owner` keeps the
 * bytes valid. */
BpModule *bp__absent_module(const char *kind, const BpByteArray *bytes, BpObject *owner);

#endif
