/* SPDX-License-Identifier: Apache-2.0 */
/* The executor: one view for each entry of the graph, one block of device memory for each storage
 * id, one prepared call for each operator.
 *
 * On a device and the host the two overlap. Calls are ordered so that the device is given all that
 * it can have before the host works (order.h). A copy to the host is queued and an event recorded
 * behind it; the host waits for the event before the first call that uses the memory copied to, and
 * at the end of a run. Before the host works it records an event behind all else, too: a driver may
 * keep work back until somebody waits for it. */
#include "graph/exec/executor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/exec/order.h"
#include "graph/io/clock.h"

#define STORAGE_ALIGNMENT 256

/* One operator: the function and its arguments, the views of its inputs, then of its outputs, then
 * the extents of its launch if it is a kernel. */
typedef struct Call {
  BpFunction *function;
  const BpValue *args;
  int32_t num_args;
  uint32_t node;
  BpEvent *copied;                /* recorded after a copy to the host; else NULL */
  uint32_t first_wait, last_wait; /* of executor->waits: the copies that are waited for before */
  int hands_over;                 /* before them: records executor->handed_over */
} Call;

struct BpExecutor {
  BpExecutorPlan plan;
  void *streams[BP_GRAPH_MOST_DEVICES]; /* of plan.devices */
  uint32_t num_streams;
  BpTensorView *views;   /* by entry */
  BpTensorView *flat;    /* the same as vectors, where a node flattens; else NULL */
  int64_t *num_elements; /* by entry, the shapes behind `flat` */
  void **storage;        /* by storage id; NULL where a parameter or bound input is used instead */
  BpTensor **bound;      /* by argument: the caller's tensor in use, or NULL */
  unsigned char *ready;  /* by argument: it has a value */
  BpTensor **outputs;    /* by head */
  BpValue *args;         /* of all calls */
  Call *calls;
  uint32_t num_calls;
  uint32_t *waits; /* calls that copy to the host, in the order in which the host waits for them */
  uint32_t num_waits;
  BpEvent *handed_over; /* of the device beside the host; nobody waits for it */
};

static int32_t arg_storage(const BpExecutor *executor, uint32_t arg) {
  const BpGraph *graph = executor->plan.graph;
  return graph->entries[graph->nodes[graph->arg_nodes[arg]].first_entry].storage_id;
}

static const char *arg_name(const BpExecutor *executor, uint32_t arg) {
  const BpGraph *graph = executor->plan.graph;
  return graph->nodes[graph->arg_nodes[arg]].name;
}

/* ---- Storage ----------------------------------------------------------------------------- */

/* Makes every entry of a storage id lie at `data`, `offset` bytes in. */
static void point_storage(BpExecutor *executor, int32_t storage, void *data, uint64_t offset) {
  const BpGraph *graph = executor->plan.graph;
  uint32_t entry = graph->storages[storage].last_entry;
  for (; entry != BP_NO_ENTRY; entry = graph->entries[entry].previous) {
    executor->views[entry].data = data;
    executor->views[entry].byte_offset = offset;
    if (executor->flat) {
      executor->flat[entry].data = data;
      executor->flat[entry].byte_offset = offset;
    }
  }
}

uint32_t bp__executor_place(const BpExecutorPlan *plan, uint32_t entry) {
  int32_t type = plan->graph->entries[entry].device_type;
  for (uint32_t i = 0; type != 0 && i < plan->num_devices; i++)
    if (plan->devices[i].device_type == type)
      return i;
  return type == 0 ? 0 : plan->num_devices;
}

/* The device of an entry, all of whose storage lies there. */
static BpDevice device_of(const BpExecutor *executor, uint32_t entry) {
  return executor->plan.devices[bp__executor_place(&executor->plan, entry)];
}

static BpDevice storage_device(const BpExecutor *executor, int32_t storage) {
  return device_of(executor, executor->plan.graph->storages[storage].last_entry);
}

