/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of devices in ONNX Runtime: allocators, copies, and the two kernels that ONNX Runtime
 * places between nodes of the host and nodes of a device.
 *
 * ONNX Runtime adds offsets to an allocator's addresses, and a device's handle is not an address.
 * So each allocation reserves a range of addresses that cannot be accessed. An address in the range
 * stands for the memory and an offset in the memory.
 *
 * Copies are queued on the stream that ONNX Runtime gives, in order with the parts. A copy without
 * a stream, such as a program's copy of a value, follows all streams of the device, and has ended
 * when the function returns. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bridges/onnxruntime/bridge.h"

/* A multiple of the alignments of all OpenCL and Vulkan devices: a view may begin at each multiple
 * of this number. */
#define ALIGNMENT 4096

/* ---- Addresses --------------------------------------------------------------------------- */

typedef struct Block {
  char *begin;
  size_t size; /* size of the range, in whole pages */
  BpDevice device;
  void *handle;
} Block;

/* The blocks in the order of their addresses, guarded by the lock. */
static Block *blocks;
static size_t room_for_blocks;
static atomic_size_t num_blocks; /* the number is also read without the lock */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

/* Returns the first block that begins after the address. */
static size_t find_next(const char *address) {
  size_t low = 0, high = num_blocks;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (blocks[middle].begin > address)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static int add_block(const Block *block) {
  pthread_rwlock_wrlock(&lock);
  int status = 0;
  if (num_blocks == room_for_blocks) {
    size_t room = room_for_blocks ? 2 * room_for_blocks : 64;
    Block *grown = realloc(blocks, room * sizeof(*grown));
    if (grown) {
      blocks = grown;
      room_for_blocks = room;
    } else {
      status = bp_error_raise(BP_ERROR_MEMORY, "no memory for the blocks of a device");
    }
  }
  if (status == 0) {
    size_t at = find_next(block->begin);
    memmove(&blocks[at + 1], &blocks[at], (num_blocks - at) * sizeof(*blocks));
    blocks[at] = *block;
    num_blocks++;
  }
  pthread_rwlock_unlock(&lock);
  return status;
}

/* Removes the block that begins at an address. */
static bool take_block(const void *address, Block *block) {
  pthread_rwlock_wrlock(&lock);
  size_t next = find_next(address);
  bool is_found = next > 0 && blocks[next - 1].begin == address;
  if (is_found) {
    *block = blocks[next - 1];
    memmove(&blocks[next - 1], &blocks[next], (num_blocks - next) * sizeof(*blocks));
    num_blocks--;
  }
  if (num_blocks == 0) {
    free(blocks);
    blocks = NULL;
    room_for_blocks = 0;
  }
  pthread_rwlock_unlock(&lock);
  return is_found;
}

void memory_find(void *address, BpTensorView *view) {
  view->data = address;
  view->device = (BpDevice){BP_DEVICE_CPU, 0};
  view->byte_offset = 0;
  if (atomic_load(&num_blocks) == 0) /* no blocks, as if only the CPU is used */
    return;
  pthread_rwlock_rdlock(&lock);
  size_t next = find_next(address);
  const Block *block = next > 0 ? &blocks[next - 1] : NULL;
  if (block && (size_t)((char *)address - block->begin) < block->size) {
    view->data = block->handle;
    view->device = block->device;
    view->byte_offset = (uint64_t)((char *)address - block->begin);
  }
  pthread_rwlock_unlock(&lock);
}

/* ---- The memories of a factory ----------------------------------------------------------- */

static bool is_same_device(BpDevice a, BpDevice b) {
  return a.device_type == b.device_type && a.device_id == b.device_id;
}

#define MAX_MEMORIES 8

typedef struct Memory {
  BpDevice device;
  OrtMemoryInfo *info;
} Memory;

struct Memories {
  Runtime ort;
  atomic_int references; /* held by the factory, and each allocator and transfer */
  OrtMemoryInfo *host;
  Memory list[MAX_MEMORIES];
  int32_t count;
  OrtKernelRegistry *kernels; /* or NULL */
  pthread_mutex_t mutex;
  Stream *streams; /* guarded by the mutex */
};

static int create_info(const Runtime *ort, int32_t type, uint32_t vendor, int32_t index,
                       OrtMemoryInfo **info) {
  return bridge_check(ort, ort->api->CreateMemoryInfo_V2(EP_NAME, type, vendor, index,
                                                         ORT_MEMORY_DEFAULT, 0,
                                                         ORT_ALLOCATOR_DEVICE, info));
}

static void release(Memories *memories) {
  const Runtime *ort = &memories->ort;
  if (atomic_fetch_sub(&memories->references, 1) != 1)
    return;
  for (int32_t i = 0; i < memories->count; i++)
    ort->api->ReleaseMemoryInfo(memories->list[i].info);
  if (memories->host)
    ort->api->ReleaseMemoryInfo(memories->host);
  if (memories->kernels)
    ort->ep->ReleaseKernelRegistry(memories->kernels);
  pthread_mutex_destroy(&memories->mutex);
  free(memories);
}

Memories *memories_create(const Runtime *ort) {
  Memories *memories = calloc(1, sizeof(*memories));
  if (!memories) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for a factory");
    return NULL;
  }
  memories->ort = *ort;
  pthread_mutex_init(&memories->mutex, NULL);
  atomic_init(&memories->references, 1);
  if (create_info(ort, ORT_MEMORY_CPU, 0, 0, &memories->host) == 0)
    return memories;
  release(memories);
  return NULL;
}

