/* SPDX-License-Identifier: Apache-2.0 */
/* Section plugin: its descriptor, and its activation. */
#include <string.h>

#include "conformance/kit.h"

static gboolean has_word(const char *list, const char *prefix, const char *word) {
  char *wanted = g_strconcat(prefix, word, NULL);
  char **words = g_strsplit(list, " ", -1);
  gboolean found = g_strv_contains((const char *const *)words, wanted);
  g_strfreev(words);
  g_free(wanted);
  return found;
}

static void check_provided(const Kit *kit, char *const *kinds, const char *prefix) {
  for (; *kinds; kinds++)
    KIT_TRUE(has_word(kit->info->provides, prefix, *kinds),
             "the descriptor lists %s, and `provides` lacks %s%s", *kinds, prefix, *kinds);
}

static void run_descriptor(Kit *kit) {
  KIT_TRUE(kit->info, "there is no such plugin: %s",
           kit->activation_error ? kit->activation_error : kit->subject);
  const struct {
    const char *key, *value;
  } required[] = {{"name", kit->info->name},       {"version", kit->info->version},
                  {"license", kit->info->license}, {"description", kit->info->description},
                  {"abi", kit->info->abi},         {"provides", kit->info->provides}};
  KIT_TRUE(kit->info->state != BP_PLUGIN_REJECTED, "%s", kit->info->reason);
  for (size_t i = 0; i < G_N_ELEMENTS(required); i++)
    KIT_TRUE(*required[i].value, "the descriptor has no `%s`", required[i].key);
  check_provided(kit, kit->kinds, "device_api.");
  check_provided(kit, kit->targets, "target.build.");
}

static void run_activate(Kit *kit) {
  KIT_TRUE(!kit->activation_error, "%s", kit->activation_error);
}

/* Makes the calls that `backplane list` makes. The section about devices checks the results of the
 * calls. */
static void enumerate(const Kit *kit) {
  for (char **kind = kit->kinds; *kind; kind++) {
    BpDevice device;
    int32_t count = 0;
    if (bp_device_parse(*kind, &device) || bp_device_count(device.device_type, &count, NULL))
      continue;
    for (device.device_id = 0; device.device_id < count; device.device_id++) {
      BpValue value = {.type_index = BP_TYPE_NONE};
      if (bp_device_get_attr(device, BP_ATTR_DEVICE_NAME, &value) == 0)
        bp_value_clear(&value);
    }
  }
  bp_error_clear();
}

/* stdout belongs to the program: output of a plugin there breaks readers of the program's
 * output. */
static void run_quiet(Kit *kit) {
  KIT_TRUE(!*kit->activation_output, "when it is activated the plugin writes to stdout: \"%s\"",
           kit->activation_output);
  bp__kit_capture_begin();
  enumerate(kit);
  char *output = bp__kit_capture_end();
  KIT_TRUE(!*output, "when its devices are enumerated the plugin writes to stdout: \"%s\"", output);
  g_free(output);
}

static void check_target_kind(const char *name) {
  const BpTargetKind *kind = bp_target_kind_info(name);
  KIT_TRUE(kind, "target kind %s: %s", name, bp_error_message());
  KIT_TRUE(kind->description && *kind->description, "target kind %s has no description", name);
  KIT_TRUE(kind->ir_level >= 0, "target kind %s has IR level %d", name, kind->ir_level);
  for (int32_t i = 0; i < kind->num_attrs; i++) {
    const BpTargetAttr *attr = bp_target_kind_attr(kind, i);
    KIT_TRUE(attr->description && *attr->description,
             "attribute %s of target kind %s has no description", attr->name, name);
  }
  BpTarget *target = bp_target_parse(name);
  KIT_TRUE(target, "target \"%s\", with nothing but defaults: %s", name, bp_error_message());
  char *text = bp_target_format(target);
  BpTarget *again = text ? bp_target_parse(text) : NULL;
  KIT_TRUE(again, "target \"%s\" is written as \"%s\", which is refused: %s", name, text,
           bp_error_message());
  bp_object_release(again);
  bp_object_release(target);
  bp_str_free(text);
}

static void run_targets(Kit *kit) {
  if (!kit->targets[0])
    bp__kit_skip("the plugin provides no target");
  for (char **name = kit->targets; *name; name++)
    check_target_kind(*name);
}

static const Check checks[] = {
    {"plugin.descriptor", "the descriptor is complete, and agrees with itself", "", CHECK_CORE,
     run_descriptor},
    {"plugin.activate", "the plugin is loaded, settles the ABI and registers what it provides",
     "plugin.descriptor", CHECK_CORE, run_activate},
    {"plugin.targets", "each target kind is described, and its defaults make a target",
     "plugin.activate", CHECK_OPTIONAL, run_targets},
    {"plugin.quiet", "nothing is written to stdout on activation, nor when devices are enumerated",
     "plugin.activate", CHECK_OPTIONAL, run_quiet},
};

const Section bp__kit_plugin_section = {"plugin", 0, checks, G_N_ELEMENTS(checks)};
