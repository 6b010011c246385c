/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of kind cudalibs, which have one function. The first launch on a device makes the plan of
 * the part for it. */
#include "cudalibs.h"

#include <stdlib.h>
#include <string.h>

/* The alignment of a tensor's beginning in bytes, as in the plugin cuda. */
#define TENSOR_ALIGNMENT 16

typedef struct Module {
  BpModule *self;
  char *function;
  char *bytes;
  size_t size;
  BpCudalibsProgram program;
  pthread_mutex_t lock; /* guards the plans */
  BpCudalibsPlan *plans[BP_CUDALIBS_MOST_DEVICES];
} Module;

/* ---- Calls ------------------------------------------------------------------------------- */

static int32_t check_shape(const Module *module, const BpTensorView *view, int32_t index) {
  const BpCudalibsTensor *tensor = &module->program.tensors[index];
  int64_t stride = 1;
  if (view->ndim != tensor->ndim)
    return bp_plugin_raise(&bp_cudalibs_host, BP_ERROR_VALUE,
                           "%s: argument %d has %d dimensions; expected %d", module->function,
                           index, view->ndim, tensor->ndim);
  for (int32_t i = tensor->ndim - 1; i >= 0; i--) {
    if (view->shape[i] != tensor->dims[i])
      return bp_plugin_raise(&bp_cudalibs_host, BP_ERROR_VALUE,
                             "%s: dimension %d of argument %d has the extent %lld; expected %lld",
                             module->function, i, index, (long long)view->shape[i],
                             (long long)tensor->dims[i]);
    if (view->strides && tensor->dims[i] != 1 && view->strides[i] != stride)
      return bp_plugin_raise(&bp_cudalibs_host, BP_ERROR_VALUE,
                             "%s: dimension %d of argument %d has the stride %lld; expected %lld, "
                             "that of a compact tensor; copy it first",
                             module->function, i, index, (long long)view->strides[i],
                             (long long)stride);
    stride *= tensor->dims[i];
  }
  return 0;
}

/* Raises an error unless the driver of this process has the memory on the device: the memory of an
 * isolated plugin cuda is in another process. */
static int32_t check_memory(const Module *module, const BpCudalibsDevice *device, CUdeviceptr data,
                            int32_t index) {
  int owner = -1;
  int status = bp_cl.cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, data);
  if (status == CUDA_ERROR_INVALID_VALUE || (status == CUDA_SUCCESS && owner != device->index))
    return bp_plugin_raise(&bp_cudalibs_host, BP_ERROR_VALUE,
                           "%s: the memory of argument %d is not memory of cuda:%d in this "
                           "process; if BACKPLANE_ISOLATE names cuda, compile without cudalibs",
                           module->function, index, device->index);
  if (status != CUDA_SUCCESS)
    return bp_cudalibs_raise(BP_CUDALIBS_DRIVER, status, "cuPointerGetAttribute");
  if (data % TENSOR_ALIGNMENT)
    return bp_plugin_raise(&bp_cudalibs_host, BP_ERROR_VALUE,
                           "%s: argument %d begins at %#llx, which is not a multiple of %d bytes; "
                           "copy it first",
                           module->function, index, data, TENSOR_ALIGNMENT);
  return 0;
}

/* Checks an argument, and stores its address in `data`. */
static int32_t read_argument(const Module *module, const BpCudalibsDevice *device,
                             const BpValue *arg, int32_t index, CUdeviceptr *data) {
  const BpDataType *want = &bp_cudalibs_types[module->program.tensors[index].type].dtype;
  const BpTensorView *view = bp_part_tensor(arg);
  if (!view)
    return bp_plugin_raise(&bp_cudalibs_host, BP_ERROR_TYPE, "%s: argument %d is no tensor",
                           module->function, index);
  if (view->dtype.code != want->code || view->dtype.bits != want->bits || view->dtype.lanes != 1)
    return bp_plugin_raise(&bp_cudalibs_host, BP_ERROR_TYPE,
                           "%s: argument %d has elements of type code %d, %d bits and %d lanes; "
                           "expected type code %d, %d bits and 1 lane",
                           module->function, index, view->dtype.code, view->dtype.bits,
                           view->dtype.lanes, want->code, want->bits);
  if (view->device.device_type != BP_DEVICE_CUDA || view->device.device_id != device->index)
    return bp_plugin_raise(&bp_cudalibs_host, BP_ERROR_VALUE,
                           "%s: argument %d is on device %d of type %d; expected cuda:%d; copy it "
                           "first",
                           module->function, index, view->device.device_id,
                           view->device.device_type, device->index);
  *data = (CUdeviceptr)(uintptr_t)view->data + view->byte_offset;
  return check_shape(module, view, index) || check_memory(module, device, *data, index) ? -1 : 0;
}

/* A run waits for the run before it on another stream, which a recording cannot. */
static int32_t refuse_recording(const Module *module, CUstream stream) {
  int is_capturing = 0;
  if (BP_CUDALIBS_CU(cuStreamIsCapturing, stream, &is_capturing))
    return -1;
  return is_capturing ? bp_plugin_raise(&bp_cudalibs_host, BP_ERROR_NOT_IMPLEMENTED,
                                        "%s: a part of cudalibs cannot be recorded; run the model "
                                        "without a recording, or compile it without cudalibs",
                                        module->function)
                      : 0;
}

