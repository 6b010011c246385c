/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to the chip: here a socket to the process that simulates the chip. Replace this
 * file by calls of your driver. Each call returns when the chip has done its work. */
#include "simdev.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "simdev-chip"

static struct {
  int socket; /* -1: not started */
  pid_t process;
  int is_lost;
} chip = {.socket = -1};

/* ---- The program ------------------------------------------------------------------------- */

/* Finds the file that the plugin was loaded from, or the program that it is linked into. The loader
 * may know the plugin only by a closed descriptor, so this function asks the kernel. */
static int find_own_file(char *path, size_t size) {
  FILE *maps = fopen("/proc/self/maps", "re");
  uintptr_t own = (uintptr_t)&simdev_device_api, begin, end;
  char line[5000];
  int is_found = 0;
  while (maps && !is_found && fgets(line, sizeof line, maps)) {
    const char *file = strchr(line, '/');
    is_found = file && sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2 && own >= begin &&
               own < end && strlen(file) < size;
    if (is_found)
      snprintf(path, size, "%.*s", (int)strcspn(file, "\n"), file);
  }
  if (maps)
    fclose(maps);
  return is_found ? 0 : -1;
}

/* Finds the chip's program: beside the plugin, or one folder above, where libtool builds it. */
static const char *find_program(char *path, size_t size) {
  const char *chosen = simdev_host.runtime->get_option("BACKPLANE_SIMDEV_CHIP");
  char own[4096];
  if (chosen && *chosen)
    return access(chosen, X_OK) ? NULL : chosen;
  if (find_own_file(own, sizeof own))
    return NULL;
  *strrchr(own, '/') = '\0';
  for (int i = 0; i < 2; i++) {
    int written = snprintf(path, size, "%s/%s" PROGRAM, own, i ? "../" : "");
    if (written > 0 && (size_t)written < size && !access(path, X_OK))
      return path;
  }
  return NULL;
}

const char *simdev_link_problem(void) {
  char path[4096];
  return find_program(path, sizeof path) ? NULL
                                         : "the program " PROGRAM
                                           ", which simulates the chip, is not beside the plugin; "
                                           "install it there, or name it in BACKPLANE_SIMDEV_CHIP";
}

int simdev_link_is_lost(void) {
  return __atomic_load_n(&chip.is_lost, __ATOMIC_ACQUIRE);
}

static int spawn(const char *path, int socket) {
  char *const args[] = {(char *)(uintptr_t)path, NULL}, *const environment[] = {NULL};
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions))
    return -1;
  int error = posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  if (!error)
    error = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  if (!error)
    error = posix_spawn(&chip.process, path, &actions, NULL, args, environment);
  posix_spawn_file_actions_destroy(&actions);
  errno = error;
  return error ? -1 : 0;
}

static int32_t start(void) {
  char path[4096];
  int sockets[2];
  const char *program = find_program(path, sizeof path);
  if (!program)
    return bp_plugin_raise(&simdev_host, BP_ERROR_DEVICE, "simdev:0: %s", simdev_link_problem());
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
    return bp_plugin_raise(&simdev_host, BP_ERROR_IO, "simdev:0: no socket: %s", strerror(errno));
  int status = spawn(program, sockets[1]);
  if (status)
    bp_plugin_raise(&simdev_host, BP_ERROR_IO, "simdev:0: cannot start %s: %s", program,
                    strerror(errno));
  close(sockets[1]);
  if (status)
    close(sockets[0]);
  else
    chip.socket = sockets[0];
  return status;
}

/* ---- Commands ---------------------------------------------------------------------------- */

/* Marks the chip as lost for good: a chip that ended has lost its memory. */
static int32_t lose(void) {
  if (chip.socket >= 0) {
    close(chip.socket);
    chip.socket = -1;
    waitpid(chip.process, NULL, 0);
  }
  __atomic_store_n(&chip.is_lost, 1, __ATOMIC_RELEASE);
  return bp_plugin_raise(&simdev_host, BP_ERROR_DEVICE_LOST,
                         "simdev:0 is lost: the process that simulates it has ended; start the "
                         "program again");
}

static int32_t put(const void *from, size_t size) {
  for (const char *at = from; size > 0;) {
    ssize_t count = send(chip.socket, at, size, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return lose();
    at += count;
    size -= (size_t)count;
  }
  return 0;
}

static int32_t get(void *to, size_t size) {
  for (char *at = to; size > 0;) {
    ssize_t count = recv(chip.socket, at, size, 0);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return lose();
    at += count;
    size -= (size_t)count;
  }
  return 0;
}

/* Sends a command and its data, and receives the reply. */
static int32_t command(ChipCommand what, const void *data, size_t size) {
  static const char *const faults[CHIP_NUM_FAULTS] = {
      "no fault",
      "a command that it does not have",
      "an address or a size that is no multiple of a line",
      "an address beyond memory",
      "an address beyond the scratchpad",
      "an instruction that it does not have"};
  ChipReply answer;
  if (chip.is_lost)
    return lose();
  if (chip.socket < 0 && start())
    return -1;
  if (put(&what, sizeof what) || put(data, size) || get(&answer, sizeof answer))
    return -1;
  if (answer.fault < 0 || answer.fault >= CHIP_NUM_FAULTS)
    return lose();
  return answer.fault ? bp_plugin_raise(&simdev_host, BP_ERROR_DEVICE,
                                        "simdev:0 stopped at instruction %d: %s",
                                        answer.instruction, faults[answer.fault])
                      : 0;
}

int32_t simdev_link_write(int32_t address, const void *from, int32_t size) {
  return command((ChipCommand){CHIP_WRITE, address, size, 0}, from, (size_t)size);
}

int32_t simdev_link_read(int32_t address, void *to, int32_t size) {
  if (command((ChipCommand){CHIP_READ, address, size, 0}, NULL, 0))
    return -1;
  return get(to, (size_t)size);
}

int32_t simdev_link_run(int32_t address, int32_t num_instructions, const ChipRegion *regions,
                        int32_t num_regions) {
  return command((ChipCommand){CHIP_RUN, address, num_instructions, num_regions}, regions,
                 (size_t)num_regions * sizeof *regions);
}
