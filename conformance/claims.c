/* SPDX-License-Identifier: Apache-2.0 */
/* Section claims: a graph compiler takes nodes of small models, and compiles parts whose results
 * agree with the reference code of the host.
 *
 * Models are compiled through the kit's own graph compiler, which forwards each call to the
 * plugin's graph compiler and keeps the modules that it returns. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include <backplane/graph/model.h>
#include <backplane/graph_compiler.h>
#include <backplane/plugin_helpers.h>
#include <backplane/tensor.h>

#include "conformance/kit.h"
#include "conformance/onnx.h"
#include "conformance/random.h"

/* ---- Models ------------------------------------------------------------------------------ */

#define QUANTIZED                                                                                  \
  "const s f32 - 0.02\nconst z u8 - 120\nconst ws f32 - 0.01\nconst wz i8 - 0\n"                   \
  "const ys f32 - 0.2\nconst yz u8 - 100\n"

typedef struct Sample {
  const char *name;
  const char *text;
} Sample;

/* In each sample, the first output is that of the named operator. Intermediate values with several
 * readers, and nodes that few devices support, ensure that parts have several inputs and outputs,
 * and that a part of all nodes would not be convex. */
static const Sample samples[] = {
    {"convolution", "input x f32 1x3x12x11\nconst w f32 5x3x3x3\nconst b f32 5\n"
                    "node Conv x,w,b y kernel_shape=3,3 pads=1,1,1,1 strides=2,2\noutput y"},
    {"branches", "input x f32 1x4x8x8\nconst w f32 4x4x3x3\nconst v f32 4x4x1x1\n"
                 "node Conv x,w a kernel_shape=3,3 pads=1,1,1,1\nnode Erf a e\n"
                 "node Conv e,v d kernel_shape=1,1\nnode Add a,d s\nnode Relu s y\n"
                 "output y\noutput d"},
    {"products", "input x f32 3x17\nconst w f32 17x9\nconst v f32 6x9\nconst b f32 6\n"
                 "node MatMul x,w a\nnode Gemm a,v,b y transB=1\nnode Softmax y p axis=-1\n"
                 "output p\noutput a"},
    {"pools", "input x f32 2x3x9x10\n"
              "node MaxPool x a kernel_shape=3,3 strides=2,2 pads=1,1,1,1\n"
              "node AveragePool a b kernel_shape=2,2\nnode GlobalAveragePool b y\noutput y\n"
              "output a"},
    {"elementwise", "input x f32 2x3x4x5\ninput y f32 2x3x4x5\nnode Add x,y a\nnode Mul a,y b\n"
                    "node Relu b c\noutput c"},
    {"quantised-convolution",
     "input x u8 2x3x12x11\nconst w i8 20x3x3x3\nconst b i32 20\n" QUANTIZED
     "node QLinearConv x,s,z,w,ws,wz,ys,yz,b y kernel_shape=3,3 pads=1,1,1,1 strides=2,1\n"
     "output y"},
    {"quantised-branches",
     "input x u8 1x4x9x9\nconst w i8 17x4x3x3\nconst v i8 3x17x1x1\nconst u i8 3x3x2x2\n" QUANTIZED
     "node QLinearConv x,s,z,w,ws,wz,ys,yz a kernel_shape=3,3\n"
     "node MaxPool a p kernel_shape=2,2 strides=2,2\n"
     "node QLinearConv p,ys,yz,v,ws,wz,ys,yz b kernel_shape=1,1\nnode DequantizeLinear b,ys,yz f\n"
     "node Sigmoid f g\nnode QuantizeLinear g,s,z h\n"
     "node QLinearConv h,s,z,u,ws,wz,ys,yz y kernel_shape=2,2 dilations=2,2 pads=1,1,1,1\n"
     "output y\noutput a\noutput b"},
    {"quantised-tiles", "input x u8 1x64x16x20\nconst w i8 70x64x3x3\n" QUANTIZED
                        "node QLinearConv x,s,z,w,ws,wz,ys,yz y kernel_shape=3,3\noutput y"},
    {"quantised-product", "input x u8 3x35\nconst w i8 35x18\n" QUANTIZED
                          "node QLinearMatMul x,s,z,w,ws,wz,ys,yz y\noutput y"},
    {"quantised-pool", "input x i8 1x5x7x8\n"
                       "node MaxPool x y kernel_shape=3,2 strides=2,1 pads=1,0,1,1\noutput y"},
};

/* Models with open extents. */
static const Sample open_samples[] = {
    {"open-convolution", "input x f32 Nx3xHxW\nconst w f32 5x3x3x3\nconst b f32 5\n"
                         "node Conv x,w,b a kernel_shape=3,3 pads=1,1,1,1 strides=2,1\n"
                         "node Relu a r\nnode MaxPool r y kernel_shape=2,2 strides=2,2\noutput y\n"
                         "output r"},
    {"open-products", "input x f32 Nx17\nconst w f32 17x9\nconst v f32 6x9\nconst b f32 6\n"
                      "node MatMul x,w a\nnode Erf a e\nnode Gemm e,v,b y transB=1\n"
                      "node Softmax y p axis=-1\noutput p\noutput a"},
    {"open-elementwise", "input x f32 NxMx5\ninput y f32 NxMx5\nnode Add x,y a\nnode Relu a b\n"
                         "output b"},
    {"open-quantised-convolution",
     "input x u8 Nx3x12x11\nconst w i8 20x3x3x3\n" QUANTIZED
     "node QLinearConv x,s,z,w,ws,wz,ys,yz y kernel_shape=3,3 pads=1,1,1,1 strides=2,1\n"
     "output y"},
};

