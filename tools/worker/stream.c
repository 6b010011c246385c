/* SPDX-License-Identifier: Apache-2.0 */
/* A worker whose host is on another machine: requests arrive through one stream of bytes, and
 * answers go back through another.
 *
 * The main thread reads requests. A second thread takes the requests in the order of the stream: it
 * runs requests that queue work itself, and passes every other request to the thread of its
 * channel, since it may wait. So an answered request sees all work that was queued before it. The
 * main thread runs the request that completes an event, because queued work may wait for that
 * event. */

#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct Request {
  struct Request *next;
  BpWorkerFrame frame;
  _Alignas(16) char arguments[];
} Request;

static int input = -1, output = -1;

/* ---- Bytes ------------------------------------------------------------------------------- */

int worker_read_all(int fd, void *bytes, size_t size) {
  for (char *at = bytes, *to = at + size; at < to;) {
    ssize_t got = read(fd, at, (size_t)(to - at));
    if (got == 0 || (got < 0 && errno != EINTR))
      return -1;
    at += got > 0 ? got : 0;
  }
  return 0;
}

int worker_write_all(int fd, const void *bytes, size_t size) {
  for (const char *at = bytes, *to = at + size; at < to;) {
    ssize_t sent = write(fd, at, (size_t)(to - at));
    if (sent < 0 && errno != EINTR)
      return -1;
    at += sent > 0 ? sent : 0;
  }
  return 0;
}

/* ---- Sending ----------------------------------------------------------------------------- */

static pthread_mutex_t sending = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int is_sending;

/* Sends a frame. Ends this process if the host is gone. */
static void send_frame(uint32_t type, uint32_t channel, uint64_t number, const void *bytes,
                       size_t size) {
  const BpWorkerFrame frame = {type, channel, number, size};
  pthread_mutex_lock(&sending);
  is_sending = 1;
  if (worker_write_all(output, &frame, sizeof frame) || worker_write_all(output, bytes, size))
    _exit(0);
  is_sending = 0;
  pthread_mutex_unlock(&sending);
}

void worker_stream_send_part(const Job *job, uint64_t size) {
  send_frame(BP_WORKER_FRAME_PART, job->index, 0, job->room, size);
}

/* Writes an end frame, unless another thread is writing a frame. */
void worker_stream_note_end(uint32_t end) {
  const BpWorkerFrame frame = {BP_WORKER_FRAME_END, 0, end, 0};
  if (!is_sending)
    worker_write_all(output, &frame, sizeof frame);
}

static void send_log(void *context, int32_t level, const char *message) {
  char text[BP_WORKER_TEXT_MAX - 64]; /* the host adds the machine's name */
  (void)context;
  snprintf(text, sizeof text, "%s", message);
  send_frame(BP_WORKER_FRAME_LOG, 0, (uint64_t)level, text, strlen(text));
}

/* ---- Failures of queued work ------------------------------------------------------------- */

#define ANY_INDEX UINT64_MAX

/* A stream of a device whose queued work has failed and that the host has not yet synchronised. */
typedef struct Failure {
  struct Failure *next;
  uint64_t kind, index, stream;
  char *error_kind, *message;
} Failure;

/* An event that was recorded after a failure of queued work. */
typedef struct FailedEvent {
  struct FailedEvent *next;
  uint64_t event;
} FailedEvent;

static struct {
  pthread_mutex_t lock;
  Failure *all;
  FailedEvent *events;
} failures = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The positions of a device and a stream among the arguments of a request. -1: the arguments do not
 * name a device. */
typedef struct Position {
  int index, stream;
} Position;

static int find_position(uint32_t operation, Position *position) {
  switch (operation) {
  case BP_WORKER_LAUNCH:
  case BP_WORKER_STREAM_SYNC:
    *position = (Position){1, 2};
    return 1;
  case BP_WORKER_STREAM_ORDER:
    *position = (Position){1, 3};
    return 1;
  case BP_WORKER_COPY_IN:
  case BP_WORKER_COPY_OUT:
    *position = (Position){1, 5};
    return 1;
  case BP_WORKER_COPY_WITHIN:
    *position = (Position){-1, 8};
    return 1;
  case BP_WORKER_EVENT_RECORD:
  case BP_WORKER_EVENT_WAIT:
    *position = (Position){-1, 2};
    return 1;
  default:
    return 0;
  }
}

static uint64_t argument(const Request *request, int index) {
  uint64_t number = 0;
  if (((uint64_t)index + 1) * sizeof number <= request->frame.size)
    memcpy(&number, request->arguments + (size_t)index * sizeof number, sizeof number);
  return number;
}

