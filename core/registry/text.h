/* SPDX-License-Identifier: Apache-2.0 */
/* The table of parts/text, the part of the core for texts that few programs need. */
#ifndef BACKPLANE_CORE_REGISTRY_TEXT_H
#define BACKPLANE_CORE_REGISTRY_TEXT_H

#include <backplane/target.h>
#include <backplane/tensor.h>

#define BP_MAX_NDIM 64 /* numpy's limit */

typedef struct Text {
  /* bp_dtype_decode. */
  int (*decode_element)(BpDataType dtype, const void *elements, uint64_t index, double *value);
  char *(*format_tensor)(const BpTensorView *tensor, int64_t threshold);
  /* Parses either text form of a target, which is untrusted (transfer full); the target is not yet
   * completed. */
  BpTarget *(*parse_target)(const char *text);
  char *(*format_options)(const BpTarget *target);
  char *(*format_json)(const BpTarget *target);
} Text;

#endif
