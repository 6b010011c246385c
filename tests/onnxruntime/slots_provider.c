/* SPDX-License-Identifier: Apache-2.0 */
/* A provider that calls every slot of bridges/onnxruntime/ort_abi.h with a visible effect, or lets
 * ONNX Runtime call it. Each slot that worked or failed is a line in the file that BP_SLOTS names:
 * "Table.slot good" or "Table.slot wrong". slots.py makes the model. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridges/onnxruntime/ort_abi.h"

#define NAME        "slots"
#define VENDOR      0x534C4F
#define MEMORY_FROM 28 /* as the bridge */

static const OrtApi *api;
static const OrtEpApi *ep_api;
static uint32_t version;
static OrtMemoryInfo *memory_info;
static OrtKernelRegistry *kernels;

/* ---- Results ----------------------------------------------------------------------------- */

static void see(const char *slot, bool is_good) {
  FILE *file = fopen(getenv("BP_SLOTS"), "a");
  if (file) {
    fprintf(file, "%s %s\n", slot, is_good ? "good" : "wrong");
    fclose(file);
  }
}

/* Records that the slot exists, and did what it should. */
#define SEE(table, slot, is_good)                                                                  \
  do {                                                                                             \
    (void)offsetof(table, slot);                                                                   \
    see(#table "." #slot, is_good);                                                                \
  } while (0)

static bool ok(OrtStatus *status) {
  if (status) {
    fprintf(stderr, "slots: %s\n", api->GetErrorMessage(status));
    api->ReleaseStatus(status);
  }
  return !status;
}

static bool is_text(const char *text, const char *expected) {
  return text && !strcmp(text, expected);
}

/* Whether a cycle frees all memory that it allocates. */
static bool frees(void (*cycle)(void)) {
  cycle();
  size_t before = mallinfo2().uordblks;
  for (int i = 0; i < 2000; i++)
    cycle();
  return mallinfo2().uordblks < before + 50000;
}

static char long_text[4096];

static void cycle_status(void) {
  api->ReleaseStatus(api->CreateStatus(ORT_FAIL, long_text));
}

static void cycle_pairs(void) {
  OrtKeyValuePairs *pairs = NULL;
  api->CreateKeyValuePairs(&pairs);
  api->AddKeyValuePair(pairs, "key", long_text);
  api->ReleaseKeyValuePairs(pairs);
}

static void cycle_attr(void) {
  OrtOpAttr *attr = NULL;
  if (ok(api->CreateOpAttr("name", long_text, sizeof long_text - 1, ORT_ATTR_STRING, &attr)))
    api->ReleaseOpAttr(attr);
}

static void cycle_info(void) {
  OrtMemoryInfo *info = NULL;
  if (ok(api->CreateMemoryInfo_V2(NAME, ORT_MEMORY_GPU, VENDOR, 3, ORT_MEMORY_DEFAULT, 0,
                                  ORT_ALLOCATOR_DEVICE, &info)))
    api->ReleaseMemoryInfo(info);
}

static void cycle_registry(void) {
  OrtKernelRegistry *registry = NULL;
  if (ok(ep_api->CreateKernelRegistry(&registry)))
    ep_api->ReleaseKernelRegistry(registry);
}

static void cycle_builder(void) {
  OrtKernelDefBuilder *builder = NULL;
  if (ok(ep_api->CreateKernelDefBuilder(&builder)) &&
      ok(ep_api->KernelDefBuilder_SetOperatorType(builder, long_text)))
    ep_api->ReleaseKernelDefBuilder(builder);
}

static void see_objects(void) {
  memset(long_text, 'x', sizeof long_text - 1);
  OrtStatus *status = api->CreateStatus(ORT_FAIL, "a message");
  bool is_same = is_text(api->GetErrorMessage(status), "a message");
  api->ReleaseStatus(status);
  SEE(OrtApi, CreateStatus, is_same);
  SEE(OrtApi, GetErrorMessage, is_same);
  SEE(OrtApi, ReleaseStatus, frees(cycle_status));
  OrtKeyValuePairs *pairs = NULL;
  const char *const *keys, *const *values;
  size_t count = 0;
  api->CreateKeyValuePairs(&pairs);
  api->AddKeyValuePair(pairs, "one", "1");
  api->AddKeyValuePair(pairs, "two", "2");
  api->GetKeyValuePairs(pairs, &keys, &values, &count);
  SEE(OrtApi, CreateKeyValuePairs, pairs != NULL);
  SEE(OrtApi, AddKeyValuePair, count == 2);
  SEE(OrtApi, GetKeyValue, is_text(api->GetKeyValue(pairs, "two"), "2"));
  SEE(OrtApi, GetKeyValuePairs,
      count == 2 && is_text(values[is_text(keys[0], "one") ? 0 : 1], "1"));
  api->ReleaseKeyValuePairs(pairs);
  SEE(OrtApi, ReleaseKeyValuePairs, frees(cycle_pairs));
  SEE(OrtApi, ReleaseOpAttr, frees(cycle_attr));
}

/* ---- Reading the graph ------------------------------------------------------------------- */

static const OrtNode *nodes[16];
static size_t num_nodes;

static const OrtNode *node_of(const char *name) {
  const char *other = NULL;
  for (size_t i = 0; i < num_nodes; i++)
    if (ok(api->Node_GetName(nodes[i], &other)) && is_text(other, name))
      return nodes[i];
  return NULL;
}

static const char *name_of(const OrtValueInfo *value) {
  const char *name = NULL;
  return value && ok(api->GetValueInfoName(value, &name)) ? name : NULL;
}

static const OrtTensorInfo *info_of(const OrtValueInfo *value) {
  const OrtTypeInfo *type = NULL;
  const OrtTensorInfo *info = NULL;
  bool is_good = ok(api->GetValueInfoTypeInfo(value, &type)) && type;
  SEE(OrtApi, GetValueInfoTypeInfo, is_good);
  return is_good && ok(api->CastTypeInfoToTensorInfo(type, &info)) ? info : NULL;
}

static void see_types(const OrtValueInfo *const *inputs) {
  const OrtTensorInfo *x = info_of(inputs[0]), *flag = info_of(inputs[1]);
  size_t count = 9;
  int32_t type = 0;
  int64_t extents[2] = {0};
  const char *symbols[2] = {NULL};
  SEE(OrtApi, CastTypeInfoToTensorInfo, x && flag);
  SEE(OrtApi, GetDimensionsCount,
      ok(api->GetDimensionsCount(flag, &count)) && count == 0 &&
          ok(api->GetDimensionsCount(x, &count)) && count == 2);
  SEE(OrtApi, GetTensorElementType,
      ok(api->GetTensorElementType(flag, &type)) && type == 9 &&
          ok(api->GetTensorElementType(x, &type)) && type == 1);
  SEE(OrtApi, GetDimensions,
      ok(api->GetDimensions(x, extents, 2)) && extents[0] == -1 && extents[1] == 3);
  SEE(OrtApi, GetSymbolicDimensions,
      ok(api->GetSymbolicDimensions(x, symbols, 2)) && is_text(symbols[0], "n") &&
          is_text(symbols[1], ""));
  if (version >= 24)
    SEE(OrtApi, TensorTypeAndShape_HasShape,
        api->TensorTypeAndShape_HasShape(x) && api->TensorTypeAndShape_HasShape(flag) &&
            !api->TensorTypeAndShape_HasShape(info_of(inputs[3])));
}

static void see_graph(const OrtGraph *graph) {
  const char *name = NULL, *domains[64];
  int64_t number = 0, versions[64];
  size_t count = 0;
  bool is_found = false;
  const OrtValueInfo *inputs[4] = {NULL}, *outputs[4] = {NULL};
  SEE(OrtApi, Graph_GetName, ok(api->Graph_GetName(graph, &name)) && is_text(name, "the graph"));
  SEE(OrtApi, Graph_GetOnnxIRVersion,
      ok(api->Graph_GetOnnxIRVersion(graph, &number)) && number == 8);
  SEE(OrtApi, Graph_GetNumOperatorSets,
      ok(api->Graph_GetNumOperatorSets(graph, &count)) && count >= 2 && count <= 64);
  bool is_read = ok(api->Graph_GetOperatorSets(graph, domains, versions, count));
  for (size_t i = 0; i < count && is_read; i++)
    is_found |= is_text(domains[i], "") && versions[i] == 17;
  SEE(OrtApi, Graph_GetOperatorSets, is_found);
  SEE(OrtApi, Graph_GetNumInputs, ok(api->Graph_GetNumInputs(graph, &count)) && count == 4);
  SEE(OrtApi, Graph_GetInputs,
      ok(api->Graph_GetInputs(graph, inputs, 4)) && is_text(name_of(inputs[2]), "k"));
  SEE(OrtApi, GetValueInfoName, is_text(name_of(inputs[0]), "x"));
  SEE(OrtApi, Graph_GetNumOutputs, ok(api->Graph_GetNumOutputs(graph, &count)) && count == 4);
  SEE(OrtApi, Graph_GetOutputs,
      ok(api->Graph_GetOutputs(graph, outputs, 4)) && is_text(name_of(outputs[1]), "z"));
  SEE(OrtApi, Graph_GetNumNodes, ok(api->Graph_GetNumNodes(graph, &num_nodes)) && num_nodes == 7);
  SEE(OrtApi, Graph_GetNodes, ok(api->Graph_GetNodes(graph, nodes, num_nodes)));
  SEE(OrtApi, Node_GetName, node_of("first") && node_of("second") && !node_of("none"));
  see_types(inputs);
}

static void see_attributes(const OrtNode *first) {
  const OrtOpAttr *attrs[4] = {NULL}, *attr = NULL, *missing = NULL;
  const char *name = NULL;
  size_t count = 0, size = 0;
  int32_t type = 0;
  float alpha = 0;
  SEE(OrtApi, Node_GetNumAttributes, ok(api->Node_GetNumAttributes(first, &count)) && count == 1);
  SEE(OrtApi, Node_GetAttributes, ok(api->Node_GetAttributes(first, attrs, 1)) && attrs[0]);
  OrtStatus *status = api->Node_GetAttributeByName(first, "none", &missing);
  if (status)
    api->ReleaseStatus(status);
  SEE(OrtApi, Node_GetAttributeByName,
      ok(api->Node_GetAttributeByName(first, "alpha", &attr)) && attr && !missing);
  SEE(OrtApi, OpAttr_GetName, ok(api->OpAttr_GetName(attrs[0], &name)) && is_text(name, "alpha"));
  SEE(OrtApi, OpAttr_GetType, ok(api->OpAttr_GetType(attr, &type)) && type == ORT_ATTR_FLOAT);
  status = api->ReadOpAttr(attr, ORT_ATTR_FLOAT, NULL, 0, &size);
  bool is_refused = status && size == sizeof alpha;
  if (status)
    api->ReleaseStatus(status);
  SEE(OrtApi, ReadOpAttr,
      is_refused && ok(api->ReadOpAttr(attr, ORT_ATTR_FLOAT, &alpha, sizeof alpha, &size)) &&
          alpha == 0.5f);
}

static const OrtOpAttr *tensor_attr;

static void cycle_value(void) {
  OrtValue *value = NULL;
  if (ok(api->OpAttr_GetTensorAttributeAsOrtValue(tensor_attr, &value)))
    api->ReleaseValue(value);
}

static const OrtValue *tensor;

static void cycle_tensor_info(void) {
  OrtTensorInfo *info = NULL;
  if (ok(api->GetTensorTypeAndShape(tensor, &info)))
    api->ReleaseTensorInfo(info);
}

static void see_values(void) {
  const OrtValueInfo *inputs[2] = {NULL};
  const OrtValue *weights = NULL;
  OrtValue *seven = NULL;
  const void *data = NULL;
  size_t size = 0, count = 9;
  bool is_constant[2] = {true, false};
  bool is_read = ok(api->Node_GetInputs(node_of("second"), inputs, 2)) &&
                 ok(api->ValueInfo_IsConstantInitializer(inputs[0], &is_constant[0])) &&
                 ok(api->ValueInfo_IsConstantInitializer(inputs[1], &is_constant[1]));
  SEE(OrtApi, ValueInfo_IsConstantInitializer, is_read && !is_constant[0] && is_constant[1]);
  is_read = ok(api->ValueInfo_GetInitializerValue(inputs[1], &weights)) && weights &&
            ok(api->GetTensorData(weights, &data));
  SEE(OrtApi, ValueInfo_GetInitializerValue, is_read && ((const float *)data)[2] == 3);
  SEE(OrtApi, GetTensorSizeInBytes,
      ok(api->GetTensorSizeInBytes(weights, &size)) && size == 3 * sizeof(float));
  is_read = ok(api->Node_GetAttributeByName(node_of("fifth"), "value", &tensor_attr)) &&
            ok(api->OpAttr_GetTensorAttributeAsOrtValue(tensor_attr, &seven)) &&
            ok(api->GetTensorData(seven, &data));
  SEE(OrtApi, OpAttr_GetTensorAttributeAsOrtValue, is_read && *(const int64_t *)data == 7);
  SEE(OrtApi, GetTensorData, is_read && *(const int64_t *)data == 7);
  OrtTensorInfo *info = NULL;
  SEE(OrtApi, GetTensorTypeAndShape,
      ok(api->GetTensorTypeAndShape(seven, &info)) && ok(api->GetDimensionsCount(info, &count)) &&
          count == 1);
  api->ReleaseTensorInfo(info);
  tensor = seven;
  SEE(OrtApi, ReleaseTensorInfo, frees(cycle_tensor_info));
  api->ReleaseValue(seven);
  SEE(OrtApi, ReleaseValue, frees(cycle_value));
}

static void see_nodes(void) {
  const OrtNode *third = node_of("third"), *fourth = node_of("fourth");
  const OrtValueInfo *values[3] = {NULL};
  const OrtGraph *graphs[2] = {NULL};
  const char *text = NULL, *attrs[2] = {NULL}, *names[2] = {NULL};
  size_t count = 0;
  SEE(OrtApi, Node_GetOperatorType,
      ok(api->Node_GetOperatorType(third, &text)) && is_text(text, "Clip"));
  SEE(OrtApi, Node_GetDomain,
      ok(api->Node_GetDomain(node_of("sixth"), &text)) && is_text(text, "com.microsoft"));
  SEE(OrtApi, Node_GetNumInputs, ok(api->Node_GetNumInputs(third, &count)) && count == 3);
  SEE(OrtApi, Node_GetInputs,
      ok(api->Node_GetInputs(third, values, 3)) && is_text(name_of(values[0]), "b") && !values[1] &&
          is_text(name_of(values[2]), "m"));
  SEE(OrtApi, Node_GetNumOutputs, ok(api->Node_GetNumOutputs(third, &count)) && count == 1);
  SEE(OrtApi, Node_GetOutputs,
      ok(api->Node_GetOutputs(third, values, 1)) && is_text(name_of(values[0]), "d"));
  SEE(OrtApi, Node_GetNumImplicitInputs,
      ok(api->Node_GetNumImplicitInputs(fourth, &count)) && count == 1);
  SEE(OrtApi, Node_GetImplicitInputs,
      ok(api->Node_GetImplicitInputs(fourth, values, 1)) && is_text(name_of(values[0]), "d"));
  SEE(OrtApi, Node_GetNumSubgraphs, ok(api->Node_GetNumSubgraphs(fourth, &count)) && count == 2);
  bool is_read = ok(api->Node_GetSubgraphs(fourth, graphs, 2, attrs)) &&
                 ok(api->Graph_GetName(graphs[0], &names[0])) &&
                 ok(api->Graph_GetName(graphs[1], &names[1]));
  int then = is_text(attrs[0], "then_branch") ? 0 : 1;
  SEE(OrtApi, Node_GetSubgraphs,
      is_read && is_text(names[then], "then") && is_text(names[1 - then], "else") &&
          is_text(attrs[1 - then], "else_branch"));
}

/* ---- The provider ------------------------------------------------------------------------ */

typedef struct Ep {
  OrtEp base;
  const OrtLogger *logger;
  bool makes_contexts;
} Ep;

static const char *get_name(const OrtEp *self) {
  (void)self;
  SEE(OrtEp, GetName, true);
  return NAME;
}

static OrtStatus *get_capability(OrtEp *self, const OrtGraph *graph, OrtGraphSupportInfo *info) {
  const OrtNode *parent = NULL;
  const char *op = NULL;
  bool is_read = ok(api->Graph_GetParentNode(graph, &parent));
  SEE(OrtEp, GetCapability, is_read);
  const char *name = NULL;
  if (!ok(api->Graph_GetName(graph, &name)) || !is_text(name, "the graph")) {
    if (version >= 24)
      SEE(OrtApi, Graph_GetParentNode,
          ok(api->Node_GetOperatorType(parent, &op)) && is_text(op, "If"));
    return NULL;
  }
  SEE(OrtApi, Graph_GetParentNode, !parent);
  /* The Python test checks the text. */
  SEE(OrtApi, Logger_LogMessage,
      ok(api->Logger_LogMessage(((Ep *)self)->logger, ORT_LEVEL_WARNING, "the graph is read",
                                __FILE__, __LINE__, __func__)));
  see_graph(graph);
  see_nodes();
  see_attributes(node_of("first"));
  see_values();
  const OrtNode *claimed[] = {node_of("first"), node_of("second")};
  const OrtFusionOptions options = {ORT_OLDEST_VERSION, true};
  ok(ep_api->AddNodesToFuse(info, claimed, 2, &options));
  return NULL;
}

static OrtStatus *create_state(OrtNodeComputeInfo *self, OrtNodeComputeContext *context,
                               void **state) {
  (void)context;
  *state = self;
  return NULL;
}

/* b = LeakyRelu(x) + {1, 2, 3} */
static OrtStatus *compute(OrtNodeComputeInfo *self, void *state, OrtKernelContext *context) {
  const OrtValue *x = NULL;
  OrtValue *b = NULL;
  OrtTensorInfo *info = NULL;
  int64_t shape[2] = {0};
  const void *from = NULL;
  void *to = NULL;
  SEE(OrtNodeComputeInfo, CreateState, state == self);
  SEE(OrtNodeComputeInfo, Compute, true);
  SEE(OrtApi, KernelContext_GetInput,
      ok(api->KernelContext_GetInput(context, 0, &x)) && ok(api->GetTensorData(x, &from)));
  if (ok(api->GetTensorTypeAndShape(x, &info)) && ok(api->GetDimensions(info, shape, 2)))
    api->ReleaseTensorInfo(info);
  if (version >= 24) {
    const int64_t *extents = NULL;
    size_t count = 0;
    int32_t type = 0;
    SEE(OrtApi, GetTensorElementTypeAndShapeDataReference,
        ok(api->GetTensorElementTypeAndShapeDataReference(x, &type, &extents, &count)) &&
            type == 1 && count == 2 && extents[0] == shape[0] && extents[1] == 3);
  }
  bool is_good = ok(api->KernelContext_GetOutput(context, 0, shape, 2, &b));
  SEE(OrtApi, KernelContext_GetOutput, is_good);
  SEE(OrtApi, GetTensorMutableData, ok(api->GetTensorMutableData(b, &to)));
  for (int64_t i = 0; i < 3 * shape[0]; i++) {
    float value = ((const float *)from)[i];
    ((float *)to)[i] = (value < 0 ? 0.5f * value : value) + (float)(1 + i % 3);
  }
  return NULL;
}

static void release_state(OrtNodeComputeInfo *self, void *state) {
  SEE(OrtNodeComputeInfo, ReleaseState, state == self);
}

/* The Python test checks the node in the saved model. */
static void make_context(const OrtNode *fused, OrtNode **node) {
  static const char *const inputs[] = {"x"}, *const outputs[] = {"b"};
  const char *name = NULL;
  OrtOpAttr *attrs[3] = {NULL};
  int64_t one = 1;
  ok(api->Node_GetName(fused, &name));
  SEE(OrtApi, CreateOpAttr,
      ok(api->CreateOpAttr("embed_mode", &one, 1, ORT_ATTR_INT, &attrs[0])) &&
          ok(api->CreateOpAttr("ep_cache_context", "kept", 4, ORT_ATTR_STRING, &attrs[1])) &&
          ok(api->CreateOpAttr("main_context", &one, 1, ORT_ATTR_INT, &attrs[2])));
  const OrtModelEditorApi *editor = api->GetModelEditorApi();
  SEE(OrtApi, GetModelEditorApi, editor != NULL);
  SEE(OrtModelEditorApi, CreateNode,
      ok(editor->CreateNode("EPContext", "com.microsoft", name, inputs, 1, outputs, 1, attrs, 2,
                            node)));
}

static OrtStatus *compile(OrtEp *self, const OrtGraph **graphs, const OrtNode **fused, size_t count,
                          OrtNodeComputeInfo **infos, OrtNode **contexts) {
  static OrtNodeComputeInfo info = {ORT_OLDEST_VERSION, create_state, compute, release_state};
  size_t num_inputs = 0;
  bool is_read = ok(api->Node_GetNumInputs(fused[0], &num_inputs));
  (void)graphs;
  SEE(OrtEp, Compile, count == 1);
  SEE(OrtEpApi, AddNodesToFuse, is_read && num_inputs == 1); /* the constant is dropped */
  infos[0] = &info;
  if (((Ep *)self)->makes_contexts)
    make_context(fused[0], &contexts[0]);
  return NULL;
}

static void release_infos(OrtEp *self, OrtNodeComputeInfo **infos, size_t count) {
  (void)self;
  SEE(OrtEp, ReleaseNodeComputeInfos, count == 1 && infos[0]);
}

static OrtStatus *get_kernels(OrtEp *self, const OrtKernelRegistry **result) {
  (void)self;
  SEE(OrtEp, GetKernelRegistry, true);
  *result = kernels;
  return NULL;
}

static OrtStatus *get_memory(const OrtEp *self, const OrtMemoryDevice **result) {
  (void)self;
  SEE(OrtEp, GetDefaultMemoryDevice, true);
  *result = ep_api->MemoryInfo_GetMemoryDevice(memory_info);
  return NULL;
}

/* ---- Streams ----------------------------------------------------------------------------- */

static int num_streams, num_notifications;

static void release_notification(OrtSyncNotificationImpl *self) {
  SEE(OrtSyncNotificationImpl, Release, num_notifications-- > 0);
  free(self);
}

static OrtStatus *activate(OrtSyncNotificationImpl *self) {
  (void)self;
  SEE(OrtSyncNotificationImpl, Activate, true);
  return NULL;
}

static OrtStatus *wait_on_device(OrtSyncNotificationImpl *self, OrtSyncStream *stream) {
  (void)self;
  SEE(OrtSyncNotificationImpl, WaitOnDevice, stream != NULL);
  return NULL;
}

static OrtStatus *wait_on_host(OrtSyncNotificationImpl *self) {
  (void)self;
  SEE(OrtSyncNotificationImpl, WaitOnHost, true);
  return NULL;
}

static void release_stream(OrtSyncStreamImpl *self) {
  SEE(OrtSyncStreamImpl, Release, num_streams-- > 0);
  free(self);
}

static void *get_handle(OrtSyncStreamImpl *self) {
  SEE(OrtSyncStreamImpl, GetHandle, true);
  return self;
}

static OrtStatus *create_notification(OrtSyncStreamImpl *self, OrtSyncNotificationImpl **result) {
  OrtSyncNotificationImpl *made = calloc(1, sizeof(*made));
  *made = (OrtSyncNotificationImpl){
      23, release_notification, activate, wait_on_device, wait_on_host, {NULL}};
  num_notifications++;
  SEE(OrtSyncStreamImpl, CreateNotification, self->Release == release_stream);
  *result = made;
  return NULL;
}

static OrtStatus *flush(OrtSyncStreamImpl *self) {
  SEE(OrtSyncStreamImpl, Flush, self->Release == release_stream);
  return NULL;
}

static OrtStatus *end_run(OrtSyncStreamImpl *self) {
  SEE(OrtSyncStreamImpl, OnSessionRunEnd, self->Release == release_stream);
  return NULL;
}

static OrtStatus *create_stream(OrtEpFactory *self, const OrtMemoryDevice *device,
                                const OrtKeyValuePairs *options, OrtSyncStreamImpl **result) {
  OrtSyncStreamImpl *made = calloc(1, sizeof(*made));
  (void)self;
  (void)options;
  SEE(OrtEpFactory, CreateSyncStreamForDevice,
      ep_api->MemoryDevice_AreEqual(device, ep_api->MemoryInfo_GetMemoryDevice(memory_info)));
  *made = (OrtSyncStreamImpl){23,    release_stream, get_handle, create_notification,
                              flush, end_run,        {NULL}};
  num_streams++;
  *result = made;
  return NULL;
}

/* A node's stream is a stream of the test's provider, and its own implementation says so. */
static void see_stream(const OrtKernelContext *context) {
  OrtSyncStream *stream = NULL;
  SEE(OrtApi, KernelContext_GetSyncStream,
      ok(api->KernelContext_GetSyncStream(context, &stream)) && stream);
  SEE(OrtEpApi, SyncStream_GetImpl,
      stream && ep_api->SyncStream_GetImpl(stream)->Release == release_stream);
}

/* ---- Memory ------------------------------------------------------------------------------ */

static int num_allocations;

static void *allocate(OrtAllocator *self, size_t size) {
  (void)self;
  SEE(OrtAllocator, Alloc, true);
  num_allocations++;
  return aligned_alloc(64, (size + 64) / 64 * 64);
}

/* Initialisers are queried by name; the graph has none. */
static void *reserve(OrtAllocator *self, size_t size) {
  SEE(OrtAllocator, Reserve, true);
  return allocate(self, size);
}

static void deallocate(OrtAllocator *self, void *address) {
  (void)self;
  SEE(OrtAllocator, Free, num_allocations-- > 0);
  free(address);
}

static const OrtMemoryInfo *get_info(const OrtAllocator *self) {
  (void)self;
  SEE(OrtAllocator, Info, true);
  return memory_info;
}

static bool copy(const OrtValue *from, OrtValue *to) {
  const void *source = NULL;
  void *target = NULL;
  size_t size = 0;
  if (!ok(api->GetTensorData(from, &source)) || !ok(api->GetTensorMutableData(to, &target)) ||
      !ok(api->GetTensorSizeInBytes(from, &size)))
    return false;
  memcpy(target, source, size);
  return true;
}

static bool can_copy(const OrtDataTransferImpl *self, const OrtMemoryDevice *from,
                     const OrtMemoryDevice *to) {
  const OrtMemoryDevice *ours = ep_api->MemoryInfo_GetMemoryDevice(memory_info);
  bool is_from = ep_api->MemoryDevice_AreEqual(from, ours);
  bool is_to = ep_api->MemoryDevice_AreEqual(to, ours);
  const OrtMemoryDevice *device = is_from ? from : to, *other = is_from ? to : from;
  (void)self;
  SEE(OrtDataTransferImpl, CanCopy, true);
  if (is_from == is_to)
    return is_from;
  SEE(OrtEpApi, MemoryDevice_AreEqual, true);
  SEE(OrtEpApi, MemoryDevice_GetVendorId,
      ep_api->MemoryDevice_GetVendorId(device) == VENDOR &&
          ep_api->MemoryDevice_GetVendorId(other) != VENDOR);
  SEE(OrtEpApi, MemoryDevice_GetDeviceType,
      ep_api->MemoryDevice_GetDeviceType(device) == ORT_MEMORY_GPU &&
          ep_api->MemoryDevice_GetDeviceType(other) == ORT_MEMORY_CPU);
  return true;
}

static OrtStatus *copy_tensors(OrtDataTransferImpl *self, const OrtValue **from, OrtValue **to,
                               OrtSyncStream **streams, size_t count) {
  (void)self;
  (void)streams;
  for (size_t i = 0; i < count; i++)
    SEE(OrtDataTransferImpl, CopyTensors, copy(from[i], to[i]));
  return NULL;
}

static void release_transfer(OrtDataTransferImpl *self) {
  (void)self;
  SEE(OrtDataTransferImpl, Release, true);
}

static OrtStatus *run_kernel(OrtKernelImpl *self, OrtKernelContext *context) {
  const OrtValue *from = NULL;
  OrtValue *to = NULL;
  const int64_t *extents = NULL;
  size_t count = 0;
  int32_t type = 0;
  (void)self;
  see_stream(context);
  SEE(OrtKernelImpl, Compute,
      ok(api->KernelContext_GetInput(context, 0, &from)) &&
          ok(api->GetTensorElementTypeAndShapeDataReference(from, &type, &extents, &count)) &&
          ok(api->KernelContext_GetOutput(context, 0, extents, count, &to)) && copy(from, to));
  return NULL;
}

static void release_kernel(OrtKernelImpl *self) {
  (void)self;
  SEE(OrtKernelImpl, Release, true);
}

static OrtStatus *create_kernel(void *state, const OrtKernelInfo *info, OrtKernelImpl **result) {
  static OrtKernelImpl kernel = {24, 0, run_kernel, release_kernel, {NULL}};
  (void)info;
  SEE(OrtEpApi, KernelRegistry_AddKernel, state == &kernels);
  *result = &kernel;
  return NULL;
}

/* ONNX Runtime finds a kernel by each property of its definition; the session fails if one is
 * wrong. */
static void add_kernel(const char *op, bool is_from_host) {
  OrtKernelDefBuilder *builder = NULL;
  OrtKernelDef *def = NULL;
  const OrtDataType *types[2] = {NULL};
  SEE(OrtEpApi, CreateKernelDefBuilder, ok(ep_api->CreateKernelDefBuilder(&builder)));
  SEE(OrtEpApi, KernelDefBuilder_SetOperatorType,
      ok(ep_api->KernelDefBuilder_SetOperatorType(builder, op)));
  SEE(OrtEpApi, KernelDefBuilder_SetDomain, ok(ep_api->KernelDefBuilder_SetDomain(builder, "")));
  SEE(OrtEpApi, KernelDefBuilder_SetSinceVersion,
      ok(ep_api->KernelDefBuilder_SetSinceVersion(builder, 1, 1)));
  SEE(OrtEpApi, KernelDefBuilder_SetExecutionProvider,
      ok(ep_api->KernelDefBuilder_SetExecutionProvider(builder, NAME)));
  if (is_from_host)
    SEE(OrtEpApi, KernelDefBuilder_SetInputMemType,
        ok(ep_api->KernelDefBuilder_SetInputMemType(builder, 0, ORT_KERNEL_INPUT_ON_HOST)));
  else
    SEE(OrtEpApi, KernelDefBuilder_SetOutputMemType,
        ok(ep_api->KernelDefBuilder_SetOutputMemType(builder, 0, ORT_KERNEL_OUTPUT_ON_HOST)));
  SEE(OrtEpApi, GetTensorDataType,
      ok(ep_api->GetTensorDataType(1, &types[0])) && ok(ep_api->GetTensorDataType(7, &types[1])) &&
          types[0] != types[1]);
  SEE(OrtEpApi, KernelDefBuilder_AddTypeConstraint,
      ok(ep_api->KernelDefBuilder_AddTypeConstraint(builder, "T", types, 2)));
  SEE(OrtEpApi, KernelDefBuilder_Build, ok(ep_api->KernelDefBuilder_Build(builder, &def)));
  ok(ep_api->KernelRegistry_AddKernel(kernels, def, create_kernel, &kernels));
  ep_api->ReleaseKernelDef(def);
  SEE(OrtEpApi, ReleaseKernelDef, true); /* the registry has a copy, which runs */
  ep_api->ReleaseKernelDefBuilder(builder);
}

static void make_memory(void) {
  bool is_good = ok(api->CreateMemoryInfo_V2(NAME, ORT_MEMORY_GPU, VENDOR, 3, ORT_MEMORY_DEFAULT, 0,
                                             ORT_ALLOCATOR_DEVICE, &memory_info));
  SEE(OrtApi, CreateMemoryInfo_V2, is_good); /* the Python test checks the numbers */
  SEE(OrtApi, ReleaseMemoryInfo, frees(cycle_info));
  SEE(OrtEpApi, MemoryInfo_GetMemoryDevice,
      ep_api->MemoryDevice_GetVendorId(ep_api->MemoryInfo_GetMemoryDevice(memory_info)) == VENDOR);
  SEE(OrtEpApi, CreateKernelRegistry, ok(ep_api->CreateKernelRegistry(&kernels)));
  SEE(OrtEpApi, ReleaseKernelRegistry, frees(cycle_registry));
  SEE(OrtEpApi, ReleaseKernelDefBuilder, frees(cycle_builder));
  add_kernel("MemcpyFromHost", true);
  add_kernel("MemcpyToHost", false);
}

/* ---- The factory ------------------------------------------------------------------------- */

static const char *factory_name(const OrtEpFactory *self) {
  (void)self;
  SEE(OrtEpFactory, GetName, true);
  return NAME;
}

static const char *get_vendor(const OrtEpFactory *self) {
  (void)self;
  SEE(OrtEpFactory, GetVendor, true);
  return "a vendor";
}

static uint32_t get_vendor_id(const OrtEpFactory *self) {
  (void)self;
  SEE(OrtEpFactory, GetVendorId, true);
  return VENDOR;
}

static const char *get_version(const OrtEpFactory *self) {
  (void)self;
  SEE(OrtEpFactory, GetVersion, true);
  return "1.2.3";
}

static OrtEpFactory *the_factory;
static const OrtHardwareDevice *the_hardware;

static void cycle_device(void) {
  OrtEpDevice *device = NULL;
  OrtKeyValuePairs *pairs = NULL;
  api->CreateKeyValuePairs(&pairs);
  api->AddKeyValuePair(pairs, "key", long_text);
  if (ok(ep_api->CreateEpDevice(the_factory, the_hardware, pairs, NULL, &device)))
    ep_api->ReleaseEpDevice(device);
  api->ReleaseKeyValuePairs(pairs);
}

static OrtStatus *get_devices(OrtEpFactory *self, const OrtHardwareDevice *const *hardware,
                              size_t num_hardware, OrtEpDevice **devices, size_t room,
                              size_t *count) {
  OrtKeyValuePairs *metadata = NULL;
  char type[16];
  the_factory = self;
  the_hardware = hardware[0];
  snprintf(type, sizeof type, "%d", api->HardwareDevice_Type(hardware[0]));
  api->CreateKeyValuePairs(&metadata);
  api->AddKeyValuePair(metadata, "type", type);
  bool is_made = ok(ep_api->CreateEpDevice(self, hardware[0], metadata, NULL, &devices[0]));
  api->ReleaseKeyValuePairs(metadata);
  SEE(OrtEpFactory, GetSupportedDevices, num_hardware > 0 && room > 0);
  SEE(OrtApi, HardwareDevice_Type, true); /* Python compares it */
  SEE(OrtEpApi, CreateEpDevice, is_made);
  SEE(OrtEpApi, ReleaseEpDevice, frees(cycle_device));
  if (memory_info)
    SEE(OrtEpApi, EpDevice_AddAllocatorInfo,
        ok(ep_api->EpDevice_AddAllocatorInfo(devices[0], memory_info)));
  *count = 1;
  return NULL;
}

static OrtStatus *create_ep(OrtEpFactory *self, const OrtHardwareDevice *const *hardware,
                            const OrtKeyValuePairs *const *metadata, size_t count,
                            const OrtSessionOptions *options, const OrtLogger *logger,
                            OrtEp **result) {
  Ep *ep = calloc(1, sizeof(*ep));
  OrtKeyValuePairs *pairs = NULL;
  (void)self;
  SEE(OrtEpFactory, CreateEp,
      ep && count == 1 && hardware[0] == the_hardware && api->GetKeyValue(metadata[0], "type"));
  bool is_read = ok(api->GetSessionOptionsConfigEntries(options, &pairs));
  SEE(OrtApi, GetSessionOptionsConfigEntries,
      is_read && is_text(api->GetKeyValue(pairs, "ep.slots.word"), "a value"));
  const char *enabled = api->GetKeyValue(pairs, "ep.context_enable");
  ep->makes_contexts = is_text(enabled, "1");
  api->ReleaseKeyValuePairs(pairs);
  ep->logger = logger;
  ep->base = (OrtEp){.version = ORT_EP_VERSION,
                     .GetName = get_name,
                     .GetCapability = get_capability,
                     .Compile = compile,
                     .ReleaseNodeComputeInfos = release_infos,
                     .GetKernelRegistry = memory_info ? get_kernels : NULL,
                     .GetDefaultMemoryDevice = memory_info ? get_memory : NULL};
  *result = &ep->base;
  return NULL;
}

static void release_ep(OrtEpFactory *self, OrtEp *ep) {
  SEE(OrtEpFactory, ReleaseEp, self == the_factory && ep);
  free(ep);
}

static OrtStatus *create_allocator(OrtEpFactory *self, const OrtMemoryInfo *info,
                                   const OrtKeyValuePairs *options, OrtAllocator **result) {
  static OrtAllocator allocator = {ORT_OLDEST_VERSION, allocate, deallocate,
                                   get_info,           reserve,  {NULL}};
  (void)self;
  (void)options;
  SEE(OrtEpFactory, CreateAllocator,
      ep_api->MemoryDevice_GetVendorId(ep_api->MemoryInfo_GetMemoryDevice(info)) == VENDOR);
  *result = &allocator;
  return NULL;
}

static void release_allocator(OrtEpFactory *self, OrtAllocator *allocator) {
  (void)self;
  SEE(OrtEpFactory, ReleaseAllocator, allocator->Info == get_info);
}

static OrtStatus *create_transfer(OrtEpFactory *self, OrtDataTransferImpl **result) {
  static OrtDataTransferImpl transfer = {
      ORT_OLDEST_VERSION, release_transfer, can_copy, copy_tensors, {NULL}};
  (void)self;
  SEE(OrtEpFactory, CreateDataTransfer, true);
  *result = memory_info ? &transfer : NULL;
  return NULL;
}

static bool is_stream_aware(const OrtEpFactory *self) {
  (void)self;
  SEE(OrtEpFactory, IsStreamAware, true);
  return memory_info != NULL;
}

__attribute__((visibility("default"))) OrtStatus *
CreateEpFactories(const char *name, const OrtApiBase *base, const OrtLogger *logger,
                  OrtEpFactory **factories, size_t room, size_t *count) {
  static OrtEpFactory factory = {.version = ORT_OLDEST_VERSION,
                                 .GetName = factory_name,
                                 .GetVendor = get_vendor,
                                 .GetSupportedDevices = get_devices,
                                 .CreateEp = create_ep,
                                 .ReleaseEp = release_ep,
                                 .GetVendorId = get_vendor_id,
                                 .GetVersion = get_version,
                                 .CreateAllocator = create_allocator,
                                 .ReleaseAllocator = release_allocator,
                                 .CreateDataTransfer = create_transfer,
                                 .IsStreamAware = is_stream_aware,
                                 .CreateSyncStreamForDevice = create_stream};
  (void)name;
  (void)logger;
  (void)room;
  const char *text = base->GetVersionString();
  version = (uint32_t)strtoul(text + 2, NULL, 10);
  SEE(OrtApiBase, GetVersionString, !strncmp(text, "1.", 2) && version >= ORT_OLDEST_VERSION);
  api = base->GetApi(version < ORT_NEWEST_VERSION ? version : ORT_NEWEST_VERSION);
  SEE(OrtApiBase, GetApi, api != NULL);
  ep_api = api->GetEpApi();
  SEE(OrtApi, GetEpApi, ep_api != NULL);
  see_objects();
  if (version >= MEMORY_FROM)
    make_memory();
  factories[0] = &factory;
  *count = 1;
  return NULL;
}

__attribute__((visibility("default"))) OrtStatus *ReleaseEpFactory(OrtEpFactory *factory) {
  (void)factory;
  if (memory_info) {
    api->ReleaseMemoryInfo(memory_info);
    ep_api->ReleaseKernelRegistry(kernels);
  }
  return NULL;
}
