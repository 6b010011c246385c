/* SPDX-License-Identifier: Apache-2.0 */
/* Graph compilers: the plugin reads a graph that came as bytes. The bytes come from the host, and
 * are trusted; texts, numbers and constants are used in place. */

#include "worker.h"

#include <backplane/graph_compiler.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct BpOnnxGraph {
  BpWire wire;
  BpOnnxNode *nodes;
  BpOnnxValue *values, *tensors;
  BpOnnxAttr *attrs;
  const char **texts;
  const int32_t *inputs, *outputs;
  int32_t num_nodes, num_values, num_inputs, num_outputs;
};

/* A call of take or decline. */
typedef struct Claim {
  uint64_t state; /* BP_WORKER_TAKEN, BP_WORKER_DECLINED; 0: none */
  int32_t node;
  double cost;
  char *reason;
} Claim;

struct BpClaims {
  int32_t num_nodes;
  Claim *nodes;
  Claim failed; /* the first failed call, without a reason */
};

/* ---- Reading a graph's bytes ------------------------------------------------------------- */

/* NULL: the piece has no bytes. */
static const void *take_piece(BpWire *wire, size_t *size) {
  uint64_t bytes = bp_wire_get(wire);
  const void *at = bp_wire_skip(wire, bytes);
  bp_wire_skip(wire, -bytes % BP_WORKER_PIECE_ALIGN);
  if (size)
    *size = at ? bytes : 0;
  return bytes ? at : NULL;
}

static const char *take_string(BpWire *wire) {
  return take_piece(wire, NULL);
}

/* Reads a list in the graph's texts. */
static const char *const *take_strings(BpOnnxGraph *graph, size_t count) {
  const char **list = graph->texts;
  for (size_t i = 0; i < count; i++)
    list[i] = take_string(&graph->wire);
  graph->texts += count;
  return list;
}

static void take_value(BpOnnxGraph *graph, BpOnnxValue *value) {
  BpWire *wire = &graph->wire;
  size_t size;
  *value = (BpOnnxValue){.struct_size = sizeof *value, .name = take_string(wire)};
  value->dtype = bp_wire_to_dtype(bp_wire_get(wire));
  value->producer = (int32_t)bp_wire_get(wire);
  value->shape = take_piece(wire, &size);
  value->ndim = (int32_t)(size / sizeof *value->shape);
  if (bp_wire_get(wire))
    value->symbols = take_strings(graph, (size_t)value->ndim);
  if (bp_wire_get(wire)) {
    const void *data = take_piece(wire, NULL);
    value->data = data ? data : ""; /* a constant without elements */
  }
}

static void take_attr(BpOnnxGraph *graph, BpOnnxAttr *attr) {
  BpWire *wire = &graph->wire;
  attr->name = take_string(wire);
  attr->type = (int32_t)bp_wire_get(wire);
  attr->count = (int32_t)bp_wire_get(wire);
  attr->ints = take_piece(wire, NULL);
  attr->floats = take_piece(wire, NULL);
  if (bp_wire_get(wire))
    attr->strs = take_strings(graph, (size_t)attr->count);
  if (bp_wire_get(wire)) {
    attr->value = graph->tensors;
    take_value(graph, graph->tensors++);
  }
}

static void take_node(BpOnnxGraph *graph, BpOnnxNode *node) {
  BpWire *wire = &graph->wire;
  size_t inputs, outputs;
  *node = (BpOnnxNode){.struct_size = sizeof *node, .attr_size = sizeof(BpOnnxAttr)};
  node->name = take_string(wire);
  node->op = take_string(wire);
  node->domain = take_string(wire);
  node->opset = (int32_t)bp_wire_get(wire);
  node->inputs = take_piece(wire, &inputs);
  node->outputs = take_piece(wire, &outputs);
  node->num_inputs = (int32_t)(inputs / sizeof *node->inputs);
  node->num_outputs = (int32_t)(outputs / sizeof *node->outputs);
  node->num_attrs = (int32_t)bp_wire_get(wire);
  node->attrs = graph->attrs;
  for (int32_t i = 0; i < node->num_attrs && !wire->is_bad; i++)
    take_attr(graph, graph->attrs++);
}

