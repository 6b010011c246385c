/* SPDX-License-Identifier: Apache-2.0 */
/* Makes an executor and sets its inputs. An executor has one view for each entry of the graph, one
 * block of device memory for each storage id, and one prepared call for each operator.
 *
 * If a device and the host run a graph, their work overlaps. Calls are ordered so that the device
 * gets all possible work before the host works (order.h). A copy to the host is queued, and an
 * event is recorded after it; the host waits for the event before the first call that uses the
 * copied memory, and at the end of a run. Before the host works, it also records an event after all
 * queued work: a driver may hold work back until an event is recorded or a thread waits.
 *
 * If two devices or more beside the host have values that cross, each device has a thread that
 * queues its calls, and so has the host, so that none waits while a value crosses between two
 * others (crossing.h). */
#include "graph/exec/executor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/exec/calls.h"
#include "graph/exec/order.h"
#include "graph/io/device_text.h"
#include "graph/io/overlap.h"

static int32_t arg_storage(const BpExecutor *executor, uint32_t arg) {
  const BpCallGraph *graph = executor->plan.graph;
  return graph->entries[graph->nodes[graph->arg_nodes[arg]].first_entry].storage_id;
}

/* ---- Storage ----------------------------------------------------------------------------- */

/* Makes every entry of a storage id point to `data`, `offset` bytes in. */
static void point_storage(BpExecutor *executor, int32_t storage, void *data, uint64_t offset) {
  const BpCallGraph *graph = executor->plan.graph;
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

/* Returns the device of an entry and of the entry's storage. */
static BpDevice device_of(const BpExecutor *executor, uint32_t entry) {
  return executor->plan.devices[executor->plan.graph->entries[entry].place];
}

static BpDevice storage_device(const BpExecutor *executor, int32_t storage) {
  return device_of(executor, executor->plan.graph->storages[storage].last_entry);
}

/* Returns the executor's memory for a storage id; NULL if it has none. */
static void *own_memory(const BpExecutor *executor, int32_t storage) {
  const BpTensor *memory = executor->storage[storage];
  return memory ? memory->view.data : NULL;
}

static int allocate_storage(BpExecutor *executor, int32_t storage) {
  const BpDataType byte = {BP_DTYPE_UINT, 8, 1};
  const int64_t size = (int64_t)executor->plan.graph->storages[storage].bytes;
  executor->storage[storage] =
      bp_tensor_create(&size, 1, byte, storage_device(executor, storage), NULL);
  if (!executor->storage[storage])
    return bp_error_add_context("%" PRId64 " bytes of storage for the graph", size);
  point_storage(executor, storage, own_memory(executor, storage), 0);
  return 0;
}

static void create_views(BpExecutor *executor) {
  const BpCallGraph *graph = executor->plan.graph;
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

/* Allocates storage. Parameters stay in their own memory. */
static int create_storage(BpExecutor *executor) {
  const BpCallGraph *graph = executor->plan.graph;
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

static size_t num_args(const BpCallNode *node) {
  return (size_t)node->num_inputs + node->num_outputs + node->num_launch;
}

static int prepare_call(BpExecutor *executor, uint32_t index, BpValue *args) {
  const BpCallNode *node = &executor->plan.graph->nodes[index];
  BpTensorView *views = node->flattens ? executor->flat : executor->views;
  Call *call = &executor->calls[executor->num_calls];
  call->function = node->is_copy ? NULL : find_function(executor->plan.code, node->function);
  if (!call->function && !node->is_copy)
    return -1;
  executor->num_calls++;
  call->args = args;
  call->node = index;
  call->place = bp__call_place(executor->plan.graph, node);
  call->num_args = (int32_t)num_args(node);
  for (uint32_t i = 0; i < node->num_inputs; i++)
    *args++ = (BpValue){.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &views[node->inputs[i]]};
  for (uint32_t i = 0; i < node->num_outputs; i++)
    *args++ = (BpValue){.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &views[node->first_entry + i]};
  for (uint32_t i = 0; i < node->num_launch; i++)
    *args++ = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = node->launch[i]};
  return 0;
}

static int is_operator(const BpCallNode *node) {
  return node->function && *node->function;
}

/* How many devices beside the host run the graph, and queue their work. */
static uint32_t count_queues(const BpExecutorPlan *plan) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < plan->graph->places.count; i++)
    count += plan->devices[i].device_type != BP_DEVICE_CPU;
  return count;
}