/* ---- The kit's graph compiler ------------------------------------------------------------ */

#define MOST_ARGS  16
#define MOST_NDIM  8
#define MOST_PARTS 16

/* An argument of a part's function. */
typedef struct Argument {
  BpDataType dtype;
  int32_t ndim;
  int64_t shape[MOST_NDIM];
} Argument;

/* A compiled part. */
typedef struct Part {
  char *function;
  BpModule *module; /* NULL: it failed */
  char *failure;
  int32_t num_inputs, num_args;
  Argument args[MOST_ARGS];
} Part;

static const BpGraphCompilerApi *subject; /* the plugin's */
static BpGraphCompilerApi probe;
static BpPluginTables tables;
static Part parts[MOST_PARTS];
static int num_parts;

static void forget_parts(void) {
  for (int i = 0; i < num_parts; i++) {
    g_free(parts[i].function);
    g_free(parts[i].failure);
    bp_object_release(parts[i].module);
  }
  num_parts = 0;
}

static int32_t forward_claim(void *context, const BpOnnxGraph *graph, const BpTarget *target,
                             BpClaims *claims) {
  (void)context;
  return subject->claim(subject->context, graph, target, claims);
}

static void keep_arguments(Part *part, const BpOnnxGraph *graph) {
  const BpGraphTable *table =
      tables.host->get_table(tables.host, BP_TABLE_GRAPH, BP_TABLE_GRAPH_VERSION);
  int32_t counts[2];
  const int32_t *lists[] = {table->get_inputs(graph, &counts[0]),
                            table->get_outputs(graph, &counts[1])};
  part->num_inputs = counts[0];
  for (int l = 0; l < 2; l++)
    for (int32_t i = 0; i < counts[l]; i++) {
      const BpOnnxValue *value = table->get_value(graph, lists[l][i]);
      Argument *argument = &part->args[part->num_args++];
      KIT_TRUE(part->num_args <= MOST_ARGS && value->ndim <= MOST_NDIM, "a part is too large");
      argument->dtype = value->dtype;
      argument->ndim = value->ndim;
      memcpy(argument->shape, value->shape, (size_t)value->ndim * sizeof(int64_t));
    }
}

static int32_t forward_compile(void *context, const BpOnnxGraph *graph, const BpTarget *target,
                               const char *function, BpModule **module) {
  (void)context;
  KIT_TRUE(num_parts < MOST_PARTS, "there are more than %d parts", MOST_PARTS);
  Part *part = &parts[num_parts++];
  *part = (Part){.function = g_strdup(function)};
  keep_arguments(part, graph);
  bp_error_clear();
  int32_t status = subject->compile(subject->context, graph, target, function, module);
  if (status) {
    part->failure = g_strdup(bp_error_message());
    KIT_TRUE(part->failure && *part->failure, "compile failed and raised no error");
    return status;
  }
  KIT_TRUE(*module, "compile returned 0 and no module");
  part->module = bp_object_retain(*module);
  return 0;
}

static int32_t initialize_probe(void *context) {
  (void)context;
  return bp_plugin_register(&tables, "graph_compiler.conformance", bp_plugin_answer_context,
                            &probe);
}

static int32_t enter_probe(const BpHost *host, BpPlugin *plugin) {
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize_probe;
  return bp_plugin_fetch_tables(host, &tables);
}

#define PROBE_DESCRIPTOR                                                                           \
  "abi=" BP_ABI_NEEDED_TEXT "\n"                                                                   \
  "name=conformance\n"                                                                             \
  "version=1\n"                                                                                    \
  "license=Apache-2.0\n"                                                                           \
  "description=How the conformance kit reads graphs\n"                                             \
  "entry=bp_plugin_entry_conformance\n"                                                            \
  "provides=graph_compiler.conformance\n"

/* Returns the name of the plugin's first graph compiler (transfer full); NULL if the plugin has
 * none. */
static char *find_name(const Kit *kit) {
  char **names = g_strsplit(kit->info->provides, " ", -1), *found = NULL;
  for (char **name = names; *name && !found; name++)
    if (g_str_has_prefix(*name, "graph_compiler."))
      found = g_strdup(strchr(*name, '.') + 1);
  g_strfreev(names);
  return found;
}

static BpValue ask(const char *name, int64_t version) {
  char *registered = g_strconcat("graph_compiler.", name, NULL);
  BpFunction *function = NULL;
  BpValue argument = {.type_index = BP_TYPE_INT, .v_int64 = version}, answer;
  KIT_OK(bp_registry_get(registered, &function), registered);
  KIT_TRUE(function, "%s is not registered", registered);
  KIT_OK(bp_function_call(function, &argument, 1, &answer), registered);
  bp_object_release(function);
  g_free(registered);
  return answer;
}

