/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of a prepared graph, in one thread or in one for each device. */
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
  void *from_stream = executor->streams[source_place(executor, call)];
  void *to_stream = executor->streams[call->place];
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
  void *stream = executor->streams[source_place(executor, copy)];
  if (wait_for_copied(copy->copied, from->device, stream) == 0)
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

/* The devices and the streams that the thread had chosen before a run, to be restored after it. */
typedef struct Current {
  BpDevice devices[BP_PLACES_MAX];
  void *streams[BP_PLACES_MAX];
  uint32_t count;
} Current;

/* Keeps the error of a run that failed. The first of several devices of a type is restored last. */
static int leave(const Current *before, int status) {
  BpError *error = bp_error_take();
  for (uint32_t i = before->count; i > 0; i--)
    bp_device_set_current(before->devices[i - 1], before->streams[i - 1]);
  bp_error_clear();
  if (error)
    bp_error_put(error);
  return status;
}

static int choose(const BpExecutor *executor, uint32_t place) {
  return bp_device_set_current(executor->plan.devices[place], executor->streams[place]);
}

static int enter_place(const BpExecutor *executor, uint32_t place, Current *before) {
  BpDevice *device = &before->devices[before->count];
  device->device_type = executor->plan.devices[place].device_type;
  bp_device_get_current(device->device_type, &device->device_id, &before->streams[before->count]);
  if (choose(executor, place) < 0)
    return leave(before, -1);
  before->count++;
  return 0;
}

static int enter(const BpExecutor *executor, Current *before) {
  *before = (Current){.count = 0};
  for (uint32_t i = 0; i < executor->plan.graph->places.count; i++)
    if (enter_place(executor, i, before) < 0)
      return -1;
  return 0;
}

/* Runs a call in a thread that calls functions of all places. */
static int run_in_turn(const BpExecutor *executor, const Call *call) {
  return executor->is_switching && choose(executor, call->place) < 0 ? -1
                                                                     : run_call(executor, call);
}

/* The waits after the last call. */
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
    if (run_in_turn(executor, &executor->calls[i]) < 0)
      return give_up(executor);
  return finish_copies(executor) < 0 ? give_up(executor) : 0;
}

/* One device's calls of a run, in a thread of its own or in the caller's. */
typedef struct Lane {
  const BpExecutor *executor;
  uint32_t place;
  int status;
  BpError *error; /* error that the lane's own thread raised */
} Lane;

/* Runs the call, or this device's half of the copy. */
static int run_lane_call(const Lane *lane, const Call *call) {
  const BpExecutor *executor = lane->executor;
  int status = 0;
  if (call->crossing == NO_CROSSING)
    return call->place == lane->place ? run_call(executor, call) : 0;
  if (call->place == lane->place)
    status = bp__crossing_receive(executor->crossings, call->crossing);
  else if (source_place(executor, call) == lane->place)
    status = bp__crossing_send(executor->crossings, call->crossing);
  return status < 0 && *bp_error_kind()
             ? bp_error_add_context("copy '%s'", executor->plan.graph->nodes[call->node].name)
             : status;
}

static int run_lane_calls(int task_id, BpParallelGroup *group, void *data) {
  Lane *lane = data;
  const BpExecutor *executor = lane->executor;
  (void)task_id;
  (void)group;
  for (uint32_t i = 0; i < executor->num_calls && lane->status == 0; i++)
    lane->status = run_lane_call(lane, &executor->calls[executor->orders[lane->place][i]]);
  return lane->status < 0 && *bp_error_kind() ? -1 : 0; /* without an error, another lane failed */
}

static void run_lane(Lane *lane) {
  Current before = {.count = 0};
  lane->status = enter_place(lane->executor, lane->place, &before);
  if (lane->status == 0) {
    if (bp_parallel_launch(run_lane_calls, lane, 1) < 0)
      lane->status = -1;
    leave(&before, lane->status);
  }
  if (lane->status < 0)
    bp__crossings_give_up(lane->executor->crossings);
}

