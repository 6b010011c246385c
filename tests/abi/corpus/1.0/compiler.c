/* SPDX-License-Identifier: Apache-2.0 */
/* A graph compiler, kept as it is: it takes Relu, and Add with a constant, of float32 tensors, and
 * compiles a part to the list of its steps. */
#include <backplane/graph_compiler.h>
#include <backplane/plugin_helpers.h>

#include <stdlib.h>
#include <string.h>

BP_PLUGIN_DESCRIPTOR("abi=" BP_ABI_NEEDED_TEXT "\n"
                     "name=frozen-compiler\n"
                     "version=1.0\n"
                     "license=Apache-2.0\n"
                     "description=A graph compiler that does not change\n"
                     "entry=bp_plugin_entry_frozen_compiler\n"
                     "provides=graph_compiler.frozen runtime.module.loadbinary_frozen_part\n");

static BpPluginTables host;

#define MOST_STEPS    4
#define MOST_ELEMENTS 16

typedef struct Step {
  int32_t is_add;
  float addend[MOST_ELEMENTS];
} Step;

/* A module, and its bytes. The steps change one tensor, one after the other. */
typedef struct Part {
  char function[64];
  int32_t num_steps, num_elements;
  Step steps[MOST_STEPS];
} Part;

typedef struct Module {
  Part part;
  BpModule *self;
} Module;

static int32_t launch(void *context, const BpInvocation *invocation, const BpValue *args,
                      int32_t num_args) {
  const Part *part = (const Part *)context;
  if (bp_plugin_check_flags(&host, "frozen", "launch", invocation->flags) != 0)
    return -1;
  if (num_args != 2 || args[0].type_index != BP_TYPE_TENSOR_VIEW ||
      args[1].type_index != BP_TYPE_TENSOR_VIEW)
    return bp_plugin_raise(&host, BP_ERROR_TYPE, "a part takes two tensors");
  const float *from =
      (const float *)((const char *)args[0].v_view->data + args[0].v_view->byte_offset);
  float *to = (float *)((char *)args[1].v_view->data + args[1].v_view->byte_offset);
  for (int32_t i = 0; i < part->num_elements; i++) {
    to[i] = from[i];
    for (int32_t s = 0; s < part->num_steps; s++)
      to[i] = part->steps[s].is_add ? to[i] + part->steps[s].addend[i] : to[i] > 0 ? to[i] : 0;
  }
  return 0;
}

static int32_t get_function(void *context, const char *name, BpFunction **function) {
  Module *module = (Module *)context;
  *function = NULL;
  if (strcmp(name, module->part.function) != 0)
    return 0;
  *function = host.module->kernel_create(module->self, BP_DEVICE_CPU, launch, &module->part, NULL);
  return *function ? 0 : -1;
}

static int32_t get_property(void *context, int32_t *flags) {
  (void)context;
  *flags = BP_MODULE_RUNNABLE | BP_MODULE_BINARY_SERIALIZABLE;
  return 0;
}

static int32_t save_to_bytes(void *context, BpOwnedBytes *bytes) {
  const Module *module = (const Module *)context;
  const BpDataType handles[] = {{BP_DTYPE_HANDLE, 64, 1}, {BP_DTYPE_HANDLE, 64, 1}};
  const BpKernelInfo kernel = {.struct_size = sizeof kernel,
                               .name = module->part.function,
                               .arg_dtypes = handles,
                               .num_args = 2};
  const BpByteArray code = {(const char *)&module->part, sizeof module->part};
  return host.module->encode_device_code("frozen_part", &kernel, 1, &code, bytes);
}

static const BpModuleApi module_api = {.struct_size = sizeof(BpModuleApi),
                                       .kind = "frozen_part",
                                       .get_function = get_function,
                                       .get_property = get_property,
                                       .save_to_bytes = save_to_bytes,
                                       .destroy = free};

static BpModule *make_module(const Part *part) {
  Module *module = (Module *)bp_plugin_calloc(&host, sizeof *module);
  if (!module)
    return NULL;
  module->part = *part;
  return module->self = host.module->create(&module_api, module);
}

static int32_t ignore_kernel(void *context, const BpKernelInfo *kernel) {
  (void)context, (void)kernel;
  return 0;
}