void memories_free(Memories *memories) {
  if (memories)
    release(memories);
}

Memories *memories_retain(Memories *memories) {
  atomic_fetch_add(&memories->references, 1);
  return memories;
}

const Runtime *memories_runtime(const Memories *memories) {
  return &memories->ort;
}

static const Memory *find_memory(const Memories *memories, BpDevice device) {
  for (int32_t i = 0; i < memories->count; i++)
    if (is_same_device(memories->list[i].device, device))
      return &memories->list[i];
  return NULL;
}

int memories_offer(Memories *memories, BpDevice device, OrtEpDevice *to) {
  const Runtime *ort = &memories->ort;
  const Memory *memory = find_memory(memories, device);
  if (!memory) {
    Memory *added = &memories->list[memories->count];
    if (memories->count == MAX_MEMORIES)
      return 0;
    added->device = device;
    if (create_info(ort, ORT_MEMORY_GPU, VENDOR_ID, memories->count, &added->info))
      return -1;
    memories->count++;
    memory = added;
  }
  return bridge_check(ort, ort->ep->EpDevice_AddAllocatorInfo(to, memory->info));
}

const OrtMemoryDevice *memories_place(const Memories *memories, BpDevice device) {
  const Memory *memory = find_memory(memories, device);
  return memories->ort.ep->MemoryInfo_GetMemoryDevice(memory ? memory->info : memories->host);
}

static const Memory *find_place(const Memories *memories, const OrtMemoryDevice *place) {
  const OrtEpApi *api = memories->ort.ep;
  for (int32_t i = 0; i < memories->count; i++)
    if (api->MemoryDevice_AreEqual(api->MemoryInfo_GetMemoryDevice(memories->list[i].info), place))
      return &memories->list[i];
  bp_error_raise(BP_ERROR_VALUE, "ONNX Runtime asks for memory that was not offered");
  return NULL;
}

int memories_device(const Memories *memories, const OrtMemoryDevice *place, BpDevice *device) {
  const Memory *memory = find_place(memories, place);
  if (memory)
    *device = memory->device;
  return memory ? 0 : -1;
}

/* ---- Allocators -------------------------------------------------------------------------- */

typedef struct Allocator {
  OrtAllocator base;
  Memories *memories;
  const Memory *memory;
} Allocator;

