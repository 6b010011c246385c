/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of the plugin vulkan share.
 *
 * loader.c   libvulkan, opened at run time; errors of its calls
 * find.c     the devices of all drivers, and their attributes
 * device.c   opening a device: its queues, its memory types, its pipeline cache
 * memory.c   device memory in blocks, and the buffers in it
 * handle.c   data space: buffers behind handles
 * stream.c   queued work: batches of commands
 * copy.c     copies
 * external.c memory that is imported and exported
 * timer.c    timers
 * event.c    events
 * spirv.c    reading a SPIR-V binary
 * module.c   modules of kind `vulkan`
 * pipeline.c kernels built for a device
 * launch.c   launches
 * target.c   target kind `vulkan`
 * glslc.c    compiling GLSL
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
  X(vkGetPhysicalDeviceExternalBufferProperties)                                                   \
  X(vkGetPhysicalDeviceQueueFamilyProperties)                                                      \
  X(vkCreateDevice)                                                                                \
  X(vkDestroyDevice)                                                                               \
  X(vkGetDeviceQueue)                                                                              \
  X(vkGetDeviceProcAddr)                                                                           \
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
  X(vkSignalSemaphore)                                                                             \
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

/* The library's functions; set by bp_vulkan_load. */
extern BpVulkanLibrary bp_vk;

/* Opens libvulkan. Returns NULL, or the reason and what to do; static. */
const char *bp_vulkan_load(void);
/* Raises the error of a call that did not return VK_SUCCESS; returns -1. */
int32_t bp_vulkan_raise(VkResult status, const char *call);

/* ---- find.c ------------------------------------------------------------------------------ */

#define BP_VULKAN_MOST_DEVICES 16
#define BP_VULKAN_MOST_QUEUES  4

typedef struct BpVulkanDevice BpVulkanDevice;

/* The features of a device on which kernels depend. */
typedef struct BpVulkanFeatures {
  VkBool32 int8, int16, int64, float16, float64, storage8, storage16;
  VkBool32 even16; /* 16-bit floats are rounded to even if a kernel asks for it */
} BpVulkanFeatures;

/* Properties of a device before it is opened; constant once found. */
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
  uint32_t num_processors; /* 0: unknown */
  char pci_address[24];    /* "": unknown */
  int has_memory_budget;
  uint64_t imports, exports; /* BP_EXTERNAL_* */
  uint64_t dedicated;        /* the forms of external memory that need a dedicated allocation */
  uint64_t host_alignment;   /* alignment of an imported host address */
  uint32_t queue_family;
  uint32_t num_queues;
  uint32_t timestamp_bits;
  uint64_t heap_bytes; /* size of the device's own memory */
  uint32_t heap;
} BpVulkanInfo;

extern const BpDeviceApi bp_vulkan_device_api;

/* The opened device; NULL with an error. */
BpVulkanDevice *bp_vulkan_device(int32_t device_id);
/* Returns the alignment in bytes of a part of a buffer that a kernel uses. */
uint64_t bp_vulkan_alignment(const BpVulkanInfo *info);
/* Whether a driver has an extension of Vulkan for the device. */
int bp_vulkan_has_extension(VkPhysicalDevice physical, const char *name);
/* Returns the bytes of the largest buffer. */
uint64_t bp_vulkan_largest_buffer(const BpVulkanInfo *info);

/* ---- device.c ---------------------------------------------------------------------------- */

/* An object that queued work keeps alive. References are counted with atomic operations; the last
 * release destroys the object. */
typedef struct BpVulkanShared {
  int32_t references;
  void (*destroy)(struct BpVulkanShared *shared);
} BpVulkanShared;

void bp_vulkan_retain(BpVulkanShared *shared);
void bp_vulkan_release(BpVulkanShared *shared);

typedef struct BpVulkanBlock BpVulkanBlock;

/* A queue of the device; one thread uses it at a time. */
typedef struct BpVulkanQueue {
  VkQueue handle;
  pthread_mutex_t lock;
} BpVulkanQueue;

typedef struct BpVulkanStream BpVulkanStream;

