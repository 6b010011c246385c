/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the plugin vulkan: what its files offer one another.
 *
 * loader.c   libvulkan, opened at run time; errors of its calls
 * find.c     the devices there are, and their attributes
 * device.c   a device opened: its queues, its memory types, its pipeline cache
 * memory.c   device memory in blocks, and the buffers in it
 * handle.c   data space: buffers behind handles
 * stream.c   queued work: batches of commands
 * copy.c     copies
 * timer.c    timers
 * spirv.c    what a SPIR-V binary says of itself
 * module.c   modules of kind `vulkan`
 * pipeline.c kernels built for a device
 * launch.c   launches
 * target.c   target kind `vulkan`
 * glslc.c    GLSL compiled
 *
 * `data` of a tensor is a number that stands for a buffer: see handle.c. */
#ifndef BP_PLUGIN_VULKAN_H
#define BP_PLUGIN_VULKAN_H

#include <backplane/device_extensions.h>
#include <backplane/kernel_module.h>
#include <vulkan/vulkan_core.h>

#include "../common/common.h"

/* The host's tables; set by the entry point. */
extern BpPluginTables bp_vulkan_host;

/* ---- loader.c ---------------------------------------------------------------------------- */

/* The functions of Vulkan 1.2 that are used. */
#define BP_VULKAN_FUNCTIONS(X)                                                                     \
  X(vkEnumerateInstanceVersion)                                                                    \
  X(vkCreateInstance)                                                                              \
  X(vkEnumeratePhysicalDevices)                                                                    \
  X(vkEnumerateDeviceExtensionProperties)                                                          \
  X(vkGetPhysicalDeviceProperties)                                                                 \
  X(vkGetPhysicalDeviceProperties2)                                                                \
  X(vkGetPhysicalDeviceFeatures2)                                                                  \
  X(vkGetPhysicalDeviceMemoryProperties)                                                           \
  X(vkGetPhysicalDeviceMemoryProperties2)                                                          \
  X(vkGetPhysicalDeviceQueueFamilyProperties)                                                      \
  X(vkCreateDevice)                                                                                \
  X(vkDestroyDevice)                                                                               \
  X(vkGetDeviceQueue)                                                                              \
  X(vkQueueSubmit)                                                                                 \
  X(vkAllocateMemory)                                                                              \
  X(vkFreeMemory)                                                                                  \
  X(vkMapMemory)                                                                                   \
  X(vkCreateBuffer)                                                                                \
  X(vkDestroyBuffer)                                                                               \
  X(vkGetBufferMemoryRequirements)                                                                 \
  X(vkBindBufferMemory)                                                                            \
  X(vkCreateBufferView)                                                                            \
  X(vkDestroyBufferView)                                                                           \
  X(vkCreateSemaphore)                                                                             \
  X(vkDestroySemaphore)                                                                            \
  X(vkWaitSemaphores)                                                                              \
  X(vkGetSemaphoreCounterValue)                                                                    \
  X(vkCreateCommandPool)                                                                           \
  X(vkDestroyCommandPool)                                                                          \
  X(vkAllocateCommandBuffers)                                                                      \
  X(vkBeginCommandBuffer)                                                                          \
  X(vkEndCommandBuffer)                                                                            \
  X(vkCmdPipelineBarrier)                                                                          \
  X(vkCmdCopyBuffer)                                                                               \
  X(vkCmdBindPipeline)                                                                             \
  X(vkCmdBindDescriptorSets)                                                                       \
  X(vkCmdPushConstants)                                                                            \
  X(vkCmdDispatch)                                                                                 \
  X(vkCmdResetQueryPool)                                                                           \
  X(vkCmdWriteTimestamp)                                                                           \
  X(vkCreateQueryPool)                                                                             \
  X(vkDestroyQueryPool)                                                                            \
  X(vkGetQueryPoolResults)                                                                         \
  X(vkCreateDescriptorPool)                                                                        \
  X(vkDestroyDescriptorPool)                                                                       \
  X(vkResetDescriptorPool)                                                                         \
  X(vkAllocateDescriptorSets)                                                                      \
  X(vkUpdateDescriptorSets)                                                                        \
  X(vkCreateDescriptorSetLayout)                                                                   \
  X(vkDestroyDescriptorSetLayout)                                                                  \
  X(vkCreatePipelineLayout)                                                                        \
  X(vkDestroyPipelineLayout)                                                                       \
  X(vkCreateShaderModule)                                                                          \
  X(vkDestroyShaderModule)                                                                         \
  X(vkCreatePipelineCache)                                                                         \
  X(vkGetPipelineCacheData)                                                                        \
  X(vkDestroyPipelineCache)                                                                        \
  X(vkCreateComputePipelines)                                                                      \
  X(vkDestroyPipeline)

