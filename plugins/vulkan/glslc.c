/* SPDX-License-Identifier: Apache-2.0 */
/* GLSL to SPIR-V by shaderc's command glslc, one call for all kernels of a module: it takes far
 * longer to start than to compile one. Drivers optimise what they get, so glslc does not; and the
 * arithmetic is marked so that they keep to it: see bp_vulkan_mark_exact. */
#include "vulkan.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_BINARY_BYTES (64 << 20)

extern char **environ;

/* ---- Files ------------------------------------------------------------------------------- */

/* A directory of our own, for one call; kernel i is in i.comp, its binary in i.comp.spv. */
typedef struct Directory {
  char path[3072];
} Directory;

static void file_path(const Directory *directory, int32_t index, const char *suffix,
                      char path[4096]) {
  snprintf(path, 4096, "%s/%d%s", directory->path, index, suffix);
}

static void log_path(const Directory *directory, char path[4096]) {
  snprintf(path, 4096, "%s/log", directory->path);
}

static int32_t make_directory(Directory *directory) {
  char cache[2048];
  if (bp_vulkan_host.runtime->get_cache_dir("vulkan", cache, sizeof(cache)) != 0)
    return -1;
  snprintf(directory->path, sizeof(directory->path), "%s/build-XXXXXX", cache);
  if (mkdtemp(directory->path))
    return 0;
  return bp_vulkan_host.error->raise(
      BP_ERROR_IO, "target vulkan: no directory for temporary files in \"%s\": %s", cache,
      strerror(errno));
}

static void remove_directory(const Directory *directory, int32_t count) {
  char path[4096];
  for (int32_t i = 0; i < count; i++) {
    file_path(directory, i, ".comp", path);
    unlink(path);
    file_path(directory, i, ".comp.spv", path);
    unlink(path);
  }
  log_path(directory, path);
  unlink(path);
  rmdir(directory->path);
}

static int32_t write_source(const Directory *directory, int32_t index, const BpOwnedBytes *source) {
  char path[4096];
  file_path(directory, index, ".comp", path);
  FILE *file = fopen(path, "we");
  int is_whole = file && fwrite(source->data, 1, source->size, file) == source->size;
  if (file)
    is_whole &= fclose(file) == 0;
  return is_whole
             ? 0
             : bp_vulkan_host.error->raise(BP_ERROR_IO, "target vulkan: cannot write \"%s\"", path);
}

/* All of a file (transfer full), NUL-terminated; NULL if it cannot be read. */
static char *read_file(const char *path, size_t *size) {
  struct stat status;
  char *bytes = NULL;
  FILE *file = fopen(path, "re");
  if (file && fstat(fileno(file), &status) == 0 && status.st_size <= MOST_BINARY_BYTES)
    bytes = malloc((size_t)status.st_size + 1);
  *size = 0;
  if (bytes) {
    *size = fread(bytes, 1, (size_t)status.st_size, file);
    bytes[*size] = '\0';
  }
  if (file)
    fclose(file);
  return bytes;
}

/* ---- The command ------------------------------------------------------------------------- */

/* Its words and those of standard error go to the log. 0, or an errno. */
static int set_files(posix_spawn_file_actions_t *files, const Directory *directory) {
  char path[4096];
  log_path(directory, path);
  int status = posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);
  if (status == 0)
    status = posix_spawn_file_actions_addopen(files, 1, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (status == 0)
    status = posix_spawn_file_actions_adddup2(files, 1, 2);
  if (status == 0)
    status = posix_spawn_file_actions_addchdir_np(files, directory->path);
  return status;
}

static int start(char **arguments, const Directory *directory, pid_t *pid) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  sigset_t none, defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  sigaddset(&defaults, SIGCHLD);
  int status = posix_spawn_file_actions_init(&files);
  if (status != 0)
    return status;
  status = posix_spawnattr_init(&attributes);
  if (status == 0) {
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    status = set_files(&files, directory);
    if (status == 0)
      status = posix_spawnp(pid, arguments[0], &files, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&files);
  return status;
}

