/* SPDX-License-Identifier: Apache-2.0 */
/* A worker process: its start, calls through its channels, and its loss. */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define DEADLINE_DEFAULT 60.0
#define DEADLINE_MAX     86400.0

/* How long a thread polls for an answer before it sleeps. */
#define SPIN_NS INT64_C(20000)
/* How long a thread polls in a large copy: a worker that is as fast as memory moves the next chunks
 * in this time. */
#define SPIN_CHUNKS_NS INT64_C(200000)
/* How long a thread sleeps before it looks whether the worker lives. */
#define FIRST_SLEEP_NS INT64_C(1000000)
#define LAST_SLEEP_NS  INT64_C(50000000)
/* If a sleep takes GAP_NS longer than requested, this process did not run: the machine or all
 * processes of a job were stopped. The time of such a stop does not count for the deadline. */
#define GAP_NS   INT64_C(1000000000)
#define HELLO_MS 20000
/* The most log messages that one call passes on. */
#define MOST_LOGS 256

struct BpSession {
  const char *label; /* "plugin opencl"; static */
  int socket;
  int pidfd;
  char *memory;
  uint64_t memory_size;
  BpShares shares; /* the memory after the channels */
  BpWorkerHeader *header;
  int64_t deadline; /* deadline of one wait in nanoseconds; 0: none */
  int64_t spin;
  pthread_mutex_t lock; /* guards the members below */
  uint32_t free[BP_WORKER_CHANNELS];
  uint32_t num_free;
  uint64_t served;           /* a bit for each channel that a thread of the worker serves */
  _Atomic uint32_t num_logs; /* BpWorkerHeader::num_logs when messages were last taken */
  _Atomic int32_t is_lost;
  char why[256];
  BpSession *next; /* the next of all sessions */
};

static _Atomic(BpSession *) sessions;
static _Atomic int32_t is_used; /* a plugin has a session in this process */
static int32_t is_forked;       /* in the child of a fork: the parent's plugins had a session */

static const char *const operation_names[] = {
#define NAME(upper, lower) #lower,
    BP_WORKER_OPERATIONS(NAME)
#undef NAME
};

/* ---- Forks ------------------------------------------------------------------------------- */

/* The child of a fork cannot use the worker, and must not keep the worker's socket open. If no
 * plugin has used a worker, the child may start its own workers. */
static void after_fork_in_child(void) {
  is_forked = atomic_load(&is_used);
  for (BpSession *session = atomic_load(&sessions); session; session = session->next) {
    if (session->socket >= 0)
      close(session->socket);
    if (session->pidfd >= 0)
      close(session->pidfd);
    session->socket = session->pidfd = -1;
    session->memory = NULL; /* the child does not have this mapping */
    atomic_store(&session->is_lost, 1);
  }
}

static void watch_forks(void) {
  pthread_atfork(NULL, NULL, after_fork_in_child);
}

static void add_session(BpSession *session) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  session->next = atomic_load(&sessions);
  while (!atomic_compare_exchange_weak(&sessions, &session->next, session)) {
  }
}

/* ---- Loss -------------------------------------------------------------------------------- */

int32_t bp_session_check(const BpSession *session) {
  return is_forked || atomic_load(&session->is_lost) ? -1 : 0;
}

int32_t bp_session_require_no_fork(void) {
  return is_forked
             ? bp_plugin_raise(&bp_worker_host, BP_ERROR_DEVICE,
                               "this process was forked from one that used the device, and devices "
                               "do not survive that; fork before the first use, or start a new "
                               "program")
             : 0;
}

static int32_t raise_lost(const BpSession *session) {
  if (bp_session_require_no_fork())
    return -1;
  return bp_plugin_raise(&bp_worker_host, BP_ERROR_DEVICE_LOST,
                         "%s; its devices are lost, and new ones have the indices after them",
                         session->why);
}

int32_t bp_session_require(const BpSession *session) {
  return bp_session_check(session) ? raise_lost(session) : 0;
}