/* Memory for a graph besides the bytes of its blob, in one allocation. */
static char *allocate(BpOnnxGraph *graph) {
  BpWire *wire = &graph->wire;
  graph->num_values = (int32_t)bp_wire_get(wire);
  graph->num_nodes = (int32_t)bp_wire_get(wire);
  uint64_t attrs = bp_wire_get(wire), texts = bp_wire_get(wire), tensors = bp_wire_get(wire);
  size_t values = (size_t)graph->num_values * sizeof(BpOnnxValue);
  size_t nodes = (size_t)graph->num_nodes * sizeof(BpOnnxNode);
  char *memory = calloc(1, values + nodes + attrs * sizeof(BpOnnxAttr) + texts * sizeof(char *) +
                               tensors * sizeof(BpOnnxValue) + 1);
  if (!memory) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a graph");
    return NULL;
  }
  char *at = memory;
  graph->values = (BpOnnxValue *)(void *)at;
  graph->nodes = (BpOnnxNode *)(void *)(at += values);
  graph->tensors = (BpOnnxValue *)(void *)(at += nodes);
  graph->attrs = (BpOnnxAttr *)(void *)(at += tensors * sizeof(BpOnnxValue));
  graph->texts = (const char **)(void *)(at + attrs * sizeof(BpOnnxAttr));
  return memory;
}

/* Reads the graph of a blob, which must outlive it. Returns the memory to be freed, or NULL with an
 * error. */
static char *read_graph(Blob *blob, BpOnnxGraph *graph) {
  BpWire *wire = &graph->wire;
  size_t inputs, outputs;
  *graph = (BpOnnxGraph){.wire = {blob->data, blob->data + blob->size, 0}};
  char *memory = allocate(graph);
  if (!memory)
    return NULL;
  graph->inputs = take_piece(wire, &inputs);
  graph->outputs = take_piece(wire, &outputs);
  graph->num_inputs = (int32_t)(inputs / sizeof *graph->inputs);
  graph->num_outputs = (int32_t)(outputs / sizeof *graph->outputs);
  for (int32_t i = 0; i < graph->num_values && !wire->is_bad; i++)
    take_value(graph, &graph->values[i]);
  for (int32_t i = 0; i < graph->num_nodes && !wire->is_bad; i++)
    take_node(graph, &graph->nodes[i]);
  if (!wire->is_bad)
    return memory;
  bp_error_raise(BP_ERROR_FORMAT, "a graph's bytes end early");
  free(memory);
  return NULL;
}

/* ---- The table "graph" ------------------------------------------------------------------- */

static int32_t num_nodes(const BpOnnxGraph *graph) {
  return graph->num_nodes;
}

static const BpOnnxNode *get_node(const BpOnnxGraph *graph, int32_t node) {
  return node >= 0 && node < graph->num_nodes ? &graph->nodes[node] : NULL;
}

static int32_t num_values(const BpOnnxGraph *graph) {
  return graph->num_values;
}

static const BpOnnxValue *get_value(const BpOnnxGraph *graph, int32_t value) {
  return value >= 0 && value < graph->num_values ? &graph->values[value] : NULL;
}

static const int32_t *get_inputs(const BpOnnxGraph *graph, int32_t *count) {
  *count = graph->num_inputs;
  return graph->inputs;
}

static const int32_t *get_outputs(const BpOnnxGraph *graph, int32_t *count) {
  *count = graph->num_outputs;
  return graph->outputs;
}

/* Raises the error of a call, and keeps it for the host: `claim` fails even if the plugin
 * continues. */
static int32_t fail(BpClaims *claims, const Claim *call, const char *complaint) {
  if (!claims->failed.state)
    claims->failed = *call;
  return bp_error_raise(BP_ERROR_VALUE, "node %d of %d: %s", call->node, claims->num_nodes,
                        complaint);
}

