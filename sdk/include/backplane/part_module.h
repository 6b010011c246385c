/* SPDX-License-Identifier: Apache-2.0 */
/* Inline helpers for graph compilers whose modules hold one part (graph_compiler.h): the part's
 * bytes in the common form, and the function's arguments. Nothing in this header is part of the
 * ABI: a plugin carries its own copy of the functions. Since 1.0. */
#ifndef BACKPLANE_PART_MODULE_H
#define BACKPLANE_PART_MODULE_H

#include <backplane/plugin_helpers.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the tensor in an argument of a part's function, borrowed; NULL if the argument is no
 * tensor. */
static inline const BpTensorView *bp_part_tensor(const BpValue *arg) {
  if (arg->type_index == BP_TYPE_TENSOR)
    return &((const BpTensor *)(const void *)arg->v_obj)->view;
  return arg->type_index == BP_TYPE_TENSOR_VIEW ? arg->v_view : NULL;
}

/* For BpModuleApi::save_to_bytes: encodes the code of a part in the common form. format: identifies
 * the plugin's bytes for the loader, usually the kind of the module; num_tensors: arguments of the
 * function. 0, or -1 with an error raised. */
static inline int32_t bp_part_save(const BpPluginTables *host, const char *format,
                                   const char *function, int32_t num_tensors, const char *code,
                                   size_t size, BpOwnedBytes *bytes) {
  BpDataType *handles =
      (BpDataType *)bp_plugin_calloc(host, ((size_t)num_tensors + 1) * sizeof(BpDataType));
  BpKernelInfo kernel;
  BpByteArray view;
  int32_t status;
  if (!handles)
    return -1;
  __builtin_memset(&kernel, 0, sizeof(kernel));
  for (int32_t i = 0; i < num_tensors; i++) {
    handles[i].code = BP_DTYPE_HANDLE;
    handles[i].bits = 64;
    handles[i].lanes = 1;
  }
  kernel.struct_size = sizeof(kernel);
  kernel.name = function;
  kernel.arg_dtypes = handles;
  kernel.num_args = num_tensors;
  view.data = code;
  view.size = size;
  status = host->module->encode_device_code(format, &kernel, 1, &view, bytes);
  __builtin_free(handles);
  return status;
}

/* The result of bp_part_load; both members are for free(). */
typedef struct BpPartBytes {
  char *function;
  char *code; /* a copy, aligned as by malloc */
  size_t size;
} BpPartBytes;

static inline void bp_part_bytes_free(BpPartBytes *part) {
  __builtin_free(part->function);
  __builtin_free(part->code);
  part->function = part->code = NULL;
}

/* The names of the functions in saved bytes. */
typedef struct BpPartNames_ {
  char *first;
  int32_t count;
} BpPartNames_;

static inline int32_t bp_part_keep_name_(void *context, const BpKernelInfo *kernel) {
  BpPartNames_ *names = (BpPartNames_ *)context;
  size_t size = __builtin_strlen(kernel->name) + 1;
  if (names->count++ == 0) {
    names->first = (char *)__builtin_malloc(size);
    if (names->first)
      __builtin_memcpy(names->first, kernel->name, size);
  }
  return 0;
}

/* For `runtime.module.loadbinary_KIND`: reads the bytes that bp_part_save wrote from the loader's
 * arguments. The bytes are untrusted: the plugin checks the code. *part: owned by the caller, who
 * keeps its members or calls bp_part_bytes_free. 0; or -1 with an error raised and *part empty. */
static inline int32_t bp_part_load(const BpPluginTables *host, const char *format,
                                   const BpValue *args, int32_t num_args, BpPartBytes *part) {
  BpByteArray all, found = {NULL, 0}, code = {NULL, 0};
  BpPartNames_ names = {NULL, 0};
  int32_t status;
  __builtin_memset(part, 0, sizeof(*part));
  if (num_args < 1 || num_args > 2 || host->object->view_str(&args[0], &all) != 0)
    return bp_plugin_raise(host, BP_ERROR_TYPE, "the loader of %s takes bytes", format);
  status = host->module->decode_device_code(&all, &found, bp_part_keep_name_, &names, &code);
  if (!status && (found.size != __builtin_strlen(format) ||
                  __builtin_memcmp(found.data, format, found.size) || names.count != 1))
    status =
        bp_plugin_raise(host, BP_ERROR_FORMAT,
                        "the format of the bytes is \"%.*s\" with %d functions; expected "
                        "\"%s\" with 1",
                        (int)(found.size < 32 ? found.size : 32), found.data, names.count, format);
  if (!status && !names.first)
    status = bp_plugin_raise(host, BP_ERROR_MEMORY, "no memory for a part");
  if (!status) {
    part->code = (char *)bp_plugin_calloc(host, code.size + 1);
    status = part->code ? 0 : -1;
  }
  if (status) {
    __builtin_free(names.first);
    return -1;
  }
  __builtin_memcpy(part->code, code.data, code.size);
  part->size = code.size;
  part->function = names.first;
  return 0;
}

#ifdef __cplusplus
}
#endif

#endif