/* Frees the memory and closes the descriptors once no call uses them. Called with the lock held. */
static void free_resources(BpSession *session) {
  if (session->num_free < BP_WORKER_CHANNELS || !session->memory)
    return;
  bp_shares_clear(&session->shares);
  munmap(session->memory, session->memory_size);
  session->memory = NULL;
  session->header = NULL;
  close(session->socket);
  close(session->pidfd);
  session->socket = session->pidfd = -1;
}

/* Waits until a descriptor has input, whatever signals the application handles meanwhile. */
static int has_input(int fd, int milliseconds) {
  struct pollfd ready = {.fd = fd, .events = POLLIN};
  int64_t until = bp_worker_now() + milliseconds * INT64_C(1000000), left = milliseconds;
  int got;
  while ((got = poll(&ready, 1, left > 0 ? (int)left : 0)) < 0 && errno == EINTR)
    left = (until - bp_worker_now()) / 1000000;
  return got > 0;
}

/* Reaps the worker if it became a child of this process. A worker becomes a child only if this
 * process adopts orphans (the first process of a container). */
static void reap(int pidfd) {
  siginfo_t info;
  has_input(pidfd, 1000);
  waitid((idtype_t)P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG);
}

/* The message is logged without the lock: the application's log callback may use the device. */
static void lose(BpSession *session, const char *why) {
  pthread_mutex_lock(&session->lock);
  int is_first = !atomic_load(&session->is_lost);
  if (is_first) {
    snprintf(session->why, sizeof session->why, "the worker of %s %s", session->label, why);
    atomic_store(&session->is_lost, 1);
    syscall(SYS_pidfd_send_signal, session->pidfd, SIGKILL, NULL, 0);
    reap(session->pidfd);
  }
  free_resources(session);
  pthread_mutex_unlock(&session->lock);
  if (is_first)
    bp_plugin_log(&bp_worker_host, BP_LOG_WARNING, "%s", session->why);
}

int32_t bp_session_give_up(BpSession *session, const char *why) {
  lose(session, why);
  return raise_lost(session);
}

static const char *describe_end(uint32_t end) {
  switch (end) {
  case SIGSEGV:
    return "crashed (segmentation fault)";
  case SIGBUS:
    return "crashed (bus error)";
  case SIGFPE:
    return "crashed (arithmetic exception)";
  case SIGILL:
    return "crashed (illegal instruction)";
  case SIGABRT:
    return "aborted";
  case BP_WORKER_EXITED:
    return "ended itself";
  case BP_WORKER_DISCONNECTED:
    return "lost its connection";
  case BP_WORKER_GARBLED:
    return "was ended, since the other machine sent a malformed frame";
  default:
    return "was killed";
  }
}

static int has_ended(const BpSession *session) {
  struct pollfd end = {.fd = session->pidfd, .events = POLLIN};
  return poll(&end, 1, 0) > 0;
}

static int32_t lose_in_call(const BpCall *call, const char *how) {
  char why[128];
  snprintf(why, sizeof why, "%s in a call of %s", how, operation_names[call->operation]);
  return bp_session_give_up(call->session, why);
}

int32_t bp_session_look(BpSession *session) {
  if (bp_session_check(session))
    return -1;
  pthread_mutex_lock(&session->lock);
  int has_died = !atomic_load(&session->is_lost) && has_ended(session);
  uint32_t end = has_died ? atomic_load(&session->header->end) : 0;
  pthread_mutex_unlock(&session->lock);
  if (has_died)
    lose(session, describe_end(end));
  return bp_session_check(session);
}

/* ---- Channels ---------------------------------------------------------------------------- */

static int send_packet(int socket, uint32_t type, uint64_t number, int fd) {
  BpWorkerPacket packet = {.magic = BP_WORKER_MAGIC, .type = type, .number = number};
  struct iovec bytes = {&packet, BP_WORKER_PACKET_SIZE};
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
  } control = {.room = {0}};
  struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
  if (fd >= 0) {
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    control.header = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
  }
  ssize_t sent;
  do
    sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  return sent < 0 ? -1 : 0;
}

