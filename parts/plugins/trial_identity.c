/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of a trial: everything that its result depends on and that is known without loading
 * code: the plugin's file, this library, the helper program, the user, the resource limits and
 * other restrictions, the boot, the loader's view of libraries, and the device nodes, files and
 * variables that the plugin declares. The trial itself finds the libraries that the plugin loads,
 * and the folders in which the loader searches for them; they are kept with its result
 * (trial_cache.c). */

#include "parts/plugins/trial.h"
#include "core/system/env.h"
#include "core/registry/names.h"
#include "core/registry/part.h"

#include <backplane/version.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Patterns ---------------------------------------------------------------------------- */

typedef struct Walk {
  GString *path; /* the path so far, without a '/' at its end */
  int *work;
  void (*visit)(void *context, const char *path);
  void *context;
} Walk;

static void walk(const Walk *from, const char *rest);

/* Continues with the name in the current directory. */
static void enter(const Walk *from, const char *name, size_t length, const char *rest) {
  size_t before = from->path->len;
  g_string_append_c(from->path, '/');
  g_string_append_len(from->path, name, (gssize)length);
  walk(from, rest);
  g_string_truncate(from->path, before);
}

/* The names in a directory that match, sorted (transfer full). */
static GPtrArray *find_names(const Walk *from, const char *pattern) {
  GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
  DIR *stream = opendir(from->path->len ? from->path->str : "/");
  const struct dirent *entry;
  while (stream && *from->work > 0 && (entry = readdir(stream))) {
    --*from->work;
    if (!fnmatch(pattern, entry->d_name, FNM_PERIOD))
      g_ptr_array_add(names, g_strdup(entry->d_name));
  }
  if (stream)
    closedir(stream);
  g_ptr_array_sort(names, bp__names_compare);
  return names;
}

static void enter_all(const Walk *from, const char *pattern, const char *rest) {
  g_autoptr(GPtrArray) names = find_names(from, pattern);
  for (guint i = 0; i<names->len && * from->work> 0; i++) {
    const char *name = g_ptr_array_index(names, i);
    enter(from, name, strlen(name), rest);
  }
}

static void walk(const Walk *from, const char *rest) {
  struct stat status;
  rest += strspn(rest, "/");
  size_t length = strcspn(rest, "/");
  if (!length) {
    const char *path = from->path->len ? from->path->str : "/";
    if ((*from->work)-- > 0 && !lstat(path, &status))
      from->visit(from->context, path);
    return;
  }
  g_autofree char *name = g_strndup(rest, length);
  if (strpbrk(name, "*?[\\"))
    enter_all(from, name, rest + length);
  else
    enter(from, name, length, rest + length);
}

void bp__pattern_visit(const char *pattern, int *work,
                       void (*visit)(void *context, const char *path), void *context) {
  g_autoptr(GString) path = g_string_new(NULL);
  walk(&(Walk){path, work, visit, context}, pattern);
}

/* Calls `visit` for the names in a directory that match; does nothing if the path is not a
 * directory. */
static void visit_inside(const char *directory, int *work,
                         void (*visit)(void *context, const char *path), void *context) {
  g_autoptr(GString) path = g_string_new(directory);
  enter_all(&(Walk){path, work, visit, context}, "*", "");
}

/* ---- Identities -------------------------------------------------------------------------- */

static void append_time(GString *text, struct timespec time) {
  g_string_append_printf(text, " %" PRId64 ".%09ld", (int64_t)time.tv_sec, time.tv_nsec);
}

static void append_status(GString *text, const struct stat *status) {
  g_string_append_printf(text, "%" PRIx64 ":%" PRIu64 " %" PRIu64 " %o %u %u",
                         (uint64_t)status->st_dev, (uint64_t)status->st_ino,
                         (uint64_t)status->st_size, (unsigned)status->st_mode,
                         (unsigned)status->st_uid, (unsigned)status->st_gid);
  append_time(text, status->st_mtim);
  append_time(text, status->st_ctim);
}

/* The times of a device node change with every use, so they are omitted. */
static void append_node(GString *text, const char *path, const struct stat *status) {
  g_string_append_printf(text, "node %" PRIx64 " %o %u %u %d", (uint64_t)status->st_rdev,
                         (unsigned)status->st_mode, (unsigned)status->st_uid,
                         (unsigned)status->st_gid, access(path, R_OK | W_OK));
}

void bp__identity_append(GString *text, const char *path) {
  struct stat status;
  if (stat(path, &status))
    g_string_append(text, "absent");
  else if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode))
    append_node(text, path, &status);
  else
    append_status(text, &status);
  g_string_append_c(text, '\n');
}

/* The text to which the paths that match patterns are appended. */
typedef struct Watched {
  GString *text;
  int work; /* the rest of BP_PATTERN_WORK */
} Watched;

static void append_path(void *context, const char *path) {
  Watched *watched = context;
  g_string_append_printf(watched->text, "%s ", path);
  bp__identity_append(watched->text, path);
}

static void append_tree(void *context, const char *path) {
  Watched *watched = context;
  append_path(watched, path);
  if (g_file_test(path, G_FILE_TEST_IS_DIR))
    visit_inside(path, &watched->work, append_path, watched);
}

static void append_patterns(Watched *watched, const char *list,
                            void (*append)(void *context, const char *path)) {
  size_t length = 0;
  for (const char *word = list; (word = bp__words_next(word, &length));) {
    g_autofree char *pattern = g_strndup(word, length);
    g_string_append_printf(watched->text, "%s\n", pattern);
    bp__pattern_visit(pattern, &watched->work, append, watched);
  }
}

static void append_variable(GString *text, const char *name) {
  const char *value = bp__env_get(name);
  g_string_append_printf(text, "%s=%s\n", name, value ? value : "");
}

