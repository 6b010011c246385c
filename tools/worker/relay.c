/* SPDX-License-Identifier: Apache-2.0 */
/* The relay: it serves as the host's worker on this machine, and passes requests on to the worker
 * on another machine through a stream of bytes, which a command such as ssh provides.
 *
 * The thread of a channel sends a request and waits for its answer, except for requests that queue
 * work, which are answered at once. A launch waits unless a similar launch has succeeded before, so
 * that a launch with wrong arguments fails in its own call. One thread reads the stream and hands
 * each answer to its channel. When the stream ends, the relay ends, and the host loses its
 * devices. */

#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { CONNECTING, CONNECTED, FAILED };

/* The request of a channel that waits for its answer. */
typedef struct Waiting {
  Job *job; /* NULL: none */
  int is_answered;
  int32_t status;
  size_t size;
  char results[BP_WORKER_AREA];
} Waiting;

/* A stream of a device that had no work when `num_queued` was `at`. */
typedef struct Idle {
  uint64_t place[3]; /* kind, index, stream */
  uint64_t at;
} Idle;
#define NUM_IDLE 16

static struct {
  pthread_mutex_t lock; /* guards the members below */
  pthread_cond_t changed;
  int state;
  char why[400];
  uint64_t under_way;  /* bytes of queued requests in flight */
  uint64_t num_queued; /* number of requests that may give a stream of a device work */
  Idle idle[NUM_IDLE];
  uint64_t num_idle; /* number of all entries ever made */
  Waiting waiting[BP_WORKER_CHANNELS];
} relay = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static pthread_mutex_t sending = PTHREAD_MUTEX_INITIALIZER;
static int stream; /* a socket: the command's input and output */
static pid_t command_pid;
static const char *command_name;

/* ---- The end ----------------------------------------------------------------------------- */

static _Noreturn void end(uint32_t why) {
  worker_note_end(why);
  _exit(1);
}

/* Makes every request fail with an error that says why there is no connection. */
static void fail(const char *why) {
  pthread_mutex_lock(&relay.lock);
  relay.state = FAILED;
  snprintf(relay.why, sizeof relay.why, "%s: %s", worker_name, why);
  pthread_cond_broadcast(&relay.changed);
  pthread_mutex_unlock(&relay.lock);
}

/* The status of a shell that does not find the program. */
#define NO_PROGRAM 127

static void fail_to_greet(void) {
  char why[300];
  int status = 0;
  shutdown(stream, SHUT_RDWR);
  if (waitpid(command_pid, &status, 0) == command_pid && WIFEXITED(status))
    snprintf(why, sizeof why, "%s ended with status %d before a worker answered; %s", command_name,
             WEXITSTATUS(status),
             WEXITSTATUS(status) == NO_PROGRAM
                 ? "the machine has no program of this path: install backplane-worker there, or "
                   "name the program in BACKPLANE_REMOTE_PROGRAM"
                 : "it says why on stderr, and has to log in without asking");
  else
    snprintf(why, sizeof why, "%s was killed before a worker answered", command_name);
  fail(why);
}

/* ---- Reading ----------------------------------------------------------------------------- */

static void read_or_end(void *bytes, size_t size) {
  if (worker_read_all(stream, bytes, size))
    end(BP_WORKER_DISCONNECTED);
}

static void require(int is_sound) {
  if (!is_sound)
    end(BP_WORKER_GARBLED);
}

/* 0, or -1: the connection failed, and every request is an error. */
static int read_greeting(void) {
  BpWorkerGreeting greeting;
  char why[200];
  if (worker_read_all(stream, &greeting, sizeof greeting)) {
    fail_to_greet();
    return -1;
  }
  if (greeting.magic == BP_WORKER_MAGIC && greeting.version == BP_WORKER_VERSION)
    return 0;
  if (greeting.magic == BP_WORKER_MAGIC)
    snprintf(why, sizeof why,
             "its backplane-worker speaks version %u of the protocol and this one version %d; "
             "install the same version of Backplane on both machines",
             greeting.version, BP_WORKER_VERSION);
  else
    snprintf(why, sizeof why,
             "what it sends is not the greeting of a backplane-worker of this kind of machine; "
             "start-up files of its shell must print nothing, and BACKPLANE_REMOTE_PROGRAM names "
             "the program there");
  shutdown(stream, SHUT_RDWR);
  fail(why);
  return -1;
}

