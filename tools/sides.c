/* SPDX-License-Identifier: Apache-2.0 */
/* Several models, or one model on several devices, side by side, for bench and compare. */
#include "tools/command.h"

#include <string.h>

static void close_side(void *side) {
  model_close(side);
  g_free(side);
}

/* Opens a model on the devices that `device` selects; if `device` is NULL, the options decide. */
static int open_side(const char *path, char *device, const ModelOptions *options,
                     GPtrArray *sides) {
  ModelOptions own = *options;
  LoadedModel *side = g_new0(LoadedModel, 1);
  own.device = device;
  if (model_open(path, &own, side) < 0) {
    g_free(side);
    return -1;
  }
  g_ptr_array_add(sides, side);
  return 0;
}

int sides_add(char *const *paths, const ModelOptions *options, GPtrArray *sides) {
  for (; *paths; paths++) {
    char **device = options->devices;
    if (!device && open_side(*paths, NULL, options, sides) < 0)
      return -1;
    for (; device && *device; device++)
      if (open_side(*paths, *device, options, sides) < 0)
        return -1;
  }
  return 0;
}

GPtrArray *sides_open(char *const *paths, const ModelOptions *options) {
  GPtrArray *sides = g_ptr_array_new_with_free_func(close_side);
  if (sides_add(paths, options, sides) == 0)
    return sides;
  g_ptr_array_unref(sides);
  return NULL;
}

gboolean sides_explain_preferences(const ModelOptions *options, int *status) {
  char **device = options->devices;
  if (!device)
    return explain_preferences(NULL, status);
  for (; *device; device++)
    if (strcmp(*device, "help") == 0)
      return explain_preferences(*device, status);
  return FALSE;
}
