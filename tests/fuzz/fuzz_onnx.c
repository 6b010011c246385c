/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: ONNX files. Compiling a file ends in a module or in an error. The code generator
 * belongs to this program and generates no code, so that the reader, the importer and the passes
 * take most of the time. */

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/plugin_helpers.h>
#include <backplane/plugins.h>
#include <backplane/target.h>

#include "tests/fuzz/fuzz.h"
#include "tests/graph/onnx_builder.h"

#define NUM_SEEDS 4

static const FuzzSeed pieces[] = {
    FUZZ_TEXT("Conv"),
    FUZZ_TEXT("Reshape"),
    FUZZ_TEXT("Slice"),
    FUZZ_TEXT("Gather"),
    FUZZ_TEXT("Loop"),
    FUZZ_TEXT("x"),
    FUZZ_TEXT("y"),
    FUZZ_TEXT("axis"),
    FUZZ_TEXT("pads"),
    FUZZ_TEXT("\x08\x00"),
    FUZZ_TEXT("\x0a\x01x"),
    FUZZ_TEXT("\x12\x01y"),
    FUZZ_TEXT("\x7f"),
    FUZZ_TEXT("\xff\xff\xff\xff\x07"),
    FUZZ_TEXT("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    FUZZ_TEXT("\x80\x80\x80\x80\x10"),
    FUZZ_TEXT("\x00\x00\x80\x7f"),
    FUZZ_TEXT("\x3a\x00"),
};

/* A loop with a growing carried value, and a branch inside it. */
static void describe_loop(OnnxBuilder *builder) {
  OnnxBuilder *body = onnx_builder_new(), *branches[2];
  onnx_input(builder, "n", ONNX_INT64, "");
  onnx_input(builder, "c", ONNX_BOOL, "");
  onnx_input(body, "i", ONNX_INT64, "");
  onnx_input(body, "go", ONNX_BOOL, "");
  onnx_input(body, "v", ONNX_FLOAT, "ax2x6x6");
  for (int b = 0; b < 2; b++) {
    branches[b] = onnx_builder_new();
    onnx_node(branches[b], b ? "Relu" : "Concat", b ? "v" : "v,x", "u", b ? "" : "axis=0");
    onnx_output(branches[b], "u");
  }
  Backplane__Onnx__NodeProto *choice = onnx_node(body, "If", "c", "w", "");
  onnx_branch(body, choice, "then_branch", branches[0]);
  onnx_branch(body, choice, "else_branch", branches[1]);
  onnx_node(body, "ReduceSum", "w", "e", "");
  onnx_output(body, "go");
  onnx_output(body, "w");
  onnx_output(body, "e");
  onnx_branch(builder, onnx_node(builder, "Loop", "n,c,x", "y,s", ""), "body", body);
}

/* A model with as many features of files as possible. */
static void describe_seed(OnnxBuilder *builder, int index) {
  onnx_input(builder, "x", ONNX_FLOAT, "1x2x6x6");
  if (index == 0) {
    onnx_floats(builder, "w", "2x2x3x3");
    onnx_node(builder, "Conv", "x,w", "c", "pads=1,1,1,1 strides=2,2");
    onnx_node(builder, "HardSigmoid", "c", "h", "alpha=0.25 beta=0.5");
    onnx_node(builder, "MaxPool", "h", "y", "kernel_shape=2,2 strides=1,1");
  } else if (index == 1) {
    onnx_ints(builder, "shape", "2,-1");
    onnx_ints(builder, "starts", "1");
    onnx_ints(builder, "ends", "9");
    onnx_node(builder, "Reshape", "x,shape", "r", "");
    onnx_node(builder, "Slice", "r,starts,ends", "s", "");
    onnx_node(builder, "Softmax", "s", "y", "axis=-1");
  } else if (index == 3) {
    describe_loop(builder);
  } else {
    onnx_node(builder, "Transpose", "x", "t", "perm=0,2,3,1");
    onnx_node(builder, "Shape", "t", "n", "");
    onnx_node(builder, "ReduceMean", "t", "m", "axes=1,2 keepdims=1");
    onnx_node(builder, "Sub", "t,m", "d", "");
    onnx_node(builder, "Concat", "d,t", "y", "axis=2");
    onnx_output(builder, "n");
  }
  onnx_output(builder, "y");
}

const FuzzSeed *fuzz_seeds(size_t *count) {
  static FuzzSeed seeds[NUM_SEEDS];
  for (int i = 0; i < NUM_SEEDS && !seeds[i].data; i++) {
    OnnxBuilder *builder = onnx_builder_new();
    describe_seed(builder, i);
    GByteArray *bytes = onnx_bytes(builder);
    onnx_builder_free(builder);
    seeds[i].size = bytes->len;
    seeds[i].data = g_byte_array_free(bytes, FALSE);
  }
  *count = NUM_SEEDS;
  return seeds;
}

const FuzzSeed *fuzz_pieces(size_t *count) {
  *count = sizeof pieces / sizeof *pieces;
  return pieces;
}

/* ---- A target that needs no code --------------------------------------------------------- */

static const BpTargetTable *targets;

static int get_function(void *context, const char *name, BpFunction **function) {
  (void)context;
  (void)name;
  *function = NULL;
  return 0;
}

static void destroy(void *context) {
  (void)context;
}

static int build(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  static const BpModuleApi api = {.struct_size = sizeof api,
                                  .kind = "no_code",
                                  .get_function = get_function,
                                  .destroy = destroy};
  (void)self;
  (void)args;
  (void)num_args;
  BpModule *module = bp_module_create(&api, NULL);
  if (!module)
    return -1;
  *result = (BpValue){.type_index = BP_TYPE_MODULE, .v_obj = (BpObject *)(void *)module};
  return 0;
}

static int32_t initialize(void *context) {
  (void)context;
  static const BpTargetAttr attrs[] = {{"keys", BP_TYPE_STR, 0, "", "x"}};
  static const BpTargetKind kind = {.struct_size = sizeof kind,
                                    .name = "no_code",
                                    .device_type = BP_DEVICE_CPU,
                                    .ir_level = BP_IR_LEVEL,
                                    .attrs = attrs,
                                    .attr_size = sizeof(BpTargetAttr),
                                    .num_attrs = 1,
                                    .description = "Makes nothing"};
  BpFunction *function = bp_function_create(build, NULL, NULL);
  int32_t rc =
      targets->register_kind(&kind) || bp_registry_set("target.build.no_code", function, 0);
  bp_object_release(function);
  return rc ? -1 : 0;
}

static int32_t entry(const BpHost *host, BpPlugin *plugin) {
  targets = host->get_table(host, BP_TABLE_TARGET, BP_TABLE_TARGET_VERSION);
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return 0;
}

static BpTarget *make_target(void) {
  static const char descriptor[] =
      "abi=" BP_ABI_NEEDED_TEXT "\nname=no-code\nversion=1\nlicense=MIT\ndescription=x\n"
      "entry=bp_plugin_entry_no_code\nprovides=target.build.no_code\ntargets=no_code\n";
  BpTarget *target =
      bp_plugin_register_static(descriptor, entry) ? NULL : bp_target_parse("no_code");
  if (!target)
    g_error("%s", bp_error_message());
  return target;
}

/* ---- The target of the fuzzer ------------------------------------------------------------ */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static BpTarget *target;
  static int file = -1;
  char path[64];
  if (!target) {
    target = make_target();
    file = memfd_create("fuzz.onnx", MFD_CLOEXEC);
  }
  if (ftruncate(file, 0) || pwrite(file, data, size, 0) != (ssize_t)size)
    abort();
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  const BpTarget *list[] = {target};
  /* Computing constants takes up to its limit, which is too long for one input. */
  const BpCompileLimits limits = {.struct_size = sizeof limits, .fold_work = 1 << 26};
  const BpCompileOptions options = {
      .struct_size = sizeof options, .targets = list, .num_targets = 1, .limits = &limits};
  BpModule *module = bp_model_compile(path, &options);
  if (!module && !*bp_error_message())
    abort();
  bp_object_release(module);
  bp_str_free(bp_onnx_describe(path));
  bp_error_clear();
  return 0;
}