static void append_variables(GString *text, const char *list) {
  size_t length = 0;
  for (const char *word = list; (word = bp__words_next(word, &length));) {
    g_autofree char *name = g_strndup(word, length);
    append_variable(text, name);
  }
}

/* If a library is added or removed, a folder or file of the loader changes. The trial finds what
 * the files of plugins and libraries add. */
static void append_loader(GString *text) {
  static const char places[][20] = {
      "/etc/ld.so.cache", "/etc/ld.so.preload", "/lib",          "/usr/lib",
      "/lib64",           "/usr/lib64",         "/usr/local/lib"};
  Watched watched = {text, BP_PATTERN_WORK};
  append_variable(text, "LD_LIBRARY_PATH");
  append_variable(text, "LD_PRELOAD");
  for (size_t i = 0; i < G_N_ELEMENTS(places); i++)
    bp__identity_append(text, places[i]);
  append_patterns(&watched, "/usr/lib/*-linux-*", append_path);
  const char *path = bp__env_get("LD_LIBRARY_PATH");
  g_auto(GStrv) directories = g_strsplit_set(path ? path : "", ":;", -1);
  for (char **directory = directories; *directory; directory++)
    bp__identity_append(text, **directory ? *directory : ".");
}

/* Limits that a trial inherits from this process. A limit of at least `enough` counts as none. */
static void append_limits(GString *text) {
  static const struct {
    __rlimit_resource_t resource;
    rlim_t enough;
  } limits[] = {
      {RLIMIT_STACK, 8 << 20},    {RLIMIT_AS, RLIM_INFINITY}, {RLIMIT_DATA, RLIM_INFINITY},
      {RLIMIT_NOFILE, 1024},      {RLIMIT_NPROC, 1024},       {RLIMIT_MEMLOCK, 64 << 20},
      {RLIMIT_FSIZE, 256u << 20}, {RLIMIT_CPU, 3600},
  };
  g_string_append(text, "limits");
  for (size_t i = 0; i < G_N_ELEMENTS(limits); i++) {
    struct rlimit now = {.rlim_cur = RLIM_INFINITY};
    getrlimit(limits[i].resource, &now);
    g_string_append_printf(text, " %llx", (unsigned long long)MIN(now.rlim_cur, limits[i].enough));
  }
  g_string_append_c(text, '\n');
}

static void append_user(GString *text) {
  int count = getgroups(0, NULL);
  g_autofree gid_t *groups = g_new(gid_t, MAX(count, 1));
  count = getgroups(count, groups);
  g_string_append_printf(text, "user %u:%u", (unsigned)geteuid(), (unsigned)getegid());
  for (int i = 0; i < count; i++)
    g_string_append_printf(text, " %u", (unsigned)groups[i]);
  g_string_append_c(text, '\n');
}

/* Restrictions that a trial inherits from this thread: capabilities, the number of filters of
 * system calls, the label of a security module, and whether written memory may become executable.
 */
static void append_restrictions(GString *text) {
  static const char *const names[] = {
      "CapEff:", "CapBnd:", "CapAmb:", "Seccomp:", "Seccomp_filters:", "NoNewPrivs:"};
  enum { GET_MDWE = 66 }; /* PR_GET_MDWE of Linux 6.3, which older headers lack */
  g_autofree char *status = NULL, *label = NULL;
  g_string_append_printf(text, "mdwe %d\n", prctl(GET_MDWE, 0UL, 0UL, 0UL, 0UL) > 0);
  if (g_file_get_contents("/proc/thread-self/attr/current", &label, NULL, NULL))
    g_string_append_printf(text, "label %s\n", label);
  if (!g_file_get_contents("/proc/thread-self/status", &status, NULL, NULL))
    return;
  char *rest = status;
  for (const char *line; (line = bp__line_next(&rest));)
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
      if (g_str_has_prefix(line, names[i]))
        g_string_append_printf(text, "%s\n", line);
}

static void append_host(GString *text) {
  char *core = bp__own_library();
  Dl_info self; /* this part */
  g_autofree char *boot = NULL;
  g_string_append_printf(text, "backplane %s abi %s\n", bp_version(), BP_ABI_TEXT);
  if (core)
    bp__identity_append(text, core);
  if (dladdr(__extension__(const void *) bp__plugin_key, &self))
    bp__identity_append(text, self.dli_fname);
  free(core);
  bp__identity_append(text, bp__trial_program());
  if (g_file_get_contents("/proc/sys/kernel/random/boot_id", &boot, NULL, NULL))
    g_string_append(text, boot);
  append_user(text);
  append_limits(text);
  append_restrictions(text);
}

static void hash_text(const GString *text, char hash[BP_HASH_TEXT]) {
  g_autofree char *sum = g_compute_checksum_for_string(G_CHECKSUM_SHA256, text->str, -1);
  g_strlcpy(hash, sum, BP_HASH_TEXT);
}

void bp__plugin_key(const Plugin *plugin, char key[BP_HASH_TEXT]) {
  const Descriptor *descriptor = &plugin->descriptor;
  g_autoptr(GString) text = g_string_new(plugin->path);
  g_string_append_c(text, '\n');
  append_status(text, &plugin->status);
  g_string_append_c(text, '\n');
  append_host(text);
  append_loader(text);
  append_variables(text, descriptor->variables);
  hash_text(text, key);
}

void bp__plugin_watched(const Plugin *plugin, char hash[BP_HASH_TEXT]) {
  g_autoptr(GString) text = g_string_new(NULL);
  Watched watched = {text, BP_PATTERN_WORK};
  append_patterns(&watched, plugin->descriptor.nodes, append_path);
  append_patterns(&watched, plugin->descriptor.files, append_tree);
  hash_text(text, hash);
}
