/* SPDX-License-Identifier: Apache-2.0 */
/* The library is that of this build. */

#include <config.h>

#include <backplane/version.h>
#include <glib.h>

static void test_library_has_the_package_version(void) {
  g_assert_cmpstr(bp_version(), ==, PACKAGE_VERSION);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/version/library-has-the-package-version", test_library_has_the_package_version);
  return g_test_run();
}
