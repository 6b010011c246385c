/* SPDX-License-Identifier: Apache-2.0 */
/* Graph compilers of a plugin that runs in a worker. The parts of a graph that a graph compiler may
 * read, with the constants, are sent as bytes; claims and modules come back as bytes. */
#include "worker.h"

#include <backplane/graph_compiler.h>

#include <stdlib.h>

/* A graph compiler in a worker; lives for ever. */
typedef struct RemoteCompiler {
  BpGraphCompilerApi api; /* its context is this structure */
  BpIsolated *plugin;
  pthread_mutex_t lock; /* guards the filling of `api` */
} RemoteCompiler;

/* ---- A graph as bytes -------------------------------------------------------------------- */

static void put_number(BpText *text, uint64_t number) {
  bp_text_add(text, (const char *)&number, sizeof number);
}

static void put_piece(BpText *text, const void *bytes, size_t size) {
  static const char padding[BP_WORKER_PIECE_ALIGN] = "";
  put_number(text, size);
  if (size)
    bp_text_add(text, bytes, size);
  bp_text_add(text, padding, -size % BP_WORKER_PIECE_ALIGN);
}

/* Adds a text; `string` may be NULL. */
static void put_string(BpText *text, const char *string) {
  put_piece(text, string, string ? strlen(string) + 1 : 0);
}

static size_t count_bytes(const BpOnnxValue *value) {
  uint64_t count = 1, bytes = 0;
  for (int32_t i = 0; i < value->ndim; i++)
    count *= (uint64_t)value->shape[i];
  return bp_dtype_array_bytes(value->dtype, count, &bytes) ? 0 : bytes;
}

static void put_value(BpText *text, const BpOnnxValue *value) {
  put_string(text, value->name);
  put_number(text, bp_wire_of_dtype(value->dtype));
  put_number(text, (uint64_t)value->producer);
  put_piece(text, value->shape, (size_t)value->ndim * sizeof *value->shape);
  put_number(text, value->symbols != NULL);
  for (int32_t i = 0; value->symbols && i < value->ndim; i++)
    put_string(text, value->symbols[i]);
  put_number(text, value->data != NULL);
  if (value->data)
    put_piece(text, value->data, count_bytes(value));
}

static void put_attr(BpText *text, const BpOnnxAttr *attr) {
  size_t count = (size_t)attr->count;
  put_string(text, attr->name);
  put_number(text, (uint64_t)attr->type);
  put_number(text, count);
  put_piece(text, attr->ints, attr->ints ? count * sizeof *attr->ints : 0);
  put_piece(text, attr->floats, attr->floats ? count * sizeof *attr->floats : 0);
  put_number(text, attr->strs != NULL);
  for (size_t i = 0; attr->strs && i < count; i++)
    put_string(text, attr->strs[i]);
  put_number(text, attr->value != NULL);
  if (attr->value)
    put_value(text, attr->value);
}

static void put_node(BpText *text, const BpOnnxNode *node) {
  put_string(text, node->name);
  put_string(text, node->op);
  put_string(text, node->domain);
  put_number(text, (uint64_t)node->opset);
  put_piece(text, node->inputs, (size_t)node->num_inputs * sizeof *node->inputs);
  put_piece(text, node->outputs, (size_t)node->num_outputs * sizeof *node->outputs);
  put_number(text, (uint64_t)node->num_attrs);
  for (int32_t i = 0; i < node->num_attrs; i++)
    put_attr(text, bp_onnx_attr(node, i));
}

static void count_texts_of_value(const BpOnnxValue *value, uint64_t *texts) {
  *texts += value->symbols ? (uint64_t)value->ndim : 0;
}

/* Writes how many objects the worker must allocate: attributes, texts in lists, and tensors of
 * attributes. */