/* Makes a Failure of the thread's error. If memory is exhausted, the worker ends: a wrong result
 * must not pass without an error. */
static void add_failure(const Request *request) {
  Position position;
  if (!find_position((uint32_t)request->frame.number, &position))
    return;
  Failure *failure = calloc(1, sizeof *failure);
  if (!failure)
    exit(1);
  failure->kind = argument(request, 0);
  failure->index = position.index < 0 ? ANY_INDEX : argument(request, position.index);
  failure->stream = argument(request, position.stream);
  failure->error_kind = strdup(*bp_error_kind() ? bp_error_kind() : BP_ERROR_PLUGIN);
  failure->message = strdup(bp_error_message());
  if (!failure->error_kind || !failure->message)
    exit(1);
  bp_error_clear();
  pthread_mutex_lock(&failures.lock);
  failure->next = failures.all;
  failures.all = failure;
  pthread_mutex_unlock(&failures.lock);
}

/* Returns the link to the oldest failure of a request's stream, or NULL; called with the lock
 * held. */
static Failure **find_failure(const Request *request) {
  Position position;
  Failure **found = NULL;
  if (!find_position((uint32_t)request->frame.number, &position))
    return NULL;
  uint64_t index = position.index < 0 ? ANY_INDEX : argument(request, position.index);
  for (Failure **at = &failures.all; *at; at = &(*at)->next)
    if ((*at)->kind == argument(request, 0) &&
        (*at)->stream == argument(request, position.stream) &&
        ((*at)->index == index || (*at)->index == ANY_INDEX || index == ANY_INDEX))
      found = at;
  return found;
}

static void free_failure(Failure **link) {
  Failure *failure = *link;
  *link = failure->next;
  free(failure->error_kind);
  free(failure->message);
  free(failure);
}

/* Raises the first failure of the stream that a request synchronises, once, and drops the later
 * failures, which follow from the first. `rc`: the result of the request's handler. */
static int raise_failure(const Request *request, int rc) {
  pthread_mutex_lock(&failures.lock);
  Failure **link = find_failure(request);
  if (link) {
    bp_error_clear();
    bp_error_raise((*link)->error_kind, "%s", (*link)->message);
    rc = -1;
  }
  while ((link = find_failure(request)))
    free_failure(link);
  pthread_mutex_unlock(&failures.lock);
  return rc;
}

/* Returns the link to the record of a failed event; the link is NULL if the event did not fail.
 * Called with the lock held. */
static FailedEvent **find_event(uint64_t event) {
  FailedEvent **at = &failures.events;
  while (*at && (*at)->event != event)
    at = &(*at)->next;
  return at;
}

/* Notes a recorded event as failed if its stream has failed; forgets a freed event. */
static void note_event(const Request *request) {
  uint64_t event = argument(request, 1);
  pthread_mutex_lock(&failures.lock);
  int has_failed = request->frame.number == BP_WORKER_EVENT_RECORD && find_failure(request);
  FailedEvent **link = find_event(event), *known = *link;
  if (known && !has_failed) {
    *link = known->next;
    free(known);
  } else if (!known && has_failed) {
    FailedEvent *added = calloc(1, sizeof *added);
    if (!added)
      exit(1);
    *added = (FailedEvent){failures.events, event};
    failures.events = added;
  }
  pthread_mutex_unlock(&failures.lock);
}

/* Changes a complete event's state in the results to failed if the event's work failed. */
static void note_state(const Request *request, char *results) {
  uint64_t state;
  memcpy(&state, results, sizeof state);
  pthread_mutex_lock(&failures.lock);
  if (state == BP_EVENT_COMPLETE && *find_event(argument(request, 1)))
    state = BP_EVENT_FAILED;
  pthread_mutex_unlock(&failures.lock);
  memcpy(results, &state, sizeof state);
}

/* ---- Running ----------------------------------------------------------------------------- */

static Job make_job(Request *request) {
  return (Job){.index = request->frame.channel,
               .operation = (uint32_t)request->frame.number,
               .in = {request->arguments, request->arguments + request->frame.size, 0}};
}

/* The request that this thread handles, for handle_with_failures. */
static _Thread_local Request *current;

static int handle_with_failures(Job *job) {
  char *results = job->out.at;
  int rc = worker_handle(job);
  switch (job->operation) {
  case BP_WORKER_STREAM_SYNC:
  case BP_WORKER_COPY_OUT:
    return raise_failure(current, rc);
  case BP_WORKER_EVENT_QUERY:
  case BP_WORKER_EVENT_SYNC:
    if (!rc)
      note_state(current, results);
    return rc;
  case BP_WORKER_EVENT_FREE:
    note_event(current);
    return rc;
  default:
    return rc;
  }
}

