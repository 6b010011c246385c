/* SPDX-License-Identifier: Apache-2.0 */
/* Says why a plugin is missing; and the part's table. */

#include "core/registry/names.h"
#include "core/registry/part.h"
#include "parts/hints/hints.h"

#include <backplane/plugins.h>
#include <glib.h>
#include <string.h>

/* Whether a file's name without ".so" is the word or ends in it: "backplane-opencl". */
static int is_file_of(const char *path, const char *word) {
  g_autofree char *file = g_path_get_basename(path);
  if (g_str_has_suffix(file, ".so"))
    file[strlen(file) - strlen(".so")] = '\0';
  size_t length = strlen(file), tail = strlen(word);
  return tail && tail <= length && !strcmp(file + length - tail, word) &&
         (tail == length || !g_ascii_isalnum(file[length - tail - 1]));
}

static int is_meant(const BpPluginInfo *info, const char *name) {
  if (!*info->name)
    return is_file_of(info->path, name);
  return !strcmp(info->name, name) || bp__words_have(info->devices, name) ||
         bp__words_have(info->targets, name);
}

/* If `name` is only a kind of device or only a target kind, says which, since the caller may want
 * the other (transfer full); else NULL. */
static char *tell_apart(const BpPluginInfo *info, const char *name) {
  int is_device = bp__words_have(info->devices, name);
  int is_target = bp__words_have(info->targets, name);
  const char *others = is_device ? info->targets : info->devices;
  if (is_device == is_target)
    return NULL;
  return g_strdup_printf("\"%s\" is a %s%s%s", name, is_device ? "kind of device" : "target kind",
                         !*others    ? ""
                         : is_device ? ", for which there is the target kind "
                                     : ", for devices of kind ",
                         others);
}

char *bp__explain_absence(const char *name) {
  BpPluginList *list = bp_plugin_list();
  size_t size = bp_plugin_list_size(list);
  char *text = NULL;
  int is_there = 0;
  for (size_t i = 0; i < size && !text; i++) {
    const BpPluginInfo *info = bp_plugin_list_get(list, i);
    if (!is_meant(info, name))
      continue;
    is_there = 1;
    if (*info->reason && info->state != BP_PLUGIN_SHADOWED)
      text = g_strdup_printf("plugin %s: %s", info->path, info->reason);
    else
      text = tell_apart(info, name);
  }
  bp_plugin_list_free(list);
  g_autofree char *package = is_there ? NULL : bp__find_package(name);
  if (package)
    text = g_strdup_printf("install the package %s, or name the folder of its plugin in "
                           "BACKPLANE_PLUGIN_PATH",
                           package);
  return text ? text : g_strdup("");
}

static const Hints hints = {.nearest = bp__find_nearest,
                            .package_of = bp__find_package,
                            .explain_absence = bp__explain_absence,
                            .raise_unknown_kind = bp__raise_unknown_kind,
                            .explain_no_device = bp__explain_no_device,
                            .create_absent = bp__create_absent};

BP__PART(BP_PART_HINTS, hints);
