/* SPDX-License-Identifier: Apache-2.0 */
/* The execution provider of one session: it claims parts of the session's graph and gives ONNX
 * Runtime the functions that run them. */
#include <stdlib.h>
#include <string.h>

#include "bridges/onnxruntime/bridge.h"

typedef struct Ep {
  OrtEp base;
  const Runtime *ort;
  const Memories *memories; /* or NULL */
  const OrtLogger *logger;
  Options options;
  Purpose purpose;
  BpDevice place; /* the device whose memory ONNX Runtime uses for the provider's tensors */
  Part **parts;
  size_t num_parts;
  size_t num_taken; /* parts of claims that ONNX Runtime has taken */
} Ep;

/* ---- Making ------------------------------------------------------------------------------ */

/* Returns the preferences of a session: its option, else its device if the session has one device,
 * else NULL: Backplane's own preferences. */
static const char *preferences_of(const Ep *ep, const OrtKeyValuePairs *const *metadata,
                                  size_t count) {
  if (ep->options.device)
    return ep->options.device;
  return count == 1 && metadata && metadata[0]
             ? ep->ort->api->GetKeyValue(metadata[0], METADATA_DEVICE)
             : NULL;
}

static int choose_target(Ep *ep) {
  const char *text = ep->options.target;
  char device[BRIDGE_DEVICE_MAX];
  ep->purpose.target = text ? bp_target_parse(text) : bp_target_from_device(ep->purpose.device);
  if (!ep->purpose.target)
    return -1;
  if (bp_target_device_type(ep->purpose.target) ==
      BP_DEVICE_TYPE_OF_CODE(ep->purpose.device.device_type))
    return 0;
  bp_device_format(ep->purpose.device, device, sizeof device);
  return bp_error_raise(BP_ERROR_VALUE,
                        "option target is '%s', whose code does not run on %s; set option device "
                        "too",
                        text, device);
}

/* ONNX Runtime has allocators for the devices that were passed to the session. On another device
 * the session's tensors are in the host's memory. */
static BpDevice find_place(const Ep *ep, const OrtKeyValuePairs *const *metadata, size_t count) {
  char device[BRIDGE_DEVICE_MAX];
  bp_device_format(ep->purpose.device, device, sizeof device);
  for (size_t i = 0; metadata && i < count; i++) {
    const char *passed =
        metadata[i] ? ep->ort->api->GetKeyValue(metadata[i], METADATA_DEVICE) : NULL;
    if (passed && !strcmp(passed, device))
      return ep->purpose.device;
  }
  return (BpDevice){BP_DEVICE_CPU, 0};
}

static int prepare(Ep *ep, const OrtKeyValuePairs *const *metadata, size_t count,
                   const OrtSessionOptions *options) {
  ep->purpose.options = &ep->options;
  if (options_read(ep->ort, options, &ep->options) ||
      bp_device_select(preferences_of(ep, metadata, count), &ep->purpose.device, NULL))
    return -1;
  ep->place = find_place(ep, metadata, count);
  return choose_target(ep);
}

static const char *get_name(const OrtEp *self) {
  (void)self;
  return EP_NAME;
}

static OrtStatus *get_kernels(OrtEp *self, const OrtKernelRegistry **result) {
  const Ep *ep = (const Ep *)self;
  *result = memories_kernels(ep->memories, ep->place);
  return NULL;
}

static OrtStatus *get_memory(const OrtEp *self, const OrtMemoryDevice **result) {
  const Ep *ep = (const Ep *)self;
  *result = memories_place(ep->memories, ep->place);
  return NULL;
}

/* ---- Claiming ---------------------------------------------------------------------------- */

static void log_text(const Ep *ep, int32_t level, const char *text) {
  OrtStatus *status =
      ep->ort->api->Logger_LogMessage(ep->logger, level, text, __FILE__, __LINE__, __func__);
  if (status)
    ep->ort->api->ReleaseStatus(status);
}