/* Runs glslc on all files. What it made of them is seen from its binaries. */
static int32_t run(const Directory *directory, int32_t count) {
  const char *option = bp_vulkan_host.runtime->get_option("BACKPLANE_GLSLC");
  const char *fixed[] = {option ? option : "glslc", "-c", "-O0", "--target-env=vulkan1.2"};
  const int32_t num_fixed = sizeof(fixed) / sizeof(fixed[0]);
  size_t room = (size_t)(num_fixed + count + 1);
  char **arguments = calloc(room, sizeof(*arguments));
  char(*names)[24] = calloc((size_t)count + 1, sizeof(*names));
  int status = ENOMEM;
  pid_t pid = 0;
  for (int32_t i = 0; arguments && i < num_fixed; i++)
    arguments[i] = (char *)(uintptr_t)fixed[i];
  for (int32_t i = 0; arguments && names && i < count; i++) {
    snprintf(names[i], sizeof(names[i]), "%d.comp", i);
    arguments[num_fixed + i] = names[i];
  }
  if (arguments && names)
    status = start(arguments, directory, &pid);
  free(arguments);
  free(names);
  if (status != 0)
    return bp_vulkan_host.error->raise(BP_ERROR_PLUGIN,
                                       "target vulkan: cannot run \"%s\": %s; install glslc, of "
                                       "shaderc, or name it in BACKPLANE_GLSLC",
                                       fixed[0], strerror(status));
  while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
  }
  return 0;
}

/* ---- Errors ------------------------------------------------------------------------------ */

/* The source with the numbers of its lines (transfer full), NULL without memory. */
static char *number_lines(const BpOwnedBytes *source) {
  size_t lines = 1;
  for (size_t i = 0; i < source->size; i++)
    lines += source->data[i] == '\n';
  size_t room = source->size + lines * 9 + 1, used = 0;
  char *text = malloc(room);
  const char *line = source->data, *end = source->data + source->size;
  for (size_t number = 1; text && line < end; number++) {
    const char *stop = memchr(line, '\n', (size_t)(end - line));
    stop = stop ? stop : end;
    used += (size_t)snprintf(text + used, room - used, "%5zu  %.*s\n", number % 100000,
                             (int)(stop - line), line);
    line = stop + 1;
  }
  return text;
}

static int32_t rejected(const Directory *directory, int32_t index, const char *name,
                        const BpOwnedBytes *source) {
  char path[4096];
  size_t size = 0;
  log_path(directory, path);
  char *log = read_file(path, &size), *numbered = number_lines(source);
  bp_vulkan_host.error->raise(BP_ERROR_COMPILE,
                              "target vulkan: glslc rejects kernel %s, %d.comp: %s\n%s", name,
                              index, log ? log : "", numbered ? numbered : source->data);
  free(log);
  free(numbered);
  return -1;
}

/* ---- Compiling --------------------------------------------------------------------------- */

static int32_t take_binary(const Directory *directory, int32_t index, BpVulkanKernel *kernel,
                           const BpOwnedBytes *source) {
  char path[4096];
  BpOwnedBytes marked = {NULL, 0, NULL};
  size_t size = 0;
  file_path(directory, index, ".comp.spv", path);
  char *bytes = read_file(path, &size);
  if (!bytes)
    return rejected(directory, index, kernel->call.name, source);
  int32_t rc = bp_vulkan_mark_exact(kernel->call.name, bytes, size, &marked);
  if (rc == 0)
    rc = bp_vulkan_set_binary(kernel, marked.data, marked.size);
  free(bytes);
  free(marked.data);
  return rc;
}

int32_t bp_vulkan_compile(const BpVulkanKernels *kernels, const BpOwnedBytes *sources) {
  Directory directory;
  if (make_directory(&directory) != 0)
    return -1;
  int32_t rc = 0;
  for (int32_t i = 0; rc == 0 && i < kernels->count; i++)
    rc = write_source(&directory, i, &sources[i]);
  if (rc == 0 && kernels->count > 0)
    rc = run(&directory, kernels->count);
  for (int32_t i = 0; rc == 0 && i < kernels->count; i++)
    rc = take_binary(&directory, i, kernels->items[i], &sources[i]);
  remove_directory(&directory, kernels->count);
  return rc;
}