/* Takes the most recently used channel, whose thread may still be awake. */
static int32_t take_channel(BpSession *session, BpCall *call) {
  int is_new = 0;
  pthread_mutex_lock(&session->lock);
  int is_lost = atomic_load(&session->is_lost);
  int is_there = !is_lost && session->num_free;
  if (is_there) {
    call->index = session->free[--session->num_free];
    is_new = !(session->served >> call->index & 1);
    session->served |= UINT64_C(1) << call->index;
  }
  pthread_mutex_unlock(&session->lock);
  if (is_lost)
    return raise_lost(session);
  if (!is_there)
    return bp_plugin_raise(&bp_worker_host, BP_ERROR_RUNTIME,
                           "%s: %d threads call its worker at once, and more cannot",
                           session->label, BP_WORKER_CHANNELS);
  call->channel = bp_worker_channel(session->memory, call->index);
  return is_new ? send_packet(session->socket, BP_WORKER_PACKET_SERVE, call->index, -1) : 0;
}

int32_t bp_call_begin(BpSession *session, uint32_t operation, BpCall *call) {
  call->session = session;
  call->operation = operation;
  call->results = NULL;
  call->channel = NULL;
  if (is_forked)
    return raise_lost(session);
  if (take_channel(session, call)) {
    if (!call->channel)
      return -1;
    int32_t rc = lose_in_call(call, has_ended(session) ? describe_end(session->header->end)
                                                       : "does not read its socket");
    bp_call_finish(call);
    return rc;
  }
  call->in = (BpWire){call->channel->arguments, call->channel->arguments + BP_WORKER_AREA, 0};
  return 0;
}

static void free_results(BpCall *call) {
  if (call->results != call->room)
    free(call->results);
  call->results = NULL;
}

void bp_call_again(uint32_t operation, BpCall *call) {
  free_results(call);
  call->operation = operation;
  call->in.at = call->channel->arguments;
}

void bp_call_finish(BpCall *call) {
  BpSession *session = call->session;
  free_results(call);
  pthread_mutex_lock(&session->lock);
  session->free[session->num_free++] = call->index;
  if (atomic_load(&session->is_lost))
    free_resources(session);
  pthread_mutex_unlock(&session->lock);
}

/* ---- Calls ------------------------------------------------------------------------------- */

int32_t bp_call_send(BpCall *call) {
  BpWorkerChannel *channel = call->channel;
  if (call->in.is_bad)
    return bp_plugin_raise(
        &bp_worker_host, BP_ERROR_VALUE,
        "the arguments of a call of %s do not fit into %d bytes, the maximum for "
        "a call of a worker",
        operation_names[call->operation], BP_WORKER_AREA);
  channel->operation = call->operation;
  channel->request_size = (uint32_t)(call->in.at - channel->arguments);
  channel->first_chunk = atomic_load(&channel->host_chunks);
  call->first_chunk = atomic_load(&channel->worker_chunks);
  call->number = atomic_load(&channel->request) + 1;
  atomic_store(&channel->request, call->number);
  bp_worker_tell(&channel->host_word, &channel->worker_sleeps);
  return 0;
}

int32_t bp_call_has_answer(const BpCall *call) {
  return atomic_load_explicit(&call->channel->answer, memory_order_acquire) == call->number;
}

int32_t bp_call_has_chunks(const BpCall *call, uint32_t chunks) {
  return atomic_load_explicit(&call->channel->worker_chunks, memory_order_acquire) -
             call->first_chunk >=
         chunks;
}

static int is_ready(const BpCall *call, uint32_t chunks) {
  return bp_call_has_answer(call) || bp_call_has_chunks(call, chunks);
}

static int spin(const BpCall *call, uint32_t chunks) {
  int64_t limit = call->session->spin;
  if (is_ready(call, chunks))
    return 1;
  if (limit && chunks != UINT32_MAX)
    limit = SPIN_CHUNKS_NS;
  for (int64_t until = limit ? bp_worker_now() + limit : 0; limit && bp_worker_now() < until;)
    for (int i = 0; i < 32; i++) {
      if (is_ready(call, chunks))
        return 1;
      bp_worker_pause();
    }
  return 0;
}