static const BpGraphCompilerApi *open_table(const Kit *kit) {
  char *name = find_name(kit);
  BpValue answer = ask(name, BP_GRAPH_COMPILER_VERSION);
  KIT_TRUE(answer.type_index == BP_TYPE_POINTER && answer.v_ptr,
           "graph_compiler.%s answers no table of version %d", name, BP_GRAPH_COMPILER_VERSION);
  g_free(name);
  return answer.v_ptr;
}

/* Finds the plugin's graph compiler, and registers the kit's graph compiler in front of it. */
static void open_compiler(Kit *kit) {
  if (subject)
    return;
  const BpGraphCompilerApi *table = open_table(kit);
  probe = (BpGraphCompilerApi){.struct_size = sizeof probe,
                               .name = "conformance",
                               .device_type = table->device_type,
                               .claim = forward_claim,
                               .compile = forward_compile,
                               .flags = BP_TABLE_HAS(table, flags) ? table->flags : 0};
  KIT_OK(bp_plugin_register_static(PROBE_DESCRIPTOR, enter_probe), "the kit's plugin");
  subject = table;
}

/* ---- Compiling --------------------------------------------------------------------------- */

/* The claims of a model: "node op compiler cost why", a line for each node. */
typedef struct Claimed {
  GString *text;
  int num_taken, num_without_cost, num_silent;
} Claimed;

static int note(void *context, const BpClaimedNode *node) {
  Claimed *claimed = context;
  claimed->num_taken += node->compiler != NULL;
  claimed->num_without_cost += node->compiler && !(node->cost > 0);
  claimed->num_silent += node->why && g_str_has_suffix(node->why, "it gave no reason");
  g_string_append_printf(claimed->text, "%s (%s): %s %.17g %s\n", node->node, node->op,
                         node->compiler ? "taken" : "left", node->cost, node->why ? node->why : "");
  return 0;
}

static gboolean is_for_cpu(void) {
  return subject->device_type == BP_DEVICE_CPU;
}

/* Opens the device of a plugin that claims nodes for the devices of another plugin. */
static void open_other_device(Kit *kit) {
  const char *why = NULL;
  int32_t count = 0;
  KIT_OK(bp_device_count(subject->device_type, &count, &why), "counting the devices");
  if (kit->device_index >= count)
    bp__kit_absent(
        "the graph compiler is for devices of type %d of another plugin, and there is no "
        "device %d: %s",
        subject->device_type, kit->device_index, why ? why : "there are fewer");
  kit->device = (BpDevice){subject->device_type, kit->device_index};
  kit->api = bp_device_api(subject->device_type);
  KIT_TRUE(kit->api, "the table of the device: %s", bp_error_message());
  KIT_OK(bp_device_set_current(kit->device, NULL), "set_device");
}

/* Returns the target that the graph compiler claims nodes for: the plugin's own, or that of another
 * plugin's device. */
static BpTarget *open_own(Kit *kit) {
  if (!kit->targets[0])
    open_other_device(kit);
  BpTarget *own =
      kit->targets[0] ? bp_target_parse(kit->targets[0]) : bp_target_from_device(kit->device);
  KIT_TRUE(own, "the target %s: %s", kit->targets[0] ? kit->targets[0] : "of the device",
           bp_error_message());
  return own;
}

/* Writes a sample's model to a file; returns the path (g_free). */
static char *write_sample(const Kit *kit, const Sample *sample) {
  char *path = g_strdup_printf("%s/%s.onnx", kit->folder, sample->name);
  GByteArray *bytes = bp__kit_onnx(sample->text);
  KIT_TRUE(g_file_set_contents(path, (const char *)bytes->data, bytes->len, NULL),
           "%s cannot be written", path);
  g_byte_array_unref(bytes);
  return path;
}

/* Returns target c, the host's CPU: reference code runs on it, and so do unclaimed nodes. */
static BpTarget *open_c(void) {
  BpTarget *target = bp_target_parse("c");
  if (!target)
    bp__kit_absent("the target c of the plugin cpu, which computes the other nodes, is missing: %s",
                   bp_error_message());
  return target;
}

/* Compiles a sample with the plugin's claims; with `claimed` NULL, compiles the reference code.
 * NULL: no node is claimed. */
static BpModule *compile_sample(Kit *kit, const Sample *sample, Claimed *claimed) {
  static const char *const names[] = {"conformance"};
  char *path = write_sample(kit, sample);
  BpTarget *c = open_c();
  BpTarget *own = is_for_cpu() || !claimed ? NULL : open_own(kit);
  const BpTarget *const targets[] = {own ? own : c};
  BpCompileOptions options = {.struct_size = sizeof options,
                              .targets = targets,
                              .num_targets = 1,
                              .fallback = own ? c : NULL,
                              .is_reference = !claimed};
  if (claimed) {
    options.graph_compilers = names;
    options.num_graph_compilers = 1;
    options.claimed = note;
    options.claimed_context = claimed;
  }
  forget_parts();
  BpModule *module = bp_model_compile(path, &options);
  /* If no node is claimed, a target without a generator cannot compile the model. */
  KIT_TRUE(module ||
               (claimed && !claimed->num_taken && own && bp_error_is(BP_ERROR_NOT_IMPLEMENTED)),
           "model \"%s\": %s", sample->name, bp_error_message());
  bp_object_release(own);
  bp_object_release(c);
  g_free(path);
  return module;
}

