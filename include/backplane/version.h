/* SPDX-License-Identifier: Apache-2.0 */
/* The version that a program runs with. */
#ifndef BACKPLANE_VERSION_H
#define BACKPLANE_VERSION_H

#include <backplane/api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of libbackplane, "0.1.0"; static. Never fails; thread-safe. */
BP_API const char *bp_version(void);

#ifdef __cplusplus
}
#endif

#endif
