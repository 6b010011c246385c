/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to the application that are not errors. */
#ifndef BACKPLANE_CORE_REGISTRY_LOG_H
#define BACKPLANE_CORE_REGISTRY_LOG_H

#include "core/system/shared.h"

#include <backplane/error.h>

/* Passes a message to the application's log callback; without a callback the message is dropped.
 * Any thread; the callback runs with no lock of the host held. level: BP_LOG_*. */
BP__SHARED void bp__log(int32_t level, const char *format, ...) BP_PRINTF(2, 3);

#endif
