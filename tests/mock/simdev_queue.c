/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of the simulated devices. Each has a thread, which starts with the first command and
 * works later than the host thinks: it dawdles before each command, so that whoever forgets to
 * synchronise sees old data. */

#include "tests/mock/simdev.h"

#include <stdlib.h>
#include <time.h>

#define DAWDLE_NS 100000

typedef struct Stream {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t thread;
  SimCommand *first, *last;
  const char *failure; /* of a command, until it was raised; later commands are left out */
  int32_t device_id;
  int is_running; /* there is a thread */
  int is_busy;    /* it works on a command */
  int ends;       /* when the queue is empty */
} Stream;

static Stream defaults[SIM_DEVICES] = {
    {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .device_id = 0},
    {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .device_id = 1},
};

static Stream *stream_of(int32_t device_id, void *stream) {
  return stream ? stream : &defaults[device_id];
}

/* ---- Commands ---------------------------------------------------------------------------- */

SimCommand *sim_command_create(const char *(*run)(SimCommand *command)) {
  SimCommand *command = calloc(1, sizeof *command);
  if (command)
    command->run = run;
  else
    sim_host.error->raise(BP_ERROR_MEMORY, "no memory for a command");
  return command;
}

void sim_command_destroy(SimCommand *command) {
  for (int i = 0; i < SIM_COMMAND_BUFFERS; i++)
    sim_unuse(command->buffers[i]);
  if (command->destroy)
    command->destroy(command);
  free(command);
}

/* ---- The thread -------------------------------------------------------------------------- */

/* With the lock held; it is free while the command runs. */
static void run_first(Stream *stream) {
  SimCommand *command = stream->first;
  int skips = stream->failure != NULL;
  stream->first = command->next;
  if (!stream->first)
    stream->last = NULL;
  stream->is_busy = 1;
  pthread_mutex_unlock(&stream->lock);
  nanosleep(&(struct timespec){.tv_nsec = DAWDLE_NS}, NULL);
  const char *failure = skips ? NULL : command->run(command);
  sim_command_destroy(command);
  pthread_mutex_lock(&stream->lock);
  stream->is_busy = 0;
  if (failure)
    stream->failure = failure;
  pthread_cond_broadcast(&stream->changed);
}

static void *run_stream(void *context) {
  Stream *stream = context;
  pthread_mutex_lock(&stream->lock);
  while (stream->first || !stream->ends) {
    if (stream->first)
      run_first(stream);
    else
      pthread_cond_wait(&stream->changed, &stream->lock);
  }
  pthread_mutex_unlock(&stream->lock);
  return NULL;
}

/* With the lock held. */
static int32_t start_thread(Stream *stream) {
  if (stream->is_running)
    return 0;
  if (pthread_create(&stream->thread, NULL, run_stream, stream))
    return sim_host.error->raise(BP_ERROR_RUNTIME, "cannot start the thread of a stream");
  stream->is_running = 1;
  return 0;
}

int32_t sim_submit(int32_t device_id, void *handle, SimCommand *command) {
  Stream *stream = stream_of(device_id, handle);
  pthread_mutex_lock(&stream->lock);
  int32_t rc = start_thread(stream);
  if (!rc) {
    if (stream->last)
      stream->last->next = command;
    else
      stream->first = command;
    stream->last = command;
    pthread_cond_broadcast(&stream->changed);
  }
  pthread_mutex_unlock(&stream->lock);
  if (rc)
    sim_command_destroy(command);
  return rc;
}

/* ---- Streams ----------------------------------------------------------------------------- */

int32_t sim_create_stream(int32_t device_id, void **handle) {
  Stream *stream = calloc(1, sizeof *stream);
  if (!stream)
    return sim_host.error->raise(BP_ERROR_MEMORY, "no memory for a stream");
  pthread_mutex_init(&stream->lock, NULL);
  pthread_cond_init(&stream->changed, NULL);
  stream->device_id = device_id;
  *handle = stream;
  return 0;
}

/* What is queued is still done. */
int32_t sim_free_stream(int32_t device_id, void *handle) {
  Stream *stream = handle;
  (void)device_id;
  pthread_mutex_lock(&stream->lock);
  stream->ends = 1;
  int is_running = stream->is_running;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
  if (is_running)
    pthread_join(stream->thread, NULL);
  pthread_cond_destroy(&stream->changed);
  pthread_mutex_destroy(&stream->lock);
  free(stream);
  return 0;
}

int32_t sim_stream_sync(int32_t device_id, void *handle) {
  Stream *stream = stream_of(device_id, handle);
  pthread_mutex_lock(&stream->lock);
  while (stream->first || stream->is_busy)
    pthread_cond_wait(&stream->changed, &stream->lock);
  const char *failure = stream->failure;
  stream->failure = NULL;
  pthread_mutex_unlock(&stream->lock);
  return failure ? sim_host.error->raise(BP_ERROR_DEVICE, "%s", failure) : 0;
}

/* ---- One stream after another ------------------------------------------------------------ */

/* Set in one stream, awaited in another; freed by the second of them to let go. */
typedef struct Event {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int is_set;
  int holders;
} Event;

static void drop_event(SimCommand *command) {
  Event *event = command->data;
  pthread_mutex_lock(&event->lock);
  event->is_set |= command->count == 0; /* also if the setting was left out */
  int holders = --event->holders;
  pthread_cond_broadcast(&event->changed);
  pthread_mutex_unlock(&event->lock);
  if (!holders) {
    pthread_cond_destroy(&event->changed);
    pthread_mutex_destroy(&event->lock);
    free(event);
  }
}

static const char *set_event(SimCommand *command) {
  (void)command; /* its end sets it */
  return NULL;
}

static const char *await_event(SimCommand *command) {
  Event *event = command->data;
  pthread_mutex_lock(&event->lock);
  while (!event->is_set)
    pthread_cond_wait(&event->changed, &event->lock);
  pthread_mutex_unlock(&event->lock);
  return NULL;
}

int32_t sim_sync_from_to(int32_t device_id, void *from, void *to) {
  Event *event = calloc(1, sizeof *event);
  SimCommand *set = sim_command_create(set_event), *await = sim_command_create(await_event);
  if (!event || !set || !await) {
    free(event);
    free(set);
    free(await);
    return sim_host.error->raise(BP_ERROR_MEMORY, "no memory for an event");
  }
  pthread_mutex_init(&event->lock, NULL);
  pthread_cond_init(&event->changed, NULL);
  event->holders = 2;
  set->data = await->data = event;
  set->destroy = await->destroy = drop_event;
  await->count = 1;
  if (sim_submit(device_id, from, set)) {
    sim_command_destroy(await);
    return -1;
  }
  return sim_submit(device_id, to, await);
}
