/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the loader of a module, by its kind or its file's extension. */

#include "core/module/load.h"

#include "core/module/module.h"
#include "core/registry/object.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A kind or an extension is part of a registry name. */
#define MAX_NAME 128

/* Calls the global function `prefix``name`; `what` says in words what it would load. */
static BpModule *call_loader(const char *prefix, const char *name, const BpValue *args,
                             int32_t num_args, const char *what) {
  char loader[2 * MAX_NAME];
  BpFunction *function;
  BpValue result;
  snprintf(loader, sizeof loader, "%s%s", prefix, name);
  if (bp_registry_get(loader, &function)) {
    bp_error_add_context("cannot load %s \"%s\"", what, name);
    return NULL;
  }
  if (!function) {
    bp_error_raise(BP_ERROR_NOT_FOUND,
                   "nothing loads %s \"%s\": no installed plugin provides \"%s\"; install the one "
                   "that does",
                   what, name, loader);
    return NULL;
  }
  int rc = bp_function_call(function, args, num_args, &result);
  bp_object_release(function);
  return rc ? NULL : bp__module_from_result(&result, loader);
}

BpModule *bp__module_load_from_bytes(const char *kind, const BpByteArray *bytes, BpObject *owner) {
  if (!kind || !*kind || strlen(kind) > MAX_NAME) {
    bp_error_raise(BP_ERROR_VALUE, "a module's kind must be a name of 1 to %d characters",
                   MAX_NAME);
    return NULL;
  }
  BpValue args[] = {bp__value_byte_array(bytes), bp__value_object(owner)};
  return call_loader("runtime.module.loadbinary_", kind, args, owner ? 2 : 1, "modules of kind");
}

BpModule *bp_module_load_from_bytes(const char *kind, const BpByteArray *bytes) {
  return bp__module_load_from_bytes(kind, bytes, NULL);
}

/* The extension of a path without its dot, "" if there is none; "libx.so.1" is a library too. */
static void find_extension(const char *path, char *extension, size_t size) {
  const char *slash = strrchr(path, '/');
  const char *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
  int is_library = strstr(base, ".so.") && dot && !dot[1 + strspn(dot + 1, "0123456789")];
  snprintf(extension, size, "%s", is_library ? "so" : dot ? dot + 1 : "");
}

BpModule *bp_module_load(const char *path) {
  char extension[MAX_NAME + 1];
  if (!path || !*path) {
    bp_error_raise(BP_ERROR_VALUE, "the path of a module file must not be empty");
    return NULL;
  }
  find_extension(path, extension, sizeof extension);
  if (!*extension) {
    bp_error_raise(BP_ERROR_VALUE,
                   "\"%s\" has no extension to tell what loads it; a library's is \".so\"", path);
    return NULL;
  }
  BpValue args[] = {bp__value_raw_str(path), bp__value_raw_str(extension)};
  return call_loader("runtime.module.loadfile_", extension, args, 2, "files with extension");
}
