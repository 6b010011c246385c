/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the loader of a module, by its kind or by its file's extension. */

#include "core/module/load.h"

#include "core/module/module.h"
#include "core/registry/argument.h"
#include "core/registry/hints.h"
#include "core/registry/object.h"
#include "core/registry/part.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A kind or an extension is part of a registry name. */
#define MAX_NAME 128

/* A global function that makes modules. */
typedef struct Loader {
  char name[2 * MAX_NAME];
  BpFunction *function;
} Loader;

/* Stores the function `prefix``name`, or NULL if no function has that name. `what` names the thing
 * to load. */
static int find_loader(Loader *loader, const char *prefix, const char *name, const char *what) {
  snprintf(loader->name, sizeof loader->name, "%s%s", prefix, name);
  return bp_registry_get(loader->name, &loader->function)
             ? bp_error_add_context("cannot load %s \"%s\"", what, name)
             : 0;
}

/* Raises the error that there is no loader. `remedy` says what to do. */
static int raise_no_loader(const Loader *loader, const char *what, const char *name,
                           const char *remedy) {
  return bp_error_raise(BP_ERROR_NOT_FOUND,
                        "nothing loads %s \"%s\": no installed plugin provides \"%s\"%s", what,
                        name, loader->name, remedy);
}

/* Calls a loader and releases it. */
static BpModule *call_loader(Loader *loader, const BpValue *args, int32_t num_args) {
  BpValue result;
  int rc = bp_function_call(loader->function, args, num_args, &result);
  bp_object_release(loader->function);
  return rc ? NULL : bp__module_from_result(&result, loader->name);
}

/* ---- From bytes -------------------------------------------------------------------------- */

static const char binary_prefix[] = "runtime.module.loadbinary_";
static const char binary_what[] = "modules of kind";

static int check_kind(const char *kind) {
  if (kind && *kind && strlen(kind) <= MAX_NAME)
    return 0;
  return bp_error_raise(BP_ERROR_VALUE, "a module's kind must be a name of 1 to %d characters",
                        MAX_NAME);
}

int bp__module_has_loader(const char *kind) {
  Loader loader = {.function = NULL};
  int has_loader = !find_loader(&loader, binary_prefix, kind, binary_what) && loader.function;
  bp_object_release(loader.function);
  return has_loader;
}

/* The kind of a plugin's module is one lower-case word; the kinds of models have dots and
 * capitals. */
static int find_binary_loader(Loader *loader, const char *kind) {
  if (find_loader(loader, binary_prefix, kind, binary_what))
    return -1;
  if (loader->function)
    return 0;
  if (kind[strspn(kind, "abcdefghijklmnopqrstuvwxyz0123456789_-")])
    return raise_no_loader(
        loader, binary_what, kind,
        "; bp_graph_initialize() of libbackplane-graph adds the loaders of models");
  g_autofree char *remedy = bp__package_hint(kind);
  return raise_no_loader(loader, binary_what, kind, remedy);
}

BpModule *bp_module_load_from_bytes(const char *kind, const BpByteArray *bytes) {
  Loader loader = {.function = NULL};
  if (!BP_NOT_NULL(bytes))
    return NULL;
  BpValue arg = bp__value_byte_array(bytes);
  if (check_kind(kind) || find_binary_loader(&loader, kind))
    return NULL;
  return call_loader(&loader, &arg, 1);
}

BpModule *bp__module_load_on(const char *machine, const char *kind, const BpByteArray *bytes) {
  BpFunction *function = NULL;
  BpValue arg = bp__value_byte_array(bytes), result;
  g_autofree char *name = g_strconcat(binary_prefix, machine, kind, NULL);
  if (bp_registry_get(name, &function))
    return NULL;
  if (!function) {
    bp_error_raise(BP_ERROR_NOT_FOUND, "%s has nothing that loads modules of kind \"%s\"",
                   *machine ? machine : "this machine", kind);
    return NULL;
  }
  int rc = bp_function_call(function, &arg, 1, &result);
  bp_object_release(function);
  return rc ? NULL : bp__module_from_result(&result, name);
}

BpModule *bp__module_load_part(const char *kind, const BpByteArray *bytes, BpObject *owner,
                               int is_import) {
  Loader loader = {.function = NULL};
  BpValue args[] = {bp__value_byte_array(bytes), bp__value_object(owner)};
  if (check_kind(kind))
    return NULL;
  if (!find_binary_loader(&loader, kind))
    return call_loader(&loader, args, 2);
  if (!is_import)
    return NULL;
  const Hints *hints = bp__part_table(BP_PART_HINTS);
  return hints ? hints->create_absent(kind, bytes, owner) : NULL;
}

/* ---- From files -------------------------------------------------------------------------- */

/* Returns the extension of a path without its dot, or ""; "libx.so.1" has the extension "so",
 * too. */
static void find_extension(const char *path, char *extension, size_t size) {
  const char *slash = strrchr(path, '/');
  const char *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
  int is_library = strstr(base, ".so.") && dot && !dot[1 + strspn(dot + 1, "0123456789")];
  snprintf(extension, size, "%s", is_library ? "so" : dot ? dot + 1 : "");
}

int bp__module_is_library_path(const char *path) {
  char extension[MAX_NAME + 1];
  find_extension(path, extension, sizeof extension);
  return !strcmp(extension, "so");
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
                   "\"%s\" has no extension, by which its loader is chosen; a library's is \".so\"",
                   path);
    return NULL;
  }
  Loader loader = {.function = NULL};
  BpValue args[] = {bp__value_raw_str(path), bp__value_raw_str(extension)};
  static const char what[] = "files with extension";
  if (find_loader(&loader, "runtime.module.loadfile_", extension, what))
    return NULL;
  if (!loader.function) {
    raise_no_loader(&loader, what, extension, "");
    return NULL;
  }
  return call_loader(&loader, args, 2);
}
