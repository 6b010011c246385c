/* SPDX-License-Identifier: Apache-2.0 */
/* A program that runs with more rights than its user loads no file that other users may change. The
 * program is this one, started again by a user who is not root, with root's rights: rights that the
 * process already has, or those of a copy's set-user-ID bit. */

#include "tests/core/plugin_files.h"

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOME_USER 65534

/* The source of a program's rights. */
typedef enum Rights { RIGHTS_OF_USER, RIGHTS_OF_PROCESS, RIGHTS_OF_FILE } Rights;

static char *set_user_id_program; /* the copy with the set-user-ID bit */

/* ---- The privileged program -------------------------------------------------------------- */

static int no_function(void *context, const char *name, BpFunction **function) {
  (void)context;
  (void)name;
  *function = NULL;
  return 0;
}

static int is_host_code(void *context, int32_t *flags) {
  (void)context;
  *flags = BP_MODULE_COMPILATION_EXPORT;
  return 0;
}

static void free_nothing(void *data) {
  (void)data;
}

static int get_source(void *context, const char *format, BpOwnedBytes *source) {
  static char text[] = "int __tvm_ffi_nothing(void *self, void *args, int n, void *result) {\n"
                       "  return 0;\n"
                       "}\n";
  (void)context;
  if (!strcmp(format, "c"))
    *source = (BpOwnedBytes){text, sizeof text - 1, free_nothing};
  return 0;
}

/* Compiles C source to a library. */
static void compile(const char *path) {
  static const BpModuleApi api = {.struct_size = sizeof api,
                                  .kind = "test-c",
                                  .get_function = no_function,
                                  .get_property = is_host_code,
                                  .get_source = get_source,
                                  .destroy = free_nothing};
  BpModule *module = bp_module_create(&api, NULL);
  if (module)
    bp_module_export_library(module, path);
  bp_object_release(module);
}

/* Allocates host memory, under the layers of BACKPLANE_LAYERS. */
static void allocate(void) {
  const BpAllocation allocation = {.struct_size = sizeof allocation, .size = 8, .alignment = 8};
  void *handle;
  if (!bp_device_alloc((BpDevice){BP_DEVICE_CPU, 0}, &allocation, &handle))
    bp_device_free((BpDevice){BP_DEVICE_CPU, 0}, handle);
}

/* Raises an error that lists the environment which the code of a plugin sees. */
static void list_environment(const char *path) {
  if (bp_plugin_activate(path))
    return;
  g_autofree char *list = g_strjoinv(" ", environ);
  bp_error_raise(BP_ERROR_RUNTIME, "environment: %s", list);
}

/* Says why a plugin or library cannot be loaded or made, or nothing; or whether the rights are
 * raised; or the environment. */
static int say_why_not(const char *what, const char *path) {
  if (!strcmp(what, "plugin"))
    bp_plugin_activate(path);
  else if (!strcmp(what, "library"))
    bp_object_release(bp_module_load(path));
  else if (!strcmp(what, "compile"))
    compile(path);
  else if (!strcmp(what, "memory"))
    allocate();
  else if (!strcmp(what, "environment"))
    list_environment(path);
  else if (!getauxval(AT_SECURE))
    bp_error_raise(BP_ERROR_RUNTIME, "the rights are the user's");
  ssize_t size = (ssize_t)strlen(bp_error_message());
  return write(STDOUT_FILENO, bp_error_message(), (size_t)size) == size ? 0 : 1;
}

/* ---- The program's user ------------------------------------------------------------------ */

/* Runs in a child process, which becomes the program. */
static void start(const char *what, const char *path, Rights rights) {
  const char *program = rights == RIGHTS_OF_FILE ? set_user_id_program : "/proc/self/exe";
  int failed = rights == RIGHTS_OF_PROCESS ? setresuid(SOME_USER, 0, 0)
               : rights == RIGHTS_OF_FILE  ? setresuid(SOME_USER, SOME_USER, SOME_USER)
                                           : 0;
  if (!failed)
    execl(program, "test-privileged", what, path, (char *)NULL);
}

