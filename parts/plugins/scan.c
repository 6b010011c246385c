/* SPDX-License-Identifier: Apache-2.0 */
/* The search path, and the store of the plugins found.
 *
 * The path is searched once, when a plugin is first needed, and again by bp_plugin_list() and by
 * bp_plugin_activate() of an unknown name; a look-up of a missing registry name does not search. A
 * file that has not changed since keeps its record. */

#include "parts/plugins/store.h"

#include "parts/plugins/isolate.h"
#include "core/registry/log.h"
#include "core/registry/names.h"
#include "core/system/env.h"
#include "core/system/lock.h"
#include "core/system/trust.h"

#include <backplane/error.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static struct {
  pthread_cond_t changed;
  GPtrArray *known;        /* Plugin: every record ever made */
  GPtrArray *added;        /* Plugin: linked in, on another machine, or given by path */
  int added_since;         /* a plugin was added after the last search */
  int search_nothing;      /* this process tries one plugin only */
  char *shortage;          /* why the last search lacked descriptors or memory; or NULL */
  GPtrArray *order;        /* Plugin: the last search; NULL before the first */
  GHashTable *by_name;     /* name -> GPtrArray of Plugin, in search order */
  GHashTable *by_provided; /* registry name -> GPtrArray of Plugin, in search order */
  GPtrArray *problems;     /* SearchProblem: of the last search */
  GPtrArray *unknown;      /* SearchProblem: BACKPLANE_ISOLATE's, after a search; NULL before */
} plugins = {.changed = PTHREAD_COND_INITIALIZER};

/* A search in progress. */
typedef struct Scan {
  GPtrArray *order;
  GHashTable *by_name;
  GHashTable *by_provided;
  GPtrArray *directories; /* struct stat: directories already searched */
  GPtrArray *problems;    /* SearchProblem */
  char *shortage;         /* the first shortage of descriptors or memory; or NULL */
  GPtrArray *infos;       /* messages about one plugin, logged after the lock is released */
  GPtrArray *warnings;    /* messages about the path itself, logged after the lock is released */
} Scan;

void bp__plugins_lock(void) {
  bp__lock(BP__LOCK_PLUGINS);
}

void bp__plugins_unlock(void) {
  bp__unlock(BP__LOCK_PLUGINS);
}

void bp__plugins_wait(void) {
  bp__lock_wait(BP__LOCK_PLUGINS, &plugins.changed);
}

void bp__plugins_wake(void) {
  pthread_cond_broadcast(&plugins.changed);
}

GPtrArray *bp__plugins_all(void) {
  return plugins.order;
}

GPtrArray *bp__plugins_that_provide(const char *registry_name) {
  return g_hash_table_lookup(plugins.by_provided, registry_name);
}

GPtrArray *bp__plugins_named(const char *name) {
  return g_hash_table_lookup(plugins.by_name, name);
}

const Plugin *bp__plugin_rival(const Plugin *plugin) {
  const GPtrArray *namesakes = bp__plugins_named(plugin->descriptor.name);
  const Plugin *first = NULL;
  int is_before = 1;
  for (guint i = 0; namesakes && i < namesakes->len; i++) {
    const Plugin *other = g_ptr_array_index(namesakes, i);
    if (other->host != plugin->host)
      continue;
    if (other == plugin)
      is_before = 0;
    else if (other->state == BP_PLUGIN_ACTIVE || other->state == BP_PLUGIN_INITIALISING)
      return other;
    else if (is_before && !first && other->state == BP_PLUGIN_FOUND)
      first = other;
  }
  return first;
}

static SearchProblem *create_problem(Reason reason, const char *path, const char *text) {
  SearchProblem *problem = g_new(SearchProblem, 1);
  *problem = (SearchProblem){reason, g_strdup(path), g_strdup(text)};
  return problem;
}

static void free_problem(void *data) {
  SearchProblem *problem = data;
  g_free(problem->path);
  g_free(problem->text);
  g_free(problem);
}

static GPtrArray *create_problems(void) {
  return g_ptr_array_new_with_free_func(free_problem);
}

