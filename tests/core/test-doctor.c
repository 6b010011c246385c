/* SPDX-License-Identifier: Apache-2.0 */
/* The reason codes: for each, a plugin in this test that shows it, and its diagnosis. */

#include "tests/core/defects.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <elf.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#define FOREIGN_ISA "sve"
#else
#define FOREIGN_ISA "x86-64-v3"
#endif
#if defined(__SANITIZE_THREAD__)
#define FOREIGN_SANITIZER "address"
#else
#define FOREIGN_SANITIZER "thread"
#endif

/* A file of the directory and its expected finding. */
typedef struct Case {
  const char *file;
  const char *code;
  const char *text;   /* a part of the text */
  const char *remedy; /* a part of the remedy */
} Case;

static const Case cases[] = {
    {"good.so", "ok", "", ""},
    {"z-shadowed.so", "shadowed", "good.so", "BACKPLANE_PLUGIN_PATH"},
    {"dangling.so", "file-missing", "No such file", "remove the link"},
    {"directory.so", "file-not-regular", "not a regular file", "remove it"},
    {"not-elf.so", "file-not-elf", "not an ELF file", "remove it"},
    {"program.so", "file-not-shared", "no shared object", "-shared"},
    {"malformed.so", "file-malformed", "program headers", "install the package again"},
    {"truncated.so", "file-truncated", "is truncated", "install the package again"},
    {"no-note.so", "descriptor-missing", "no Backplane descriptor", "BP_PLUGIN_DESCRIPTOR"},
    {"bad-key.so", "descriptor-malformed", "twice", "maker"},
    {"no-license.so", "descriptor-incomplete", "license", "maker"},
    {"old-abi.so", "abi-too-old", "plugin ABI 0.7", "newer build of the plugin"},
    {"new-abi.so", "abi-too-new", "plugin ABI 1.9", "newer backplane"},
    {"next-abi.so", "abi-too-new", "plugin ABI 2.0", "newer backplane"},
    {"sparc.so", "other-architecture", "another machine", "for this architecture"},
    {"cpu.so", "cpu-too-old", FOREIGN_ISA, "older CPU"},
    {"unknown-cpu.so", "cpu-too-old", "cannot look for", "older CPU"},
    {"sanitizer.so", "sanitizer-mismatch", "sanitizer", "rebuild"},
    {"writable.so", "path-writable", "others may write to it", "chmod go-w"},
    {"unlinked.so", "dependency-missing", "libq", "holds libq"},
    {"undefined.so", "load-failed", "undefined symbol", "build of the plugin"},
    {"vendor.so", "library-missing", "libq.so.6", "install the package defect-driver"},
    {"vendors.so", "library-missing", "libq1.so", "package that holds libq1.so or libq2.so"},
    {"no-node.so", "node-missing", "there is no /dev/nonexistent", "kernel driver"},
    {"no-entry.so", "entry-missing", "bp_plugin_entry_defect_", "maker"},
    {"entry-fail.so", "entry-failed", "entry point failed", "matches this host"},
    {"entry-abi.so", "entry-other-abi", "plugin ABI 7.0", "matches this host"},
    {"no-initialize.so", "initialize-missing", "no initialize", "maker"},
    {"init-fail.so", "initialize-failed", "no such hardware", "plugin's own text"},
    {"register-less.so", "name-not-registered", "add_one", "maker"},
    {"crash.so", "crashed", "signal 11", "backplane doctor"},
    {"sleep.so", "timed-out", "while it initialised", "BACKPLANE_PLUGIN_DEADLINE"},
    {"exit.so", "exited", "exit 0", "backplane doctor"},
    {"stop.so", "stopped", "signal 19", "backplane doctor"},
    {"double-fork.so", "leaves-processes", "left processes behind", "backplane doctor"},
    {"kill-parent.so", "trial-garbled", "helper program was killed", "backplane doctor"},
    {"many-devices.so", "trial-garbled", "more than 256 KiB", "backplane doctor"},
    {"devices-fail.so", "devices-failed", "the bus is gone", "plugin's own text"},
    {"devices-none.so", "devices-none", "nothing is plugged in", "own text"},
    {"devices-odd.so", "devices-none", "\357\277\275 nothing is plugged in", "own text"},
    {"device-unusable.so", "device-unusable", "A defect", "other users of the device"},
};

