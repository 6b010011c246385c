/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing a device: the list of preferences, and the report on what was passed over. */

#include "core/device/device.h"

#include "core/registry/env.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <fnmatch.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>

/* One device that is there. */
typedef struct Candidate {
  BpDevice device;
  int64_t rank;
  char name[128]; /* what it calls itself, "" if nothing */
} Candidate;

typedef struct Selection {
  const int32_t *types; /* the device types that may be chosen; NULL: any */
  size_t num_types;
  GPtrArray *wanted;   /* entries to be tried in order */
  GPtrArray *excluded; /* kinds */
  GString *passed;     /* "opencl: why; cuda: why": what was passed over */
} Selection;

/* ---- What is there ----------------------------------------------------------------------- */

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

static void get_name(BpDevice device, char *name, size_t size) {
  BpValue value;
  BpByteArray view;
  *name = '\0';
  if (!bp_device_get_attr(device, BP_ATTR_DEVICE_NAME, &value)) {
    if (value.type_index != BP_TYPE_NONE && !bp_value_view_str(&value, &view))
      g_strlcpy(name, view.data, MIN(size, view.size + 1));
    bp_value_clear(&value);
  }
  bp_error_clear();
}

static int exists(BpDevice device) {
  BpValue value;
  bp_device_get_attr(device, BP_ATTR_EXIST, &value);
  return value.v_int64 != 0;
}

/* Appends "what: why; ", and takes the thread's error as the reason if `why` is NULL. */
static void pass_over(Selection *selection, const char *what, const char *why) {
  if (selection->passed->len)
    g_string_append(selection->passed, "; ");
  g_string_append_printf(selection->passed, "%s: %s", what, why ? why : bp_error_message());
  if (!why)
    bp_error_clear();
}

static int may_be_chosen(const Selection *selection, int32_t device_type) {
  for (size_t i = 0; i < selection->num_types; i++)
    if (selection->types[i] == device_type)
      return 1;
  return !selection->types;
}

/* The table of a kind; NULL if it may not be chosen or cannot be used, which is passed over as
 * `what`. A plugin that cannot be chosen is not loaded, if its number is a published one. */
