/* SPDX-License-Identifier: Apache-2.0 */
/* Modules, kernels and launches. */

#include "worker.h"

#include <stdlib.h>

#define MAX_ARGUMENTS 256

/* ---- Modules ----------------------------------------------------------------------------- */

static int put_names(Job *job, char *const *names, size_t count) {
  size_t size = 0;
  for (size_t i = 0; i < count; i++)
    size += strlen(names[i]) + 1;
  char *text = malloc(size + 1), *at = text;
  if (!text)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the names of functions");
  for (size_t i = 0; i < count; i++)
    at = stpcpy(at, names[i]) + 1;
  bp_wire_put(&job->out, count);
  int is_long = size > BP_WORKER_NAMES_MAX;
  Blob *blob = is_long ? worker_blob_create(text, size) : NULL;
  bp_wire_put_bytes(&job->out, text, is_long ? 0 : size);
  if (is_long) {
    worker_put_pointer(job, blob);
    bp_wire_put(&job->out, size);
  }
  free(text);
  return is_long && !blob ? -1 : 0;
}

/* The module's reference passes to the host, unless the function fails. */
int worker_describe_module(Job *job, BpModule *module) {
  size_t count = 0;
  char **names = bp_module_list_functions(module, &count);
  worker_put_pointer(job, module);
  bp_wire_put(&job->out, (uint32_t)bp_module_get_property(module));
  int rc = put_names(job, names, names ? count : 0);
  bp_names_free(names);
  return rc;
}

int worker_module_load(Job *job) {
  char *kind = bp_wire_get_str(&job->in);
  Blob *blob = worker_get_pointer(job);
  const BpByteArray bytes = {blob->data, blob->size};
  BpModule *module = kind ? bp_module_load_from_bytes(kind, &bytes) : NULL;
  free(kind);
  free(blob);
  if (!module)
    return -1;
  int rc = worker_describe_module(job, module);
  if (rc)
    bp_object_release(module);
  return rc;
}

int worker_module_source(Job *job) {
  BpModule *module = worker_get_pointer(job);
  char *format = bp_wire_get_str(&job->in);
  BpOwnedBytes source = {NULL, 0, NULL};
  int rc = format ? bp_module_get_source(module, format, &source) : -1;
  Blob *blob = rc || !source.data ? NULL : worker_blob_create(source.data, source.size);
  if (!rc && source.data && !blob)
    rc = -1;
  bp_wire_put(&job->out, source.data != NULL);
  worker_put_pointer(job, blob);
  bp_wire_put(&job->out, source.size);
  bp_owned_bytes_clear(&source);
  free(format);
  return rc;
}

int worker_module_free(Job *job) {
  bp_object_release(worker_get_pointer(job));
  return 0;
}

int worker_function(Job *job) {
  BpModule *module = worker_get_pointer(job);
  char *name = bp_wire_get_str(&job->in);
  BpFunction *function = NULL;
  int rc = name ? bp_module_get_function(module, name, 0, &function) : -1;
  free(name);
  worker_put_pointer(job, function);
  return rc;
}

int worker_function_free(Job *job) {
  bp_object_release(worker_get_pointer(job));
  return 0;
}

/* ---- Launches ---------------------------------------------------------------------------- */

/* The extents are used in the area, which is aligned and contains only whole 64-bit numbers. */
static void get_view(Job *job, BpTensorView *view) {
  view->data = worker_get_pointer(job);
  view->device.device_type = (int32_t)bp_wire_get(&job->in);
  view->device.device_id = (int32_t)bp_wire_get(&job->in);
  view->dtype = bp_wire_to_dtype(bp_wire_get(&job->in));
  view->byte_offset = bp_wire_get(&job->in);
  BpByteArray shape = bp_wire_get_bytes(&job->in), strides = bp_wire_get_bytes(&job->in);
  view->ndim = (int32_t)(shape.size / sizeof(int64_t));
  view->shape = (int64_t *)(void *)(uintptr_t)shape.data;
  view->strides = strides.size ? (int64_t *)(void *)(uintptr_t)strides.data : NULL;
}

static void get_argument(Job *job, BpValue *arg, BpTensorView *view) {
  *arg = (BpValue){.type_index = (int32_t)bp_wire_get(&job->in)};
  if (arg->type_index == BP_TYPE_TENSOR_VIEW) {
    get_view(job, view);
    arg->v_view = view;
  } else {
    arg->v_int64 = (int64_t)bp_wire_get(&job->in);
  }
}

int worker_launch(Job *job) {
  BpValue args[MAX_ARGUMENTS], result = {.type_index = BP_TYPE_NONE};
  BpTensorView views[MAX_ARGUMENTS];
  BpInvocation invocation = {.struct_size = sizeof invocation};
  const Kind *kind = worker_get_place(job, &invocation.device.device_id);
  invocation.stream = worker_get_pointer(job);
  BpFunction *function = worker_get_pointer(job);
  uint64_t count = bp_wire_get(&job->in);
  if (!kind)
    return -1;
  if (count > MAX_ARGUMENTS)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "a launch with more than %d arguments",
                          MAX_ARGUMENTS);
  invocation.device.device_type = kind->api->device_type;
  for (uint64_t i = 0; i < count; i++)
    get_argument(job, &args[i], &views[i]);
  if (job->in.is_bad)
    return 0; /* the results are then malformed, which is an error */
  int rc = bp_function_launch(function, &invocation, args, (int32_t)count, &result);
  bp_value_clear(&result);
  return rc;
}