/* Reason codes that other tests cover: of the search path, of processes with raised rights or
 * without /proc, of forks, of names that the program itself took, of users without rights, of
 * containers, of selection. */
static const char *const seen_elsewhere[] = {"directory-unreadable",
                                             "directory-relative",
                                             "file-unreadable",
                                             "path-refused",
                                             "resources-short",
                                             "file-changed",
                                             "proc-missing",
                                             "node-denied",
                                             "name-taken",
                                             "helper-missing",
                                             "trial-impossible",
                                             "forked",
                                             "isolation-impossible",
                                             "isolation-unknown",
                                             "remote-unreachable",
                                             "not-selected",
                                             "selection-failed",
                                             "code-failed",
                                             "cache-home-unwritable",
                                             "container-without-devices"};

static BpPluginDiagnosis *diagnosis;
static GString *messages; /* the log of the diagnosis */

static void keep_message(void *context, int32_t level, const char *message) {
  (void)context;
  if (level >= BP_LOG_WARNING)
    g_string_append_printf(messages, "%s\n", message);
}

/* Returns the worst finding about a file; the first of equals. */
static const BpPluginFinding *find_worst(const char *file) {
  const BpPluginFinding *worst = NULL;
  g_autofree char *path = plugin_file_path(file);
  for (size_t i = 0; i < bp_plugin_diagnosis_size(diagnosis); i++) {
    const BpPluginFinding *finding = bp_plugin_diagnosis_get(diagnosis, i);
    if (!strcmp(finding->path, path) && (!worst || finding->severity > worst->severity))
      worst = finding;
  }
  return worst;
}

static void test_code(gconstpointer data) {
  const Case *expected = data;
  const BpPluginFinding *finding = find_worst(expected->file);
  g_assert_nonnull(finding);
  if (strcmp(finding->code, expected->code) || !strstr(finding->text, expected->text) ||
      !strstr(finding->remedy, expected->remedy))
    g_error("%s: %s: %s -> %s", expected->file, finding->code, finding->text, finding->remedy);
}

static void test_every_code_has_a_plugin(void) {
  const BpPluginReason *reason;
  size_t count = 0;
  for (; (reason = bp_plugin_reason(count)); count++) {
    size_t i = 0, j = 0;
    while (i < G_N_ELEMENTS(cases) && strcmp(cases[i].code, reason->code))
      i++;
    while (j < G_N_ELEMENTS(seen_elsewhere) && strcmp(seen_elsewhere[j], reason->code))
      j++;
    if (i == G_N_ELEMENTS(cases) && j == G_N_ELEMENTS(seen_elsewhere))
      g_error("no plugin here shows %s", reason->code);
    if (count && (!*reason->meaning || !*reason->remedy))
      g_error("%s has no meaning or no remedy", reason->code);
  }
  g_assert_cmpint(count, >=, 25);
}

static void test_stages_are_in_order(void) {
  const char *last_path = "";
  int32_t last_stage = 0;
  for (size_t i = 0; i < bp_plugin_diagnosis_size(diagnosis); i++) {
    const BpPluginFinding *finding = bp_plugin_diagnosis_get(diagnosis, i);
    g_assert_true(strcmp(finding->path, last_path) || finding->stage >= last_stage);
    last_path = finding->path;
    last_stage = finding->stage;
  }
  g_assert_null(bp_plugin_diagnosis_get(diagnosis, bp_plugin_diagnosis_size(diagnosis)));
  bp_error_clear();
}

static void test_no_stage_without_a_text(void) {
  for (size_t i = 0; i < bp_plugin_diagnosis_size(diagnosis); i++) {
    const BpPluginFinding *finding = bp_plugin_diagnosis_get(diagnosis, i);
    if (!*finding->text || *finding->text == ' ' || *finding->text == ',')
      g_error("%s: stage %d says \"%s\"", finding->path, finding->stage, finding->text);
  }
}

