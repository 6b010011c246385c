/* SPDX-License-Identifier: Apache-2.0 */
/* The global registry: an open-addressed hash table that readers walk without a lock.
 *
 * Entries never change: a writer (one at a time, under the lock) stores a pointer to a new entry,
 * and replaces a full table by a larger one. A reader may still use an entry or table that a writer
 * has unlinked, so the writer first adds it to a list of garbage. A reader increments one of
 * several counters, spread over cache lines, while it reads. Once every counter has been zero, no
 * reader uses garbage that was unlinked before. The accesses to the counters and the table are
 * sequentially consistent: a reader that increments a counter after the writer saw zero cannot find
 * garbage that was unlinked before. */

#include "core/registry/argument.h"
#include "core/registry/registry.h"

#include "core/registry/host.h"
#include "core/registry/installed.h"
#include "core/registry/names.h"
#include "core/registry/object.h"
#include "core/registry/part.h"
#include "core/registry/registration.h"
#include "core/system/lock.h"

#include <backplane/error.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Entry {
  uint64_t hash;
  BpFunction *function;
  size_t name_size;
  char name[];
} Entry;

typedef _Atomic(Entry *) Slot;

typedef struct Table {
  size_t mask; /* number of slots, a power of two, minus one */
  Slot slots[];
} Table;

/* Unlinked memory to be freed, and a function to be released or NULL. */
typedef struct Garbage {
  void *memory;
  BpFunction *function;
  struct Garbage *next;
} Garbage;

#define READER_COUNTERS 32
#define FIRST_SLOTS     64

typedef struct Counter {
  _Alignas(64) atomic_uint active;
} Counter;

static Counter readers[READER_COUNTERS];
static _Atomic(Table *) current;
static atomic_int garbage_waits;

/* Guarded by BP__LOCK_STATE. */
static size_t used_slots; /* entries and tombstones */
static size_t num_entries;
static Garbage *garbage;

/* Marks a slot whose entry was removed: a search continues beyond it. */
static Entry tombstone;

/* ---- Reading ----------------------------------------------------------------------------- */

static Counter *my_counter(void) {
  static atomic_uint next;
  static _Thread_local Counter *mine;
  if (!mine)
    mine = &readers[atomic_fetch_add(&next, 1) % READER_COUNTERS];
  return mine;
}

static uint64_t hash_name(const char *name, size_t size) {
  uint64_t hash = size * 0x9e3779b97f4a7c15u, word;
  for (; size >= sizeof word; size -= sizeof word, name += sizeof word) {
    memcpy(&word, name, sizeof word);
    hash = (hash ^ word) * 0x9fb21c651e98df25u;
    hash ^= hash >> 32;
  }
  word = 0;
  memcpy(&word, name, size);
  hash = (hash ^ word) * 0x9fb21c651e98df25u;
  return hash ^ hash >> 29;
}

static int entry_is(const Entry *entry, uint64_t hash, const char *name, size_t size) {
  return entry->hash == hash && entry->name_size == size && !memcmp(entry->name, name, size);
}

/* Returns the slot of `name`, or the empty slot where the search for it ends; NULL if there is no
 * table. A table always has an empty slot. */
static Slot *find_slot(Table *table, uint64_t hash, const char *name, size_t size) {
  for (size_t i = hash;; ++i) {
    Slot *slot = &table->slots[i & table->mask];
    Entry *entry = atomic_load(slot);
    if (!entry || (entry != &tombstone && entry_is(entry, hash, name, size)))
      return slot;
  }
}

static Garbage *collect_garbage(void);
static void free_garbage(Garbage *list);

/* The last reader to leave frees the garbage that a writer could not free. */
static void sweep_as_reader(void) {
  bp__lock(BP__LOCK_STATE);
  Garbage *list = collect_garbage();
  bp__unlock(BP__LOCK_STATE);
  free_garbage(list);
}

