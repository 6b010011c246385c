/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, and the engines that run parts on them. The context is the primary one, which the plugin
 * cuda uses too. Memory comes from the table `device_api.cuda`, whose limits and reserve apply.
 * Devices and engines live as long as the process. */
#include "cudalibs.h"

#include <stdlib.h>

/* ---- Devices ----------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the opening of devices */
static BpCudalibsDevice devices[BP_CUDALIBS_MOST_DEVICES];

/* Finds the table that allocates memory; NULL with an error. */
static const BpDeviceApi *find_api(void) {
  BpFunction *function = NULL;
  BpValue value = {.type_index = BP_TYPE_NONE};
  if (bp_cudalibs_host.registry->get("device_api.cuda", &function) != 0)
    return NULL;
  int status = function ? function->call(function, NULL, 0, &value) : 0;
  bp_cudalibs_host.object->release(function);
  const BpDeviceApi *api = !status && value.type_index == BP_TYPE_POINTER ? value.v_ptr : NULL;
  if (!status && (!api || !BP_TABLE_HAS(api, copy) || !BP_TABLE_HAS(api, stream_sync)))
    bp_plugin_raise(&bp_cudalibs_host, BP_ERROR_PLUGIN,
                    "cudalibs: no plugin has devices of kind cuda; install the plugin cuda");
  return api && BP_TABLE_HAS(api, copy) && BP_TABLE_HAS(api, stream_sync) ? api : NULL;
}

static int32_t open_device(BpCudalibsDevice *device, int32_t index) {
  CUdevice id;
  const char *problem = bp_cudalibs_load(BP_CUDALIBS_DRIVER);
  if (problem)
    return bp_plugin_raise(&bp_cudalibs_host, BP_ERROR_PLUGIN, "cudalibs: %s", problem);
  const BpDeviceApi *api = find_api();
  if (!api || BP_CUDALIBS_CU(cuDeviceGet, &id, index) ||
      BP_CUDALIBS_CU(cuDevicePrimaryCtxRetain, &device->context, id))
    return -1;
  device->index = index;
  pthread_mutex_init(&device->lock, NULL);
  device->api = api;
  return 0;
}

BpCudalibsDevice *bp_cudalibs_device(int32_t device_id) {
  if (device_id < 0 || device_id >= BP_CUDALIBS_MOST_DEVICES) {
    bp_plugin_raise(&bp_cudalibs_host, BP_ERROR_VALUE,
                    "cudalibs: no device cuda:%d; the plugin uses the devices 0 to %d", device_id,
                    BP_CUDALIBS_MOST_DEVICES - 1);
    return NULL;
  }
  BpCudalibsDevice *device = &devices[device_id];
  pthread_mutex_lock(&lock);
  int32_t status = device->api ? 0 : open_device(device, device_id);
  pthread_mutex_unlock(&lock);
  return !status && BP_CUDALIBS_CU(cuCtxSetCurrent, device->context) == 0 ? device : NULL;
}

int32_t bp_cudalibs_alloc(BpCudalibsDevice *device, size_t size, CUdeviceptr *data) {
  BpAllocation allocation = {.struct_size = sizeof(allocation),
                             .size = size,
                             .alignment = BP_CUDALIBS_ALIGNMENT,
                             .dtype = {BP_DTYPE_UINT, 8, 1}};
  void *handle = NULL;
  if (device->api->alloc_data_space(device->api->context, device->index, &allocation, &handle) != 0)
    return -1;
  *data = (CUdeviceptr)(uintptr_t)handle;
  return 0;
}

void bp_cudalibs_free(BpCudalibsDevice *device, CUdeviceptr data) {
  const BpErrorTable *error = bp_cudalibs_host.error;
  BpError *before = error->take();
  if (data && device->api->free_data_space(device->api->context, device->index,
                                           (void *)(uintptr_t)data) != 0)
    bp_cudalibs_host.object->release(error->take()); /* the device was lost, and its memory */
  error->put(before);
}