static void test_no_diagnosis_is_an_error(void) {
  g_assert_cmpint(bp_plugin_diagnosis_size(NULL), ==, 0);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  bp_error_clear();
  g_assert_null(bp_plugin_diagnosis_get(NULL, 0));
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  bp_error_clear();
}

/* A good plugin passes every stage up to its devices. */
static void test_good_plugin_passes_every_stage(void) {
  unsigned stages = 0;
  g_autofree char *path = plugin_file_path("good.so");
  for (size_t i = 0; i < bp_plugin_diagnosis_size(diagnosis); i++) {
    const BpPluginFinding *finding = bp_plugin_diagnosis_get(diagnosis, i);
    if (!strcmp(finding->path, path))
      stages |= 1u << finding->stage;
  }
  g_assert_cmpint(stages, ==, (1u << (BP_STAGE_DEVICES + 1)) - 1);
}

/* A plugin that other users may change is used by a process without raised rights. */
static void test_writable_plugin_is_reported_and_tried(void) {
  g_autofree char *path = plugin_file_path("writable.so");
  int is_reported = 0, is_used = 0;
  for (size_t i = 0; i < bp_plugin_diagnosis_size(diagnosis); i++) {
    const BpPluginFinding *finding = bp_plugin_diagnosis_get(diagnosis, i);
    if (strcmp(finding->path, path))
      continue;
    is_reported |= finding->stage == BP_STAGE_PATH && finding->severity == BP_SEVERITY_WARNING;
    is_used |= finding->stage == BP_STAGE_DEVICES && finding->severity == BP_SEVERITY_OK;
  }
  g_assert_true(is_reported && is_used);
}

static void test_what_is_reported_is_no_warning_beside(void) {
  g_assert_cmpstr(messages->str, ==, "");
}

static const BpPluginFinding *find_code(const char *code) {
  for (size_t i = 0; i < bp_plugin_diagnosis_size(diagnosis); i++)
    if (!strcmp(bp_plugin_diagnosis_get(diagnosis, i)->code, code))
      return bp_plugin_diagnosis_get(diagnosis, i);
  g_error("no finding %s", code);
}

static void test_problems_of_the_search_path_are_reported(void) {
  g_assert_nonnull(strstr(find_code("directory-unreadable")->text, "/proc/nonexistent/plugins"));
  g_assert_nonnull(strstr(find_code("directory-relative")->text, "relative/plugins"));
  g_assert_cmpstr(find_code("directory-relative")->plugin, ==, "");
}

static void test_nothing_is_loaded(void) {
  g_autofree char *maps = NULL;
  g_assert_true(g_file_get_contents("/proc/self/maps", &maps, NULL, NULL));
  g_assert_null(strstr(maps, plugin_directory));
}

static void test_stages_have_names(void) {
  g_assert_cmpstr(bp_plugin_stage_name(BP_STAGE_FOUND), ==, "found");
  g_assert_cmpstr(bp_plugin_stage_name(BP_STAGE_SELECTED), ==, "selected");
  g_assert_cmpstr(bp_plugin_stage_name(99), ==, "unknown");
  g_assert_cmpstr(bp_plugin_state_name(BP_PLUGIN_QUARANTINED), ==, "quarantined");
  g_assert_cmpstr(bp_plugin_state_name(-1), ==, "unknown");
}

/* ---- Other machines ---------------------------------------------------------------------- */

/* Whether the plugins of a directory give this code, with the text in its remedy. */
static int is_diagnosed(const char *directory, const char *code, const char *remedy) {
  g_autofree char *path = plugin_file_path(directory), *before = NULL;
  int is_found = 0;
  before = g_strdup(g_getenv("BACKPLANE_PLUGIN_PATH"));
  g_setenv("BACKPLANE_PLUGIN_PATH", path, TRUE);
  BpPluginDiagnosis *other = bp_plugin_diagnose();
  for (size_t i = 0; i < bp_plugin_diagnosis_size(other); i++) {
    const BpPluginFinding *finding = bp_plugin_diagnosis_get(other, i);
    is_found |= !strcmp(finding->code, code) && strstr(finding->remedy, remedy);
  }
  bp_plugin_diagnosis_free(other);
  g_setenv("BACKPLANE_PLUGIN_PATH", before, TRUE);
  return is_found;
}

