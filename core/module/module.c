/* SPDX-License-Identifier: Apache-2.0 */
/* The module object: a plugin's table and context, and the imports, which the host keeps.
 *
 * Imports are only ever added, so readers take no lock: they load a list that is published as a
 * whole. An outgrown list stays until the module is freed, because another thread may be reading
 * it. */

#include "core/module/module.h"

#include "core/module/load.h"

#include "core/registry/argument.h"
#include "core/registry/host.h"
#include "core/registry/names.h"
#include "core/registry/object.h"
#include "core/system/lock.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A list of imports; `count` grows up to `capacity`. */
typedef struct ImportList {
  struct ImportList *outgrown;
  struct ImportList *next; /* next in the queue of lists to release */
  size_t capacity;
  atomic_size_t count;
  BpModule *items[];
} ImportList;

/* The module's code, loaded for another machine; freed with the module. */
typedef struct Elsewhere {
  BpModule *module;
  struct Elsewhere *next;
  char machine[];
} Elsewhere;

struct BpModule {
  BpObject header;
  const BpModuleApi *api;
  void *context;
  _Atomic(ImportList *) imports;
  _Atomic(Elsewhere *) elsewhere; /* BP__LOCK_STATE guards adding */
  size_t stamp; /* guarded by BP__LOCK_STATE: the last walk that visited this module */
};

/* The number of the last walk. BP__LOCK_STATE guards the shape of all import graphs, so that adding
 * an edge closes no cycle. */
static size_t last_stamp;

/* Releases the imports of a module that is being freed. The imports of modules that are being freed
 * wait in a list of the thread, so that the stack does not grow with the depth of the graph. */
static void release_imports(ImportList *list) {
  static _Thread_local ImportList *pending;
  static _Thread_local int is_releasing;
  if (!list)
    return;
  list->next = pending;
  pending = list;
  if (is_releasing)
    return;
  is_releasing = 1;
  while ((list = pending)) {
    pending = list->next;
    size_t count = atomic_load(&list->count);
    for (size_t i = 0; i < count; ++i)
      bp_object_release(list->items[i]);
    while (list) {
      ImportList *outgrown = list->outgrown;
      free(list);
      list = outgrown;
    }
  }
  is_releasing = 0;
}

static void release_elsewhere(Elsewhere *elsewhere) {
  for (Elsewhere *next; elsewhere; elsewhere = next) {
    next = elsewhere->next;
    bp_object_release(elsewhere->module);
    free(elsewhere);
  }
}

static void delete_module(void *self, int flags) {
  BpModule *module = self;
  if (flags & BP_DELETER_STRONG) {
    release_elsewhere(atomic_load(&module->elsewhere));
    module->api->destroy(module->context);
    release_imports(atomic_load(&module->imports));
  }
  if (flags & BP_DELETER_WEAK)
    free(module);
}

static int check_api(const BpModuleApi *api) {
  if (!api || !BP_TABLE_HAS(api, destroy) || !api->kind || !*api->kind || !api->get_function)
    return bp_error_raise(BP_ERROR_VALUE, "a module's table must have kind, get_function and "
                                          "destroy");
  return 0;
}

BpModule *bp_module_create(const BpModuleApi *api, void *context) {
  if (check_api(api)) {
    if (api && BP_TABLE_HAS(api, destroy))
      api->destroy(context);
    return NULL;
  }
  BpModule *module = malloc(sizeof *module);
  if (!module) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a module of kind \"%s\"", api->kind);
    api->destroy(context); /* the context may own the table */
    return NULL;
  }
  *module = (BpModule){.api = api, .context = context};
  bp__object_init(&module->header, BP_TYPE_MODULE, delete_module);
  return module;
}

void *bp_module_get_context(BpModule *module, const BpModuleApi *api) {
  return module && module->header.type_index == BP_TYPE_MODULE && module->api == api
             ? module->context
             : NULL;
}

BpFunction *bp_module_function_create(BpModule *module, BpPackedCall call, void *context,
                                      void (*destroy)(void *context)) {
  if (!BP_NOT_NULL(module)) {
    if (destroy)
      destroy(context);
    return NULL;
  }
  return bp__function_create_owned(call, context, destroy, module);
}

BpModule *bp__module_from_result(BpValue *result, const char *loader) {
  if (result->type_index == BP_TYPE_MODULE)
    return (BpModule *)result->v_obj;
  bp_error_raise(BP_ERROR_TYPE, "\"%s\" must return a Module, not %s", loader,
                 bp_type_name(result->type_index));
  bp_value_clear(result);
  return NULL;
}

const char *bp_module_kind(BpModule *module) {
  if (!BP_NOT_NULL(module))
    return NULL;
  return module->api->kind;
}

int32_t bp_module_get_property(BpModule *module) {
  int32_t flags = 0;
  if (!BP_NOT_NULL(module))
    return 0;
  if (BP_TABLE_HAS(module->api, get_property) &&
      module->api->get_property(module->context, &flags)) {
    bp_error_clear();
    return 0;
  }
  return flags;
}