struct BpVulkanDevice {
  const BpVulkanInfo *info;
  int32_t id;
  BpDeviceOpening opening; /* opening the device sets the members below */
  VkDevice handle;
  BpVulkanQueue queues[BP_VULKAN_MOST_QUEUES];
  int32_t next_queue;     /* atomic */
  BpVulkanStream *stream; /* the default stream */
  pthread_mutex_t streams_lock;
  BpVulkanStream *streams; /* all streams of the device; guarded by streams_lock */
  pthread_mutex_t timelines_lock;
  struct BpVulkanTimeline *timelines; /* timelines without a stream; guarded by timelines_lock */
  int32_t is_lost;                    /* atomic */
  uint32_t data_type; /* memory types: data_type of data space, staging_type of staging */
  uint32_t staging_type;
  int is_mapped;                      /* the host can access data space */
  PFN_vkGetMemoryFdKHR get_memory_fd; /* NULL: the device lacks the extension */
  PFN_vkGetMemoryFdPropertiesKHR get_fd_properties;
  PFN_vkGetMemoryHostPointerPropertiesEXT get_pointer_properties;
  pthread_mutex_t memory_lock;
  BpVulkanBlock *blocks; /* guarded by memory_lock */
  uint64_t allocated;    /* bytes allocated from the device's own memory; guarded by memory_lock */
  VkPipelineCache cache;
  int32_t is_cache_stale; /* atomic: pipelines were made since the last save */
};

/* Opens a BpVulkanDevice, whose info and id are set. */
int32_t bp_vulkan_open(void *device);
/* Notes the result of a Vulkan call on the device; returns true if the device is lost. */
int bp_vulkan_note(BpVulkanDevice *device, VkResult status);
int bp_vulkan_is_lost(BpVulkanDevice *device);
/* Writes the pipeline cache to disk if it has grown. */
void bp_vulkan_save_cache(BpVulkanDevice *device);

/* ---- memory.c ---------------------------------------------------------------------------- */

/* The usages that every buffer has. */
#define BP_VULKAN_BUFFER_USAGE                                                                     \
  (VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_STORAGE_TEXEL_BUFFER_BIT |                 \
   VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |                         \
   VK_BUFFER_USAGE_TRANSFER_DST_BIT)

typedef struct BpVulkanPiece BpVulkanPiece;

/* A part of a buffer, viewed as a kernel's texel buffer. */
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
  char *mapped;         /* NULL: the host cannot access the buffer */
  BpVulkanPiece *piece; /* NULL: the memory is `own` */
  VkDeviceMemory own;   /* imported or exported memory */
  BpVulkanView *views;  /* guarded by the device's memory_lock */
} BpVulkanBuffer;

/* Makes a buffer (one reference) in data space, or for staging; NULL with an error. */
BpVulkanBuffer *bp_vulkan_buffer_create(BpVulkanDevice *device, uint64_t size, int is_staging);
/* Creates the VkBuffer of a new buffer without memory (one reference); NULL with an error. */
BpVulkanBuffer *bp_vulkan_buffer_begin(BpVulkanDevice *device, uint64_t size,
                                       VkExternalMemoryHandleTypeFlags external);
/* Raises the error of a failure to make a buffer, and releases the buffer. */
void bp_vulkan_buffer_fail(BpVulkanBuffer *buffer, VkResult status);
/* Returns the view, valid as long as the buffer; VK_NULL_HANDLE with an error. */
VkBufferView bp_vulkan_buffer_view(BpVulkanBuffer *buffer, VkFormat format, uint64_t offset,
                                   uint64_t size);

/* ---- handle.c ---------------------------------------------------------------------------- */

/* Returns the buffer of a handle of the device (transfer full, so that another thread may free the
 * handle meanwhile); NULL with an error. */
BpVulkanBuffer *bp_vulkan_find(const BpVulkanDevice *device, const void *handle);
/* Makes a handle of a buffer and takes over its reference; NULL with an error. */
void *bp_vulkan_add(BpVulkanBuffer *buffer);
/* Checks a buffer's size. 0, or -1 with an error: the device has no buffers of that size. */
int32_t bp_vulkan_check_size(const BpVulkanDevice *device, uint64_t size);
int32_t bp_vulkan_alloc(void *context, int32_t device_id, const BpAllocation *allocation,
                        void **handle);