static int allocate_storage(BpExecutor *executor, int32_t storage) {
  const BpDataType bytes = {BP_DTYPE_UINT, 8, 1};
  uint64_t size = executor->plan.graph->storages[storage].bytes;
  if (bp_device_alloc(
          storage_device(executor, storage),
          &(BpAllocation){sizeof(BpAllocation), size, STORAGE_ALIGNMENT, bytes, 0, NULL},
          &executor->storage[storage]) < 0)
    return bp_error_add_context("%" PRIu64 " bytes of storage for the graph", size);
  point_storage(executor, storage, executor->storage[storage], 0);
  return 0;
}

static void create_views(BpExecutor *executor) {
  const BpGraph *graph = executor->plan.graph;
  for (uint32_t i = 0; i < graph->num_entries; i++) {
    executor->views[i] = (BpTensorView){.device = device_of(executor, i),
                                        .ndim = graph->entries[i].ndim,
                                        .dtype = graph->entries[i].dtype,
                                        .shape = graph->entries[i].shape};
    if (!executor->flat)
      continue;
    executor->num_elements[i] = bp_view_num_elements(&executor->views[i]);
    executor->flat[i] = executor->views[i];
    executor->flat[i].ndim = 1;
    executor->flat[i].shape = &executor->num_elements[i];
  }
}

/* Parameters lie where they are; all else is allocated. */
static int create_storage(BpExecutor *executor) {
  const BpGraph *graph = executor->plan.graph;
  for (uint32_t i = 0; i < graph->num_args; i++) {
    BpTensor *param = executor->plan.params[i];
    if (param)
      point_storage(executor, arg_storage(executor, i), param->view.data, param->view.byte_offset);
    executor->ready[i] = param != NULL;
  }
  for (uint32_t i = 0; i < graph->num_entries; i++) {
    int32_t storage = graph->entries[i].storage_id;
    if (!executor->views[i].data && !executor->storage[storage] &&
        allocate_storage(executor, storage) < 0)
      return -1;
  }
  return 0;
}

/* ---- Calls ------------------------------------------------------------------------------- */

static BpFunction *find_function(BpModule *code, const char *name) {
  BpFunction *function;
  if (bp_module_get_function(code, name, 1, &function) < 0)
    return NULL;
  if (!function)
    bp_error_raise(BP_ERROR_NOT_FOUND, "the graph calls '%s', which its code does not have", name);
  return function;
}

static size_t num_args(const BpGraphNode *node) {
  return (size_t)node->num_inputs + node->num_outputs + node->num_launch;
}

static int prepare_call(BpExecutor *executor, uint32_t index, BpValue *args) {
  const BpGraphNode *node = &executor->plan.graph->nodes[index];
  BpTensorView *views = node->flattens ? executor->flat : executor->views;
  Call *call = &executor->calls[executor->num_calls];
  call->function = node->is_copy ? NULL : find_function(executor->plan.code, node->function);
  if (!call->function && !node->is_copy)
    return -1;
  executor->num_calls++;
  call->args = args;
  call->node = index;
  call->num_args = (int32_t)num_args(node);
  for (uint32_t i = 0; i < node->num_inputs; i++)
    *args++ = (BpValue){.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &views[node->inputs[i]]};
  for (uint32_t i = 0; i < node->num_outputs; i++)
    *args++ = (BpValue){.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &views[node->first_entry + i]};
  for (uint32_t i = 0; i < node->num_launch; i++)
    *args++ = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = node->launch[i]};
  return 0;
}

static int is_operator(const BpGraphNode *node) {
  return node->function && *node->function;
}

/* Whether the host and one other device run the graph. */
static int is_beside_host(const BpExecutorPlan *plan) {
  const BpDevice host = {BP_DEVICE_CPU, 0};
  return plan->num_devices == 2 && (!memcmp(&plan->devices[0], &host, sizeof(host)) !=
                                    !memcmp(&plan->devices[1], &host, sizeof(host)));
}

