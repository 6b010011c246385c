/* SPDX-License-Identifier: Apache-2.0 */
/* The version that libbackplane-compiler was built as. */

#include <config.h>

#include <backplane/version.h>

const char *bp_compiler_version(void) {
  return PACKAGE_VERSION;
}
