/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: targets as text and as JSON. Parsing ends in an error or in a target whose own texts
 * parse back to it. */

#include <stdlib.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <backplane/target.h>

#include "tests/fuzz/fuzz.h"

static const FuzzSeed seeds[] = {
    FUZZ_TEXT("{\"kind\": \"odd\", \"arch\": \"v\\u0032\", \"fast\": true, \"ratio\": 0.5}"),
    FUZZ_TEXT("{\"kind\":\"odd\",\"count\":-3,\"options\":\"a b\",\"arch\":null}"),
    FUZZ_TEXT("odd -arch=v2 --count=64 -fast -ratio=0.5 -options=\"a \\\"b\\\"  c\\\\\""),
};

static const FuzzSeed pieces[] = {
    FUZZ_TEXT("{"),        FUZZ_TEXT("}"),       FUZZ_TEXT("["),
    FUZZ_TEXT("\""),       FUZZ_TEXT("\\"),      FUZZ_TEXT(","),
    FUZZ_TEXT(":"),        FUZZ_TEXT(" -"),      FUZZ_TEXT("="),
    FUZZ_TEXT("/* \" */"), FUZZ_TEXT("// \"\n"), FUZZ_TEXT("[[[[[[[[[[[[[[[["),
    FUZZ_TEXT("\\u0000"),  FUZZ_TEXT("\\ud800"), FUZZ_TEXT("\xff"),
    FUZZ_TEXT("1e999"),    FUZZ_TEXT("-0"),      FUZZ_TEXT("9223372036854775808"),
    FUZZ_TEXT("\"kind\""), FUZZ_TEXT("true"),    FUZZ_TEXT("{\"a\":{\"a\":{\"a\":"),
};

const FuzzSeed *fuzz_seeds(size_t *count) {
  *count = sizeof seeds / sizeof *seeds;
  return seeds;
}

const FuzzSeed *fuzz_pieces(size_t *count) {
  *count = sizeof pieces / sizeof *pieces;
  return pieces;
}

/* ---- A kind with an attribute of each type ----------------------------------------------- */

static const BpTargetTable *table;
static const BpTargetAttr attrs[] = {
    {"arch", BP_TYPE_STR, 0, "base", "x"},   {"count", BP_TYPE_INT, 0, "256", "x"},
    {"fast", BP_TYPE_BOOL, 0, "false", "x"}, {"ratio", BP_TYPE_FLOAT, 0, NULL, "x"},
    {"options", BP_TYPE_STR, 0, NULL, "x"},
};
static const BpTargetKind kind = {.struct_size = sizeof kind,
                                  .name = "odd",
                                  .device_type = BP_DEVICE_EXT,
                                  .ir_level = BP_IR_LEVEL,
                                  .attrs = attrs,
                                  .attr_size = sizeof(BpTargetAttr),
                                  .num_attrs = sizeof attrs / sizeof *attrs,
                                  .description = "x"};

static int build(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)args;
  (void)num_args;
  (void)result;
  return 0;
}

static int32_t initialize(void *context) {
  (void)context;
  BpFunction *function = bp_function_create(build, NULL, NULL);
  int rc = bp_registry_set("target.build.odd", function, 0);
  bp_object_release(function);
  return rc ? rc : table->register_kind(&kind);
}

static int32_t entry(const BpHost *host, BpPlugin *plugin) {
  table = host->get_table(host, BP_TABLE_TARGET, BP_TABLE_TARGET_VERSION);
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return 0;
}

static const char descriptor[] = "abi=" BP_ABI_NEEDED_TEXT "\nname=odd\nversion=1\nlicense=MIT\n"
                                 "description=x\nentry=bp_plugin_entry_odd\n"
                                 "provides=target.build.odd\ntargets=odd\n";

/* ---- The target -------------------------------------------------------------------------- */

/* Checks that a text of the target parses to a target with the same text. */
static void parse_back(const char *text, const char *canonical) {
  BpTarget *again = bp_target_parse(text);
  char *same = again ? bp_target_format(again) : NULL;
  if (!same || strcmp(same, canonical))
    abort();
  bp_str_free(same);
  bp_object_release(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static int is_registered;
  if (!is_registered && bp_plugin_register_static(descriptor, entry))
    abort();
  is_registered = 1;
  char *text = size ? strndup((const char *)data, size) : strdup("");
  BpTarget *target = bp_target_parse(text);
  if (!target && !*bp_error_message())
    abort();
  if (target) {
    char *canonical = bp_target_format(target), *json = bp_target_format_json(target);
    parse_back(canonical, canonical);
    if (json)
      parse_back(json, canonical);
    bp_str_free(canonical);
    bp_str_free(json);
  }
  bp_object_release(target);
  bp_error_clear();
  free(text);
  return 0;
}
