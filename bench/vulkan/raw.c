/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's own API for the benchmarks: opening, buffers, kernels, launches. */
#include "bench/vulkan/raw.h"

#include "bench/beside_driver.h"

static struct {
  VkPhysicalDevice physical;
  VkDevice device;
  VkQueue queue;
  VkCommandPool pool;
  VkCommandBuffer commands;
  VkDescriptorPool descriptors;
  VkFence fence;
} raw;

/* ---- Opening ----------------------------------------------------------------------------- */

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

static void open_pools(uint32_t launches) {
  VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                  .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT};
  must(vkCreateCommandPool(raw.device, &pool, NULL, &raw.pool), "vkCreateCommandPool");
  VkCommandBufferAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                          .commandPool = raw.pool,
                                          .commandBufferCount = 1};
  must(vkAllocateCommandBuffers(raw.device, &allocate, &raw.commands), "vkAllocateCommandBuffers");
  VkDescriptorPoolSize sizes[] = {
      {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, RAW_MOST_BUFFERS * launches},
      {VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER, RAW_MOST_BUFFERS * launches}};
  VkDescriptorPoolCreateInfo descriptors = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                            .maxSets = launches,
                                            .poolSizeCount = 2,
                                            .pPoolSizes = sizes};
  must(vkCreateDescriptorPool(raw.device, &descriptors, NULL, &raw.descriptors),
       "vkCreateDescriptorPool");
  VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  must(vkCreateFence(raw.device, &fence, NULL, &raw.fence), "vkCreateFence");
}

void raw_open(uint32_t launches) {
  open_device();
  open_pools(launches);
}

/* ---- Buffers and kernels ----------------------------------------------------------------- */

RawBuffer raw_buffer(size_t size, VkFormat format) {
  RawBuffer buffer = {0};
  VkDeviceMemory memory;
  VkMemoryRequirements needs;
  void *data = NULL;
  VkBufferCreateInfo create = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .size = size,
                               .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                        VK_BUFFER_USAGE_STORAGE_TEXEL_BUFFER_BIT};
  must(vkCreateBuffer(raw.device, &create, NULL, &buffer.handle), "vkCreateBuffer");
  vkGetBufferMemoryRequirements(raw.device, buffer.handle, &needs);
  VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                   .allocationSize = needs.size};
  must(vkAllocateMemory(raw.device, &allocate, NULL, &memory), "vkAllocateMemory");
  must(vkBindBufferMemory(raw.device, buffer.handle, memory, 0), "vkBindBufferMemory");
  must(vkMapMemory(raw.device, memory, 0, VK_WHOLE_SIZE, 0, &data), "vkMapMemory");
  buffer.mapped = data;
  VkBufferViewCreateInfo view = {.sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO,
                                 .buffer = buffer.handle,
                                 .format = format,
                                 .range = VK_WHOLE_SIZE};
  if (format != VK_FORMAT_UNDEFINED)
    must(vkCreateBufferView(raw.device, &view, NULL, &buffer.view), "vkCreateBufferView");
  return buffer;
}

static void make_layouts(RawKernel *kernel) {
  VkDescriptorSetLayoutBinding bindings[RAW_MOST_BUFFERS];
  for (uint32_t i = 0; i < kernel->num_buffers; i++)
    bindings[i] =
        (VkDescriptorSetLayoutBinding){i, kernel->types[i], 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL};
  VkDescriptorSetLayoutCreateInfo set = {.sType =
                                             VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                         .bindingCount = kernel->num_buffers,
                                         .pBindings = bindings};
  must(vkCreateDescriptorSetLayout(raw.device, &set, NULL, &kernel->set_layout), "set layout");
  VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                       .setLayoutCount = 1,
                                       .pSetLayouts = &kernel->set_layout};
  must(vkCreatePipelineLayout(raw.device, &layout, NULL, &kernel->layout), "pipeline layout");
}

RawKernel raw_kernel(const char *binary, size_t size, const VkDescriptorType *types,
                     uint32_t num_buffers, int32_t constant) {
  RawKernel kernel = {.num_buffers = num_buffers};
  for (uint32_t i = 0; i < num_buffers; i++)
    kernel.types[i] = types[i];
  make_layouts(&kernel);
  VkShaderModuleCreateInfo code = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                   .codeSize = size,
                                   .pCode = (const uint32_t *)(const void *)binary};
  VkShaderModule shader;
  must(vkCreateShaderModule(raw.device, &code, NULL, &shader), "vkCreateShaderModule");
  const VkSpecializationMapEntry entry = {0, 0, sizeof(constant)};
  const VkSpecializationInfo constants = {1, &entry, sizeof(constant), &constant};
  VkComputePipelineCreateInfo create = {
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = shader,
                .pName = "main",
                .pSpecializationInfo = &constants},
      .layout = kernel.layout};
  must(vkCreateComputePipelines(raw.device, VK_NULL_HANDLE, 1, &create, NULL, &kernel.pipeline),
       "vkCreateComputePipelines");
  vkDestroyShaderModule(raw.device, shader, NULL);
  return kernel;
}

/* ---- Launching --------------------------------------------------------------------------- */

void raw_begin(void) {
  VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                    .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
  must(vkResetDescriptorPool(raw.device, raw.descriptors, 0), "vkResetDescriptorPool");
  must(vkBeginCommandBuffer(raw.commands, &begin), "vkBeginCommandBuffer");
}

void raw_launch(const RawKernel *kernel, const RawBuffer *const *buffers, uint32_t x, uint32_t y) {
  static const VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                          .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                                          .dstAccessMask = VK_ACCESS_SHADER_READ_BIT};
  VkDescriptorSet set;
  VkDescriptorBufferInfo parts[RAW_MOST_BUFFERS];
  VkWriteDescriptorSet writes[RAW_MOST_BUFFERS];
  VkDescriptorSetAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                          .descriptorPool = raw.descriptors,
                                          .descriptorSetCount = 1,
                                          .pSetLayouts = &kernel->set_layout};
  must(vkAllocateDescriptorSets(raw.device, &allocate, &set), "vkAllocateDescriptorSets");
  for (uint32_t i = 0; i < kernel->num_buffers; i++) {
    parts[i] = (VkDescriptorBufferInfo){buffers[i]->handle, 0, VK_WHOLE_SIZE};
    writes[i] = (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                       .dstSet = set,
                                       .dstBinding = i,
                                       .descriptorCount = 1,
                                       .descriptorType = kernel->types[i],
                                       .pBufferInfo = &parts[i],
                                       .pTexelBufferView = &buffers[i]->view};
  }
  vkUpdateDescriptorSets(raw.device, kernel->num_buffers, writes, 0, NULL);
  vkCmdPipelineBarrier(raw.commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                       VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
  vkCmdBindPipeline(raw.commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->pipeline);
  vkCmdBindDescriptorSets(raw.commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->layout, 0, 1, &set,
                          0, NULL);
  vkCmdDispatch(raw.commands, x, y, 1);
}

void raw_submit_and_wait(void) {
  VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                         .commandBufferCount = 1,
                         .pCommandBuffers = &raw.commands};
  must(vkEndCommandBuffer(raw.commands), "vkEndCommandBuffer");
  must(vkQueueSubmit(raw.queue, 1, &submit, raw.fence), "vkQueueSubmit");
  must(vkWaitForFences(raw.device, 1, &raw.fence, VK_TRUE, UINT64_MAX), "vkWaitForFences");
  must(vkResetFences(raw.device, 1, &raw.fence), "vkResetFences");
}
