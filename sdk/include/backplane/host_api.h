/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of functions that the host gives a plugin.
 *
 * A plugin links against nothing of the host. The plugin fetches the tables that it needs from
 * BpHost::get_table, by name and version. A table starts with `struct_size` and grows only at its
 * end: a member beyond the `struct_size` that the host wrote does not exist (BP_TABLE_HAS).
 *
 * Rules for every function of a table, unless its comment says otherwise:
 *  - Threads: any thread may call a function, also several at once, until the process ends.
 *  - Errors: a function returns 0 or a pointer on success, -1 or NULL with an error raised in this
 *    thread.
 *  - Ownership: an argument is borrowed for the call; the caller owns a result.
 *  - NULL: an error of kind BP_ERROR_VALUE where the comment does not allow it. Slots that return
 *    nothing ignore it.
 *
 * Since: every declaration is there since ABI 1.0, unless its comment names a later version. */
#ifndef BACKPLANE_HOST_API_H
#define BACKPLANE_HOST_API_H

#include <backplane/error_kinds.h>
#include <backplane/module_api.h>
#include <backplane/target_api.h>
#include <backplane/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether a structure that the other side filled in has `member`, and the member is not 0. */
#define BP_TABLE_HAS(table, member)                                                                \
  ((table)->struct_size >=                                                                         \
       __builtin_offsetof(__typeof__(*(table)), member) + sizeof((table)->member) &&               \
   (table)->member != 0)

/* ---- "error", 1 -------------------------------------------------------------------------- */
#define BP_TABLE_ERROR         "error"
#define BP_TABLE_ERROR_VERSION 1

#define BP_LOG_DEBUG   0
#define BP_LOG_INFO    1
#define BP_LOG_WARNING 2

/* This thread's error, and the log. Texts are UTF-8, end in a NUL and are copied. bp_plugin_raise()
 * and similar helpers (plugin_helpers.h) format them. */
typedef struct BpErrorTable {
  uint64_t struct_size;
  /* Raises an error in this thread. The new error replaces an earlier one.
   * kind: BP_ERROR_*, or a name of the plugin's own. Returns -1, for `return error->raise(...)`. */
  int32_t (*raise)(const char *kind, const char *message);
  /* Puts "text: " before the message of this thread's error, if there is one; NULL is ignored.
   * Returns -1. */
  int32_t (*add_context)(const char *text);
  /* Takes this thread's error away. Returns the error, owned by the caller, or NULL if the thread
   * has none. */
  BpError *(*take)(void);
  /* Raises in this thread an error that any thread took.
   * error: its reference passes to the host. Returns -1, or 0 if `error` is NULL. */
  int32_t (*put)(BpError *error);
  /* Passes a message to the application's log callback, or drops the message if no callback is set.
   * level: BP_LOG_*. Never fails. */
  void (*log)(int32_t level, const char *message);
} BpErrorTable;

/* ---- "object", 1 ------------------------------------------------------------------------- */
#define BP_TABLE_OBJECT         "object"
#define BP_TABLE_OBJECT_VERSION 1

/* A function object with a context, as BpObjectTable::function_create makes it. */
typedef struct BpClosure {
  BpFunction function;
  void *context;
  void (*destroy)(void *context); /* or NULL */
} BpClosure;

/* References, and values that hold objects. */
typedef struct BpObjectTable {
  uint64_t struct_size;
  /* Adds a strong reference. NULL is ignored. Never fails. */
  void (*retain)(void *object);
  /* Drops a strong reference; the last one destroys the object. NULL is ignored. Never fails. */
  void (*release)(void *object);
  /* Makes a string; copies the data. A small string needs no object.
   * *result: owned by the caller. Errors: BP_ERROR_MEMORY. */
  int32_t (*make_str)(const char *data, size_t size, BpValue *result);
  /* Makes a byte string; otherwise as make_str. */
  int32_t (*make_bytes)(const char *data, size_t size, BpValue *result);
  /* Borrows the bytes of a value that is a string or a byte string of any form.
   * *view: valid as long as the value. Errors: BP_ERROR_TYPE for another value. */
  int32_t (*view_str)(const BpValue *value, BpByteArray *view);
  /* Makes a shape; copies the extents. Errors: BP_ERROR_MEMORY. */
  BpShape *(*shape_create)(const int64_t *extents, size_t size);
  /* Makes a function.
   * call: gets the BpClosure as `self`. destroy, or NULL: called with `context` when the last
   * reference is dropped, and at once if the creation fails. Errors: BP_ERROR_MEMORY. */
  BpFunction *(*function_create)(BpPackedCall call, void *context, void (*destroy)(void *context));
} BpObjectTable;