/* Logs one line that says how much was claimed, and why not all nodes. */
static void log_claims(const Ep *ep, const Claims *claims) {
  Bytes line = {0};
  char device[BRIDGE_DEVICE_MAX];
  int32_t left = claims->num_nodes - claims->num_claimed;
  bp_device_format(ep->purpose.device, device, sizeof device);
  bytes_print(&line, EP_NAME ": claimed %d of %d nodes in %d part%s for %s", claims->num_claimed,
              claims->num_nodes, claims->num_parts, claims->num_parts == 1 ? "" : "s", device);
  if (left > 0)
    bytes_print(&line, "; %d left to other providers, first %s", left,
                claims->first_why ? claims->first_why : "");
  if (bytes_end(&line) == 0)
    log_text(ep,
             left == 0               ? ORT_LEVEL_INFO
             : ep->options.is_strict ? ORT_LEVEL_ERROR
                                     : ORT_LEVEL_WARNING,
             line.data);
  bytes_free(&line);
}

static void report_claims(const Ep *ep, const Graph *graph, const Claims *claims) {
  Bytes text = {0};
  char device[BRIDGE_DEVICE_MAX], *target = bp_target_format(ep->purpose.target);
  bp_device_format(ep->purpose.device, device, sizeof device);
  bytes_print(&text, "{\"graph\": ");
  bytes_put_json(&text, graph->name);
  bytes_print(&text, ", \"device\": ");
  bytes_put_json(&text, device);
  bytes_print(&text, ", \"target\": ");
  bytes_put_json(&text, target ? target : "");
  bytes_print(&text, ", \"nodes\": %d, \"claimed\": %d, \"parts\": %d, \"left\": [",
              claims->num_nodes, claims->num_claimed, claims->num_parts);
  bytes_put(&text, claims->reasons.data, claims->reasons.size);
  bytes_print(&text, "]}");
  if (bytes_end(&text) == 0)
    report_set(ep, text.data);
  else
    bytes_free(&text);
  bp_str_free(target);
  bp_error_clear();
}

/* Keeps the parts until the provider is freed. */
static int take_parts(Ep *ep, const Claims *claims) {
  size_t count = (size_t)claims->num_parts;
  Part **parts = realloc(ep->parts, (ep->num_parts + count + 1) * sizeof(*parts));
  if (!parts) {
    for (size_t i = 0; i < count; i++)
      part_free(claims->parts[i]);
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for %zu parts", count);
  }
  ep->parts = parts;
  for (size_t i = 0; i < count; i++)
    ep->parts[ep->num_parts++] = claims->parts[i];
  return 0;
}

/* Frees the parts from `first` on. */
static void drop_parts(Ep *ep, size_t first) {
  while (ep->num_parts > first)
    part_free(ep->parts[--ep->num_parts]);
}

static int divide(Ep *ep, const OrtGraph *from, OrtGraphSupportInfo *info) {
  Graph graph;
  Claims claims = {0};
  int status = graph_read(ep->ort, from, &graph);
  if (status == 0) {
    status = partition(&graph, &ep->purpose, info, &claims);
    if (take_parts(ep, &claims))
      status = -1;
  }
  if (status == 0) {
    log_claims(ep, &claims);
    report_claims(ep, &graph, &claims);
  }
  free(claims.parts);
  bytes_free(&claims.reasons);
  graph_free(&graph);
  return status;
}

/* After a model's functions are inlined ONNX Runtime asks for claims again. Older versions of ONNX
 * Runtime name the further parts like the first ones, and refuse the session. */
#define NAMES_ALL_PARTS 24

/* A nested graph is claimed together with the node that contains it. ONNX Runtime does not take the
 * claims of a graph whose functions it inlines after it has asked. */
