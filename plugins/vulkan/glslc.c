/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles GLSL to SPIR-V with shaderc's command glslc, in one call for all kernels of a module,
 * because starting it takes far longer than compiling one kernel. Drivers optimise the code, so
 * glslc does not. The arithmetic is marked so that drivers keep its order: see
 * bp_vulkan_mark_exact. */
#include "vulkan.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kernel i is in the file i.comp, its binary in i.comp.spv. */
typedef struct Names {
  char source[24];
  char binary[24];
} Names;

/* The input and output files of a run. */
typedef struct Files {
  int32_t count;
  Names *names;
  const char **words; /* words of the command */
  const char **sources;
  const char **binaries;
  BpByteArray *inputs;
  BpOwnedBytes *outputs;
} Files;

static const char *const options[] = {"glslc", "-c", "-O0", "--target-env=vulkan1.2"};

#define NUM_OPTIONS (sizeof(options) / sizeof(options[0]))

static int32_t no_memory(void) {
  return bp_plugin_raise(&bp_vulkan_host, BP_ERROR_MEMORY, "target vulkan: out of memory");
}

static int32_t make_files(Files *files, const BpOwnedBytes *sources, int32_t num_kernels) {
  size_t count = (size_t)num_kernels;
  files->count = num_kernels;
  files->names = calloc(count, sizeof(*files->names));
  files->words = calloc(NUM_OPTIONS + count + 1, sizeof(*files->words));
  files->sources = calloc(count, sizeof(*files->sources));
  files->binaries = calloc(count, sizeof(*files->binaries));
  files->inputs = calloc(count, sizeof(*files->inputs));
  files->outputs = calloc(count, sizeof(*files->outputs));
  if (!files->names || !files->words || !files->sources || !files->binaries || !files->inputs ||
      !files->outputs)
    return no_memory();
  for (size_t i = 0; i < NUM_OPTIONS; i++)
    files->words[i] = options[i];
  for (size_t i = 0; i < count; i++) {
    Names *names = &files->names[i];
    snprintf(names->source, sizeof(names->source), "%d.comp", (int)i);
    snprintf(names->binary, sizeof(names->binary), "%d.comp.spv", (int)i);
    files->words[NUM_OPTIONS + i] = files->sources[i] = names->source;
    files->binaries[i] = names->binary;
    files->inputs[i] = (BpByteArray){sources[i].data, sources[i].size};
  }
  return 0;
}

static void clear_bytes(BpOwnedBytes *bytes) {
  if (bytes->data)
    bytes->free_data(bytes->data);
}

static void clear_files(Files *files) {
  for (int32_t i = 0; files->outputs && i < files->count; i++)
    clear_bytes(&files->outputs[i]);
  free(files->names);
  free(files->words);
  free(files->sources);
  free(files->binaries);
  free(files->inputs);
  free(files->outputs);
}

/* Runs glslc on all files. Success is determined by the binaries, not by the exit status. */
static int32_t run(const Files *files, BpOwnedBytes *log) {
  const char *program = bp_vulkan_host.runtime->get_option("BACKPLANE_GLSLC");
  const BpCompilerRun call = {.struct_size = sizeof(call),
                              .subject = "vulkan",
                              .command = files->words,
                              .input_names = files->sources,
                              .inputs = files->inputs,
                              .output_names = files->binaries,
                              .num_inputs = files->count,
                              .num_outputs = files->count};
  if (program)
    files->words[0] = program;
  if (bp_vulkan_host.module->run_compiler(&call, files->outputs, log) == 0)
    return 0;
  return bp_plugin_add_context(
      &bp_vulkan_host,
      "target vulkan: GLSL is compiled by glslc, of shaderc; install it, or name it in "
      "BACKPLANE_GLSLC");
}

/* ---- Errors ------------------------------------------------------------------------------ */

static int32_t rejected(const Files *files, int32_t index, const char *name,
                        const BpOwnedBytes *source, const BpOwnedBytes *log) {
  char *numbered = bp_source_lines(source->data, 1, LONG_MAX);
  bp_plugin_raise(&bp_vulkan_host, BP_ERROR_COMPILE,
                  "target vulkan: glslc rejects kernel %s, %s: %s\n%s", name, files->sources[index],
                  log->data ? log->data : "", numbered ? numbered : source->data);
  free(numbered);
  return -1;
}

/* ---- Compiling --------------------------------------------------------------------------- */

/* Writes a kernel's binary after the number of its words. */
static int32_t write_binary(const char *name, const BpOwnedBytes *binary, FILE *out) {
  BpOwnedBytes marked = {NULL, 0, NULL};
  if (bp_vulkan_mark_exact(name, binary->data, binary->size, &marked) != 0)
    return -1;
  uint32_t num_words = (uint32_t)(marked.size / 4);
  int is_written =
      fwrite(&num_words, 4, 1, out) == 1 && fwrite(marked.data, 4, num_words, out) == num_words;
  free(marked.data);
  return is_written ? 0 : no_memory();
}

/* Writes all binaries, or raises the compiler's message about a missing one. */
static int32_t write_code(const Files *files, const BpIrTable *ir, const BpIrModule *functions,
                          const BpOwnedBytes *sources, const BpOwnedBytes *log,
                          BpOwnedBytes *code) {
  FILE *out = open_memstream(&code->data, &code->size);
  int32_t rc = out ? 0 : no_memory();
  for (int32_t i = 0; rc == 0 && i < files->count; i++) {
    const char *name = ir->str_value(ir->get_function(functions, i));
    rc = files->outputs[i].data ? write_binary(name, &files->outputs[i], out)
                                : rejected(files, i, name, &sources[i], log);
  }
  if (out && fclose(out) != 0 && rc == 0)
    rc = no_memory();
  return rc;
}

int32_t bp_vulkan_compile(const BpIrTable *ir, const BpIrModule *functions,
                          const BpOwnedBytes *sources, BpOwnedBytes *code) {
  Files files = {0};
  BpOwnedBytes log = {NULL, 0, NULL};
  int32_t count = ir->num_functions(functions);
  *code = (BpOwnedBytes){NULL, 0, free};
  if (count == 0)
    return 0;
  int32_t rc = make_files(&files, sources, count);
  if (rc == 0)
    rc = run(&files, &log);
  if (rc == 0)
    rc = write_code(&files, ir, functions, sources, &log, code);
  clear_bytes(&log);
  clear_files(&files);
  return rc;
}