/* Sleeps until the worker changes its word, for at most `sleep` nanoseconds. Returns the time
 * during which this process did not run. */
static int64_t await_news(BpWorkerChannel *channel, uint32_t seen, int64_t sleep) {
  int64_t until = bp_worker_now() + sleep;
  bp_worker_sleep(&channel->worker_word, seen, &channel->host_sleeps, sleep);
  int64_t late = bp_worker_now() - until;
  return late >= GAP_NS ? late : 0;
}

int32_t bp_call_wait_chunks(BpCall *call, uint32_t chunks) {
  BpSession *session = call->session;
  BpWorkerChannel *channel = call->channel;
  if (spin(call, chunks))
    return 0;
  int64_t sleep = FIRST_SLEEP_NS, began = bp_worker_now();
  for (;;) {
    uint32_t seen = atomic_load(&channel->worker_word);
    if (is_ready(call, chunks))
      return 0;
    if (atomic_load(&session->is_lost))
      return raise_lost(session);
    began += await_news(channel, seen, sleep);
    if (is_ready(call, chunks))
      return 0;
    if (has_ended(session))
      return lose_in_call(call, describe_end(atomic_load(&session->header->end)));
    if (session->deadline && bp_worker_now() - began > session->deadline)
      return lose_in_call(call, "did not answer before BACKPLANE_WORKER_DEADLINE and was ended");
    sleep = sleep < LAST_SLEEP_NS ? 2 * sleep : LAST_SLEEP_NS;
  }
}

void bp_call_tell_chunks(BpCall *call, uint32_t chunks) {
  atomic_store(&call->channel->host_chunks, call->channel->first_chunk + chunks);
  bp_worker_tell(&call->channel->host_word, &call->channel->worker_sleeps);
}

/* Copies the results, which the worker could change. */
static int32_t copy_results(BpCall *call) {
  uint32_t size = *(volatile uint32_t *)&call->channel->answer_size;
  if (size > BP_WORKER_AREA)
    return lose_in_call(call, "gave an answer that is too long");
  call->results = size <= sizeof call->room ? call->room : bp_plugin_calloc(&bp_worker_host, size);
  if (!call->results)
    return -1;
  bp_wire_copy(call->results, call->channel->results, size);
  call->out = (BpWire){call->results, call->results + size, 0};
  return 0;
}

static int32_t raise_answer(BpCall *call) {
  char *kind = bp_wire_get_str(&call->out), *message = bp_wire_get_str(&call->out);
  int32_t rc = -1;
  if (kind && message)
    bp_worker_host.error->raise(kind, message);
  else
    rc = lose_in_call(call, "gave an answer that cannot be read");
  free(kind);
  free(message);
  return rc;
}

/* Passes the worker's messages to the log, without the lock (see lose). The caller's channel keeps
 * the socket open. A worker that never stops logging must not delay the call: after MOST_LOGS
 * messages, the next call takes the others. */
static void take_logs(BpSession *session) {
  uint32_t count = atomic_load_explicit(&session->header->num_logs, memory_order_relaxed);
  if (__builtin_expect(count == atomic_load(&session->num_logs), 1))
    return;
  atomic_store(&session->num_logs, count);
  BpWorkerPacket packet;
  int taken = 0;
  for (ssize_t got; (got = recv(session->socket, &packet, sizeof packet, MSG_DONTWAIT)) > 0;) {
    if ((size_t)got == sizeof packet && packet.type == BP_WORKER_PACKET_LOG) {
      packet.text[sizeof packet.text - 1] = '\0';
      bp_plugin_log(&bp_worker_host,
                    packet.number > BP_LOG_WARNING ? BP_LOG_WARNING : (int32_t)packet.number, "%s",
                    packet.text);
    }
    if (++taken == MOST_LOGS) {
      atomic_store(&session->num_logs, count - 1);
      return;
    }
  }
}