static int has_problem(const GPtrArray *problems, Reason reason, const char *path,
                       const char *text) {
  int is_there = 0;
  for (guint i = 0; problems && i < problems->len && !is_there; i++) {
    const SearchProblem *problem = g_ptr_array_index(problems, i);
    is_there =
        problem->reason == reason && !strcmp(problem->path, path) && !strcmp(problem->text, text);
  }
  return is_there;
}

static void copy_problems(GPtrArray *copy, const GPtrArray *problems) {
  for (guint i = 0; problems && i < problems->len; i++) {
    const SearchProblem *problem = g_ptr_array_index(problems, i);
    g_ptr_array_add(copy, create_problem(problem->reason, problem->path, problem->text));
  }
}

GPtrArray *bp__plugins_problems(void) {
  GPtrArray *copy = create_problems();
  bp__plugins_lock();
  copy_problems(copy, plugins.problems);
  copy_problems(copy, plugins.unknown);
  bp__plugins_unlock();
  return copy;
}

static void add_to(GPtrArray **array, Plugin *plugin) {
  if (!*array)
    *array = g_ptr_array_new();
  g_ptr_array_add(*array, plugin);
}

static void say(GPtrArray *messages, const char *format, ...) BP_PRINTF(2, 3);
static void say(GPtrArray *messages, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  g_ptr_array_add(messages, g_strdup_vprintf(format, arguments));
  va_end(arguments);
}

/* ---- One plugin -------------------------------------------------------------------------- */

static const char *where(const char *path) {
  return *path ? path : "the program itself";
}

char *bp__plugin_describe_shadow(const char *name, const char *path) {
  return g_strdup_printf("another plugin \"%s\", of %s, comes first", name, where(path));
}

/* Adds a plugin to the plugins of a name; returns the list. */
static const GPtrArray *index_under(GHashTable *index, const char *name, size_t length,
                                    Plugin *plugin) {
  g_autofree char *key = g_strndup(name, length);
  GPtrArray *plugins_of_name = g_hash_table_lookup(index, key);
  if (!plugins_of_name) {
    plugins_of_name = g_ptr_array_new();
    g_hash_table_insert(index, g_steal_pointer(&key), plugins_of_name);
  }
  g_ptr_array_add(plugins_of_name, plugin);
  return plugins_of_name;
}

/* Returns the first plugin that was not rejected; the list has one. */
static const Plugin *first_of(const GPtrArray *some) {
  guint first = 0;
  while (((Plugin *)g_ptr_array_index(some, first))->state == BP_PLUGIN_REJECTED)
    first++;
  return g_ptr_array_index(some, first);
}

static void index_provided(Scan *scan, Plugin *plugin, int is_new) {
  size_t length = 0;
  for (const char *word = plugin->descriptor.provides; (word = bp__words_next(word, &length));) {
    const Plugin *first = first_of(index_under(scan->by_provided, word, length, plugin));
    if (is_new && strcmp(first->descriptor.name, plugin->descriptor.name))
      say(scan->infos,
          "plugin \"%s\" (%s) and plugin \"%s\" (%s) both provide %.*s; the first that can be "
          "used is",
          first->descriptor.name, where(first->path), plugin->descriptor.name, where(plugin->path),
          (int)length, word);
  }
}

static void say_unused(Scan *scan, const Plugin *plugin, const char *reason) {
  say(scan->infos, "plugin %s is not used: %s", where(plugin->path), reason);
}

static void note_shortage(Scan *scan, const char *path, const char *text) {
  if (!scan->shortage)
    scan->shortage = g_strdup_printf("%s %s", path, text);
}

static void enter(Scan *scan, Plugin *plugin, int is_new) {
  const Descriptor *descriptor = &plugin->descriptor;
  if (g_ptr_array_find(scan->order, plugin, NULL))
    return;
  g_ptr_array_add(scan->order, plugin);
  if (plugin->code == REASON_RESOURCES && bp__plugin_is_unread(plugin))
    note_shortage(scan, plugin->path, plugin->reason);
  const GPtrArray *namesakes =
      index_under(scan->by_name, descriptor->name, strlen(descriptor->name), plugin);
  if (is_new && plugin->reason)
    say_unused(scan, plugin, plugin->reason);
  if (plugin->state == BP_PLUGIN_REJECTED)
    return;
  index_provided(scan, plugin, is_new);
  const Plugin *first = first_of(namesakes);
  if (is_new && first != plugin) {
    g_autofree char *shadow = bp__plugin_describe_shadow(descriptor->name, first->path);
    say_unused(scan, plugin, shadow);
  }
}