#define BP_VULKAN_MEMBER(name) PFN_##name name;
typedef struct BpVulkanLibrary {
  BP_VULKAN_FUNCTIONS(BP_VULKAN_MEMBER)
} BpVulkanLibrary;

/* The library's functions; filled by bp_vulkan_load. */
extern BpVulkanLibrary bp_vk;

/* Opens libvulkan. NULL, or why that failed and what to do; static. */
const char *bp_vulkan_load(void);
/* Raises the error of a call that did not return VK_SUCCESS; returns -1. */
int32_t bp_vulkan_raise(VkResult status, const char *call);

/* ---- find.c ------------------------------------------------------------------------------ */

#define BP_VULKAN_MOST_DEVICES 16
#define BP_VULKAN_MOST_QUEUES  4

typedef struct BpVulkanDevice BpVulkanDevice;

/* What a device can do, as far as kernels depend on it. */
typedef struct BpVulkanFeatures {
  VkBool32 int8, int16, int64, float16, float64, storage8, storage16;
  VkBool32 even16; /* 16-bit floats are rounded to even where a kernel asks for it */
} BpVulkanFeatures;

/* What is known of a device before it is opened; constant once found. */
typedef struct BpVulkanInfo {
  VkPhysicalDevice physical;
  VkPhysicalDeviceProperties properties;
  VkPhysicalDeviceMemoryProperties memory;
  BpVulkanFeatures features;
  char driver[VK_MAX_DRIVER_NAME_SIZE + VK_MAX_DRIVER_INFO_SIZE + 2];
  uint8_t uuid[VK_UUID_SIZE];
  uint8_t cache_uuid[VK_UUID_SIZE];
  uint32_t subgroup_size;
  uint64_t largest_allocation;
  VkBool32 rounds_halves_to_even;
  uint32_t num_processors; /* 0: not told */
  char pci_address[24];    /* "": not told */
  int has_memory_budget;
  uint32_t queue_family;
  uint32_t num_queues;
  uint32_t timestamp_bits;
  uint64_t heap_bytes; /* of the device's own memory */
  uint32_t heap;
} BpVulkanInfo;

extern const BpDeviceApi bp_vulkan_device_api;

/* The device, opened; NULL with an error. */
BpVulkanDevice *bp_vulkan_device(int32_t device_id);
/* Bytes at which a part of a buffer may begin for a kernel. */
uint64_t bp_vulkan_alignment(const BpVulkanInfo *info);
/* Bytes of the largest buffer. */
uint64_t bp_vulkan_largest_buffer(const BpVulkanInfo *info);

/* ---- device.c ---------------------------------------------------------------------------- */

/* Something that queued work keeps alive. Counted with atomic operations; the last release
 * destroys it. */
typedef struct BpVulkanShared {
  int32_t references;
  void (*destroy)(struct BpVulkanShared *shared);
} BpVulkanShared;

void bp_vulkan_retain(BpVulkanShared *shared);
void bp_vulkan_release(BpVulkanShared *shared);

typedef struct BpVulkanBlock BpVulkanBlock;

/* A queue of the device's, which one thread uses at a time. */
typedef struct BpVulkanQueue {
  VkQueue handle;
  pthread_mutex_t lock;
} BpVulkanQueue;

typedef struct BpVulkanStream BpVulkanStream;

struct BpVulkanDevice {
  const BpVulkanInfo *info;
  int32_t id;
  BpDeviceOpening opening; /* sets what follows */
  VkDevice handle;
  BpVulkanQueue queues[BP_VULKAN_MOST_QUEUES];
  int32_t next_queue;     /* atomic */
  BpVulkanStream *stream; /* the default one */
  pthread_mutex_t streams_lock;
  BpVulkanStream *streams; /* all of them; guarded by streams_lock */
  pthread_mutex_t timelines_lock;
  struct BpVulkanTimeline *timelines; /* that no stream has; guarded by timelines_lock */
  int32_t is_lost;                    /* atomic */
  uint32_t data_type; /* memory types: of data space, and of what host and device share */
  uint32_t staging_type;
  int is_mapped; /* the host sees data space */
  pthread_mutex_t memory_lock;
  BpVulkanBlock *blocks; /* guarded by memory_lock, as what follows is */
  uint64_t allocated;    /* bytes of the device's own memory */
  VkPipelineCache cache;
  int32_t is_cache_stale; /* atomic: pipelines were made since it was saved */
};

