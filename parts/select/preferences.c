/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing preferences for devices. */

#include "parts/select/preferences.h"

#include "core/device/device.h"
#include "core/registry/installed.h"
#include "core/registry/names.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <string.h>

#define KIND_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
#define RANK_MAX        1000000

const char bp__preferences_help[] =
    "A list of preferences, separated by commas. The first device that is present is taken:\n"
    "  opencl           the best device of the kind\n"
    "  opencl:1         that index\n"
    "  vulkan:*llvm*    by the device's name, a shell pattern; name:*llvm* of any kind\n"
    "  plugin:NAME      the best device of that plugin\n"
    "  pci:0000:01:00.0 by address, uuid:... by UUID, as `backplane list --probe` shows them\n"
    "  remote:USER@HOST the best device of another machine, which is reached by ssh;\n"
    "                   remote:USER@HOST/opencl:1 and so on for one of them\n"
    "  auto             the best device of all\n"
    "Entries that choose nothing by themselves; where there are no others, auto is meant:\n"
    "  !WHAT            never this\n"
    "  +WHAT            nothing but this; several add up\n"
    "  WHAT=RANK        this rank instead of its own; the highest is the best\n"
    "Examples: cuda,vulkan,cpu   !opencl   +pci:0000:01:00.0   cpu=500,!name:*llvmpipe*\n";

/* ---- Names that must be known ------------------------------------------------------------ */

/* Returns the kinds with a name on all machines (transfer full); "" if the name is unknown. A
 * published kind that no machine has is known. */
static char *find_kinds(const char *name) {
  size_t count = 0;
  if (bp__device_type_published(name) && !bp__remote_is_used())
    return g_strdup(name);
  g_autoptr(GString) found = g_string_new(NULL);
  char **kinds = bp_device_kinds(&count);
  for (size_t i = 0; kinds && i < count; i++)
    if (!strcmp(bp__device_plain_kind(kinds[i]), name))
      g_string_append_printf(found, "%s%s", found->len ? " " : "", kinds[i]);
  bp_names_free(kinds);
  if (!found->len && bp__device_type_published(name))
    g_string_append(found, name);
  return g_string_free(g_steal_pointer(&found), FALSE);
}

/* Returns the kinds of a plugin's devices (transfer full); NULL with an error. */
static char *kinds_of_plugin(const char *name) {
  char *kinds = NULL;
  BpPluginList *list = bp_plugin_list();
  for (size_t i = 0; i < bp_plugin_list_size(list) && !kinds; i++)
    if (!strcmp(bp_plugin_list_get(list, i)->name, name))
      kinds = g_strdup(bp_plugin_list_get(list, i)->devices);
  if (!kinds)
    bp_plugin_activate(name); /* raises the error for an unknown plugin */
  bp_plugin_list_free(list);
  return kinds;
}

/* ---- The meaning of an entry ------------------------------------------------------------- */

static int raise_malformed(const char *entry) {
  return bp_error_raise(BP_ERROR_VALUE,
                        "\"%.80s\" is not a preference for a device; one is KIND, KIND:INDEX, "
                        "KIND:NAME-PATTERN, plugin:NAME, name:PATTERN, pci:ADDRESS, uuid:UUID, "
                        "remote:HOST or auto, with !, + or =RANK; several are separated by commas; "
                        "\"help\" explains them",
                        entry);
}

/* Parses the text after a kind: empty, an index or a pattern. */
static void parse_rest(Preference *preference, const char *rest) {
  preference->by = MATCH_KIND;
  if (rest && !rest[(*rest == '-') + strspn(rest + (*rest == '-'), "0123456789")]) {
    guint64 index;
    /* An index out of range matches no device. */
    preference->by = MATCH_INDEX;
    preference->index =
        g_ascii_string_to_unsigned(rest, 10, 0, INT32_MAX, &index, NULL) ? (int64_t)index : -1;
  } else if (rest) {
    preference->by = MATCH_NAME;
    preference->value = g_strdup(rest);
  }
}