static BpFunction *look_up(const char *name, size_t size) {
  uint64_t hash = hash_name(name, size);
  Counter *counter = my_counter();
  BpFunction *function = NULL;
  atomic_fetch_add(&counter->active, 1);
  Table *table = atomic_load(&current);
  if (table) {
    Entry *entry = atomic_load(find_slot(table, hash, name, size));
    if (entry && entry != &tombstone)
      function = bp_object_retain(entry->function);
  }
  atomic_fetch_sub(&counter->active, 1);
  if (__builtin_expect(atomic_load(&garbage_waits), 0))
    sweep_as_reader();
  return function;
}

/* ---- Names ------------------------------------------------------------------------------- */

/* TVM's names for functions of Backplane; a function is registered and found under either name. */
static const struct {
  const char *theirs;
  const char *ours;
} aliases[] = {
    {"ffi.Module.load_from_bytes.", "runtime.module.loadbinary_"},
    {"ffi.Module.load_from_file.", "runtime.module.loadfile_"},
};

/* Returns the alias prefix that `name` starts with, or -1. */
static int find_alias(const char *name) {
  for (int i = 0; i < (int)(sizeof aliases / sizeof *aliases); ++i)
    if (!strncmp(name, aliases[i].theirs, strlen(aliases[i].theirs)))
      return i;
  return -1;
}

/* Returns Backplane's name for `name` (to be freed), or NULL with an error. */
static char *canonical_name(const char *name) {
  int alias = find_alias(name);
  const char *prefix = alias < 0 ? "" : aliases[alias].ours;
  const char *rest = alias < 0 ? name : name + strlen(aliases[alias].theirs);
  char *made = NULL;
  if (asprintf(&made, "%s%s", prefix, rest) >= 0)
    return made;
  bp_error_raise(BP_ERROR_MEMORY, "no memory for the name \"%.64s\"", name);
  return NULL;
}

static int check_name(const char *name) {
  if (name && *name)
    return 0;
  return bp_error_raise(BP_ERROR_VALUE, "a registry name must not be empty");
}

int bp__registry_find(const char *name, BpFunction **function) {
  *function = NULL;
  if (check_name(name))
    return -1;
  *function = look_up(name, strlen(name));
  if (*function || find_alias(name) < 0)
    return 0;
  char *ours = canonical_name(name);
  if (!ours)
    return -1;
  *function = look_up(ours, strlen(ours));
  free(ours);
  return 0;
}

int bp__registry_has(const char *name) {
  BpFunction *function = NULL;
  int found = !bp__registry_find(name, &function) && function;
  bp_object_release(function);
  return found;
}

/* Looks up a missing name: starting the core or a plugin may add it. */
static int resolve(const char *name, BpFunction **function) {
  if (bp__core_start() || bp__registry_find(name, function))
    return -1;
  if (*function)
    return 0;
  const Installed *installed = bp__part_table(BP_PART_PLUGINS);
  char *ours = installed ? canonical_name(name) : NULL;
  if (!ours)
    return -1;
  int rc = installed->activate_provider(ours);
  free(ours);
  return rc ? rc : bp__registry_find(name, function);
}

int bp_registry_get(const char *name, BpFunction **function) {
  if (!BP_NOT_NULL(function))
    return -1;
  if (__builtin_expect(bp__registry_find(name, function) != 0, 0))
    return -1;
  return __builtin_expect(*function != NULL, 1) ? 0 : resolve(name, function);
}

/* In the child of a fork, readers in other threads do not exist. */
static void forget_readers(void) {
  for (int i = 0; i < READER_COUNTERS; ++i)
    atomic_store(&readers[i].active, 0);
}

void bp__registry_watch_forks(void) {
  static BpForkHook hook = {forget_readers, NULL};
  bp__fork_hook_add(&hook);
}

/* ---- Writing (under the lock) ------------------------------------------------------------ */

/* Removes from the list the garbage that was unlinked before a moment without readers. */
static Garbage *collect_garbage(void) {
  Garbage *list = garbage;
  for (int i = 0; i < READER_COUNTERS; ++i)
    if (atomic_load(&readers[i].active))
      return NULL;
  garbage = NULL;
  atomic_store(&garbage_waits, 0);
  return list;
}