/* Opens a BpVulkanDevice, whose info and id are set. */
int32_t bp_vulkan_open(void *device);
/* Notes what a call said of the device; true if it is lost. */
int bp_vulkan_note(BpVulkanDevice *device, VkResult status);
int bp_vulkan_is_lost(BpVulkanDevice *device);
/* Writes the pipeline cache to disk if it has grown. */
void bp_vulkan_save_cache(BpVulkanDevice *device);

/* ---- memory.c ---------------------------------------------------------------------------- */

/* Every buffer is for everything. */
#define BP_VULKAN_BUFFER_USAGE                                                                     \
  (VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_STORAGE_TEXEL_BUFFER_BIT |                 \
   VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT)

typedef struct BpVulkanPiece BpVulkanPiece;

/* A part of a buffer as a kernel's texel buffer. */
typedef struct BpVulkanView {
  struct BpVulkanView *next;
  VkFormat format;
  uint64_t offset, size;
  VkBufferView handle;
} BpVulkanView;

typedef struct BpVulkanBuffer {
  BpVulkanShared shared;
  BpVulkanDevice *device;
  VkBuffer handle;
  uint64_t size;
  char *mapped; /* NULL: the host does not see it */
  BpVulkanPiece *piece;
  BpVulkanView *views; /* guarded by the device's memory_lock */
} BpVulkanBuffer;

/* A buffer (one reference) in data space, or for staging; NULL with an error. */
BpVulkanBuffer *bp_vulkan_buffer_create(BpVulkanDevice *device, uint64_t size, int is_staging);
/* The view, which lives as long as the buffer; VK_NULL_HANDLE with an error. */
VkBufferView bp_vulkan_buffer_view(BpVulkanBuffer *buffer, VkFormat format, uint64_t offset,
                                   uint64_t size);

/* ---- handle.c ---------------------------------------------------------------------------- */

/* The buffer of a handle of the device (transfer full, so that another thread may free the handle
 * meanwhile); NULL with an error. */
BpVulkanBuffer *bp_vulkan_find(const BpVulkanDevice *device, const void *handle);
int32_t bp_vulkan_alloc(void *context, int32_t device_id, const BpAllocation *allocation,
                        void **handle);
int32_t bp_vulkan_free(void *context, int32_t device_id, void *handle);

/* ---- stream.c ---------------------------------------------------------------------------- */

#define BP_VULKAN_BATCHES     8    /* that a stream has at once */
#define BP_VULKAN_COMMANDS    64   /* of a batch */
#define BP_VULKAN_DESCRIPTORS 1024 /* of a batch, of each kind */

/* The latest values that a stream's batches signal; others may wait for it. The device keeps it for
 * a later stream, which goes on counting where this one ended. */
typedef struct BpVulkanTimeline {
  BpVulkanShared shared;
  BpVulkanDevice *device;
  VkSemaphore handle;
  uint64_t value;                /* that it has or will have once all that was submitted is done */
  struct BpVulkanTimeline *next; /* of those that no stream has */
} BpVulkanTimeline;

/* Bytes to be brought to the host once a batch is done. */
typedef struct BpVulkanDelivery {
  void *to;
  const char *from;
  uint64_t size;
} BpVulkanDelivery;

/* Commands that are submitted together, and what they use. */
typedef struct BpVulkanBatch {
  VkCommandBuffer commands;
  VkDescriptorPool descriptors;
  int is_open;
  int32_t num_commands;
  int32_t num_descriptors;
  uint64_t value; /* that the timeline has when it is done */
  BpVulkanShared **used;
  int32_t num_used, used_capacity;
  BpVulkanDelivery *deliveries;
  int32_t num_deliveries;
} BpVulkanBatch;

#define BP_VULKAN_WAITS 16

struct BpVulkanStream {
  BpVulkanDevice *device;
  BpVulkanStream *next; /* guarded by the device's streams_lock */
  BpVulkanQueue *queue;
  pthread_mutex_t lock; /* of what follows */
  VkCommandPool pool;
  BpVulkanTimeline *timeline;
  BpVulkanBatch batches[BP_VULKAN_BATCHES];
  int32_t oldest, in_flight; /* a ring; the batch after those in flight is the one being filled */
  BpVulkanTimeline *waits[BP_VULKAN_WAITS]; /* what the next batch waits for */
  uint64_t wait_values[BP_VULKAN_WAITS];
  int32_t num_waits;
  VkResult failure; /* of queued work, to be raised by the next synchronisation */
};

/* The device's default stream for NULL. */
BpVulkanStream *bp_vulkan_stream(BpVulkanDevice *device, void *stream);
BpVulkanStream *bp_vulkan_stream_open(BpVulkanDevice *device);
/* Those that no stream has, when the device goes. */
void bp_vulkan_destroy_timelines(BpVulkanDevice *device);
/* Between lock and unlock: the batch to record one more command in, ordered after those before,
 * with room for that many descriptors. NULL with an error. */
