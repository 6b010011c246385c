/* SPDX-License-Identifier: Apache-2.0 */
/* ModuleNode: the table behind one loaded module.
 *
 * A module is a set of functions found by name, with imports. The host owns the object, its list of
 * imports and its reference count. The plugin supplies the slots below and a context of its own,
 * and makes the object with BpModuleTable::create (host_api.h).
 *
 * Two global functions load modules:
 *  - `runtime.module.loadbinary_KIND` takes the bytes that save_to_bytes wrote, a borrowed byte
 *    array, and returns a module. If the bytes lie in a mapped library, it gets an object as a
 *    second argument: retain the object to keep the bytes mapped, and use them in place.
 *  - `runtime.module.loadfile_EXT` takes a path and the extension and returns a module.
 *
 * Since: every declaration is there since ABI 1.0, unless its comment names a later version. */
#ifndef BACKPLANE_MODULE_API_H
#define BACKPLANE_MODULE_API_H

#include <backplane/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A module: an opaque, reference-counted object of type BP_TYPE_MODULE. */
typedef struct BpModule BpModule;

/* Properties of a module, a set of bits. The host ignores bits that it does not know. */
#define BP_MODULE_BINARY_SERIALIZABLE 1 /* save_to_bytes works */
#define BP_MODULE_RUNNABLE            2 /* get_function returns functions of this process */
#define BP_MODULE_COMPILATION_EXPORT  4 /* get_source("c") or ("o") is linked by export_library */

/* Bytes that the receiver owns, and frees with `free_data(data)`. `data` is NULL if there are no
 * bytes. */
typedef struct BpOwnedBytes {
  char *data;
  size_t size;
  void (*free_data)(void *data);
} BpOwnedBytes;

/* The table of a kind of module is static: it lives as long as the plugin.
 *
 * Rules for every slot: any thread may call it, also several at once; it returns 0, or -1 with an
 * error raised; `context` is the context given to BpModuleTable::create; texts and pointers that
 * are passed in are borrowed for the call. A slot marked (optional) may be NULL, or lie beyond
 * `struct_size`. */
typedef struct BpModuleApi {
  uint64_t struct_size; /* sizeof(BpModuleApi) of the plugin's headers */
  const char *kind;     /* the KIND of the loader's name: "opencl", "c"; static */

  /* Finds a function of this module. The host searches the imports.
   * *function: owned by the caller; NULL, without an error, if the module has no function of that
   * name. The function keeps alive all that it needs: a function made by
   * BpModuleTable::function_create or kernel_create retains the module. */
  int32_t (*get_function)(void *context, const char *name, BpFunction **function);

  /* (optional: 0) Gives the properties.
   * *flags: BP_MODULE_*. */
  int32_t (*get_property)(void *context, int32_t *flags);

  /* (optional: not serialisable) Writes the bytes that loadbinary_KIND reads.
   * *bytes: owned by the caller. */
  int32_t (*save_to_bytes)(void *context, BpOwnedBytes *bytes);

  /* (optional: "") Gives the source.
   * format: "" for the module's preferred format; "c" for C to be compiled into an exported
   * library; "cflags" for the compiler arguments that this C needs, one a line; "o" for a
   * relocatable object file, which is preferred to "c"; "ll", "cl", "ptx" and so on. *source: owned
   * by the caller; `data` NULL, without an error, for an unknown format. */
  int32_t (*get_source)(void *context, const char *format, BpOwnedBytes *source);

  /* (optional: none) Lists the functions of this module. visit: called with `visitor`, a name and
   * the signature as JSON text, or NULL, in the calling thread, until it returns a value other than
   * 0: that ends the visit, and the slot succeeds. */
  int32_t (*visit_functions)(void *context,
                             int32_t (*visit)(void *visitor, const char *name,
                                              const char *signature),
                             void *visitor);

  /* Frees the context, when the last reference to the module is dropped. Never fails. */
  void (*destroy)(void *context);
} BpModuleApi;

/* ---- Launches ---------------------------------------------------------------------------- */

/* The device and the stream of a launch. */
typedef struct BpInvocation {
  uint64_t struct_size; /* sizeof(BpInvocation) of the filling side's headers */
  BpDevice device;      /* a device of the kernel's device type; the host checks it */
  void *stream;         /* a stream of that device (the host checks it); NULL: the default one */
  uint64_t flags;       /* 0: no flag is defined. A kernel refuses an unknown flag, as for BpCopy */
} BpInvocation;

/* Queues a kernel on the stream of `invocation`.
 * context: the one given to BpModuleTable::kernel_create. invocation, args: borrowed for the call.
 * Any thread, also several at once. Returns 0, or -1 with an error raised. */
typedef int32_t (*BpKernelCall)(void *context, const BpInvocation *invocation, const BpValue *args,
                                int32_t num_args);

/* ---- Device functions -------------------------------------------------------------------- */

/* One kernel of a device module: how it is called and launched.
 *
 * A kernel is called as a packed function: first its arguments (buffers as BP_TYPE_POINTER handles
 * at offset 0 or as tensor views, scalars as int or float), then one int for each launch tag. The
 * tags are "blockIdx.x|y|z" and "threadIdx.x|y|z"; a size of 0 counts as 1. The serialised form is
 * that of tvm-ffi's device modules (docs/artifacts.md). */
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
