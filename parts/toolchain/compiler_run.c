/* SPDX-License-Identifier: Apache-2.0 */
/* Running plugins' compilers. The output files of a run are cached together, under a hash of all
 * inputs. */

#include "parts/toolchain/compiler_run.h"

#include "core/module/bytes.h"
#include "core/registry/argument.h"
#include "parts/toolchain/command.h"

#include <backplane/cache.h>
#include <backplane/error.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>

static int no_program(const char *program, int reason) {
  return bp_error_raise(BP_ERROR_COMPILE, "cannot run \"%s\": %s", program, strerror(reason));
}

/* ---- The cache --------------------------------------------------------------------------- */

static void hash_text(GChecksum *hash, const char *text) {
  bp__cache_hash(hash, text, strlen(text));
}

/* Returns as text everything that the output depends on (transfer full, g_free); NULL with an
 * error. */
static char *make_key(const BpCompilerRun *run) {
  char *identity = bp__command_identity(run->command[0]);
  if (!identity) {
    no_program(run->command[0], errno);
    return NULL;
  }
  GChecksum *hash = g_checksum_new(G_CHECKSUM_SHA256);
  hash_text(hash, identity);
  for (const char *const *word = run->command; *word; ++word)
    hash_text(hash, *word);
  hash_text(hash, "");
  for (int32_t i = 0; i < run->num_inputs; ++i) {
    hash_text(hash, run->input_names[i]);
    bp__cache_hash(hash, run->inputs[i].data, run->inputs[i].size);
  }
  hash_text(hash, "");
  for (int32_t i = 0; i < run->num_outputs; ++i)
    hash_text(hash, run->output_names[i]);
  char *key = g_strdup(g_checksum_get_string(hash));
  g_checksum_free(hash);
  free(identity);
  return key;
}

static void clear(BpOwnedBytes *outputs, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    if (outputs[i].data)
      outputs[i].free_data(outputs[i].data);
    outputs[i] = (BpOwnedBytes){NULL, 0, NULL};
  }
}

static int copy_output(BpReader *reader, BpOwnedBytes *output) {
  BpByteArray view;
  if (bp__read_string(reader, &view, "a compiled file"))
    return -1;
  char *copy = g_try_malloc(view.size + 1);
  if (!copy)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for %zu compiled bytes", view.size);
  memcpy(copy, view.data, view.size);
  copy[view.size] = '\0';
  *output = (BpOwnedBytes){copy, view.size, g_free};
  return 0;
}

/* Takes the outputs from the cache: 0; or -1 without an error if they are not in the cache. */
static int take_kept(const BpCompilerRun *run, const BpByteArray *key, BpOwnedBytes *outputs) {
  BpOwnedBytes kept;
  bp_cache_read(run->subject, key, &kept);
  if (!kept.data)
    return -1;
  BpReader reader = {kept.data, kept.size, 0, "a cached file"};
  int rc = 0;
  for (int32_t i = 0; !rc && i < run->num_outputs; ++i)
    rc = copy_output(&reader, &outputs[i]);
  rc = rc || bp__read_end(&reader) ? -1 : 0;
  kept.free_data(kept.data);
  if (rc) {
    clear(outputs, run->num_outputs);
    bp_error_clear();
  }
  return rc;
}

static void keep(const BpCompilerRun *run, const BpByteArray *key, const BpOwnedBytes *outputs) {
  BpWriter writer = {NULL, 0, 0, 0};
  BpOwnedBytes bytes;
  for (int32_t i = 0; i < run->num_outputs; ++i) {
    if (!outputs[i].data)
      return free(writer.data);
    bp__write_string(&writer, outputs[i].data, outputs[i].size);
  }
  if (bp__write_finish(&writer, &bytes)) {
    bp_error_clear();
    return;
  }
  const BpByteArray view = {bytes.data, bytes.size};
  bp_cache_write(run->subject, key, &view);
  bytes.free_data(bytes.data);
}

/* ---- A run ------------------------------------------------------------------------------- */

static int run_in(const BpWorkdir *dir, const BpCompilerRun *run, BpOwnedBytes *outputs,
                  BpOwnedBytes *log, int *status) {
  for (int32_t i = 0; i < run->num_inputs; ++i)
    if (bp__workdir_write(dir, run->input_names[i], &run->inputs[i]))
      return -1;
  int reason = bp__command_run(dir, (char *const *)(uintptr_t)run->command, status);
  if (reason)
    return no_program(run->command[0], reason);
  bp__workdir_take(dir, BP_COMMAND_LOG, log);
  for (int32_t i = 0; i < run->num_outputs && !WIFSIGNALED(*status); ++i)
    bp__workdir_take(dir, run->output_names[i],
                     &outputs[i]); /* a killed compiler leaves incomplete files */
  return 0;
}

/* Runs the compiler; once more in the folder for temporary files if its directory in the cache was
 * removed or is full. */
static int run_anywhere(const BpCompilerRun *run, BpOwnedBytes *outputs, BpOwnedBytes *log,
                        int *status) {
  BpCache cache;
  BpWorkdir dir;
  bp__cache_try_open(&cache, run->subject);
  int rc = bp__workdir_create(&dir, &cache);
  if (!rc)
    rc = run_in(&dir, run, outputs, log, status);
  if ((rc || *status) && bp__workdir_leave_cache(&dir, 0)) {
    clear(outputs, run->num_outputs);
    clear(log, 1);
    rc = run_in(&dir, run, outputs, log, status);
  }
  bp__workdir_remove(&dir);
  bp__cache_close(&cache);
  return rc;
}

/* The size of BpCompilerRun in its first version. */
#define LEAST_RUN (offsetof(BpCompilerRun, num_outputs) + sizeof(int32_t))

int32_t bp__compiler_run(const BpCompilerRun *given, BpOwnedBytes *outputs, BpOwnedBytes *log) {
  BpCompilerRun known;
  const BpCompilerRun *run = &known;
  int status = 0;
  if (bp__sized_read(&known, sizeof known, LEAST_RUN, given, "BpCompilerRun"))
    return -1;
  *log = (BpOwnedBytes){NULL, 0, NULL};
  for (int32_t i = 0; i < run->num_outputs; ++i)
    outputs[i] = *log;
  char *text = make_key(run);
  if (!text)
    return -1;
  const BpByteArray key = {text, strlen(text)};
  int rc = take_kept(run, &key, outputs);
  if (rc) {
    rc = run_anywhere(run, outputs, log, &status);
    if (!rc && !status)
      keep(run, &key, outputs);
  }
  g_free(text);
  return rc;
}
