/* SPDX-License-Identifier: Apache-2.0 */
/* backplane-worker: runs one plugin in a process of its own, for libbackplane, which starts it.
 *
 *   backplane-worker NAME HOST
 *   backplane-worker --relay NAME HOST COMMAND ARGUMENT...
 *   backplane-worker --stream
 *
 * The first form serves a host on this machine, through shared memory. The second form is a relay:
 * it serves a host on this machine, and passes requests on to the third form, which the command
 * starts on another machine. NAME is the name of the plugin, or of the other machine; HOST is the
 * number of the calling process. Descriptor 3 is the socket to that process.
 *
 * The first two forms serve in a child, and exit once they have made the child, so that the host's
 * waits for children do not see the worker. The worker ends when the socket or the stream is closed
 * or the host has ended. */

#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

const char *worker_name = "";

static int (*handle)(Job *job) = worker_handle;
static char *memory;    /* NULL: the host is on another machine */
static uint64_t served; /* a bit for each channel that has a thread */

static BpWorkerHeader *header(void) {
  return (BpWorkerHeader *)(void *)memory;
}

/* ---- The end ----------------------------------------------------------------------------- */

void worker_note_end(uint32_t end) {
  uint32_t none = 0;
  if (memory)
    atomic_compare_exchange_strong(&header()->end, &none, end);
  else
    worker_stream_note_end(end);
}

/* Records the signal, then raises the signal again with the default action. */
static void note_signal(int number) {
  worker_note_end((uint32_t)number);
  signal(number, SIG_DFL);
  raise(number);
}

static void note_exit(void) {
  worker_note_end(BP_WORKER_EXITED);
}

/* SA_ONSTACK: the fault may be an overflow of the thread's stack. A thread without an alternate
 * stack is then killed, and the signal is not recorded. */
static void watch_end(void) {
  static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_ONSTACK};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    sigaction(numbers[i], &action, NULL);
  atexit(note_exit);
}

/* ---- The socket -------------------------------------------------------------------------- */

static int send_hello(void) {
  BpWorkerPacket packet = {
      .magic = BP_WORKER_MAGIC, .type = BP_WORKER_PACKET_HELLO, .number = BP_WORKER_VERSION};
  struct iovec bytes = {&packet, BP_WORKER_PACKET_SIZE};
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
  } control = {.room = {0}};
  struct msghdr message = {.msg_iov = &bytes,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof control};
  int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
  if (self < 0)
    return -1;
  control.header = (struct cmsghdr){CMSG_LEN(sizeof self), SOL_SOCKET, SCM_RIGHTS};
  memcpy(CMSG_DATA(&control.header), &self, sizeof self);
  ssize_t sent = sendmsg(BP_WORKER_SOCKET, &message, MSG_NOSIGNAL);
  close(self);
  return sent < 0 ? -1 : 0;
}

/* Returns the next packet and its descriptor, or -1. Returns -1 at the socket's end. */
static int receive(BpWorkerPacket *packet, int *fd) {
  struct iovec bytes = {packet, sizeof *packet};
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
  } control;
  struct msghdr message = {.msg_iov = &bytes,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof control};
  ssize_t got;
  do
    got = recvmsg(BP_WORKER_SOCKET, &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  *fd = -1;
  const struct cmsghdr *first = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
  if (first && first->cmsg_type == SCM_RIGHTS)
    memcpy(fd, CMSG_DATA(first), sizeof *fd);
  return got >= (ssize_t)BP_WORKER_PACKET_SIZE && packet->magic == BP_WORKER_MAGIC ? 0 : -1;
}

static int map_memory(void) {
  BpWorkerPacket packet;
  int fd;
  if (receive(&packet, &fd) || packet.type != BP_WORKER_PACKET_MEMORY ||
      packet.number < BP_WORKER_MEMORY_SIZE || fd < 0)
    return -1;
  memory = mmap(NULL, packet.number, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory == MAP_FAILED)
    return -1;
  madvise(memory, packet.number, MADV_DONTDUMP);
  worker_set_arena(memory + BP_WORKER_MEMORY_SIZE, packet.number - BP_WORKER_MEMORY_SIZE);
  return 0;
}

