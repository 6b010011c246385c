/* SPDX-License-Identifier: Apache-2.0 */
/* Section launch: functions launched on streams, together with copies. */
#include <string.h>

#include "conformance/kernel.h"

#define EXTENT 1024

/* Adds 1 to each element, in $1 blocks of $2 threads. */
#define STEP_TEXT                                                                                  \
  "(module (function \"increase\" (buffer A int32 global 1024)"                                    \
  " (for b:int64 0 %1$d bound \"blockIdx.x\" (for t:int64 0 %2$d bound \"threadIdx.x\""            \
  " (store A (add (mul b %2$d) t) (add (load A (add (mul b %2$d) t)) 1:int32))))))"

typedef struct Step {
  KitCode code;
  BpFunction *function;
  KitBuffer buffer;
  KitArgs args;
} Step;

/* Builds a kernel with this number of blocks and threads. */
static void open_grid(Kit *kit, Step *step, int blocks, int threads) {
  char *text = g_strdup_printf(STEP_TEXT, blocks, threads);
  *step = (Step){.code = bp__kit_build(kit, text)};
  g_free(text);
  step->function = bp__kit_function(step->code.module, "increase");
  bp__kit_buffer_create(kit, &step->buffer, KIT_INT32, EXTENT);
  bp__kit_args_add(&step->args, bp__kit_buffer_value(&step->buffer));
  bp__kit_args_add_launch(&step->args, &step->code, "increase", EXTENT);
}

static void open_step(Kit *kit, Step *step) {
  bp__kit_open_target(kit);
  int threads = (int)bp__kit_block(kit, 32);
  open_grid(kit, step, EXTENT / threads, threads);
}

static void close_step(Kit *kit, Step *step) {
  KIT_OK(bp_device_set_current(kit->target_device, NULL), "set_device");
  bp__kit_buffer_free(kit, &step->buffer);
  bp_object_release(step->function);
  bp__kit_code_clear(&step->code);
}

static void expect_value(const int32_t got[EXTENT], int32_t expected, const char *what) {
  for (int i = 0; i < EXTENT; i++)
    KIT_TRUE(got[i] == expected, "%s: element %d is %d and not %d", what, i, got[i], expected);
}

/* Alternates copies and launches, with a single wait at the end. */
static void expect_in_order(const Kit *kit, Step *step, void *stream, const char *what) {
  int32_t *sent = g_new0(int32_t, EXTENT), *got = g_new0(int32_t, EXTENT);
  KIT_OK(bp_device_set_current(kit->target_device, stream), "set_device");
  for (int32_t round = 0; round < 4; round++) {
    for (int i = 0; i < EXTENT; i++)
      sent[i] = round * 100;
    bp__kit_buffer_set(kit, &step->buffer, sent, stream);
    for (int i = 0; i < 10; i++)
      KIT_OK(bp__kit_launch(step->function, &step->args), "the call of a function");
    bp__kit_buffer_get(kit, &step->buffer, got, stream);
    expect_value(got, round * 100 + 10, what);
  }
  g_free(sent);
  g_free(got);
}

static void run_order(Kit *kit) {
  Step step;
  open_step(kit, &step);
  expect_in_order(kit, &step, NULL, "copies and launches on the default stream");
  close_step(kit, &step);
}

static void run_current(Kit *kit) {
  Step step;
  void *streams[2];
  bp__kit_open_target(kit);
  if (!kit->target_api || !kit->target_api->create_stream)
    bp__kit_skip("the device has one queue");
  open_step(kit, &step);
  for (int i = 0; i < 2; i++)
    KIT_OK(bp_stream_create(kit->target_device, &streams[i]), "create_stream");
  for (int i = 0; i < 4; i++)
    expect_in_order(kit, &step, streams[i % 2], "copies and launches on the current stream");
  for (int i = 0; i < 2; i++)
    KIT_OK(bp_stream_free(kit->target_device, streams[i]), "free_stream");
  close_step(kit, &step);
}

