/* SPDX-License-Identifier: Apache-2.0 */
/* Selects a device by a list of preferences, and reports the devices that were skipped. */

#include "core/device/device.h"
#include "core/device/layers.h"
#include "core/device/parts.h"
#include "parts/select/config.h"
#include "parts/select/preferences.h"

#include "core/system/env.h"
#include "core/registry/argument.h"
#include "core/registry/hints.h"
#include "core/registry/names.h"
#include "core/registry/part.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A device that exists, or that cannot be used now. */
typedef struct Candidate {
  BpDevice device;
  const char *kind; /* name from the device table, valid for ever */
  int is_usable;
  int64_t rank;
  char name[128]; /* the device's own name, or "" */
  char pci[64];
  char uuid[64];
} Candidate;

typedef struct Selection {
  const int32_t *types; /* the device types that may be chosen; NULL: any */
  size_t num_types;
  Preferences preferences;
  GArray *seen;        /* Candidate: the devices of all examined kinds */
  GString *seen_kinds; /* " opencl cpu " */
  int has_seen_all;
  GString *passed; /* "opencl: why; cuda: why": the skipped kinds and devices */
} Selection;

/* ---- The present devices ----------------------------------------------------------------- */

static int64_t get_rank(BpDevice device) {
  BpValue value;
  if (bp_device_get_attr(device, BP_ATTR_RANK, &value)) {
    bp_error_clear();
    return 0;
  }
  int64_t rank = value.type_index == BP_TYPE_INT ? value.v_int64 : 0;
  bp_value_clear(&value);
  return rank;
}

static void get_text(BpDevice device, int32_t attr, char *text, size_t size) {
  BpValue value;
  BpByteArray view;
  *text = '\0';
  if (!bp_device_get_attr(device, attr, &value)) {
    if (value.type_index != BP_TYPE_NONE && !bp_value_view_str(&value, &view)) {
      size_t length = MIN(size - 1, view.size); /* the bytes of a plugin's text may lack a NUL */
      memcpy(text, view.data, length);
      text[length] = '\0';
    }
    bp_value_clear(&value);
  }
  bp_error_clear();
}

static int exists(BpDevice device) {
  BpValue value;
  bp_device_get_attr(device, BP_ATTR_EXIST, &value);
  return value.v_int64 != 0;
}

/* Appends "what: why; ". If `why` is NULL, the thread's error is the reason. */
static void pass_over(Selection *selection, const char *what, const char *why) {
  if (selection->passed->len)
    g_string_append(selection->passed, "; ");
  g_string_append_printf(selection->passed, "%s: %s", what, why ? why : bp_error_message());
  if (!why)
    bp_error_clear();
}

/* Whether a type may be chosen. The permitted types may be those of code, or of the devices of one
 * machine. */
static int may_be_chosen(const Selection *selection, int32_t device_type) {
  for (size_t i = 0; i < selection->num_types; i++)
    if (selection->types[i] == device_type ||
        selection->types[i] == BP_DEVICE_TYPE_OF_CODE(device_type))
      return 1;
  return !selection->types;
}

/* Whether the permitted types exclude a kind, as far as that is known without loading a plugin. */
static int is_without_code(const Selection *selection, const char *kind) {
  int32_t number = bp__device_type_published(bp__device_plain_kind(kind));
  int has_code = !number || !selection->types;
  for (size_t i = 0; i < selection->num_types && !has_code; i++)
    has_code = BP_DEVICE_TYPE_OF_CODE(selection->types[i]) == number;
  return !has_code;
}

/* Returns the table of a kind; NULL if the kind may not be chosen or cannot be used, which is
 * reported under the name `what`. A plugin whose kind cannot be chosen is not loaded, if the kind's
 * number is published. */
static const BpDeviceApi *find_kind(Selection *selection, const char *what, const char *kind) {
  static const char no_code[] = "there is no code for it";
  if (is_without_code(selection, kind)) {
    pass_over(selection, what, no_code);
    return NULL;
  }
  const BpDeviceApi *api = bp__device_api_by_name(kind);
  if (!api)
    pass_over(selection, what, NULL);
  else if (!may_be_chosen(selection, api->device_type))
    pass_over(selection, what, no_code);
  else
    return api;
  return NULL;
}

/* ---- Matching entries with devices ------------------------------------------------------- */

static int fits(const char *pattern, const char *text) {
  return *text && !fnmatch(pattern, text, FNM_CASEFOLD);
}