/* ---- Files and directories --------------------------------------------------------------- */

/* Returns the existing record of an unchanged file, or of an active plugin even if its file has
 * changed. */
static Plugin *find_known(int directory, const char *name, const char *path) {
  struct stat status;
  if (fstatat(directory, name, &status, 0))
    status = (struct stat){0}; /* stat fails for a dangling link, too */
  for (guint i = 0; plugins.known && i < plugins.known->len; i++) {
    Plugin *plugin = g_ptr_array_index(plugins.known, i);
    int is_running = plugin->state == BP_PLUGIN_ACTIVE || plugin->state == BP_PLUGIN_INITIALISING;
    if (!strcmp(plugin->path, path) && !bp__plugin_is_unread(plugin) &&
        (is_running || bp__plugin_is_file(plugin, &status)))
      return plugin;
  }
  return NULL;
}

/* Returns the earlier record of a file that could not be read for the same reason, because records
 * are never freed. */
static Plugin *find_unread(const Plugin *unread) {
  for (guint i = 0; plugins.known && i < plugins.known->len; i++) {
    Plugin *plugin = g_ptr_array_index(plugins.known, i);
    if (bp__plugin_is_unread(plugin) && !strcmp(plugin->path, unread->path) &&
        !strcmp(plugin->reason, unread->reason))
      return plugin;
  }
  return NULL;
}

/* A file in a directory that is being searched. */
typedef struct Entry {
  Plugin *plugin;
  int is_new;
} Entry;

/* Makes a record of the present file. */
static Entry read_anew(int directory, const char *name, const char *path, const char *problem) {
  Plugin *plugin = bp__plugin_read(directory, name, path, problem);
  Plugin *before = bp__plugin_is_unread(plugin) ? find_unread(plugin) : NULL;
  if (before) {
    bp__plugin_free(plugin);
    return (Entry){before, 0};
  }
  add_to(&plugins.known, plugin);
  return (Entry){plugin, 1};
}

static void read_entry(int directory, const char *folder, const char *name, const char *problem,
                       GArray *found) {
  g_autofree char *path = g_strconcat(folder, "/", name, NULL);
  Entry entry = {find_known(directory, name, path), 0};
  if (!entry.plugin)
    entry = read_anew(directory, name, path, problem);
  g_array_append_val(found, entry);
}

/* Orders by descending priority, then by file name, independently of the directory's order. */
static int compare_entries(const void *a, const void *b) {
  const Plugin *first = ((const Entry *)a)->plugin, *second = ((const Entry *)b)->plugin;
  int priorities =
      bp__descriptor_priority(&second->descriptor) - bp__descriptor_priority(&first->descriptor);
  return priorities ? priorities : strcmp(first->path, second->path);
}

/* Returns the next entry of a directory; NULL at its end, with errno if the rest cannot be read. */
static const struct dirent *read_next(DIR *stream) {
  errno = 0;
  return readdir(stream);
}

/* Returns 0, or the errno of a failure after which the directory may contain further files. */
static int scan_files(Scan *scan, DIR *stream, const char *path, const char *problem) {
  g_autoptr(GArray) found = g_array_new(FALSE, FALSE, sizeof(Entry));
  for (const struct dirent *entry; (entry = read_next(stream));) {
    if (!g_str_has_suffix(entry->d_name, ".so") || entry->d_name[0] == '.')
      continue;
    read_entry(dirfd(stream), path, entry->d_name, problem, found);
  }
  int error = errno;
  g_array_sort(found, compare_entries);
  for (guint i = 0; i < found->len; i++) {
    const Entry *entry = &g_array_index(found, Entry, i);
    enter(scan, entry->plugin, entry->is_new);
  }
  return error;
}