static void run_answered(Request *request, char *results) {
  Job job = make_job(request);
  current = request;
  int32_t status = worker_answer(&job, handle_with_failures, results);
  send_frame(BP_WORKER_FRAME_ANSWER, request->frame.channel, status ? 1 : 0, results,
             (size_t)(job.out.at - results));
}

/* Runs a queued request, which has no results. */
static void run_queued(Request *request) {
  char results[64];
  Job job = make_job(request);
  job.out = (BpWire){results, results + sizeof results, 0};
  if (worker_handle(&job))
    add_failure(request);
  else if (job.operation == BP_WORKER_EVENT_RECORD)
    note_event(request);
  bp_error_clear();
  send_frame(BP_WORKER_FRAME_DONE, 0, request->frame.size, "", 0);
}

static void run_signal(Request *request) {
  Job job = make_job(request);
  if (worker_handle(&job))
    send_log(NULL, BP_LOG_WARNING, bp_error_message());
  bp_error_clear();
}

/* ---- Threads ----------------------------------------------------------------------------- */

/* The queue of requests for a thread. */
typedef struct Queue {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  Request *first, **end;
} Queue;

static Queue all, channels[BP_WORKER_CHANNELS];

static void put(Queue *queue, Request *request) {
  request->next = NULL;
  pthread_mutex_lock(&queue->lock);
  *queue->end = request;
  queue->end = &request->next;
  pthread_cond_signal(&queue->changed);
  pthread_mutex_unlock(&queue->lock);
}

static Request *take(Queue *queue) {
  pthread_mutex_lock(&queue->lock);
  while (!queue->first)
    pthread_cond_wait(&queue->changed, &queue->lock);
  Request *request = queue->first;
  queue->first = request->next;
  if (!queue->first)
    queue->end = &queue->first;
  pthread_mutex_unlock(&queue->lock);
  return request;
}

static void start_thread(Queue *queue, void *(*run)(void *queue)) {
  pthread_t thread;
  pthread_mutex_init(&queue->lock, NULL);
  pthread_cond_init(&queue->changed, NULL);
  queue->end = &queue->first;
  if (pthread_create(&thread, NULL, run, queue))
    exit(1);
  pthread_detach(thread);
}

static void *serve_channel(void *queue) {
  char *results = malloc(BP_WORKER_AREA);
  if (!results)
    exit(1);
  for (;;) {
    Request *request = take(queue);
    run_answered(request, results);
    free(request);
  }
  return NULL;
}

static void *serve_all(void *queue) {
  for (;;) {
    Request *request = take(queue);
    Queue *channel = &channels[request->frame.channel];
    if (request->frame.type == BP_WORKER_FRAME_QUEUED) {
      run_queued(request);
      free(request);
      continue;
    }
    if (!channel->end)
      start_thread(channel, serve_channel);
    put(channel, request);
  }
  return NULL;
}

/* ---- Reading ----------------------------------------------------------------------------- */

static Request *read_request(void) {
  BpWorkerFrame frame;
  if (worker_read_all(input, &frame, sizeof frame))
    _exit(0);
  int is_request = frame.type == BP_WORKER_FRAME_REQUEST || frame.type == BP_WORKER_FRAME_QUEUED;
  int is_sound = is_request && frame.channel < BP_WORKER_CHANNELS &&
                 frame.size < PTRDIFF_MAX - sizeof(Request);
  Request *request = is_sound ? malloc(sizeof *request + frame.size) : NULL;
  if (!request)
    exit(1);
  request->frame = frame;
  if (worker_read_all(input, request->arguments, frame.size))
    _exit(0);
  return request;
}

/* The plugin may print, and its output must not get into the stream. */
static void move_descriptors(void) {
  int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  input = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
  output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (nothing < 0 || input < 0 || output < 0)
    _exit(1);
  dup2(nothing, STDIN_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
}

_Noreturn void worker_stream_serve(void) {
  const BpWorkerGreeting greeting = {BP_WORKER_MAGIC, BP_WORKER_VERSION};
  signal(SIGPIPE, SIG_IGN);
  move_descriptors();
  if (worker_write_all(output, &greeting, sizeof greeting))
    _exit(0);
  bp_log_set_callback(send_log, NULL);
  start_thread(&all, serve_all);
  for (;;) {
    Request *request = read_request();
    if (request->frame.number != BP_WORKER_EVENT_SIGNAL) {
      put(&all, request);
      continue;
    }
    run_signal(request);
    free(request);
  }
}
