/* SPDX-License-Identifier: Apache-2.0 */
/* Of several plugins with one name or the same registry names, the first usable one is used.
 * Temporary failures, such as too few descriptors, are not remembered.
 *
 * Each host is a separate process of this program: `--host STEP...`. A step is
 *
 *   kernel=N           the device of plugin N works
 *   no-kernel=N        the device does not work
 *   activate=N         plugin N is activated by its name
 *   FILE=STATE         a plugin of the directory is listed in this state
 *   files=N            the process may have N files open from now on
 *   try=N              the plugins with the devices of plugin N are tried out
 */

#include "tests/core/defects.h"

#include <backplane/error.h>
#include <backplane/plugins.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

/* ---- A host ------------------------------------------------------------------------------ */

static int check_state(const char *file, const char *state) {
  BpPluginList *list = bp_plugin_list();
  const char *found = "not there";
  for (size_t i = 0; i < bp_plugin_list_size(list); i++)
    if (g_str_has_suffix(bp_plugin_list_get(list, i)->path, file))
      found = bp_plugin_state_name(bp_plugin_list_get(list, i)->state);
  int is_right = !strcmp(found, state);
  if (!is_right)
    fprintf(stderr, "# %s is %s\n", file, found);
  bp_plugin_list_free(list);
  return is_right;
}

static int limit_files(rlim_t count) {
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = MIN(count, limit.rlim_max);
  return !setrlimit(RLIMIT_NOFILE, &limit);
}

static int try_kind(const char *kind) {
  const char *const kinds[] = {kind, NULL};
  bp_plugin_try(kinds);
  return 1;
}

static int take_step(const char *verb, const char *object) {
  g_autofree char *name = defect_name(atoi(object));
  if (!strcmp(verb, "kernel"))
    return !run_kernel(name);
  if (!strcmp(verb, "no-kernel"))
    return run_kernel(name);
  if (!strcmp(verb, "activate"))
    return !bp_plugin_activate(name);
  if (!strcmp(verb, "files"))
    return limit_files((rlim_t)atoi(object));
  if (!strcmp(verb, "try"))
    return try_kind(name);
  return check_state(verb, object);
}

static void print_log(void *context, int32_t level, const char *message) {
  (void)context;
  fprintf(stderr, "# log %d: %s\n", level, message);
}

static int be_host(char **steps) {
  bp_log_set_callback(print_log, NULL);
  for (; *steps; steps++) {
    g_auto(GStrv) parts = g_strsplit(*steps, "=", 2);
    if (!take_step(parts[0], parts[1])) {
      fprintf(stderr, "# %s: %s\n", *steps, bp_error_message());
      return 1;
    }
    bp_error_clear();
  }
  return 0;
}

/* Runs a host whose search path is the directories 1 and 2 of the set. */
static int run_host(const char *set, const char *const *steps) {
  const char *arguments[16] = {"--host"};
  for (int i = 0; steps[i]; i++)
    arguments[i + 1] = steps[i];
  g_autofree char *folder = plugin_file_path(set);
  g_autofree char *path = g_strdup_printf("%s/1:%s/2", folder, folder);
  g_setenv("BACKPLANE_PLUGIN_PATH", path, TRUE);
  return wait_for(start_self(arguments, FALSE));
}

#define HOST(set, ...)                                                                             \
  g_assert_cmpint(run_host(set, (const char *const[]){__VA_ARGS__, NULL}), ==, 0)

/* ---- Which plugin is used ---------------------------------------------------------------- */

/* A reason that prevents the first plugin from being used. */
typedef struct Obstacle {
  const char *defect;
  const char *state;
  int is_early; /* occurs before the plugin registers names */
} Obstacle;

static const Obstacle obstacles[] = {
    {"crash", "quarantined", 1},       {"exit@load", "quarantined", 1},
    {"kill-parent", "quarantined", 1}, {"entry-fail", "failed", 1},
    {"entry-abi", "failed", 1},        {"init-fail", "failed", 1},
    {"register-less", "failed", 0},    {"crash@count", "quarantined", 0},
};