/* Parses `KIND`, `KIND:INDEX`, `KIND:GLOB`. An index names a device of this machine; or of another
 * machine, if only that one has the kind. */
static int parse_kind(Preference *preference, const char *kind, const char *rest) {
  if (!*kind || strlen(kind) >= 64 || kind[strspn(kind, KIND_CHARACTERS)])
    return raise_malformed(preference->text);
  preference->kinds = find_kinds(kind);
  if (!*preference->kinds)
    return bp__device_raise_unknown(kind);
  parse_rest(preference, rest);
  if (preference->by != MATCH_INDEX)
    return 0;
  g_free(preference->kinds);
  preference->kinds = bp__device_find_kind(kind);
  return preference->kinds ? 0 : -1;
}

/* Returns the kinds of the devices of a reachable machine (transfer full); "" if the machine has no
 * devices. */
static char *kinds_of_machine(const char *host) {
  g_autoptr(GString) kinds = g_string_new(NULL);
  g_autofree char *prefix = g_strconcat(BP_REMOTE_PREFIX, host, "/", NULL);
  BpPluginList *list = bp_plugin_list();
  for (size_t i = 0; i < bp_plugin_list_size(list); i++) {
    const BpPluginInfo *info = bp_plugin_list_get(list, i);
    if (g_str_has_prefix(info->path, prefix) &&
        (info->state == BP_PLUGIN_FOUND || info->state == BP_PLUGIN_ACTIVE))
      g_string_append_printf(kinds, "%s%s", kinds->len ? " " : "", info->devices);
  }
  bp_plugin_list_free(list);
  return g_string_free(g_steal_pointer(&kinds), FALSE);
}

/* Says why an entry for a machine can match no device (transfer full), or NULL; `kind` may be
 * NULL. */
static char *explain_machine(const char *host, const char *kind, const char *kinds) {
  g_autofree char *prefix = g_strconcat(BP_REMOTE_PREFIX, host, "/", NULL);
  g_auto(GStrv) plain = g_strsplit(kinds, prefix, -1);
  g_autofree char *names = g_strjoinv("", plain);
  if (!*kinds)
    return g_strdup_printf("%s has no plugin that can be used from here; `backplane list` on that "
                           "machine lists its plugins",
                           host);
  return kind && !bp__words_have(names, kind)
             ? g_strdup_printf("%s has no devices of kind \"%.64s\" that can be used from here; it "
                               "has %s",
                               host, kind, names)
             : NULL;
}

/* Makes an entry for devices that do not exist: it is passed over. */
static int set_absent(Preference *preference, char *why) {
  preference->by = MATCH_KIND;
  preference->kinds = g_strdup("");
  preference->absent = why;
  return 0;
}

/* Parses `remote:HOST`, optionally followed by a slash and an entry for the devices of one of its
 * kinds. */
static int parse_remote(Preference *preference, const char *rest) {
  g_auto(GStrv) parts = g_strsplit(rest, "/", 2);
  g_auto(GStrv) what = g_strsplit(parts[0] && parts[1] ? parts[1] : "", ":", 2);
  if (!parts[0] || (parts[1] && !*parts[1]) || (what[0] && what[1] && !*what[1]))
    return raise_malformed(preference->text);
  const Installed *installed = bp__installed();
  int reached = installed ? installed->reach_machine(parts[0]) : -1;
  if (reached < 0)
    return -1;
  if (!reached) {
    set_absent(preference, g_strdup(bp_error_message()));
    bp_error_clear();
    return 0;
  }
  g_autofree char *kinds = kinds_of_machine(parts[0]);
  char *why = explain_machine(parts[0], what[0], kinds);
  if (why)
    return set_absent(preference, why);
  preference->kinds = what[0] ? g_strconcat(BP_REMOTE_PREFIX, parts[0], "/", what[0], NULL)
                              : g_steal_pointer(&kinds);
  parse_rest(preference, what[0] ? what[1] : NULL);
  return 0;
}