/* Returns the waiting request of a frame's channel, which exists until it is answered. */
static Waiting *waiting_of(const BpWorkerFrame *frame) {
  require(frame->channel < BP_WORKER_CHANNELS);
  Waiting *waiting = &relay.waiting[frame->channel];
  pthread_mutex_lock(&relay.lock);
  int is_there = waiting->job && !waiting->is_answered;
  pthread_mutex_unlock(&relay.lock);
  require(is_there);
  return waiting;
}

static void read_answer(const BpWorkerFrame *frame) {
  Waiting *waiting = waiting_of(frame);
  require(frame->size <= sizeof waiting->results);
  read_or_end(waiting->results, frame->size);
  pthread_mutex_lock(&relay.lock);
  waiting->status = frame->number ? -1 : 0;
  waiting->size = frame->size;
  waiting->is_answered = 1;
  pthread_cond_broadcast(&relay.changed);
  pthread_mutex_unlock(&relay.lock);
}

static void read_part(const BpWorkerFrame *frame) {
  Job *job = waiting_of(frame)->job;
  require(frame->size <= BP_WORKER_CHUNK_SIZE &&
          (job->operation == BP_WORKER_COPY_OUT || job->operation == BP_WORKER_GET));
  uint64_t size;
  read_or_end(worker_room_for_part(job, frame->size, &size), frame->size);
  worker_give_part(job, size);
}

static void read_done(const BpWorkerFrame *frame) {
  pthread_mutex_lock(&relay.lock);
  int is_sound = frame->number <= relay.under_way;
  relay.under_way -= is_sound ? frame->number : 0;
  pthread_cond_broadcast(&relay.changed);
  pthread_mutex_unlock(&relay.lock);
  require(is_sound);
}

static void read_log(const BpWorkerFrame *frame) {
  char text[BP_WORKER_TEXT_MAX];
  require(frame->size < sizeof text);
  read_or_end(text, frame->size);
  text[frame->size] = '\0';
  worker_send_log(NULL, (int32_t)frame->number, text);
}

static void read_frame(void) {
  BpWorkerFrame frame;
  read_or_end(&frame, sizeof frame);
  switch (frame.type) {
  case BP_WORKER_FRAME_ANSWER:
    read_answer(&frame);
    return;
  case BP_WORKER_FRAME_PART:
    read_part(&frame);
    return;
  case BP_WORKER_FRAME_DONE:
    read_done(&frame);
    return;
  case BP_WORKER_FRAME_LOG:
    read_log(&frame);
    return;
  case BP_WORKER_FRAME_END:
    require(frame.number && frame.number <= BP_WORKER_EXITED);
    end((uint32_t)frame.number);
  default:
    end(BP_WORKER_GARBLED);
  }
}

static void *read_stream(void *nothing) {
  if (read_greeting())
    return nothing;
  pthread_mutex_lock(&relay.lock);
  relay.state = CONNECTED;
  pthread_cond_broadcast(&relay.changed);
  pthread_mutex_unlock(&relay.lock);
  for (;;)
    read_frame();
}

/* ---- Sending ----------------------------------------------------------------------------- */

/* Returns the bytes of arguments that were read. */
static size_t size_of_arguments(const Job *job) {
  return (size_t)(job->in.end - job->channel->arguments);
}

static void send_bytes(const void *bytes, size_t size) {
  if (worker_write_all(stream, bytes, size))
    end(BP_WORKER_DISCONNECTED);
}

static void send_frame(const Job *job, uint32_t type, size_t size) {
  const BpWorkerFrame frame = {type, job->index, job->operation, size};
  send_bytes(&frame, sizeof frame);
}

/* Counts the bytes of a request without an answer, once there is room for them. */
static void count_queued(size_t size) {
  pthread_mutex_lock(&relay.lock);
  while (relay.under_way && relay.under_way + size > BP_WORKER_QUEUED_MAX)
    pthread_cond_wait(&relay.changed, &relay.lock);
  relay.under_way += size;
  pthread_mutex_unlock(&relay.lock);
}

static void send_request(const Job *job, uint32_t type) {
  size_t size = size_of_arguments(job);
  pthread_mutex_lock(&sending);
  send_frame(job, type, size);
  send_bytes(job->channel->arguments, size);
  pthread_mutex_unlock(&sending);
}

/* Returns a number of the arguments; 0 beyond their end. */
static uint64_t argument(const Job *job, size_t index) {
  uint64_t number = 0;
  if ((index + 1) * sizeof number <= size_of_arguments(job))
    memcpy(&number, job->channel->arguments + index * sizeof number, sizeof number);
  return number;
}