/* Returns the plan for a device, and makes it if there is none. NULL with an error. */
static BpCudalibsPlan *find_plan(Module *module, BpCudalibsDevice *device) {
  BpCudalibsPlan **place = &module->plans[device->index];
  pthread_mutex_lock(&module->lock);
  if (!*place)
    *place = bp_cudalibs_plan_create(&module->program, device);
  BpCudalibsPlan *plan = *place;
  pthread_mutex_unlock(&module->lock);
  return plan;
}

static int32_t launch(void *context, const BpInvocation *invocation, const BpValue *args,
                      int32_t num_args) {
  Module *module = context;
  const BpCudalibsHeader *header = &module->program.header;
  CUstream stream = (CUstream)invocation->stream;
  CUdeviceptr data[BP_CUDALIBS_MOST_TENSORS];
  if (bp_plugin_check_flags(&bp_cudalibs_host, "cudalibs", "launch", invocation->flags) != 0)
    return -1;
  if (num_args != header->num_inputs + header->num_outputs)
    return bp_plugin_raise(&bp_cudalibs_host, BP_ERROR_TYPE, "%s: expected %d tensors, got %d",
                           module->function, header->num_inputs + header->num_outputs, num_args);
  BpCudalibsDevice *device = bp_cudalibs_device(invocation->device.device_id);
  if (!device)
    return -1;
  for (int32_t i = 0; i < num_args; i++)
    if (read_argument(module, device, &args[i], i, &data[i]) != 0)
      return -1;
  if (refuse_recording(module, stream) != 0)
    return -1;
  BpCudalibsPlan *plan = find_plan(module, device);
  return plan ? bp_cudalibs_plan_run(plan, stream, data) : -1;
}

/* ---- The module -------------------------------------------------------------------------- */

static int32_t get_function(void *context, const char *name, BpFunction **function) {
  Module *module = context;
  *function = NULL;
  if (strcmp(name, module->function))
    return 0;
  for (BpCudalibsLibrary i = 0; i < BP_CUDALIBS_NUM_LIBRARIES; i++) {
    const char *problem = module->program.needs[i] ? bp_cudalibs_load(i) : NULL;
    if (problem)
      return bp_plugin_raise(&bp_cudalibs_host, BP_ERROR_PLUGIN, "%s: %s", module->function,
                             problem);
  }
  *function =
      bp_cudalibs_host.module->kernel_create(module->self, BP_DEVICE_CUDA, launch, module, NULL);
  return *function ? 0 : -1;
}

static int32_t get_property(void *context, int32_t *flags) {
  (void)context;
  *flags = BP_MODULE_RUNNABLE | BP_MODULE_BINARY_SERIALIZABLE;
  return 0;
}

static int32_t save_to_bytes(void *context, BpOwnedBytes *bytes) {
  const Module *module = context;
  const BpCudalibsHeader *header = &module->program.header;
  return bp_part_save(&bp_cudalibs_host, "cudalibs", module->function,
                      header->num_inputs + header->num_outputs, module->bytes, module->size, bytes);
}

static int32_t visit_functions(void *context,
                               int32_t (*visit)(void *visitor, const char *name,
                                                const char *signature),
                               void *visitor) {
  const Module *module = context;
  visit(visitor, module->function, NULL);
  return 0;
}

static void destroy(void *context) {
  Module *module = context;
  for (int i = 0; i < BP_CUDALIBS_MOST_DEVICES; i++)
    bp_cudalibs_plan_free(module->plans[i]);
  pthread_mutex_destroy(&module->lock);
  free(module->function);
  free(module->bytes);
  free(module);
}

static const BpModuleApi api = {.struct_size = sizeof(BpModuleApi),
                                .kind = "cudalibs",
                                .get_function = get_function,
                                .get_property = get_property,
                                .save_to_bytes = save_to_bytes,
                                .visit_functions = visit_functions,
                                .destroy = destroy};

BpModule *bp_cudalibs_module_create(const char *function, char *bytes, size_t size) {
  Module *module = bp_plugin_calloc(&bp_cudalibs_host, sizeof(*module));
  if (!module) {
    free(bytes);
    return NULL;
  }
  pthread_mutex_init(&module->lock, NULL);
  module->bytes = bytes;
  module->size = size;
  module->function = strdup(function);
  if (!module->function)
    bp_plugin_raise(&bp_cudalibs_host, BP_ERROR_MEMORY, "no memory for a module");
  if (!module->function || bp_cudalibs_read_program(bytes, size, &module->program) != 0) {
    destroy(module);
    return NULL;
  }
  module->self = bp_cudalibs_host.module->create(&api, module);
  return module->self;
}

/* ---- Loading ----------------------------------------------------------------------------- */

int bp_cudalibs_loadbinary(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  BpPartBytes part;
  (void)self;
  if (bp_part_load(&bp_cudalibs_host, "cudalibs", args, num_args, &part) != 0)
    return -1;
  BpModule *module = bp_cudalibs_module_create(part.function, part.code, part.size);
  free(part.function); /* the module has its own copies of the function's name and of the code */
  return bp_plugin_answer_module(result, module);
}