static void assert_diagnosed(const char *directory, const char *code, const char *remedy) {
  g_assert_true(is_diagnosed(directory, code, remedy));
}

static void assert_not_diagnosed(const char *directory, const char *code) {
  g_assert_false(is_diagnosed(directory, code, ""));
}

static void test_missing_helper_is_reported(void) {
  g_autofree char *program = g_strdup(g_getenv("BACKPLANE_TRIAL_PROGRAM"));
  write_defect("helpless/plugin.so", 60, "none");
  g_setenv("BACKPLANE_TRIAL_PROGRAM", "/proc/nonexistent/program", TRUE);
  assert_diagnosed("helpless", "helper-missing", "install backplane completely");
  g_setenv("BACKPLANE_TRIAL_PROGRAM", "/bin/false", TRUE);
  assert_diagnosed("helpless", "trial-impossible", "");
  g_setenv("BACKPLANE_TRIAL_PROGRAM", program, TRUE);
}

static void test_container(void) {
  write_defect("container/plugin.so", 61, "devices-none");
  declare("container/plugin.so", NULL, NULL, "/dev/dri/renderD*", "/dev/kfd /dev/nvidiactl");
  g_setenv("container", "podman", TRUE);
  assert_diagnosed("container", "container-without-devices",
                   ": --device /dev/dri, --device /dev/kfd, --gpus all;");
  g_unsetenv("container");
}

static void change_file(const char *file, const char *from, const char *to) {
  g_autofree char *data = NULL, *path = plugin_file_path(file);
  gsize size;
  g_assert_true(g_file_get_contents(path, &data, &size, NULL));
  replace_bytes(data, size, from, to);
  write_plugin(file, data, size);
}

/* The remedy for an unwritable cache folder comes before the one for a container, unless a library
 * is missing. */
static void test_no_folder_for_caches(void) {
  g_autofree char *before = g_strdup(g_getenv("XDG_CACHE_HOME"));
  write_defect("cacheless/plugin.so", 62, "devices-none");
  g_setenv("container", "podman", TRUE);
  g_setenv("XDG_CACHE_HOME", "/dev/null/of/nobody", TRUE);
  assert_diagnosed("cacheless", "cache-home-unwritable", "XDG_CACHE_HOME");
  assert_not_diagnosed("cacheless", "container-without-devices");
  g_unsetenv("XDG_CACHE_HOME");
  assert_not_diagnosed("cacheless", "cache-home-unwritable");
  change_file("cacheless/plugin.so", "libraries=libc.so.6", "libraries=libq.so.6");
  g_setenv("XDG_CACHE_HOME", "/dev/null", TRUE);
  assert_not_diagnosed("cacheless", "cache-home-unwritable");
  assert_diagnosed("cacheless", "container-without-devices", "--device");
  if (before)
    g_setenv("XDG_CACHE_HOME", before, TRUE);
  else
    g_unsetenv("XDG_CACHE_HOME");
  g_unsetenv("container");
}

/* Makes a file that only root and root's group may use. */
static void write_node(const char *path) {
  g_assert_true(g_file_set_contents(path, "", 0, NULL));
  g_assert_cmpint(g_chmod(path, 0660), ==, 0);
}

/* Makes a directory with one plugin, which any user may read. */
static void write_for_all(const char *directory, int number, const char *nodes, const char *files) {
  g_autofree char *file = g_strdup_printf("%s/plugin.so", directory);
  g_autofree char *path = plugin_file_path(directory);
  write_defect(file, number, "none");
  declare(file, NULL, NULL, nodes, files);
  g_assert_cmpint(g_chmod(path, 0755), ==, 0);
}

/* The exit status of a child that may not run the helper of trials. */
#define CANNOT_RUN 77

