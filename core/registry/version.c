/* SPDX-License-Identifier: Apache-2.0 */
/* The version of libbackplane, set at its build. */

#include <config.h>

#include <backplane/version.h>

const char *bp_version(void) {
  return PACKAGE_VERSION;
}