int32_t bp_call_wait(BpCall *call) {
  if (bp_call_wait_chunks(call, UINT32_MAX))
    return -1;
  if (!bp_call_has_answer(call))
    return lose_in_call(call, "counted chunks that it did not move");
  if (copy_results(call))
    return -1;
  take_logs(call->session);
  return *(volatile int32_t *)&call->channel->status ? raise_answer(call) : 0;
}

int32_t bp_call_check(BpCall *call) {
  return call->out.is_bad ? lose_in_call(call, "gave an answer that is too short") : 0;
}

int32_t bp_call_numbers(BpSession *session, uint32_t operation, const uint64_t *arguments,
                        size_t num_arguments, uint64_t *results, size_t num_results) {
  BpCall call;
  if (bp_call_begin(session, operation, &call))
    return -1;
  for (size_t i = 0; i < num_arguments; i++)
    bp_wire_put(&call.in, arguments[i]);
  int32_t rc = bp_call_send(&call) || bp_call_wait(&call) ? -1 : 0;
  for (size_t i = 0; i < num_results && !rc; i++)
    results[i] = bp_wire_get(&call.out);
  if (!rc && num_results)
    rc = bp_call_check(&call);
  bp_call_finish(&call);
  return rc;
}

BpShares *bp_session_shares(BpSession *session) {
  return &session->shares;
}

uint64_t bp_session_slice(const BpSession *session) {
  return session->deadline ? (uint64_t)session->deadline / 4 : UINT64_MAX;
}

/* ---- Chunks ------------------------------------------------------------------------------ */

int32_t bp_call_fill(BpCall *call, const char *bytes, uint64_t size) {
  uint32_t count = 0;
  for (uint64_t at = 0; at < size; at += BP_WORKER_CHUNK_SIZE, count++) {
    uint64_t left = size - at, part = left < BP_WORKER_CHUNK_SIZE ? left : BP_WORKER_CHUNK_SIZE;
    if (count >= BP_WORKER_CHUNKS && bp_call_wait_chunks(call, count - BP_WORKER_CHUNKS + 1))
      return -1;
    if (bp_call_has_answer(call))
      return 0;
    memcpy(call->channel->chunks[count % BP_WORKER_CHUNKS], bytes + at, part);
    bp_call_tell_chunks(call, count + 1);
  }
  return 0;
}

int32_t bp_call_empty(BpCall *call, char *bytes, uint64_t size) {
  uint32_t count = 0;
  for (uint64_t at = 0; at < size; at += BP_WORKER_CHUNK_SIZE, count++) {
    uint64_t left = size - at, part = left < BP_WORKER_CHUNK_SIZE ? left : BP_WORKER_CHUNK_SIZE;
    if (bp_call_wait_chunks(call, count + 1))
      return -1;
    if (!bp_call_has_chunks(call, count + 1))
      return 0; /* it failed */
    memcpy(bytes + at, call->channel->chunks[count % BP_WORKER_CHUNKS], part);
    bp_call_tell_chunks(call, count + 1);
  }
  return 0;
}

int32_t bp_blob_put(BpSession *session, const void *bytes, uint64_t size, uint64_t *blob) {
  BpCall call;
  if (bp_call_begin(session, BP_WORKER_PUT, &call))
    return -1;
  bp_wire_put(&call.in, size);
  int32_t rc =
      bp_call_send(&call) || bp_call_fill(&call, bytes, size) || bp_call_wait(&call) ? -1 : 0;
  *blob = rc ? 0 : bp_wire_get(&call.out);
  if (!rc)
    rc = bp_call_check(&call);
  bp_call_finish(&call);
  return rc;
}

