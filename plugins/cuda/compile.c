/* SPDX-License-Identifier: Apache-2.0 */
/* NVRTC, opened when code is first compiled; its results are kept in the host's cache. */
#include "cuda.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Many drivers in use do not accept code from newer versions. */
#define NEWEST_VERSION 1300
#define MOST_OPTIONS   32
/* The most characters of a log and of the source that a message shows. */
#define MOST_MESSAGE 32768

#define MEMBER(name, parameters) nvrtcResult(*name) parameters;
static struct { BP_NVRTC_FUNCTIONS(MEMBER) } nvrtc;

static const BpLibrarySymbol symbols[] = {
#define SYMBOL(name, parameters) {#name, (void **)&nvrtc.name},
    BP_NVRTC_FUNCTIONS(SYMBOL)};

static BpLibrary library = {
    .option = "BACKPLANE_NVRTC_LIBRARY",
    .names = {"libnvrtc.so.12", "libnvrtc.so.13"},
    .what = "CUDA's compiler NVRTC",
    .install = "install CUDA's libnvrtc 12 or 13.0, on Debian the package libnvrtc12 or "
               "nvidia-cuda-toolkit (non-free), or PyPI's nvidia-cuda-nvrtc-cu12 with "
               "BACKPLANE_NVRTC_LIBRARY naming its libnvrtc.so.12",
    .upgrade = "install CUDA's libnvrtc 12 or 13.0",
    .symbols = symbols,
    .num_symbols = sizeof(symbols) / sizeof(symbols[0]),
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *problem;
static int version; /* 1209 for 12.9 */

static int32_t no_memory(void) {
  return bp_plugin_raise(&bp_cuda_host, BP_ERROR_MEMORY, "cuda: no memory to compile");
}

/* ---- The library ------------------------------------------------------------------------- */

static void load(void) {
  int major = 0, minor = 0;
  problem = bp_library_open(&bp_cuda_host, &library);
  if (problem)
    return;
  nvrtc.nvrtcVersion(&major, &minor);
  version = major * 100 + minor;
  if (version > NEWEST_VERSION || major < 12)
    problem = bp_library_refuse(
        &library,
        "NVRTC is of CUDA %d.%d; versions from 12.0 to 13.0 are used, since drivers in use do not "
        "take the code of newer ones",
        major, minor);
}

static int32_t need_compiler(void) {
  pthread_once(&once, load);
  return problem ? bp_plugin_raise(&bp_cuda_host, BP_ERROR_COMPILE, "cuda: %s", problem) : 0;
}

/* Returns as text everything that the code depends on (transfer full); NULL with an error. */
static char *make_key(const char *source, const char *arch, const char *options) {
  size_t size = strlen(source) + strlen(arch) + strlen(options) + 64;
  char *key = malloc(size);
  if (key)
    snprintf(key, size, "nvrtc %d\n%s\n%s\n%s", version, arch, options, source);
  else
    no_memory();
  return key;
}

/* ---- Failures ---------------------------------------------------------------------------- */

static int32_t raise_log(nvrtcProgram program, const char *source, const char *arch) {
  size_t size = 0;
  char *log = NULL, *lines = bp_source_lines(source, 1, LONG_MAX);
  if (nvrtc.nvrtcGetProgramLogSize(program, &size) == NVRTC_SUCCESS)
    log = calloc(1, size + 1);
  if (log)
    nvrtc.nvrtcGetProgramLog(program, log);
  int32_t rc = bp_plugin_raise(&bp_cuda_host, BP_ERROR_COMPILE,
                               "cuda: NVRTC %d.%d rejects the code for %s:\n%.*s\n%.*s",
                               version / 100, version % 100, arch, MOST_MESSAGE, log ? log : "",
                               MOST_MESSAGE, lines ? lines : "");
  free(lines);
  free(log);
  return rc;
}

/* ---- Compiling --------------------------------------------------------------------------- */

/* "sm_90", "sm_90a", "compute_75". */
int32_t bp_cuda_check_arch(const char *arch) {
  const char *number = strncmp(arch, "sm_", 3) == 0        ? arch + 3
                       : strncmp(arch, "compute_", 8) == 0 ? arch + 8
                                                           : "";
  size_t digits = strspn(number, "0123456789");
  const char *end = number + digits;
  int has_suffix = (*end == 'a' || *end == 'f') && end[1] == '\0';
  if (digits >= 2 && digits <= 3 && (*end == '\0' || has_suffix))
    return 0;
  return bp_plugin_raise(&bp_cuda_host, BP_ERROR_VALUE,
                         "target cuda: no architecture \"%s\"; write it as sm_90 (code "
                         "for GPUs of compute capability 9.0) or compute_90 (PTX for "
                         "those and all later ones)",
                         arch);
}

static int32_t take_code(nvrtcProgram program, int is_ptx, BpOwnedBytes *code) {
  size_t size = 0;
  nvrtcResult status =
      is_ptx ? nvrtc.nvrtcGetPTXSize(program, &size) : nvrtc.nvrtcGetCUBINSize(program, &size);
  if (status != NVRTC_SUCCESS || size == 0)
    return bp_plugin_raise(&bp_cuda_host, BP_ERROR_COMPILE, "cuda: NVRTC made no code (error %d)",
                           status);
  char *data = malloc(size + 1);
  if (!data)
    return no_memory();
  status = is_ptx ? nvrtc.nvrtcGetPTX(program, data) : nvrtc.nvrtcGetCUBIN(program, data);
  data[size] = '\0';
  *code = (BpOwnedBytes){data, size, free};
  if (status == NVRTC_SUCCESS)
    return 0;
  free(data);
  return bp_plugin_raise(&bp_cuda_host, BP_ERROR_COMPILE, "cuda: NVRTC gives no code (error %d)",
                         status);
}

/* Overwrites `words`. */
static int32_t compile(const char *source, const char *arch, char *words, BpOwnedBytes *code) {
  char arch_option[64], *rest = NULL;
  const char *options[MOST_OPTIONS] = {arch_option, "--std=c++17"};
  int count = 2;
  nvrtcProgram program = NULL;
  snprintf(arch_option, sizeof(arch_option), "--gpu-architecture=%s", arch);
  for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    if (count == MOST_OPTIONS)
      return bp_plugin_raise(&bp_cuda_host, BP_ERROR_VALUE, "target cuda: more than %d options",
                             MOST_OPTIONS - 2);
    options[count++] = word;
  }
  nvrtcResult status = nvrtc.nvrtcCreateProgram(&program, source, "backplane.cu", 0, NULL, NULL);
  if (status != NVRTC_SUCCESS)
    return bp_plugin_raise(&bp_cuda_host, BP_ERROR_COMPILE, "cuda: nvrtcCreateProgram: error %d",
                           status);
  status = nvrtc.nvrtcCompileProgram(program, count, options);
  int32_t rc = status == NVRTC_SUCCESS ? take_code(program, strncmp(arch, "compute_", 8) == 0, code)
                                       : raise_log(program, source, arch);
  nvrtc.nvrtcDestroyProgram(&program);
  return rc;
}

int32_t bp_cuda_compile(const char *source, const char *arch, const char *options,
                        BpOwnedBytes *code) {
  if (bp_cuda_check_arch(arch) != 0 || need_compiler() != 0)
    return -1;
  char *key = make_key(source, arch, options ? options : "");
  if (!key)
    return -1;
  BpByteArray entry = {key, strlen(key)};
  bp_cuda_host.runtime->cache_read("cuda", &entry, code);
  int32_t rc = 0;
  if (!code->data) {
    char *words = strdup(options ? options : "");
    rc = words ? compile(source, arch, words, code) : no_memory();
    free(words);
    BpByteArray made = {code->data, code->size};
    if (rc == 0)
      bp_cuda_host.runtime->cache_write("cuda", &entry, &made);
  }
  free(key);
  return rc;
}