static void put_totals(BpText *text, const BpGraphTable *table, const BpOnnxGraph *graph) {
  uint64_t attrs = 0, texts = 0, tensors = 0;
  for (int32_t i = 0; i < table->num_values(graph); i++)
    count_texts_of_value(table->get_value(graph, i), &texts);
  for (int32_t i = 0; i < table->num_nodes(graph); i++) {
    const BpOnnxNode *node = table->get_node(graph, i);
    attrs += (uint64_t)node->num_attrs;
    for (int32_t j = 0; j < node->num_attrs; j++) {
      const BpOnnxAttr *attr = bp_onnx_attr(node, j);
      texts += attr->strs ? (uint64_t)attr->count : 0;
      tensors += attr->value != NULL;
      if (attr->value)
        count_texts_of_value(attr->value, &texts);
    }
  }
  put_number(text, attrs);
  put_number(text, texts);
  put_number(text, tensors);
}

/* Serialises a graph. 0, or -1 with an error. */
static int32_t print_graph(const BpGraphTable *table, const BpOnnxGraph *graph, BpText *text) {
  int32_t num_inputs, num_outputs;
  const int32_t *inputs = table->get_inputs(graph, &num_inputs);
  const int32_t *outputs = table->get_outputs(graph, &num_outputs);
  put_number(text, (uint64_t)table->num_values(graph));
  put_number(text, (uint64_t)table->num_nodes(graph));
  put_totals(text, table, graph);
  put_piece(text, inputs, (size_t)num_inputs * sizeof *inputs);
  put_piece(text, outputs, (size_t)num_outputs * sizeof *outputs);
  for (int32_t i = 0; i < table->num_values(graph); i++)
    put_value(text, table->get_value(graph, i));
  for (int32_t i = 0; i < table->num_nodes(graph); i++)
    put_node(text, table->get_node(graph, i));
  return text->is_full
             ? bp_plugin_raise(&bp_worker_host, BP_ERROR_MEMORY, "no memory for a graph's bytes")
             : 0;
}

/* ---- Calls ------------------------------------------------------------------------------- */

static const BpGraphTable *find_table(void) {
  const BpGraphTable *table =
      bp_worker_host.host->get_table(bp_worker_host.host, BP_TABLE_GRAPH, BP_TABLE_GRAPH_VERSION);
  if (!table)
    bp_plugin_raise(&bp_worker_host, BP_ERROR_PLUGIN, "the host has no table \"graph\"");
  return table;
}

/* Begins a call of `operation` whose arguments are the compiler, the target and the graph. 0, or -1
 * with an error and nothing to finish. */
static int32_t begin(const RemoteCompiler *compiler, uint32_t operation, const BpOnnxGraph *graph,
                     const BpTarget *target, BpCall *call) {
  const BpGraphTable *table = find_table();
  BpText target_text = {NULL, 0, 0, 0}, graph_text = {NULL, 0, 0, 0};
  uint64_t blob = 0;
  BpSession *session = table ? bp_isolated_session(compiler->plugin) : NULL;
  int32_t rc = session ? bp_remote_describe_target(target, &target_text) : -1;
  if (!rc)
    rc = print_graph(table, graph, &graph_text) ||
                 bp_blob_put(session, graph_text.data, graph_text.size, &blob) ||
                 bp_call_begin(session, operation, call)
             ? -1
             : 0;
  if (!rc) {
    bp_wire_put_str(&call->in, compiler->api.name);
    bp_wire_put_bytes(&call->in, target_text.data, target_text.size);
    bp_wire_put(&call->in, blob);
  }
  free(target_text.data);
  free(graph_text.data);
  return rc;
}

/* Reads one claim from the worker's answer and claims or declines its node. */
static int32_t enter_claim(const BpGraphTable *table, BpSession *session, BpWire *wire,
                           BpClaims *claims) {
  uint64_t state = bp_wire_get(wire);
  int32_t node = (int32_t)bp_wire_get(wire);
  uint64_t bits = bp_wire_get(wire), has_reason = bp_wire_get(wire);
  char *reason = has_reason ? bp_wire_get_str(wire) : NULL;
  double cost;
  memcpy(&cost, &bits, sizeof cost);
  int32_t rc;
  if (wire->is_bad || (has_reason && !reason) ||
      (state != BP_WORKER_TAKEN && state != BP_WORKER_DECLINED))
    rc = bp_session_give_up(session, "gave claims that cannot be read");
  else
    rc = state == BP_WORKER_TAKEN ? table->take(claims, node, cost)
                                  : table->decline(claims, node, reason);
  free(reason);
  return rc;
}