static void *allocate(OrtAllocator *self, size_t size) {
  const Memory *memory = ((const Allocator *)self)->memory;
  if (size > SIZE_MAX / 2)
    return NULL;
  Block block = {.size = (size / ALIGNMENT + 1) * ALIGNMENT, .device = memory->device};
  const BpAllocation request = {
      .struct_size = sizeof request, .size = size, .alignment = ALIGNMENT};
  block.begin =
      mmap(NULL, block.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block.begin == MAP_FAILED)
    return NULL;
  if (bp_device_alloc(block.device, &request, &block.handle) == 0) {
    if (add_block(&block) == 0)
      return block.begin;
    bp_device_free(block.device, block.handle);
  }
  munmap(block.begin, block.size);
  bp_error_clear(); /* NULL makes ONNX Runtime report that the allocation failed */
  return NULL;
}

static void deallocate(OrtAllocator *self, void *address) {
  Block block;
  (void)self;
  if (!address || !take_block(address, &block))
    return;
  if (bp_device_free(block.device, block.handle))
    bp_error_clear();
  munmap(block.begin, block.size);
}

static const OrtMemoryInfo *get_info(const OrtAllocator *self) {
  return ((const Allocator *)self)->memory->info;
}

OrtAllocator *memories_allocator(Memories *memories, const OrtMemoryInfo *info) {
  const Memory *memory = find_place(memories, memories->ort.ep->MemoryInfo_GetMemoryDevice(info));
  if (!memory)
    return NULL;
  Allocator *allocator = calloc(1, sizeof(*allocator));
  if (!allocator) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for an allocator");
    return NULL;
  }
  allocator->base = (OrtAllocator){.version = ORT_OLDEST_VERSION,
                                   .Alloc = allocate,
                                   .Free = deallocate,
                                   .Info = get_info,
                                   .Reserve = allocate};
  allocator->memories = memories_retain(memories);
  allocator->memory = memory;
  return &allocator->base;
}

void memories_release_allocator(OrtAllocator *base) {
  if (!base)
    return;
  release(((Allocator *)base)->memories);
  free(base);
}

/* ---- Copies ------------------------------------------------------------------------------ */

void memories_add_stream(Memories *memories, Stream *stream) {
  pthread_mutex_lock(&memories->mutex);
  stream->next = memories->streams;
  memories->streams = stream;
  pthread_mutex_unlock(&memories->mutex);
}

void memories_remove_stream(Memories *memories, Stream *stream) {
  pthread_mutex_lock(&memories->mutex);
  Stream **place = &memories->streams;
  while (*place != stream)
    place = &(*place)->next;
  *place = stream->next;
  pthread_mutex_unlock(&memories->mutex);
}

/* Lets the default stream of a device follow all others. */
static int follow_streams(Memories *memories, BpDevice device) {
  int status = 0;
  pthread_mutex_lock(&memories->mutex);
  for (const Stream *each = memories->streams; each && status == 0; each = each->next)
    if (is_same_device(each->device, device))
      status = bp_stream_sync_from_to(device, each->handle, NULL);
  pthread_mutex_unlock(&memories->mutex);
  return status;
}

/* A copy in the order of a stream of the source or the destination; the other side is the host, or
 * the same device. A copy to the host has ended when the function returns. */
static int copy_on_stream(const BpCopy *copy, const Stream *stream) {
  if (bp_device_copy_between(copy, stream->handle, stream->handle))
    return -1;
  return copy->to_device.device_type == BP_DEVICE_CPU
             ? bp_stream_sync(stream->device, stream->handle)
             : 0;
}

static int copy_after_all(Memories *memories, const BpCopy *copy) {
  return follow_streams(memories, copy->from_device) || follow_streams(memories, copy->to_device) ||
                 bp_device_copy_between(copy, NULL, NULL) ||
                 bp_stream_sync(copy->from_device, NULL) || bp_stream_sync(copy->to_device, NULL)
             ? -1
             : 0;
}

/* Whether the device is the stream's, or the host. */
static bool is_end_of(const Stream *stream, BpDevice device) {
  return device.device_type == BP_DEVICE_CPU || is_same_device(stream->device, device);
}