/* Does not block: a message is dropped if the socket is full. */
void worker_send_log(void *context, int32_t level, const char *message) {
  BpWorkerPacket packet = {
      .magic = BP_WORKER_MAGIC, .type = BP_WORKER_PACKET_LOG, .number = (uint64_t)level};
  (void)context;
  snprintf(packet.text, sizeof packet.text, "%s: %s", worker_name, message);
  if (send(BP_WORKER_SOCKET, &packet, sizeof packet, MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
    atomic_fetch_add(&header()->num_logs, 1);
}

/* Serves until the host has ended; `host` is its pidfd, or -1. The plugin's threads may hang, so no
 * memory is freed at the end. */
static _Noreturn void serve_socket(int host) {
  struct pollfd fds[] = {{.fd = BP_WORKER_SOCKET, .events = POLLIN},
                         {.fd = host, .events = POLLIN}};
  BpWorkerPacket packet;
  int fd;
  for (;;) {
    if (poll(fds, 2, -1) < 0 && errno != EINTR)
      _exit(1);
    if (fds[1].revents)
      _exit(0);
    if (!fds[0].revents)
      continue;
    if (receive(&packet, &fd))
      _exit(0);
    if (packet.type != BP_WORKER_PACKET_SERVE || packet.number >= BP_WORKER_CHANNELS ||
        (served >> packet.number & 1))
      continue;
    served |= UINT64_C(1) << packet.number;
    worker_serve(bp_worker_channel(memory, (uint32_t)packet.number), (uint32_t)packet.number,
                 handle);
  }
}

/* ---- The start --------------------------------------------------------------------------- */

/* The host itself applies layers and isolation, and connects to other machines. A host on this
 * machine has already tried the plugin out. */
static void set_environment(int is_tried) {
  unsetenv("BACKPLANE_ISOLATE");
  unsetenv("BACKPLANE_LAYERS");
  unsetenv("BACKPLANE_REMOTE");
  unsetenv("BACKPLANE_DEVICE");
  if (is_tried)
    setenv("BACKPLANE_PLUGIN_DEADLINE", "0", 1);
}

/* Continues in a child process. Without a child the exit status is the errno, by which the host
 * knows the reason. */
static void leave_parent(void) {
  pid_t child = fork();
  if (child)
    _exit(child < 0 ? errno : 0);
  setsid();
}

/* Serves a host on this machine; `command` is that of a relay, or NULL. The calling program may
 * have left other descriptors open by accident. The worker may live as long as that program, and
 * the other end of a pipe would see no end. */
static _Noreturn void serve_host(const char *name, const char *number, char **command) {
  worker_name = name;
  closefrom(BP_WORKER_SOCKET + 1);
  int host = (int)syscall(SYS_pidfd_open, atoi(number), 0);
  fcntl(BP_WORKER_SOCKET, F_SETFD, FD_CLOEXEC);
  if (host >= 0)
    fcntl(host, F_SETFD, FD_CLOEXEC);
  leave_parent();
  set_environment(!command);
  if (send_hello() || map_memory())
    _exit(1);
  watch_end();
  if (command) {
    handle = worker_relay_handle;
    worker_relay_start(command);
  } else {
    bp_log_set_callback(worker_send_log, NULL);
    worker_confine(0);
  }
  serve_socket(host);
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "--stream")) {
    set_environment(0);
    watch_end();
    worker_confine(0);
    worker_stream_serve();
  }
  if (argc >= 5 && !strcmp(argv[1], "--relay"))
    serve_host(argv[2], argv[3], argv + 4);
  if (argc == 3)
    serve_host(argv[1], argv[2], NULL);
  fprintf(stderr, "backplane-worker is started by libbackplane (BACKPLANE_ISOLATE, "
                  "BACKPLANE_REMOTE)\n");
  return 2;
}
