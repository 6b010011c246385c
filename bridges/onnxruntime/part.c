/* SPDX-License-Identifier: Apache-2.0 */
/* A compiled part: compiling it, and running it for ONNX Runtime. All threads share one model. Each
 * concurrent run uses a context of its own, which is kept for later runs. */
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/module.h>
#include <backplane/tensor.h>

#include "bridges/onnxruntime/bridge.h"

#define MAX_NDIM 32

/* An idle context. */
typedef struct Idle {
  struct Idle *next;
  BpModelContext *context;
  Stream *stream; /* the stream that runs are queued on (owned), or NULL */
} Idle;

struct Part {
  char *key;
  BpModel *model;
  BpDevice device;
  uint64_t alignment; /* alignment of a tensor in a device's memory */
  Bytes onnx;         /* the ONNX model, or nothing */
  pthread_mutex_t mutex;
  Idle *idle;
};

/* ---- Contexts ---------------------------------------------------------------------------- */

static void free_context(Idle *idle) {
  bp_model_context_free(idle->context);
  stream_release(idle->stream);
  free(idle);
}

/* Returns a context that queues on the stream already, or NULL. */
static Idle *find_context(Part *part, const Stream *stream) {
  pthread_mutex_lock(&part->mutex);
  Idle **place = &part->idle;
  while (*place && (*place)->stream != stream)
    place = &(*place)->next;
  if (!*place)
    place = &part->idle;
  Idle *idle = *place;
  if (idle)
    *place = idle->next;
  pthread_mutex_unlock(&part->mutex);
  return idle;
}

static Idle *create_context(const Part *part) {
  Idle *idle = calloc(1, sizeof(*idle));
  if (!idle) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a run");
    return NULL;
  }
  idle->context = bp_model_context_create(part->model);
  if (idle->context)
    return idle;
  free(idle);
  return NULL;
}

/* A context that queues on the stream, or, if that is NULL, anywhere (transfer full, give_context).
 */
static Idle *take_context(Part *part, Stream *stream) {
  Idle *idle = find_context(part, stream);
  if (!idle)
    idle = create_context(part);
  if (!idle || !stream || idle->stream == stream)
    return idle;
  if (bp_model_set_stream(idle->context, stream->handle)) {
    free_context(idle);
    return NULL;
  }
  stream_release(idle->stream);
  idle->stream = stream_retain(stream);
  return idle;
}

static void give_context(Part *part, Idle *idle) {
  pthread_mutex_lock(&part->mutex);
  idle->next = part->idle;
  part->idle = idle;
  pthread_mutex_unlock(&part->mutex);
}

/* ---- Making ------------------------------------------------------------------------------ */

static BpModule *compile(const Purpose *purpose, const BpOnnxBytes *onnx) {
  const BpTarget *targets[] = {purpose->target};
  const BpCompileOptions options = {.struct_size = sizeof options,
                                    .targets = targets,
                                    .num_targets = 1,
                                    .graph_compilers = purpose->options->graph_compilers,
                                    .num_graph_compilers = purpose->options->num_graph_compilers};
  return bp_model_compile_bytes(onnx, &options);
}

static uint64_t read_alignment(BpDevice device) {
  BpValue value = {0};
  int status = bp_device_get_attr(device, BP_ATTR_DATA_ALIGNMENT, &value);
  uint64_t alignment = status == 0 && value.type_index == BP_TYPE_INT && value.v_int64 > 0
                           ? (uint64_t)value.v_int64
                           : 1;
  bp_value_clear(&value);
  bp_error_clear();
  return alignment;
}

Part *part_create(const Purpose *purpose, const BpOnnxBytes *onnx, const char *key) {
  Part *part = calloc(1, sizeof(*part));
  if (!part) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a part of a model");
    return NULL;
  }
  pthread_mutex_init(&part->mutex, NULL);
  part->device = purpose->device;
  part->alignment = read_alignment(purpose->device);
  part->key = strdup(key);
  BpModule *module = part->key ? compile(purpose, onnx) : NULL;
  part->model = module ? bp_model_create(module, &purpose->device, 1) : NULL;
  bp_module_release(module);
  Idle *first = part->model ? take_context(part, NULL) : NULL; /* may fail before the runs */
  if (!first) {
    part_free(part);
    return NULL;
  }
  give_context(part, first);
  return part;
}