BpVulkanBatch *bp_vulkan_begin(BpVulkanStream *stream, int32_t num_descriptors);
/* Keeps something alive until the batch is done. -1 with an error. */
int32_t bp_vulkan_use(BpVulkanBatch *batch, BpVulkanShared *shared);
/* Brings bytes to the host once the batch is done. -1 with an error. */
int32_t bp_vulkan_deliver(BpVulkanBatch *batch, BpVulkanDelivery delivery);
/* Submits what was recorded. A failure is the stream's. */
void bp_vulkan_flush(BpVulkanStream *stream);
/* Waits for all queued work and raises its failure. Without the lock. */
int32_t bp_vulkan_wait(BpVulkanStream *stream);
/* Lets go of what finished work used, on every stream of the device. */
void bp_vulkan_collect(BpVulkanDevice *device);

int32_t bp_vulkan_create_stream(void *context, int32_t device_id, void **stream);
int32_t bp_vulkan_free_stream(void *context, int32_t device_id, void *stream);
int32_t bp_vulkan_sync_from_to(void *context, int32_t device_id, void *from, void *to);
int32_t bp_vulkan_stream_sync(void *context, int32_t device_id, void *stream);

/* ---- copy.c, timer.c --------------------------------------------------------------------- */

int32_t bp_vulkan_copy(void *context, const BpCopy *copy, void *stream);
extern const BpTimerApi bp_vulkan_timers;

/* ---- spirv.c ----------------------------------------------------------------------------- */

/* What a binding is. */
#define BP_VULKAN_UNUSED  0
#define BP_VULKAN_STORAGE 1 /* a storage buffer */
#define BP_VULKAN_TEXELS  2 /* a storage texel buffer */

/* What a kernel's binary needs; sizes in bytes. */
typedef struct BpVulkanNeeds {
  BpVulkanFeatures features;
  uint32_t local_size[3];
  uint64_t shared_bytes;
  uint8_t bindings[BP_KERNEL_MAX_ARGS]; /* BP_VULKAN_*, by argument */
  uint32_t formats[BP_KERNEL_MAX_ARGS]; /* VkFormat of a texel buffer */
} BpVulkanNeeds;

/* Reads a binary, which is checked as far as it is read. `name` is for messages. */
int32_t bp_vulkan_read_spirv(const char *name, const uint32_t *words, size_t num_words,
                             BpVulkanNeeds *needs);

/* A copy of a binary (transfer full) whose float arithmetic a driver may neither contract nor
 * reorder. */
int32_t bp_vulkan_mark_exact(const char *name, const char *bytes, size_t size,
                             BpOwnedBytes *marked);

/* ---- pipeline.c, launch.c, module.c ------------------------------------------------------ */

/* A kernel built for one device. */
typedef struct BpVulkanPipeline {
  BpVulkanShared shared;
  BpVulkanDevice *device;
  VkDescriptorSetLayout set_layout;
  VkPipelineLayout layout;
  VkPipeline handle;
} BpVulkanPipeline;

/* A kernel of a module: its `built`. */
typedef struct BpVulkanKernel {
  const BpKernel *call;
  const uint32_t *words; /* its binary, of the module's code */
  size_t num_words;
  BpVulkanNeeds needs;
  uint32_t push_offsets[BP_KERNEL_MAX_ARGS]; /* of scalars */
  uint32_t push_bytes;
  pthread_mutex_t lock;
  BpVulkanPipeline *pipelines[BP_VULKAN_MOST_DEVICES]; /* guarded by lock */
} BpVulkanKernel;

/* The pipeline for a device (transfer none), made by the first call; NULL with an error. */
BpVulkanPipeline *bp_vulkan_pipeline(BpVulkanKernel *kernel, BpVulkanDevice *device);
/* Launches on the current stream. */
int32_t bp_vulkan_launch(BpKernelModule *module, BpKernelEntry *entry,
                         const BpInvocation *invocation, const BpValue *args, int32_t num_args);
extern const BpKernelModuleKind bp_vulkan_module_kind;

/* ---- target.c, glslc.c ------------------------------------------------------------------- */

extern const BpTargetKind bp_vulkan_kind;
int bp_vulkan_build(void *self, const BpValue *args, int32_t num_args, BpValue *result);
/* Compiles function i from sources[i], for all of them, to a module's code (free). An error has the
 * compiler's words and the numbered source. */
int32_t bp_vulkan_compile(const BpIrTable *ir, const BpIrModule *functions,
                          const BpOwnedBytes *sources, BpOwnedBytes *code);

#endif
