/* SPDX-License-Identifier: Apache-2.0 */
/* Writes libraries for another host of the tvm-ffi ABI to load: one of host code that contains
 * "size", and one that imports two modules and calls into them. */

#include "tests/core/module-fixture.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <glib.h>

#define SIZE_SOURCE                                                                                \
  ADD_SOURCE "int __tvm_ffi_size(void *self, const Any *args, int n, Any *result) {\n"             \
             "  result->type = 1; result->v = 77; return 0;\n"                                     \
             "}\n"

int main(int argc, char **argv) {
  g_assert_cmpint(argc, ==, 3);
  fixture_begin();
  BpModule *module = fake_host_module(SIZE_SOURCE, NULL);
  if (bp_module_export_library(module, argv[1]))
    g_error("%s", bp_error_message());
  bp_object_release(module);
  export_with_imports(argv[2]);
  return 0;
}