void part_free(Part *part) {
  if (!part)
    return;
  while (part->idle) {
    Idle *idle = part->idle;
    part->idle = idle->next;
    free_context(idle);
  }
  bp_model_release(part->model);
  bytes_free(&part->onnx);
  pthread_mutex_destroy(&part->mutex);
  free(part->key);
  free(part);
}

const char *part_key(const Part *part) {
  return part->key;
}

const BpModel *part_model(const Part *part) {
  return part->model;
}

void part_keep_onnx(Part *part, Bytes *onnx) {
  bytes_free(&part->onnx);
  part->onnx = *onnx;
  *onnx = (Bytes){0};
}

const Bytes *part_onnx(const Part *part) {
  return part->onnx.data ? &part->onnx : NULL;
}

/* ---- Running ----------------------------------------------------------------------------- */

/* The functions with which ONNX Runtime runs a part instead of a node. */
typedef struct Info {
  OrtNodeComputeInfo base;
  const Runtime *ort;
  Part *part;
  int32_t num_inputs, num_outputs;
  size_t *inputs; /* for each input of the model: its index among the node's inputs */
  size_t *outputs;
  bool trims_heap;
} Info;

/* Gets a tensor as a view. The extents are in `shape` or live as long as the tensor. */
static int view_input(const Info *info, const OrtValue *value, const BpModelTensorInfo *expected,
                      int64_t *shape, BpTensorView *view) {
  const OrtApi *api = info->ort->api;
  const int64_t *extents = shape;
  const void *data = NULL;
  size_t ndim = 0;
  int32_t type;
  if (info->ort->version >= 24) {
    if (bridge_check(info->ort,
                     api->GetTensorElementTypeAndShapeDataReference(value, &type, &extents, &ndim)))
      return -1;
  } else {
    OrtTensorInfo *about = NULL;
    if (bridge_check(info->ort, api->GetTensorTypeAndShape(value, &about)))
      return -1;
    int status = bridge_check(info->ort, api->GetDimensionsCount(about, &ndim));
    if (status == 0 && ndim <= MAX_NDIM)
      status = bridge_check(info->ort, api->GetDimensions(about, shape, ndim));
    api->ReleaseTensorInfo(about);
    if (status)
      return -1;
  }
  if (ndim > MAX_NDIM)
    return bp_error_raise(BP_ERROR_VALUE, "input '%s' has %zu dimensions; at most %d are possible",
                          expected->name, ndim, MAX_NDIM);
  if (bridge_check(info->ort, api->GetTensorData(value, &data)))
    return -1;
  *view = (BpTensorView){
      .ndim = (int32_t)ndim, .dtype = expected->dtype, .shape = (int64_t *)(uintptr_t)extents};
  memory_find((void *)(uintptr_t)data, view);
  return 0;
}

/* Whether generated code can read the tensor in place. On the CPU elements must be at addresses
 * that are multiples of their size. On a device a tensor must begin at a multiple of the device's
 * alignment. */
static bool is_usable(const Part *part, const BpTensorView *view) {
  if (view->device.device_type != part->device.device_type ||
      view->device.device_id != part->device.device_id)
    return false;
  return part->device.device_type == BP_DEVICE_CPU
             ? (uintptr_t)view->data % bp_dtype_bytes(view->dtype) == 0
             : view->byte_offset % part->alignment == 0;
}

