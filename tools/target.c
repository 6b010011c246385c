/* SPDX-License-Identifier: Apache-2.0 */
/* Targets on the command line: from text, from a device, and for any device of a kind. */
#include "tools/command.h"

#include <string.h>
#include <sys/utsname.h>

#include <backplane/object.h>

/* ---- From text --------------------------------------------------------------------------- */

/* Splits at commas outside braces and quotes: JSON targets hold commas. */
static char **split_targets(const char *text) {
  GPtrArray *parts = g_ptr_array_new();
  GString *part = g_string_new(NULL);
  int depth = 0;
  gboolean quoted = FALSE;
  for (const char *c = text; *c; c++) {
    quoted ^= *c == '"';
    depth += quoted ? 0 : (*c == '{') - (*c == '}');
    if (*c == ',' && depth == 0 && !quoted) {
      g_ptr_array_add(parts, g_string_free(part, FALSE));
      part = g_string_new(NULL);
    } else {
      g_string_append_c(part, *c);
    }
  }
  g_ptr_array_add(parts, g_string_free(part, FALSE));
  g_ptr_array_add(parts, NULL);
  return (char **)g_ptr_array_free(parts, FALSE);
}

int targets_parse(const char *text, GPtrArray *targets) {
  char **names = split_targets(text);
  int status = 0;
  for (char **name = names; *name && status == 0; name++) {
    BpTarget *target = bp_target_parse(*name);
    if (target)
      g_ptr_array_add(targets, target);
    else
      status = -1;
  }
  g_strfreev(names);
  return status;
}

BpTarget *target_parse_one(const char *option, const char *text) {
  GPtrArray *parsed = g_ptr_array_new_with_free_func(bp_object_release);
  BpTarget *target = NULL;
  if (targets_parse(text, parsed) == 0) {
    target = parsed->len == 1 ? bp_object_retain(parsed->pdata[0]) : NULL;
    if (!target)
      command_raise_usage("%s %s: it is one target, and these are %u", option, text, parsed->len);
  }
  g_ptr_array_free(parsed, TRUE);
  return target;
}

/* ---- Of a kind --------------------------------------------------------------------------- */

/* The device type gives a vendor's kind once its plugin is active; asking for the plugin by name
 * activates it. The device kind's name is usually the target kind's name. */
char *target_device_kind(const BpTarget *target) {
  const BpDevice first = {bp_target_device_type(target), 0};
  BpDevice device;
  char text[DEVICE_TEXT_MAX];
  bp_device_format(first, text, sizeof text);
  if (g_str_has_prefix(text, "type ")) {
    int status = bp_device_parse(bp_target_kind(target), &device);
    bp_error_clear();
    bp_device_format(status == 0 ? device : first, text, sizeof text);
  }
  const char *slash = strrchr(text, '/'), *kind = slash ? slash + 1 : text;
  return g_strndup(kind, strcspn(kind, ":"));
}

gboolean target_is_default(const BpTarget *target) {
  BpTarget *plain = bp_target_parse(bp_target_kind(target));
  char *text = bp_target_format(target), *default_text = plain ? bp_target_format(plain) : NULL;
  gboolean is_default = text && default_text && strcmp(text, default_text) == 0;
  bp_str_free(text);
  bp_str_free(default_text);
  bp_object_release(plain);
  bp_error_clear();
  return is_default;
}

static gboolean has_attr(const BpTargetKind *kind, const char *name) {
  for (int32_t i = 0; i < kind->num_attrs; i++)
    if (strcmp(bp_target_kind_attr(kind, i)->name, name) == 0)
      return TRUE;
  return FALSE;
}

/* Returns the target name of the lowest CPU of this machine's architecture: "x86-64". */
static char *least_cpu(void) {
  struct utsname machine;
  uname(&machine); /* uname fails only for invalid memory */
  return g_strdelimit(g_strdup(machine.machine), "_", '-');
}

BpTarget *target_make_portable(const char *name) {
  const BpTargetKind *kind = bp_target_kind_info(name);
  if (!kind)
    return NULL;
  if (!has_attr(kind, "mcpu"))
    return bp_target_parse(name);
  char *cpu = least_cpu(), *text = g_strdup_printf("%s -mcpu=%s", name, cpu);
  BpTarget *target = bp_target_parse(text);
  g_free(text);
  g_free(cpu);
  if (target)
    return target;
  bp_error_clear(); /* an architecture without a row in the kind */
  text = g_strdup_printf("%s -mcpu=generic", name);
  target = bp_target_parse(text);
  g_free(text);
  return target;
}
