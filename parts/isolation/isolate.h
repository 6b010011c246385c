/* SPDX-License-Identifier: Apache-2.0 */
/* Workers and relays. */
#ifndef BACKPLANE_PARTS_ISOLATION_ISOLATE_H
#define BACKPLANE_PARTS_ISOLATION_ISOLATE_H

#include "parts/plugins/isolate.h"

/* Says why a plugin cannot run in another process, on this machine or another one (transfer full,
 * g_free); NULL: it can. */
char *bp__isolate_obstacle(const Descriptor *descriptor);

/* Makes a function that starts a relay to a machine and returns the relay's socket (transfer full),
 * like the function that `runtime.isolate` gets. `host` lives for ever. NULL with an error. */
BpFunction *bp__isolate_create_starter(const char *host);

#endif