static int32_t check_node(BpClaims *claims, const Claim *call) {
  if (call->node < 0 || call->node >= claims->num_nodes)
    return fail(claims, call, "there is no such node");
  if (claims->nodes[call->node].state)
    return fail(claims, call, "it was taken or declined before");
  return 0;
}

static int32_t take(BpClaims *claims, int32_t node, double cost) {
  const Claim call = {BP_WORKER_TAKEN, node, cost, NULL};
  if (check_node(claims, &call))
    return -1;
  if (!(cost >= 0 && cost <= __DBL_MAX__))
    return fail(claims, &call, "its cost is not a number of nanoseconds, or 0");
  claims->nodes[node] = call;
  return 0;
}

static int32_t decline(BpClaims *claims, int32_t node, const char *reason) {
  Claim call = {BP_WORKER_DECLINED, node, 0, NULL};
  if (check_node(claims, &call))
    return -1;
  if (!reason)
    return fail(claims, &call, "it was declined without a reason");
  call.reason = strdup(reason);
  if (!call.reason)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for a reason");
  claims->nodes[node] = call;
  return 0;
}

static const BpGraphTable table = {.struct_size = sizeof table,
                                   .num_nodes = num_nodes,
                                   .get_node = get_node,
                                   .num_values = num_values,
                                   .get_value = get_value,
                                   .get_inputs = get_inputs,
                                   .get_outputs = get_outputs,
                                   .take = take,
                                   .decline = decline};

static int add_status;

static void add_table(void) {
  add_status = bp_host_add_table(BP_TABLE_GRAPH, BP_TABLE_GRAPH_VERSION, &table);
}

/* ---- The plugin's table ------------------------------------------------------------------ */

/* The host's rules for tables (graph/build/claim.c) also hold for a table in the worker. */
static int check_table(const char *name, const BpGraphCompilerApi *api) {
  if (!BP_TABLE_HAS(api, compile) || !api->claim || !api->name)
    return bp_error_raise(
        BP_ERROR_PLUGIN,
        "graph_compiler.%s gives a table that lacks a slot which has to be there; "
        "this is a defect of the plugin",
        name);
  if (strcmp(api->name, name) || api->reserved)
    return bp_error_raise(BP_ERROR_PLUGIN,
                          "the table of graph_compiler.%s has the name \"%s\", and %d in "
                          "`reserved`, which has to be 0; this is a defect of the plugin",
                          name, api->name, api->reserved);
  return 0;
}

/* *api is NULL if the plugin has no graph compiler of this version. */
static int find_compiler(const char *name, const BpGraphCompilerApi **api) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  char registered[160];
  BpFunction *function = NULL;
  BpValue answer = {.type_index = BP_TYPE_NONE};
  const BpValue version = {.type_index = BP_TYPE_INT, .v_int64 = BP_GRAPH_COMPILER_VERSION};
  *api = NULL;
  pthread_once(&once, add_table);
  snprintf(registered, sizeof registered, "graph_compiler.%.100s", name);
  if (add_status || bp_registry_get(registered, &function))
    return -1;
  int rc = function ? bp_function_call(function, &version, 1, &answer) : 0;
  bp_object_release(function);
  if (!rc && answer.type_index == BP_TYPE_POINTER)
    *api = answer.v_ptr;
  bp_value_clear(&answer);
  return rc || !*api ? rc : check_table(name, *api);
}

int worker_graph_compiler(Job *job) {
  char *name = bp_wire_get_str(&job->in);
  const BpGraphCompilerApi *api = NULL;
  int rc = name ? find_compiler(name, &api) : -1;
  bp_wire_put(&job->out, api != NULL);
  bp_wire_put(&job->out, api ? (uint32_t)api->device_type : 0);
  bp_wire_put(&job->out, api && BP_TABLE_HAS(api, flags) ? api->flags : 0);
  free(name);
  return rc;
}

/* ---- Claiming and compiling -------------------------------------------------------------- */

