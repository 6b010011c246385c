/* SPDX-License-Identifier: Apache-2.0 */
/* A graph compiler for tests, with a library of two operators: Add and Relu of float32 tensors of
 * one shape. The plugin has further graph compilers with one oddity each: see `tiny`.
 */
#include <backplane/graph_compiler.h>
#include <backplane/ir_api.h>
#include <backplane/part_module.h>
#include <backplane/plugin_helpers.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

BP_PLUGIN_DESCRIPTOR(
    "abi=" BP_ABI_NEEDED_TEXT "\n"
    "name=tiny\n"
    "version=1.0\n"
    "license=Apache-2.0\n"
    "description=A library of two operators, for tests\n"
    "entry=bp_plugin_entry_tiny\n"
    "provides=runtime.module.loadbinary_tiny graph_compiler.tiny "
    "graph_compiler.tiny-cheap graph_compiler.tiny-dear graph_compiler.tiny-fails "
    "graph_compiler.tiny-nowhere graph_compiler.tiny-twice "
    "graph_compiler.tiny-everything graph_compiler.tiny-nameless "
    "graph_compiler.tiny-unsaved graph_compiler.tiny-short "
    "graph_compiler.tiny-reserved graph_compiler.tiny-cuda "
    "graph_compiler.tiny-renamed graph_compiler.tiny-older "
    "graph_compiler.tiny-slow graph_compiler.tiny-idle "
    "graph_compiler.tiny-nan graph_compiler.tiny-fails-once graph_compiler.tiny-device "
    "graph_compiler.tiny-open "
    "graph_compiler.tiny-uneven "
    "target.build.tiny\n"
    "targets=tiny\n");

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_tiny(const BpHost *host, BpPlugin *plugin);

/* The defect of a graph compiler. */
typedef enum Oddity {
  NONE,
  FAILS,      /* compiling fails */
  FAILS_ONCE, /* compiling fails once, and for parts with only an Add */
  NOWHERE,    /* claims a node that does not exist, and returns success */
  TWICE,      /* claims a node twice, and returns success */
  NOT_A_NUMBER,
  EVERYTHING, /* claims nodes that it cannot compile */
  NAMELESS,   /* the module's function has another name */
  SLOW,       /* each part takes 10 milliseconds */
  IDLE,       /* parts return at once without a result */
  UNEVEN,     /* small parts are as SLOW, large parts as IDLE */
  UNSAVED     /* the module cannot be saved */
} Oddity;

typedef struct Tiny {
  BpGraphCompilerApi api;
  Oddity oddity;
  double cost;
} Tiny;

static BpPluginTables host;

/* ---- Modules ----------------------------------------------------------------------------- */

/* Slots are the inputs, the outputs, the constants and the intermediate values, in this order. */
typedef struct Step {
  int32_t is_add, a, b, to;
} Step;

/* The header of a module's bytes; the steps and the elements of the constants follow. */
typedef struct Header {
  char magic[8];
  char function[64];
  int64_t elements; /* elements of each tensor; -1: as many as the first argument has */
  int32_t num_inputs, num_outputs, num_constants, num_slots, num_steps;
  int32_t cannot_save;
  int32_t oddity; /* SLOW, IDLE, or 0 */
} Header;

#define MAGIC        "tiny1\0\0"
#define MOST_TENSORS 64

static const BpModuleApi module_api;

static const float *find_slot(const Header *header, const BpValue *args, float *between,
                              int64_t elements, int32_t slot) {
  int32_t num_tensors = header->num_inputs + header->num_outputs;
  const Step *steps = (const Step *)(const void *)(header + 1);
  const float *constants = (const float *)(const void *)(steps + header->num_steps);
  if (slot < num_tensors) {
    const BpTensorView *view = bp_part_tensor(&args[slot]);
    return (const float *)(const void *)((const char *)view->data + view->byte_offset);
  }
  slot -= num_tensors;
  return slot < header->num_constants ? constants + slot * elements
                                      : between + (slot - header->num_constants) * elements;
}