static void test_next_of_the_name_is_used(gconstpointer data) {
  const Obstacle *obstacle = data;
  g_autofree char *set = g_strdup_printf("name-%s", obstacle->defect);
  g_autofree char *first = g_strdup_printf("%s/1/a.so", set);
  g_autofree char *second = g_strdup_printf("%s/2/a.so", set);
  g_autofree char *becomes = g_strdup_printf("/1/a.so=%s", obstacle->state);
  write_defect(first, 1, obstacle->defect);
  write_defect(second, 1, "none");
  HOST(set, "/1/a.so=found", "/2/a.so=shadowed", "kernel=1", becomes, "/2/a.so=active");
  HOST(set, "activate=1", "/2/a.so=active");
  HOST(set, "try=1", "kernel=1", becomes, "/2/a.so=active");
}

/* A later process knows of the quarantine, and lists the other plugin as the one in use. */
static void test_next_is_listed_as_used_by_later_processes(void) {
  write_defect("later/1/a.so", 1, "crash");
  write_defect("later/2/a.so", 1, "none");
  HOST("later", "kernel=1");
  HOST("later", "/1/a.so=quarantined", "/2/a.so=found", "kernel=1");
}

/* Makes a plugin of write_defect claim the device of another plugin. */
static void claim_device(const char *file, int own, int other) {
  g_autofree char *data = NULL, *path = plugin_file_path(file);
  g_autofree char *name = defect_name(own), *claimed = defect_name(other);
  g_autofree char *from =
      g_strdup_printf("provides=device_api.%s %s.add_one\ndevices=%s\n", name, name, name);
  g_autofree char *to =
      g_strdup_printf("provides=device_api.%s %s.add_one\ndevices=%s\n", claimed, name, claimed);
  gsize size;
  g_assert_true(g_file_get_contents(path, &data, &size, NULL));
  replace_bytes(data, size, from, to);
  write_plugin(file, data, size);
}

static void test_next_that_provides_it_is_used(gconstpointer data) {
  const Obstacle *obstacle = data;
  g_autofree char *set = g_strdup_printf("provided-%s", obstacle->defect);
  g_autofree char *first = g_strdup_printf("%s/1/a.so", set);
  g_autofree char *second = g_strdup_printf("%s/1/b.so", set);
  g_autofree char *becomes = g_strdup_printf("/1/a.so=%s", obstacle->state);
  write_defect(first, 2, obstacle->defect);
  claim_device(first, 2, 1);
  write_defect(second, 1, "none");
  HOST(set, "/1/a.so=found", "/1/b.so=found", "kernel=1", becomes, "/1/b.so=active");
  HOST(set, "try=1", "kernel=1", becomes);
}

static void test_none_that_can_be_used_names_all(void) {
  write_defect("none/1/a.so", 1, "crash");
  write_defect("none/2/a.so", 1, "init-fail");
  HOST("none", "no-kernel=1", "/1/a.so=quarantined", "/2/a.so=failed");
  g_autofree char *name = defect_name(1);
  g_assert_cmpint(bp_plugin_activate(name), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "crashed"));
  g_assert_nonnull(strstr(bp_error_message(), "no such hardware"));
  bp_error_clear();
}

/* The failed plugin is tried again if it is requested by name, but not while another plugin
 * works. */
static void test_plugin_in_use_stays(void) {
  write_defect("stays/1/a.so", 1, "init-fail");
  write_defect("stays/2/a.so", 1, "none");
  HOST("stays", "kernel=1", "activate=1", "/1/a.so=failed", "/2/a.so=active");
}