/* Runs as a user who may use neither the file nor the nodes. */
static void test_user_without_rights(void) {
  if (geteuid()) {
    g_test_skip("only root can become another user");
    return;
  }
  g_autofree char *node = plugin_file_path("node");
  g_autofree char *device = g_strdup_printf("/dev/shm/backplane-%d", (int)getpid());
  g_autofree char *secret = plugin_file_path("rights/secret.so");
  g_assert_cmpint(g_chmod(plugin_directory, 0755), ==, 0);
  write_node(node);
  write_node(device);
  write_for_all("rights", 62, node, NULL);
  write_for_all("optional", 64, NULL, device);
  write_defect("rights/secret.so", 63, "none");
  g_assert_cmpint(g_chmod(secret, 0600), ==, 0);
  pid_t child = fork();
  if (!child) {
    if (setgroups(0, NULL) || setgid(65534) || setuid(65534))
      _exit(1);
    if (access(g_getenv("BACKPLANE_TRIAL_PROGRAM"), X_OK))
      _exit(CANNOT_RUN);
    assert_diagnosed("rights", "node-denied", "usermod -aG root");
    assert_diagnosed("optional", "node-denied", "usermod -aG root");
    assert_diagnosed("rights", "file-unreadable", "chmod a+r");
    _exit(0);
  }
  int status;
  g_assert_cmpint(waitpid(child, &status, 0), ==, child);
  g_unlink(device);
  if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_RUN)
    g_test_skip("other users may not enter the folder of the build");
  else
    g_assert_cmpint(status, ==, 0);
}

/* ---- The directory ----------------------------------------------------------------------- */

/* Writes plugins with one defect each; the number keeps their names distinct. */
static void write_defects(void) {
  static const char *const defects[] = {
      "entry-fail",    "entry-abi",   "no-initialize",   "init-fail",
      "register-less", "crash",       "sleep",           "exit",
      "stop",          "double-fork", "kill-parent",     "devices-fail",
      "devices-none",  "devices-odd", "device-unusable", "many-devices"};
  for (size_t i = 0; i < G_N_ELEMENTS(defects); i++) {
    g_autofree char *file = g_strdup_printf("%s.so", defects[i]);
    write_defect(file, (int)i + 10, defects[i]);
  }
}

/* Writes a good plugin whose bytes `from` become `to`, of the same length. */
static void write_changed(const char *file, int number, const char *from, const char *to) {
  write_defect(file, number, "none");
  change_file(file, from, to);
}

static void write_descriptors(void) {
  static const char *const changes[][3] = {
      {"bad-key.so", "version=1.0", "name=twelve"},
      {"no-license.so", "license=", "licence="},
      {"old-abi.so", "abi=" BP_ABI_NEEDED_TEXT, "abi=0.7"},
      {"new-abi.so", "abi=" BP_ABI_NEEDED_TEXT, "abi=1.9"},
      {"next-abi.so", "abi=" BP_ABI_NEEDED_TEXT, "abi=2.0"},
      {"vendor.so", "libraries=libc.so.6", "libraries=libq.so.6"},
      {"vendors.so", "libraries=libc.so.6\npackage=defect-driver",
       "libraries=libq1.so|libq2.so\npackage=-    "},
      {"undefined.so", "getppid", "getppiq"},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(changes); i++)
    write_changed(changes[i][0], (int)i + 40, changes[i][1], changes[i][2]);
  write_defect("cpu.so", 50, "none");
  write_defect("sanitizer.so", 51, "none");
  write_defect("no-node.so", 52, "none");
  declare("cpu.so", FOREIGN_ISA, NULL, NULL, NULL);
  write_defect("unknown-cpu.so", 65, "none");
  declare("unknown-cpu.so", "x86-64-v99", NULL, NULL, NULL);
  declare("sanitizer.so", NULL, FOREIGN_SANITIZER, NULL, NULL);
  declare("no-node.so", NULL, NULL, "/dev/nonexistent*", NULL);
}

/* Changes the name only in the symbol table: there it follows a NUL, in the descriptor "entry=". */
static void write_no_entry(void) {
  static const char symbol[] = "\0bp_plugin_entry";
  g_autofree char *data = NULL, *path = plugin_file_path("no-entry.so");
  gsize size;
  write_defect("no-entry.so", 53, "none");
  g_assert_true(g_file_get_contents(path, &data, &size, NULL));
  for (gsize i = 0; i + sizeof symbol <= size; i++)
    if (!memcmp(data + i, symbol, sizeof symbol - 1))
      data[i + 2] = 'q';
  write_plugin("no-entry.so", data, size);
}

