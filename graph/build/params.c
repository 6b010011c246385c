/* SPDX-License-Identifier: Apache-2.0 */
/* The table of parameters: constants as tensors; equal constants are stored once. */
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/tensor.h>

#include "graph/build/build.h"

#define LEAST_PLACES 64

static int is_equal(const BpTensor *tensor, const BpGraphValue *constant) {
  return tensor->view.ndim == constant->ndim &&
         bp__dtype_equal(tensor->view.dtype, constant->dtype) &&
         (constant->ndim == 0 || !memcmp(tensor->view.shape, constant->shape,
                                         (size_t)constant->ndim * sizeof(constant->shape[0]))) &&
         !memcmp(tensor->view.data, constant->data, (size_t)bp__value_num_bytes(constant));
}

/* ---- Places by hash ---------------------------------------------------------------------- */

/* The place of a constant with a hash: the first place, from the hash's place on, that contains the
 * constant or is empty. */
static size_t find_place(const BpParamTable *table, const BpGraphValue *constant, uint64_t hash) {
  size_t at = hash & (table->num_places - 1);
  while (table->places[at].index >= 0 &&
         (table->places[at].hash != hash ||
          !is_equal(table->tensors.items[table->places[at].index], constant)))
    at = (at + 1) & (table->num_places - 1);
  return at;
}

/* Doubles the number of places before more than half of them are taken. */
static int make_room(BpParamTable *table) {
  if (table->tensors.size * 2 < table->num_places)
    return 0;
  size_t count = table->num_places ? table->num_places * 2 : LEAST_PLACES;
  BpParamPlace *places = malloc(count * sizeof(*places));
  if (!places)
    return bp_error_raise(BP_ERROR_MEMORY, "out of memory for %zu parameters", count);
  for (size_t i = 0; i < count; i++)
    places[i].index = -1;
  for (size_t i = 0; i < table->num_places; i++) {
    size_t at = table->places[i].hash & (count - 1);
    if (table->places[i].index < 0)
      continue;
    while (places[at].index >= 0)
      at = (at + 1) & (count - 1);
    places[at] = table->places[i];
  }
  free(table->places);
  table->places = places;
  table->num_places = count;
  return 0;
}

/* ---- The table --------------------------------------------------------------------------- */

/* A large constant that was computed stays where it is. */
static BpTensor *make_tensor(const BpGraph *graph, const BpGraphValue *constant) {
  BpTensor *block = bp__graph_block(graph, constant);
  if (block)
    return bp_tensor_create_view(block, constant->shape, constant->ndim, constant->dtype, 0);
  int64_t bytes = bp__value_num_bytes(constant);
  BpTensor *tensor = bp_tensor_create(constant->shape, constant->ndim, constant->dtype,
                                      (BpDevice){BP_DEVICE_CPU, 0}, NULL);
  if (tensor && bytes > 0)
    memcpy((char *)tensor->view.data + tensor->view.byte_offset, constant->data, (size_t)bytes);
  return tensor;
}

int64_t bp__params_add(BpParamTable *table, const BpGraph *graph, const BpGraphValue *constant) {
  uint64_t hash = bp__hash_bytes(1, constant->data, (size_t)bp__value_num_bytes(constant));
  if (make_room(table))
    return -1;
  size_t at = find_place(table, constant, hash);
  if (table->places[at].index >= 0)
    return table->places[at].index;
  BpTensor *tensor = make_tensor(graph, constant);
  if (!tensor)
    return -1;
  if (bp__list_push(&table->tensors, tensor)) {
    bp_object_release(tensor);
    return -1;
  }
  table->places[at] = (BpParamPlace){hash, (int64_t)table->tensors.size - 1};
  return table->places[at].index;
}

void bp__params_clear(BpParamTable *table) {
  for (size_t i = 0; i < table->tensors.size; i++)
    bp_object_release(table->tensors.items[i]);
  bp__list_free(&table->tensors);
  free(table->places);
}
