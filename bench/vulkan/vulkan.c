/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugin vulkan adds to the driver: launches, copies and a graph of small kernels, beside
 * the same calls of the driver's own API in the same process. The two take turns; printed are the
 * least time of each and the ratio of the two, ours first. For devices whose memory the host maps,
 * such as lavapipe.
 *
 *   bench-vulkan [ROUNDS] */

#include <backplane/compiler/ir.h>
#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/executor.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/target.h>
#include <backplane/tensor.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <vulkan/vulkan.h>

#include "bench/chain.h"

#define LAUNCHES   100 /* in a batch */
#define GRAPH_RUNS 10  /* in a batch */
#define KERNELS    50  /* of the graph */
#define ELEMENTS   256 /* of each of its tensors */
#define COPY_BYTES ((size_t)64 << 20)

static const BpDevice device = {BP_DEVICE_VULKAN, 0};

static _Noreturn void fail(const char *what) {
  fprintf(stderr, "bench-vulkan: %s: %s\n", what, bp_error_message());
  exit(1);
}

static void must(int failed, const char *what) {
  if (failed)
    fail(what);
}

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

/* ---- Ours -------------------------------------------------------------------------------- */

static const char ir_text[] =
    "(module (function \"empty\" (buffer A float32 global 1) (seq))"
    " (function \"add_one\" (buffer A float32 global 256) (buffer B float32 global 256)"
    "  (for i:int64 0 4 parallel (for j:int64 0 64 serial (store B (add (mul i 64) j)"
    "  (add (load A (add (mul i 64) j)) 1:float32))))))";

static struct {
  BpModule *code, *graph;
  BpFunction *empty, *run, *get_output;
  BpTensor *large, *small;
} ours;

static char *host; /* COPY_BYTES of the host's memory */

static BpTensor *our_tensor(int64_t floats) {
  BpTensor *tensor =
      bp_tensor_create(&floats, 1, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, device, NULL);
  must(!tensor, "tensor");
  return tensor;
}

static void open_graph(void) {
  char *json = chain_json(KERNELS, ELEMENTS);
  BpFunction *set_input;
  must(!json, "memory");
  BpTensor *input = our_tensor(ELEMENTS);
  BpValue result,
      args[] = {{.type_index = BP_TYPE_RAW_STR, .v_cstr = "x"}, {.type_index = BP_TYPE_TENSOR}};
  args[1].v_obj = (BpObject *)(void *)input;
  must(bp_tensor_copy_from_host(&input->view, host, ELEMENTS * sizeof(float)), "input");
  ours.graph = bp_graph_executor_create(json, ours.code, device);
  must(!ours.graph, "graph");
  must(bp_module_get_function(ours.graph, "set_input", 0, &set_input) || !set_input ||
           bp_function_call(set_input, args, 2, &result),
       "set_input");
  must(bp_module_get_function(ours.graph, "run", 0, &ours.run) || !ours.run, "run");
  must(bp_module_get_function(ours.graph, "get_output", 0, &ours.get_output) || !ours.get_output,
       "get_output");
  bp_object_release(set_input);
  bp_object_release(input);
  free(json);
}

static void open_ours(void) {
  BpTarget *target = bp_target_from_device(device);
  BpIrModule *ir = bp_ir_parse(ir_text, strlen(ir_text));
  ours.code = target && ir ? bp_target_build(ir, target) : NULL;
  must(!ours.code, "code");
  must(bp_module_get_function(ours.code, "empty", 0, &ours.empty) || !ours.empty, "kernel");
  ours.large = our_tensor((int64_t)(COPY_BYTES / sizeof(float)));
  ours.small = our_tensor(1);
  bp_object_release(ir);
  bp_object_release(target);
}