int bp_module_save_to_bytes(BpModule *module, BpOwnedBytes *bytes) {
  if (!BP_NOT_NULL(module) || !BP_NOT_NULL(bytes))
    return -1;
  *bytes = (BpOwnedBytes){0};
  if (BP_TABLE_HAS(module->api, save_to_bytes))
    return module->api->save_to_bytes(module->context, bytes);
  return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "a module of kind \"%s\" cannot be serialised",
                        module->api->kind);
}

int bp_module_get_source(BpModule *module, const char *format, BpOwnedBytes *source) {
  if (!BP_NOT_NULL(module) || !BP_NOT_NULL(source))
    return -1;
  *source = (BpOwnedBytes){0};
  const char *wanted = format ? format : "";
  if (BP_TABLE_HAS(module->api, get_source) &&
      module->api->get_source(module->context, wanted, source))
    return -1;
  if (source->data)
    return 0;
  return bp_error_raise(BP_ERROR_VALUE, "a module of kind \"%s\" has no source in format \"%s\"",
                        module->api->kind, wanted);
}

void bp_owned_bytes_clear(BpOwnedBytes *bytes) {
  if (!bytes)
    return;
  if (bytes->free_data)
    bytes->free_data(bytes->data);
  *bytes = (BpOwnedBytes){0};
}

/* ---- Other machines ---------------------------------------------------------------------- */

static Elsewhere *find_elsewhere(BpModule *module, const char *machine) {
  Elsewhere *found = atomic_load(&module->elsewhere);
  while (found && strcmp(found->machine, machine))
    found = found->next;
  return found;
}

static Elsewhere *load_elsewhere(BpModule *module, const char *machine) {
  BpOwnedBytes bytes;
  size_t size = strlen(machine) + 1;
  Elsewhere *made = malloc(sizeof *made + size);
  if (!made) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a module of kind \"%s\"", module->api->kind);
    return NULL;
  }
  memcpy(made->machine, machine, size);
  made->module = NULL;
  if (!bp_module_save_to_bytes(module, &bytes)) {
    const BpByteArray view = {bytes.data, bytes.size};
    made->module = bp__module_load_on(machine, module->api->kind, &view);
    bp_owned_bytes_clear(&bytes);
  }
  if (made->module)
    return made;
  free(made);
  return NULL;
}

/* Two threads may load the code at once; the second thread's module is released. */
BpModule *bp__module_elsewhere(BpModule *module, const char *machine) {
  Elsewhere *found = find_elsewhere(module, machine);
  Elsewhere *made = found ? NULL : load_elsewhere(module, machine);
  if (!made)
    return found ? found->module : NULL;
  bp__lock(BP__LOCK_STATE);
  found = find_elsewhere(module, machine);
  if (!found) {
    made->next = atomic_load(&module->elsewhere);
    atomic_store(&module->elsewhere, made);
  }
  bp__unlock(BP__LOCK_STATE);
  if (!found)
    return made->module;
  made->next = NULL;
  release_elsewhere(made);
  return found->module;
}

/* ---- Imports ----------------------------------------------------------------------------- */

static ImportList *imports_of(BpModule *module, size_t *count) {
  ImportList *list = atomic_load(&module->imports);
  *count = list ? atomic_load(&list->count) : 0;
  return list;
}

size_t bp_module_num_imports(BpModule *module) {
  size_t count;
  if (!BP_NOT_NULL(module))
    return 0;
  imports_of(module, &count);
  return count;
}

BpModule *bp_module_get_import(BpModule *module, size_t index) {
  size_t count;
  if (!BP_NOT_NULL(module))
    return NULL;
  ImportList *list = imports_of(module, &count);
  if (index < count)
    return list->items[index];
  bp_error_raise(BP_ERROR_INDEX, "import %zu of a module of kind \"%s\", which has %zu", index,
                 module->api->kind, count);
  return NULL;
}

/* A walk over an import graph: `items` are the modules found, in order; `todo` is a stack. */
typedef struct Walk {
  BpModule **items;
  size_t count;
  BpModule **todo;
  size_t num_todo;
  size_t capacity; /* capacity of both arrays */
} Walk;

static int walk_reserve(Walk *walk, size_t more) {
  size_t need = walk->count + walk->num_todo + more;
  if (need <= walk->capacity)
    return 0;
  size_t capacity = 2 * need + 8;
  BpModule **items = realloc(walk->items, capacity * sizeof(BpModule *));
  if (items)
    walk->items = items;
  BpModule **todo = realloc(walk->todo, capacity * sizeof(BpModule *));
  if (todo)
    walk->todo = todo;
  if (!items || !todo)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory to walk the imports of a module");
  walk->capacity = capacity;
  return 0;
}

/* Takes a module off the stack; if the module is new, lists it and pushes its imports. */
static int walk_step(Walk *walk, size_t stamp) {
  BpModule *module = walk->todo[--walk->num_todo];
  if (module->stamp == stamp)
    return 0;
  module->stamp = stamp;
  size_t count;
  ImportList *list = imports_of(module, &count);
  if (walk_reserve(walk, count + 1))
    return -1;
  walk->items[walk->count++] = module;
  while (count)
    walk->todo[walk->num_todo++] = list->items[--count];
  return 0;
}

