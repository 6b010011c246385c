/* SPDX-License-Identifier: Apache-2.0 */
/* ModuleNode: the table behind one loaded module.
 *
 * A module is a set of functions found by name, with imports. The host owns the object, its list of
 * imports and its reference count; a plugin supplies the functions below and a context of its own,
 * and makes the object with BpModuleTable::create (host_api.h). A loader of kind KIND is the global
 * function `runtime.module.loadbinary_KIND`: it takes the bytes that save_to_bytes wrote (a
 * byte array, borrowed) and returns a module. Where the bytes lie in a mapped library it is given
 * an object as a second argument: while the loader keeps a reference to that, the bytes stay valid
 * and can be used in place. A loader of files is `runtime.module.loadfile_EXT`: it takes the path
 * and the extension and returns a module. */
#ifndef BACKPLANE_MODULE_API_H
#define BACKPLANE_MODULE_API_H

#include <backplane/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A module, seen from outside: an opaque, reference-counted object of type BP_TYPE_MODULE. */
typedef struct BpModule BpModule;

/* Properties of a module. */
#define BP_MODULE_BINARY_SERIALIZABLE 1 /* save_to_bytes works */
#define BP_MODULE_RUNNABLE            2 /* get_function gives functions that run here */
#define BP_MODULE_COMPILATION_EXPORT  4 /* get_source("c") or ("o") is linked by export_library */

/* A stretch of bytes that its receiver frees by calling `free_data(data)`. */
typedef struct BpOwnedBytes {
  char *data;
  size_t size;
  void (*free_data)(void *data);
} BpOwnedBytes;

/* Every slot may be called from any thread, also at once from several. */
typedef struct BpModuleApi {
  uint64_t struct_size;
  const char *kind; /* "opencl", "c", ...: static; the KIND of the loader's name */

  /* Finds a function of this module alone (the host searches imports). On success *function is
   * owned by the caller, or NULL when there is none of that name, which is no error. The function
   * must keep what it needs alive itself: the host retains the module through it if the function
   * was made by BpModuleTable::function_create. */
  int32_t (*get_function)(void *context, const char *name, BpFunction **function);

  /* (optional: 0) BP_MODULE_* flags. */
  int32_t (*get_property)(void *context, int32_t *flags);

  /* (optional: not serialisable) What loadbinary_KIND reads. */
  int32_t (*save_to_bytes)(void *context, BpOwnedBytes *bytes);

  /* (optional: "") The source in `format`: "" for the natural one, "c" for C to be compiled into an
   * exported library, "cflags" for the compiler arguments that this C needs, one a line, "o" for a
   * relocatable object file (preferred to "c"), "ll", "cl", "ptx" ... An unknown format is NULL
   * data and no error. */
  int32_t (*get_source)(void *context, const char *format, BpOwnedBytes *source);

  /* (optional: none) Calls `visit` with each function name and, as JSON text or NULL, what is known
   * of its signature, until it returns non-zero, which only ends the visit. Both strings are
   * borrowed for the call. */
  int32_t (*visit_functions)(void *context,
                             int32_t (*visit)(void *visitor, const char *name,
                                              const char *signature),
                             void *visitor);

  /* Frees the context, with the module's last reference. */
  void (*destroy)(void *context);
} BpModuleApi;

/* ---- Launches ---------------------------------------------------------------------------- */

/* Where a kernel runs. */
typedef struct BpInvocation {
  uint64_t struct_size; /* sizeof(BpInvocation) of the filling side's headers */
  BpDevice device;      /* of the kind that the kernel is made for */
  void *stream;         /* of that device; NULL: its default stream */
  uint64_t flags;       /* none is defined yet: 0 */
} BpInvocation;

/* Queues a kernel on the stream of `invocation`, which is borrowed for the call. `context` is that
 * of BpModuleTable::kernel_create. Returns 0, or -1 with an error raised. Any thread. */
typedef int32_t (*BpKernelCall)(void *context, const BpInvocation *invocation, const BpValue *args,
                                int32_t num_args);

/* ---- Device functions -------------------------------------------------------------------- */

/* The function table entry of a device module: how a kernel is called and launched. A kernel is
 * called as a packed function with its arguments first (buffers as BP_TYPE_POINTER handles at
 * offset 0 or as tensor views; scalars as int or float) and then one int for each launch tag.
 * Tags: "blockIdx.x|y|z", "threadIdx.x|y|z"; a size of 0 counts as 1. The serial form is that of
 * the tvm-ffi world's device modules: see docs/artifacts.md. */
typedef struct BpKernelInfo {
  uint64_t struct_size; /* sizeof(BpKernelInfo) of the filling side's headers */
  const char *name;
  const BpDataType *arg_dtypes; /* BP_DTYPE_HANDLE for a buffer */
  int32_t num_args;
  int32_t num_launch_tags;
  const char *const *launch_tags;
} BpKernelInfo;

#ifdef __cplusplus
}
#endif

#endif
