/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, timers and recordings. A stream has a thread, which starts with the first command. The
 * thread waits a while before each command, so that a caller that forgets to synchronise sees old
 * data. A failure stays with its stream until a caller synchronises the stream. */
#include "simdev.h"

#include <stdlib.h>
#include <time.h>

#define LATENCY_NS 100000

typedef struct Command {
  struct Command *next;
  SimdevWork work;
} Command;

typedef struct Commands {
  Command *first, *last;
} Commands;

typedef struct Stream {
  pthread_t thread;
  int32_t has_thread, ends;
  Commands commands;
  uint64_t queued, done; /* commands, ever */
  BpError *failure;      /* failure of a command; later commands are skipped until it is raised */
  BpRecording *recording;
  pthread_t recorder; /* the recording thread */
} Stream;

struct BpRecording {
  int32_t device_id;
  _Atomic int32_t uses; /* references: the owner and replays */
  Commands commands;
};

/* One lock and one condition for all streams: a stream may wait for the work of another. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static Stream defaults[SIMDEV_DEVICES];

static Stream *stream_of(int32_t device_id, void *stream) {
  return stream ? stream : &defaults[device_id];
}

static int32_t fail(const char *what) {
  return bp_plugin_raise(&simdev_host, BP_ERROR_RUNTIME, "simdev: %s", what);
}

/* ---- Commands ---------------------------------------------------------------------------- */