static int matches(const Preference *preference, const Candidate *candidate) {
  if (preference->kinds && !bp__words_have(preference->kinds, candidate->kind))
    return 0;
  switch (preference->by) {
  case MATCH_INDEX:
    return preference->index == candidate->device.device_id;
  case MATCH_NAME:
    return fits(preference->value, candidate->name);
  case MATCH_PCI:
    return fits(preference->value, candidate->pci);
  case MATCH_UUID:
    return fits(preference->value, candidate->uuid);
  default:
    return 1;
  }
}

/* Returns the last matching entry of a list, or NULL; marks every entry that matches. */
static const Preference *find_match(const GPtrArray *list, const Candidate *candidate) {
  const Preference *found = NULL;
  for (guint i = 0; i < list->len; i++) {
    Preference *preference = g_ptr_array_index(list, i);
    if (!matches(preference, candidate))
      continue;
    preference->matched = 1;
    found = preference;
  }
  return found;
}

/* Says why the list excludes a device, or returns NULL. */
static const char *why_ruled_out(const Selection *selection, const Candidate *candidate) {
  const Preferences *preferences = &selection->preferences;
  if (find_match(preferences->denied, candidate))
    return "excluded by the same list";
  if (preferences->only->len && !find_match(preferences->only, candidate))
    return "not among the devices that the same list allows";
  return NULL;
}

/* Says why entries exclude a whole kind, so that its plugin need not be loaded; or returns NULL. */
static const char *why_kind_ruled_out(const Selection *selection, const char *kind) {
  const Preferences *preferences = &selection->preferences;
  for (guint i = 0; i < preferences->denied->len; i++) {
    const Preference *denied = g_ptr_array_index(preferences->denied, i);
    if (denied->by == MATCH_KIND && bp__words_have(denied->kinds, kind))
      return "excluded by the same list";
  }
  for (guint i = 0; i < preferences->only->len; i++) {
    const Preference *only = g_ptr_array_index(preferences->only, i);
    if (!only->kinds || bp__words_have(only->kinds, kind))
      return NULL;
  }
  return preferences->only->len ? "not among the devices that the same list allows" : NULL;
}

/* ---- Examining devices ------------------------------------------------------------------- */

static void see_device(Selection *selection, const BpDeviceApi *api, int32_t index) {
  Candidate candidate = {.device = {api->device_type, index}, .kind = api->name};
  candidate.is_usable = exists(candidate.device);
  candidate.rank = get_rank(candidate.device);
  get_text(candidate.device, BP_ATTR_DEVICE_NAME, candidate.name, sizeof candidate.name);
  get_text(candidate.device, BP_ATTR_PCI_ADDRESS, candidate.pci, sizeof candidate.pci);
  get_text(candidate.device, BP_ATTR_UUID, candidate.uuid, sizeof candidate.uuid);
  const Preference *ranked = find_match(selection->preferences.ranked, &candidate);
  if (ranked)
    candidate.rank = ranked->rank;
  why_ruled_out(selection, &candidate); /* marks the matching entries */
  g_array_append_val(selection->seen, candidate);
}

/* Examines the devices of a kind, once. A kind without devices is reported as skipped, with its
 * reason. */
static void see_kind(Selection *selection, const char *kind) {
  int32_t count;
  const char *why;
  if (bp__words_have(selection->seen_kinds->str, kind))
    return;
  g_string_append_printf(selection->seen_kinds, " %s", kind);
  const BpDeviceApi *api = find_kind(selection, kind, kind);
  if (!api)
    return;
  if (bp_device_count(api->device_type, &count, &why)) {
    pass_over(selection, kind, NULL);
    return;
  }
  int usable = 0;
  for (int32_t i = 0; i < count; i++) {
    see_device(selection, api, i);
    usable |= g_array_index(selection->seen, Candidate, selection->seen->len - 1).is_usable;
  }
  if (!usable)
    pass_over(selection, kind, *why ? why : "there is no such device");
}

/* Whether a rejected plugin may provide devices that no other plugin provides and that the entries
 * allow. A plugin whose descriptor cannot be read may provide any device. */
static int may_be_missed(const Selection *selection, const BpPluginInfo *info, char *const *kinds) {
  g_auto(GStrv) own = g_strsplit(info->devices, " ", -1);
  int may_be = !*info->name && !why_kind_ruled_out(selection, "");
  for (char **kind = own; *kind && !may_be; kind++)
    may_be = **kind && !g_strv_contains((const char *const *)kinds, *kind) &&
             !why_kind_ruled_out(selection, *kind) && !is_without_code(selection, *kind);
  return may_be;
}