/* Returns the number of elements of an argument; -1: no tensor. */
static int64_t count_of(const BpValue *arg) {
  const BpTensorView *view = bp_part_tensor(arg);
  int64_t count = view ? 1 : -1;
  for (int32_t d = 0; view && d < view->ndim; d++)
    count *= view->shape[d];
  return count;
}

static int32_t check_arguments(const Header *header, const BpValue *args, int32_t num_args) {
  if (num_args != header->num_inputs + header->num_outputs)
    return bp_plugin_raise(&host, BP_ERROR_TYPE, "%s takes %d tensors, not %d", header->function,
                           header->num_inputs + header->num_outputs, num_args);
  for (int32_t i = 0; i < num_args; i++) {
    int64_t count = count_of(&args[i]);
    if (count < 0)
      return bp_plugin_raise(&host, BP_ERROR_TYPE, "argument %d is no tensor", i);
    if (count != (header->elements < 0 ? count_of(&args[0]) : header->elements))
      return bp_plugin_raise(&host, BP_ERROR_VALUE, "argument %d has %lld elements", i,
                             (long long)count);
  }
  return 0;
}

static int32_t launch(void *context, const BpInvocation *invocation, const BpValue *args,
                      int32_t num_args) {
  const Header *header = context;
  const Step *steps = (const Step *)(const void *)(header + 1);
  if (invocation->device.device_type != BP_DEVICE_CPU ||
      bp_plugin_check_flags(&host, "tiny", "launch", invocation->flags) != 0 ||
      check_arguments(header, args, num_args) != 0)
    return -1;
  if (header->oddity == SLOW)
    nanosleep(&(struct timespec){0, 10000000}, NULL);
  if (header->oddity == IDLE)
    return 0;
  int64_t elements = header->elements < 0 ? count_of(&args[0]) : header->elements;
  float *between = calloc((size_t)(header->num_slots * elements) + 1, sizeof(float));
  for (int32_t s = 0; between && s < header->num_steps; s++) {
    const float *a = find_slot(header, args, between, elements, steps[s].a);
    const float *b = find_slot(header, args, between, elements, steps[s].b);
    float *to = (float *)(uintptr_t)find_slot(header, args, between, elements, steps[s].to);
    for (int64_t i = 0; i < elements; i++)
      to[i] = steps[s].is_add ? a[i] + b[i] : a[i] > 0 ? a[i] : 0;
  }
  free(between);
  return between ? 0 : bp_plugin_raise(&host, BP_ERROR_MEMORY, "no memory");
}

typedef struct Module {
  BpModule *self;
  size_t size;
  Header *header; /* the header and the data that follow */
} Module;

static int32_t get_function(void *context, const char *name, BpFunction **function) {
  Module *module = context;
  *function = NULL;
  if (strcmp(name, module->header->function))
    return 0;
  *function = host.module->kernel_create(module->self, BP_DEVICE_CPU, launch, module->header, NULL);
  return *function ? 0 : -1;
}

static int32_t get_property(void *context, int32_t *flags) {
  const Module *module = context;
  *flags = BP_MODULE_RUNNABLE | (module->header->cannot_save ? 0 : BP_MODULE_BINARY_SERIALIZABLE);
  return 0;
}

static int32_t save_to_bytes(void *context, BpOwnedBytes *bytes) {
  const Module *module = context;
  return bp_part_save(&host, "tiny", module->header->function,
                      module->header->num_inputs + module->header->num_outputs,
                      (const char *)module->header, module->size, bytes);
}

/* The source is a text: the name of the module's function. */
static int32_t get_source(void *context, const char *format, BpOwnedBytes *source) {
  const Module *module = context;
  char *text = *format ? NULL : strdup(module->header->function);
  *source = (BpOwnedBytes){text, text ? strlen(text) : 0, free};
  return 0;
}

static void destroy(void *context) {
  Module *module = context;
  free(module->header);
  free(module);
}

static const BpModuleApi module_api = {.struct_size = sizeof(BpModuleApi),
                                       .kind = "tiny",
                                       .get_function = get_function,
                                       .get_property = get_property,
                                       .save_to_bytes = save_to_bytes,
                                       .get_source = get_source,
                                       .destroy = destroy};

