/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters that TVM 0.8 linked into the code of a graph. A function of the code returns the
 * address of the value for a storage id, or nothing. */
#include "graph/exec/linked.h"

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>

#define LOOK_UP "_lookup_linked_param"

/* Copies the value at `data` to the plan's device (transfer full), with the type and shape of the
 * graph's entry. */
static BpTensor *copy_linked(const BpExecutorPlan *plan, uint32_t index, const void *data) {
  const BpCallEntry *entry = &plan->graph->entries[index];
  BpDevice device = plan->devices[entry->place];
  BpTensor *tensor = bp_tensor_create(entry->shape, entry->ndim, entry->dtype, device, NULL);
  if (tensor && bp_tensor_copy_from_host(&tensor->view, data, entry->bytes) == 0 &&
      bp_stream_sync(device, NULL) == 0)
    return tensor;
  bp_object_release(tensor);
  return NULL;
}

static int take_linked(const BpExecutorPlan *plan, BpFunction *function, uint32_t entry,
                       BpTensor **param) {
  BpValue storage = {.type_index = BP_TYPE_INT, .v_int64 = plan->graph->entries[entry].storage_id};
  BpValue found;
  if (bp_function_call(function, &storage, 1, &found) < 0)
    return -1;
  if (found.type_index == BP_TYPE_NONE)
    return 0;
  if (found.type_index != BP_TYPE_POINTER) {
    bp_error_raise(BP_ERROR_TYPE, LOOK_UP " gives a %s, not an address",
                   bp_type_name(found.type_index));
    bp_value_clear(&found);
    return -1;
  }
  *param = copy_linked(plan, entry, found.v_ptr);
  return *param ? 0 : -1;
}

int bp__executor_take_linked(const BpExecutorPlan *plan, BpTensor **params) {
  const BpCallGraph *graph = plan->graph;
  BpFunction *function;
  if (bp_module_get_function(plan->code, LOOK_UP, 1, &function) < 0)
    return -1;
  int status = 0;
  for (uint32_t i = 0; function && status == 0 && i < graph->num_args; i++) {
    const BpCallNode *node = &graph->nodes[graph->arg_nodes[i]];
    uint32_t entry = node->first_entry;
    if (!params[i] && take_linked(plan, function, entry, &params[i]) < 0)
      status = bp_error_add_context("parameter '%s', which is linked into the code", node->name);
  }
  bp_object_release(function);
  return status;
}
