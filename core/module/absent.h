/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-ins for modules whose plugin is absent. */
#ifndef BACKPLANE_CORE_MODULE_ABSENT_H
#define BACKPLANE_CORE_MODULE_ABSENT_H

#include <backplane/module.h>

/* Makes a module of that kind which keeps its bytes. Asking for one of its functions fails with the
 * error that this thread has now, which the module takes. NULL with an error only if memory is
 * exhausted. `owner` keeps the bytes valid. */
BpModule *bp__absent_module(const char *kind, const BpByteArray *bytes, BpObject *owner);

#endif