int32_t bp_cudalibs_upload(BpCudalibsDevice *device, CUdeviceptr to, const void *from,
                           size_t size) {
  const BpDeviceApi *api = device->api;
  BpCopy copy = {.struct_size = sizeof(copy),
                 .from = from,
                 .from_device = {BP_DEVICE_CPU, 0},
                 .to = (void *)(uintptr_t)to,
                 .to_device = {BP_DEVICE_CUDA, device->index},
                 .size = size};
  return api->copy(api->context, &copy, NULL) || api->stream_sync(api->context, device->index, NULL)
             ? -1
             : 0;
}

/* ---- Engines ----------------------------------------------------------------------------- */

static void put_back(BpCudalibsDevice *device, BpCudalibsEngine *engine) {
  pthread_mutex_lock(&device->lock);
  engine->next = device->idle;
  device->idle = engine;
  pthread_mutex_unlock(&device->lock);
}

/* Replaces the scratch memory by larger memory; the old memory's contents are not needed. */
static int32_t grow(BpCudalibsDevice *device, BpCudalibsEngine *engine, size_t size) {
  bp_cudalibs_free(device, engine->scratch);
  engine->scratch = 0;
  engine->scratch_size = 0;
  if (bp_cudalibs_alloc(device, size, &engine->scratch) != 0)
    return bp_plugin_add_context(&bp_cudalibs_host,
                                 "cudalibs: %zu bytes of working memory for a part", size);
  engine->scratch_size = size;
  return 0;
}

/* Creates the missing parts of an engine. */
static int32_t complete(BpCudalibsDevice *device, BpCudalibsEngine *engine, const int32_t *needs,
                        size_t scratch_size) {
  if (!engine->done && BP_CUDALIBS_CU(cuEventCreate, &engine->done, CU_EVENT_DISABLE_TIMING))
    return -1;
  if (needs[BP_CUDALIBS_CUBLAS] && !engine->cublas) {
    if (BP_CUDALIBS_BLAS(cublasCreate_v2, &engine->cublas))
      return -1;
    if (BP_CUDALIBS_BLAS(cublasSetMathMode, engine->cublas,
                         CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)) {
      bp_cl.cublasDestroy_v2(engine->cublas);
      engine->cublas = NULL;
      return -1;
    }
  }
  if (needs[BP_CUDALIBS_CUDNN] && !engine->cudnn && BP_CUDALIBS_DNN(cudnnCreate, &engine->cudnn))
    return -1;
  return engine->scratch_size < scratch_size ? grow(device, engine, scratch_size) : 0;
}

static int32_t prepare(BpCudalibsDevice *device, BpCudalibsEngine *engine, const int32_t *needs,
                       size_t scratch_size, CUstream stream) {
  return complete(device, engine, needs, scratch_size) ||
                 (engine->has_run && BP_CUDALIBS_CU(cuStreamWaitEvent, stream, engine->done, 0)) ||
                 (needs[BP_CUDALIBS_CUBLAS] &&
                  BP_CUDALIBS_BLAS(cublasSetStream_v2, engine->cublas, stream)) ||
                 (needs[BP_CUDALIBS_CUDNN] &&
                  BP_CUDALIBS_DNN(cudnnSetStream, engine->cudnn, stream))
             ? -1
             : 0;
}

BpCudalibsEngine *bp_cudalibs_engine_take(BpCudalibsDevice *device, const int32_t *needs,
                                          size_t scratch_size, CUstream stream) {
  pthread_mutex_lock(&device->lock);
  BpCudalibsEngine *engine = device->idle;
  if (engine)
    device->idle = engine->next;
  pthread_mutex_unlock(&device->lock);
  if (!engine && !(engine = bp_plugin_calloc(&bp_cudalibs_host, sizeof(*engine))))
    return NULL;
  if (prepare(device, engine, needs, scratch_size, stream) == 0)
    return engine;
  put_back(device, engine);
  return NULL;
}

int32_t bp_cudalibs_engine_return(BpCudalibsDevice *device, BpCudalibsEngine *engine,
                                  CUstream stream) {
  int32_t status = BP_CUDALIBS_CU(cuEventRecord, engine->done, stream);
  engine->has_run |= !status;
  put_back(device, engine);
  return status;
}