/* Makes a module; takes over the header. */
static BpModule *make_module(Header *header, size_t size) {
  Module *module = header ? calloc(1, sizeof(*module)) : NULL;
  if (!module) {
    free(header);
    bp_plugin_raise(&host, BP_ERROR_MEMORY, "no memory");
    return NULL;
  }
  *module = (Module){.size = size, .header = header};
  module->self = host.module->create(&module_api, module);
  return module->self;
}

static size_t size_of(const Header *header) {
  size_t constants = header->elements < 0 ? 0 : (size_t)(header->num_constants * header->elements);
  return sizeof(*header) + (size_t)header->num_steps * sizeof(Step) + constants * sizeof(float);
}

/* The bytes come from this test: only their size is checked. */
static int load(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  BpPartBytes part;
  (void)self;
  if (bp_part_load(&host, "tiny", args, num_args, &part) != 0)
    return -1;
  const Header *header = (const Header *)(const void *)part.code;
  if (part.size < sizeof(*header) || memcmp(header->magic, MAGIC, sizeof(MAGIC)) ||
      size_of(header) != part.size) {
    bp_part_bytes_free(&part);
    return bp_plugin_raise(&host, BP_ERROR_FORMAT, "these are no bytes of a tiny module");
  }
  free(part.function);
  return bp_plugin_answer_module(result, make_module((Header *)(void *)part.code, part.size));
}

/* ---- Claiming ---------------------------------------------------------------------------- */

static const BpGraphTable *graph_table(void) {
  return host.host->get_table(host.host, BP_TABLE_GRAPH, BP_TABLE_GRAPH_VERSION);
}

/* Whether dimension `d` of two values has equal extents. */
static int same_extent(const BpOnnxValue *a, const BpOnnxValue *b, int32_t d) {
  if (a->shape[d] != b->shape[d] || a->shape[d] >= 0)
    return a->shape[d] == b->shape[d];
  return a->symbols && b->symbols && !strcmp(a->symbols[d], b->symbols[d]);
}

/* Says why the library lacks the operator of a node, or NULL: it has the operator. */
static const char *lacks(const BpGraphTable *table, const BpOnnxGraph *graph,
                         const BpOnnxNode *node) {
  const BpOnnxValue *out = table->get_value(graph, node->outputs[0]);
  if (*node->domain || (strcmp(node->op, "Add") && strcmp(node->op, "Relu")))
    return "it has Add and Relu alone";
  if (out->dtype.code != BP_DTYPE_FLOAT || out->dtype.bits != 32)
    return "it has float32 alone";
  for (int32_t i = 0; i < node->num_inputs; i++) {
    const BpOnnxValue *in = table->get_value(graph, node->inputs[i]);
    if (in->ndim != out->ndim)
      return "its inputs differ in shape";
    for (int32_t d = 0; d < in->ndim; d++)
      if (!same_extent(in, out, d))
        return "its inputs differ in shape";
  }
  return NULL;
}

static int32_t claim(void *context, const BpOnnxGraph *graph, const BpTarget *target,
                     BpClaims *claims) {
  const Tiny *tiny = context;
  const BpGraphTable *table = graph_table();
  (void)target;
  for (int32_t i = 0; i < table->num_nodes(graph); i++) {
    const BpOnnxNode *node = table->get_node(graph, i);
    const char *why = tiny->oddity == EVERYTHING ? NULL : lacks(table, graph, node);
    if (why ? table->decline(claims, i, why) : table->take(claims, i, tiny->cost))
      return tiny->oddity == NOT_A_NUMBER ? 0 : -1;
  }
  if (tiny->oddity == NOWHERE)
    table->take(claims, table->num_nodes(graph), 1);
  if (tiny->oddity == TWICE)
    table->decline(claims, 0, "it was not meant");
  return 0;
}

/* ---- Compiling --------------------------------------------------------------------------- */

typedef struct Compiling {
  const BpGraphTable *table;
  const BpOnnxGraph *part;
  const int32_t *inputs, *outputs;
  int32_t *slots; /* slot of each value, from 1 */
  Header header;
} Compiling;