/* The arguments of claiming and of compiling. */
typedef struct Request {
  const BpGraphCompilerApi *api;
  BpTarget *target;
  Blob *blob;
  BpOnnxGraph graph;
  char *memory; /* memory of the graph */
} Request;

/* Reads the arguments. 0, or -1 with an error; they must be cleared in both cases. */
static int read_request(Job *job, Request *request) {
  char *name = bp_wire_get_str(&job->in);
  BpByteArray json = bp_wire_get_bytes(&job->in);
  char *text = strndup(json.data, json.size);
  *request = (Request){.blob = worker_get_pointer(job)};
  int rc = name && text ? find_compiler(name, &request->api) : -1;
  if (!rc && !request->api)
    rc = bp_error_raise(BP_ERROR_NOT_FOUND, "there is no graph_compiler.%s in the worker", name);
  request->target = rc ? NULL : bp_target_parse(text);
  request->memory = request->target ? read_graph(request->blob, &request->graph) : NULL;
  free(name);
  free(text);
  return request->memory ? 0 : -1;
}

static void clear_request(Request *request) {
  bp_object_release(request->target);
  free(request->memory);
  free(request->blob);
}

static size_t count_claim_bytes(const Claim *claim) {
  return !claim->state   ? 0
         : claim->reason ? 5 * sizeof(uint64_t) + strlen(claim->reason)
                         : 4 * sizeof(uint64_t);
}

static void put_claim(BpWire *wire, const Claim *claim) {
  uint64_t bits;
  if (!claim->state)
    return;
  memcpy(&bits, &claim->cost, sizeof bits);
  bp_wire_put(wire, claim->state);
  bp_wire_put(wire, (uint64_t)claim->node);
  bp_wire_put(wire, bits);
  bp_wire_put(wire, claim->reason != NULL);
  if (claim->reason)
    bp_wire_put_str(wire, claim->reason);
}

/* Answers with the claims, node by node, and then the call that failed. */
static int answer_claims(Job *job, const BpClaims *claims) {
  size_t size = count_claim_bytes(&claims->failed);
  for (int32_t i = 0; i < claims->num_nodes; i++)
    size += count_claim_bytes(&claims->nodes[i]);
  char *text = malloc(size + 1);
  if (!text)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for claims");
  BpWire wire = {text, text + size, 0};
  for (int32_t i = 0; i < claims->num_nodes; i++)
    put_claim(&wire, &claims->nodes[i]);
  put_claim(&wire, &claims->failed);
  Blob *blob = worker_blob_create(text, size);
  worker_put_pointer(job, blob);
  bp_wire_put(&job->out, size);
  free(text);
  return blob ? 0 : -1;
}

static int make_claims(Job *job, const Request *request) {
  BpClaims claims = {.num_nodes = request->graph.num_nodes};
  claims.nodes = calloc((size_t)claims.num_nodes + 1, sizeof *claims.nodes);
  if (!claims.nodes)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for claims");
  int rc = request->api->claim(request->api->context, &request->graph, request->target, &claims);
  if (!rc || claims.failed.state)
    rc = answer_claims(job, &claims);
  for (int32_t i = 0; i < claims.num_nodes; i++)
    free(claims.nodes[i].reason);
  free(claims.nodes);
  return rc;
}

int worker_claim(Job *job) {
  Request request;
  int rc = read_request(job, &request) || make_claims(job, &request) ? -1 : 0;
  clear_request(&request);
  return rc;
}

int worker_compile(Job *job) {
  Request request;
  BpModule *module = NULL;
  int rc = read_request(job, &request);
  char *function = bp_wire_get_str(&job->in);
  if (!rc)
    rc = function ? request.api->compile(request.api->context, &request.graph, request.target,
                                         function, &module)
                  : -1;
  if (!rc)
    rc = module ? worker_answer_build(job, module)
                : bp_error_raise(BP_ERROR_PLUGIN, "it gave no module");
  if (rc)
    bp_object_release(module);
  free(function);
  clear_request(&request);
  return rc;
}