static void test_diagnosis_goes_on_to_the_next(void) {
  g_autofree char *one = plugin_file_path("diagnosed/1"), *two = plugin_file_path("diagnosed/2");
  g_autofree char *path = g_strdup_printf("%s:%s", one, two);
  int is_crashed = 0, has_device = 0, is_shadowed = 0;
  write_defect("diagnosed/1/a.so", 1, "crash");
  write_defect("diagnosed/2/a.so", 1, "none");
  write_defect("diagnosed/2/b.so", 1, "none");
  g_setenv("BACKPLANE_PLUGIN_PATH", path, TRUE);
  BpPluginDiagnosis *diagnosis = bp_plugin_diagnose();
  for (size_t i = 0; i < bp_plugin_diagnosis_size(diagnosis); i++) {
    const BpPluginFinding *finding = bp_plugin_diagnosis_get(diagnosis, i);
    is_crashed |= g_str_has_suffix(finding->path, "/1/a.so") && !strcmp(finding->code, "crashed");
    has_device |= g_str_has_suffix(finding->path, "/2/a.so") &&
                  finding->stage == BP_STAGE_DEVICES && !strcmp(finding->code, "ok");
    is_shadowed |= g_str_has_suffix(finding->path, "/2/b.so") && !strcmp(finding->code, "shadowed");
  }
  bp_plugin_diagnosis_free(diagnosis);
  g_assert_true(is_crashed && has_device && is_shadowed);
}

/* ---- Temporary failures ------------------------------------------------------------------ */

/* Starts with few descriptors and then has enough: with each number, a different step fails, from
 * the first search to the trial's pipe. */
static void test_too_few_descriptors_are_not_remembered(void) {
  for (int files = 3; files < 14; files++) {
    g_autofree char *few = g_strdup_printf("files=%d", files);
    write_defect("files/1/a.so", 1, "none"); /* new each time */
    g_assert_cmpint(run_host("files", (const char *const[]){few, "no-kernel=1", "files=1024",
                                                            "kernel=1", NULL}) &&
                        run_host("files", (const char *const[]){few, "kernel=1", NULL}),
                    ==, 0);
    write_defect("files/1/a.so", 1, "none");
    HOST("files", "/1/a.so=found", few, "try=1", "files=1024", "/1/a.so=found", "kernel=1");
  }
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "--host"))
    return be_host(argv + 2);
  g_test_init(&argc, &argv, NULL);
  make_plugin_directory();
  g_autofree char *cache = plugin_file_path("cache");
  g_setenv("BACKPLANE_CACHE_DIR", cache, TRUE);
  g_setenv("XDG_DATA_HOME", "/proc/nonexistent", TRUE);
  for (size_t i = 0; i < G_N_ELEMENTS(obstacles); i++) {
    g_autofree char *by_name =
        g_strdup_printf("/candidates/name/after-%s-the-next-is-used-PLG-14", obstacles[i].defect);
    g_autofree char *by_what = g_strdup_printf(
        "/candidates/provided/after-%s-the-next-is-used-PLG-7", obstacles[i].defect);
    g_test_add_data_func(by_name, &obstacles[i], test_next_of_the_name_is_used);
    if (obstacles[i].is_early)
      g_test_add_data_func(by_what, &obstacles[i], test_next_that_provides_it_is_used);
  }
#define ADD(path, test) g_test_add_func("/candidates/" path, test)
  ADD("next-is-listed-as-used-by-later-processes-PLG-8",
      test_next_is_listed_as_used_by_later_processes);
  ADD("none-that-can-be-used-names-all-PLG-23", test_none_that_can_be_used_names_all);
  ADD("plugin-in-use-stays-PLG-14", test_plugin_in_use_stays);
  ADD("diagnosis-goes-on-to-the-next-PLG-25", test_diagnosis_goes_on_to_the_next);
  ADD("too-few-descriptors-are-not-remembered-PLG-9", test_too_few_descriptors_are_not_remembered);
  int rc = g_test_run();
  remove_plugin_directory();
  return rc;
}
