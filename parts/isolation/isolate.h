/* SPDX-License-Identifier: Apache-2.0 */
/* Workers and relays. */
#ifndef BACKPLANE_PARTS_ISOLATION_ISOLATE_H
#define BACKPLANE_PARTS_ISOLATION_ISOLATE_H

#include "core/plugin/isolate.h"

/* Why a plugin cannot run in another process, on this machine or another one (transfer full,
 * g_free); NULL: it can. */
char *bp__isolate_obstacle(const Descriptor *descriptor);

/* A function that starts a relay to a machine and returns its socket (transfer full), as the one
 * that `runtime.isolate` is given. `host` lives for ever. NULL with an error. */
BpFunction *bp__isolate_create_starter(const char *host);

#endif