/* Compiles a sample and fills *claimed with its claims; NULL if no node is claimed. */
static BpModule *claim_sample(Kit *kit, const Sample *sample, Claimed *claimed) {
  *claimed = (Claimed){.text = g_string_new(NULL)};
  return compile_sample(kit, sample, claimed);
}

static void clear_claimed(Claimed *claimed) {
  g_string_free(claimed->text, TRUE);
}

/* ---- Running ----------------------------------------------------------------------------- */

static void fill(BpDataType dtype, void *data, size_t count, uint64_t seed) {
  GRand *random = g_rand_new_with_seed((guint32)seed);
  for (size_t i = 0; i < count; i++) {
    if (dtype.code == BP_DTYPE_FLOAT)
      ((float *)data)[i] = (float)g_rand_double_range(random, -1, 1);
    else
      ((guint8 *)data)[i] = (guint8)g_rand_int_range(random, 0, 256);
  }
  g_rand_free(random);
}

/* Fills an input with random numbers. An open extent is `size`, and larger behind the first
 * dimension, so that a window fits. */
static void set_input(BpModelContext *context, const BpModelTensorInfo *info, uint64_t seed,
                      int64_t size_of_open) {
  int64_t shape[MOST_NDIM];
  for (int32_t i = 0; i < info->ndim; i++)
    shape[i] = info->shape[i] < 0 ? size_of_open + (i ? 5 + i : 0) : info->shape[i];
  BpTensorView view = {
      .device = KIT_HOST, .ndim = info->ndim, .dtype = info->dtype, .shape = shape};
  gsize size = (gsize)bp_view_num_bytes(&view);
  view.data = g_malloc0(size + 1);
  fill(info->dtype, view.data, size / (info->dtype.bits / 8), seed);
  KIT_OK(bp_model_set_input(context, info->name, &view), info->name);
  g_free(view.data);
}

/* The bytes of all outputs of a run, one after the other, and their types. */
typedef struct Outputs {
  GByteArray *bytes;
  int32_t count;
  gsize ends[4];
  BpDataType dtypes[4];
} Outputs;

static void read_outputs(BpModelContext *context, const BpModel *model, Outputs *outputs) {
  outputs->bytes = g_byte_array_new();
  outputs->count = bp_model_num_outputs(model);
  for (int32_t i = 0; i < outputs->count; i++) {
    BpTensor *tensor = bp_model_get_output(context, i);
    KIT_TRUE(tensor, "output %d: %s", i, bp_error_message());
    guint before = outputs->bytes->len, size = (guint)bp_view_num_bytes(&tensor->view);
    g_byte_array_set_size(outputs->bytes, before + size);
    KIT_OK(bp_tensor_copy_to_host(&tensor->view, outputs->bytes->data + before, size), "an output");
    outputs->ends[i] = before + size;
    outputs->dtypes[i] = tensor->view.dtype;
  }
}

/* A model with a context in which it runs. */
typedef struct Running {
  BpModel *model;
  BpModelContext *context;
} Running;

static Running open_running(Kit *kit, BpModule *module, gboolean is_reference) {
  BpDevice devices[2] = {KIT_HOST, KIT_HOST};
  if (!is_reference && !is_for_cpu())
    devices[0] = kit->device;
  BpModel *model = bp_model_create(module, devices, 2);
  KIT_TRUE(model, "the model: %s", bp_error_message());
  BpModelContext *context = bp_model_context_create(model);
  KIT_TRUE(context, "the model's context: %s", bp_error_message());
  return (Running){model, context};
}

static void close_running(Running *running) {
  bp_model_context_free(running->context);
  bp_model_release(running->model);
}

/* Runs a model several times with open extents of a given size, and gives the outputs of the last
 * run. */
static Outputs run_sized(const Kit *kit, const Running *running, int times, int64_t size) {
  Outputs outputs;
  for (int32_t i = 0; i < bp_model_num_inputs(running->model); i++)
    set_input(running->context, bp_model_input_info(running->model, i), kit->seed + (uint64_t)i,
              size);
  for (int i = 0; i < times; i++)
    KIT_OK(bp_model_run(running->context), "running the model");
  read_outputs(running->context, running->model, &outputs);
  return outputs;
}

static Outputs run_model(Kit *kit, BpModule *module, gboolean is_reference, int times) {
  Running running = open_running(kit, module, is_reference);
  Outputs outputs = run_sized(kit, &running, times, 1);
  close_running(&running);
  return outputs;
}

/* Integers may differ by one, because sums near a half round either way; floats may differ by
 * rounding. */
static gboolean is_near(BpDataType dtype, const guint8 *got, const guint8 *expected, gsize at) {
  if (dtype.code == BP_DTYPE_FLOAT) {
    float a, b;
    memcpy(&a, got + at * 4, 4);
    memcpy(&b, expected + at * 4, 4);
    return fabsf(a - b) <= 1e-4f + 1e-4f * fabsf(b);
  }
  int difference =
      dtype.code == BP_DTYPE_INT ? (gint8)got[at] - (gint8)expected[at] : got[at] - expected[at];
  return ABS(difference) <= 1;
}