/* ---- What is compared: seconds for one operation ----------------------------------------- */

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double our_launch(void) {
  BpValue result, arg = {.type_index = BP_TYPE_TENSOR};
  arg.v_obj = (BpObject *)(void *)ours.small;
  double began = now();
  for (int i = 0; i < LAUNCHES; i++) {
    result.type_index = BP_TYPE_NONE;
    must(bp_function_call(ours.empty, &arg, 1, &result), "launch");
    must(bp_stream_sync(device, NULL), "sync");
  }
  return (now() - began) / LAUNCHES;
}

static double raw_launch_and_wait(void) {
  double began = now();
  for (int i = 0; i < LAUNCHES; i++) {
    raw_begin();
    raw_launch(&raw.empty, &raw.empty_buffer, 1, 1);
    raw_submit_and_wait();
  }
  return (now() - began) / LAUNCHES;
}

static double our_copy_in(void) {
  double began = now();
  must(bp_tensor_copy_from_host(&ours.large->view, host, COPY_BYTES), "copy");
  must(bp_stream_sync(device, NULL), "sync");
  return now() - began;
}

static double raw_copy_in(void) {
  double began = now();
  memcpy(raw.large, host, COPY_BYTES);
  return now() - began;
}

static double our_copy_out(void) {
  double began = now();
  must(bp_tensor_copy_to_host(&ours.large->view, host, COPY_BYTES), "copy");
  return now() - began;
}

static double raw_copy_out(void) {
  double began = now();
  memcpy(host, raw.large, COPY_BYTES);
  return now() - began;
}

static double our_graph(void) {
  const BpValue index = {.type_index = BP_TYPE_INT};
  BpValue result;
  double began = now();
  for (int i = 0; i < GRAPH_RUNS; i++) {
    result.type_index = BP_TYPE_NONE;
    must(bp_function_call(ours.run, NULL, 0, &result), "run");
    must(bp_function_call(ours.get_output, &index, 1, &result), "get_output"); /* waits */
    bp_value_clear(&result);
  }
  return (now() - began) / GRAPH_RUNS;
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

static void compare(const char *what, int rounds, double bar, double (*our)(void),
                    double (*their)(void)) {
  double our_least = 1e9, their_least = 1e9;
  our(), their(); /* the driver compiles with the first launch */
  for (int i = 0; i < rounds; i++) {
    double took = our();
    our_least = took < our_least ? took : our_least;
    took = their();
    their_least = took < their_least ? took : their_least;
  }
  printf("%-28s %10.2f us  driver %10.2f us  ratio %.2f  at most %.2f\n", what, our_least * 1e6,
         their_least * 1e6, our_least / their_least, bar);
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 50;
  int32_t count = 0;
  const char *why = "";
  BpOwnedBytes empty, step;
  if (bp_device_count(BP_DEVICE_VULKAN, &count, &why) || count == 0) {
    printf("skipped: %s\n", why);
    return 0;
  }
  host = malloc(COPY_BYTES);
  must(!host, "memory");
  memset(host, 1, COPY_BYTES);
  open_ours();
  open_graph();
  must(bp_module_get_source(ours.code, "spv:empty", &empty), "binary");
  must(bp_module_get_source(ours.code, "spv:add_one", &step), "binary");
  open_raw(&empty, &step);
  compare("empty kernel and wait", rounds, 1.1, our_launch, raw_launch_and_wait);
  compare("64 MiB to the device", rounds / 5 + 1, 1.05, our_copy_in, raw_copy_in);
  compare("64 MiB from the device", rounds / 5 + 1, 1.05, our_copy_out, raw_copy_out);
  compare("graph of 50 small kernels", rounds, 1.15, our_graph, raw_graph);
  bp_owned_bytes_clear(&empty);
  bp_owned_bytes_clear(&step);
  bp_object_release(ours.get_output);
  bp_object_release(ours.run);
  bp_object_release(ours.graph);
  bp_object_release(ours.empty);
  bp_object_release(ours.large);
  bp_object_release(ours.small);
  bp_object_release(ours.code);
  free(host);
  return 0;
}
