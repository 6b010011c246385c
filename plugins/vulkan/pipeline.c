/* SPDX-License-Identifier: Apache-2.0 */
/* Building kernels for a device: the needs of a binary are compared with the device's features,
 * then the driver compiles it. */
#include "vulkan.h"

#include <stdlib.h>

/* ---- Missing features of the device ------------------------------------------------------ */

static int32_t lacks(const BpVulkanKernel *kernel, const BpVulkanDevice *device, const char *what) {
  return bp_plugin_raise(
      &bp_vulkan_host, BP_ERROR_NOT_IMPLEMENTED,
      "kernel %s needs %s, which %s has not; compile it for the target that `backplane inspect "
      "vulkan:%d` shows",
      kernel->call->name, what, device->info->properties.deviceName, device->id);
}

static int32_t check_features(const BpVulkanKernel *kernel, const BpVulkanDevice *device) {
  const BpVulkanFeatures *needs = &kernel->needs.features, *has = &device->info->features;
  if (needs->int8 > has->int8 || needs->storage8 > has->storage8)
    return lacks(kernel, device, "8-bit integers");
  if (needs->int16 > has->int16 || needs->storage16 > has->storage16)
    return lacks(kernel, device, "16-bit integers");
  if (needs->int64 > has->int64)
    return lacks(kernel, device, "64-bit integers");
  if (needs->float16 > has->float16)
    return lacks(kernel, device, "16-bit floats");
  if (needs->even16 > has->even16)
    return lacks(kernel, device, "16-bit floats that are rounded to even");
  if (needs->float64 > has->float64)
    return lacks(kernel, device, "64-bit floats");
  return 0;
}

static int32_t too_large(const BpVulkanKernel *kernel, const char *what, uint64_t needed,
                         uint64_t most) {
  return bp_plugin_raise(&bp_vulkan_host, BP_ERROR_VALUE,
                         "kernel %s: %s: %llu; the device has %llu", kernel->call->name, what,
                         (unsigned long long)needed, (unsigned long long)most);
}

static int32_t check_limits(const BpVulkanKernel *kernel, const BpVulkanDevice *device) {
  static const char *const axes[] = {"threads of a block along x", "threads of a block along y",
                                     "threads of a block along z"};
  const VkPhysicalDeviceLimits *limits = &device->info->properties.limits;
  const BpVulkanNeeds *needs = &kernel->needs;
  uint64_t threads = 1;
  for (int i = 0; i < 3; i++) {
    threads *= needs->local_size[i];
    if (needs->local_size[i] > limits->maxComputeWorkGroupSize[i])
      return too_large(kernel, axes[i], needs->local_size[i], limits->maxComputeWorkGroupSize[i]);
  }
  if (threads > limits->maxComputeWorkGroupInvocations)
    return too_large(kernel, "threads of a block", threads, limits->maxComputeWorkGroupInvocations);
  if (needs->shared_bytes > limits->maxComputeSharedMemorySize)
    return too_large(kernel, "bytes of shared memory", needs->shared_bytes,
                     limits->maxComputeSharedMemorySize);
  uint32_t scalars_limit =
      kernel->has_scalar_buffer ? limits->maxUniformBufferRange : limits->maxPushConstantsSize;
  if (kernel->scalar_bytes > scalars_limit)
    return too_large(kernel, "bytes of scalar arguments", kernel->scalar_bytes, scalars_limit);
  uint64_t count[3] = {0, 0, 0};
  for (int32_t i = 0; i < kernel->call->num_args; i++)
    count[needs->bindings[i]]++;
  if (count[BP_VULKAN_STORAGE] > limits->maxPerStageDescriptorStorageBuffers)
    return too_large(kernel, "buffers", count[BP_VULKAN_STORAGE],
                     limits->maxPerStageDescriptorStorageBuffers);
  if (count[BP_VULKAN_TEXELS] > limits->maxPerStageDescriptorStorageImages)
    return too_large(kernel, "texel buffers", count[BP_VULKAN_TEXELS],
                     limits->maxPerStageDescriptorStorageImages);
  return 0;
}

/* ---- Creating ---------------------------------------------------------------------------- */

