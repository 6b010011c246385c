/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that share memory. */
#ifndef BACKPLANE_GRAPH_IO_OVERLAP_H
#define BACKPLANE_GRAPH_IO_OVERLAP_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/tensor.h>

/* Whether two compact tensors share bytes, as far as handles tell. */
static inline bool bp__views_overlap(const BpTensorView *a, const BpTensorView *b) {
  uint64_t a_size = (uint64_t)bp_view_num_bytes(a), b_size = (uint64_t)bp_view_num_bytes(b);
  if (memcmp(&a->device, &b->device, sizeof(a->device)) != 0 || !a_size || !b_size)
    return false;
  bool is_host = a->device.device_type == BP_DEVICE_CPU;
  if (!is_host && a->data != b->data)
    return false;
  uint64_t a_begin = (is_host ? (uintptr_t)a->data : 0) + a->byte_offset;
  uint64_t b_begin = (is_host ? (uintptr_t)b->data : 0) + b->byte_offset;
  return a_begin < b_begin + b_size && b_begin < a_begin + a_size;
}

#endif
