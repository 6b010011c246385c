/* SPDX-License-Identifier: Apache-2.0 */
/* Says why there is no device, or no kind of device. */

#include "parts/hints/hints.h"

#include "core/device/device.h"
#include "core/registry/installed.h"
#include "core/system/env.h"

#include <backplane/error.h>
#include <glib.h>
#include <string.h>

/* Returns the kind that was probably meant: an installed one, or a published one. */
static const char *find_meant(const char *name, char *const *installed, size_t count) {
  g_autoptr(GPtrArray) all = g_ptr_array_new();
  for (size_t i = 0; i < count; i++)
    g_ptr_array_add(all, installed[i]);
  const char *published;
  for (size_t i = 0; (published = bp__device_type_published_at(i)); i++)
    g_ptr_array_add(all, (char *)(uintptr_t)published);
  return bp__find_nearest(name, (const char *const *)all->pdata, all->len);
}

/* Advises which package to install for a kind that no installed plugin provides; "" if that is
 * unknown (transfer full). */
static char *explain_kind(const char *name) {
  char *why = bp__explain_absence(name);
  if (*why || !bp__device_type_published(name))
    return why;
  bp_str_free(why);
  return g_strdup("install its vendor's plugin, or name the plugin's folder in "
                  "BACKPLANE_PLUGIN_PATH");
}

int bp__raise_unknown_kind(const char *name) {
  size_t count = 0;
  char **known = bp_device_kinds(&count);
  const char *meant = find_meant(name, known, count);
  int is_installed = meant && known && g_strv_contains((const char *const *)known, meant);
  int is_typo = meant && strcmp(meant, name) != 0;
  g_autofree char *hint = is_typo ? g_strdup_printf("; did you mean \"%s\"?", meant) : NULL;
  g_autofree char *list = known ? g_strjoinv(", ", known) : NULL;
  g_autofree char *why = explain_kind(is_typo && !is_installed ? meant : name);
  bp_names_free(known);
  return bp_error_raise(
      BP_ERROR_NOT_FOUND, "no installed plugin has devices of kind \"%.64s\"%s (installed: %s)%s%s",
      name, hint ? hint : "", list && *list ? list : "none", *why ? "; " : "", why);
}

const char *bp__explain_no_device(const char *kind, const char *reason) {
  static _Thread_local char text[2048];
  const Installed *installed = bp__installed();
  if (!installed)
    bp_error_clear();
  g_autofree char *variables = installed ? installed->variables_of(kind) : NULL;
  g_auto(GStrv) names = g_strsplit(variables ? variables : "", " ", -1);
  g_autoptr(GString) set = g_string_new(NULL);
  int count = 0;
  for (char **name = names; *name; name++) {
    const char *value = **name ? bp__env_get(*name) : NULL;
    if (value && !(strstr(reason, *name) && strstr(reason, value)))
      g_string_append_printf(set, "%s%s=%.200s", count++ ? ", " : "", *name, value);
  }
  g_snprintf(text, sizeof text, "%s%s%s", set->str,
             count ? (count > 1 ? " are set, which may be why: " : " is set, which may be why: ")
                   : "",
             reason);
  return text;
}