/* Uses the input in place if possible, else copies it. */
static int set_input(const Info *info, BpModelContext *context, int32_t index,
                     const OrtKernelContext *kernel) {
  const BpModelTensorInfo *expected = bp_model_input_info(info->part->model, index);
  const OrtValue *value = NULL;
  int64_t shape[MAX_NDIM];
  BpTensorView view;
  if (bridge_check(info->ort,
                   info->ort->api->KernelContext_GetInput(kernel, info->inputs[index], &value)))
    return -1;
  if (!value)
    return bp_error_raise(BP_ERROR_VALUE, "input '%s' has no value", expected->name);
  if (view_input(info, value, expected, shape, &view))
    return -1;
  if (!is_usable(info->part, &view))
    return bp_model_set_input(context, expected->name, &view);
  BpTensor *tensor = bp_tensor_wrap(&view, NULL, NULL);
  int status = tensor ? bp_model_bind_input(context, expected->name, tensor) : -1;
  bp_tensor_release(tensor);
  return status;
}

/* Copies an output out: on a device the copy is queued, and one to the host is waited for. */
static int copy_output(const BpTensorView *from, const BpTensorView *to, const Stream *stream) {
  void *handle = stream ? stream->handle : NULL;
  if (bp_tensor_copy_between(from, to, handle, handle))
    return -1;
  return to->device.device_type == BP_DEVICE_CPU ? bp_stream_sync(from->device, handle) : 0;
}

static int get_output(const Info *info, const Idle *idle, int32_t index, const Stream *stream,
                      OrtKernelContext *kernel) {
  const OrtApi *api = info->ort->api;
  BpTensor *tensor = stream ? bp_model_get_queued_output(idle->context, index)
                            : bp_model_get_output(idle->context, index);
  OrtValue *value = NULL;
  void *data = NULL;
  int64_t bytes = tensor ? bp_view_num_bytes(&tensor->view) : -1;
  if (bytes < 0 || bridge_check(info->ort, api->KernelContext_GetOutput(
                                               kernel, info->outputs[index], tensor->view.shape,
                                               (size_t)tensor->view.ndim, &value)))
    return -1;
  if (!value || bytes == 0)
    return 0;
  if (bridge_check(info->ort, api->GetTensorMutableData(value, &data)))
    return -1;
  BpTensorView view = tensor->view;
  view.strides = NULL;
  memory_find(data, &view);
  return copy_output(&tensor->view, &view, stream);
}

/* Without a stream copies of outputs are queued on the default stream, with which a context's own
 * stream is not ordered: outputs of the context's last run may still be read. */
static int wait_for_copies(const Part *part) {
  return part->device.device_type == BP_DEVICE_CPU ? 0 : bp_stream_sync(part->device, NULL);
}

/* The stream that ONNX Runtime has for the node; NULL: none, or one of another device. */
static int find_stream(const Info *info, const OrtKernelContext *kernel, Stream **stream) {
  OrtSyncStream *given = NULL;
  *stream = NULL;
  if (info->ort->version < MEMORY_SINCE || info->part->device.device_type == BP_DEVICE_CPU)
    return 0;
  if (bridge_check(info->ort, info->ort->api->KernelContext_GetSyncStream(kernel, &given)))
    return -1;
  Stream *found = stream_find(info->ort, given);
  if (found && found->device.device_type == info->part->device.device_type &&
      found->device.device_id == info->part->device.device_id)
    *stream = found;
  return 0;
}

static int run(const Info *info, OrtKernelContext *kernel) {
  Stream *stream;
  Idle *idle = find_stream(info, kernel, &stream) ? NULL : take_context(info->part, stream);
  int status = !idle ? -1 : stream ? 0 : wait_for_copies(info->part);
  for (int32_t i = 0; i < info->num_inputs && status == 0; i++)
    status = set_input(info, idle->context, i, kernel);
  if (status == 0)
    status = bp_model_run(idle->context);
  for (int32_t i = 0; i < info->num_outputs && status == 0; i++)
    status = get_output(info, idle, i, stream, kernel);
  if (idle)
    give_context(info->part, idle);
  return status;
}

static OrtStatus *run_part(OrtNodeComputeInfo *self, void *state, OrtKernelContext *kernel) {
  const Info *info = (const Info *)self;
  (void)state;
  return run(info, kernel) ? bridge_status(info->ort) : NULL;
}