/* The other one then. */
static uint32_t beside_host(const BpExecutorPlan *plan) {
  return plan->devices[0].device_type == BP_DEVICE_CPU ? 1 : 0;
}

static int is_on_host(const BpExecutor *executor, uint32_t entry) {
  return device_of(executor, entry).device_type == BP_DEVICE_CPU;
}

static BpCallKind call_kind(const BpExecutor *executor, const BpGraphNode *node) {
  int is_host = node->num_outputs  ? is_on_host(executor, node->first_entry)
                : node->num_inputs ? is_on_host(executor, node->inputs[0])
                                   : 1;
  if (node->is_copy)
    return is_host ? BP_CALL_COPY_TO_HOST : BP_CALL_COPY_TO_DEVICE;
  return is_host ? BP_CALL_ON_HOST : BP_CALL_ON_DEVICE;
}

/* The nodes that are called, in order; counts their arguments. */
static uint32_t find_operators(const BpGraph *graph, uint32_t *nodes, size_t *all_args) {
  uint32_t count = 0;
  *all_args = 0;
  for (uint32_t i = 0; i < graph->num_nodes; i++)
    if (is_operator(&graph->nodes[i])) {
      nodes[count++] = i;
      *all_args += num_args(&graph->nodes[i]);
    }
  return count;
}

static int order_operators(const BpExecutor *executor, uint32_t *nodes, uint32_t count) {
  if (!is_beside_host(&executor->plan))
    return 0;
  BpCallKind *kinds = calloc((size_t)count + 1, sizeof(*kinds));
  if (!kinds)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the calls of the graph");
  for (uint32_t i = 0; i < count; i++)
    kinds[i] = call_kind(executor, &executor->plan.graph->nodes[nodes[i]]);
  int status = bp__order_calls(executor->plan.graph, nodes, kinds, count);
  free(kinds);
  return status;
}

static int prepare_operators(BpExecutor *executor, uint32_t *nodes) {
  size_t all_args;
  uint32_t count = find_operators(executor->plan.graph, nodes, &all_args);
  executor->calls = calloc((size_t)count + 1, sizeof(*executor->calls));
  executor->args = calloc(all_args + 1, sizeof(*executor->args));
  if (!executor->calls || !executor->args)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the calls of the graph");
  if (order_operators(executor, nodes, count) < 0)
    return -1;
  BpValue *args = executor->args;
  for (uint32_t i = 0; i < count; i++) {
    if (prepare_call(executor, nodes[i], args) < 0)
      return -1;
    args += num_args(&executor->plan.graph->nodes[nodes[i]]);
  }
  return 0;
}

static int prepare_calls(BpExecutor *executor) {
  uint32_t *nodes = calloc((size_t)executor->plan.graph->num_nodes + 1, sizeof(*nodes));
  int status = nodes ? prepare_operators(executor, nodes)
                     : bp_error_raise(BP_ERROR_MEMORY, "no memory for the calls of the graph");
  free(nodes);
  return status;
}

/* ---- Copies to the host ------------------------------------------------------------------ */

#define NO_COPY UINT32_MAX

/* The call before which the host waits for the copy into a storage, if that is under way. */
static void wait_for_storage(BpExecutor *executor, uint32_t *copies, uint32_t entry) {
  int32_t storage = executor->plan.graph->entries[entry].storage_id;
  if (copies[storage] != NO_COPY)
    executor->waits[executor->num_waits++] = copies[storage];
  copies[storage] = NO_COPY;
}

/* `copies`: by storage, the call that copies there and was not waited for. Copies are queued in
 * order, so one into the same storage waits by itself. */