int32_t bp_blob_get(BpSession *session, uint64_t blob, uint64_t size, BpOwnedBytes *bytes) {
  BpCall call;
  *bytes = (BpOwnedBytes){NULL, 0, NULL};
  if (size > PTRDIFF_MAX - 1)
    return bp_session_give_up(session, "gave a size that no memory has");
  char *data = bp_plugin_calloc(&bp_worker_host, size + 1);
  if (!data || bp_call_begin(session, BP_WORKER_GET, &call)) {
    free(data);
    return -1;
  }
  bp_wire_put(&call.in, blob);
  int32_t rc =
      bp_call_send(&call) || bp_call_empty(&call, data, size) || bp_call_wait(&call) ? -1 : 0;
  bp_call_finish(&call);
  if (rc)
    free(data);
  else
    *bytes = (BpOwnedBytes){data, size, free};
  return rc;
}

int32_t bp_call_get_blob(BpCall *call, BpOwnedBytes *bytes) {
  BpSession *session = call->session;
  uint64_t blob = 0, size = 0;
  int32_t rc = bp_call_send(call) || bp_call_wait(call) ? -1 : 0;
  if (!rc) {
    blob = bp_wire_get(&call->out);
    size = bp_wire_get(&call->out);
    rc = bp_call_check(call);
  }
  bp_call_finish(call);
  return rc ? -1 : bp_blob_get(session, blob, size, bytes);
}

/* ---- The start --------------------------------------------------------------------------- */

static int32_t raise_start(const char *label, const char *doing) {
  return bp_plugin_raise(&bp_worker_host, BP_ERROR_PLUGIN,
                         "the worker of %s cannot be started: %s: %s", label, doing,
                         strerror(errno));
}

/* Waits for the worker's first packet, and takes its pidfd. */
static int32_t receive_hello(BpSession *session) {
  BpWorkerPacket packet = {.magic = 0};
  struct iovec bytes = {&packet, sizeof packet};
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
  } control;
  struct msghdr message = {.msg_iov = &bytes,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof control};
  ssize_t got = -1;
  if (has_input(session->socket, HELLO_MS))
    got = recvmsg(session->socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  const struct cmsghdr *header = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
  if (header && header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(sizeof(int)))
    memcpy(&session->pidfd, CMSG_DATA(header), sizeof(int));
  if (session->pidfd >= 0 && packet.magic == BP_WORKER_MAGIC &&
      packet.type == BP_WORKER_PACKET_HELLO && packet.number == BP_WORKER_VERSION)
    return 0;
  return bp_plugin_raise(&bp_worker_host, BP_ERROR_PLUGIN,
                         "the worker of %s does not greet as version %d of the protocol "
                         "does; install the backplane-worker that belongs to this plugin, on a "
                         "kernel with pidfds (Linux 5.4)",
                         session->label, BP_WORKER_VERSION);
}

static uint64_t get_limit(int resource) {
  struct rlimit limit;
  return getrlimit((__rlimit_resource_t)resource, &limit) ? RLIM_INFINITY : limit.rlim_cur;
}

/* Whether the kernel refuses memory beyond a limit (vm.overcommit_memory is 2). A process that
 * touches shared memory beyond the kernel's limit gets SIGBUS. */
static int has_commit_limit(void) {
  char mode = 0;
  int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
  ssize_t got = fd < 0 ? 0 : read(fd, &mode, 1);
  if (fd >= 0)
    close(fd);
  return got == 1 && mode == '2';
}

/* The arena is as large as the machine's memory; only its touched pages use memory. If the process
 * or the system has limits, the shared memory has no arena. */
static uint64_t choose_size(void) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  uint64_t most = (uint64_t)sysconf(_SC_PHYS_PAGES) * page;
  int has_limit = get_limit(RLIMIT_AS) != RLIM_INFINITY || get_limit(RLIMIT_FSIZE) < 2 * most ||
                  has_commit_limit();
  return BP_WORKER_MEMORY_SIZE + (has_limit || page != 4096 ? 0 : most);
}

/* Maps shared memory. The size of the shared memory is sealed, so no access can fail in this
 * process. A process that locks its memory (mlockall) would get every page at once if the pages
 * were accessible when they are mapped. */