/* ---- "registry", 1 ----------------------------------------------------------------------- */
#define BP_TABLE_REGISTRY         "registry"
#define BP_TABLE_REGISTRY_VERSION 1

/* Functions by name. Names are extension points: `device_api.X`, `target.build.X`, ... */
typedef struct BpRegistryTable {
  uint64_t struct_size;
  /* Registers a function. The registry takes its own reference. The name cannot be found before
   * BpPlugin::initialize has succeeded.
   * name: a name in the descriptor's `provides`. override: not 0 to replace a function that this
   * plugin has registered under the name.
   * Threads: only the thread that runs BpPlugin::initialize, and only during that call.
   * Errors: BP_ERROR_RUNTIME outside of initialize; BP_ERROR_VALUE for a name that the descriptor
   * lacks or that is taken. */
  int32_t (*set)(const char *name, BpFunction *function, int32_t override);
  /* Finds a function. May activate the plugin that provides the name.
   * *function: owned by the caller; NULL, without an error, if no function has the name.
   * Errors: BP_ERROR_NOT_READY, while the calling plugin initialises, for a name of a plugin that
   * is not active; the error of the activation. */
  int32_t (*get)(const char *name, BpFunction **function);
} BpRegistryTable;

/* ---- "module", 1 ------------------------------------------------------------------------- */
#define BP_TABLE_MODULE         "module"
#define BP_TABLE_MODULE_VERSION 1

/* A compiler's command, and the files that it reads and writes. Names of files have no '/'. */
typedef struct BpCompilerRun {
  uint64_t struct_size;
  const char *subject;        /* folder of the cache, as for BpRuntimeTable::cache_read */
  const char *const *command; /* the program, searched for in PATH; its arguments; a NULL */
  const char *const *input_names;
  const BpByteArray *inputs; /* the contents of the files input_names */
  const char *const *output_names;
  int32_t num_inputs;
  int32_t num_outputs;
} BpCompilerRun;