static BpModule **flatten_locked(BpModule *module, size_t *count) {
  Walk walk = {0};
  size_t stamp = ++last_stamp;
  int rc = walk_reserve(&walk, 1);
  if (!rc)
    walk.todo[walk.num_todo++] = module;
  while (!rc && walk.num_todo)
    rc = walk_step(&walk, stamp);
  free(walk.todo);
  *count = walk.count;
  if (!rc)
    return walk.items;
  free(walk.items);
  return NULL;
}

BpModule **bp__module_flatten(BpModule *module, size_t *count) {
  bp__lock(BP__LOCK_STATE);
  BpModule **items = flatten_locked(module, count);
  bp__unlock(BP__LOCK_STATE);
  return items;
}

/* Appends to the module's list; a full list is replaced by a larger copy. */
static int append_import(BpModule *module, BpModule *imported) {
  size_t count;
  ImportList *list = imports_of(module, &count);
  if (!list || count == list->capacity) {
    size_t capacity = 2 * count + 2;
    ImportList *larger = malloc(sizeof *larger + capacity * sizeof(BpModule *));
    if (!larger)
      return bp_error_raise(BP_ERROR_MEMORY, "no memory to import a module");
    larger->outgrown = list;
    larger->next = NULL;
    larger->capacity = capacity;
    atomic_init(&larger->count, count);
    if (count)
      memcpy(larger->items, list->items, count * sizeof(BpModule *));
    atomic_store(&module->imports, larger);
    list = larger;
  }
  list->items[count] = bp_object_retain(imported);
  atomic_store(&list->count, count + 1);
  return 0;
}

static int import_locked(BpModule *module, BpModule *imported) {
  size_t count;
  BpModule **reached = flatten_locked(imported, &count);
  if (!reached)
    return -1;
  free(reached);
  /* The walk has stamped every module that `imported` reaches. */
  if (module->stamp == last_stamp)
    return bp_error_raise(BP_ERROR_VALUE,
                          "importing a module of kind \"%s\" into one of kind \"%s\" would close a "
                          "cycle",
                          imported->api->kind, module->api->kind);
  return append_import(module, imported);
}

int bp_module_import(BpModule *module, BpModule *imported) {
  if (!BP_NOT_NULL(module) || !BP_NOT_NULL(imported))
    return -1;
  if (imported->header.type_index != BP_TYPE_MODULE)
    return bp_error_raise(BP_ERROR_TYPE, "only a module can be imported into a module");
  bp__lock(BP__LOCK_STATE);
  int rc = import_locked(module, imported);
  bp__unlock(BP__LOCK_STATE);
  return rc;
}

/* ---- Functions --------------------------------------------------------------------------- */

static _Thread_local const char *looked_up;

const char *bp__module_looked_up(void) {
  return looked_up ? looked_up : "";
}

/* Finds a function of the module itself. The module's code may look up other functions in the same
 * thread. */
static int get_own(BpModule *module, const char *name, BpFunction **function) {
  const char *before = looked_up;
  *function = NULL;
  looked_up = name;
  int rc = module->api->get_function(module->context, name, function);
  looked_up = before;
  return rc;
}

int bp__module_get_from_imports(BpModule *module, const char *name, BpFunction **function) {
  size_t count;
  *function = NULL;
  if (!bp_module_num_imports(module))
    return 0;
  BpModule **modules = bp__module_flatten(module, &count);
  int rc = modules ? 0 : -1;
  for (size_t i = 1; !rc && !*function && i < count; ++i)
    rc = get_own(modules[i], name, function);
  free(modules);
  return rc;
}

int bp_module_get_function(BpModule *module, const char *name, int query_imports,
                           BpFunction **function) {
  if (!BP_NOT_NULL(module) || !BP_NOT_NULL(function))
    return -1;
  *function = NULL;
  if (!name || !*name)
    return bp_error_raise(BP_ERROR_VALUE, "a function's name must not be empty");
  int rc = get_own(module, name, function);
  return rc || *function || !query_imports ? rc
                                           : bp__module_get_from_imports(module, name, function);
}

/* The context of visit_functions: the names so far, and -1 after one could not be added. */
typedef struct Gathered {
  BpNames names;
  int rc;
} Gathered;

static int add_name(void *visitor, const char *name, const char *signature) {
  Gathered *gathered = visitor;
  (void)signature;
  return gathered->rc = bp__names_add(&gathered->names, name, strlen(name));
}

char **bp_module_list_functions(BpModule *module, size_t *count) {
  Gathered gathered = {.rc = 0};
  int rc = 0;
  if (!BP_NOT_NULL(module))
    return NULL;
  if (BP_TABLE_HAS(module->api, visit_functions))
    rc = module->api->visit_functions(module->context, add_name, &gathered);
  if (!rc && !gathered.rc)
    return bp__names_finish(&gathered.names, count);
  bp__names_clear(&gathered.names);
  return NULL;
}
