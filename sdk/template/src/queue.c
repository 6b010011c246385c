/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, timers and recordings. A stream has a thread, which starts with the first command and
 * works later than the host thinks: it waits a while before each command, so that whoever forgets
 * to synchronise sees old data. What fails sticks to its stream until somebody synchronises it. */
#include "simdev.h"

#include <stdlib.h>
#include <time.h>

#define LATENCY_NS 100000

struct BpRecording {
  int32_t device_id;
  int32_t uses; /* the owner and replays */
  SimdevCommand *first, *last;
};

typedef struct Stream {
  pthread_t thread;
  int32_t uses; /* the owner and commands of other streams */
  int32_t has_thread, ends;
  SimdevCommand *first, *last;
  uint64_t queued, done; /* commands, ever */
  BpError *failure;      /* of a command; later ones are left out until it was raised */
  BpRecording *recording;
  pthread_t recorder; /* the thread whose commands are recorded */
} Stream;

/* One lock and one condition for all streams: what one does, another may wait for. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static Stream defaults[SIMDEV_DEVICES] = {{.uses = 1}, {.uses = 1}}; /* never freed */

static Stream *stream_of(int32_t device_id, void *stream) {
  return stream ? stream : &defaults[device_id];
}

static int32_t no_memory(void) {
  return simdev_host.error->raise(BP_ERROR_MEMORY, "simdev: out of host memory");
}

/* ---- Commands ---------------------------------------------------------------------------- */

void *simdev_command_create(size_t size, int32_t (*run)(SimdevCommand *command),
                            void (*destroy)(SimdevCommand *command)) {
  SimdevCommand *command = calloc(1, size);
  if (command)
    *command = (SimdevCommand){NULL, run, destroy};
  else
    no_memory();
  return command;
}

static void append(SimdevCommand **first, SimdevCommand **last, SimdevCommand *command) {
  *(*last ? &(*last)->next : first) = command;
  *last = command;
}

/* With the lock held; it is free while the command runs. */
static void run_first(Stream *stream) {
  SimdevCommand *command = stream->first;
  int is_left_out = stream->failure != NULL;
  stream->first = command->next;
  if (!stream->first)
    stream->last = NULL;
  pthread_mutex_unlock(&lock);
  nanosleep(&(struct timespec){.tv_nsec = LATENCY_NS}, NULL);
  BpError *failure = !is_left_out && command->run(command) ? simdev_host.error->take() : NULL;
  command->destroy(command);
  pthread_mutex_lock(&lock);
  if (failure)
    stream->failure = failure;
  stream->done++;
  pthread_cond_broadcast(&changed);
}

static void *run_stream(void *context) {
  Stream *stream = context;
  pthread_mutex_lock(&lock);
  while (stream->first || !stream->ends)
    if (stream->first)
      run_first(stream);
    else
      pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  return NULL;
}

/* Queues a command; it passes to the queue also on failure. */
static int32_t enqueue(Stream *stream, SimdevCommand *command) {
  pthread_mutex_lock(&lock);
  int32_t rc = stream->has_thread ? 0 : pthread_create(&stream->thread, NULL, run_stream, stream);
  if (rc == 0) {
    stream->has_thread = 1;
    append(&stream->first, &stream->last, command);
    stream->queued++;
    pthread_cond_broadcast(&changed);
  }
  pthread_mutex_unlock(&lock);
  if (rc == 0)
    return 0;
  command->destroy(command);
  return simdev_host.error->raise(BP_ERROR_RUNTIME, "simdev: cannot start a stream's thread");
}

/* Whether it is this thread that records; with the lock held. */
static int is_recorded(const Stream *stream) {
  return stream->recording && pthread_equal(stream->recorder, pthread_self());
}

int32_t simdev_submit(int32_t device_id, void *handle, SimdevCommand *command) {
  Stream *stream = stream_of(device_id, handle);
  pthread_mutex_lock(&lock);
  BpRecording *recording = is_recorded(stream) ? stream->recording : NULL;
  if (recording)
    append(&recording->first, &recording->last, command);
  pthread_mutex_unlock(&lock);
  return recording ? 0 : enqueue(stream, command);
}

/* What streams do besides copies and launches: each kind of it uses some members. */
typedef struct Step {
  SimdevCommand base;
  Stream *stream; /* another one, until it has done so many commands */
  uint64_t done;
  int64_t *time;          /* set to now */
  BpRecording *recording; /* replayed */
} Step;

static void drop_step(SimdevCommand *command) {
  Step *step = (Step *)(void *)command;
  pthread_mutex_lock(&lock);
  Stream *unused = step->stream && --step->stream->uses == 0 ? step->stream : NULL;
  pthread_mutex_unlock(&lock);
  free(unused);
  if (step->recording)
    simdev_record_free(step->recording);
  free(step);
}

/* ---- Streams ----------------------------------------------------------------------------- */

int32_t simdev_create_stream(int32_t device_id, void **handle) {
  Stream *stream = calloc(1, sizeof *stream);
  (void)device_id;
  if (!stream)
    return no_memory();
  stream->uses = 1;
  *handle = stream;
  return 0;
}

/* What is queued is still done; a failure that nobody asked for is lost. */
int32_t simdev_free_stream(int32_t device_id, void *handle) {
  Stream *stream = handle;
  (void)device_id;
  pthread_mutex_lock(&lock);
  stream->ends = 1;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  if (stream->has_thread)
    pthread_join(stream->thread, NULL);
  simdev_host.object->release(stream->failure);
  pthread_mutex_lock(&lock);
  int32_t uses = --stream->uses;
  pthread_mutex_unlock(&lock);
  if (uses == 0)
    free(stream);
  return 0;
}