/* Modules: loaded code, and their serialised bytes. */
typedef struct BpModuleTable {
  uint64_t struct_size;
  /* Makes a module.
   * api: valid for ever. context: the module owns it; if the creation fails, the context is
   * destroyed. */
  BpModule *(*create)(const BpModuleApi *api, void *context);
  /* Returns the context of a module whose table is `api`; NULL, with no error raised, for another
   * module. The context is borrowed from the module. */
  void *(*get_context)(BpModule *module, const BpModuleApi *api);
  /* Makes a function that retains `module`. Otherwise as BpObjectTable::function_create. */
  BpFunction *(*function_create)(BpModule *module, BpPackedCall call, void *context,
                                 void (*destroy)(void *context));
  /* Makes a kernel: a function that retains `module` and calls `launch` with `context`. A kernel
   * that is called as a function is launched on the device and stream that are current in the
   * thread for `device_type`; bp_function_launch (backplane/device.h) launches it on a given device
   * and stream. Before `launch` the host checks that the device is of `device_type` and that the
   * stream belongs to the device. destroy: as for BpObjectTable::function_create. */
  BpFunction *(*kernel_create)(BpModule *module, int32_t device_type, BpKernelCall launch,
                               void *context, void (*destroy)(void *context));
  /* Adds an import to a module; the module retains the import. Errors: BP_ERROR_VALUE for a
   * cycle. */
  int32_t (*import)(BpModule *module, BpModule *imported);
  /* Encodes the common form of a device module's bytes (docs/artifacts.md): the name of the format
   * of the code, the function table, the code.
   * kernels: rows of equal struct_size, which is the host's step. *bytes: owned by the caller.
   * Errors: BP_ERROR_VALUE for a row with a member that the host does not know. */
  int32_t (*encode_device_code)(const char *format, const BpKernelInfo *kernels,
                                int32_t num_kernels, const BpByteArray *code, BpOwnedBytes *bytes);
  /* Decodes the common form of a device module's bytes. Every byte is checked.
   * *format, *code: valid as long as `bytes`. visit: called for each kernel with `context`, in this
   * thread; a value other than 0 ends the decoding, which returns it. Errors: BP_ERROR_FORMAT. */
  int32_t (*decode_device_code)(const BpByteArray *bytes, BpByteArray *format,
                                int32_t (*visit)(void *context, const BpKernelInfo *kernel),
                                void *context, BpByteArray *code);
  /* Compiles C source into a shared library with the system's C compiler, and opens it as a module.
   * The library is kept in the cache. flags: further arguments of the compiler, NULL-terminated.
   * Errors: BP_ERROR_COMPILE. */
  BpModule *(*load_from_c)(const BpByteArray *source, const char *const *flags);
  /* Links a relocatable object file into a shared library, and opens the library as a module. */
  BpModule *(*load_from_object)(const BpByteArray *object);
  /* Finds a function of a module and, if `query_imports` is not 0, of its imports. *function: owned
   * by the caller, retains the module; NULL, without an error, if they have no function of that
   * name. */
  int32_t (*get_function)(BpModule *module, const char *name, int32_t query_imports,
                          BpFunction **function);
  /* Runs a compiler program in a folder of its own and without a shell. If the program exits with
   * status 0 and wrote all outputs, the outputs are kept in the cache, keyed by the program's file,
   * the command and the inputs. *log is empty if the outputs come from the cache.
   * outputs: the contents of num_outputs files; `data` NULL for a file that was not written. *log:
   * the text that the program printed. The caller owns *log and all outputs; each ends in a NUL
   * that its size does not count. Success of the program is determined by the output files, not by
   * the exit status; if a signal ended the program, no output counts as written.
   * Errors: BP_ERROR_COMPILE if the program cannot be run; BP_ERROR_VALUE if `run` has a member
   * that the host does not know. */
  int32_t (*run_compiler)(const BpCompilerRun *run, BpOwnedBytes *outputs, BpOwnedBytes *log);
} BpModuleTable;

/* ---- "target", 1 ------------------------------------------------------------------------- */
#define BP_TABLE_TARGET         "target"
#define BP_TABLE_TARGET_VERSION 1

/* Target kinds, and the attributes of targets. */
typedef struct BpTargetTable {
  uint64_t struct_size;
  /* Registers a target kind.
   * kind: valid for ever; its name is among the descriptor's `targets`.
   * Threads: as BpRegistryTable::set. Errors: BP_ERROR_RUNTIME outside of initialize;
   * BP_ERROR_VALUE for a kind that is not well formed. */
  int32_t (*register_kind)(const BpTargetKind *kind);
  /* Returns the name of a target's kind, static. */
  const char *(*get_kind)(const BpTarget *target);
  /* Reads an attribute.
   * *value: borrowed from the target; None if unset. Errors: BP_ERROR_NOT_FOUND for a name that the
   * kind lacks. */
  int32_t (*get_attr)(const BpTarget *target, const char *name, BpValue *value);
  /* Sets an attribute, during BpTargetKind::complete and on its target; copies the value. */
  int32_t (*set_attr)(BpTarget *target, const char *name, const BpValue *value);
} BpTargetTable;

/* ---- "runtime", 1 ------------------------------------------------------------------------ */
#define BP_TABLE_RUNTIME         "runtime"
#define BP_TABLE_RUNTIME_VERSION 1