static void pass_over_rejected(Selection *selection, const BpPluginList *list, char *const *kinds) {
  for (size_t i = 0; i < bp_plugin_list_size(list); i++) {
    const BpPluginInfo *info = bp_plugin_list_get(list, i);
    if (info->state == BP_PLUGIN_REJECTED && may_be_missed(selection, info, kinds))
      pass_over(selection, info->path, info->reason);
  }
}

/* Tries all plugins that are about to be examined, at the same time. */
static void try_kinds(const Selection *selection, char *const *kinds) {
  g_autoptr(GPtrArray) wanted = g_ptr_array_new();
  for (; *kinds; kinds++)
    if (!bp__words_have(selection->seen_kinds->str, *kinds) &&
        !is_without_code(selection, *kinds) && !why_kind_ruled_out(selection, *kinds))
      g_ptr_array_add(wanted, *kinds);
  g_ptr_array_add(wanted, NULL);
  bp_plugin_try((const char *const *)wanted->pdata);
}

/* Adds the kinds that plugins declare, except rejected and shadowed plugins. */
static int add_devices(const BpPluginList *list, BpNames *names) {
  int rc = 0;
  for (size_t i = 0; !rc && i < bp_plugin_list_size(list); i++) {
    const BpPluginInfo *info = bp_plugin_list_get(list, i);
    if (info->state != BP_PLUGIN_REJECTED && info->state != BP_PLUGIN_SHADOWED)
      rc = bp__names_add_words(names, info->devices);
  }
  return rc;
}

/* Examines every kind, once. */
static int see_all(Selection *selection) {
  if (selection->has_seen_all)
    return 0;
  BpPluginList *list = bp_plugin_list();
  BpNames names = {.text = NULL};
  int rc = add_devices(list, &names) || bp__device_add_kinds(&names);
  char **kinds = rc ? NULL : bp__names_finish(&names, NULL);
  bp__names_clear(&names);
  if (kinds) {
    try_kinds(selection, kinds);
    for (char **kind = kinds; *kind; kind++)
      if (!why_kind_ruled_out(selection, *kind))
        see_kind(selection, *kind);
    pass_over_rejected(selection, list, kinds);
    selection->has_seen_all = 1;
  }
  bp_names_free(kinds);
  bp_plugin_list_free(list);
  return selection->has_seen_all ? 0 : -1;
}

/* Examines all kinds that an entry can match. */
static int see(Selection *selection, const Preference *preference) {
  if (!preference->kinds)
    return see_all(selection);
  if (!*preference->kinds)
    pass_over(selection, preference->text, "it has no devices");
  g_auto(GStrv) kinds = g_strsplit(preference->kinds, " ", -1);
  for (char **kind = kinds; *kind; kind++) {
    const char *why = **kind ? why_kind_ruled_out(selection, *kind) : NULL;
    if (why)
      pass_over(selection, preference->text, why);
    else if (**kind)
      see_kind(selection, *kind);
  }
  return 0;
}

/* ---- Entries that match nothing ---------------------------------------------------------- */

static const char *text_of(const Candidate *candidate, MatchBy by) {
  return by == MATCH_PCI ? candidate->pci : (by == MATCH_UUID ? candidate->uuid : candidate->name);
}

/* Returns "; did you mean ..." with the nearest name that the entry could have matched, or "". */
static void hint_at(const Selection *selection, const Preference *preference,
                    char hint[BP_HINT_MAX]) {
  g_autoptr(GPtrArray) texts = g_ptr_array_new();
  g_autofree char *plain = g_strdup(preference->value ? preference->value : "");
  char *end = plain;
  for (const char *at = plain; *at; at++)
    if (!strchr("*?[]", *at))
      *end++ = *at;
  *end = '\0';
  for (guint i = 0; i < selection->seen->len; i++)
    g_ptr_array_add(texts, (char *)(uintptr_t)text_of(&g_array_index(selection->seen, Candidate, i),
                                                      preference->by));
  bp__nearest_hint(plain, (const char *const *)texts->pdata, texts->len, hint);
}

static int has_seen_kinds(const Selection *selection, const char *kinds) {
  g_auto(GStrv) words = g_strsplit(kinds, " ", -1);
  for (char **word = words; *word; word++)
    if (**word && !bp__words_have(selection->seen_kinds->str, *word))
      return 0;
  return *kinds != '\0';
}