static int was_searched(Scan *scan, const struct stat *status) {
  for (guint i = 0; i < scan->directories->len; i++) {
    const struct stat *other = g_ptr_array_index(scan->directories, i);
    if (other->st_dev == status->st_dev && other->st_ino == status->st_ino)
      return 1;
  }
  g_ptr_array_add(scan->directories, g_memdup2(status, sizeof *status));
  return 0;
}

/* Logs a problem that the previous search did not have. `path` is that of a directory. */
static void add_problem(Scan *scan, Reason reason, const char *path, const char *text) {
  if (!has_problem(plugins.problems, reason, path, text))
    say(scan->warnings, "plugin directory %s: %s", path, text);
  g_ptr_array_add(scan->problems, create_problem(reason, path, text));
}

static void add_unreadable(Scan *scan, const char *path, int error) {
  g_autofree char *text = g_strdup_printf("it cannot be searched: %s", strerror(error));
  if (bp__errno_passes(error))
    note_shortage(scan, path, text);
  add_problem(scan, REASON_DIRECTORY_UNREADABLE, path, text);
}

static int scan_stream(Scan *scan, DIR *stream, const char *path) {
  struct stat status;
  if (fstat(dirfd(stream), &status))
    return errno;
  if (was_searched(scan, &status))
    return 0;
  char *problem = bp__path_problem(path);
  int error = scan_files(scan, stream, path, problem);
  free(problem);
  return error;
}

/* A directory that the user named should exist; the standard directories need not. */
static void scan_directory(Scan *scan, const char *path, int asked_for) {
  DIR *stream = opendir(path);
  int error = stream ? scan_stream(scan, stream, path) : errno;
  if (error && (asked_for || error != ENOENT))
    add_unreadable(scan, path, error);
  if (stream)
    closedir(stream);
}

static void scan_user_directory(Scan *scan) {
  g_autofree char *data = bp__env_user_folder("XDG_DATA_HOME", ".local/share");
  g_autofree char *path = data ? g_strconcat(data, "/" BP_PLUGIN_FOLDER, NULL) : NULL;
  if (path)
    scan_directory(scan, path, 0);
}

static void scan_path(Scan *scan) {
  const char *list = bp__env_get("BACKPLANE_PLUGIN_PATH");
  g_auto(GStrv) paths = g_strsplit(list ? list : "", ":", -1);
  for (char **path = paths; *path; path++)
    if (**path == '/')
      scan_directory(scan, *path, 1);
    else if (**path) /* a relative path would depend on the current directory */
      add_problem(scan, REASON_DIRECTORY_RELATIVE, *path,
                  "it is relative and left out; write it as an absolute path");
  scan_user_directory(scan);
  scan_directory(scan, BP_SYSTEM_PLUGIN_DIR, 0);
}

/* ---- The store --------------------------------------------------------------------------- */

typedef enum Origin { FROM_PROGRAM, FROM_PATH, FROM_MACHINE } Origin;

static Origin origin_of(const Plugin *plugin) {
  return plugin->entry ? FROM_PROGRAM : plugin->host ? FROM_MACHINE : FROM_PATH;
}

static void enter_added(Scan *scan, Origin origin) {
  for (guint i = 0; plugins.added && i < plugins.added->len; i++) {
    Plugin *plugin = g_ptr_array_index(plugins.added, i);
    if (origin_of(plugin) == origin)
      enter(scan, plugin, 0);
  }
}

static GHashTable *create_index(void) {
  return g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_ptr_array_unref);
}

/* ---- Forks ------------------------------------------------------------------------------- */

/* In the child of a fork, an initialisation by another thread never ends. */
static void after_fork_in_child(void) {
  bp__remote_after_fork();
  plugins.changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
  for (guint i = 0; plugins.known && i < plugins.known->len; i++) {
    Plugin *plugin = g_ptr_array_index(plugins.known, i);
    if (plugin->state != BP_PLUGIN_INITIALISING || pthread_equal(plugin->owner, pthread_self()))
      continue;
    plugin->state = BP_PLUGIN_FAILED;
    plugin->code = REASON_FORKED;
    plugin->reason = g_strdup("the process was forked while it initialised");
  }
}