static int64_t count_elements(const BpOnnxValue *value) {
  int64_t count = 1;
  for (int32_t d = 0; d < value->ndim; d++) {
    if (value->shape[d] < 0)
      return -1;
    count *= value->shape[d];
  }
  return count;
}

static void number_slots(Compiling *c) {
  Header *header = &c->header;
  c->inputs = c->table->get_inputs(c->part, &header->num_inputs);
  c->outputs = c->table->get_outputs(c->part, &header->num_outputs);
  for (int32_t i = 0; i < header->num_inputs; i++)
    c->slots[c->inputs[i]] = ++header->num_slots;
  for (int32_t i = 0; i < header->num_outputs; i++)
    c->slots[c->outputs[i]] = ++header->num_slots;
  for (int32_t v = 0; v < c->table->num_values(c->part); v++)
    if (c->table->get_value(c->part, v)->data) {
      c->slots[v] = ++header->num_slots;
      header->num_constants++;
    }
  for (int32_t v = 0; v < c->table->num_values(c->part); v++)
    if (!c->slots[v])
      c->slots[v] = ++header->num_slots;
  header->elements = count_elements(c->table->get_value(c->part, c->outputs[0]));
  header->num_steps = c->table->num_nodes(c->part);
}

static BpModule *write_module(Compiling *c) {
  size_t size = size_of(&c->header);
  Header *header = malloc(size);
  if (!header)
    return make_module(NULL, 0);
  *header = c->header;
  Step *steps = (Step *)(void *)(header + 1);
  for (int32_t i = 0; i < header->num_steps; i++) {
    const BpOnnxNode *node = c->table->get_node(c->part, i);
    int32_t is_add = !strcmp(node->op, "Add");
    steps[i] = (Step){is_add, c->slots[node->inputs[0]] - 1, c->slots[node->inputs[is_add]] - 1,
                      c->slots[node->outputs[0]] - 1};
  }
  char *constants = (char *)(steps + header->num_steps);
  size_t bytes = (size_t)header->elements * sizeof(float);
  for (int32_t v = 0; v < c->table->num_values(c->part); v++) {
    const BpOnnxValue *value = c->table->get_value(c->part, v);
    if (!value->data)
      continue;
    memcpy(constants, value->data, bytes);
    constants += bytes;
  }
  return make_module(header, size);
}

static int32_t compile(void *context, const BpOnnxGraph *part, const BpTarget *target,
                       const char *function, BpModule **module) {
  const Tiny *tiny = context;
  const BpGraphTable *table = graph_table();
  Compiling c = {.table = table, .part = part};
  (void)target;
  for (int32_t i = 0; i < table->num_nodes(part); i++) {
    const BpOnnxNode *node = table->get_node(part, i);
    if (lacks(table, part, node) || table->num_values(part) > MOST_TENSORS ||
        tiny->oddity == FAILS ||
        (tiny->oddity == FAILS_ONCE && table->num_nodes(part) == 1 && !strcmp(node->op, "Add")))
      return bp_plugin_raise(&host, BP_ERROR_COMPILE, "node '%s' does not fit", node->name);
  }
  c.slots = calloc((size_t)table->num_values(part) + 1, sizeof(*c.slots));
  if (!c.slots)
    return bp_plugin_raise(&host, BP_ERROR_MEMORY, "no memory");
  memcpy(c.header.magic, MAGIC, sizeof(MAGIC));
  strncpy(c.header.function, tiny->oddity == NAMELESS ? "nobody" : function,
          sizeof(c.header.function) - 1);
  c.header.cannot_save = tiny->oddity == UNSAVED;
  c.header.oddity = tiny->oddity == SLOW || tiny->oddity == IDLE ? (int32_t)tiny->oddity : 0;
  number_slots(&c);
  if (tiny->oddity == UNEVEN)
    c.header.oddity = c.header.elements < 1000 ? SLOW : IDLE;
  *module = write_module(&c);
  free(c.slots);
  return *module ? 0 : -1;
}

/* ---- The plugin -------------------------------------------------------------------------- */

#define API(NAME)                                                                                  \
  .api = {.struct_size = sizeof(BpGraphCompilerApi),                                               \
          .name = NAME,                                                                            \
          .device_type = BP_DEVICE_CPU,                                                            \
          .claim = claim,                                                                          \
          .compile = compile}