/* Makes the claims in the worker's answer. The host checks the claims like those of any plugin. */
static int32_t enter_claims(const BpGraphTable *table, BpSession *session, BpOwnedBytes *answer,
                            BpClaims *claims) {
  BpWire wire = {answer->data, answer->data + answer->size, 0};
  while (wire.at < wire.end)
    if (enter_claim(table, session, &wire, claims))
      return -1;
  return 0;
}

static int32_t claim(void *context, const BpOnnxGraph *graph, const BpTarget *target,
                     BpClaims *claims) {
  const BpGraphTable *table = find_table();
  BpOwnedBytes answer = {NULL, 0, NULL};
  BpCall call;
  if (!table || begin(context, BP_WORKER_CLAIM, graph, target, &call) ||
      bp_call_get_blob(&call, &answer))
    return -1;
  int32_t rc = enter_claims(table, call.session, &answer, claims);
  answer.free_data(answer.data);
  return rc;
}

static int32_t compile(void *context, const BpOnnxGraph *part, const BpTarget *target,
                       const char *function, BpModule **module) {
  const RemoteCompiler *compiler = context;
  BpCall call;
  *module = NULL;
  if (begin(compiler, BP_WORKER_COMPILE, part, target, &call))
    return -1;
  bp_wire_put_str(&call.in, function);
  if (!bp_call_send(&call) && !bp_call_wait(&call))
    *module = bp_remote_module_of_build(compiler->plugin, call.session, &call);
  bp_call_finish(&call);
  return *module ? 0 : -1;
}

/* ---- The table --------------------------------------------------------------------------- */

/* Asks the worker for the members of the table; leaves the table empty if the plugin has none of
 * this version. Called with the compiler's lock held. */
static int32_t ask(RemoteCompiler *compiler) {
  BpCall call;
  BpSession *session = bp_isolated_session(compiler->plugin);
  if (!session || bp_call_begin(session, BP_WORKER_GRAPH_COMPILER, &call))
    return -1;
  bp_wire_put_str(&call.in, compiler->api.name);
  int32_t rc = bp_call_send(&call) || bp_call_wait(&call) ? -1 : 0;
  if (!rc) {
    uint64_t is_there = bp_wire_get(&call.out);
    compiler->api.device_type = (int32_t)bp_wire_get(&call.out);
    compiler->api.flags = bp_wire_get(&call.out);
    rc = bp_call_check(&call);
    compiler->api.struct_size = !rc && is_there ? sizeof compiler->api : 0;
  }
  bp_call_finish(&call);
  return rc;
}

static int get_graph_compiler(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  RemoteCompiler *compiler = ((const BpClosure *)self)->context;
  if (num_args != 1 || args[0].type_index != BP_TYPE_INT)
    return bp_plugin_raise(&bp_worker_host, BP_ERROR_TYPE, "graph_compiler.%s takes a version",
                           compiler->api.name);
  if (args[0].v_int64 != BP_GRAPH_COMPILER_VERSION)
    return 0;
  pthread_mutex_lock(&compiler->lock);
  int32_t rc = compiler->api.struct_size ? 0 : ask(compiler);
  int is_there = compiler->api.struct_size != 0;
  pthread_mutex_unlock(&compiler->lock);
  if (!rc && is_there)
    *result = (BpValue){.type_index = BP_TYPE_POINTER, .v_ptr = &compiler->api};
  return rc;
}

int32_t bp_remote_register_graph_compiler(BpIsolated *plugin, const char *registry_name,
                                          const char *name) {
  RemoteCompiler *compiler = bp_plugin_calloc(&bp_worker_host, sizeof *compiler);
  if (!compiler)
    return -1;
  compiler->api =
      (BpGraphCompilerApi){.name = name, .context = compiler, .claim = claim, .compile = compile};
  compiler->plugin = plugin;
  pthread_mutex_init(&compiler->lock, NULL);
  return bp_plugin_register(&bp_worker_host, registry_name, get_graph_compiler, compiler);
}