static void destroy(BpVulkanShared *shared) {
  BpVulkanPipeline *pipeline = (BpVulkanPipeline *)shared;
  VkDevice device = pipeline->device->handle;
  bp_vk.vkDestroyPipeline(device, pipeline->handle, NULL);
  bp_vk.vkDestroyPipelineLayout(device, pipeline->layout, NULL);
  bp_vk.vkDestroyDescriptorSetLayout(device, pipeline->set_layout, NULL);
  free(pipeline);
}

static VkResult make_layouts(const BpVulkanKernel *kernel, BpVulkanPipeline *pipeline) {
  static const VkDescriptorType types[] = {[BP_VULKAN_STORAGE] = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                           [BP_VULKAN_TEXELS] =
                                               VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER,
                                           [BP_VULKAN_SCALARS] = VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER};
  VkDescriptorSetLayoutBinding bindings[BP_KERNEL_MAX_ARGS + 1];
  VkDevice device = pipeline->device->handle;
  uint32_t count = 0;
  for (uint32_t i = 0; i <= (uint32_t)kernel->call->num_args; i++) {
    if (kernel->needs.bindings[i] != BP_VULKAN_UNUSED)
      bindings[count++] = (VkDescriptorSetLayoutBinding){i, types[kernel->needs.bindings[i]], 1,
                                                         VK_SHADER_STAGE_COMPUTE_BIT, NULL};
  }
  VkDescriptorSetLayoutCreateInfo set = {.sType =
                                             VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                         .bindingCount = count,
                                         .pBindings = bindings};
  int is_pushed = kernel->scalar_bytes && !kernel->has_scalar_buffer;
  VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, kernel->scalar_bytes};
  VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                       .setLayoutCount = 1,
                                       .pSetLayouts = &pipeline->set_layout,
                                       .pushConstantRangeCount = is_pushed ? 1 : 0,
                                       .pPushConstantRanges = &push};
  VkResult status = bp_vk.vkCreateDescriptorSetLayout(device, &set, NULL, &pipeline->set_layout);
  if (status == VK_SUCCESS)
    status = bp_vk.vkCreatePipelineLayout(device, &layout, NULL, &pipeline->layout);
  return status;
}

static VkResult compile(const BpVulkanKernel *kernel, BpVulkanPipeline *pipeline) {
  VkDevice device = pipeline->device->handle;
  VkShaderModule shader;
  VkShaderModuleCreateInfo code = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                   .codeSize = kernel->num_words * 4,
                                   .pCode = kernel->words};
  VkResult status = bp_vk.vkCreateShaderModule(device, &code, NULL, &shader);
  if (status != VK_SUCCESS)
    return status;
  VkComputePipelineCreateInfo create = {
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = shader,
                .pName = "main"},
      .layout = pipeline->layout};
  status = bp_vk.vkCreateComputePipelines(device, pipeline->device->cache, 1, &create, NULL,
                                          &pipeline->handle);
  bp_vk.vkDestroyShaderModule(device, shader, NULL);
  return status;
}

static BpVulkanPipeline *make_pipeline(const BpVulkanKernel *kernel, BpVulkanDevice *device) {
  if (check_features(kernel, device) != 0 || check_limits(kernel, device) != 0)
    return NULL;
  BpVulkanPipeline *pipeline = calloc(1, sizeof(*pipeline));
  VkResult status = VK_ERROR_OUT_OF_HOST_MEMORY;
  if (pipeline) {
    pipeline->shared = (BpVulkanShared){1, destroy};
    pipeline->device = device;
    status = make_layouts(kernel, pipeline);
    if (status == VK_SUCCESS)
      status = compile(kernel, pipeline);
  }
  if (status == VK_SUCCESS) {
    __atomic_store_n(&device->is_cache_stale, 1, __ATOMIC_RELEASE);
    return pipeline;
  }
  if (pipeline)
    bp_vulkan_release(&pipeline->shared);
  bp_vulkan_note(device, status);
  bp_vulkan_raise(status, "vkCreateComputePipelines");
  bp_plugin_add_context(&bp_vulkan_host, "kernel %s", kernel->call->name);
  return NULL;
}

BpVulkanPipeline *bp_vulkan_pipeline(BpVulkanKernel *kernel, BpVulkanDevice *device) {
  pthread_mutex_lock(&kernel->lock);
  if (!kernel->pipelines[device->id])
    kernel->pipelines[device->id] = make_pipeline(kernel, device);
  BpVulkanPipeline *pipeline = kernel->pipelines[device->id];
  pthread_mutex_unlock(&kernel->lock);
  return pipeline;
}