/* Called without the lock: releasing a function runs code of its owner. */
static void free_garbage(Garbage *list) {
  while (list) {
    Garbage *next = list->next;
    bp_object_release(list->function);
    free(list->memory);
    free(list);
    list = next;
  }
}

static void throw_away(Garbage *item, void *memory, BpFunction *function) {
  *item = (Garbage){memory, function, garbage};
  garbage = item;
  atomic_store(&garbage_waits, 1);
}

static Table *table_create(size_t num_slots) {
  Table *table = calloc(1, sizeof *table + num_slots * sizeof(Slot));
  if (table)
    table->mask = num_slots - 1;
  return table;
}

/* Publishes a larger table without tombstones. */
static int grow(void) {
  Table *old = atomic_load(&current);
  size_t num_slots = FIRST_SLOTS;
  while (num_slots < 4 * (num_entries + 1))
    num_slots *= 2;
  Table *table = table_create(num_slots);
  Garbage *item = malloc(sizeof *item);
  if (!table || !item) {
    free(table);
    free(item);
    return -1;
  }
  for (size_t i = 0; old && i <= old->mask; ++i) {
    Entry *entry = atomic_load(&old->slots[i]);
    if (entry && entry != &tombstone)
      atomic_store(find_slot(table, entry->hash, entry->name, entry->name_size), entry);
  }
  used_slots = num_entries;
  atomic_store(&current, table);
  if (old)
    throw_away(item, old, NULL);
  else
    free(item);
  return 0;
}

/* A table is at most half full, which keeps searches short. */
static int make_room(void) {
  Table *table = atomic_load(&current);
  return table && 2 * (used_slots + 1) <= table->mask ? 0 : grow();
}

static Entry *entry_create(const char *name, BpFunction *function) {
  size_t size = strlen(name);
  Entry *entry = malloc(sizeof *entry + size + 1);
  if (!entry)
    return NULL;
  *entry = (Entry){.hash = hash_name(name, size), .name_size = size};
  memcpy(entry->name, name, size + 1);
  entry->function = bp_object_retain(function);
  return entry;
}

static void entry_free(Entry *entry) {
  if (entry)
    bp_object_release(entry->function);
  free(entry);
}

/* Links `entry`, and takes it over, instead of an entry of the same name, if there is one. The
 * registry also takes over `item`, the memory for the resulting garbage. */
static int link_entry(Entry *entry, Garbage *item, int override) {
  if (make_room())
    return bp_error_raise(BP_ERROR_MEMORY, "no memory to register \"%s\"", entry->name);
  Slot *slot = find_slot(atomic_load(&current), entry->hash, entry->name, entry->name_size);
  Entry *old = atomic_load(slot);
  if (old && !override)
    return bp_error_raise(BP_ERROR_VALUE,
                          "the name \"%s\" is registered already; register it with override to "
                          "replace it",
                          entry->name);
  atomic_store(slot, entry);
  if (old) {
    throw_away(item, old, old->function);
  } else {
    free(item);
    ++used_slots;
    ++num_entries;
  }
  return 0;
}

static int set_canonical(const char *name, BpFunction *function, int override) {
  Entry *entry = entry_create(name, function);
  Garbage *item = malloc(sizeof *item);
  int rc;
  if (!entry || !item) {
    rc = bp_error_raise(BP_ERROR_MEMORY, "no memory to register \"%s\"", name);
  } else {
    bp__lock(BP__LOCK_STATE);
    rc = link_entry(entry, item, override);
    Garbage *list = collect_garbage();
    bp__unlock(BP__LOCK_STATE);
    free_garbage(list);
  }
  if (rc) {
    entry_free(entry);
    free(item);
  }
  return rc;
}