static int launch_on(const Kit *kit, Step *step, void *stream) {
  const BpInvocation invocation = {sizeof invocation, kit->target_device, stream, 0};
  BpValue result;
  return bp_function_launch(step->function, &invocation, step->args.values, step->args.count,
                            &result);
}

/* Alternates copies and launches on a stream that is not current. */
static void expect_in_order_there(Kit *kit, Step *step, void *stream) {
  int32_t *sent = g_new0(int32_t, EXTENT), *got = g_new0(int32_t, EXTENT);
  for (int32_t round = 0; round < 8; round++) {
    for (int i = 0; i < EXTENT; i++)
      sent[i] = round * 100;
    bp__kit_buffer_set(kit, &step->buffer, sent, stream);
    for (int i = 0; i < 10; i++)
      KIT_OK(launch_on(kit, step, stream), "a launch with an invocation");
    bp__kit_buffer_get(kit, &step->buffer, got, stream);
    expect_value(got, round * 100 + 10, "copies and launches on the stream of the invocation");
  }
  g_free(sent);
  g_free(got);
}

static void run_invocation(Kit *kit) {
  Step step;
  void *stream, *other;
  bp__kit_open_target(kit);
  if (!kit->target_api || !kit->target_api->create_stream)
    bp__kit_skip("the device has one queue");
  open_step(kit, &step);
  KIT_OK(bp_stream_create(kit->target_device, &stream), "create_stream");
  KIT_OK(bp_stream_create(kit->target_device, &other), "create_stream");
  KIT_OK(bp_device_set_current(kit->target_device, other), "set_device");
  expect_in_order_there(kit, &step, stream);
  close_step(kit, &step);
  KIT_OK(bp_stream_free(kit->target_device, stream), "free_stream");
  KIT_OK(bp_stream_free(kit->target_device, other), "free_stream");
}

/* A launch on one stream reads the result of another. */
static void run_across(Kit *kit) {
  Step step;
  void *stream = NULL;
  int32_t *sent = g_new0(int32_t, EXTENT), *got = g_new0(int32_t, EXTENT);
  bp__kit_open_target(kit);
  if (!kit->target_api || !kit->target_api->create_stream)
    bp__kit_skip("the device has one queue");
  open_step(kit, &step);
  KIT_OK(bp_stream_create(kit->target_device, &stream), "create_stream");
  for (int32_t round = 0; round < 8; round++) {
    for (int i = 0; i < EXTENT; i++)
      sent[i] = round * 7;
    bp__kit_buffer_set(kit, &step.buffer, sent, NULL);
    KIT_OK(bp_stream_sync_from_to(kit->target_device, NULL, stream), "sync_stream_from_to");
    KIT_OK(bp_device_set_current(kit->target_device, stream), "set_device");
    KIT_OK(bp__kit_launch(step.function, &step.args), "the call of a function");
    KIT_OK(bp_stream_sync_from_to(kit->target_device, stream, NULL), "sync_stream_from_to");
    bp__kit_buffer_get(kit, &step.buffer, got, NULL);
    expect_value(got, round * 7 + 1, "a launch between two copies of another stream");
  }
  KIT_OK(bp_device_set_current(kit->target_device, NULL), "set_device");
  KIT_OK(bp_stream_free(kit->target_device, stream), "free_stream");
  close_step(kit, &step);
  g_free(sent);
  g_free(got);
}