/* Called when ONNX Runtime has freed the constants that the parts own. The constants and the memory
 * of compiling leave holes in the heap, which glibc gives back to the system only on request. */
static OrtStatus *create_state(OrtNodeComputeInfo *self, OrtNodeComputeContext *context,
                               void **state) {
  const Info *info = (const Info *)self;
  (void)context;
  *state = self;
  if (info->trims_heap)
    malloc_trim(0);
  return NULL;
}

static void release_state(OrtNodeComputeInfo *self, void *state) {
  (void)self;
  (void)state;
}

/* ---- Names ------------------------------------------------------------------------------- */

/* Finds the index of a name among values. */
static int find_name(const Runtime *ort, const OrtValueInfo *const *values, size_t count,
                     const char *name, size_t *place) {
  for (*place = 0; *place < count; ++*place) {
    const char *other = NULL;
    if (values[*place] && bridge_check(ort, ort->api->GetValueInfoName(values[*place], &other)))
      return -1;
    if (other && !strcmp(other, name))
      return 0;
  }
  return bp_error_raise(BP_ERROR_NOT_FOUND, "the node of a part does not have '%s'", name);
}

static int find_names(Info *info, const OrtNode *fused, const OrtValueInfo **values,
                      size_t num_inputs, size_t num_outputs) {
  const Runtime *ort = info->ort;
  const BpModel *model = info->part->model;
  if (bridge_check(ort, ort->api->Node_GetInputs(fused, values, num_inputs)) ||
      bridge_check(ort, ort->api->Node_GetOutputs(fused, values + num_inputs, num_outputs)))
    return -1;
  for (int32_t i = 0; i < info->num_inputs; i++)
    if (find_name(ort, values, num_inputs, bp_model_input_info(model, i)->name, &info->inputs[i]))
      return -1;
  for (int32_t i = 0; i < info->num_outputs; i++)
    if (find_name(ort, values + num_inputs, num_outputs, bp_model_output_info(model, i)->name,
                  &info->outputs[i]))
      return -1;
  return 0;
}

static int fill_info(Info *info, const OrtNode *fused) {
  const Runtime *ort = info->ort;
  size_t num_inputs = 0, num_outputs = 0;
  info->num_inputs = bp_model_num_inputs(info->part->model);
  info->num_outputs = bp_model_num_outputs(info->part->model);
  info->inputs = calloc((size_t)info->num_inputs + 1, sizeof(size_t));
  info->outputs = calloc((size_t)info->num_outputs + 1, sizeof(size_t));
  if (bridge_check(ort, ort->api->Node_GetNumInputs(fused, &num_inputs)) ||
      bridge_check(ort, ort->api->Node_GetNumOutputs(fused, &num_outputs)))
    return -1;
  const OrtValueInfo **values = calloc(num_inputs + num_outputs + 1, sizeof(*values));
  int status = info->inputs && info->outputs && values
                   ? find_names(info, fused, values, num_inputs, num_outputs)
                   : bp_error_raise(BP_ERROR_MEMORY, "no memory for a part of a model");
  free(values);
  return status;
}

OrtNodeComputeInfo *part_compute_info(const Runtime *ort, Part *part, const OrtNode *fused,
                                      bool trims_heap) {
  Info *info = calloc(1, sizeof(*info));
  if (!info) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a part of a model");
    return NULL;
  }
  info->base = (OrtNodeComputeInfo){ORT_OLDEST_VERSION, create_state, run_part, release_state};
  info->ort = ort;
  info->part = part;
  info->trims_heap = trims_heap;
  if (fill_info(info, fused) == 0)
    return &info->base;
  part_release_info(&info->base);
  return NULL;
}

void part_release_info(OrtNodeComputeInfo *base) {
  Info *info = (Info *)base;
  if (!info)
    return;
  free(info->inputs);
  free(info->outputs);
  free(info);
}