static void run_lane_in_thread(void *data) {
  Lane *lane = data;
  run_lane(lane);
  lane->error = bp_error_take();
}

/* Waits for all lanes. Raises the error of the caller's lane, or else the first error of another
 * lane. After the return no lane copies to staging memory. */
static int join_lanes(const BpExecutor *executor, const Lane *lanes) {
  int status = 0;
  for (uint32_t i = 0; i < executor->plan.graph->places.count; i++) {
    status |= lanes[i].status;
    if (lanes[i].error && !*bp_error_kind())
      bp_error_put(lanes[i].error);
    else
      bp_object_release(lanes[i].error);
  }
  if (status == 0)
    return 0;
  sync_quietly(executor);
  return -1;
}

static int run_in_one_thread(BpExecutor *executor) {
  Current before;
  if (enter(executor, &before) < 0)
    return -1;
  return leave(&before, bp_parallel_launch(run_calls, executor, 1));
}

/* The caller's thread works for the host, if that has a place. */
static uint32_t find_own_place(const BpExecutor *executor) {
  for (uint32_t i = 0; i < executor->plan.graph->places.count; i++)
    if (executor->plan.devices[i].device_type == BP_DEVICE_CPU)
      return i;
  return 0;
}

/* Takes the threads of the other places, and starts those that are not running. */
static int take_threads(BpExecutor *executor, uint32_t own) {
  for (uint32_t i = 0; i < executor->plan.graph->places.count; i++) {
    if (i != own && executor->threads[i] && !bp__queue_thread_take(executor->threads[i])) {
      bp__queue_thread_free(executor->threads[i]);
      executor->threads[i] = NULL;
    }
    if (i != own && !executor->threads[i])
      executor->threads[i] = bp__queue_thread_start();
    if (i != own && !executor->threads[i])
      return -1;
  }
  return 0;
}

/* Gives threads that have no work back. */
static void give_threads_back(BpExecutor *executor) {
  for (uint32_t i = 0; i < executor->plan.graph->places.count; i++)
    if (executor->threads[i])
      bp__queue_thread_wait(executor->threads[i]);
}

static int run_in_lanes(BpExecutor *executor) {
  const uint32_t own = find_own_place(executor), count = executor->plan.graph->places.count;
  Lane lanes[BP_PLACES_MAX];
  if (take_threads(executor, own) < 0) {
    give_threads_back(executor);
    return run_in_one_thread(executor);
  }
  bp_error_clear(); /* an older error of this thread would be mistaken for a lane's error */
  bp__crossings_begin(executor->crossings);
  for (uint32_t i = 0; i < count; i++) {
    lanes[i] = (Lane){executor, i, 0, NULL};
    if (i != own && bp__queue_thread_begin(executor->threads[i], run_lane_in_thread, &lanes[i]) < 0)
      return run_in_one_thread(executor); /* the child of a fork, which lacks all threads */
  }
  run_lane(&lanes[own]);
  for (uint32_t i = 0; i < count; i++)
    if (i != own)
      bp__queue_thread_wait(executor->threads[i]);
  return join_lanes(executor, lanes);
}

int bp__executor_run(BpExecutor *executor) {
  if (check_ready(executor) < 0 || bp__executor_renew_outputs(executor) < 0)
    return -1;
  return executor->crossings ? run_in_lanes(executor) : run_in_one_thread(executor);
}

int bp__executor_sync(BpExecutor *executor) {
  for (uint32_t i = 0; i < executor->num_streams; i++)
    if (bp_stream_sync(executor->plan.devices[i], executor->streams[i]) < 0)
      return -1;
  return 0;
}

BpTensor *bp__executor_output(const BpExecutor *executor, uint32_t head) {
  return executor->outputs[head];
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
    if (run_in_turn(executor, call) < 0 || bp__executor_sync(executor) < 0)
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
  if (check_ready(executor) < 0 || bp__executor_renew_outputs(executor) < 0 ||
      enter(executor, &before) < 0)
    return -1;
  Profile profile = {executor, visit, visitor};
  return leave(&before, bp_parallel_launch(profile_calls, &profile, 1));
}