/* Frees a kernel's buffers while the kernel is queued, and allocates the memory again. */
static void run_freed(Kit *kit) {
  Step step;
  KitBuffer copy;
  int32_t *got = g_new0(int32_t, EXTENT), *zero = g_new0(int32_t, EXTENT);
  open_step(kit, &step);
  bp__kit_buffer_create(kit, &copy, KIT_INT32, EXTENT);
  for (int round = 0; round < 4; round++) {
    KitBuffer passing, taken;
    KitArgs args = step.args;
    bp__kit_buffer_create(kit, &passing, KIT_INT32, EXTENT);
    args.values[0] = bp__kit_buffer_value(&passing);
    bp__kit_buffer_set(kit, &passing, zero, NULL);
    for (int i = 0; i < 20; i++)
      KIT_OK(bp__kit_launch(step.function, &args), "the call of a function");
    BpCopy move = {sizeof(BpCopy),     passing.handle, 0, kit->target_device, copy.handle, 0,
                   kit->target_device, copy.bytes,     0};
    KIT_OK(bp_device_copy(&move, NULL), "a copy within the device");
    bp__kit_buffer_free(kit, &passing);
    bp__kit_buffer_create(kit, &taken, KIT_INT32, EXTENT);
    bp__kit_buffer_set(kit, &taken, zero, NULL);
    bp__kit_buffer_get(kit, &copy, got, NULL);
    expect_value(got, 20, "the results of a kernel in a buffer that was freed meanwhile");
    bp__kit_buffer_free(kit, &taken);
  }
  bp__kit_buffer_free(kit, &copy);
  close_step(kit, &step);
  g_free(got);
  g_free(zero);
}

/* Launches that have ended keep no memory. The kernel works on the beginning of each buffer. */
static void run_released(Kit *kit) {
  Step step;
  open_step(kit, &step);
  KitTurnover turnover = bp__kit_turnover(kit->target_device);
  int64_t extent = MAX((int64_t)(turnover.chunk / sizeof(int32_t)), EXTENT);
  for (int i = 0; i < turnover.rounds; i++) {
    KitBuffer buffer;
    KitArgs args = step.args;
    bp__kit_buffer_create(kit, &buffer, KIT_INT32, extent);
    buffer.extent = EXTENT;
    args.values[0] = bp__kit_buffer_value(&buffer);
    bp__kit_call(kit, step.function, &args, NULL);
    bp__kit_buffer_free(kit, &buffer);
  }
  close_step(kit, &step);
}

typedef struct Launches {
  const Kit *kit;
  const Step *step;
} Launches;

#define LAUNCHES 500

static void launch_often(void *data) {
  const Launches *launches = data;
  for (int i = 1; i <= LAUNCHES; i++) {
    KIT_OK(bp__kit_launch(launches->step->function, &launches->step->args),
           "the call of a function");
    if (i % 50 == 0)
      KIT_OK(bp_stream_sync(launches->kit->target_device, NULL), "stream_sync");
  }
}

static void run_leaks(Kit *kit) {
  Step step;
  bp__kit_open_target(kit);
  open_grid(kit, &step, 1, 1);
  Launches launches = {kit, &step};
  bp__kit_expect_no_leak(launch_often, &launches, 256 * LAUNCHES, "500 launches");
  close_step(kit, &step);
}

/* In a process that is short of memory a launch works or fails; a failure is reported once, by the
 * call or by the stream's next synchronisation. */
static void run_failure(Kit *kit) {
  Step step;
  int32_t *zero = g_new0(int32_t, EXTENT), *got = g_new0(int32_t, EXTENT);
  open_step(kit, &step);
  for (int i = 0; i < 2; i++) { /* the first launch builds everything that launches share */
    bp__kit_buffer_set(kit, &step.buffer, zero, NULL);
    bp__kit_call(kit, step.function, &step.args, NULL);
  }
  bp__kit_buffer_set(kit, &step.buffer, zero, NULL);
  KIT_OK(bp_stream_sync(kit->target_device, NULL), "stream_sync");
  bp__kit_limit_memory((size_t)12 << 20);
  int call = bp__kit_launch(step.function, &step.args);
  if (call != 0)
    KIT_REFUSED(call, NULL, "a launch in a process that is short of memory");
  int sync = bp_stream_sync(kit->target_device, NULL);
  if (sync != 0)
    KIT_REFUSED(sync, NULL, "stream_sync after a launch in a process that is short of memory");
  bp__kit_unlimit_memory();
  KIT_OK(bp_stream_sync(kit->target_device, NULL), "stream_sync after one that raised a failure");
  bp__kit_buffer_get(kit, &step.buffer, got, NULL);
  if (call == 0 && sync == 0)
    expect_value(got, 1, "a launch of which no failure was raised");
  bp__kit_buffer_set(kit, &step.buffer, zero, NULL);
  bp__kit_call(kit, step.function, &step.args, NULL);
  bp__kit_buffer_get(kit, &step.buffer, got, NULL);
  expect_value(got, 1, "a launch when there was memory again");
  close_step(kit, &step);
  g_free(zero);
  g_free(got);
}