/* Reports !, + and =RANK entries that matched no device, after all kinds that they can match were
 * examined: such entries are probably typing errors. */
static int check_matched(const Selection *selection, const GPtrArray *list, const char *sign) {
  for (guint i = 0; i < list->len; i++) {
    const Preference *preference = g_ptr_array_index(list, i);
    int is_decided =
        preference->kinds ? has_seen_kinds(selection, preference->kinds) : selection->has_seen_all;
    char hint[BP_HINT_MAX];
    if (preference->matched || !is_decided || preference->by == MATCH_KIND)
      continue;
    hint_at(selection, preference, hint);
    return bp_error_raise(BP_ERROR_NOT_FOUND,
                          "\"%s%.80s\" matches no device%s; `backplane list --probe` shows them",
                          sign, preference->text, hint);
  }
  return 0;
}

static int check_all_matched(const Selection *selection) {
  const Preferences *preferences = &selection->preferences;
  return check_matched(selection, preferences->denied, "!") ||
                 check_matched(selection, preferences->only, "+") ||
                 check_matched(selection, preferences->ranked, "")
             ? -1
             : 0;
}

/* ---- One entry --------------------------------------------------------------------------- */

static int is_elsewhere(const Candidate *candidate) {
  return candidate->device.device_type != BP_DEVICE_TYPE_OF_CODE(candidate->device.device_type);
}

/* Orders devices of equal rank: this machine's devices are better, and then devices that were seen
 * earlier. */
static int is_better(const Candidate *candidate, const Candidate *best) {
  if (!best || candidate->rank != best->rank)
    return !best || candidate->rank > best->rank;
  return is_elsewhere(best) && !is_elsewhere(candidate);
}

/* Returns the matching device with the highest rank; NULL if all are excluded, and *why says why
 * the last one is. */
static const Candidate *pick_best(const Selection *selection, const Preference *preference,
                                  const char **why) {
  const Candidate *best = NULL;
  for (guint i = 0; i < selection->seen->len; i++) {
    const Candidate *candidate = &g_array_index(selection->seen, Candidate, i);
    if (!matches(preference, candidate))
      continue;
    const char *out = why_ruled_out(selection, candidate);
    if (!out && !candidate->is_usable)
      out = "the device says that it cannot be used now";
    if (out)
      *why = out;
    else if (is_better(candidate, best))
      best = candidate;
  }
  return best;
}

/* A missing device of `KIND:INDEX` gets its own reason. */
static void pass_over_index(Selection *selection, const Preference *preference) {
  const BpDeviceApi *api = bp__device_api_by_name(preference->kinds);
  if (preference->index < 0)
    pass_over(selection, preference->text,
              "there is no device of that index; indices count from 0");
  else if (!api || !bp__device_get((BpDevice){api->device_type, (int32_t)preference->index}))
    pass_over(selection, preference->text, NULL);
}

static void pass_over_pattern(Selection *selection, const Preference *preference) {
  static const char *const what[] = {
      [MATCH_NAME] = "name", [MATCH_PCI] = "PCI address", [MATCH_UUID] = "UUID"};
  char hint[BP_HINT_MAX];
  hint_at(selection, preference, hint);
  g_autofree char *why = g_strdup_printf("no device of that %s%s", what[preference->by], hint);
  pass_over(selection, preference->text, why);
}

/* Whether a device was found of any kind that the entry can match. */
static int has_seen_any(const Selection *selection, const Preference *preference) {
  for (guint i = 0; i < selection->seen->len; i++) {
    const Candidate *candidate = &g_array_index(selection->seen, Candidate, i);
    if (!preference->kinds || bp__words_have(preference->kinds, candidate->kind))
      return 1;
  }
  return 0;
}

/* Returns 1 with *device set; 0 if the entry gave no device; -1 with an error. */
static int try_entry(Selection *selection, const Preference *preference, BpDevice *device) {
  const char *why = NULL;
  if (preference->absent) {
    pass_over(selection, preference->text, preference->absent);
    return 0;
  }
  if (see(selection, preference))
    return -1;
  const Candidate *best = pick_best(selection, preference, &why);
  if (best) {
    *device = best->device;
    return 1;
  }
  if (why && preference->by != MATCH_ANY)
    pass_over(selection, preference->text, why);
  else if (preference->by == MATCH_INDEX && has_seen_any(selection, preference))
    pass_over_index(selection, preference);
  else if (preference->value && has_seen_any(selection, preference))
    pass_over_pattern(selection, preference);
  return 0;
}

