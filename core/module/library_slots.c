/* SPDX-License-Identifier: Apache-2.0 */
/* The host's functions that libraries call through their pointer variables, by their names in
 * tvm-ffi; and the start of core/module. */

#include "core/module/library.h"
#include "core/module/module.h"
#include "core/registry/registry.h"
#include "core/system/lock.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct SlotEntry {
  const char *name;
  void (*function)(void);
  struct SlotEntry *next;
} SlotEntry;

static _Atomic(SlotEntry *) slots;

int bp__library_add_slot(const char *name, void (*function)(void)) {
  if (bp__library_find_slot(name) == function)
    return 0;
  SlotEntry *entry = malloc(sizeof *entry);
  if (!entry)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory to add the slot \"%s\"", name);
  *entry = (SlotEntry){name, function, atomic_load(&slots)};
  while (!atomic_compare_exchange_weak(&slots, &entry->next, entry)) {
  }
  return 0;
}

void (*bp__library_find_slot(const char *name))(void) {
  for (SlotEntry *entry = atomic_load(&slots); entry; entry = entry->next)
    if (!strcmp(entry->name, name))
      return entry->function;
  return NULL;
}

/* ---- The functions of core/module -------------------------------------------------------- */

static int function_call(void *function, BpValue *args, int32_t num_args, BpValue *result) {
  return bp_function_call(function, args, num_args, result);
}

static void error_set_raised(const char *kind, const char *message) {
  bp_error_raise(kind, "%s", message);
}

static void error_set_raised_parts(const char *kind, const char **parts, int32_t num_parts) {
  size_t size = 1;
  for (int32_t i = 0; i < num_parts; ++i)
    size += parts[i] ? strlen(parts[i]) : 0;
  char *message = malloc(size), *end = message;
  if (!message) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for the message of an error of kind %s", kind);
    return;
  }
  for (int32_t i = 0; i < num_parts; ++i)
    end = parts[i] ? stpcpy(end, parts[i]) : end;
  *end = '\0';
  bp_error_raise(kind, "%s", message);
  free(message);
}

/* Handles that are being initialised by a thread. BP__LOCK_STATE guards the list; it is not held
 * while an initialiser runs. Other threads that need the same handle wait. */
typedef struct Initialising {
  void **handle;
  pthread_t thread;
  struct Initialising *next;
} Initialising;

static struct {
  pthread_cond_t changed;
  Initialising *list;
} initialising = {.changed = PTHREAD_COND_INITIALIZER};

/* In the child of a fork the other threads do not exist, so their initialisations never end. */
static void forget_other_threads(void) {
  initialising.changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
  for (Initialising **link = &initialising.list; *link;)
    if (pthread_equal((*link)->thread, pthread_self()))
      link = &(*link)->next;
    else
      *link = (*link)->next;
}

static Initialising *find_initialising(void **handle) {
  Initialising *item = initialising.list;
  while (item && item->handle != handle)
    item = item->next;
  return item;
}

/* Waits until no other thread initialises the handle. Returns -1 if this thread initialises it. */
static int wait_for_handle(void **handle) {
  for (const Initialising *item; (item = find_initialising(handle));) {
    if (pthread_equal(item->thread, pthread_self()))
      return -1;
    bp__lock_wait(BP__LOCK_STATE, &initialising.changed);
  }
  return 0;
}

static void start_initialising(Initialising *mine) {
  static BpForkHook hook = {forget_other_threads, NULL};
  bp__fork_hook_add(&hook);
  mine->next = initialising.list;
  initialising.list = mine;
}

static void stop_initialising(const Initialising *mine) {
  Initialising **link = &initialising.list;
  while (*link != mine)
    link = &(*link)->next;
  *link = mine->next;
  pthread_cond_broadcast(&initialising.changed);
}

/* Initialises a handle. Called with the lock held, which is released while `init` runs. */
static int init_handle(void **handle, int (*init)(void **result)) {
  Initialising mine = {handle, pthread_self(), NULL};
  void *result = NULL;
  start_initialising(&mine);
  bp__unlock(BP__LOCK_STATE);
  int rc = init(&result);
  bp__lock(BP__LOCK_STATE);
  if (!rc)
    __atomic_store_n(handle, result, __ATOMIC_RELEASE);
  stop_initialising(&mine);
  return rc;
}

static int handle_init_once(void **handle, int (*init)(void **result)) {
  if (__atomic_load_n(handle, __ATOMIC_ACQUIRE))
    return 0;
  bp__lock(BP__LOCK_STATE);
  int waits_for_itself = wait_for_handle(handle) != 0, rc = 0;
  if (!waits_for_itself && !__atomic_load_n(handle, __ATOMIC_ACQUIRE))
    rc = init_handle(handle, init);
  bp__unlock(BP__LOCK_STATE);
  return waits_for_itself ? bp_error_raise(BP_ERROR_RUNTIME,
                                           "the initialiser of a library's handle asks for the "
                                           "handle that it initialises")
                          : rc;
}

/* A compiled Relax function keeps its registers in a list of values that its caller owns. */

static int list_set_packed_arg(void *list, int index, BpValue *args, int arg) {
  args[arg] = ((const BpValue *)list)[index];
  return 0;
}

static int list_reset_item(void *list, int index) {
  bp_value_clear((BpValue *)list + index);
  return 0;
}

static int list_move_from_packed_return(void *list, int index, BpValue *args, int arg) {
  BpValue *item = (BpValue *)list + index;
  bp_value_clear(item);
  *item = args[arg];
  args[arg] = (BpValue){.type_index = BP_TYPE_NONE};
  return 0;
}

static int add_own_slots(void) {
  static const struct {
    const char *name;
    void (*function)(void);
  } own[] = {
      {"__TVMFFIFunctionCall", (void (*)(void))function_call},
      {"__TVMFFIErrorSetRaisedFromCStr", (void (*)(void))error_set_raised},
      {"__TVMFFIErrorSetRaisedFromCStrParts", (void (*)(void))error_set_raised_parts},
      {"__TVMFFIEnvModLookupFromImports", (void (*)(void))bp__library_look_up},
      {"__TVMFFIHandleInitOnce", (void (*)(void))handle_init_once},
      {"__TVMBackendAnyListSetPackedArg", (void (*)(void))list_set_packed_arg},
      {"__TVMBackendAnyListResetItem", (void (*)(void))list_reset_item},
      {"__TVMBackendAnyListMoveFromPackedReturn", (void (*)(void))list_move_from_packed_return},
  };
  for (size_t i = 0; i < sizeof own / sizeof *own; ++i)
    if (bp__library_add_slot(own[i].name, own[i].function))
      return -1;
  return 0;
}

/* ---- The start --------------------------------------------------------------------------- */

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
  if (add_own_slots())
    return -1;
  return bp__registry_set_call("runtime.module.loadfile_so", load_library);
}