static int parse_what(Preference *preference) {
  static const struct {
    const char *word;
    MatchBy by;
  } keys[] = {{"name", MATCH_NAME}, {"pci", MATCH_PCI}, {"uuid", MATCH_UUID}};
  const char *colon = strchr(preference->text, ':'), *rest = colon ? colon + 1 : NULL;
  g_autofree char *word = g_strndup(preference->text, strcspn(preference->text, ":"));
  if (rest && !*rest)
    return raise_malformed(preference->text);
  if (!strcmp(word, "auto"))
    return rest ? raise_malformed(preference->text) : 0;
  for (size_t i = 0; i < G_N_ELEMENTS(keys); i++)
    if (!strcmp(word, keys[i].word)) {
      preference->by = keys[i].by;
      preference->value = g_strdup(rest);
      return rest ? 0 : raise_malformed(preference->text);
    }
  if (!strcmp(word, "remote"))
    return rest ? parse_remote(preference, rest) : raise_malformed(preference->text);
  if (strcmp(word, "plugin"))
    return parse_kind(preference, word, rest);
  if (!rest || strchr(rest, '/'))
    return raise_malformed(preference->text);
  preference->by = MATCH_KIND;
  preference->kinds = kinds_of_plugin(rest);
  return preference->kinds ? 0 : -1;
}

/* Removes `=RANK` from the text and returns 1; returns 0 if the text has no rank. */
static int split_rank(Preference *preference) {
  gint64 rank;
  char *equals = strrchr(preference->text, '=');
  if (!equals || !g_ascii_string_to_signed(equals + 1, 10, -RANK_MAX, RANK_MAX, &rank, NULL))
    return 0;
  *equals = '\0';
  preference->rank = rank;
  return 1;
}

/* ---- Lists ------------------------------------------------------------------------------- */

static void free_preference(void *data) {
  Preference *preference = data;
  g_free(preference->text);
  g_free(preference->kinds);
  g_free(preference->value);
  g_free(preference->absent);
  g_free(preference);
}

static int add_entry(Preferences *preferences, const char *entry) {
  int is_denied = *entry == '!', is_only = *entry == '+';
  Preference *preference = g_new0(Preference, 1);
  preference->text = g_strdup(entry + (is_denied || is_only));
  int is_ranked = split_rank(preference);
  GPtrArray *list = is_denied   ? preferences->denied
                    : is_only   ? preferences->only
                    : is_ranked ? preferences->ranked
                                : preferences->wanted;
  g_ptr_array_add(list, preference);
  int has_two = is_ranked && (is_denied || is_only);
  int means_all = !strcmp(preference->text, "auto") && list != preferences->wanted;
  return has_two || means_all ? raise_malformed(entry) : parse_what(preference);
}

static int parse_entries(const char *list, Preferences *preferences) {
  g_auto(GStrv) entries = g_strsplit(list, ",", -1);
  int is_blank = !list[strspn(list, " ")];
  for (char **entry = entries; *entry; entry++)
    if (!strcmp(g_strstrip(*entry), "help"))
      return bp_error_raise(BP_ERROR_VALUE, "%s", bp__preferences_help);
  for (char **entry = entries; !is_blank && *entry; entry++)
    if (add_entry(preferences, *entry))
      return -1;
  return preferences->wanted->len ? 0 : add_entry(preferences, "auto");
}

int bp__preferences_parse(const char *list, Preferences *preferences) {
  *preferences = (Preferences){
      .wanted = g_ptr_array_new_with_free_func(free_preference),
      .denied = g_ptr_array_new_with_free_func(free_preference),
      .only = g_ptr_array_new_with_free_func(free_preference),
      .ranked = g_ptr_array_new_with_free_func(free_preference),
  };
  return parse_entries(list, preferences);
}

void bp__preferences_clear(Preferences *preferences) {
  g_ptr_array_unref(preferences->wanted);
  g_ptr_array_unref(preferences->denied);
  g_ptr_array_unref(preferences->only);
  g_ptr_array_unref(preferences->ranked);
}