static int plan_wait(BpExecutor *executor, uint32_t *copies, uint32_t index) {
  Call *call = &executor->calls[index];
  const BpGraphNode *node = &executor->plan.graph->nodes[call->node];
  call->first_wait = executor->num_waits;
  if (call_kind(executor, node) == BP_CALL_COPY_TO_HOST) {
    BpDevice device = device_of(executor, node->inputs[0]);
    copies[executor->plan.graph->entries[node->first_entry].storage_id] = index;
    call->copied = bp_event_create(device);
    call->last_wait = executor->num_waits;
    return call->copied ? 0 : -1;
  }
  for (uint32_t i = 0; i < node->num_inputs; i++)
    wait_for_storage(executor, copies, node->inputs[i]);
  for (uint32_t i = 0; i < node->num_outputs; i++)
    wait_for_storage(executor, copies, node->first_entry + i);
  call->last_wait = executor->num_waits;
  return 0;
}

/* Work that is queued and not handed over is handed over before the host waits or works. */
static void plan_handing_over(BpExecutor *executor) {
  int is_queued = 0;
  for (uint32_t i = 0; i < executor->num_calls; i++) {
    Call *call = &executor->calls[i];
    BpCallKind kind = call_kind(executor, &executor->plan.graph->nodes[call->node]);
    call->hands_over = is_queued && (kind == BP_CALL_ON_HOST || call->last_wait > call->first_wait);
    is_queued = kind == BP_CALL_ON_DEVICE || kind == BP_CALL_COPY_TO_DEVICE ||
                (is_queued && !call->hands_over && kind != BP_CALL_COPY_TO_HOST);
  }
}

/* What no call waits for is waited for at the end of a run, so the next one begins with a host
 * whose memory nothing is copied to. */
static int plan_waits(BpExecutor *executor) {
  size_t num_storages = executor->plan.graph->num_storages;
  if (!is_beside_host(&executor->plan))
    return 0;
  executor->waits = calloc((size_t)executor->num_calls + 1, sizeof(*executor->waits));
  uint32_t *copies = malloc((num_storages + 1) * sizeof(*copies));
  if (!executor->waits || !copies) {
    free(copies);
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the copies of the graph");
  }
  memset(copies, 0xff, (num_storages + 1) * sizeof(*copies));
  int status = 0;
  for (uint32_t i = 0; i < executor->num_calls && status == 0; i++)
    status = plan_wait(executor, copies, i);
  for (size_t i = 0; i < num_storages; i++)
    if (copies[i] != NO_COPY)
      executor->waits[executor->num_waits++] = copies[i];
  free(copies);
  if (status < 0)
    return -1;
  plan_handing_over(executor);
  executor->handed_over = bp_event_create(executor->plan.devices[beside_host(&executor->plan)]);
  return executor->handed_over ? 0 : -1;
}

static int create_outputs(BpExecutor *executor) {
  const BpGraph *graph = executor->plan.graph;
  for (uint32_t i = 0; i < graph->num_heads; i++) {
    executor->outputs[i] = bp_tensor_wrap(&executor->views[graph->heads[i]], NULL, NULL);
    if (!executor->outputs[i])
      return -1;
  }
  return 0;
}

/* ---- Life -------------------------------------------------------------------------------- */

static int any_flattens(const BpGraph *graph) {
  for (uint32_t i = 0; i < graph->num_nodes; i++)
    if (graph->nodes[i].flattens)
      return 1;
  return 0;
}

static int allocate_tables(BpExecutor *executor) {
  const BpGraph *graph = executor->plan.graph;
  int flattens = any_flattens(graph);
  if (flattens) {
    executor->flat = calloc((size_t)graph->num_entries + 1, sizeof(*executor->flat));
    executor->num_elements =
        calloc((size_t)graph->num_entries + 1, sizeof(*executor->num_elements));
  }
  executor->views = calloc((size_t)graph->num_entries + 1, sizeof(*executor->views));
  executor->storage = calloc((size_t)graph->num_storages + 1, sizeof(*executor->storage));
  executor->bound = calloc((size_t)graph->num_args + 1, sizeof(*executor->bound));
  executor->ready = calloc((size_t)graph->num_args + 1, sizeof(*executor->ready));
  executor->outputs = calloc((size_t)graph->num_heads + 1, sizeof(*executor->outputs));
  if (!executor->views || !executor->storage || !executor->bound || !executor->ready ||
      !executor->outputs || (flattens && (!executor->flat || !executor->num_elements)))
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for an executor of %u entries",
                          graph->num_entries);
  return 0;
}