/* The operation PUT: its bytes follow in the same frame. */
static void send_blob(Job *job) {
  uint64_t size = argument(job, 0);
  pthread_mutex_lock(&sending);
  send_frame(job, BP_WORKER_FRAME_REQUEST, size_of_arguments(job) + size);
  send_bytes(job->channel->arguments, size_of_arguments(job));
  for (uint64_t at = 0, part; at < size; at += part) {
    const char *bytes = worker_take_part(job, size - at, &part);
    send_bytes(bytes, part);
    worker_took_part(job, part);
  }
  pthread_mutex_unlock(&sending);
}

/* The arguments of COPY_IN are place, handle, offset, size, stream. */
#define COPY_IN_OFFSET 3
#define COPY_IN_SIZE   4
#define COPY_IN_WORDS  6

/* Sends a chunk of a large copy as a separate copy. A small copy has the size before its bytes, as
 * in shared memory. */
static void send_chunk(Job *job, const uint64_t first[COPY_IN_WORDS], uint64_t at, uint64_t size) {
  uint64_t words[COPY_IN_WORDS + 1];
  memcpy(words, first, COPY_IN_WORDS * sizeof *words);
  words[COPY_IN_OFFSET] += at;
  words[COPY_IN_SIZE] = words[COPY_IN_WORDS] = size;
  size_t head = sizeof *words * (COPY_IN_WORDS + (size <= BP_WORKER_INLINE_MAX));
  const char *bytes = worker_take_part(job, size, &size);
  count_queued(head + size);
  pthread_mutex_lock(&sending);
  send_frame(job, BP_WORKER_FRAME_QUEUED, head + size);
  send_bytes(words, head);
  send_bytes(bytes, size);
  pthread_mutex_unlock(&sending);
  worker_took_part(job, size);
}

static void send_copy(Job *job) {
  uint64_t words[COPY_IN_WORDS];
  for (size_t i = 0; i < COPY_IN_WORDS; i++)
    words[i] = argument(job, i);
  uint64_t size = words[COPY_IN_SIZE];
  for (uint64_t at = 0; at < size; at += BP_WORKER_CHUNK_SIZE)
    send_chunk(job, words, at, size - at < BP_WORKER_CHUNK_SIZE ? size - at : BP_WORKER_CHUNK_SIZE);
}

/* ---- Streams without work ---------------------------------------------------------------- */

static void get_place(const Job *job, uint64_t place[3]) {
  place[0] = argument(job, 0);
  place[1] = argument(job, 1);
  place[2] = argument(job, job->operation == BP_WORKER_COPY_OUT ? 5 : 2);
}

static int leaves_streams_idle(uint32_t operation) {
  return operation == BP_WORKER_STREAM_SYNC || operation == BP_WORKER_COPY_OUT ||
         operation == BP_WORKER_ATTR || operation == BP_WORKER_COUNT ||
         operation == BP_WORKER_EVENT_QUERY || operation == BP_WORKER_EVENT_SYNC;
}

/* Notes work after its request was sent: a synchronisation that overtakes the request then has
 * another number. */
static void note_work(void) {
  pthread_mutex_lock(&relay.lock);
  relay.num_queued++;
  pthread_mutex_unlock(&relay.lock);
}

/* Whether no work was queued since the stream was synchronised, with the lock held. Most programs
 * follow a copy to the host with a synchronisation, which then needs no round trip. */
static int is_idle(const uint64_t place[3]) {
  for (size_t i = 0; i < NUM_IDLE; i++)
    if (i < relay.num_idle && relay.idle[i].at == relay.num_queued &&
        !memcmp(relay.idle[i].place, place, sizeof relay.idle[i].place))
      return 1;
  return 0;
}

/* Notes that a stream has no work, with the lock held. */
static void enter_idle(const Job *job, uint64_t at) {
  Idle *idle = &relay.idle[relay.num_idle++ % NUM_IDLE];
  get_place(job, idle->place);
  idle->at = at;
}

/* ---- Launches that succeeded ------------------------------------------------------------- */