/* ---- Searching --------------------------------------------------------------------------- */

/* Plugins linked into the program come first; plugins given by path come last, before those of
 * other machines. */
static void search(Scan *scan) {
  static BpForkHook hook = {after_fork_in_child, NULL};
  bp__fork_hook_add(&hook);
  plugins.added_since = 0;
  scan->order = g_ptr_array_new();
  scan->by_name = create_index();
  scan->by_provided = create_index();
  scan->directories = g_ptr_array_new_with_free_func(g_free);
  scan->problems = create_problems();
  enter_added(scan, FROM_PROGRAM);
  if (!plugins.search_nothing)
    scan_path(scan);
  enter_added(scan, FROM_PATH);
  enter_added(scan, FROM_MACHINE);
  g_ptr_array_unref(scan->directories);
  if (plugins.order) {
    g_ptr_array_unref(plugins.order);
    g_hash_table_unref(plugins.by_name);
    g_hash_table_unref(plugins.by_provided);
    g_ptr_array_unref(plugins.problems);
  }
  g_free(plugins.shortage);
  plugins.shortage = scan->shortage;
  plugins.problems = scan->problems;
  plugins.order = scan->order;
  plugins.by_name = scan->by_name;
  plugins.by_provided = scan->by_provided;
}

static void log_all(int32_t level, GPtrArray *messages) {
  for (guint i = 0; i < messages->len; i++)
    bp__log(level, "%s", (const char *)g_ptr_array_index(messages, i));
  g_ptr_array_unref(messages);
}

/* ---- Words of BACKPLANE_ISOLATE ---------------------------------------------------------- */

static void add_unknown(void *context, const char *text) {
  g_ptr_array_add(context, create_problem(REASON_ISOLATION_UNKNOWN, "BACKPLANE_ISOLATE", text));
}

/* Logs the words that the previous search did not have. Called without the lock, because it may
 * load a part. */
static void check_isolation(Scan *scan, const GPtrArray *order) {
  GPtrArray *unknown = create_problems();
  bp__isolate_check(order, add_unknown, unknown);
  bp__plugins_lock();
  for (guint i = 0; i < unknown->len; i++) {
    const SearchProblem *problem = g_ptr_array_index(unknown, i);
    if (!has_problem(plugins.unknown, problem->reason, problem->path, problem->text))
      say(scan->warnings, "%s: %s", problem->path, problem->text);
  }
  GPtrArray *before = plugins.unknown;
  plugins.unknown = unknown;
  bp__plugins_unlock();
  if (before)
    g_ptr_array_unref(before);
}

/* ---- Searches ---------------------------------------------------------------------------- */

static void scan_and_log(int again, int32_t level_of_problems) {
  Scan scan = {.infos = g_ptr_array_new_with_free_func(g_free),
               .warnings = g_ptr_array_new_with_free_func(g_free)};
  g_autoptr(GPtrArray) order = NULL;
  bp__remote_search();
  bp__plugins_lock();
  if (again || !plugins.order || plugins.added_since || plugins.shortage) {
    search(&scan);
    order = plugins.search_nothing ? NULL : g_ptr_array_copy(plugins.order, NULL, NULL);
  }
  bp__plugins_unlock();
  if (order)
    check_isolation(&scan, order);
  log_all(BP_LOG_INFO, scan.infos);
  log_all(level_of_problems, scan.warnings);
}

void bp__plugins_scan(int again) {
  scan_and_log(again, BP_LOG_WARNING);
}

void bp__plugins_scan_for_report(void) {
  scan_and_log(1, BP_LOG_INFO);
}

int bp__plugins_check_search(void) {
  bp__plugins_lock();
  g_autofree char *shortage = g_strdup(plugins.shortage);
  bp__plugins_unlock();
  return shortage ? bp_error_raise(BP_ERROR_PLUGIN, "not all plugins could be read: %s", shortage)
                  : 0;
}

void bp__plugins_add(Plugin *plugin) {
  add_to(&plugins.known, plugin);
  add_to(&plugins.added, plugin);
  plugins.added_since = 1;
}

void bp__plugins_search_nothing(void) {
  plugins.search_nothing = 1;
}
