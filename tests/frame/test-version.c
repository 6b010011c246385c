/* SPDX-License-Identifier: Apache-2.0 */
/* The library and the headers have the version of this build, and versions are compared
 * correctly. */

#include <config.h>

#include <backplane/version.h>
#include <glib.h>

static void test_library_has_the_package_version(void) {
  g_assert_cmpstr(bp_version(), ==, PACKAGE_VERSION);
}

static void test_headers_have_the_package_version(void) {
  char *text = g_strdup_printf("%d.%d.%d", BP_VERSION_MAJOR, BP_VERSION_MINOR, BP_VERSION_MICRO);
  g_assert_cmpstr(text, ==, PACKAGE_VERSION);
  g_free(text);
}

static void test_versions_are_ordered(void) {
  const int major = BP_VERSION_MAJOR, minor = BP_VERSION_MINOR, micro = BP_VERSION_MICRO;
  g_assert_true(BP_VERSION_AT_LEAST(major, minor, micro));
  g_assert_true(BP_VERSION_AT_LEAST(major, minor - 1, micro + 1));
  g_assert_true(BP_VERSION_AT_LEAST(major - 1, minor + 1, micro + 1));
  g_assert_false(BP_VERSION_AT_LEAST(major, minor, micro + 1));
  g_assert_false(BP_VERSION_AT_LEAST(major, minor + 1, 0));
  g_assert_false(BP_VERSION_AT_LEAST(major + 1, 0, 0));
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/version/library-has-the-package-version", test_library_has_the_package_version);
  g_test_add_func("/version/headers-have-the-package-version",
                  test_headers_have_the_package_version);
  g_test_add_func("/version/versions-are-ordered", test_versions_are_ordered);
  return g_test_run();
}