static OrtStatus *get_capability(OrtEp *self, const OrtGraph *graph, OrtGraphSupportInfo *info) {
  Ep *ep = (Ep *)self;
  const OrtNode *parent = NULL;
  if (bridge_check(ep->ort, ep->ort->api->Graph_GetParentNode(graph, &parent)))
    return bridge_status(ep->ort);
  if (parent || (ep->num_taken > 0 && ep->ort->version < NAMES_ALL_PARTS))
    return NULL;
  drop_parts(ep, ep->num_taken);
  if (divide(ep, graph, info)) {
    bp_error_add_context(EP_NAME ": nothing is claimed");
    log_text(ep, ORT_LEVEL_ERROR, bp_error_message());
    return bridge_status(ep->ort);
  }
  return NULL;
}

/* ---- EPContext --------------------------------------------------------------------------- */

static int add_attr(const Runtime *ort, const char *name, int32_t type, const void *data,
                    size_t size, OrtOpAttr **attr) {
  if (size > INT32_MAX)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "a part of the model has %zu bytes with its constants, and an EPContext "
                          "node holds at most %d",
                          size, INT32_MAX);
  return bridge_check(ort, ort->api->CreateOpAttr(name, data, (int32_t)size, type, attr));
}

static int read_names(const Runtime *ort, const OrtValueInfo *const *values, size_t count,
                      const char **names) {
  for (size_t i = 0; i < count; i++) {
    names[i] = "";
    if (values[i] && bridge_check(ort, ort->api->GetValueInfoName(values[i], &names[i])))
      return -1;
  }
  return 0;
}

static int make_node(const Runtime *ort, const Part *part, const char *name,
                     const char *const *names, size_t num_inputs, size_t num_outputs,
                     OrtNode **node) {
  const OrtModelEditorApi *editor = ort->api->GetModelEditorApi();
  const Bytes *onnx = part_onnx(part);
  int64_t one = 1;
  OrtOpAttr *attrs[5] = {0};
  if (!onnx)
    return bp_error_raise(BP_ERROR_VALUE,
                          "the model has EPContext nodes already; make one of the original model");
  if (add_attr(ort, "main_context", ORT_ATTR_INT, &one, 1, &attrs[0]) ||
      add_attr(ort, "embed_mode", ORT_ATTR_INT, &one, 1, &attrs[1]) ||
      add_attr(ort, "ep_cache_context", ORT_ATTR_STRING, onnx->data, onnx->size, &attrs[2]) ||
      add_attr(ort, "source", ORT_ATTR_STRING, CONTEXT_SOURCE, strlen(CONTEXT_SOURCE), &attrs[3]) ||
      add_attr(ort, "partition_name", ORT_ATTR_STRING, name, strlen(name), &attrs[4])) {
    for (size_t i = 0; i < 5; i++)
      if (attrs[i])
        ort->api->ReleaseOpAttr(attrs[i]);
    return -1;
  }
  return bridge_check(ort, editor->CreateNode("EPContext", "com.microsoft", name, names, num_inputs,
                                              names + num_inputs, num_outputs, attrs, 5, node));
}

/* Makes the node that stands for a part in a saved model. */
static int make_context(const Ep *ep, const Part *part, const OrtNode *fused, OrtNode **node) {
  const Runtime *ort = ep->ort;
  size_t num_inputs = 0, num_outputs = 0;
  const char *name = "";
  if (bridge_check(ort, ort->api->Node_GetNumInputs(fused, &num_inputs)) ||
      bridge_check(ort, ort->api->Node_GetNumOutputs(fused, &num_outputs)) ||
      bridge_check(ort, ort->api->Node_GetName(fused, &name)))
    return -1;
  size_t count = num_inputs + num_outputs;
  const OrtValueInfo **values = calloc(count + 1, sizeof(*values));
  const char **names = calloc(count + 1, sizeof(*names));
  int status =
      values && names ? 0 : bp_error_raise(BP_ERROR_MEMORY, "no memory for %zu names", count);
  if (status == 0 &&
      (bridge_check(ort, ort->api->Node_GetInputs(fused, values, num_inputs)) ||
       bridge_check(ort, ort->api->Node_GetOutputs(fused, values + num_inputs, num_outputs)) ||
       read_names(ort, values, count, names) ||
       make_node(ort, part, name, names, num_inputs, num_outputs, node)))
    status = -1;
  free(values);
  free(names);
  return status;
}

