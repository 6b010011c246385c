/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a prepared graph, in one thread or in one thread for each of two devices. */
#include <string.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/exec/calls.h"
#include "graph/io/clock.h"

static int check_ready(const BpExecutor *executor) {
  for (uint32_t i = 0; i < executor->plan.graph->num_args; i++)
    if (!executor->ready[i])
      return bp_error_raise(BP_ERROR_VALUE, "input '%s' has not been set", arg_name(executor, i));
  return 0;
}

/* A copy from or to the host is queued on the other device. The source is complete before a copy
 * from the host, and a copy to the host is complete before its readers. */
static int run_copy(const BpExecutor *executor, const Call *call) {
  const BpTensorView *from = call->args[0].v_view, *to = call->args[1].v_view;
  void *from_stream = stream_of(executor, from), *to_stream = stream_of(executor, to);
  if (from->device.device_type != BP_DEVICE_CPU && to->device.device_type != BP_DEVICE_CPU)
    return bp_tensor_copy_between(from, to, from_stream, to_stream);
  if (to->device.device_type != BP_DEVICE_CPU)
    return bp_stream_sync(from->device, from_stream) < 0 ? -1 : bp_tensor_copy(from, to, to_stream);
  if (bp_tensor_copy(from, to, from_stream) < 0)
    return -1;
  return call->copied ? bp_event_record(call->copied, from_stream)
                      : bp_stream_sync(from->device, from_stream);
}

/* Waits for a copy's event; if the work before it failed, its stream raises the error. */
static int wait_for_copied(BpEvent *event, BpDevice device, void *stream) {
  int32_t state = BP_EVENT_PENDING;
  int status = bp_event_synchronize(event, BP_WAIT_FOREVER, &state);
  if (status < 0 || state != BP_EVENT_FAILED)
    return status;
  if (bp_stream_sync(device, stream) == 0)
    bp_error_raise(BP_ERROR_DEVICE, "work of the device failed before its result was copied");
  return -1;
}

static int wait_for_copy(const BpExecutor *executor, const Call *copy) {
  const BpTensorView *from = copy->args[0].v_view;
  if (wait_for_copied(copy->copied, from->device, stream_of(executor, from)) == 0)
    return 0;
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

/* The device and the streams that the thread used before a run; they are restored after it. */
typedef struct Current {
  BpDevice devices[BP_GRAPH_MOST_DEVICES];
  void *streams[BP_GRAPH_MOST_DEVICES];
  uint32_t count;
} Current;

/* Restores the device and streams, and keeps the error of a failed run. */
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

/* Executes the waits after the last call. */
static int finish_copies(const BpExecutor *executor) {
  uint32_t first = executor->num_calls ? executor->calls[executor->num_calls - 1].last_wait : 0;
  return wait_for_copies(executor, first, executor->num_waits);
}

/* Waits for all queued work, and keeps the thread's error. */
static void sync_quietly(const BpExecutor *executor) {
  BpError *error = bp_error_take();
  for (uint32_t i = 0; i < executor->num_streams; i++)
    bp_stream_sync(executor->plan.devices[i], executor->streams[i]);
  bp_error_clear();
  if (error)
    bp_error_put(error);
}

/* Waits for queued copies to the host after a failure. Returns -1. */
static int give_up(const BpExecutor *executor) {
  if (executor->num_waits != 0)
    sync_quietly(executor);
  return -1;
}

/* A run is a parallel launch of one task: its functions may launch in parallel as usual, and
 * denormals are flushed during the whole run, outside launches, too. */
static int run_calls(int task_id, BpParallelGroup *group, void *data) {
  const BpExecutor *executor = data;
  (void)task_id;
  (void)group;
  for (uint32_t i = 0; i < executor->num_calls; i++)
    if (run_call(executor, &executor->calls[i]) < 0)
      return give_up(executor);
  return finish_copies(executor) < 0 ? give_up(executor) : 0;
}

/* One device's calls of a run, in a thread of its own or in the caller's. */
typedef struct Half {
  const BpExecutor *executor;
  uint32_t place;
  int status;
  BpError *error; /* error of a half in a thread of its own */
} Half;

/* Executes a call of the half's device, or the half of a copy that the device queues. */
static int run_half_call(const Half *half, const Call *call) {
  const BpExecutor *executor = half->executor;
  int status = 0;
  if (call->crossing == NO_CROSSING)
    return call->place == half->place ? run_call(executor, call) : 0;
  if (call->place == half->place)
    status = bp__crossing_receive(executor->crossings, call->crossing);
  else
    status = bp__crossing_send(executor->crossings, call->crossing);
  return status < 0 && *bp_error_kind()
             ? bp_error_add_context("copy '%s'", executor->plan.graph->nodes[call->node].name)
             : status;
}

static int run_half_calls(int task_id, BpParallelGroup *group, void *data) {
  Half *half = data;
  const BpExecutor *executor = half->executor;
  (void)task_id;
  (void)group;
  for (uint32_t i = 0; i < executor->num_calls && half->status == 0; i++)
    half->status = run_half_call(half, &executor->calls[executor->orders[half->place][i]]);
  return half->status < 0 && *bp_error_kind() ? -1 : 0; /* else the other half has failed */
}

static void run_half(Half *half) {
  Current before;
  half->status = enter(half->executor, &before);
  if (half->status == 0) {
    if (bp_parallel_launch(run_half_calls, half, 1) < 0)
      half->status = -1;
    leave(&before, half->status);
  }
  if (half->status < 0)
    bp__crossings_give_up(half->executor->crossings);
}

static void run_half_in_thread(void *data) {
  Half *half = data;
  run_half(half);
  half->error = bp_error_take();
}

/* Raises the error of the caller's half or, if it has none, of the other half. After joining no
 * copy to staging memory is in progress. */
static int join_halves(const BpExecutor *executor, const Half halves[2]) {
  if (halves[0].status == 0 && halves[1].status == 0)
    return 0;
  if (!*bp_error_kind() && halves[1].error)
    bp_error_put(halves[1].error);
  else
    bp_object_release(halves[1].error);
  sync_quietly(executor);
  return -1;
}

static int run_in_one_thread(BpExecutor *executor) {
  Current before;
  if (enter(executor, &before) < 0)
    return -1;
  return leave(&before, bp_parallel_launch(run_calls, executor, 1));
}

static int run_in_two_threads(BpExecutor *executor) {
  Half halves[2] = {{executor, 0, 0, NULL}, {executor, 1, 0, NULL}};
  bp_error_clear(); /* an older error of the caller would count as a half's error */
  bp__crossings_begin(executor->crossings);
  if (!executor->second)
    executor->second = bp__second_thread_start();
  if (!executor->second ||
      bp__second_thread_begin(executor->second, run_half_in_thread, &halves[1]) < 0)
    return run_in_one_thread(executor);
  run_half(&halves[0]);
  bp__second_thread_wait(executor->second);
  return join_halves(executor, halves);
}

int bp__executor_run(BpExecutor *executor) {
  if (check_ready(executor) < 0)
    return -1;
  return executor->crossings ? run_in_two_threads(executor) : run_in_one_thread(executor);
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
  /* A head that views a bound input moves with the input. */
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
  const BpCallGraph *graph = executor->plan.graph;
  (void)task_id;
  (void)group;
  if (bp__executor_sync(executor) < 0)
    return -1;
  int64_t begin = bp__graph_now_ns();
  for (uint32_t i = 0; i < executor->num_calls; i++) {
    const Call *call = &executor->calls[i];
    const BpCallNode *node = &graph->nodes[call->node];
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