static const BpDeviceApi *find_kind(Selection *selection, const char *what, const char *kind) {
  static const char no_code[] = "there is no code for it";
  int32_t number = bp__device_type_published(kind);
  if (number && !may_be_chosen(selection, number)) {
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

/* Adds the devices of a kind to `found`. A kind with none is passed over, with its reason. */
static void gather(Selection *selection, const char *kind, GArray *found) {
  const BpDeviceApi *api = find_kind(selection, kind, kind);
  int32_t count;
  const char *why;
  if (!api)
    return;
  if (bp_device_count(api->device_type, &count, &why)) {
    pass_over(selection, kind, NULL);
    return;
  }
  guint before = found->len;
  for (int32_t i = 0; i < count; i++) {
    Candidate candidate = {.device = {api->device_type, i}};
    if (!exists(candidate.device))
      continue;
    candidate.rank = get_rank(candidate.device);
    get_name(candidate.device, candidate.name, sizeof candidate.name);
    g_array_append_val(found, candidate);
  }
  if (found->len == before)
    pass_over(selection, kind, *why ? why : "there is no such device");
}

static int is_excluded(const Selection *selection, const char *kind) {
  for (guint i = 0; i < selection->excluded->len; i++)
    if (!strcmp(g_ptr_array_index(selection->excluded, i), kind))
      return 1;
  return 0;
}

static int gather_all(Selection *selection, GArray *found) {
  char **kinds = bp_device_kinds(NULL);
  if (!kinds)
    return -1;
  for (char **kind = kinds; *kind; kind++)
    if (!is_excluded(selection, *kind))
      gather(selection, *kind, found);
  bp_names_free(kinds);
  return 0;
}

/* The best by rank, the first of equals, that matches; NULL if none does. */
static const Candidate *pick_best(const GArray *found, const char *glob) {
  const Candidate *best = NULL;
  for (guint i = 0; i < found->len; i++) {
    const Candidate *candidate = &g_array_index(found, Candidate, i);
    if (glob && fnmatch(glob, candidate->name, FNM_CASEFOLD))
      continue;
    if (!best || candidate->rank > best->rank)
      best = candidate;
  }
  return best;
}

/* ---- One entry --------------------------------------------------------------------------- */

/* `KIND:INDEX`. 1: there; 0: passed over. */
static int try_index(Selection *selection, const char *entry, const char *kind, const char *index,
                     BpDevice *device) {
  guint64 number;
  const BpDeviceApi *api = find_kind(selection, entry, kind);
  if (!api)
    return 0;
  if (!g_ascii_string_to_unsigned(index, 10, 0, INT32_MAX, &number, NULL)) {
    pass_over(selection, entry, "there is no device of that index");
    return 0;
  }
  *device = (BpDevice){api->device_type, (int32_t)number};
  if (!bp__device_get(*device)) {
    pass_over(selection, entry, NULL);
    return 0;
  }
  if (exists(*device))
    return 1;
  pass_over(selection, entry, "the device says that it cannot be used now");
  return 0;
}

/* `KIND` or `KIND:GLOB`. */
static int try_glob(Selection *selection, const char *entry, const char *kind, const char *glob,
                    BpDevice *device) {
  GArray *found = g_array_new(FALSE, FALSE, sizeof(Candidate));
  gather(selection, kind, found);
  const Candidate *best = pick_best(found, glob);
  if (best)
    *device = best->device;
  else if (found->len)
    pass_over(selection, entry, "no device of that name");
  int is_found = best != NULL;
  g_array_unref(found);
  return is_found;
}

static int try_auto(Selection *selection, BpDevice *device) {
  GArray *found = g_array_new(FALSE, FALSE, sizeof(Candidate));
  int rc = gather_all(selection, found);
  const Candidate *best = pick_best(found, NULL);
  if (best)
    *device = best->device;
  if (!rc)
    rc = best != NULL;
  g_array_unref(found);
  return rc;
}

/* 1: *device is set; 0: passed over; -1 with an error. */
static int try_entry(Selection *selection, const char *entry, BpDevice *device) {
  if (!strcmp(entry, "auto"))
    return try_auto(selection, device);
  size_t length = strcspn(entry, ":");
  const char *rest = entry[length] ? entry + length + 1 : NULL;
  g_autofree char *kind = g_strndup(entry, length);
  if (is_excluded(selection, kind)) {
    pass_over(selection, entry, "excluded by the same list");
    return 0;
  }
  if (rest && !rest[strspn(rest, "0123456789")])
    return try_index(selection, entry, kind, rest, device);
  return try_glob(selection, entry, kind, rest, device);
}

/* ---- The list ---------------------------------------------------------------------------- */

static int is_kind(const char *text, size_t length) {
  return length && length < 64 &&
         strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == length;
}

static int raise_malformed(const char *entry) {
  return bp_error_raise(BP_ERROR_VALUE,
                        "\"%.80s\" is no preference for a device; one is KIND, KIND:INDEX, "
                        "KIND:NAME-PATTERN, !KIND or auto, and several are separated by commas",
                        entry);
}

/* Entries are checked before any device is asked, so that a mistake late in a list is seen. */
static int add_entry(Selection *selection, const char *entry) {
  if (*entry == '!') {
    if (!is_kind(entry + 1, strlen(entry + 1)))
      return raise_malformed(entry);
    g_ptr_array_add(selection->excluded, g_strdup(entry + 1));
    return 0;
  }
  size_t length = strcspn(entry, ":");
  if (!is_kind(entry, length) || (entry[length] && !entry[length + 1]) ||
      (entry[length] && !strncmp(entry, "auto:", length + 1)))
    return raise_malformed(entry);
  g_ptr_array_add(selection->wanted, g_strdup(entry));
  return 0;
}

static int parse_list(Selection *selection, const char *list) {
  g_auto(GStrv) entries = g_strsplit(list, ",", -1);
  int is_blank = !list[strspn(list, " ")];
  for (char **entry = entries; !is_blank && *entry; entry++)
    if (add_entry(selection, g_strstrip(*entry)))
      return -1;
  if (!selection->wanted->len)
    g_ptr_array_add(selection->wanted, g_strdup("auto"));
  return 0;
}

/* "cpu:0 (Intel ...), opencl:0 (...)" (transfer full). */
static char *list_present(void) {
  Selection all = {.excluded = g_ptr_array_new(), .passed = g_string_new(NULL)};
  GArray *found = g_array_new(FALSE, FALSE, sizeof(Candidate));
  GString *text = g_string_new(NULL);
  if (gather_all(&all, found))
    bp_error_clear();
  for (guint i = 0; i < found->len; i++) {
    const Candidate *candidate = &g_array_index(found, Candidate, i);
    char device[64];
    bp_device_format(candidate->device, device);
    g_string_append_printf(text, "%s%s", i ? ", " : "", device);
    if (*candidate->name)
      g_string_append_printf(text, " (%s)", candidate->name);
  }
  g_array_unref(found);
  g_string_free(all.passed, TRUE);
  g_ptr_array_unref(all.excluded);
  return g_string_free(text, FALSE);
}

static int raise_none(const Selection *selection, const char *list) {
  g_autofree char *present = list_present();
  return bp_error_raise(BP_ERROR_NOT_FOUND,
                        "no device fits \"%.200s\". There is: %s. Passed over: %s", list,
                        *present ? present : "no device at all",
                        selection->passed->len ? selection->passed->str
                                               : "nothing; the list leaves no kind to be tried");
}

static int try_list(Selection *selection, const char *list, BpDevice *device) {
  if (parse_list(selection, list))
    return -1;
  for (guint i = 0; i < selection->wanted->len; i++) {
    int found = try_entry(selection, g_ptr_array_index(selection->wanted, i), device);
    if (found)
      return found < 0 ? -1 : 0;
  }
  return raise_none(selection, list);
}

int bp_device_select(const char *preferences, BpDevice *device, char **report) {
  return bp_device_select_among(NULL, 0, preferences, device, report);
}

int bp_device_select_among(const int32_t *device_types, size_t count, const char *preferences,
                           BpDevice *device, char **report) {
  if (report)
    *report = NULL;
  if (bp__device_check_fork())
    return -1;
  const char *list = preferences ? preferences : bp__env_get("BACKPLANE_DEVICE");
  Selection selection = {.types = device_types,
                         .num_types = count,
                         .wanted = g_ptr_array_new_with_free_func(g_free),
                         .excluded = g_ptr_array_new_with_free_func(g_free),
                         .passed = g_string_new(NULL)};
  int rc = try_list(&selection, list ? list : "", device);
  if (!rc && report && !(*report = strdup(selection.passed->str)))
    rc = bp_error_raise(BP_ERROR_MEMORY, "no memory for a report");
  g_ptr_array_unref(selection.wanted);
  g_ptr_array_unref(selection.excluded);
  g_string_free(selection.passed, TRUE);
  return rc;
}