/* Whether the host and one other device run the graph. */
static int is_beside_host(const BpExecutorPlan *plan) {
  return plan->graph->places.count == 2 && count_queues(plan) == 1;
}

static BpCallKind call_kind(const BpExecutor *executor, const Call *call, uint32_t place) {
  const BpCallGraph *graph = executor->plan.graph;
  return bp__call_kind(graph, &graph->nodes[call->node], place);
}

/* Lists the nodes that are called, in order, and counts their arguments. */
static uint32_t find_operators(const BpCallGraph *graph, uint32_t *nodes, size_t *all_args) {
  uint32_t count = 0;
  *all_args = 0;
  for (uint32_t i = 0; i < graph->num_nodes; i++)
    if (is_operator(&graph->nodes[i])) {
      nodes[count++] = i;
      *all_args += num_args(&graph->nodes[i]);
    }
  return count;
}

/* The order of calls for the first device beside the host; other devices have orders of their
 * own. */
static int order_for_first(const BpExecutor *executor, uint32_t *nodes, uint32_t count) {
  const BpExecutorPlan *plan = &executor->plan;
  return plan->graph->places.count > 1
             ? bp__order_calls(plan->graph, nodes, count, beside_host(plan))
             : 0;
}

static int prepare_operators(BpExecutor *executor, uint32_t *nodes) {
  size_t all_args;
  uint32_t count = find_operators(executor->plan.graph, nodes, &all_args);
  executor->calls = calloc((size_t)count + 1, sizeof(*executor->calls));
  executor->args = calloc(all_args + 1, sizeof(*executor->args));
  if (!executor->calls || !executor->args)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the calls of the graph");
  if (order_for_first(executor, nodes, count) < 0)
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

/* Makes the host wait, before the current call, for a copy into a storage that is not complete. */
static void wait_for_storage(BpExecutor *executor, uint32_t *copies, uint32_t entry) {
  int32_t storage = executor->plan.graph->entries[entry].storage_id;
  if (copies[storage] != NO_COPY)
    executor->waits[executor->num_waits++] = copies[storage];
  copies[storage] = NO_COPY;
}

/* Plans the waits of a call. `copies` is the call, by storage, that copies there and has not been
 * waited for. Copies are queued in order, so another copy into the same storage needs no wait. */
static int plan_wait(BpExecutor *executor, uint32_t *copies, uint32_t index) {
  Call *call = &executor->calls[index];
  const BpCallNode *node = &executor->plan.graph->nodes[call->node];
  call->first_wait = executor->num_waits;
  if (call_kind(executor, call, beside_host(&executor->plan)) == BP_CALL_COPY_OUT) {
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

/* Plans where queued work is handed to the device: before the host waits or works. */
static void plan_handing_over(BpExecutor *executor) {
  const uint32_t device = beside_host(&executor->plan);
  int is_queued = 0;
  for (uint32_t i = 0; i < executor->num_calls; i++) {
    Call *call = &executor->calls[i];
    BpCallKind kind = call_kind(executor, call, device);
    call->hands_over =
        is_queued && (kind == BP_CALL_ELSEWHERE || call->last_wait > call->first_wait);
    is_queued = kind == BP_CALL_ON_DEVICE || kind == BP_CALL_COPY_IN ||
                (is_queued && !call->hands_over && kind != BP_CALL_COPY_OUT);
  }
}

/* Plans the waits at the end of a run, for copies to the host that no call has waited for: when the
 * next run begins, no copy writes to the host's memory. */
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

/* ---- Between devices that queue ---------------------------------------------------------- */

/* Numbers the calls that cross, if two devices or more queue work. */
static uint32_t count_crossings(BpExecutor *executor) {
  uint32_t count = 0;
  int is_crossing = count_queues(&executor->plan) > 1;
  for (uint32_t i = 0; i < executor->num_calls; i++) {
    Call *call = &executor->calls[i];
    call->crossing = NO_CROSSING;
    if (is_crossing && !call->function && source_place(executor, call) != call->place)
      call->crossing = count++;
  }
  return count;
}

static int create_crossings(BpExecutor *executor, uint32_t count) {
  executor->crossings = bp__crossings_create(count);
  for (uint32_t i = 0; executor->crossings && i < executor->num_calls; i++) {
    const Call *call = &executor->calls[i];
    if (call->crossing == NO_CROSSING)
      continue;
    const BpTensorView *from = call->args[0].v_view, *to = call->args[1].v_view;
    if (bp__crossing_set(executor->crossings, call->crossing, from,
                         executor->streams[source_place(executor, call)], to,
                         executor->streams[call->place]) < 0)
      return -1;
  }
  return executor->crossings ? 0 : -1;
}

/* Fills the order of each place. */
static int order_for_each(BpExecutor *executor) {
  const BpCallGraph *graph = executor->plan.graph;
  uint32_t *nodes = calloc(2 * (size_t)graph->num_nodes + 1, sizeof(*nodes));
  size_t all_args;
  if (!nodes)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the calls of the graph");
  uint32_t *calls = nodes + graph->num_nodes; /* index of the call of each node */
  for (uint32_t i = 0; i < executor->num_calls; i++)
    calls[executor->calls[i].node] = i;
  int status = 0;
  for (uint32_t place = 0; place < graph->places.count && status == 0; place++) {
    uint32_t count = find_operators(graph, nodes, &all_args);
    status = bp__order_calls(graph, nodes, count, place);
    for (uint32_t i = 0; i < count && status == 0; i++)
      executor->orders[place][i] = calls[nodes[i]];
  }
  free(nodes);
  return status;
}

/* Goes on with a device's calls up to the first that waits for another's. */
static uint32_t advance(const BpExecutor *executor, uint32_t place, uint32_t at,
                        unsigned char *is_sent) {
  for (; at < executor->num_calls; at++) {
    const Call *call = &executor->calls[executor->orders[place][at]];
    if (call->crossing == NO_CROSSING)
      continue;
    if (call->place == place && !is_sent[call->crossing])
      break;
    if (source_place(executor, call) == place)
      is_sent[call->crossing] = 1;
  }
  return at;
}

/* Returns whether every thread reaches the end of its order; false if threads wait for each other
 * in a cycle. */
static int come_to_an_end(const BpExecutor *executor, unsigned char *is_sent) {
  const uint32_t num_places = executor->plan.graph->places.count;
  uint32_t at[BP_PLACES_MAX] = {0}, num_ended;
  int is_moving;
  do {
    is_moving = 0;
    num_ended = 0;
    for (uint32_t place = 0; place < num_places; place++) {
      uint32_t before = at[place];
      at[place] = advance(executor, place, before, is_sent);
      is_moving |= at[place] != before;
      num_ended += at[place] == executor->num_calls;
    }
  } while (is_moving);
  return num_ended == num_places;
}

/* Plans an order for each device; if all devices follow one order, every run ends. */
static int plan_orders(BpExecutor *executor) {
  const uint32_t count = executor->num_calls, num_places = executor->plan.graph->places.count;
  executor->orders[0] = calloc(num_places * (size_t)count, sizeof(uint32_t));
  unsigned char *is_sent = calloc(count, 1);
  int status = executor->orders[0] && is_sent
                   ? 0
                   : bp_error_raise(BP_ERROR_MEMORY, "no memory for the calls of the graph");
  for (uint32_t place = 1; place < num_places && status == 0; place++)
    executor->orders[place] = executor->orders[place - 1] + count;
  if (status == 0)
    status = order_for_each(executor);
  if (status == 0 && !come_to_an_end(executor, is_sent))
    for (uint32_t i = 0; i < num_places * count; i++)
      executor->orders[0][i] = i % count;
  free(is_sent);
  return status;
}

static int plan_crossings(BpExecutor *executor) {
  uint32_t count = count_crossings(executor);
  if (count == 0)
    return 0;
  return create_crossings(executor, count) < 0 ? -1 : plan_orders(executor);
}

/* ---- Outputs ----------------------------------------------------------------------------- */

static int32_t head_storage(const BpExecutor *executor, uint32_t head) {
  const BpCallGraph *graph = executor->plan.graph;
  return graph->entries[graph->heads[head]].storage_id;
}

/* Whether an output is the argument, or a view of it. */
static bool is_output(const BpExecutor *executor, uint32_t arg) {
  for (uint32_t i = 0; i < executor->plan.graph->num_heads; i++)
    if (head_storage(executor, i) == arg_storage(executor, arg))
      return true;
  return false;
}

/* The argument that an output is, or is a view of; num_args if a call computes the output. */
static uint32_t viewed_arg(const BpExecutor *executor, uint32_t head) {
  uint32_t arg = 0;
  while (arg < executor->plan.graph->num_args &&
         arg_storage(executor, arg) != head_storage(executor, head))
    arg++;
  return arg;
}

/* The tensor whose memory has an output: a bound tensor, a parameter or the executor's storage. */
static BpTensor *owner_of_output(const BpExecutor *executor, uint32_t head) {
  uint32_t arg = viewed_arg(executor, head);
  if (arg < executor->plan.graph->num_args && executor->bound[arg])
    return executor->bound[arg];
  if (arg < executor->plan.graph->num_args && executor->plan.params[arg])
    return executor->plan.params[arg];
  return executor->storage[head_storage(executor, head)];
}

/* Makes the tensor of an output, which keeps its memory alive. */
static int make_output(BpExecutor *executor, uint32_t head) {
  const BpTensorView *view = &executor->views[executor->plan.graph->heads[head]];
  BpTensor *owner = owner_of_output(executor, head);
  BpTensor *output = bp_tensor_wrap(view, bp_object_release, owner);
  if (!output)
    return -1;
  bp_object_retain(owner);
  bp_object_release(executor->outputs[head]);
  executor->outputs[head] = output;
  return 0;
}

static int create_outputs(BpExecutor *executor) {
  for (uint32_t i = 0; i < executor->plan.graph->num_heads; i++)
    if (make_output(executor, i) < 0)
      return -1;
  return 0;
}

int bp__executor_renew_outputs(BpExecutor *executor) {
  for (uint32_t i = 0; i < executor->plan.graph->num_heads && executor->is_moved; i++) {
    if (viewed_arg(executor, i) < executor->plan.graph->num_args && make_output(executor, i) < 0)
      return -1;
  }
  executor->is_moved = false;
  return 0;
}

/* ---- Life -------------------------------------------------------------------------------- */

static int any_flattens(const BpCallGraph *graph) {
  for (uint32_t i = 0; i < graph->num_nodes; i++)
    if (graph->nodes[i].flattens)
      return 1;
  return 0;
}

static int allocate_tables(BpExecutor *executor) {
  const BpCallGraph *graph = executor->plan.graph;
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

/* Whether two places have devices of one type. A thread has one current device of each type. */
static int is_switching(const BpExecutorPlan *plan) {
  for (uint32_t i = 0; i < plan->graph->places.count; i++)
    for (uint32_t k = 0; k < i; k++)
      if (plan->devices[i].device_type == plan->devices[k].device_type)
        return 1;
  return 0;
}

static int create_streams(BpExecutor *executor) {
  for (uint32_t i = 0; i < executor->plan.graph->places.count; i++) {
    if (bp_stream_create(executor->plan.devices[i], &executor->streams[i]) < 0)
      return -1;
    executor->num_streams++;
  }
  executor->own_stream = executor->streams[0];
  return 0;
}

int bp__executor_set_stream(BpExecutor *executor, void *stream) {
  if (bp_stream_sync_from_to(executor->plan.devices[0], executor->streams[0], stream) < 0)
    return -1;
  executor->streams[0] = stream;
  for (uint32_t i = 0; executor->crossings && i < executor->num_calls; i++) {
    const Call *call = &executor->calls[i];
    if (call->crossing != NO_CROSSING)
      bp__crossing_set_streams(executor->crossings, call->crossing,
                               executor->streams[source_place(executor, call)],
                               executor->streams[call->place]);
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
  executor->is_switching = is_switching(plan);
  int status = allocate_tables(executor);
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
    status = plan_crossings(executor);
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
  const BpCallGraph *graph = executor->plan.graph;
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
    bp_object_release(executor->storage[i]);
  if (executor->num_streams > 0)
    executor->streams[0] = executor->own_stream;
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
  bp__crossings_free(executor->crossings);
  for (uint32_t i = 0; i < BP_PLACES_MAX; i++)
    bp__queue_thread_free(executor->threads[i]);
  free(executor->orders[0]);
  free(executor);
}

/* ---- Inputs ------------------------------------------------------------------------------ */

const BpTensorView *bp__executor_arg(const BpExecutor *executor, uint32_t arg) {
  const BpCallGraph *graph = executor->plan.graph;
  return &executor->views[graph->nodes[graph->arg_nodes[arg]].first_entry];
}

BpTensor *bp__executor_bound(const BpExecutor *executor, uint32_t arg) {
  return executor->bound[arg];
}

static void append_shape(char *text, size_t size, const BpTensorView *view) {
  char dtype[32];
  bp_dtype_format(view->dtype, dtype, sizeof dtype);
  size_t used = (size_t)snprintf(text, size, "%s", dtype);
  for (int32_t i = 0; i < view->ndim && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%" PRId64, i ? "x" : " ", view->shape[i]);
}

/* Checks that a value is compact and has exactly the argument's type and shape. */
static int check_value(const BpExecutor *executor, uint32_t arg, const BpTensorView *value) {
  const BpTensorView *want = bp__executor_arg(executor, arg);
  if (bp_view_num_elements(value) < 0)
    return bp_error_add_context("input '%s'", arg_name(executor, arg));
  int is_of_type = !memcmp(&value->dtype, &want->dtype, sizeof(BpDataType));
  int same = is_of_type && value->ndim == want->ndim &&
             (want->ndim == 0 ||
              !memcmp(value->shape, want->shape, (size_t)want->ndim * sizeof(*want->shape)));
  if (!same) {
    char wanted[256], got[256], dtype[32];
    append_shape(wanted, sizeof(wanted), want);
    append_shape(got, sizeof(got), value);
    bp_dtype_format(want->dtype, dtype, sizeof dtype);
    return bp_error_raise(BP_ERROR_VALUE, "input '%s' is %s, and the value given is %s%s%s",
                          arg_name(executor, arg), wanted, got,
                          is_of_type ? "" : "; convert it to ", is_of_type ? "" : dtype);
  }
  if (!bp_view_is_compact(value))
    return bp_error_raise(BP_ERROR_VALUE,
                          "the value given for input '%s' has strides; copy it to a compact tensor",
                          arg_name(executor, arg));
  return 0;
}

/* Sets the tensor whose memory an argument uses (transfer full); NULL: the executor's memory. */
static void take_tensor(BpExecutor *executor, uint32_t arg, BpTensor *tensor) {
  int32_t storage = arg_storage(executor, arg);
  BpTensor *before = executor->bound[arg];
  executor->bound[arg] = tensor;
  if (tensor)
    point_storage(executor, storage, tensor->view.data, tensor->view.byte_offset);
  else
    point_storage(executor, storage, own_memory(executor, storage), 0);
  executor->is_moved |= is_output(executor, arg);
  bp_object_release(before);
}

/* Whether the source's device executes a copy: to the host, or to another device of its kind. */
static int is_source_copying(BpDevice from, BpDevice to) {
  return from.device_type != BP_DEVICE_CPU &&
         (to.device_type == BP_DEVICE_CPU ||
          (to.device_type == from.device_type && to.device_id != from.device_id));
}

/* A copy that the source's device does is waited for: the run is ordered with its own devices
 * alone. */
static int copy_input(const BpExecutor *executor, uint32_t arg, const BpTensorView *from,
                      const BpTensorView *to) {
  const BpCallGraph *graph = executor->plan.graph;
  uint32_t entry = graph->nodes[graph->arg_nodes[arg]].first_entry;
  int status;
  if (is_source_copying(from->device, to->device))
    status = bp_tensor_copy(from, to, NULL) < 0 ? -1 : bp_stream_sync(from->device, NULL);
  else
    status = bp_tensor_copy(from, to, executor->streams[graph->entries[entry].place]);
  return status < 0 ? bp_error_add_context("input '%s'", arg_name(executor, arg)) : 0;
}

/* Whether the value lies in the executor's memory for the argument. */
static bool is_own_memory(const BpExecutor *executor, uint32_t arg, const BpTensorView *value) {
  const void *own = own_memory(executor, arg_storage(executor, arg));
  return own && value->data == own && value->byte_offset == 0;
}

/* Copies the value into the executor's memory. The tensor that was bound may have the value. */
static int copy_into_own(BpExecutor *executor, uint32_t arg, const BpTensorView *value) {
  int32_t storage = arg_storage(executor, arg);
  if (!executor->storage[storage] && allocate_storage(executor, storage) < 0)
    return -1;
  BpTensorView own = *bp__executor_arg(executor, arg);
  own.data = own_memory(executor, storage);
  own.byte_offset = 0;
  if (executor->bound[arg])
    executor->ready[arg] = 0;
  int status = is_own_memory(executor, arg, value) ? 0 : copy_input(executor, arg, value, &own);
  take_tensor(executor, arg, NULL);
  return status;
}

/* Copies the value into a new tensor: the last output that views the argument stays. */
static int copy_into_new(BpExecutor *executor, uint32_t arg, const BpTensorView *value) {
  const BpTensorView *like = bp__executor_arg(executor, arg);
  BpTensor *copy = bp_tensor_create(like->shape, like->ndim, like->dtype, like->device, NULL);
  if (!copy)
    return bp_error_add_context("input '%s'", arg_name(executor, arg));
  if (copy_input(executor, arg, value, &copy->view) < 0) {
    bp_object_release(copy);
    return -1;
  }
  take_tensor(executor, arg, copy);
  return 0;
}

int bp__executor_set_input(BpExecutor *executor, uint32_t arg, const BpTensorView *value) {
  if (check_value(executor, arg, value) < 0)
    return -1;
  int status = is_output(executor, arg) ? copy_into_new(executor, arg, value)
                                        : copy_into_own(executor, arg, value);
  if (status == 0)
    executor->ready[arg] = 1;
  return status;
}

/* Whether a value lies in memory of the executor that has an output. Memory of a bound tensor does
 * not count. */
static int is_in_output(const BpExecutor *executor, const BpTensorView *value) {
  const BpCallGraph *graph = executor->plan.graph;
  for (uint32_t i = 0; i < graph->num_heads; i++) {
    const BpTensorView *output = &executor->views[graph->heads[i]];
    if (output->data == own_memory(executor, head_storage(executor, i)) &&
        bp__views_overlap(output, value))
      return 1;
  }
  return 0;
}

int bp__executor_bind_input(BpExecutor *executor, uint32_t arg, BpTensor *value) {
  if (check_value(executor, arg, &value->view) < 0)
    return -1;
  BpDevice device = bp__executor_arg(executor, arg)->device;
  if (memcmp(&value->view.device, &device, sizeof(device)) != 0) {
    char have[BP_DEVICE_TEXT_MAX], want[BP_DEVICE_TEXT_MAX];
    bp_device_format(value->view.device, have, sizeof have);
    bp_device_format(device, want, sizeof want);
    return bp_error_raise(BP_ERROR_VALUE,
                          "input '%s' is bound to memory of its device, %s, and the tensor is on "
                          "%s; copy it in instead",
                          arg_name(executor, arg), want, have);
  }
  bool is_own = is_own_memory(executor, arg, &value->view);
  /* A run may write an output before it reads the input. */
  if (!is_own && is_in_output(executor, &value->view))
    return bp__executor_set_input(executor, arg, &value->view);
  take_tensor(executor, arg, is_own ? NULL : bp_object_retain(value));
  executor->ready[arg] = 1;
  return 0;
}
