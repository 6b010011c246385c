/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a model with the onnxruntime that is installed for Python, and gets the values of its
 * nodes. */
#include "tools/command.h"

#include <string.h>
#include <sys/auxv.h>

static const char *const program[] = {
#include "tools/onnxruntime-values.h"
};

/* Returns the last line of the program's output, which is truncated at its end. */
static const char *last_line(char *said) {
  const char *end = strrchr(g_strchomp(said), '\n');
  return end ? end + 1 : said;
}

static void raise_failed(const char *python, char *said) {
  const char *line = last_line(said);
  bp_error_raise(BP_ERROR_RUNTIME, "onnxruntime did not run the model (%s): %s", python,
                 *line ? line : "it said nothing");
}

static GPtrArray *arguments(const char *python, const char *model, const char *folder,
                            const char *const *inputs) {
  GPtrArray *list = g_ptr_array_new_with_free_func(g_free);
  GString *text = g_string_new(NULL);
  for (size_t i = 0; i < G_N_ELEMENTS(program); i++)
    g_string_append(text, program[i]);
  g_ptr_array_add(list, g_strdup(python));
  g_ptr_array_add(list, g_strdup("-c"));
  g_ptr_array_add(list, g_string_free(text, FALSE));
  g_ptr_array_add(list, g_strdup(model));
  g_ptr_array_add(list, g_strdup(folder));
  for (; *inputs; inputs++)
    g_ptr_array_add(list, g_strdup(*inputs));
  g_ptr_array_add(list, NULL);
  return list;
}

json_t *onnxruntime_run(const char *model, const char *folder, const char *const *inputs) {
  if (getauxval(AT_SECURE)) { /* Python and its modules are found by the user's environment */
    bp_error_raise(BP_ERROR_RUNTIME, "onnxruntime is not used: this program runs with more rights "
                                     "than its user; run it without them");
    return NULL;
  }
  const char *named = g_getenv("BACKPLANE_PYTHON"), *python = named && *named ? named : "python3";
  GPtrArray *list = arguments(python, model, folder, inputs);
  char *out = NULL, *said = NULL;
  GError *error = NULL;
  int status = 0;
  json_t *values = NULL;
  if (!g_spawn_sync(NULL, (char **)list->pdata, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &out, &said,
                    &status, &error)) {
    bp_error_raise(BP_ERROR_RUNTIME, "%s; BACKPLANE_PYTHON names a Python", error->message);
    g_error_free(error);
  } else if (status != 0 || !(values = json_loads(out, 0, NULL))) {
    raise_failed(python, said);
  }
  g_free(out);
  g_free(said);
  g_ptr_array_unref(list);
  return values;
}
