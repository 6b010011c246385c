/* SPDX-License-Identifier: Apache-2.0 */
/* A library may hold code for several kinds of device, and a machine may lack a plugin for some.
 * The code for an absent plugin is kept: the rest of the library works, and the bytes can be
 * exported again. Asking for a function of that code is an error with the reason, unless the code
 * can be loaded by then, for example because a machine with the plugin has been connected. */

#include "parts/hints/hints.h"

#include "core/module/bytes.h"
#include "core/module/load.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct Absent {
  BpModuleApi api; /* each module has its own table, whose kind is the absent plugin's */
  char *kind;
  char *error_kind;
  char *reason;
  BpByteArray bytes;
  BpObject *owner;            /* keeps `bytes` valid */
  _Atomic(BpModule *) loaded; /* the module, once something has loaded it; or NULL */
} Absent;

typedef struct Search {
  const char *name;
  int found;
} Search;

static int32_t compare_name(void *context, const BpKernelInfo *kernel) {
  Search *search = context;
  search->found |= !strcmp(kernel->name, search->name);
  return 0;
}

/* The module, if something loads it now; NULL, with an error if a loader failed. Asks for a loader
 * first, because an error about a missing one names the package to install, which takes reading
 * files. */
static BpModule *load_now(Absent *absent) {
  BpModule *loaded = atomic_load(&absent->loaded), *other = NULL;
  if (loaded)
    return loaded;
  if (!bp__module_has_loader(absent->kind)) {
    bp_error_clear();
    return NULL;
  }
  if (!(loaded = bp__module_load_part(absent->kind, &absent->bytes, absent->owner, 0)))
    return NULL;
  if (atomic_compare_exchange_strong(&absent->loaded, &other, loaded))
    return loaded;
  bp_object_release(loaded);
  return other;
}

/* Only bytes in the form of device code list their functions. Other bytes count as having no
 * functions, because another import may have the function. */
static int32_t get_function(void *context, const char *name, BpFunction **function) {
  Absent *absent = context;
  BpByteArray format, code;
  Search search = {name, 0};
  BpModule *loaded = load_now(absent);
  *function = NULL;
  if (loaded)
    return bp_module_get_function(loaded, name, 0, function);
  if (bp__device_code_decode(&absent->bytes, &format, compare_name, &search, &code) ||
      !search.found)
    bp_error_clear();
  if (!search.found)
    return 0;
  if (!*bp_error_kind())
    bp_error_raise(absent->error_kind, "%s", absent->reason);
  return bp_error_add_context("function \"%s\" is code for \"%s\"", name, absent->kind);
}

static int32_t get_property(void *context, int32_t *flags) {
  (void)context;
  *flags = BP_MODULE_BINARY_SERIALIZABLE;
  return 0;
}

static int32_t save_to_bytes(void *context, BpOwnedBytes *bytes) {
  const Absent *absent = context;
  *bytes = (BpOwnedBytes){malloc(absent->bytes.size + 1), absent->bytes.size, free};
  if (!bytes->data)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for a module of kind \"%s\"", absent->kind);
  memcpy(bytes->data, absent->bytes.data, absent->bytes.size);
  return 0;
}

typedef struct Visit {
  int32_t (*visit)(void *visitor, const char *name, const char *signature);
  void *visitor;
  int32_t stopped;
} Visit;

static int32_t visit_kernel(void *context, const BpKernelInfo *kernel) {
  Visit *visit = context;
  return visit->stopped = visit->visit(visit->visitor, kernel->name, NULL);
}

static int32_t visit_functions(void *context,
                               int32_t (*visit)(void *visitor, const char *name,
                                                const char *signature),
                               void *visitor) {
  const Absent *absent = context;
  BpByteArray format, code;
  Visit self = {visit, visitor, 0};
  if (bp__device_code_decode(&absent->bytes, &format, visit_kernel, &self, &code) && !self.stopped)
    bp_error_clear();
  return self.stopped < 0 ? -1 : 0;
}

static void destroy(void *context) {
  Absent *absent = context;
  bp_object_release(atomic_load(&absent->loaded));
  bp_object_release(absent->owner);
  free(absent->kind);
  free(absent->error_kind);
  free(absent->reason);
  free(absent);
}

BpModule *bp__create_absent(const char *kind, const BpByteArray *bytes, BpObject *owner) {
  Absent *absent = calloc(1, sizeof *absent);
  if (absent)
    *absent = (Absent){.kind = strdup(kind),
                       .error_kind = strdup(bp_error_kind()),
                       .reason = strdup(bp_error_message()),
                       .bytes = *bytes,
                       .owner = bp_object_retain(owner)};
  if (!absent || !absent->kind || !absent->error_kind || !absent->reason) {
    if (absent)
      destroy(absent);
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a module of kind \"%s\"", kind);
    return NULL;
  }
  bp_error_clear();
  absent->api = (BpModuleApi){.struct_size = sizeof absent->api,
                              .kind = absent->kind,
                              .get_function = get_function,
                              .get_property = get_property,
                              .save_to_bytes = save_to_bytes,
                              .visit_functions = visit_functions,
                              .destroy = destroy};
  return bp_module_create(&absent->api, absent);
}