int32_t bp_vulkan_free(void *context, int32_t device_id, void *handle);

/* ---- stream.c ---------------------------------------------------------------------------- */

#define BP_VULKAN_BATCHES     8    /* batches of a stream that are in flight at the same time */
#define BP_VULKAN_COMMANDS    64   /* commands of a batch */
#define BP_VULKAN_DESCRIPTORS 1024 /* descriptors of a batch, of each kind */

/* The timeline semaphore that a stream's batches signal and that other streams may wait for. When
 * the stream is freed, the device keeps the timeline for a later stream, which continues
 * counting. */
typedef struct BpVulkanTimeline {
  BpVulkanShared shared;
  BpVulkanDevice *device;
  VkSemaphore handle;
  uint64_t value;                /* the semaphore's value once all submitted work is done */
  struct BpVulkanTimeline *next; /* next of the timelines without a stream */
} BpVulkanTimeline;

/* Bytes to copy to the host when a batch is done. */
typedef struct BpVulkanDelivery {
  void *to;
  const char *from;
  uint64_t size;
} BpVulkanDelivery;

/* Commands that are submitted together, and the objects that they use. */
typedef struct BpVulkanBatch {
  VkCommandBuffer commands;
  VkDescriptorPool descriptors;
  int is_open;
  int32_t num_commands;
  int32_t num_descriptors;
  uint64_t value; /* the timeline's value when the batch is done */
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
  pthread_mutex_t lock; /* guards the members below */
  VkCommandPool pool;
  BpVulkanTimeline *timeline;
  BpVulkanBatch batches[BP_VULKAN_BATCHES];
  int32_t oldest, in_flight; /* a ring; the batch after those in flight is the one being filled */
  BpVulkanTimeline *waits[BP_VULKAN_WAITS]; /* timelines that the next batch waits for */
  uint64_t wait_values[BP_VULKAN_WAITS];
  int32_t num_waits;
  VkResult failure; /* failure of queued work; the next synchronisation raises it */
};

/* Returns the stream of a handle; NULL is the device's default stream. */
BpVulkanStream *bp_vulkan_stream(BpVulkanDevice *device, void *stream);
BpVulkanStream *bp_vulkan_stream_open(BpVulkanDevice *device);
/* Takes or makes a timeline (one reference); counting continues from its `value`. */
VkResult bp_vulkan_timeline_open(BpVulkanDevice *device, BpVulkanTimeline **timeline);
/* Makes work that is queued later on a stream wait for a timeline's value. Called without the
 * lock. */
void bp_vulkan_stream_wait(BpVulkanStream *stream, BpVulkanTimeline *timeline, uint64_t value);
/* Destroys the timelines that no stream has, when the device is destroyed. */
void bp_vulkan_destroy_timelines(BpVulkanDevice *device);
/* Returns the batch in which to record one more command, ordered after the earlier commands, with
 * room for `num_descriptors` descriptors. NULL with an error. Called between lock and unlock. The
 * lock is free while the call waits for a batch: the host may have to signal an event that batches
 * in flight wait for. */
BpVulkanBatch *bp_vulkan_begin(BpVulkanStream *stream, int32_t num_descriptors);
/* Keeps an object alive until the batch is done. -1 with an error. */
int32_t bp_vulkan_use(BpVulkanBatch *batch, BpVulkanShared *shared);
/* Copies bytes to the host when the batch is done. -1 with an error. */
int32_t bp_vulkan_deliver(BpVulkanBatch *batch, BpVulkanDelivery delivery);
/* Submits the recorded commands. A failure is stored in the stream. */
void bp_vulkan_flush(BpVulkanStream *stream);
/* Waits for all queued work and raises its failure. Called without the lock. */
int32_t bp_vulkan_wait(BpVulkanStream *stream);
/* Releases the objects that finished work used, on every stream of the device. */
void bp_vulkan_collect(BpVulkanDevice *device);

int32_t bp_vulkan_create_stream(void *context, int32_t device_id, void **stream);
int32_t bp_vulkan_free_stream(void *context, int32_t device_id, void *stream);
int32_t bp_vulkan_sync_from_to(void *context, int32_t device_id, void *from, void *to);
int32_t bp_vulkan_stream_sync(void *context, int32_t device_id, void *stream);