/* Until as many commands are done there. */
static void wait_until(const Stream *stream, uint64_t done) {
  pthread_mutex_lock(&lock);
  while (stream->done < done)
    pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
}

static uint64_t count_queued(const Stream *stream) {
  pthread_mutex_lock(&lock);
  uint64_t queued = stream->queued;
  pthread_mutex_unlock(&lock);
  return queued;
}

int32_t simdev_stream_sync(int32_t device_id, void *handle) {
  Stream *stream = stream_of(device_id, handle);
  wait_until(stream, count_queued(stream));
  pthread_mutex_lock(&lock);
  BpError *failure = stream->failure;
  stream->failure = NULL;
  pthread_mutex_unlock(&lock);
  if (!failure)
    return 0;
  simdev_host.error->raise(BP_ERROR_DEVICE, "%.*s", (int)failure->message.size,
                           failure->message.data);
  simdev_host.object->release(failure);
  return -1;
}

static int32_t run_wait(SimdevCommand *command) {
  const Step *step = (const Step *)(void *)command;
  wait_until(step->stream, step->done);
  return 0;
}

int32_t simdev_sync_from_to(int32_t device_id, void *from, void *to) {
  Step *step = simdev_command_create(sizeof *step, run_wait, drop_step);
  if (!step)
    return -1;
  step->stream = stream_of(device_id, from);
  pthread_mutex_lock(&lock);
  step->stream->uses++;
  step->done = step->stream->queued;
  pthread_mutex_unlock(&lock);
  return simdev_submit(device_id, to, &step->base);
}

/* ---- Timers ------------------------------------------------------------------------------ */

typedef struct Timer {
  int64_t times[2]; /* the device's clock at the start and at the stop, 0 if it came to neither */
  int32_t device_id;
  Stream *stream;
} Timer;

static int32_t run_stamp(SimdevCommand *command) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  *((Step *)(void *)command)->time = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
  return 0;
}

/* It is not recorded, since the timer may be gone when the recording is replayed. */
static int32_t queue_stamp(Timer *timer, int which, void *stream) {
  Step *step = simdev_command_create(sizeof *step, run_stamp, drop_step);
  if (!step)
    return -1;
  step->time = &timer->times[which];
  timer->stream = stream_of(timer->device_id, stream);
  return enqueue(timer->stream, &step->base);
}

int32_t simdev_timer_start(int32_t device_id, void *stream, void **handle) {
  Timer *timer = calloc(1, sizeof *timer);
  if (!timer)
    return no_memory();
  timer->device_id = device_id;
  *handle = timer;
  if (!queue_stamp(timer, 0, stream))
    return 0;
  free(timer);
  return -1;
}

int32_t simdev_timer_stop(void *timer, void *stream) {
  return queue_stamp(timer, 1, stream);
}

int32_t simdev_timer_read(void *handle, int64_t *nanoseconds) {
  Timer *timer = handle;
  wait_until(timer->stream, count_queued(timer->stream));
  int is_complete = timer->times[0] && timer->times[1];
  *nanoseconds = timer->times[1] - timer->times[0];
  free(timer);
  if (is_complete)
    return 0;
  return simdev_host.error->raise(BP_ERROR_RUNTIME, "simdev: the timer did not start and stop");
}

/* ---- Recordings -------------------------------------------------------------------------- */

int32_t simdev_record_begin(int32_t device_id, void *handle) {
  Stream *stream = stream_of(device_id, handle);
  BpRecording *recording = calloc(1, sizeof *recording);
  if (!recording)
    return no_memory();
  *recording = (BpRecording){.device_id = device_id, .uses = 1};
  pthread_mutex_lock(&lock);
  if (!stream->recording) {
    stream->recording = recording;
    stream->recorder = pthread_self();
    recording = NULL;
  }
  pthread_mutex_unlock(&lock);
  if (!recording)
    return 0;
  free(recording);
  return simdev_host.error->raise(BP_ERROR_RUNTIME, "simdev: the stream is recorded already");
}

int32_t simdev_record_end(int32_t device_id, void *handle, BpRecording **recording) {
  Stream *stream = stream_of(device_id, handle);
  pthread_mutex_lock(&lock);
  *recording = is_recorded(stream) ? stream->recording : NULL;
  if (*recording)
    stream->recording = NULL;
  pthread_mutex_unlock(&lock);
  if (*recording)
    return 0;
  return simdev_host.error->raise(BP_ERROR_RUNTIME, "simdev: this thread records no such stream");
}

static int32_t run_replay(SimdevCommand *command) {
  int32_t rc = 0;
  SimdevCommand *each = ((Step *)(void *)command)->recording->first;
  for (; rc == 0 && each; each = each->next)
    rc = each->run(each);
  return rc;
}

int32_t simdev_record_replay(BpRecording *recording, void *stream) {
  Step *step = simdev_command_create(sizeof *step, run_replay, drop_step);
  if (!step)
    return -1;
  step->recording = recording;
  pthread_mutex_lock(&lock);
  recording->uses++;
  pthread_mutex_unlock(&lock);
  return simdev_submit(recording->device_id, stream, &step->base);
}

/* Replays that are queued are still done. */
int32_t simdev_record_free(BpRecording *recording) {
  pthread_mutex_lock(&lock);
  int32_t uses = --recording->uses;
  pthread_mutex_unlock(&lock);
  if (uses)
    return 0;
  for (SimdevCommand *each = recording->first, *next; each; each = next) {
    next = each->next;
    each->destroy(each);
  }
  free(recording);
  return 0;
}