static void *map_shared(int fd, uint64_t size) {
  if (ftruncate(fd, (off_t)size) ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
    return MAP_FAILED;
  void *memory = mmap(NULL, size, PROT_NONE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return memory;
  madvise(memory, size, MADV_DONTFORK);
  madvise(memory, size, MADV_DONTDUMP);
  if (!mprotect(memory, size, PROT_READ | PROT_WRITE))
    return memory;
  munmap(memory, size);
  return MAP_FAILED;
}

static int32_t share_memory(BpSession *session) {
  uint64_t size = choose_size();
  if (get_limit(RLIMIT_FSIZE) < size)
    return errno = EFBIG, raise_start(session->label, "the limit of file sizes (ulimit -f)");
  int fd = memfd_create("backplane-worker", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0)
    return raise_start(session->label, "a memfd");
  void *memory = map_shared(fd, size);
  int32_t rc = 0;
  if (memory == MAP_FAILED) {
    rc = raise_start(session->label, "shared memory");
  } else {
    session->memory = memory;
    session->memory_size = size;
    session->header = memory;
    session->shares.memory = session->memory + BP_WORKER_MEMORY_SIZE;
    session->shares.size = size - BP_WORKER_MEMORY_SIZE;
    if (send_packet(session->socket, BP_WORKER_PACKET_MEMORY, size, fd))
      rc = raise_start(session->label, "handing the memory over");
  }
  close(fd);
  return rc;
}

/* Reads a number with a decimal point, in any locale. */
static double read_number(const char *text, char **end) {
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  double number = plain ? strtod_l(text, end, plain) : strtod(text, end);
  if (plain)
    freelocale(plain);
  return number;
}

static int64_t read_deadline(void) {
  const char *text = bp_worker_host.runtime->get_option("BACKPLANE_WORKER_DEADLINE");
  char *end = NULL;
  double seconds = text ? read_number(text, &end) : DEADLINE_DEFAULT;
  if (text && (end == text || *end || !(seconds >= 0 && seconds <= DEADLINE_MAX))) {
    bp_plugin_log(&bp_worker_host, BP_LOG_WARNING,
                  "BACKPLANE_WORKER_DEADLINE is \"%.40s\", not a number of seconds from 0 to %.0f; "
                  "%.0f is used",
                  text, DEADLINE_MAX, DEADLINE_DEFAULT);
    seconds = DEADLINE_DEFAULT;
  }
  return (int64_t)(seconds * 1e9);
}

static int32_t call_starter(BpFunction *starter, int *socket) {
  BpValue result = {.type_index = BP_TYPE_NONE};
  if (starter->call(starter, NULL, 0, &result))
    return -1;
  *socket = (int)result.v_int64;
  return 0;
}

void bp_session_use(BpSession *session, const char *label) {
  pthread_mutex_lock(&session->lock);
  session->label = label;
  pthread_mutex_unlock(&session->lock);
  atomic_store(&is_used, 1);
}

BpSession *bp_session_start(const char *label, BpFunction *starter) {
  BpSession *session = bp_plugin_calloc(&bp_worker_host, sizeof *session);
  if (!session)
    return NULL;
  session->label = label;
  session->socket = session->pidfd = -1;
  session->deadline = read_deadline();
  session->spin = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? SPIN_NS : 0;
  pthread_mutex_init(&session->lock, NULL);
  pthread_mutex_init(&session->shares.lock, NULL);
  for (uint32_t i = 0; i < BP_WORKER_CHANNELS; i++)
    session->free[i] = BP_WORKER_CHANNELS - 1 - i;
  session->num_free = BP_WORKER_CHANNELS;
  if (!call_starter(starter, &session->socket) && !receive_hello(session) &&
      !share_memory(session)) {
    add_session(session);
    return session;
  }
  if (session->memory)
    munmap(session->memory, session->memory_size);
  if (session->pidfd >= 0)
    close(session->pidfd);
  if (session->socket >= 0)
    close(session->socket); /* closing the socket ends the worker */
  pthread_mutex_destroy(&session->lock);
  pthread_mutex_destroy(&session->shares.lock);
  free(session);
  return NULL;
}