static void expect_near(const char *what, const Outputs *got, const Outputs *expected) {
  KIT_TRUE(got->count == expected->count && got->bytes->len == expected->bytes->len,
           "%s: the outputs have %u bytes, and those of the reference %u", what, got->bytes->len,
           expected->bytes->len);
  for (int32_t i = 0; i < got->count; i++) {
    gsize begin = i ? got->ends[i - 1] : 0, bytes = got->dtypes[i].bits / 8;
    for (gsize k = 0; k < (got->ends[i] - begin) / bytes; k++)
      KIT_TRUE(is_near(got->dtypes[i], got->bytes->data + begin, expected->bytes->data + begin, k),
               "%s: element %zu of output %d is not what the reference computes", what, k, i);
  }
}

static void clear_outputs(Outputs *outputs) {
  g_byte_array_unref(outputs->bytes);
}

static void open_device(Kit *kit) {
  open_compiler(kit);
  if (is_for_cpu())
    return;
  if (!kit->kinds[0]) {
    open_other_device(kit);
    return;
  }
  bp__kit_require_device(kit);
  bp__kit_open_device(kit);
}

/* ---- Checks of the table and of claims --------------------------------------------------- */

static void run_table(Kit *kit) {
  char *name = find_name(kit);
  const BpGraphCompilerApi *table = open_table(kit);
  KIT_TRUE(BP_TABLE_HAS(table, compile) && table->claim, "claim or compile is NULL");
  KIT_TRUE(table->name && strcmp(table->name, name) == 0,
           "the table of graph_compiler.%s says that its name is \"%s\"", name,
           table->name ? table->name : "");
  KIT_TRUE(table->reserved == 0, "`reserved` is %d and not zero", table->reserved);
  BpValue later = ask(name, BP_GRAPH_COMPILER_VERSION + 1);
  KIT_TRUE(later.type_index == BP_TYPE_NONE,
           "a version of the table that is not known yet is answered, with a %s",
           bp_type_name(later.type_index));
  KIT_TRUE(table->device_type == BP_DEVICE_CPU || kit->targets[0] || !kit->kinds[0],
           "the table is for devices of type %d, and the plugin has devices and no target",
           table->device_type);
  g_free(name);
}

/* Calls `judge` with the claims of each model; skips the check if no node of any model is
 * claimed. */
static void for_each_claim(Kit *kit, void (*judge)(const Sample *sample, const Claimed *claimed)) {
  int num_taken = 0;
  open_compiler(kit);
  for (size_t i = 0; i < G_N_ELEMENTS(samples); i++) {
    Claimed claimed;
    BpModule *module = claim_sample(kit, &samples[i], &claimed);
    judge(&samples[i], &claimed);
    num_taken += claimed.num_taken + num_parts;
    clear_claimed(&claimed);
    bp_object_release(module);
    bp__kit_go_on();
  }
  if (!num_taken)
    bp__kit_skip("the graph compiler takes no node of the kit's models");
}

static void judge_reasons(const Sample *sample, const Claimed *claimed) {
  KIT_TRUE(!claimed->num_silent, "model \"%s\": %d nodes are neither taken nor declined:\n%s",
           sample->name, claimed->num_silent, claimed->text->str);
}

static void run_reasons(Kit *kit) {
  open_compiler(kit);
  for (size_t i = 0; i < G_N_ELEMENTS(samples); i++) {
    Claimed claimed;
    BpModule *module = claim_sample(kit, &samples[i], &claimed);
    judge_reasons(&samples[i], &claimed);
    clear_claimed(&claimed);
    bp_object_release(module);
    bp__kit_go_on();
  }
}

static void judge_costs(const Sample *sample, const Claimed *claimed) {
  KIT_TRUE(!claimed->num_without_cost,
           "model \"%s\": %d nodes are taken without a cost, so that the host cannot compare:\n%s",
           sample->name, claimed->num_without_cost, claimed->text->str);
}

static void run_costs(Kit *kit) {
  for_each_claim(kit, judge_costs);
}

static void judge_parts(const Sample *sample, const Claimed *claimed) {
  for (int i = 0; i < num_parts; i++)
    KIT_TRUE(parts[i].module, "model \"%s\": part %s was claimed, and does not compile: %s\n%s",
             sample->name, parts[i].function, parts[i].failure, claimed->text->str);
  KIT_TRUE(claimed->num_taken || !num_parts,
           "model \"%s\": the host cannot use the parts that compiled:\n%s", sample->name,
           claimed->text->str);
}

static void run_compile(Kit *kit) {
  for_each_claim(kit, judge_parts);
}

static void run_stable(Kit *kit) {
  open_compiler(kit);
  for (size_t i = 0; i < G_N_ELEMENTS(samples); i++) {
    char *first = NULL;
    for (int k = 0; k < 3; k++) {
      Claimed claimed;
      bp_object_release(claim_sample(kit, &samples[i], &claimed));
      KIT_TRUE(!first || strcmp(first, claimed.text->str) == 0,
               "model \"%s\": at first the claims are\n%s, and then\n%s", samples[i].name, first,
               claimed.text->str);
      g_free(first);
      first = g_strdup(claimed.text->str);
      clear_claimed(&claimed);
    }
    g_free(first);
    bp__kit_go_on();
  }
}