/* Launches are part of a recording. */
static void run_recording(Kit *kit) {
  Step step;
  BpRecording *recording = NULL;
  void *stream = NULL;
  int32_t *sent = g_new0(int32_t, EXTENT), *got = g_new0(int32_t, EXTENT);
  bp__kit_open_target(kit);
  const BpRecordingApi *api = bp__kit_recordings(kit->target_device.device_type);
  void *context = kit->target_api->context;
  open_step(kit, &step);
  int32_t device_id = kit->target_device.device_id;
  KIT_OK(bp_stream_create(kit->target_device, &stream), "create_stream");
  KIT_OK(bp_device_set_current(kit->target_device, stream), "set_device");
  bp__kit_buffer_set(kit, &step.buffer, sent, stream);
  KIT_OK(bp__kit_launch(step.function, &step.args), "the call of a function");
  bp__kit_buffer_get(kit, &step.buffer, got, stream);
  KIT_OK(api->begin(context, device_id, stream), "begin of a recording");
  for (int i = 0; i < 3; i++)
    KIT_OK(bp__kit_launch(step.function, &step.args), "the call of a function");
  KIT_OK(api->end(context, device_id, stream, &recording), "end of a recording");
  for (int32_t round = 0; round < 4; round++) {
    bp__kit_buffer_get(kit, &step.buffer, got, stream);
    expect_value(got, 1 + 3 * round, "three launches, recorded, before a replay");
    KIT_OK(api->replay(context, recording, stream), "replay of a recording");
  }
  KIT_OK(api->free(context, recording), "free of a recording");
  bp__kit_buffer_get(kit, &step.buffer, got, stream);
  expect_value(got, 13, "three launches, recorded and replayed four times");
  KIT_OK(bp_device_set_current(kit->target_device, NULL), "set_device");
  KIT_OK(bp_stream_free(kit->target_device, stream), "free_stream");
  close_step(kit, &step);
  g_free(sent);
  g_free(got);
}

static const Check checks[] = {
    {"launch.order", "launches and copies of one stream are done in order", "module.call",
     CHECK_CORE, run_order},
    {"launch.current", "a launch goes to the stream that is current in the thread",
     "launch.order stream.create", CHECK_OPTIONAL, run_current},
    {"launch.invocation", "a launch goes to the stream that its invocation names", "launch.current",
     CHECK_OPTIONAL, run_invocation},
    {"launch.across", "a launch waits for another stream, and another stream for it",
     "launch.current stream.order", CHECK_OPTIONAL, run_across},
    {"launch.freed", "a queued launch completes although its buffers are freed", "launch.order",
     CHECK_CORE, run_freed},
    {"launch.released", "memory that launches used can be allocated again", "launch.order",
     CHECK_CORE, run_released},
    {"launch.leaks", "launches leave no threads, descriptors or memory of the host behind",
     "launch.order", CHECK_CORE, run_leaks},
    {"launch.failure", "a failed launch is reported once, and the next one works", "launch.order",
     CHECK_OPTIONAL | CHECK_FAULT, run_failure},
    {"launch.recording", "recorded launches run at each replay", "launch.order stream.recording",
     CHECK_OPTIONAL, run_recording},
};

const Section bp__kit_launch_section = {"launch", NEEDS_TARGET, checks, G_N_ELEMENTS(checks)};
