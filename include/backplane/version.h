/* SPDX-License-Identifier: Apache-2.0 */
/* The version of the headers that a program is compiled with, as macros, and the version of the
 * library that it runs with. */
#ifndef BACKPLANE_VERSION_H
#define BACKPLANE_VERSION_H

#include <backplane/api.h>

/* The version of these headers. */
#define BP_VERSION_MAJOR 0
#define BP_VERSION_MINOR 1
#define BP_VERSION_MICRO 0

/* Whether these headers have the given version or a later one, for the preprocessor. */
#define BP_VERSION_AT_LEAST(major, minor, micro)                                                   \
  (BP_VERSION_MAJOR > (major) ||                                                                   \
   (BP_VERSION_MAJOR == (major) &&                                                                 \
    (BP_VERSION_MINOR > (minor) || (BP_VERSION_MINOR == (minor) && BP_VERSION_MICRO >= (micro)))))

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the version of libbackplane, "0.1.0"; static. Never fails; thread-safe. */
BP_API const char *bp_version(void);

#ifdef __cplusplus
}
#endif

#endif