/* ---- external.c -------------------------------------------------------------------------- */

/* The most extensions that a device is opened with. */
#define BP_VULKAN_MOST_EXTENSIONS 8

/* Reads which forms of memory the device imports and exports. */
void bp_vulkan_read_external(BpVulkanInfo *info);
/* Writes the names of the extensions that external memory needs, and returns their number. */
uint32_t bp_vulkan_list_external(const BpVulkanInfo *info,
                                 const char *names[BP_VULKAN_MOST_EXTENSIONS]);
/* Finds the functions of the external memory extensions for an opened device. */
void bp_vulkan_load_external(BpVulkanDevice *device);
extern const BpExternalMemoryApi bp_vulkan_external;

/* ---- copy.c, timer.c, event.c ------------------------------------------------------------- */

int32_t bp_vulkan_copy(void *context, const BpCopy *copy, void *stream);
extern const BpTimerApi bp_vulkan_timers;
extern const BpEventsApi bp_vulkan_events;

/* ---- spirv.c ----------------------------------------------------------------------------- */

/* The kind of a binding. */
#define BP_VULKAN_UNUSED  0
#define BP_VULKAN_STORAGE 1 /* a storage buffer */
#define BP_VULKAN_TEXELS  2 /* a storage texel buffer of Vulkan */
#define BP_VULKAN_SCALARS 3 /* a uniform buffer with the scalars */

/* The needs of a kernel's binary; sizes in bytes. */
typedef struct BpVulkanNeeds {
  BpVulkanFeatures features;
  uint32_t local_size[3];
  uint64_t shared_bytes;
  uint8_t bindings[BP_KERNEL_MAX_ARGS + 1]; /* BP_VULKAN_*, by argument, then that of scalars */
  uint32_t formats[BP_KERNEL_MAX_ARGS + 1]; /* VkFormat of a texel buffer */
  uint32_t element_bytes[BP_KERNEL_MAX_ARGS + 1]; /* of a storage buffer; 0: unknown */
} BpVulkanNeeds;

/* Reads a SPIR-V binary, and checks the parts that it reads. `name` is for messages. */
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

/* A kernel of a module; it is the `built` of the module's entry. */
typedef struct BpVulkanKernel {
  const BpKernel *call;
  const uint32_t *words; /* the kernel's binary, within the module's code */
  size_t num_words;
  BpVulkanNeeds needs;
  uint32_t scalar_offsets[BP_KERNEL_MAX_ARGS];
  uint32_t scalar_bytes;
  int has_scalar_buffer; /* the scalars are in a uniform buffer, not push constants */
  pthread_mutex_t lock;
  BpVulkanPipeline *pipelines[BP_VULKAN_MOST_DEVICES]; /* guarded by lock */
} BpVulkanKernel;

/* The scalars of a kernel are push constants if they have at most this number of bytes, which every
 * device takes. */
#define BP_VULKAN_PUSH_BYTES 128
/* Returns the offset of the next scalar after *bytes bytes of scalars, and counts it. */
uint32_t bp_vulkan_place_scalar(BpDataType dtype, uint32_t *bytes);
/* Returns the pipeline for a device (transfer none), made by the first call; NULL with an error. */
BpVulkanPipeline *bp_vulkan_pipeline(BpVulkanKernel *kernel, BpVulkanDevice *device);
/* Launches a kernel on the current stream. */
int32_t bp_vulkan_launch(BpKernelModule *module, BpKernelEntry *entry,
                         const BpInvocation *invocation, const BpValue *args, int32_t num_args);
extern const BpKernelModuleKind bp_vulkan_module_kind;

/* ---- target.c, glslc.c ------------------------------------------------------------------- */

extern const BpTargetKind bp_vulkan_kind;
int bp_vulkan_build(void *self, const BpValue *args, int32_t num_args, BpValue *result);
/* Compiles functions, function i from sources[i], to a module's code (free). An error contains the
 * compiler's message and the numbered source. */
int32_t bp_vulkan_compile(const BpIrTable *ir, const BpIrModule *functions,
                          const BpOwnedBytes *sources, BpOwnedBytes *code);

#endif