static int load(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  BpByteArray all, format, code;
  Part part;
  (void)self;
  if (num_args < 1 || host.object->view_str(&args[0], &all) ||
      host.module->decode_device_code(&all, &format, ignore_kernel, NULL, &code))
    return -1;
  if (code.size != sizeof part)
    return bp_plugin_raise(&host, BP_ERROR_FORMAT, "a part has another size");
  memcpy(&part, code.data, sizeof part);
  return bp_plugin_answer_module(result, make_module(&part));
}

/* ---- The graph compiler ------------------------------------------------------------------ */

static const BpGraphTable *graph_table(void) {
  return (const BpGraphTable *)host.host->get_table(host.host, BP_TABLE_GRAPH,
                                                    BP_TABLE_GRAPH_VERSION);
}

static int64_t count_elements(const BpOnnxValue *value) {
  int64_t count = 1;
  for (int32_t d = 0; d < value->ndim; d++)
    count *= value->shape[d];
  return count;
}

/* The constant operand of an Add, or NULL. */
static const float *find_addend(const BpGraphTable *table, const BpOnnxGraph *graph,
                                const BpOnnxNode *node) {
  return node->num_inputs == 2 ? (const float *)table->get_value(graph, node->inputs[1])->data
                               : NULL;
}

static int32_t is_taken(const BpGraphTable *table, const BpOnnxGraph *graph,
                        const BpOnnxNode *node) {
  const BpOnnxValue *out = table->get_value(graph, node->outputs[0]);
  int32_t is_add = !strcmp(node->op, "Add");
  return !*node->domain && out->dtype.code == BP_DTYPE_FLOAT && out->dtype.bits == 32 &&
         count_elements(out) <= MOST_ELEMENTS &&
         (is_add ? find_addend(table, graph, node) != NULL : !strcmp(node->op, "Relu"));
}

static int32_t claim(void *context, const BpOnnxGraph *graph, const BpTarget *target,
                     BpClaims *claims) {
  const BpGraphTable *table = graph_table();
  (void)context, (void)target;
  for (int32_t i = 0; i < table->num_nodes(graph); i++)
    if (is_taken(table, graph, table->get_node(graph, i))
            ? table->take(claims, i, 1)
            : table->decline(claims, i, "it is neither Relu nor Add of a constant"))
      return -1;
  return 0;
}

static int32_t compile(void *context, const BpOnnxGraph *graph, const BpTarget *target,
                       const char *function, BpModule **module) {
  const BpGraphTable *table = graph_table();
  Part part = {.num_steps = table->num_nodes(graph)};
  (void)context, (void)target;
  strncpy(part.function, function, sizeof part.function - 1);
  if (part.num_steps > MOST_STEPS)
    return bp_plugin_raise(&host, BP_ERROR_COMPILE, "a part of %d nodes", part.num_steps);
  for (int32_t i = 0; i < part.num_steps; i++) {
    const BpOnnxNode *node = table->get_node(graph, i);
    const float *addend = find_addend(table, graph, node);
    part.num_elements = (int32_t)count_elements(table->get_value(graph, node->outputs[0]));
    part.steps[i].is_add = addend != NULL;
    if (addend)
      memcpy(part.steps[i].addend, addend, (size_t)part.num_elements * sizeof(float));
  }
  *module = make_module(&part);
  return *module ? 0 : -1;
}

static const BpGraphCompilerApi compiler = {.struct_size = sizeof(BpGraphCompilerApi),
                                            .name = "frozen",
                                            .device_type = BP_DEVICE_CPU,
                                            .claim = claim,
                                            .compile = compile};

static int answer(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  if (num_args != 1 || args[0].type_index != BP_TYPE_INT ||
      args[0].v_int64 != BP_GRAPH_COMPILER_VERSION)
    return 0;
  result->type_index = BP_TYPE_POINTER;
  result->v_ptr = (void *)(uintptr_t)&compiler;
  return 0;
}

static int32_t initialize(void *context) {
  (void)context;
  return bp_plugin_register(&host, "graph_compiler.frozen", answer, NULL) ||
                 bp_plugin_register(&host, "runtime.module.loadbinary_frozen_part", load, NULL)
             ? -1
             : 0;
}

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_frozen_compiler(const BpHost *from, BpPlugin *plugin);
BP_PLUGIN_EXPORT int32_t bp_plugin_entry_frozen_compiler(const BpHost *from, BpPlugin *plugin) {
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return bp_plugin_fetch_tables(from, &host);
}