/* Returns the program's output (transfer full). */
static char *load(const char *what, const char *path, Rights rights) {
  int ends[2];
  GString *said = g_string_new(NULL);
  char buffer[512];
  g_assert_cmpint(pipe(ends), ==, 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    start(what, path, rights);
    _exit(2);
  }
  close(ends[1]);
  for (ssize_t size; (size = read(ends[0], buffer, sizeof buffer)) > 0;)
    g_string_append_len(said, buffer, size);
  close(ends[0]);
  int status;
  g_assert_cmpint(waitpid(child, &status, 0), ==, child);
  g_assert_cmpint(status, ==, 0);
  return g_string_free(said, FALSE);
}

static void assert_says_with(Rights rights, const char *what, const char *path, const char *part) {
  g_autofree char *said = load(what, path, rights);
  if (*part ? !strstr(said, part) : *said)
    g_error("%s: said \"%s\", not \"%s\"", path, said, part);
}

static void assert_says(const char *what, const char *path, const char *part) {
  assert_says_with(RIGHTS_OF_PROCESS, what, path, part);
}

static int cannot_be_privileged(void) {
  if (geteuid() == 0)
    return 0;
  g_test_skip("only root can start a program with more rights than its user");
  return 1;
}

static void test_plugin(void) {
  g_autofree char *path = plugin_file_path("odd-good.so");
  if (cannot_be_privileged())
    return;
  g_assert_cmpint(g_chmod(path, 0644), ==, 0);
  assert_says("plugin", path, "");
  g_assert_cmpint(g_chmod(path, 0646), ==, 0);
  assert_says("plugin", path, "others may write to it, and this program runs with more rights");
  g_autofree char *said = load("plugin", path, RIGHTS_OF_USER);
  g_assert_cmpstr(said, ==, "");
  g_assert_cmpint(g_chmod(path, 0664), ==, 0);
  assert_says("plugin", path, "");
  g_assert_cmpint(chown(path, 0, SOME_USER), ==, 0);
  assert_says("plugin", path, "others may write to it");
  g_assert_cmpint(chown(path, SOME_USER, 0), ==, 0);
  g_assert_cmpint(g_chmod(path, 0644), ==, 0);
  assert_says("plugin", path, "others may write to it");
  g_assert_cmpint(chown(path, 0, 0), ==, 0);
}

static void test_directory(void) {
  g_autofree char *path = plugin_file_path("odd-good.so");
  if (cannot_be_privileged())
    return;
  g_assert_cmpint(g_chmod(plugin_directory, 0757), ==, 0);
  assert_says("plugin", path, "others may write to the directory");
  g_assert_cmpint(g_chmod(plugin_directory, 01757), ==, 0);
  assert_says("plugin", path, "");
  g_assert_cmpint(g_chmod(plugin_directory, 0700), ==, 0);
}

/* The file is a plugin, not a library; that is detected once the file is trusted. */
static void test_library(void) {
  g_autofree char *path = plugin_file_path("odd-good.so");
  if (cannot_be_privileged())
    return;
  assert_says("library", path, "is not a module");
  g_assert_cmpint(g_chmod(path, 0646), ==, 0);
  assert_says("library", path, "is not loaded: others may write to it");
  g_assert_cmpint(g_chmod(path, 0644), ==, 0);
  g_assert_cmpint(g_chmod(plugin_directory, 0757), ==, 0);
  assert_says("library", path, "is not loaded: others may write to the directory");
  g_assert_cmpint(g_chmod(plugin_directory, 0700), ==, 0);
}

/* A user finds files in the user's own folder, and the program with more rights does not. */
static void assert_users_alone(const char *variable, const char *value) {
  g_autofree char *before = g_strdup(g_getenv(variable));
  g_setenv(variable, value, TRUE);
  g_autofree char *said = load("plugin", "odd-good", RIGHTS_OF_USER);
  g_assert_cmpstr(said, ==, "");
  assert_says("plugin", "odd-good", "no plugin \"odd-good\" is installed");
  if (before)
    g_setenv(variable, before, TRUE);
  else
    g_unsetenv(variable);
}

