/* SPDX-License-Identifier: Apache-2.0 */
/* Programs, built for a device: from the cached binary of the same source, if the driver accepts
 * that binary, else from the source. */
#include "opencl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lines of the source that an error shows before and after the wrong line. */
#define LINES_AROUND 3

/* ---- Building from source ---------------------------------------------------------------- */

/* Returns the first source line that the compiler's log names, as in "file.cl:12:3: error"; 0:
 * none. */
static long line_of_error(const char *log) {
  for (const char *at = strchr(log, ':'); at; at = strchr(at + 1, ':')) {
    char *end;
    long line = strtol(at + 1, &end, 10);
    if (line > 0 && end > at + 1 && *end == ':')
      return line;
  }
  return 0;
}

/* Raises an error with the compiler's log and the source lines that the log names. */
static int32_t build_failed(const char *source, cl_program program, cl_device_id device,
                            cl_int status) {
  size_t size = 0;
  bp_cl.clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
  char *log = calloc(1, size + 1);
  if (log)
    bp_cl.clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, log, NULL);
  long line = log ? line_of_error(log) : 0;
  char *lines = bp_source_lines(source, line - LINES_AROUND, line + LINES_AROUND);
  int32_t rc = bp_plugin_raise(&bp_opencl_host, BP_ERROR_COMPILE,
                               "opencl: the driver rejects the code (%s): %.4000s\n%s",
                               bp_opencl_status_name(status), log ? log : "", lines ? lines : "");
  free(lines);
  free(log);
  return rc;
}

static cl_program build_source(const char *source, const BpOpenclDevice *device) {
  cl_int status = CL_SUCCESS;
  cl_program built = bp_cl.clCreateProgramWithSource(device->context, 1, &source, NULL, &status);
  if (status != CL_SUCCESS) {
    bp_opencl_raise(status, "clCreateProgramWithSource");
    return NULL;
  }
  status = bp_cl.clBuildProgram(built, 1, &device->id, "", NULL, NULL);
  if (status == CL_SUCCESS)
    return built;
  build_failed(source, built, device->id, status);
  bp_cl.clReleaseProgram(built);
  return NULL;
}

/* ---- Binaries ---------------------------------------------------------------------------- */

/* Returns as text everything that a binary depends on: the driver (its platform and versions), the
 * device and the source (transfer full). NULL: out of memory. */
static char *make_key(const char *source, const BpOpenclDevice *device, size_t *size) {
  static const cl_device_info facts[] = {CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DEVICE_VERSION,
                                         CL_DRIVER_VERSION};
  char text[1024] = "", *key = NULL;
  FILE *out = open_memstream(&key, size);
  if (!out)
    return NULL;
  bp_cl.clGetPlatformInfo(device->platform, CL_PLATFORM_VERSION, sizeof(text) - 1, text, NULL);
  int is_whole = fprintf(out, "%s\n", text) >= 0;
  for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
    text[0] = '\0';
    bp_cl.clGetDeviceInfo(device->id, facts[i], sizeof(text) - 1, text, NULL);
    is_whole = fprintf(out, "%s\n", text) >= 0 && is_whole;
  }
  is_whole = fputs(source, out) >= 0 && is_whole;
  if (fclose(out) == 0 && is_whole)
    return key;
  free(key);
  return NULL;
}

static cl_program build_bytes(const BpOwnedBytes *bytes, const BpOpenclDevice *device) {
  const unsigned char *data = (const unsigned char *)bytes->data;
  cl_int loaded = CL_SUCCESS, status = CL_SUCCESS;
  cl_program built = bp_cl.clCreateProgramWithBinary(device->context, 1, &device->id, &bytes->size,
                                                     &data, &loaded, &status);
  if (status != CL_SUCCESS)
    return NULL;
  if (loaded == CL_SUCCESS &&
      bp_cl.clBuildProgram(built, 1, &device->id, "", NULL, NULL) == CL_SUCCESS)
    return built;
  bp_cl.clReleaseProgram(built);
  return NULL;
}

/* Makes the program from a cached binary; NULL without an error if there is no binary that the
 * driver accepts. */
static cl_program build_kept(const char *source, const BpOpenclDevice *device) {
  BpOwnedBytes bytes = {NULL, 0, NULL};
  BpByteArray key = {NULL, 0};
  char *text = make_key(source, device, &key.size);
  key.data = text;
  if (text)
    bp_opencl_host.runtime->cache_read("opencl", &key, &bytes);
  free(text);
  if (!bytes.data)
    return NULL;
  cl_program built = build_bytes(&bytes, device);
  bytes.free_data(bytes.data);
  if (!built)
    bp_plugin_log(&bp_opencl_host, BP_LOG_WARNING,
                  "opencl: the driver does not take the binary that it "
                  "once made; the program is built again");
  return built;
}

static void keep(const char *source, cl_program built, const BpOpenclDevice *device) {
  BpByteArray key = {NULL, 0}, bytes = {NULL, 0};
  if (bp_cl.clGetProgramInfo(built, CL_PROGRAM_BINARY_SIZES, sizeof(bytes.size), &bytes.size,
                             NULL) != CL_SUCCESS ||
      bytes.size == 0)
    return;
  char *text = make_key(source, device, &key.size);
  unsigned char *data = text ? malloc(bytes.size) : NULL;
  key.data = text;
  bytes.data = (const char *)data;
  if (data &&
      bp_cl.clGetProgramInfo(built, CL_PROGRAM_BINARIES, sizeof(data), &data, NULL) == CL_SUCCESS)
    bp_opencl_host.runtime->cache_write("opencl", &key, &bytes);
  free(data);
  free(text);
}

/* Whether binaries are cached; by default not on PoCL, which caches on disk the code that it
 * compiles at a kernel's first launch. To make a binary, PoCL compiles all kernels once more, which
 * makes a first start twice as long and later ones hardly shorter: see docs/plugin-opencl.md. An
 * assertion of PoCL's also once failed while it made a binary beside launches of the same
 * kernel. */
static int are_binaries_kept(const BpOpenclDevice *device) {
  char name[128] = "";
  bp_cl.clGetPlatformInfo(device->platform, CL_PLATFORM_NAME, sizeof(name) - 1, name, NULL);
  return bp_option_is_on(&bp_opencl_host, "BACKPLANE_OPENCL_BINARIES",
                         strcmp(name, "Portable Computing Language") != 0);
}

/* ---- For a device ------------------------------------------------------------------------ */

static cl_program build(const char *source, const BpOpenclDevice *device) {
  int is_kept = are_binaries_kept(device);
  cl_program built = is_kept ? build_kept(source, device) : NULL;
  if (built)
    return built;
  built = build_source(source, device);
  if (built && is_kept)
    keep(source, built, device);
  return built;
}

cl_program bp_opencl_program(const BpKernelModule *module, const BpOpenclDevice *device) {
  BpOpenclProgram *program = module->built;
  cl_program *place = &program->built[device->index];
  pthread_mutex_lock(&program->lock);
  if (!*place)
    *place = build(module->code.data, device);
  cl_program built = *place;
  pthread_mutex_unlock(&program->lock);
  return built;
}