/* A graph on two devices needs both. */
static int check_places(const BpExecutorPlan *plan) {
  char device[64];
  for (uint32_t i = 0; i < plan->graph->num_entries; i++) {
    if (bp__executor_place(plan, i) < plan->num_devices)
      continue;
    bp_device_format((BpDevice){plan->graph->entries[i].device_type, 0}, device, sizeof device);
    return bp_error_raise(BP_ERROR_VALUE,
                          "the graph has values on %.*s, and no device of that kind was given",
                          (int)strcspn(device, ":"), device);
  }
  return 0;
}

static int create_streams(BpExecutor *executor) {
  for (uint32_t i = 0; i < executor->plan.num_devices; i++) {
    if (bp_stream_create(executor->plan.devices[i], &executor->streams[i]) < 0)
      return -1;
    executor->num_streams++;
  }
  return 0;
}

BpExecutor *bp__executor_create(const BpExecutorPlan *plan) {
  BpExecutor *executor = calloc(1, sizeof(*executor));
  if (!executor) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for an executor");
    return NULL;
  }
  executor->plan = *plan;
  int status = check_places(plan) < 0 ? -1 : allocate_tables(executor);
  if (status == 0)
    status = create_streams(executor);
  if (status == 0) {
    create_views(executor);
    status = create_storage(executor);
  }
  if (status == 0)
    status = prepare_calls(executor);
  if (status == 0)
    status = plan_waits(executor);
  if (status == 0)
    status = create_outputs(executor);
  if (status == 0)
    return executor;
  bp__executor_free(executor);
  return NULL;
}

void bp__executor_free(BpExecutor *executor) {
  if (!executor)
    return;
  const BpGraph *graph = executor->plan.graph;
  BpError *pending = bp_error_take();
  for (uint32_t i = 0; i < executor->num_streams; i++)
    bp_stream_sync(executor->plan.devices[i], executor->streams[i]);
  for (uint32_t i = 0; executor->outputs && i < graph->num_heads; i++)
    bp_object_release(executor->outputs[i]);
  for (uint32_t i = 0; executor->bound && i < graph->num_args; i++)
    bp_object_release(executor->bound[i]);
  for (uint32_t i = 0; i < executor->num_calls; i++) {
    bp_object_release(executor->calls[i].function);
    bp_event_free(executor->calls[i].copied);
  }
  for (uint32_t i = 0; executor->storage && i < graph->num_storages; i++)
    if (executor->storage[i])
      bp_device_free(storage_device(executor, (int32_t)i), executor->storage[i]);
  for (uint32_t i = 0; i < executor->num_streams; i++)
    if (executor->streams[i])
      bp_stream_free(executor->plan.devices[i], executor->streams[i]);
  bp_error_clear();
  if (pending)
    bp_error_put(pending);
  free(executor->views);
  free(executor->flat);
  free(executor->num_elements);
  free(executor->storage);
  free(executor->bound);
  free(executor->ready);
  free(executor->outputs);
  free(executor->args);
  free(executor->calls);
  free(executor->waits);
  bp_event_free(executor->handed_over);
  free(executor);
}

/* ---- Inputs ------------------------------------------------------------------------------ */

const BpTensorView *bp__executor_arg(const BpExecutor *executor, uint32_t arg) {
  const BpGraph *graph = executor->plan.graph;
  return &executor->views[graph->nodes[graph->arg_nodes[arg]].first_entry];
}