/* Copies the elements. `stream`: or NULL. */
static int copy_value(Memories *memories, const OrtValue *from, OrtValue *to,
                      const Stream *stream) {
  const Runtime *ort = &memories->ort;
  const void *source = NULL;
  void *target = NULL;
  size_t size = 0;
  BpTensorView views[2];
  if (bridge_check(ort, ort->api->GetTensorSizeInBytes(from, &size)) ||
      bridge_check(ort, ort->api->GetTensorData(from, &source)) ||
      bridge_check(ort, ort->api->GetTensorMutableData(to, &target)))
    return -1;
  if (size == 0)
    return 0;
  memory_find((void *)(uintptr_t)source, &views[0]);
  memory_find(target, &views[1]);
  const BpCopy copy = {.struct_size = sizeof copy,
                       .from = views[0].data,
                       .from_offset = views[0].byte_offset,
                       .from_device = views[0].device,
                       .to = views[1].data,
                       .to_offset = views[1].byte_offset,
                       .to_device = views[1].device,
                       .size = size};
  return stream && is_end_of(stream, copy.from_device) && is_end_of(stream, copy.to_device)
             ? copy_on_stream(&copy, stream)
             : copy_after_all(memories, &copy);
}

typedef struct Transfer {
  OrtDataTransferImpl base;
  Memories *memories;
} Transfer;

static bool can_copy(const OrtDataTransferImpl *self, const OrtMemoryDevice *from,
                     const OrtMemoryDevice *to) {
  const OrtEpApi *api = ((const Transfer *)self)->memories->ort.ep;
  bool is_from_ours = api->MemoryDevice_GetVendorId(from) == VENDOR_ID;
  bool is_to_ours = api->MemoryDevice_GetVendorId(to) == VENDOR_ID;
  return (is_from_ours || is_to_ours) &&
         (is_from_ours || api->MemoryDevice_GetDeviceType(from) == ORT_MEMORY_CPU) &&
         (is_to_ours || api->MemoryDevice_GetDeviceType(to) == ORT_MEMORY_CPU);
}

static OrtStatus *copy_tensors(OrtDataTransferImpl *self, const OrtValue **from, OrtValue **to,
                               OrtSyncStream **streams, size_t count) {
  Memories *memories = ((const Transfer *)self)->memories;
  const Runtime *ort = &memories->ort;
  for (size_t i = 0; i < count; i++)
    if (copy_value(memories, from[i], to[i], streams ? stream_find(ort, streams[i]) : NULL))
      return bridge_status(ort);
  return NULL;
}

static void release_transfer(OrtDataTransferImpl *self) {
  release(((Transfer *)self)->memories);
  free(self);
}

OrtDataTransferImpl *memories_transfer(Memories *memories) {
  Transfer *transfer = calloc(1, sizeof(*transfer));
  if (!transfer) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for copies");
    return NULL;
  }
  transfer->base = (OrtDataTransferImpl){.version = ORT_OLDEST_VERSION,
                                         .Release = release_transfer,
                                         .CanCopy = can_copy,
                                         .CopyTensors = copy_tensors};
  transfer->memories = memories_retain(memories);
  return &transfer->base;
}

/* ---- Kernels ----------------------------------------------------------------------------- */

typedef struct Kernel {
  OrtKernelImpl base;
  Memories *memories; /* kept by the session's provider */
} Kernel;

/* Copies input 0 to output 0. */
static int run_copy(Memories *memories, OrtKernelContext *context) {
  const Runtime *ort = &memories->ort;
  OrtSyncStream *stream = NULL;
  const OrtValue *from = NULL;
  OrtValue *to = NULL;
  const int64_t *extents = NULL;
  size_t ndim = 0;
  int32_t type = 0;
  if (bridge_check(ort, ort->api->KernelContext_GetInput(context, 0, &from)) ||
      bridge_check(
          ort, ort->api->GetTensorElementTypeAndShapeDataReference(from, &type, &extents, &ndim)) ||
      bridge_check(ort, ort->api->KernelContext_GetOutput(context, 0, extents, ndim, &to)) ||
      bridge_check(ort, ort->api->KernelContext_GetSyncStream(context, &stream)))
    return -1;
  return copy_value(memories, from, to, stream_find(ort, stream));
}