/* ---- The list ---------------------------------------------------------------------------- */

static void selection_clear(Selection *selection) {
  bp__preferences_clear(&selection->preferences);
  g_array_unref(selection->seen);
  g_string_free(selection->seen_kinds, TRUE);
  g_string_free(selection->passed, TRUE);
}

/* Begins a selection; clear it also after a failure. */
static int selection_begin(Selection *selection, const char *list, const int32_t *types,
                           size_t count) {
  *selection = (Selection){.types = types,
                           .num_types = count,
                           .seen = g_array_new(FALSE, FALSE, sizeof(Candidate)),
                           .seen_kinds = g_string_new(NULL),
                           .passed = g_string_new(NULL)};
  return bp__preferences_parse(list, &selection->preferences);
}

/* Lists the devices: "cpu:0 (Intel ...), opencl:0 (...)" (transfer full). */
static char *list_present(void) {
  Selection all;
  GString *text = g_string_new(NULL);
  if (selection_begin(&all, "", NULL, 0) || see_all(&all))
    bp_error_clear();
  for (guint i = 0; i < all.seen->len; i++) {
    const Candidate *candidate = &g_array_index(all.seen, Candidate, i);
    char device[BP_DEVICE_TEXT_MAX];
    if (!candidate->is_usable)
      continue;
    bp_device_format(candidate->device, device, sizeof device);
    g_string_append_printf(text, "%s%s", text->len ? ", " : "", device);
    if (*candidate->name)
      g_string_append_printf(text, " (%s)", candidate->name);
  }
  selection_clear(&all);
  return g_string_free(text, FALSE);
}

/* After all kinds were examined, reports the permitted kinds that no plugin provides. */
static void see_missing(Selection *selection) {
  for (size_t i = 0; selection->has_seen_all && i < selection->num_types; i++) {
    const char *kind = bp__device_type_name(selection->types[i]);
    if (kind && !why_kind_ruled_out(selection, kind))
      see_kind(selection, kind);
  }
}

/* Reports why the device would not exist even if there were code for it. The report loads the
 * plugin, so it is made only if no device was found. */
static void pass_over_absent(Selection *selection, const Preference *preference) {
  g_auto(GStrv) kinds = g_strsplit(preference->kinds ? preference->kinds : "", " ", -1);
  for (char **kind = kinds; *kind; kind++) {
    int32_t count;
    const char *why = "";
    const BpDeviceApi *api = bp__device_api_by_name(*kind);
    if (api ? may_be_chosen(selection, api->device_type) : !is_without_code(selection, *kind))
      bp_error_clear(); /* the kind is already reported as skipped */
    else if (!api || bp_device_count(api->device_type, &count, &why))
      pass_over(selection, preference->text, NULL);
    else if (!count)
      pass_over(selection, preference->text, *why ? why : "there is no such device");
    else if (preference->by == MATCH_INDEX)
      pass_over_index(selection, preference);
  }
}

/* Returns " among the kinds that the code is for (cpu, cuda)", or "" if any kind may be chosen
 * (transfer full). */
static char *list_types(const Selection *selection) {
  BpNames names = {.text = NULL};
  for (size_t i = 0; i < selection->num_types; i++) {
    char text[BP_DEVICE_TEXT_MAX];
    bp_device_format((BpDevice){selection->types[i], 0}, text, sizeof text);
    bp__names_add(&names, text, (size_t)(strrchr(text, ':') - text));
  }
  char **kinds = bp__names_finish(&names, NULL);
  char *list = kinds ? g_strjoinv(", ", kinds) : NULL;
  bp_names_free(kinds);
  char *text = selection->types
                   ? g_strdup_printf(" among the kinds that the code is for (%s)", list ? list : "")
                   : g_strdup("");
  g_free(list);
  return text;
}

/* The files that the trial and the loading of a plugin need at one time, at most. */
#define FILES_OF_PLUGIN 16

/* How many files the process may still open, up to FILES_OF_PLUGIN. */
static int count_free_files(void) {
  int files[FILES_OF_PLUGIN], count = 0;
  while (count < FILES_OF_PLUGIN && (files[count] = open("/", O_PATH | O_CLOEXEC)) >= 0)
    count++;
  for (int i = 0; i < count; i++)
    close(files[i]);
  return count;
}