static Tiny all[] = {
    {API("tiny"), NONE, 0},
    {API("tiny-cheap"), NONE, 10},
    {API("tiny-dear"), NONE, 20},
    {API("tiny-fails"), FAILS, 0},
    {API("tiny-fails-once"), FAILS_ONCE, 0},
    {API("tiny-nowhere"), NOWHERE, 0},
    {API("tiny-twice"), TWICE, 0},
    {API("tiny-nan"), NOT_A_NUMBER, -1},
    {API("tiny-everything"), EVERYTHING, 0},
    {API("tiny-nameless"), NAMELESS, 0},
    {API("tiny-unsaved"), UNSAVED, 0},
    {API("tiny-slow"), SLOW, 0},
    {API("tiny-idle"), IDLE, 0},
    {API("tiny-short"), NONE, 0},
    {API("tiny-reserved"), NONE, 0},
    {API("tiny-cuda"), NONE, 0},
    {API("tiny-renamed"), NONE, 0},
    {API("tiny-older"), NONE, 0},
    {API("tiny-device"), NONE, 0},
    {API("tiny-open"), NONE, 0},
    {API("tiny-uneven"), UNEVEN, 0},
};

static int answer(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  Tiny *tiny = ((BpClosure *)self)->context;
  if (num_args != 1 || args[0].type_index != BP_TYPE_INT ||
      args[0].v_int64 != BP_GRAPH_COMPILER_VERSION || !strcmp(tiny->api.name, "tiny-older"))
    return 0;
  result->type_index = BP_TYPE_POINTER;
  result->v_ptr = &tiny->api;
  return 0;
}

/* The target of a device with only a library and no generator. */
#define DEVICE_TYPE 64990

static const BpTargetAttr attrs[] = {{"rows", BP_TYPE_INT, 0, "1", "of the library; not used"}};

static const BpTargetKind kind = {.struct_size = sizeof(BpTargetKind),
                                  .name = "tiny",
                                  .device_type = DEVICE_TYPE,
                                  .ir_level = BP_IR_LEVEL,
                                  .attrs = attrs,
                                  .num_attrs = 1,
                                  .attr_size = sizeof(BpTargetAttr),
                                  .description = "a library of two operators"};

static int refuse(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)args;
  (void)num_args;
  (void)result;
  return bp_plugin_raise(&host, BP_ERROR_NOT_IMPLEMENTED, "there is no generator");
}

static int32_t initialize(void *context) {
  char name[64];
  (void)context;
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    Tiny *tiny = &all[i];
    tiny->api.context = tiny;
    snprintf(name, sizeof(name), "graph_compiler.%s", tiny->api.name);
    if (bp_plugin_register(&host, name, answer, tiny) != 0)
      return -1;
    if (!strcmp(tiny->api.name, "tiny-short"))
      tiny->api.struct_size = offsetof(BpGraphCompilerApi, compile);
    if (!strcmp(tiny->api.name, "tiny-open"))
      tiny->api.flags = BP_GRAPH_COMPILER_OPEN_EXTENTS | UINT64_C(1) << 63;
    if (!strcmp(tiny->api.name, "tiny-reserved"))
      tiny->api.reserved = 1;
    if (!strcmp(tiny->api.name, "tiny-cuda"))
      tiny->api.device_type = BP_DEVICE_CUDA;
    if (!strcmp(tiny->api.name, "tiny-device"))
      tiny->api.device_type = DEVICE_TYPE;
    if (!strcmp(tiny->api.name, "tiny-renamed"))
      tiny->api.name = "another";
  }
  return host.target->register_kind(&kind) ||
                 bp_plugin_register(&host, "target.build.tiny", refuse, NULL) ||
                 bp_plugin_register(&host, "runtime.module.loadbinary_tiny", load, NULL)
             ? -1
             : 0;
}

int32_t bp_plugin_entry_tiny(const BpHost *given, BpPlugin *plugin) {
  if (bp_plugin_fetch_tables(given, &host) != 0)
    return -1;
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return 0;
}
