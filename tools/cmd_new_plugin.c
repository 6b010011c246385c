/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane new-plugin`: writes a plugin as a project of its own. The project is one of the SDK's
 * templates, each a working plugin called simdev, with another name in every file and file name. */
#include "tools/command.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include <backplane/plugins.h>

#define LONGEST_NAME 32

/* A text of the template, and its replacement. */
typedef struct Word {
  const char *from;
  char *to; /* owned */
} Word;

typedef struct Project {
  char *sdk;       /* the SDK's folder */
  char *directory; /* the project's final folder */
  char *partial;   /* the folder in which it is written until it is complete */
  GArray *words;   /* of Word */
  GPtrArray *files;
} Project;

/* A kind of plugin: a folder of the SDK. */
typedef struct Kind {
  const char *name;
  const char *folder;
  /* Files that the folder shares with sdk/template, space-separated; the folder has all other
   * files. NULL: the folder is sdk/template. */
  const char *shared;
  const char *has;
} Kind;

static const Kind kinds[] = {
    {"device", "template", NULL, "a device with a compiler for loops"},
    {"npu", "template-npu",
     "gitignore debian tests/conformance-static.c tests/conformance-static.sh tests/conformance.sh "
     "tests/testing.h",
     "an accelerator that claims operators of quantised models"},
};

/* A way to build a project: a folder of the template, and the commands for its users. */
typedef struct Build {
  const char *name;
  const char *package; /* a Debian package */
  const char *howto;
  const char *first_steps;
} Build;

static const Build builds[] = {
    {"autotools", "libtool",
     "    autoreconf -fi\n    ./configure\n    make\n    make check\n    make install",
     "autoreconf -fi && ./configure && make check"},
    {"meson", "meson",
     "    meson setup build\n    meson compile -C build\n    meson test -C build\n"
     "    meson install -C build",
     "meson setup build && meson test -C build"},
};

/* ---- The name ---------------------------------------------------------------------------- */

static gboolean is_well_formed(const char *name) {
  size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789");
  return g_ascii_islower(name[0]) && !name[length] && length >= 2 && length <= LONGEST_NAME;
}

static gboolean has_word(const char *words, const char *word) {
  char **all = g_strsplit(words, " ", -1);
  gboolean has = g_strv_contains((const char *const *)all, word);
  g_strfreev(all);
  return has;
}

/* Says who owns the name already (transfer full); NULL if the name is free. */
static char *find_owner(const char *name, const char *device_types) {
  /* The plugin's C names begin with its name, and Backplane's with bp or backplane. */
  if (has_word("bp backplane", name) || has_word(BP_DEVICE_RESERVED_KINDS, name))
    return g_strdup("Backplane itself");
  char *owner = NULL;
  char **lines = g_strsplit(device_types, "\n", -1);
  for (char **line = lines; *line && !owner; line++) {
    char **fields = g_strsplit(*line, " ", 3);
    if (**line != '#' && g_strv_length(fields) == 3 && strcmp(fields[1], name) == 0)
      owner = g_strdup_printf("the kind of device %s of %s", name, fields[2]);
    g_strfreev(fields);
  }
  g_strfreev(lines);
  BpPluginList *list = bp_plugin_list();
  for (size_t i = 0; !owner && i < bp_plugin_list_size(list); i++) {
    const BpPluginInfo *info = bp_plugin_list_get(list, i);
    if (strcmp(info->name, name) == 0 || has_word(info->devices, name) ||
        has_word(info->targets, name))
      owner = g_strdup_printf("the plugin %s", info->path);
  }
  bp_plugin_list_free(list);
  return owner;
}

/* Returns the device type for a name, in the private range: two names seldom have the same type. */
static int private_device_type(const char *name) {
  guint32 hash = 2166136261u;
  for (const char *p = name; *p; p++)
    hash = (hash ^ (guchar)*p) * 16777619u;
  return BP_DEVICE_PRIVATE_FIRST +
         (int)(hash % (BP_DEVICE_PRIVATE_LAST - BP_DEVICE_PRIVATE_FIRST + 1));
}

/* ---- Writing ----------------------------------------------------------------------------- */

static void add_word(Project *project, const char *from, char *to) {
  const Word word = {from, to};
  g_array_append_val(project->words, word);
}

/* Returns the text with every word replaced (transfer full). */
static char *replace_words(const Project *project, const char *text) {
  char *replaced = g_strdup(text);
  for (guint i = 0; i < project->words->len; i++) {
    const Word *word = &g_array_index(project->words, Word, i);
    char **parts = g_strsplit(replaced, word->from, -1);
    g_free(replaced);
    replaced = g_strjoinv(word->to, parts);
    g_strfreev(parts);
  }
  return replaced;
}

static int fail_on(const char *what, const char *path) {
  return bp_error_raise(BP_ERROR_IO, "cannot %s %s: %s", what, path, g_strerror(errno));
}

/* Raises a GError as an error, and frees it. */
static int fail_with(GError *error) {
  bp_error_raise(BP_ERROR_IO, "%s", error->message);
  g_error_free(error);
  return -1;
}

static int copy_file(const char *from, const char *to, const Project *project) {
  GError *error = NULL;
  char *text = NULL;
  struct stat facts;
  int rc = 0;
  if (g_stat(from, &facts) != 0)
    return fail_on("read", from);
  if (!g_file_get_contents(from, &text, NULL, &error))
    return fail_with(error);
  char *replaced = replace_words(project, text);
  if (!g_file_set_contents(to, replaced, -1, &error))
    rc = fail_with(error);
  else if (g_chmod(to, facts.st_mode & 0111 ? 0755 : 0644) != 0)
    rc = fail_on("write", to);
  g_free(replaced);
  g_free(text);
  return rc;
}

static gboolean is_build(const char *name) {
  for (size_t i = 0; i < G_N_ELEMENTS(builds); i++)
    if (strcmp(builds[i].name, name) == 0)
      return TRUE;
  return FALSE;
}

static int copy_folder(const char *from, const char *to, Project *project);

static int copy_entry(const char *folder, const char *to, const char *name, Project *project) {
  char *source = g_build_filename(folder, name, NULL);
  char *renamed = replace_words(project, strcmp(name, "gitignore") == 0 ? ".gitignore" : name);
  char *target = g_build_filename(to, renamed, NULL);
  int rc;
  if (g_file_test(source, G_FILE_TEST_IS_DIR)) {
    rc = copy_folder(source, target, project);
  } else {
    rc = copy_file(source, target, project);
    g_ptr_array_add(project->files, g_strdup(target + strlen(project->partial) + 1));
  }
  g_free(target);
  g_free(renamed);
  g_free(source);
  return rc;
}

/* Copies the contents of a folder, except for the folders of builds, which are copied
 * separately. */
static int copy_folder(const char *from, const char *to, Project *project) {
  GError *error = NULL;
  GDir *dir = g_dir_open(from, 0, &error);
  int rc = 0;
  if (!dir)
    return fail_with(error);
  if (g_mkdir_with_parents(to, 0755) != 0)
    rc = fail_on("make", to);
  for (const char *name; rc == 0 && (name = g_dir_read_name(dir));)
    if (!is_build(name))
      rc = copy_entry(from, to, name, project);
  g_dir_close(dir);
  return rc;
}

static void remove_folder(const char *path) {
  GDir *dir = g_dir_open(path, 0, NULL);
  for (const char *name; dir && (name = g_dir_read_name(dir));) {
    char *inner = g_build_filename(path, name, NULL);
    if (g_file_test(inner, G_FILE_TEST_IS_DIR))
      remove_folder(inner);
    else
      g_unlink(inner);
    g_free(inner);
  }
  if (dir)
    g_dir_close(dir);
  g_rmdir(path);
}

/* Copies the files that a kind of plugin shares with the template of devices. */
static int copy_shared(Project *project, const Kind *kind) {
  if (!kind->shared)
    return 0;
  char *devices = g_build_filename(project->sdk, kinds[0].folder, NULL);
  char **names = g_strsplit(kind->shared, " ", -1);
  int rc = 0;
  for (char **name = names; *name && rc == 0; name++)
    rc = copy_entry(devices, project->partial, *name, project);
  g_strfreev(names);
  g_free(devices);
  return rc;
}

/* Writes the project next to its final folder and moves it there when it is complete. */
static int write_project(Project *project, const Kind *kind, const Build *build) {
  if (g_file_test(project->directory, G_FILE_TEST_EXISTS))
    return bp_error_raise(BP_ERROR_VALUE,
                          "%s exists already; remove it, or give another --directory",
                          project->directory);
  project->partial = g_strconcat(project->directory, ".XXXXXX", NULL);
  if (!g_mkdtemp_full(project->partial, 0755))
    return fail_on("make", project->partial);
  char *common = g_build_filename(project->sdk, kind->folder, NULL);
  char *own = g_build_filename(common, build->name, NULL);
  int rc = copy_folder(common, project->partial, project);
  if (rc == 0)
    rc = copy_shared(project, kind);
  if (rc == 0)
    rc = copy_folder(own, project->partial, project);
  if (rc == 0 && g_rename(project->partial, project->directory) != 0)
    rc = fail_on("make", project->directory);
  if (rc != 0)
    remove_folder(project->partial);
  g_free(own);
  g_free(common);
  return rc;
}

/* ---- The command ------------------------------------------------------------------------- */

static void set_words(Project *project, const char *name, const Build *build,
                      const char *maintainer) {
  char *capital = g_strdup(name), *number = g_strdup_printf("%d", private_device_type(name));
  GDateTime *now = g_date_time_new_now_utc();
  capital[0] = g_ascii_toupper(capital[0]);
  /* The order prevents a replacement from being taken for a word of the template. */
  add_word(project, G_STRINGIFY(BP_DEVICE_PRIVATE_FIRST), number);
  add_word(project, "simdev", g_strdup(name));
  add_word(project, "SIMDEV", g_ascii_strup(name, -1));
  add_word(project, "Simdev", capital);
  add_word(project, "@date@", g_date_time_format(now, "%a, %d %b %Y %H:%M:%S +0000"));
  add_word(project, "@year@", g_date_time_format(now, "%Y"));
  add_word(project, "@build@", g_strdup(build->package));
  add_word(project, "@howto@", g_strdup(build->howto));
  add_word(project, "@maintainer@",
           maintainer ? g_strdup(maintainer)
                      : g_strdup_printf("Developers of %s <%s@example.org>", name, name));
  g_date_time_unref(now);
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void report(const Project *project, const char *name, const Build *build, gboolean json) {
  g_ptr_array_sort(project->files, compare_names);
  if (!json) {
    command_print(command_out(), "Wrote the plugin %s, %u files, in %s. Next:\n\n  cd %s && %s\n",
                  name, project->files->len, project->directory, project->directory,
                  build->first_steps);
    return;
  }
  json_t *root = json_object(), *files = json_array();
  json_add_str(root, "name", name);
  json_add_str(root, "directory", project->directory);
  for (guint i = 0; i < project->files->len; i++)
    json_append(files, text_json(project->files->pdata[i]));
  json_add(root, "files", files);
  command_print_json(root);
}

/* The folder that the environment names for the SDK; with raised rights none. */
static const char *named_sdk(void) {
  return getauxval(AT_SECURE) ? NULL : g_getenv("BACKPLANE_SDK_DIR");
}

/* 0, or -1 with an error: why the name cannot be used. */
static int check_name(const char *name, const char *sdk) {
  GError *error = NULL;
  g_autofree char *path = g_build_filename(sdk, "device-types.txt", NULL), *device_types = NULL;
  if (!g_file_get_contents(path, &device_types, NULL, &error)) {
    bp_error_raise(BP_ERROR_IO,
                   named_sdk() ? "BACKPLANE_SDK_DIR names no folder of the SDK: %s"
                               : "the SDK is not installed (on Debian: libbackplane-dev), and no "
                                 "BACKPLANE_SDK_DIR names its folder: %s",
                   error->message);
    g_error_free(error);
    return -1;
  }
  g_autofree char *owner = find_owner(name, device_types);
  return owner ? bp_error_raise(BP_ERROR_VALUE, "'%s' is taken by %s; choose another name", name,
                                owner)
               : 0;
}

/* Returns the path without the slashes at its end, so that text appended to it extends the last
 * component (transfer full). */
static char *without_last_slashes(const char *path) {
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/')
    length--;
  return g_strndup(path, length);
}

static int make_project(const char *name, const char *directory, const Kind *kind,
                        const Build *build, const char *maintainer, gboolean json) {
  const char *sdk = named_sdk();
  Project project = {.sdk = g_strdup(sdk && *sdk ? sdk : BP_SDK_DIR),
                     .directory = directory ? without_last_slashes(directory)
                                            : g_strconcat("backplane-plugin-", name, NULL),
                     .words = g_array_new(FALSE, FALSE, sizeof(Word)),
                     .files = g_ptr_array_new_with_free_func(g_free)};
  set_words(&project, name, build, maintainer);
  int status = EXIT_OK;
  if (check_name(name, project.sdk) < 0 || write_project(&project, kind, build) < 0)
    status = command_fail(json);
  else
    report(&project, name, build, json);
  for (guint i = 0; i < project.words->len; i++)
    g_free(g_array_index(project.words, Word, i).to);
  g_array_unref(project.words);
  g_ptr_array_unref(project.files);
  g_free(project.partial);
  g_free(project.directory);
  g_free(project.sdk);
  return status;
}

static const Build *find_build(const char *name) {
  for (size_t i = 0; i < G_N_ELEMENTS(builds); i++)
    if (!name || strcmp(builds[i].name, name) == 0)
      return &builds[i];
  command_usage_error("there is no build '%s': autotools or meson", name);
  return NULL;
}

static const Kind *find_kind(const char *name) {
  for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++)
    if (!name || strcmp(kinds[i].name, name) == 0)
      return &kinds[i];
  command_usage_error("there is no kind of plugin '%s': device (%s) or npu (%s)", name,
                      kinds[0].has, kinds[1].has);
  return NULL;
}

int cmd_new_plugin(int argc, char **argv) {
  gboolean json = FALSE;
  g_autofree char *build_name = NULL, *kind_name = NULL, *directory = NULL, *maintainer = NULL;
  const GOptionEntry entries[] = {
      {"build", 'b', 0, OPTION_TEXT, &build_name, "autotools (the default) or meson", "SYSTEM"},
      {"kind", 'k', 0, OPTION_TEXT, &kind_name,
       "device (the default), with a code generator, or npu, which claims operators", "KIND"},
      {"directory", 'd', 0, G_OPTION_ARG_FILENAME, &directory,
       "folder of the project (default: backplane-plugin-NAME)", "DIR"},
      {"maintainer", 'm', 0, OPTION_TEXT, &maintainer, "maintainer in the Debian package",
       "'NAME <MAIL>'"},
      {"json", 0, 0, G_OPTION_ARG_NONE, &json, "machine-readable output", NULL},
      {NULL, 0, 0, 0, NULL, NULL, NULL}};
  if (!command_parse(
          &argc, &argv, entries, "NAME",
          "Writes a plugin for devices of the kind NAME, as a project of its own: "
          "device, module,\ncode generator or graph compiler, tests and Debian packaging.",
          "The devices are simulated, so the plugin works as written; see "
          "backplane-new-plugin(1).\nBACKPLANE_SDK_DIR names the SDK's folder where it "
          "is not installed."))
    return EXIT_USAGE;
  if (argc != 2)
    return command_usage_error("new-plugin takes one name, as `backplane new-plugin acme`");
  if (!is_well_formed(argv[1]))
    return command_usage_error("'%s' cannot be a plugin's name: it is 2 to %d lower-case letters "
                               "and digits, a letter first",
                               argv[1], LONGEST_NAME);
  const Build *build = find_build(build_name);
  const Kind *kind = build ? find_kind(kind_name) : NULL;
  return kind ? make_project(argv[1], directory, kind, build, maintainer, json) : EXIT_USAGE;
}