/* Describes a machine on which no plugin has a device (transfer full). */
static char *describe_none(void) {
  int files = count_free_files();
  if (files < FILES_OF_PLUGIN)
    return g_strdup_printf("no device at all; this process may open %d more files, and a plugin "
                           "needs up to %d: close files, or raise `ulimit -n`",
                           files, FILES_OF_PLUGIN);
  g_autofree char *package = bp__package_of("cpu");
  return g_strdup_printf("no device at all; each backend is a package of its own%s%s, and "
                         "BACKPLANE_PLUGIN_PATH names further folders with plugins",
                         package ? ", as " : "", package ? package : "");
}

static int raise_none(Selection *selection, const char *list) {
  see_missing(selection);
  const GPtrArray *wanted = selection->preferences.wanted;
  for (guint i = 0; i < wanted->len; i++)
    pass_over_absent(selection, g_ptr_array_index(wanted, i));
  g_autofree char *present = list_present(), *allowed = list_types(selection);
  g_autofree char *none = *present ? NULL : describe_none();
  return bp_error_raise(BP_ERROR_NOT_FOUND, "no device fits %s%.200s%s%s. There is: %s%s%s",
                        *list ? "\"" : "", *list ? list : "the default", *list ? "\"" : "", allowed,
                        none ? none : present, selection->passed->len ? ". Passed over: " : "",
                        selection->passed->len ? selection->passed->str
                        : *present             ? "; the list leaves no kind to be tried"
                                               : "");
}

static int try_list(Selection *selection, const char *list, BpDevice *device) {
  const GPtrArray *wanted = selection->preferences.wanted;
  int found = 0;
  for (guint i = 0; i < wanted->len && !found; i++)
    found = try_entry(selection, g_ptr_array_index(wanted, i), device);
  if (found < 0 || check_all_matched(selection))
    return -1;
  return found ? 0 : raise_none(selection, list);
}

static int select_by(const char *list, const int32_t *types, size_t count, BpDevice *device,
                     char **report) {
  Selection selection;
  int rc = selection_begin(&selection, list, types, count);
  if (!rc)
    rc = try_list(&selection, list, device);
  if (!rc && report && !(*report = strdup(selection.passed->str)))
    rc = bp_error_raise(BP_ERROR_MEMORY, "no memory for a report");
  selection_clear(&selection);
  return rc;
}

/* Finds the list in the environment or the configuration file (transfer full), and its origin for
 * error messages (transfer full). */
static int find_list(char **list, char **source) {
  const char *variable = bp__env_get("BACKPLANE_DEVICE");
  *list = g_strdup(variable);
  *source = g_strdup("BACKPLANE_DEVICE");
  if (variable)
    return 0;
  g_free(*source);
  return bp__config_get("device", "select", list, source);
}

static char *copy_preferences(void) {
  g_autofree char *list = NULL, *source = NULL;
  if (find_list(&list, &source))
    return NULL;
  char *copy = strdup(list ? list : "");
  if (!copy)
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a list of preferences");
  return copy;
}

static int select_by_settings(const int32_t *types, size_t count, BpDevice *device, char **report) {
  g_autofree char *list = NULL, *source = NULL;
  int rc = find_list(&list, &source);
  if (rc)
    return rc;
  rc = select_by(list ? list : "", types, count, device, report);
  return rc && list ? bp_error_add_context("%s", source) : rc;
}

static int select_among(const int32_t *device_types, size_t count, const char *preferences,
                        BpDevice *device, char **report) {
  if (report)
    *report = NULL;
  if (!BP_NOT_NULL(device) || bp__device_check_fork() || bp__layers_check())
    return -1;
  return preferences ? select_by(preferences, device_types, count, device, report)
                     : select_by_settings(device_types, count, device, report);
}

/* ---- Hardware ---------------------------------------------------------------------------- */

static size_t identify(BpDevice device, char *text, size_t capacity) {
  char value[128];
  get_text(device, BP_ATTR_PCI_ADDRESS, value, sizeof value);
  const char *key = "pci";
  if (!*value) {
    get_text(device, BP_ATTR_UUID, value, sizeof value);
    key = "uuid";
  }
  return (size_t)(*value ? g_snprintf(text, capacity, "%s:%s", key, value)
                         : g_snprintf(text, capacity, "%s", ""));
}

/* ---- The part ---------------------------------------------------------------------------- */

static const Selector selector = {.select_among = select_among,
                                  .preferences = copy_preferences,
                                  .identify = identify,
                                  .help = bp__preferences_help};

BP__PART(BP_PART_SELECT, selector);