/* Hashes of launches that succeeded since a function was last freed. */
#define NUM_KNOWN 4096
static struct {
  pthread_mutex_t lock;
  uint32_t count;
  uint64_t hashes[NUM_KNOWN]; /* 0: none */
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t mix(uint64_t hash, uint64_t number) {
  hash = (hash ^ number) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ hash >> 32;
}

/* Returns the number of bits of a number: launches count as alike if their numbers have equally
 * many bits. */
static uint64_t bits_of(uint64_t number) {
  return number ? 64 - (uint64_t)__builtin_clzll(number) : 0;
}

static uint64_t mix_bytes(uint64_t hash, BpByteArray bytes) {
  for (size_t i = 0; i + sizeof(uint64_t) <= bytes.size; i += sizeof(uint64_t)) {
    uint64_t number;
    memcpy(&number, bytes.data + i, sizeof number);
    hash = mix(hash, number);
  }
  return mix(hash, bytes.size);
}

/* The memory of a buffer, and its offset, are ignored. */
static uint64_t mix_argument(uint64_t hash, BpWire *wire) {
  uint64_t type = bp_wire_get(wire), value = bp_wire_get(wire);
  hash = mix(hash, type);
  if (type == BP_TYPE_INT || type == BP_TYPE_BOOL)
    return mix(hash, bits_of(value));
  if (type != BP_TYPE_TENSOR_VIEW)
    return hash;
  for (int i = 0; i < 3; i++) /* device and data type */
    hash = mix(hash, bp_wire_get(wire));
  bp_wire_get(wire);
  hash = mix_bytes(hash, bp_wire_get_bytes(wire));
  return mix_bytes(hash, bp_wire_get_bytes(wire));
}

/* Hashes a launch: place, stream, function, arguments. */
static uint64_t hash_launch(const Job *job) {
  BpWire wire = {job->channel->arguments, job->in.end, 0};
  uint64_t hash = 0;
  for (int i = 0; i < 4; i++) {
    uint64_t number = bp_wire_get(&wire);
    hash = i == 2 ? hash : mix(hash, number);
  }
  uint64_t count = bp_wire_get(&wire);
  for (uint64_t i = 0; i < count && !wire.is_bad; i++)
    hash = mix_argument(hash, &wire);
  return hash | 1;
}

/* Returns the place of a hash, or the free place for it, with the lock held. */
static uint64_t *find_hash(uint64_t hash) {
  size_t at = hash >> 8;
  while (known.hashes[at % NUM_KNOWN] && known.hashes[at % NUM_KNOWN] != hash)
    at++;
  return &known.hashes[at % NUM_KNOWN];
}

static int is_known(uint64_t hash) {
  pthread_mutex_lock(&known.lock);
  int found = *find_hash(hash) != 0;
  pthread_mutex_unlock(&known.lock);
  return found;
}

static void forget_launches(void) {
  pthread_mutex_lock(&known.lock);
  memset(known.hashes, 0, sizeof known.hashes);
  known.count = 0;
  pthread_mutex_unlock(&known.lock);
}

static void remember(uint64_t hash) {
  pthread_mutex_lock(&known.lock);
  int is_full = known.count == NUM_KNOWN / 2;
  pthread_mutex_unlock(&known.lock);
  if (is_full)
    forget_launches();
  pthread_mutex_lock(&known.lock);
  uint64_t *place = find_hash(hash);
  known.count += !*place;
  *place = hash;
  pthread_mutex_unlock(&known.lock);
}

/* ---- Requests ---------------------------------------------------------------------------- */

static int require_connection(void) {
  pthread_mutex_lock(&relay.lock);
  while (relay.state == CONNECTING)
    pthread_cond_wait(&relay.changed, &relay.lock);
  int is_connected = relay.state == CONNECTED;
  pthread_mutex_unlock(&relay.lock);
  return is_connected ? 0 : bp_error_raise(BP_ERROR_DEVICE, "%s", relay.why);
}

/* Takes the results of an answered request. */
static int take_results(Job *job, Waiting *waiting) {
  BpWire results = {waiting->results, waiting->results + waiting->size, 0};
  if (!waiting->status) {
    char *room = bp_wire_skip(&job->out, waiting->size);
    if (room)
      bp_wire_copy(room, waiting->results, waiting->size);
    return 0;
  }
  char *kind = bp_wire_get_str(&results), *message = bp_wire_get_str(&results);
  require(kind && message);
  bp_error_raise(kind, "%s", message);
  free(kind);
  free(message);
  return -1;
}

static int wait_for_answer(Job *job, uint64_t num_queued) {
  Waiting *waiting = &relay.waiting[job->index];
  pthread_mutex_lock(&relay.lock);
  while (!waiting->is_answered)
    pthread_cond_wait(&relay.changed, &relay.lock);
  waiting->job = NULL;
  waiting->is_answered = 0;
  if (!waiting->status &&
      (job->operation == BP_WORKER_STREAM_SYNC || job->operation == BP_WORKER_COPY_OUT))
    enter_idle(job, num_queued);
  pthread_mutex_unlock(&relay.lock);
  return take_results(job, waiting);
}

static int send_and_wait(Job *job) {
  uint64_t place[3];
  get_place(job, place);
  pthread_mutex_lock(&relay.lock);
  uint64_t num_queued = relay.num_queued;
  int is_done = job->operation == BP_WORKER_STREAM_SYNC && is_idle(place);
  if (!is_done)
    relay.waiting[job->index].job = job;
  pthread_mutex_unlock(&relay.lock);
  if (is_done)
    return 0;
  if (job->operation == BP_WORKER_PUT)
    send_blob(job);
  else
    send_request(job, BP_WORKER_FRAME_REQUEST);
  if (!leaves_streams_idle(job->operation))
    note_work();
  return wait_for_answer(job, num_queued);
}

static int send_queued(Job *job) {
  if (job->operation == BP_WORKER_COPY_IN && argument(job, COPY_IN_SIZE) > BP_WORKER_INLINE_MAX) {
    send_copy(job);
  } else {
    count_queued(size_of_arguments(job));
    send_request(job, BP_WORKER_FRAME_QUEUED);
  }
  note_work();
  return 0;
}

static int send_launch(Job *job) {
  uint64_t hash = hash_launch(job);
  if (is_known(hash))
    return send_queued(job);
  if (send_and_wait(job))
    return -1;
  remember(hash);
  return 0;
}

/* Places of the two devices among the arguments of COPY_WITHIN. */
#define COPY_WITHIN_FROM 1
#define COPY_WITHIN_TO   4

/* Sends a copy within the worker. A copy between two devices is not queued: the plugin may wait in
 * the call for a stream that waits for an event, and a later request may complete that event. */
static int send_copy_within(Job *job) {
  return argument(job, COPY_WITHIN_FROM) == argument(job, COPY_WITHIN_TO) ? send_queued(job)
                                                                          : send_and_wait(job);
}

/* Completes an event. The worker runs the request before the queued requests; no caller waits for
 * it. */
static int send_signal(const Job *job) {
  send_request(job, BP_WORKER_FRAME_QUEUED);
  return 0;
}

int worker_relay_handle(Job *job) {
  if (require_connection())
    return -1;
  switch (job->operation) {
  case BP_WORKER_LAUNCH:
    return send_launch(job);
  case BP_WORKER_COPY_WITHIN:
    return send_copy_within(job);
  case BP_WORKER_COPY_IN:
  case BP_WORKER_STREAM_ORDER:
  case BP_WORKER_EVENT_RECORD:
  case BP_WORKER_EVENT_WAIT:
    return send_queued(job);
  case BP_WORKER_EVENT_SIGNAL:
    return send_signal(job);
  case BP_WORKER_FUNCTION_FREE:
  case BP_WORKER_MODULE_FREE: /* a new function may get the number of a freed one */
    forget_launches();
    return send_and_wait(job);
  default:
    return send_and_wait(job);
  }
}

/* ---- The start --------------------------------------------------------------------------- */

/* The command ends with the relay, even if it reads no input. */
static void execute(char **command, int end_of_stream, pid_t parent) {
  if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
    _exit(1);
  dup2(end_of_stream, STDIN_FILENO);
  dup2(end_of_stream, STDOUT_FILENO);
  execv(command[0], command);
  fprintf(stderr, "backplane-worker: %s cannot be started: %s\n", command[0], strerror(errno));
  _exit(127);
}

void worker_relay_start(char **command) {
  int ends[2];
  pthread_t reader;
  pid_t parent = getpid();
  signal(SIGPIPE, SIG_IGN);
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
    _exit(1);
  stream = ends[0];
  command_name = command[0];
  command_pid = fork();
  if (!command_pid) {
    signal(SIGPIPE, SIG_DFL);
    execute(command, ends[1], parent);
  }
  close(ends[1]);
  /* In this process only, and before there are threads. The kernel sends the signal that ends the
   * command in the name of this process. */
  worker_confine(1);
  if (command_pid < 0)
    fail("a process for its command cannot be made");
  else if (pthread_create(&reader, NULL, read_stream, NULL))
    _exit(1);
}
