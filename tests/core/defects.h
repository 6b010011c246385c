/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of device plugins with one defect each, and processes that use them. Failures end the
 * test. */
#ifndef BACKPLANE_TESTS_DEFECTS_H
#define BACKPLANE_TESTS_DEFECTS_H

#include "tests/core/plugin_files.h"

#include "tests/mock/defect.h"

#include <backplane/device.h>
#include <backplane/object.h>
#include <backplane/plugin.h>
#include <stdint.h>
#include <sys/wait.h>

/* Chooses the defect of a plugin. */
static inline void set_defect(char *data, gsize size, const char *defect) {
  g_autofree char *text = g_strdup_printf("defect=%-38s", defect);
  replace_bytes(data, size, "defect=none                                  ", text);
}

/* Returns the name of plugin and device NUMBER, 0 to 127 (transfer full); see
 * tests/mock/defect.c. */
static inline char *defect_name(int number) {
  GString *name = g_string_new("defect-");
  for (int bit = 64; bit; bit /= 2)
    g_string_append(name, number & bit ? "c8" : "az");
  return g_string_free(name, FALSE);
}

/* Writes a plugin: FILE of the directory, with the name of NUMBER. */
static inline void write_defect(const char *file, int number, const char *defect) {
  g_autofree char *data = NULL, *base = defect_name(0), *name = defect_name(number);
  gsize size;
  read_plugin("defect", &data, &size);
  set_defect(data, size, defect);
  replace_bytes(data, size, base + strlen("defect-"), name + strlen("defect-"));
  write_plugin(file, data, size);
}

/* Changes the declarations in a file that write_defect wrote: NULL leaves a declaration
 * unchanged. */
static inline void declare(const char *file, const char *isa, const char *sanitizer,
                           const char *nodes, const char *files) {
  static const char before[] = BP_PLUGIN_BUILD_TEXT DEFECT_DEPENDS DEFECT_PADDING;
  g_autofree char *data = NULL, *path = plugin_file_path(file);
  gsize size;
  GString *after = g_string_new(NULL);
  g_string_printf(after, "isa=%s\nsanitizer=%s\nnodes=%s\nfiles=%s\npadding=", isa ? isa : "",
                  sanitizer ? sanitizer : BP_PLUGIN_SANITIZER, nodes ? nodes : "/dev/null",
                  files ? files : "");
  g_assert_cmpint(after->len, <, sizeof before - 2);
  while (after->len < sizeof before - 2)
    g_string_append_c(after, 'x');
  g_string_append_c(after, '\n');
  g_assert_true(g_file_get_contents(path, &data, &size, NULL));
  replace_bytes(data, size, before, after->str);
  write_plugin(file, data, size);
  g_string_free(after, TRUE);
}

/* Adds 1 to floats in the memory of a device; -1 with an error. */
static inline int run_kernel(const char *kind) {
  enum { COUNT = 100 };
  float values[COUNT] = {41};
  BpDevice device, cpu = {BP_DEVICE_CPU, 0};
  BpFunction *function = NULL;
  BpValue result;
  void *handle;
  g_autofree char *name = g_strdup_printf("%s.add_one", kind);
  if (bp_device_parse(kind, &device) || bp_registry_get(name, &function) ||
      bp_device_alloc(device,
                      &(BpAllocation){sizeof(BpAllocation), sizeof values, 64,
                                      (BpDataType){BP_DTYPE_FLOAT, 32, 1}, 0, NULL},
                      &handle))
    return -1;
  BpCopy there = {sizeof(BpCopy), values, 0, cpu, handle, 0, device, sizeof values, 0};
  BpCopy back = {sizeof(BpCopy), handle, 0, device, values, 0, cpu, sizeof values, 0};
  BpValue arguments[] = {{.type_index = BP_TYPE_POINTER, .v_ptr = handle},
                         {.type_index = BP_TYPE_INT, .v_int64 = COUNT}};
  int rc = bp_device_copy(&there, NULL) || bp_function_call(function, arguments, 2, &result) ||
           bp_device_copy(&back, NULL) || bp_stream_sync(device, NULL);
  bp_object_release(function);
  bp_device_free(device, handle);
  return rc || values[0] != 42 || values[COUNT - 1] != 1 ? -1 : 0;
}

/* Starts this program again with `arguments` after its name, without its output and, if `is_quiet`,
 * without its errors. */
static inline GPid start_self(const char *const *arguments, gboolean is_quiet) {
  g_autoptr(GPtrArray) argv = g_ptr_array_new();
  GPid pid;
  GError *error = NULL;
  g_ptr_array_add(argv, (char *)(uintptr_t) "/proc/self/exe");
  for (; *arguments; arguments++)
    g_ptr_array_add(argv, (char *)(uintptr_t)*arguments);
  g_ptr_array_add(argv, NULL);
  if (!g_spawn_async(NULL, (char **)argv->pdata, NULL,
                     G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_STDOUT_TO_DEV_NULL |
                         (is_quiet ? G_SPAWN_STDERR_TO_DEV_NULL : G_SPAWN_DEFAULT),
                     NULL, NULL, &pid, &error))
    g_error("%s", error->message);
  return pid;
}

/* Returns the exit status of a process, or 128 plus the signal that ended it. */
static inline int wait_for(GPid pid) {
  int status;
  g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#endif