/* ---- Checks of parts --------------------------------------------------------------------- */

/* Exports a model to a file and opens the file, as an application does in a later process. */
static BpModule *reopen(const Kit *kit, BpModule *module, const char *name) {
  char *path = g_strdup_printf("%s/%s.so", kit->folder, name);
  KIT_OK(bp_module_export_library(module, path), "exporting the model");
  BpModule *opened = bp_model_open(path);
  KIT_TRUE(opened, "opening the exported model: %s", bp_error_message());
  g_free(path);
  return opened;
}

/* Runs each model that has claimed nodes, and compares it with the reference. */
static void compare_all(Kit *kit, gboolean is_saved, int times) {
  int num_run = 0;
  open_device(kit);
  for (size_t i = 0; i < G_N_ELEMENTS(samples); i++) {
    Claimed claimed;
    BpModule *module = claim_sample(kit, &samples[i], &claimed);
    if (claimed.num_taken > 0) {
      BpModule *opened = is_saved ? reopen(kit, module, samples[i].name) : bp_object_retain(module);
      BpModule *reference = compile_sample(kit, &samples[i], NULL);
      Outputs got = run_model(kit, opened, FALSE, times);
      Outputs expected = run_model(kit, reference, TRUE, 1);
      char *what = g_strdup_printf("model \"%s\"", samples[i].name);
      expect_near(what, &got, &expected);
      clear_outputs(&got);
      clear_outputs(&expected);
      bp_object_release(opened);
      bp_object_release(reference);
      g_free(what);
      num_run++;
    }
    clear_claimed(&claimed);
    bp_object_release(module);
    bp__kit_go_on();
  }
  if (!num_run)
    bp__kit_skip("the graph compiler takes no node of the kit's models");
}

static void run_result(Kit *kit) {
  compare_all(kit, FALSE, 1);
}

static void run_again(Kit *kit) {
  compare_all(kit, FALSE, 3);
}

static void run_saved(Kit *kit) {
  compare_all(kit, TRUE, 1);
}

/* Runs one artifact with extents that grow, shrink and grow again, and compares each run. */
static void compare_sizes(Kit *kit, const Sample *sample, BpModule *module) {
  static const int64_t sizes[] = {2, 1, 5, 3, 2};
  BpModule *reference = compile_sample(kit, sample, NULL);
  Running claimed = open_running(kit, module, FALSE), expected = open_running(kit, reference, TRUE);
  for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
    char *what = g_strdup_printf("model \"%s\", with open extents from %" G_GINT64_FORMAT " on",
                                 sample->name, sizes[i]);
    Outputs got = run_sized(kit, &claimed, 1, sizes[i]);
    Outputs want = run_sized(kit, &expected, 1, sizes[i]);
    expect_near(what, &got, &want);
    clear_outputs(&got);
    clear_outputs(&want);
    g_free(what);
  }
  close_running(&claimed);
  close_running(&expected);
  bp_object_release(reference);
}

static void run_open(Kit *kit) {
  int num_run = 0;
  open_device(kit);
  if (!(probe.flags & BP_GRAPH_COMPILER_OPEN_EXTENTS))
    bp__kit_skip("the graph compiler takes known extents alone");
  for (size_t i = 0; i < G_N_ELEMENTS(open_samples); i++) {
    Claimed claimed;
    BpModule *module = claim_sample(kit, &open_samples[i], &claimed);
    judge_reasons(&open_samples[i], &claimed);
    judge_parts(&open_samples[i], &claimed);
    if (claimed.num_taken > 0) {
      compare_sizes(kit, &open_samples[i], module);
      num_run++;
    }
    clear_claimed(&claimed);
    bp_object_release(module);
    bp__kit_go_on();
  }
  if (!num_run)
    bp__kit_skip("the graph compiler takes no node of the kit's models with open extents");
}

/* ---- Checks of one part's bytes ---------------------------------------------------------- */

/* The compiled part of the last sample that has one. */
static const Part *find_part(Kit *kit) {
  open_device(kit);
  for (size_t i = G_N_ELEMENTS(samples); i-- > 0;) {
    Claimed claimed;
    bp_object_release(claim_sample(kit, &samples[i], &claimed));
    clear_claimed(&claimed);
    for (int k = 0; k < num_parts; k++)
      if (parts[k].module)
        return &parts[k];
  }
  bp__kit_skip("the graph compiler takes no node of the kit's models");
}

/* Tensors for a part's function, on its device; outputs hold zeros. */
static void make_arguments(Kit *kit, const Part *part, BpTensor **tensors, BpValue *values) {
  BpDevice device = is_for_cpu() ? KIT_HOST : kit->device;
  for (int32_t i = 0; i < part->num_args; i++) {
    const Argument *argument = &part->args[i];
    tensors[i] = bp_tensor_create(argument->shape, argument->ndim, argument->dtype, device, NULL);
    KIT_TRUE(tensors[i], "a tensor for the part: %s", bp_error_message());
    gsize size = (gsize)bp_view_num_bytes(&tensors[i]->view);
    void *data = g_malloc0(size + 1);
    if (i < part->num_inputs)
      fill(argument->dtype, data, size / (argument->dtype.bits / 8), kit->seed + (uint64_t)i);
    KIT_OK(bp_tensor_copy_from_host(&tensors[i]->view, data, size), "an argument of the part");
    values[i] = (BpValue){.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &tensors[i]->view};
    g_free(data);
  }
}

