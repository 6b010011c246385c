/* SPDX-License-Identifier: Apache-2.0 */
/* The tables, loaders and functions that core/module adds when the core starts. */

#include "core/module/library.h"
#include "core/module/module.h"
#include "core/registry/registry.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <stdlib.h>
#include <string.h>

/* runtime.module.loadfile_so(path, extension) -> Module */
static int load_library(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  BpByteArray path;
  (void)self;
  if (num_args < 1)
    return bp_error_raise(BP_ERROR_TYPE, "runtime.module.loadfile_so takes the path of a library");
  if (bp_value_view_str(&args[0], &path))
    return -1;
  char *copy = strndup(path.data, path.size);
  if (!copy)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory to load a library");
  BpModule *module = bp__library_load(copy);
  free(copy);
  if (!module)
    return -1;
  *result = (BpValue){.type_index = BP_TYPE_MODULE, .v_obj = (BpObject *)module};
  return 0;
}

int bp__module_start(void) {
  if (bp__library_add_own_slots())
    return -1;
  return bp__registry_set_call("runtime.module.loadfile_so", load_library);
}