static OrtStatus *compute_copy(OrtKernelImpl *self, OrtKernelContext *context) {
  Memories *memories = ((const Kernel *)self)->memories;
  return run_copy(memories, context) ? bridge_status(&memories->ort) : NULL;
}

static void release_kernel(OrtKernelImpl *self) {
  free(self);
}

static OrtStatus *create_kernel(void *state, const OrtKernelInfo *info, OrtKernelImpl **result) {
  Memories *memories = state;
  Kernel *kernel = calloc(1, sizeof(*kernel));
  (void)info;
  if (!kernel)
    return memories->ort.api->CreateStatus(ORT_EP_FAIL, EP_NAME ": no memory for a copy");
  kernel->base =
      (OrtKernelImpl){.version = KERNELS_SINCE, .Compute = compute_copy, .Release = release_kernel};
  kernel->memories = memories;
  *result = &kernel->base;
  return NULL;
}

/* Adds every element type that inputs and outputs of parts can have. */
static int constrain_types(const Runtime *ort, OrtKernelDefBuilder *builder) {
  const OrtDataType *types[32];
  size_t count = 0;
  for (int32_t type = 0; type < 32; type++)
    if (type_has_bytes(type) &&
        bridge_check(ort, ort->ep->GetTensorDataType(type, &types[count++])))
      return -1;
  return bridge_check(ort, ort->ep->KernelDefBuilder_AddTypeConstraint(builder, "T", types, count));
}

static int add_kernel(Memories *memories, const char *op, OrtKernelDefBuilder *builder) {
  const Runtime *ort = &memories->ort;
  const OrtEpApi *api = ort->ep;
  OrtKernelDef *def = NULL;
  if (bridge_check(ort, api->KernelDefBuilder_SetOperatorType(builder, op)) ||
      bridge_check(ort, api->KernelDefBuilder_SetDomain(builder, "")) ||
      bridge_check(ort, api->KernelDefBuilder_SetSinceVersion(builder, 1, 1)) ||
      bridge_check(ort, api->KernelDefBuilder_SetExecutionProvider(builder, EP_NAME)) ||
      constrain_types(ort, builder) ||
      bridge_check(ort, api->KernelDefBuilder_Build(builder, &def)))
    return -1;
  int status = bridge_check(
      ort, api->KernelRegistry_AddKernel(memories->kernels, def, create_kernel, memories));
  api->ReleaseKernelDef(def);
  return status;
}

/* Makes the kernel of one direction, whose input or output is in the host's memory. */
static int add_direction(Memories *memories, const char *op, bool is_from_host) {
  const Runtime *ort = &memories->ort;
  const OrtEpApi *api = ort->ep;
  OrtKernelDefBuilder *builder = NULL;
  if (bridge_check(ort, api->CreateKernelDefBuilder(&builder)))
    return -1;
  int status = bridge_check(
      ort, is_from_host
               ? api->KernelDefBuilder_SetInputMemType(builder, 0, ORT_KERNEL_INPUT_ON_HOST)
               : api->KernelDefBuilder_SetOutputMemType(builder, 0, ORT_KERNEL_OUTPUT_ON_HOST));
  if (status == 0)
    status = add_kernel(memories, op, builder);
  api->ReleaseKernelDefBuilder(builder);
  return status;
}

int memories_add_kernels(Memories *memories) {
  const Runtime *ort = &memories->ort;
  return bridge_check(ort, ort->ep->CreateKernelRegistry(&memories->kernels)) ||
                 add_direction(memories, "MemcpyFromHost", true) ||
                 add_direction(memories, "MemcpyToHost", false)
             ? -1
             : 0;
}

const OrtKernelRegistry *memories_kernels(const Memories *memories, BpDevice device) {
  return find_memory(memories, device) ? memories->kernels : NULL;
}