/* Calls the function of a module; -1 with an error if the call fails. */
static int call_part(Kit *kit, const Part *part, BpModule *module, BpTensor **tensors,
                     const BpValue *values) {
  BpFunction *function = NULL;
  BpDevice device = is_for_cpu() ? KIT_HOST : kit->device;
  BpInvocation invocation = {sizeof invocation, device, NULL, 0};
  BpValue result;
  (void)tensors;
  if (bp_module_get_function(module, part->function, 0, &function))
    return -1;
  if (!function)
    return bp_error_raise(BP_ERROR_NOT_FOUND, "there is no function %s", part->function);
  int rc = bp_function_launch(function, &invocation, values, part->num_args, &result);
  bp_object_release(function);
  return rc || bp_stream_sync(device, NULL) ? -1 : 0;
}

/* Calls a part, which must succeed, and checks that its inputs are unchanged. Returns the bytes of
 * inputs and outputs (g_byte_array_unref). */
static GByteArray *outputs_of(Kit *kit, const Part *part, BpModule *module, const char *what) {
  BpTensor *tensors[MOST_ARGS];
  BpValue values[MOST_ARGS];
  GByteArray *bytes = g_byte_array_new();
  make_arguments(kit, part, tensors, values);
  KIT_OK(call_part(kit, part, module, tensors, values), what);
  for (int32_t i = 0; i < part->num_args; i++) {
    guint before = bytes->len, size = (guint)bp_view_num_bytes(&tensors[i]->view);
    g_byte_array_set_size(bytes, before + size);
    KIT_OK(bp_tensor_copy_to_host(&tensors[i]->view, bytes->data + before, size), what);
    if (i < part->num_inputs) {
      void *given = g_malloc0(size + 1);
      fill(part->args[i].dtype, given, size / (part->args[i].dtype.bits / 8),
           kit->seed + (uint64_t)i);
      bp__kit_expect_bytes(bytes->data + before, given, size,
                           "an input of the part, after the call,");
      g_free(given);
    }
    bp_tensor_release(tensors[i]);
  }
  return bytes;
}

static void expect_same(Kit *kit, const Part *part, BpModule *module, const GByteArray *expected,
                        const char *what) {
  GByteArray *got = outputs_of(kit, part, module, what);
  bp__kit_expect_bytes(got->data, expected->data, expected->len, what);
  g_byte_array_unref(got);
}

/* A part does not write its inputs, and refuses a wrong call. */
static void run_call(Kit *kit) {
  const Part *part = find_part(kit);
  BpTensor *tensors[MOST_ARGS];
  BpValue values[MOST_ARGS];
  GByteArray *expected = outputs_of(kit, part, part->module, "the part's function");
  expect_same(kit, part, part->module, expected, "the part's function, called again");
  make_arguments(kit, part, tensors, values);
  Part less = *part;
  less.num_args--;
  KIT_REFUSED(call_part(kit, &less, part->module, tensors, values), NULL,
              "a call with too few tensors");
  int64_t shape[MOST_NDIM];
  BpTensorView wrong = tensors[0]->view;
  memcpy(shape, wrong.shape, (size_t)wrong.ndim * sizeof *shape);
  shape[0]++;
  wrong.shape = shape;
  values[0].v_view = &wrong;
  KIT_REFUSED(call_part(kit, part, part->module, tensors, values), NULL,
              "a call with a tensor of another shape");
  for (int32_t i = 0; i < part->num_args; i++)
    bp_tensor_release(tensors[i]);
  expect_same(kit, part, part->module, expected, "the part's function, after wrong calls");
  g_byte_array_unref(expected);
}

static void run_truncated(Kit *kit) {
  BpOwnedBytes bytes = {0};
  const Part *part = find_part(kit);
  KIT_OK(bp_module_save_to_bytes(part->module, &bytes), "save_to_bytes");
  size_t step = MAX(bytes.size / 200, 1);
  for (size_t size = 0; size < bytes.size; size += size < 64 ? 1 : step) {
    char *copy = g_memdup2(bytes.data, size); /* exact size, to detect overreading */
    BpByteArray view = {copy, size};
    char what[80];
    g_snprintf(what, sizeof what, "loading %zu of %zu bytes", size, bytes.size);
    BpModule *module = bp_module_load_from_bytes(bp_module_kind(part->module), &view);
    KIT_REFUSED(module ? 0 : -1, NULL, what);
    g_free(copy);
  }
  bp_owned_bytes_clear(&bytes);
}

/* Loads and calls damaged bytes of a part, or bytes of a part for another device: either fails with
 * an error, or works. */
