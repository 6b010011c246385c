/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the driver's own API that the benchmarks need: one device whose memory the host maps,
 * one queue, one command buffer. A failure ends the program. */
#ifndef BENCH_VULKAN_RAW_H
#define BENCH_VULKAN_RAW_H

#include <stddef.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

#define RAW_MOST_BUFFERS 3

/* A buffer; its view is a texel view, or none. */
typedef struct RawBuffer {
  VkBuffer handle;
  VkBufferView view;
  char *mapped;
} RawBuffer;

/* A kernel whose bindings are its buffers, in order. */
typedef struct RawKernel {
  uint32_t num_buffers;
  VkDescriptorType types[RAW_MOST_BUFFERS];
  VkDescriptorSetLayout set_layout;
  VkPipelineLayout layout;
  VkPipeline pipeline;
} RawKernel;

/* `launches`: the most launches between raw_begin() and raw_submit_and_wait(). */
void raw_open(uint32_t launches);
/* `format` of the texels; VK_FORMAT_UNDEFINED for none. */
RawBuffer raw_buffer(size_t size, VkFormat format);
/* Makes a kernel. The constant with id 0 of the SPIR-V binary is set to `constant`. */
RawKernel raw_kernel(const char *binary, size_t size, const VkDescriptorType *types,
                     uint32_t num_buffers, int32_t constant);
void raw_begin(void);
/* Records a dispatch that runs after all earlier commands. */
void raw_launch(const RawKernel *kernel, const RawBuffer *const *buffers, uint32_t x, uint32_t y);
void raw_submit_and_wait(void);

#endif