static void test_users_directories(void) {
  g_autofree char *data = plugin_file_path("data"), *home = plugin_file_path("home");
  if (cannot_be_privileged())
    return;
  copy_plugin("odd-good", "data/backplane-1/plugins/odd.so", NULL, NULL);
  copy_plugin("odd-good", "home/.local/share/backplane-1/plugins/odd.so", NULL, NULL);
  g_unsetenv("BACKPLANE_PLUGIN_PATH");
  g_unsetenv("XDG_DATA_HOME");
  assert_users_alone("XDG_DATA_HOME", data);
  assert_users_alone("HOME", home);
}

static void test_variables_and_their_directories(void) {
  g_autofree char *list = g_strdup_printf("/nowhere:%s", plugin_directory);
  if (cannot_be_privileged())
    return;
  assert_users_alone("BACKPLANE_PLUGIN_PATH", list);
}

static void test_layers(void) {
  if (cannot_be_privileged())
    return;
  g_setenv("BACKPLANE_LAYERS", "nonsense", TRUE);
  assert_says_with(RIGHTS_OF_USER, "memory", "", "there is no layer \"nonsense\"");
  assert_says("memory", "", "");
  g_unsetenv("BACKPLANE_LAYERS");
}

/* The PATH leads to a compiler of the user, which leaves a mark if it runs. */
static void test_compiler(void) {
  g_autofree char *folder = plugin_file_path("bin"), *compiler = plugin_file_path("bin/cc");
  g_autofree char *mark = plugin_file_path("mark"), *library = plugin_file_path("made.so");
  g_autofree char *before = g_strdup(g_getenv("PATH"));
  g_autofree char *path = g_strdup_printf("%s:%s", folder, before);
  g_autofree char *script =
      g_strdup_printf("#!/bin/sh\n: >'%s'\nPATH='%s'\nexec cc \"$@\"\n", mark, before);
  if (cannot_be_privileged())
    return;
  g_assert_cmpint(g_mkdir(folder, 0755), ==, 0);
  g_assert_true(g_file_set_contents(compiler, script, -1, NULL));
  g_assert_cmpint(g_chmod(compiler, 0755), ==, 0);
  g_setenv("PATH", path, TRUE);
  assert_says_with(RIGHTS_OF_USER, "compile", library, "");
  g_assert_cmpint(g_unlink(mark), ==, 0);
  g_assert_cmpint(g_unlink(library), ==, 0);
  assert_says("compile", library, "");
  g_assert_false(g_file_test(mark, G_FILE_TEST_EXISTS));
  g_assert_true(g_file_test(library, G_FILE_TEST_EXISTS));
  g_setenv("PATH", before, TRUE);
}

/* A driver reads the environment itself, for example the name of a library to load. */
static void test_environment_of_drivers(void) {
  g_autofree char *path = plugin_file_path("odd-good.so");
  if (cannot_be_privileged())
    return;
  g_setenv("OCL_ICD_VENDORS", "/users/folder", TRUE);
  assert_says_with(RIGHTS_OF_USER, "environment", path, "OCL_ICD_VENDORS=/users/folder");
  g_autofree char *said = load("environment", path, RIGHTS_OF_PROCESS);
  g_assert_true(g_str_has_prefix(said, "environment: PATH=/usr/bin:/bin HOME=/"));
  g_assert_null(strstr(strstr(said, "HOME="), " "));
  g_unsetenv("OCL_ICD_VENDORS");
}