static void write_files(void) {
  g_autofree char *data = NULL, *directory = plugin_file_path("directory.so");
  g_autofree char *link = plugin_file_path("dangling.so");
  gsize size;
  read_plugin("defect", &data, &size);
  write_plugin("not-elf.so", "#!/bin/sh\n", 10);
  write_plugin("truncated.so", data, size / 2);
  g_assert_cmpint(g_mkdir(directory, 0700), ==, 0);
  g_assert_cmpint(symlink("/proc/nonexistent/plugin.so", link), ==, 0);
  Elf64_Ehdr *header = (void *)data, whole = *header;
  header->e_machine = EM_SPARCV9;
  write_plugin("sparc.so", data, size);
  *header = whole;
  header->e_type = ET_EXEC;
  write_plugin("program.so", data, size);
  *header = whole;
  header->e_phentsize = 1;
  write_plugin("malformed.so", data, size);
  copy_plugin("odd-no-note", "no-note.so", NULL, NULL);
}

static void write_directory(void) {
  g_autofree char *writable = plugin_file_path("writable.so");
  write_defect("good.so", 0, "none");
  write_defect("z-shadowed.so", 0, "none");
  write_defect("writable.so", 54, "none");
  g_assert_cmpint(g_chmod(writable, 0646), ==, 0);
  write_defect("unlinked.so", 55, "none");
  lose_library("unlinked.so");
  write_files();
  write_descriptors();
  write_no_entry();
  write_defects();
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  make_plugin_directory();
  write_directory();
  g_autofree char *path =
      g_strdup_printf("%s:/proc/nonexistent/plugins:relative/plugins", plugin_directory);
  g_autofree char *cache = plugin_file_path("cache"), *pid = plugin_file_path("pid");
  g_setenv("BACKPLANE_PLUGIN_PATH", path, TRUE);
  g_setenv("XDG_DATA_HOME", "/proc/nonexistent", TRUE);
  g_setenv("BACKPLANE_CACHE_DIR", cache, TRUE);
  g_setenv("BACKPLANE_PLUGIN_DEADLINE", "10", TRUE);
  g_setenv("BP_DEFECT_PID_FILE", pid, TRUE);
  messages = g_string_new(NULL);
  bp_log_set_callback(keep_message, NULL);
  diagnosis = bp_plugin_diagnose();
  g_assert_nonnull(diagnosis);
  bp_log_set_callback(NULL, NULL);
  for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *name = g_strdup_printf("/doctor/PLG-23/%s/%s", cases[i].code, cases[i].file);
    g_test_add_data_func(name, &cases[i], test_code);
  }
#define ADD(path, test) g_test_add_func("/doctor/" path, test)
  ADD("every-code-has-a-plugin-PLG-23", test_every_code_has_a_plugin);
  ADD("stages-are-in-order-PLG-25", test_stages_are_in_order);
  ADD("no-stage-has-an-empty-text", test_no_stage_without_a_text);
  ADD("no-diagnosis-is-an-error", test_no_diagnosis_is_an_error);
  ADD("good-plugin-passes-every-stage-PLG-25", test_good_plugin_passes_every_stage);
  ADD("writable-plugin-is-reported-and-tried-PLG-16", test_writable_plugin_is_reported_and_tried);
  ADD("what-is-reported-is-no-warning-beside", test_what_is_reported_is_no_warning_beside);
  ADD("problems-of-the-search-path-are-reported", test_problems_of_the_search_path_are_reported);
  ADD("nothing-is-loaded-PLG-25", test_nothing_is_loaded);
  ADD("stages-have-names", test_stages_have_names);
  ADD("missing-helper-is-reported", test_missing_helper_is_reported);
  ADD("container-PLG-23", test_container);
  ADD("no-folder-for-caches-PLG-23", test_no_folder_for_caches);
  ADD("user-without-rights-PLG-23", test_user_without_rights);
  int rc = g_test_run();
  bp_plugin_diagnosis_free(diagnosis);
  g_string_free(messages, TRUE);
  remove_plugin_directory();
  return rc;
}