/* Runs the stream's commands; the lock is free while a command runs. */
static void *run_stream(void *context) {
  Stream *stream = context;
  pthread_mutex_lock(&lock);
  while (stream->commands.first || !stream->ends) {
    Command *command = stream->commands.first;
    if (!command) {
      pthread_cond_wait(&changed, &lock);
      continue;
    }
    int is_left_out = stream->failure != NULL;
    stream->commands.first = command->next;
    pthread_mutex_unlock(&lock);
    nanosleep(&(struct timespec){.tv_nsec = LATENCY_NS}, NULL);
    int32_t rc = is_left_out ? 0 : command->work.run(command->work.data);
    BpError *failure = rc ? simdev_host.error->take() : NULL;
    command->work.destroy(command->work.data);
    free(command);
    pthread_mutex_lock(&lock);
    if (failure)
      stream->failure = failure;
    stream->done++;
    pthread_cond_broadcast(&changed);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

/* Whether this thread records the stream; called with the lock held. */
static int is_recorded(const Stream *stream) {
  return stream->recording && pthread_equal(stream->recorder, pthread_self());
}

int32_t simdev_submit(int32_t device_id, void *handle, SimdevWork work) {
  Stream *stream = stream_of(device_id, handle);
  Command *command = bp_plugin_calloc(&simdev_host, sizeof *command);
  pthread_mutex_lock(&lock);
  int is_for_later = is_recorded(stream) && !work.is_never_recorded;
  if (command && !is_for_later && !stream->has_thread)
    stream->has_thread = !pthread_create(&stream->thread, NULL, run_stream, stream);
  int is_taken = command && (is_for_later || stream->has_thread);
  if (is_taken) {
    Commands *commands = is_for_later ? &stream->recording->commands : &stream->commands;
    *(commands->first ? &commands->last->next : &commands->first) = command;
    commands->last = command;
    command->work = work;
    stream->queued += !is_for_later;
    pthread_cond_broadcast(&changed);
  }
  pthread_mutex_unlock(&lock);
  if (is_taken)
    return 0;
  work.destroy(work.data);
  if (command)
    fail("cannot start a stream's thread");
  free(command);
  return -1;
}

/* ---- Events ------------------------------------------------------------------------------ */

/* A point of a stream, or the two points of a timer. */
typedef struct Event {
  int32_t device_id;
  int32_t pending;  /* number of queued stamps */
  int64_t times[2]; /* times of the last two stamps in nanoseconds; 0: none */
} Event;

static int32_t run_stamp(void *data) {
  Event *event = data;
  struct timespec now;
  pthread_mutex_lock(&lock);
  clock_gettime(CLOCK_MONOTONIC, &now);
  event->times[0] = event->times[1];
  event->times[1] = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
  pthread_mutex_unlock(&lock);
  return 0;
}

static void end_stamp(void *data) {
  pthread_mutex_lock(&lock);
  ((Event *)data)->pending--;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

/* Queues a stamp, which is never recorded: its waiter may be gone when the recording is
 * replayed. */
static int32_t queue_stamp(Event *event, void *stream) {
  pthread_mutex_lock(&lock);
  event->pending++;
  pthread_mutex_unlock(&lock);
  return simdev_submit(event->device_id, stream, (SimdevWork){run_stamp, end_stamp, event, 1});
}

/* Makes an event with its first stamp queued; NULL with an error. */
static Event *create_event(int32_t device_id, void *stream) {
  Event *event = bp_plugin_calloc(&simdev_host, sizeof *event);
  if (event)
    event->device_id = device_id;
  if (event && !queue_stamp(event, stream))
    return event;
  free(event);
  return NULL;
}

static int32_t wait_for_event(void *data) {
  pthread_mutex_lock(&lock);
  while (((Event *)data)->pending)
    pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  return 0;
}

static void free_event(void *data) {
  wait_for_event(data);
  free(data);
}

/* ---- Timers ------------------------------------------------------------------------------ */

/* A timer is an event with a stamp for its start and one for its stop. */
static int32_t timer_start(void *context, int32_t device_id, void *stream, void **timer) {
  (void)context;
  *timer = create_event(device_id, stream);
  return *timer ? 0 : -1;
}

static int32_t timer_stop(void *context, void *timer, void *stream) {
  (void)context;
  return queue_stamp(timer, stream);
}

static int32_t timer_read(void *context, void *timer, int64_t *nanoseconds) {
  (void)context;
  wait_for_event(timer);
  const int64_t *times = ((Event *)timer)->times;
  int is_complete = times[0] != 0; /* a stamp after a failure is skipped */
  *nanoseconds = times[1] - times[0];
  return is_complete ? 0 : fail("the timer did not start and stop");
}

static int32_t timer_free(void *context, void *timer) {
  (void)context;
  free_event(timer);
  return 0;
}

const BpTimerApi simdev_timers = {.struct_size = sizeof(BpTimerApi),
                                  .start = timer_start,
                                  .stop = timer_stop,
                                  .read = timer_read,
                                  .free = timer_free};

static void unuse_recording(void *data) {
  BpRecording *recording = data;
  if (--recording->uses)
    return;
  for (Command *each = recording->commands.first, *next; each; each = next) {
    next = each->next;
    each->work.destroy(each->work.data);
    free(each);
  }
  free(recording);
}

/* ---- Streams ----------------------------------------------------------------------------- */

int32_t simdev_create_stream(void *context, int32_t device_id, void **stream) {
  (void)context;
  (void)device_id;
  *stream = bp_plugin_calloc(&simdev_host, sizeof(Stream));
  return *stream ? 0 : -1;
}

/* Queued work is still done; a failure that no caller asked for is lost. */
int32_t simdev_free_stream(void *context, int32_t device_id, void *handle) {
  Stream *stream = handle;
  (void)context;
  (void)device_id;
  pthread_mutex_lock(&lock);
  stream->ends = 1;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  if (stream->has_thread)
    pthread_join(stream->thread, NULL);
  if (stream->recording)
    unuse_recording(stream->recording);
  simdev_host.object->release(stream->failure);
  free(stream);
  return 0;
}

int32_t simdev_stream_sync(void *context, int32_t device_id, void *handle) {
  (void)context;
  Stream *stream = stream_of(device_id, handle);
  pthread_mutex_lock(&lock);
  for (uint64_t queued = stream->queued; stream->done < queued;)
    pthread_cond_wait(&changed, &lock);
  BpError *failure = stream->failure;
  stream->failure = NULL;
  pthread_mutex_unlock(&lock);
  return simdev_host.error->put(failure);
}

int32_t simdev_sync_from_to(void *context, int32_t device_id, void *from, void *to) {
  (void)context;
  Event *event = create_event(device_id, from);
  if (!event)
    return -1;
  return simdev_submit(device_id, to, (SimdevWork){wait_for_event, free_event, event, 0});
}

/* ---- Recordings -------------------------------------------------------------------------- */

static int32_t record_begin(void *context, int32_t device_id, void *handle) {
  (void)context;
  Stream *stream = stream_of(device_id, handle);
  BpRecording *recording = NULL;
  pthread_mutex_lock(&lock);
  if (stream->recording)
    fail("the stream is recorded already");
  else
    recording = stream->recording = bp_plugin_calloc(&simdev_host, sizeof *recording);
  if (recording) {
    *recording = (BpRecording){.device_id = device_id, .uses = 1};
    stream->recorder = pthread_self();
  }
  pthread_mutex_unlock(&lock);
  return recording ? 0 : -1;
}

static int32_t record_end(void *context, int32_t device_id, void *handle, BpRecording **recording) {
  (void)context;
  Stream *stream = stream_of(device_id, handle);
  pthread_mutex_lock(&lock);
  *recording = is_recorded(stream) ? stream->recording : NULL;
  if (*recording)
    stream->recording = NULL;
  pthread_mutex_unlock(&lock);
  return *recording ? 0 : fail("this thread records no such stream");
}

static int32_t run_recording(void *data) {
  int32_t rc = 0;
  const Command *each = ((BpRecording *)data)->commands.first;
  for (; rc == 0 && each; each = each->next)
    rc = each->work.run(each->work.data);
  return rc;
}

static int32_t record_replay(void *context, BpRecording *recording, void *stream) {
  (void)context;
  recording->uses++;
  return simdev_submit(recording->device_id, stream,
                       (SimdevWork){run_recording, unuse_recording, recording, 0});
}

/* Queued replays are still done. */
static int32_t record_free(void *context, BpRecording *recording) {
  (void)context;
  unuse_recording(recording);
  return 0;
}

const BpRecordingApi simdev_recordings = {.struct_size = sizeof(BpRecordingApi),
                                          .begin = record_begin,
                                          .end = record_end,
                                          .replay = record_replay,
                                          .free = record_free};