/* ---- Compiling --------------------------------------------------------------------------- */

/* Finds the part whose first output is an output of the node. */
static Part *find_part(const Ep *ep, const OrtNode *fused) {
  const Runtime *ort = ep->ort;
  size_t count = 0;
  Part *part = NULL;
  if (bridge_check(ort, ort->api->Node_GetNumOutputs(fused, &count)))
    return NULL;
  const OrtValueInfo **outputs = calloc(count + 1, sizeof(*outputs));
  int status = outputs ? bridge_check(ort, ort->api->Node_GetOutputs(fused, outputs, count))
                       : bp_error_raise(BP_ERROR_MEMORY, "no memory for %zu outputs", count);
  for (size_t i = 0; i < count && status == 0 && !part; i++) {
    const char *name = "";
    if (outputs[i])
      status = bridge_check(ort, ort->api->GetValueInfoName(outputs[i], &name));
    for (size_t k = 0; k < ep->num_parts && status == 0 && !part; k++)
      if (!strcmp(part_key(ep->parts[k]), name))
        part = ep->parts[k];
  }
  free(outputs);
  if (!part && status == 0)
    bp_error_raise(BP_ERROR_NOT_FOUND, "ONNX Runtime asks for a part that was not claimed");
  return part;
}

/* The parts were compiled when they were claimed. */
static OrtStatus *compile(OrtEp *self, const OrtGraph **graphs, const OrtNode **fused, size_t count,
                          OrtNodeComputeInfo **infos, OrtNode **contexts) {
  Ep *ep = (Ep *)self;
  (void)graphs;
  ep->num_taken = ep->num_parts;
  for (size_t i = 0; i < count; i++) {
    Part *part = find_part(ep, fused[i]);
    infos[i] = part ? part_compute_info(ep->ort, part, fused[i], i == 0) : NULL;
    if (infos[i] &&
        (!ep->options.makes_contexts || make_context(ep, part, fused[i], &contexts[i]) == 0))
      continue;
    for (size_t k = 0; k <= i; k++) {
      part_release_info(infos[k]);
      infos[k] = NULL;
    }
    return bridge_status(ep->ort);
  }
  return NULL;
}

static void release_infos(OrtEp *self, OrtNodeComputeInfo **infos, size_t count) {
  (void)self;
  for (size_t i = 0; i < count; i++)
    part_release_info(infos[i]);
}

/* ---- The provider ------------------------------------------------------------------------ */

OrtEp *ep_create(const Runtime *ort, const Memories *memories,
                 const OrtKeyValuePairs *const *metadata, size_t count,
                 const OrtSessionOptions *options, const OrtLogger *logger) {
  Ep *ep = calloc(1, sizeof(*ep));
  if (!ep) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a session");
    return NULL;
  }
  ep->base = (OrtEp){.version = ORT_EP_VERSION,
                     .GetName = get_name,
                     .GetCapability = get_capability,
                     .Compile = compile,
                     .ReleaseNodeComputeInfos = release_infos,
                     .GetKernelRegistry = memories ? get_kernels : NULL,
                     .GetDefaultMemoryDevice = memories ? get_memory : NULL};
  ep->ort = ort;
  ep->memories = memories;
  ep->logger = logger;
  if (prepare(ep, metadata, count, options) == 0)
    return &ep->base;
  ep_free(&ep->base);
  return NULL;
}

void ep_free(OrtEp *base) {
  Ep *ep = (Ep *)base;
  report_set(ep, NULL);
  drop_parts(ep, 0);
  free(ep->parts);
  bp_target_release(ep->purpose.target);
  options_free(ep->ort, &ep->options);
  free(ep);
}