static int check_entry(const char *name, const BpFunction *function) {
  if (check_name(name))
    return -1;
  if (!function || function->header.type_index != BP_TYPE_FUNCTION)
    return bp_error_raise(BP_ERROR_TYPE, "only a function can be registered as \"%s\"", name);
  return 0;
}

/* Registers a function under Backplane's name; during a plugin's initialize() the name is not
 * visible yet. */
static int set(const char *name, BpFunction *function, int override) {
  Registration *registration = bp__registration_current();
  char *ours = canonical_name(name);
  int rc = !ours          ? -1
           : registration ? bp__registration_add(registration, ours, function, override)
                          : set_canonical(ours, function, override);
  free(ours);
  return rc;
}

int bp_registry_set(const char *name, BpFunction *function, int override) {
  if (check_entry(name, function) || bp__core_start())
    return -1;
  return set(name, function, override);
}

int bp__registry_publish(const char *name, BpFunction *function) {
  return set_canonical(name, function, 0);
}

int bp__registry_set_of_plugin(const char *name, BpFunction *function, int32_t override) {
  if (check_entry(name, function))
    return -1;
  if (!bp__registration_current())
    return bp_error_raise(
        BP_ERROR_RUNTIME,
        "the name \"%s\" comes too late: a plugin registers its names from within "
        "its initialize(), in the thread that it runs in",
        name);
  return set(name, function, override);
}

/* Registers a function of the core. The name may exist: a start that is repeated after a failure
 * finds the names of the previous start. */
int bp__registry_set_call(const char *name, BpPackedCall call) {
  BpFunction *function = bp_function_create(call, NULL, NULL);
  int rc = function ? set_canonical(name, function, 1) : -1;
  bp_object_release(function);
  return rc;
}

/* Removes a name; if `function` is not NULL, only if that function is registered. */
static int unlink_name(const char *name, const BpFunction *function, Garbage *item) {
  Table *table = atomic_load(&current);
  size_t size = strlen(name);
  Slot *slot = table ? find_slot(table, hash_name(name, size), name, size) : NULL;
  Entry *entry = slot ? atomic_load(slot) : NULL;
  if (!entry || (function && entry->function != function))
    return bp_error_raise(BP_ERROR_NOT_FOUND, "no function is registered as \"%s\"", name);
  atomic_store(slot, &tombstone);
  --num_entries;
  throw_away(item, entry, entry->function);
  return 0;
}

static int remove_canonical(const char *name, const BpFunction *function) {
  Garbage *item = malloc(sizeof *item);
  if (!item)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory to remove \"%s\"", name);
  bp__lock(BP__LOCK_STATE);
  int rc = unlink_name(name, function, item);
  Garbage *list = collect_garbage();
  bp__unlock(BP__LOCK_STATE);
  free_garbage(list);
  if (rc)
    free(item);
  return rc;
}

int bp_registry_remove(const char *name) {
  if (check_name(name) || bp__core_start())
    return -1;
  char *ours = canonical_name(name);
  int rc = ours ? remove_canonical(ours, NULL) : -1;
  free(ours);
  return rc;
}

void bp__registry_withdraw(const char *name, const BpFunction *function) {
  BpError *error = bp_error_take();
  remove_canonical(name, function);
  bp_error_put(error);
}

/* ---- Listing ----------------------------------------------------------------------------- */

static int add_names(BpNames *names) {
  Table *table = atomic_load(&current);
  int rc = 0;
  for (size_t i = 0; table && !rc && i <= table->mask; ++i) {
    const Entry *entry = atomic_load(&table->slots[i]);
    if (entry && entry != &tombstone)
      rc = bp__names_add(names, entry->name, entry->name_size);
  }
  return rc;
}

char **bp_registry_list(size_t *count) {
  BpNames names = {.text = NULL};
  if (bp__core_start())
    return NULL;
  bp__lock(BP__LOCK_STATE);
  int rc = add_names(&names);
  bp__unlock(BP__LOCK_STATE);
  if (!rc)
    return bp__names_finish(&names, count);
  bp__names_clear(&names);
  return NULL;
}
