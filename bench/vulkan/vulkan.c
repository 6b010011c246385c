/* SPDX-License-Identifier: Apache-2.0 */
/* Measures what the plugin vulkan adds to the driver: launches, copies and a graph of small
 * kernels, beside the same calls of the driver's own API in the same process. Backplane and the
 * driver take turns; the program prints the shortest time of each and the ratio of Backplane's time
 * to the driver's. For devices whose memory the host maps, such as lavapipe.
 *
 *   bench-vulkan [ROUNDS] */

#include <backplane/module.h>
#include <stdlib.h>
#include <string.h>

#include "bench/beside_driver.h"
#include "bench/vulkan/raw.h"

/* ---- The driver's own API ---------------------------------------------------------------- */

static struct {
  RawKernel empty, step;
  RawBuffer small, large, values[KERNELS + 1];
} raw;

static void open_raw(const BpOwnedBytes *empty, const BpOwnedBytes *step) {
  const VkDescriptorType storage[] = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                      VK_DESCRIPTOR_TYPE_STORAGE_BUFFER};
  raw_open(KERNELS);
  raw.empty = raw_kernel(empty->data, empty->size, storage, 1, 0);
  raw.step = raw_kernel(step->data, step->size, storage, 2, 0);
  raw.large = raw_buffer(COPY_BYTES, VK_FORMAT_UNDEFINED);
  raw.small = raw_buffer(16, VK_FORMAT_UNDEFINED);
  for (int i = 0; i <= KERNELS; i++)
    raw.values[i] = raw_buffer(ELEMENTS * sizeof(float), VK_FORMAT_UNDEFINED);
}

/* ---- Seconds for one operation ----------------------------------------------------------- */

static double raw_launch_and_wait(void) {
  double began = now();
  for (int i = 0; i < LAUNCHES; i++) {
    raw_begin();
    raw_launch(&raw.empty, (const RawBuffer *const[]){&raw.small}, 1, 1);
    raw_submit_and_wait();
  }
  return (now() - began) / LAUNCHES;
}

static double raw_copy_in(void) {
  double began = now();
  memcpy(raw.large.mapped, host, COPY_BYTES);
  return now() - began;
}

static double raw_copy_out(void) {
  double began = now();
  memcpy(host, raw.large.mapped, COPY_BYTES);
  return now() - began;
}

static double raw_graph(void) {
  double began = now();
  for (int i = 0; i < GRAPH_RUNS; i++) {
    raw_begin();
    for (int k = 0; k < KERNELS; k++)
      raw_launch(&raw.step, (const RawBuffer *const[]){&raw.values[k], &raw.values[k + 1]}, 4, 1);
    raw_submit_and_wait();
  }
  return (now() - began) / GRAPH_RUNS;
}

static const Driver driver = {{1.1, 0}, raw_launch_and_wait, raw_copy_in, raw_copy_out, raw_graph};

/* The source for target kind vulkan, which has no vectors. */
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