static void append_shape(char *text, size_t size, const BpTensorView *view) {
  char dtype[32];
  bp_dtype_format(view->dtype, dtype, sizeof dtype);
  size_t used = (size_t)snprintf(text, size, "%s", dtype);
  for (int32_t i = 0; i < view->ndim && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%" PRId64, i ? "x" : " ", view->shape[i]);
}

/* The value must be compact and of the very type and shape. */
static int check_value(const BpExecutor *executor, uint32_t arg, const BpTensorView *value) {
  const BpTensorView *want = bp__executor_arg(executor, arg);
  if (bp_view_num_elements(value) < 0)
    return bp_error_add_context("input '%s'", arg_name(executor, arg));
  int same = value->ndim == want->ndim &&
             !memcmp(&value->dtype, &want->dtype, sizeof(BpDataType)) &&
             (want->ndim == 0 ||
              !memcmp(value->shape, want->shape, (size_t)want->ndim * sizeof(*want->shape)));
  if (!same) {
    char wanted[256], got[256];
    append_shape(wanted, sizeof(wanted), want);
    append_shape(got, sizeof(got), value);
    return bp_error_raise(BP_ERROR_VALUE, "input '%s' is %s, and the value given is %s",
                          arg_name(executor, arg), wanted, got);
  }
  if (!bp_view_is_compact(value))
    return bp_error_raise(BP_ERROR_VALUE,
                          "the value given for input '%s' has strides; copy it to a compact tensor",
                          arg_name(executor, arg));
  return 0;
}

/* Makes the argument's own memory current again. */
static int unbind(BpExecutor *executor, uint32_t arg) {
  int32_t storage = arg_storage(executor, arg);
  if (executor->bound[arg]) {
    bp_object_release(executor->bound[arg]);
    executor->bound[arg] = NULL;
    executor->ready[arg] = 0;
  }
  if (!executor->storage[storage])
    return allocate_storage(executor, storage);
  point_storage(executor, storage, executor->storage[storage], 0);
  return 0;
}

static void *stream_of(const BpExecutor *executor, const BpTensorView *view) {
  int is_main = view->device.device_type == executor->plan.devices[0].device_type;
  return executor->streams[is_main ? 0 : 1];
}

/* Whether the device that a copy comes from does it: to the host, and to another of its kind. */
static int is_source_copying(BpDevice from, BpDevice to) {
  return from.device_type != BP_DEVICE_CPU &&
         (to.device_type == BP_DEVICE_CPU ||
          (to.device_type == from.device_type && to.device_id != from.device_id));
}

/* A copy that its source does is waited for: the run is ordered with its own devices alone. */
static int copy_input(const BpExecutor *executor, const BpTensorView *from,
                      const BpTensorView *to) {
  if (is_source_copying(from->device, to->device))
    return bp_tensor_copy(from, to, NULL) < 0 || bp_stream_sync(from->device, NULL) < 0 ? -1 : 0;
  return bp_tensor_copy(from, to, stream_of(executor, to));
}

int bp__executor_set_input(BpExecutor *executor, uint32_t arg, const BpTensorView *value) {
  if (check_value(executor, arg, value) < 0 || unbind(executor, arg) < 0)
    return -1;
  if (copy_input(executor, value, bp__executor_arg(executor, arg)) < 0)
    return bp_error_add_context("input '%s'", arg_name(executor, arg));
  executor->ready[arg] = 1;
  return 0;
}

int bp__executor_bind_input(BpExecutor *executor, uint32_t arg, BpTensor *value) {
  if (check_value(executor, arg, &value->view) < 0)
    return -1;
  BpDevice device = bp__executor_arg(executor, arg)->device;
  if (memcmp(&value->view.device, &device, sizeof(device)) != 0) {
    char have[64], want[64];
    bp_device_format(value->view.device, have, sizeof have);
    bp_device_format(device, want, sizeof want);
    return bp_error_raise(BP_ERROR_VALUE,
                          "input '%s' is bound to memory of its device, %s, and the tensor is on "
                          "%s; copy it in instead",
                          arg_name(executor, arg), want, have);
  }
  bp_object_retain(value);
  bp_object_release(executor->bound[arg]);
  executor->bound[arg] = value;
  executor->ready[arg] = 1;
  point_storage(executor, arg_storage(executor, arg), value->view.data, value->view.byte_offset);
  return 0;
}

/* ---- Running ----------------------------------------------------------------------------- */

static int check_ready(const BpExecutor *executor) {
  for (uint32_t i = 0; i < executor->plan.graph->num_args; i++)
    if (!executor->ready[i])
      return bp_error_raise(BP_ERROR_VALUE, "input '%s' has not been set", arg_name(executor, i));
  return 0;
}

/* Each stream orders its own device's work only: what is copied is complete before, and there
 * after. The host copies nothing by itself: the other end does. */
static int run_copy(const BpExecutor *executor, const Call *call) {
  const BpTensorView *from = call->args[0].v_view, *to = call->args[1].v_view;
  const BpTensorView *copies = to->device.device_type == BP_DEVICE_CPU ? from : to;
  void *stream = stream_of(executor, copies);
  if (copies != from && bp_stream_sync(from->device, stream_of(executor, from)) < 0)
    return -1;
  if (bp_tensor_copy(from, to, stream) < 0)
    return -1;
  if (call->copied)
    return bp_event_record(call->copied, stream);
  return copies == from ? bp_stream_sync(from->device, stream) : 0;
}

/* The host reads nothing that failed work was to write. */
static int wait_for_copy(const BpExecutor *executor, const Call *copy) {
  int32_t state = BP_EVENT_PENDING;
  const BpTensorView *from = copy->args[0].v_view;
  int status = bp_event_synchronize(copy->copied, BP_WAIT_FOREVER, &state);
  if (status == 0 && state != BP_EVENT_FAILED)
    return 0;
  if (status == 0 && bp_stream_sync(from->device, stream_of(executor, from)) == 0)
    bp_error_raise(BP_ERROR_DEVICE, "work of the device failed before its result was copied");
  return bp_error_add_context("copy '%s'", executor->plan.graph->nodes[copy->node].name);
}

static int wait_for_copies(const BpExecutor *executor, uint32_t first, uint32_t last) {
  for (uint32_t i = first; i < last; i++)
    if (wait_for_copy(executor, &executor->calls[executor->waits[i]]) < 0)
      return -1;
  return 0;
}

static int hand_over(const BpExecutor *executor) {
  return bp_event_record(executor->handed_over, executor->streams[beside_host(&executor->plan)]);
}

static int run_call(const BpExecutor *executor, const Call *call) {
  BpValue result = {.type_index = BP_TYPE_NONE};
  if ((call->hands_over && hand_over(executor) < 0) ||
      wait_for_copies(executor, call->first_wait, call->last_wait) < 0)
    return -1;
  if (!call->function) {
    if (run_copy(executor, call) == 0)
      return 0;
  } else if (call->function->call(call->function, call->args, call->num_args, &result) == 0) {
    return 0;
  }
  return bp_error_add_context("node '%s'", executor->plan.graph->nodes[call->node].name);
}

/* What the thread had chosen before a run, and has again after it. */
typedef struct Current {
  BpDevice devices[BP_GRAPH_MOST_DEVICES];
  void *streams[BP_GRAPH_MOST_DEVICES];
  uint32_t count;
} Current;

/* Keeps the error of a run that failed. */
static int leave(const Current *before, int status) {
  BpError *error = bp_error_take();
  for (uint32_t i = 0; i < before->count; i++)
    bp_device_set_current(before->devices[i], before->streams[i]);
  bp_error_clear();
  if (error)
    bp_error_put(error);
  return status;
}

static int enter(const BpExecutor *executor, Current *before) {
  const BpExecutorPlan *plan = &executor->plan;
  *before = (Current){.count = 0};
  for (uint32_t i = 0; i < plan->num_devices; i++) {
    int32_t type = plan->devices[i].device_type;
    before->devices[i].device_type = type;
    bp_device_get_current(type, &before->devices[i].device_id, &before->streams[i]);
    if (bp_device_set_current(plan->devices[i], executor->streams[i]) < 0)
      return leave(before, -1);
    before->count++;
  }
  return 0;
}

/* The waits after the last call. */
static int finish_copies(const BpExecutor *executor) {
  uint32_t first = executor->num_calls ? executor->calls[executor->num_calls - 1].last_wait : 0;
  return wait_for_copies(executor, first, executor->num_waits);
}

/* After a failure: nothing is copied to the host any more when this returns. Returns -1. */
static int give_up(const BpExecutor *executor) {
  if (executor->num_waits == 0)
    return -1;
  BpError *error = bp_error_take();
  for (uint32_t i = 0; i < executor->num_streams; i++)
    bp_stream_sync(executor->plan.devices[i], executor->streams[i]);
  bp_error_clear();
  if (error)
    bp_error_put(error);
  return -1;
}

/* A run is a launch of one task: its functions may launch as if it were none, and denormals are
 * flushed throughout, in what they do outside of launches too. */
static int run_calls(int task_id, BpParallelGroup *group, void *data) {
  const BpExecutor *executor = data;
  (void)task_id;
  (void)group;
  for (uint32_t i = 0; i < executor->num_calls; i++)
    if (run_call(executor, &executor->calls[i]) < 0)
      return give_up(executor);
  return finish_copies(executor) < 0 ? give_up(executor) : 0;
}

int bp__executor_run(BpExecutor *executor) {
  Current before;
  if (check_ready(executor) < 0 || enter(executor, &before) < 0)
    return -1;
  return leave(&before, bp_parallel_launch(run_calls, executor, 1));
}

int bp__executor_sync(BpExecutor *executor) {
  for (uint32_t i = 0; i < executor->num_streams; i++)
    if (bp_stream_sync(executor->plan.devices[i], executor->streams[i]) < 0)
      return -1;
  return 0;
}

BpTensor *bp__executor_output(BpExecutor *executor, uint32_t head) {
  const BpTensorView *view = &executor->views[executor->plan.graph->heads[head]];
  BpTensor *output = executor->outputs[head];
  /* A head that views a bound input moves with it. */
  output->view.data = view->data;
  output->view.byte_offset = view->byte_offset;
  return output;
}

typedef struct Profile {
  BpExecutor *executor;
  BpNodeVisitor visit;
  void *visitor;
} Profile;

static int profile_calls(int task_id, BpParallelGroup *group, void *data) {
  const Profile *profile = data;
  BpExecutor *executor = profile->executor;
  const BpGraph *graph = executor->plan.graph;
  (void)task_id;
  (void)group;
  if (bp__executor_sync(executor) < 0)
    return -1;
  int64_t begin = bp__graph_now_ns();
  for (uint32_t i = 0; i < executor->num_calls; i++) {
    const Call *call = &executor->calls[i];
    const BpGraphNode *node = &graph->nodes[call->node];
    int64_t start = bp__graph_now_ns();
    if (run_call(executor, call) < 0 || bp__executor_sync(executor) < 0)
      return -1;
    int64_t end = bp__graph_now_ns();
    int stop = profile->visit(profile->visitor, node, &executor->views[node->first_entry],
                              start - begin, end - start);
    if (stop)
      return stop < 0 ? -1 : 0;
  }
  return 0;
}

int bp__executor_profile(BpExecutor *executor, BpNodeVisitor visit, void *visitor) {
  Current before;
  if (check_ready(executor) < 0 || enter(executor, &before) < 0)
    return -1;
  Profile profile = {executor, visit, visitor};
  return leave(&before, bp_parallel_launch(profile_calls, &profile, 1));
}