static void try_damaged(Kit *kit, const Part *part, const BpOwnedBytes *bytes) {
  char *copy = g_memdup2(bytes->data, bytes->size);
  BpByteArray view = {copy, bytes->size};
  BpTensor *tensors[MOST_ARGS];
  BpValue values[MOST_ARGS];
  BpModule *module = bp_module_load_from_bytes(bp_module_kind(part->module), &view);
  KIT_TRUE(module || *bp_error_message(), "loading damaged bytes failed without an error");
  if (module) {
    make_arguments(kit, part, tensors, values);
    call_part(kit, part, module, tensors, values);
    for (int32_t i = 0; i < part->num_args; i++)
      bp_tensor_release(tensors[i]);
  }
  bp_error_clear();
  bp_object_release(module);
  g_free(copy);
}

static void run_flipped(Kit *kit) {
  BpOwnedBytes bytes = {0};
  const Part *part = find_part(kit);
  uint64_t state = kit->seed;
  GByteArray *expected = outputs_of(kit, part, part->module, "the part's function");
  KIT_OK(bp_module_save_to_bytes(part->module, &bytes), "save_to_bytes");
  for (int i = 0; i < 400; i++) {
    /* the first bytes, with sizes and counts, are chosen more often */
    size_t at = bp__random_next(&state) % (i % 2 ? bytes.size : MIN(bytes.size, 1000));
    char flip = (char)(1 << bp__random_next(&state) % 8);
    bytes.data[at] ^= flip;
    try_damaged(kit, part, &bytes);
    bytes.data[at] ^= flip;
  }
  bp_owned_bytes_clear(&bytes);
  expect_same(kit, part, part->module, expected, "the part's function, after damaged bytes");
  g_byte_array_unref(expected);
}

/* ---- Leaks ------------------------------------------------------------------------------- */

typedef struct Work {
  Kit *kit;
  const Sample *sample;
} Work;

static void compile_and_run(void *data) {
  const Work *work = data;
  for (int i = 0; i < 10; i++) {
    Claimed claimed;
    BpModule *module = claim_sample(work->kit, work->sample, &claimed);
    Outputs outputs = run_model(work->kit, module, FALSE, 1);
    clear_outputs(&outputs);
    clear_claimed(&claimed);
    bp_object_release(module);
    forget_parts();
  }
}

/* Returns the device's free memory; 0 if the device does not report it. */
static int64_t free_memory(const Kit *kit) {
  return is_for_cpu() ? 0 : bp__kit_int_attr(kit, BP_ATTR_AVAILABLE_GLOBAL_MEMORY, 0);
}

static void run_leaks(Kit *kit) {
  find_part(kit);
  for (size_t i = 0; i < G_N_ELEMENTS(samples); i++) {
    Claimed claimed;
    Work work = {kit, &samples[i]};
    bp_object_release(claim_sample(kit, &samples[i], &claimed));
    forget_parts();
    gboolean is_taken = claimed.num_taken > 0;
    clear_claimed(&claimed);
    if (!is_taken)
      continue;
    bp__kit_expect_no_leak(compile_and_run, &work, 65536, "compiling and running a part");
    int64_t before = free_memory(kit);
    compile_and_run(&work);
    KIT_TRUE(free_memory(kit) >= before,
             "compiling and running a part takes %" G_GINT64_FORMAT " bytes of the device's memory "
             "for good",
             before - free_memory(kit));
    bp__kit_go_on();
  }
}

static const Check checks[] = {
    {"claims.table", "the graph compiler's table is complete, and of the version asked for",
     "plugin.activate", CHECK_CORE, run_table},
    {"claims.reasons", "each node is taken, or declined with a reason", "claims.table", CHECK_CORE,
     run_reasons},
    {"claims.costs", "each node that is taken has a cost", "claims.reasons", CHECK_OPTIONAL,
     run_costs},
    {"claims.stable", "the same model has the same claims each time", "claims.reasons", CHECK_CORE,
     run_stable},
    {"claims.compile", "parts of nodes that are taken compile", "claims.stable", CHECK_OPTIONAL,
     run_compile},
    {"claims.result", "parts compute what the reference does, also between nodes that are left",
     "claims.compile", CHECK_OPTIONAL, run_result},
    {"claims.again", "the same inputs give the same outputs in later runs", "claims.result",
     CHECK_OPTIONAL, run_again},
    {"claims.open", "parts with open extents compute runs of every size", "claims.again",
     CHECK_OPTIONAL, run_open},
    {"claims.call", "a part's function keeps its inputs, and refuses wrong arguments",
     "claims.result", CHECK_OPTIONAL | CHECK_FAULT, run_call},
    {"claims.saved", "parts are saved in an artifact, and work when it is opened", "claims.result",
     CHECK_OPTIONAL, run_saved},
    {"claims.truncated", "a part's bytes that end early are refused", "claims.saved",
     CHECK_OPTIONAL | CHECK_FAULT, run_truncated},
    {"claims.flipped", "bytes that do not fit the device are refused, or cause no crash",
     "claims.truncated", CHECK_OPTIONAL | CHECK_FAULT, run_flipped},
    {"claims.leaks", "parts that come and go leave no threads, descriptors or memory behind",
     "claims.result", CHECK_OPTIONAL, run_leaks},
};

const Section bp__kit_claims_section = {"claims", NEEDS_GRAPH_COMPILER, checks,
                                        G_N_ELEMENTS(checks)};
