/* SPDX-License-Identifier: Apache-2.0 */
/* Assertions that tests of the core share. */
#ifndef BACKPLANE_TESTS_CORE_ASSERTS_H
#define BACKPLANE_TESTS_CORE_ASSERTS_H

#include <backplane/device.h>
#include <backplane/error.h>
#include <glib.h>

/* Asserts that a call succeeded; otherwise the test ends with the error's text. */
static inline void assert_ok(int rc) {
  if (rc)
    g_error("%s: %s", bp_error_kind(), bp_error_message());
}

/* Asserts that a call failed with an error of a kind, and with a text. */
static inline void assert_raises(int rc, const char *kind) {
  g_assert_cmpint(rc, ==, -1);
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  g_assert_cmpstr(bp_error_message(), !=, "");
  bp_error_clear();
}

static inline BpDevice device_of(const char *text) {
  BpDevice device = {0, 0};
  assert_ok(bp_device_parse(text, &device));
  return device;
}

#endif