/* A driver keeps its cache, which may hold code, below HOME. */
static void test_home_of_drivers(void) {
  g_autofree char *path = plugin_file_path("odd-good.so"), *home = plugin_file_path("home");
  g_autofree char *before = g_strdup(g_getenv("HOME"));
  g_autofree char *users = g_strdup_printf("HOME=%s", home);
  if (cannot_be_privileged())
    return;
  g_setenv("HOME", home, TRUE);
  assert_says_with(RIGHTS_OF_USER, "environment", path, users);
  g_autofree char *said = load("environment", path, RIGHTS_OF_PROCESS);
  g_assert_nonnull(strstr(said, "HOME="));
  g_assert_null(strstr(said, users));
  if (before)
    g_setenv("HOME", before, TRUE);
  else
    g_unsetenv("HOME");
}

/* Copies this program to a place where every user may start it. */
static char *copy_program(const char *folder) {
  g_autofree char *data = NULL;
  gsize size;
  char *path = g_build_filename(folder, "set-user-id", NULL);
  g_assert_true(g_file_get_contents("/proc/self/exe", &data, &size, NULL));
  g_assert_true(g_file_set_contents(path, data, (gssize)size, NULL));
  g_assert_cmpint(g_chmod(folder, 0755), ==, 0);
  g_assert_cmpint(g_chmod(path, 04755), ==, 0);
  return path;
}

static void check_set_user_id(void) {
  g_autofree char *path = plugin_file_path("odd-good.so");
  assert_says_with(RIGHTS_OF_FILE, "plugin", path, "");
  g_assert_cmpint(g_chmod(path, 0646), ==, 0);
  assert_says_with(RIGHTS_OF_FILE, "plugin", path, "others may write to it");
  assert_says_with(RIGHTS_OF_FILE, "library", path, "is not loaded: others may write to it");
  g_assert_cmpint(g_chmod(path, 0644), ==, 0);
  g_setenv("BACKPLANE_PLUGIN_PATH", plugin_directory, TRUE);
  assert_says_with(RIGHTS_OF_FILE, "plugin", "odd-good", "no plugin \"odd-good\" is installed");
  g_unsetenv("BACKPLANE_PLUGIN_PATH");
}

static void test_set_user_id(void) {
  if (cannot_be_privileged())
    return;
  g_autofree char *folder = g_dir_make_tmp("backplane-set-user-id-XXXXXX", NULL);
  g_assert_nonnull(folder);
  set_user_id_program = copy_program(folder);
  g_autofree char *said = load("rights", "", RIGHTS_OF_FILE);
  if (*said)
    g_test_skip("the file system, or this process, lets no file raise rights");
  else
    check_set_user_id();
  g_free(set_user_id_program);
  remove_plugin_tree(folder);
}

int main(int argc, char **argv) {
  if (argc == 3 && argv[1][0] != '-')
    _exit(say_why_not(argv[1], argv[2]));
  g_test_init(&argc, &argv, NULL);
  make_plugin_directory();
  copy_plugin("odd-good", "odd-good.so", NULL, NULL);
  g_test_add_func("/privileged/plugin-that-others-may-write-is-refused-PLG-15", test_plugin);
  g_test_add_func("/privileged/plugin-of-a-directory-that-others-may-write-is-refused-PLG-15",
                  test_directory);
  g_test_add_func("/privileged/library-that-others-may-write-is-refused", test_library);
  g_test_add_func("/privileged/set-user-id-program-loads-nothing-of-others-PLG-15",
                  test_set_user_id);
  g_test_add_func("/privileged/variables-are-ignored-PLG-15", test_variables_and_their_directories);
  g_test_add_func("/privileged/layers-are-ignored-PLG-15", test_layers);
  g_test_add_func("/privileged/drivers-see-no-variable-of-the-user-PLG-15",
                  test_environment_of_drivers);
  g_test_add_func("/privileged/drivers-see-no-home-of-the-user-PLG-15", test_home_of_drivers);
  g_test_add_func("/privileged/users-directories-are-ignored-PLG-15", test_users_directories);
  g_test_add_func("/privileged/compiler-is-the-systems-PLG-15", test_compiler);
  int rc = g_test_run();
  remove_plugin_directory();
  return rc;
}