/* The group of a parallel task (TVMParallelGroupEnv). */
typedef struct BpParallelGroup {
  void *sync_handle;
  int32_t num_task;
} BpParallelGroup;

/* One task of a parallel launch, on any thread of the pool. Returns 0, or -1 with an error
 * raised. */
typedef int (*BpParallelTask)(int task_id, BpParallelGroup *group, void *data);

/* Host memory, host threads, and the state of the calling thread. */
typedef struct BpRuntimeTable {
  uint64_t struct_size;
  /* Allocates host memory. alignment: a power of two. The caller frees the memory with host_free.
   * Errors: BP_ERROR_MEMORY. */
  void *(*host_alloc)(uint64_t size, uint64_t alignment);
  /* Frees memory of host_alloc. NULL is ignored. */
  void (*host_free)(void *data);
  /* Runs `task` with numbers 0 to num_task - 1 on the host's thread pool, and waits. A launch
   * within a task runs in the calling thread. num_task: 0 for the number of threads. data: passed
   * to each task. Errors: the error of the first task that fails. */
  int32_t (*parallel_launch)(BpParallelTask task, void *data, int32_t num_task);
  /* Waits, in a task, for all tasks of its group.
   * Errors: BP_ERROR_RUNTIME in a group of more tasks than num_threads() or one that was launched
   * in a task, because each task needs a thread; BP_ERROR_RUNTIME also if a task ended without
   * reaching the barrier.
   */
  int32_t (*parallel_barrier)(int32_t task_id, BpParallelGroup *group);
  /* Returns the number of threads of a parallel launch. Never fails. */
  int32_t (*num_threads)(void);
  /* Gives the current device and stream of this thread for a device type. A kernel gets its device
   * and stream in its invocation. Never fails. */
  void (*get_current)(int32_t device_type, int32_t *device_id, void **stream);
  /* Gives the folder for cached files of `subject` ("opencl"), and makes the folder if it is
   * missing. path: at most `size` bytes, with the NUL. Errors: BP_ERROR_IO if no folder exists that
   * only this user can write to; BP_ERROR_VALUE if `size` is too small. */
  int32_t (*get_cache_dir)(const char *subject, char *path, size_t size);
  /* Returns the value of a variable BACKPLANE_*, or NULL, with no error raised, if it is unset or
   * ignored for safety. */
  const char *(*get_option)(const char *name);
  /* Reads from the cache, which keeps data of plugins on disk between processes, such as programs
   * that a driver built. A cache that cannot be used, and a damaged file, count as no data and are
   * logged: the function never fails and does not touch this thread's error.
   * subject: a folder of the cache. key: everything that the data depend on: source, options,
   * versions of compiler and driver, the device. *bytes: owned by the caller, ending in a NUL that
   * the size does not count; `data` NULL if the cache has none. */
  void (*cache_read)(const char *subject, const BpByteArray *key, BpOwnedBytes *bytes);
  /* Writes to the cache, and replaces the data of the key. The least recently used files are
   * removed if a subject takes more than BACKPLANE_CACHE_SIZE. Never fails, like cache_read. */
  void (*cache_write)(const char *subject, const BpByteArray *key, const BpByteArray *bytes);
} BpRuntimeTable;

/* ---- Fetching tables --------------------------------------------------------------------- */

/* The host, which lives for ever. Tables of the compiler library, "ir" (ir_api.h) and "emitter"
 * (emitter_api.h), exist if the application has loaded that library: fetch them when generating
 * code. */
typedef struct BpHost {
  uint64_t struct_size;
  uint32_t abi_version; /* BP_ABI_VERSION of the host */
  uint32_t reserved;    /* zero */
  /* Finds a table.
   * host: the BpHost that contains the slot, so that a host that wraps another one can keep data
   * after its BpHost. Returns the table, valid for ever, or NULL, with no error raised, if the host
   * has no table of that name and version. */
  const void *(*get_table)(const struct BpHost *host, const char *name, uint32_t version);
} BpHost;

#ifdef __cplusplus
}
#endif

#endif
