/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugin vulkan adds to the driver: launches, copies and a graph of small kernels, beside
 * the same calls of the driver's own API in the same process. The two take turns; printed are the
 * least time of each and the ratio of the two, ours first. For devices whose memory the host maps,
 * such as lavapipe.
 *
 *   bench-vulkan [ROUNDS] */

#include <backplane/module.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

#include "bench/beside_driver.h"

/* ---- The driver's own API ---------------------------------------------------------------- */

/* A kernel with two storage buffers at most. */
typedef struct Kernel {
  VkDescriptorSetLayout set_layout;
  VkPipelineLayout layout;
  VkPipeline pipeline;
} Kernel;

static struct {
  VkPhysicalDevice physical;
  VkDevice device;
  VkQueue queue;
  VkCommandPool pool;
  VkCommandBuffer commands;
  VkDescriptorPool descriptors;
  VkFence fence;
  Kernel empty, step;
  VkBuffer empty_buffer, values[KERNELS + 1];
  char *large;
} raw;

static void open_device(void) {
  static const float priority = 1;
  VkInstance instance;
  uint32_t count = 1;
  VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                   .apiVersion = VK_API_VERSION_1_2};
  VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                               .pApplicationInfo = &application};
  must(vkCreateInstance(&info, NULL, &instance), "vkCreateInstance");
  VkResult status = vkEnumeratePhysicalDevices(instance, &count, &raw.physical);
  must(status != VK_SUCCESS && status != VK_INCOMPLETE, "vkEnumeratePhysicalDevices");
  VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                   .queueCount = 1,
                                   .pQueuePriorities = &priority};
  VkDeviceCreateInfo create = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue};
  must(vkCreateDevice(raw.physical, &create, NULL, &raw.device), "vkCreateDevice");
  vkGetDeviceQueue(raw.device, 0, 0, &raw.queue);
}

static void open_pools(void) {
  VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                  .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT};
  must(vkCreateCommandPool(raw.device, &pool, NULL, &raw.pool), "vkCreateCommandPool");
  VkCommandBufferAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                          .commandPool = raw.pool,
                                          .commandBufferCount = 1};
  must(vkAllocateCommandBuffers(raw.device, &allocate, &raw.commands), "vkAllocateCommandBuffers");
  VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 2 * KERNELS};
  VkDescriptorPoolCreateInfo descriptors = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                            .maxSets = KERNELS,
                                            .poolSizeCount = 1,
                                            .pPoolSizes = &size};
  must(vkCreateDescriptorPool(raw.device, &descriptors, NULL, &raw.descriptors),
       "vkCreateDescriptorPool");
  VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  must(vkCreateFence(raw.device, &fence, NULL, &raw.fence), "vkCreateFence");
}

/* A buffer in memory that the host maps. */
static VkBuffer raw_buffer(size_t size, char **mapped) {
  VkBuffer buffer;
  VkDeviceMemory memory;
  VkMemoryRequirements needs;
  void *data = NULL;
  VkBufferCreateInfo create = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .size = size,
                               .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
  must(vkCreateBuffer(raw.device, &create, NULL, &buffer), "vkCreateBuffer");
  vkGetBufferMemoryRequirements(raw.device, buffer, &needs);
  VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                   .allocationSize = needs.size};
  must(vkAllocateMemory(raw.device, &allocate, NULL, &memory), "vkAllocateMemory");
  must(vkBindBufferMemory(raw.device, buffer, memory, 0), "vkBindBufferMemory");
  if (mapped)
    must(vkMapMemory(raw.device, memory, 0, VK_WHOLE_SIZE, 0, &data), "vkMapMemory");
  if (mapped)
    *mapped = data;
  return buffer;
}

static void make_kernel(Kernel *kernel, const BpOwnedBytes *binary, uint32_t num_buffers) {
  VkDescriptorSetLayoutBinding bindings[2];
  for (uint32_t i = 0; i < num_buffers; i++)
    bindings[i] = (VkDescriptorSetLayoutBinding){i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1,
                                                 VK_SHADER_STAGE_COMPUTE_BIT, NULL};
  VkDescriptorSetLayoutCreateInfo set = {.sType =
                                             VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                         .bindingCount = num_buffers,
                                         .pBindings = bindings};
  must(vkCreateDescriptorSetLayout(raw.device, &set, NULL, &kernel->set_layout), "set layout");
  VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                       .setLayoutCount = 1,
                                       .pSetLayouts = &kernel->set_layout};
  must(vkCreatePipelineLayout(raw.device, &layout, NULL, &kernel->layout), "pipeline layout");
  VkShaderModuleCreateInfo code = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                   .codeSize = binary->size,
                                   .pCode = (const uint32_t *)(const void *)binary->data};
  VkShaderModule shader;
  must(vkCreateShaderModule(raw.device, &code, NULL, &shader), "vkCreateShaderModule");
  VkComputePipelineCreateInfo create = {
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = shader,
                .pName = "main"},
      .layout = kernel->layout};
  must(vkCreateComputePipelines(raw.device, VK_NULL_HANDLE, 1, &create, NULL, &kernel->pipeline),
       "vkCreateComputePipelines");
}

static void open_raw(const BpOwnedBytes *empty, const BpOwnedBytes *step) {
  open_device();
  open_pools();
  make_kernel(&raw.empty, empty, 1);
  make_kernel(&raw.step, step, 2);
  raw_buffer(COPY_BYTES, &raw.large);
  raw.empty_buffer = raw_buffer(16, NULL);
  for (int i = 0; i <= KERNELS; i++)
    raw.values[i] = raw_buffer(ELEMENTS * sizeof(float), NULL);
}

static void raw_begin(void) {
  VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                    .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
  must(vkResetDescriptorPool(raw.device, raw.descriptors, 0), "vkResetDescriptorPool");
  must(vkBeginCommandBuffer(raw.commands, &begin), "vkBeginCommandBuffer");
}

/* Records a dispatch after what comes before. */
static void raw_launch(const Kernel *kernel, const VkBuffer *buffers, uint32_t count,
                       uint32_t groups) {
  static const VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                          .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                                          .dstAccessMask = VK_ACCESS_SHADER_READ_BIT};
  VkDescriptorSet set;
  VkDescriptorBufferInfo parts[2];
  VkWriteDescriptorSet writes[2];
  VkDescriptorSetAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                          .descriptorPool = raw.descriptors,
                                          .descriptorSetCount = 1,
                                          .pSetLayouts = &kernel->set_layout};
  must(vkAllocateDescriptorSets(raw.device, &allocate, &set), "vkAllocateDescriptorSets");
  for (uint32_t i = 0; i < count; i++) {
    parts[i] = (VkDescriptorBufferInfo){buffers[i], 0, VK_WHOLE_SIZE};
    writes[i] = (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                       .dstSet = set,
                                       .dstBinding = i,
                                       .descriptorCount = 1,
                                       .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                       .pBufferInfo = &parts[i]};
  }
  vkUpdateDescriptorSets(raw.device, count, writes, 0, NULL);
  vkCmdPipelineBarrier(raw.commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                       VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
  vkCmdBindPipeline(raw.commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->pipeline);
  vkCmdBindDescriptorSets(raw.commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->layout, 0, 1, &set,
                          0, NULL);
  vkCmdDispatch(raw.commands, groups, 1, 1);
}

static void raw_submit_and_wait(void) {
  VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                         .commandBufferCount = 1,
                         .pCommandBuffers = &raw.commands};
  must(vkEndCommandBuffer(raw.commands), "vkEndCommandBuffer");
  must(vkQueueSubmit(raw.queue, 1, &submit, raw.fence), "vkQueueSubmit");
  must(vkWaitForFences(raw.device, 1, &raw.fence, VK_TRUE, UINT64_MAX), "vkWaitForFences");
  must(vkResetFences(raw.device, 1, &raw.fence), "vkResetFences");
}

/* ---- Seconds for one operation ----------------------------------------------------------- */

static double raw_launch_and_wait(void) {
  double began = now();
  for (int i = 0; i < LAUNCHES; i++) {
    raw_begin();
    raw_launch(&raw.empty, &raw.empty_buffer, 1, 1);
    raw_submit_and_wait();
  }
  return (now() - began) / LAUNCHES;
}

static double raw_copy_in(void) {
  double began = now();
  memcpy(raw.large, host, COPY_BYTES);
  return now() - began;
}

static double raw_copy_out(void) {
  double began = now();
  memcpy(host, raw.large, COPY_BYTES);
  return now() - began;
}

static double raw_graph(void) {
  double began = now();
  for (int i = 0; i < GRAPH_RUNS; i++) {
    raw_begin();
    for (int k = 0; k < KERNELS; k++)
      raw_launch(&raw.step, &raw.values[k], 2, 4);
    raw_submit_and_wait();
  }
  return (now() - began) / GRAPH_RUNS;
}

static const Driver driver = {raw_launch_and_wait, raw_copy_in, raw_copy_out, raw_graph};

/* For the target kind vulkan, which has no vectors. */
static const char ir_text[] =
    "(module " EMPTY_IR
    " (function \"add_one\" (buffer A float32 global 256) (buffer B float32 global 256)"
    "  (for i:int64 0 4 parallel (for j:int64 0 64 serial (store B (add (mul i 64) j)"
    "  (add (load A (add (mul i 64) j)) 1:float32))))))";

int main(int argc, char **argv) {
  BpOwnedBytes empty, step;
  if (!open_ours("bench-vulkan", BP_DEVICE_VULKAN, ir_text))
    return 0;
  must(bp_module_get_source(ours.code, "spv:empty", &empty), "binary");
  must(bp_module_get_source(ours.code, "spv:add_one", &step), "binary");
  open_raw(&empty, &step);
  compare_with_driver(argc > 1 ? atoi(argv[1]) : 50, &driver);
  bp_owned_bytes_clear(&empty);
  bp_owned_bytes_clear(&step);
  close_ours();
  return 0;
}
