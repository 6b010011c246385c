/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of functions that the host gives a plugin.
 *
 * A plugin links against nothing of the host: it fetches each table it needs from BpHost::get_table
 * by name and version. Every table starts with `struct_size` and grows only at its end: a member
 * beyond the `struct_size` found is not there. Functions may be called from any thread, and return
 * 0 or a pointer on success, -1 or NULL with an error raised in this thread, unless stated. */
#ifndef BACKPLANE_HOST_API_H
#define BACKPLANE_HOST_API_H

#include <backplane/error_kinds.h>
#include <backplane/module_api.h>
#include <backplane/target_api.h>
#include <backplane/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether a structure that the other side filled in has `member`, and it is not 0. */
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

/* This thread's error, and what there is to say besides errors. Texts end in a NUL, are UTF-8 and
 * are copied; bp_plugin_raise() and its kin (plugin_helpers.h) format them. */
typedef struct BpErrorTable {
  uint64_t struct_size;
  /* Raises an error of a kind, BP_ERROR_*, in this thread, replacing one that was there. Returns
   * -1, so that `return error->raise(...)` reads well. */
  int32_t (*raise)(const char *kind, const char *message);
  /* Puts "text: " before the message of the error raised in this thread. Returns -1. */
  int32_t (*add_context)(const char *text);
  /* Takes the raised error from this thread: owned by the caller, NULL if there is none. */
  BpError *(*take)(void);
  /* Raises in this thread an error that was taken in any thread, whose reference it takes over.
   * Returns -1; 0 if `error` is NULL. */
  int32_t (*put)(BpError *error);
  /* Hands a message to the application's log callback; dropped when it has none. level:
   * BP_LOG_*. */
  void (*log)(int32_t level, const char *message);
} BpErrorTable;

/* ---- "object", 1 ------------------------------------------------------------------------- */
#define BP_TABLE_OBJECT         "object"
#define BP_TABLE_OBJECT_VERSION 1

/* A function object with a context of its owner's: what BpObjectTable::function_create makes. */
typedef struct BpClosure {
  BpFunction function;
  void *context;
  void (*destroy)(void *context); /* or NULL */
} BpClosure;

/* References, and values that hold objects. */
typedef struct BpObjectTable {
  uint64_t struct_size;
  /* Adds or drops one strong reference. NULL is ignored. */
  void (*retain)(void *object);
  void (*release)(void *object);
  /* Makes a string or byte string value (small ones need no object); copies the data. */
  int32_t (*make_str)(const char *data, size_t size, BpValue *result);
  int32_t (*make_bytes)(const char *data, size_t size, BpValue *result);
  /* Borrows the bytes of any string-like or bytes-like value, valid as long as the value. */
  int32_t (*view_str)(const BpValue *value, BpByteArray *view);
  /* Makes a shape; copies the extents. Owned by the caller. */
  BpShape *(*shape_create)(const int64_t *extents, size_t size);
  /* Makes a function whose `call` gets the BpClosure as `self`. destroy (or NULL) is called with
   * the last reference, and at once if the creation fails. Owned by the caller. */
  BpFunction *(*function_create)(BpPackedCall call, void *context, void (*destroy)(void *context));
} BpObjectTable;

/* ---- "registry", 1 ----------------------------------------------------------------------- */
#define BP_TABLE_REGISTRY         "registry"
#define BP_TABLE_REGISTRY_VERSION 1

/* Functions by name. Names are the extension points: `device_api.X`, `target.build.X`, ... */
typedef struct BpRegistryTable {
  uint64_t struct_size;
  /* Registers a function by name, which the plugin's descriptor says that it provides. Only from
   * within BpPlugin::initialize, in the thread that it runs in; else an error of kind
   * BP_ERROR_RUNTIME. The registry takes a reference of its own. Nobody finds the name before
   * initialize has succeeded. A name that somebody else registered is an error; so is one that the
   * plugin has registered itself, unless `override` is non-zero. */
  int32_t (*set)(const char *name, BpFunction *function, int32_t override);
  /* Finds a function: *function is owned by the caller, NULL when the name is not there, which is
   * no error. May activate the plugin that provides the name; while the calling plugin initialises
   * itself, a name of another inactive plugin raises BP_ERROR_NOT_READY. */
  int32_t (*get)(const char *name, BpFunction **function);
} BpRegistryTable;

/* ---- "module", 1 ------------------------------------------------------------------------- */
#define BP_TABLE_MODULE         "module"
#define BP_TABLE_MODULE_VERSION 1

/* A compiler's command, and the files that it reads and makes. */
typedef struct BpCompilerRun {
  uint64_t struct_size;
  const char *subject;        /* of the cache, see BpRuntimeTable::cache_read */
  const char *const *command; /* the program, found as a shell would, its arguments, NULL */
  const char *const *input_names;
  const BpByteArray *inputs; /* their contents */
  const char *const *output_names;
  int32_t num_inputs;
  int32_t num_outputs;
} BpCompilerRun;

/* Modules: loaded code, and the bytes it is stored as. */
typedef struct BpModuleTable {
  uint64_t struct_size;
  /* Makes a module around `context`; `api` must live for ever. On failure the context is destroyed.
   * Owned by the caller. */
  BpModule *(*create)(const BpModuleApi *api, void *context);
  /* The context of a module whose table is `api`; NULL (no error raised) for any other. */
  void *(*get_context)(BpModule *module, const BpModuleApi *api);
  /* Makes a function that keeps `module` alive; `call` gets a BpClosure as `self`. */
  BpFunction *(*function_create)(BpModule *module, BpPackedCall call, void *context,
                                 void (*destroy)(void *context));
  /* Makes a kernel: a function that keeps `module` alive and calls `launch` with `context`. Called
   * as any function, a kernel is launched on the device and stream that are current in the thread
   * for `device_type`; bp_function_launch (backplane/device.h) names them. The host checks that the
   * device is of `device_type`, that the stream is one of it and that `flags` is 0. destroy as for
   * function_create. Owned by the caller. */
  BpFunction *(*kernel_create)(BpModule *module, int32_t device_type, BpKernelCall launch,
                               void *context, void (*destroy)(void *context));
  /* Adds an import; the module takes a reference. A cycle is an error. */
  int32_t (*import)(BpModule *module, BpModule *imported);
  /* Encodes and decodes the common form of a device module's bytes (see docs/artifacts.md):
   * format name, function table, code. All of `kernels` have one struct_size, by which encode steps
   * through them. decode checks every byte, and calls `visit` for each entry;
   * what it passes is borrowed for the call; `format` and `code` stay valid as long as `bytes`. */
  int32_t (*encode_device_code)(const char *format, const BpKernelInfo *kernels,
                                int32_t num_kernels, const BpByteArray *code, BpOwnedBytes *bytes);
  int32_t (*decode_device_code)(const BpByteArray *bytes, BpByteArray *format,
                                int32_t (*visit)(void *context, const BpKernelInfo *kernel),
                                void *context, BpByteArray *code);
  /* Compiles C source, or links relocatable objects, into a shared library with the system's C
   * compiler, and opens it as a module. `flags` is a NULL-terminated list of further compiler
   * arguments. Cached on disk. Owned by the caller. */
  BpModule *(*load_from_c)(const BpByteArray *source, const char *const *flags);
  BpModule *(*load_from_object)(const BpByteArray *object);
  /* Finds a function of a module, and of its imports if `query_imports`: *function is owned by the
   * caller and keeps the module alive; NULL when there is none of that name, which is no error. */
  int32_t (*get_function)(BpModule *module, const char *name, int32_t query_imports,
                          BpFunction **function);
  /* Runs a compiler that is a program, in a directory of its own and without a shell. outputs[i] is
   * what it made as file i, `data` NULL if nothing; *log what it said. All are owned by the caller,
   * with a NUL behind them that the size does not count. Success is determined by the files, not by
   * the exit status; a program that a signal ended has made none. Where all were made and it ended
   * with status 0 they are kept in the cache, under the program's file, the command and the inputs,
   * and *log is empty when they come from there. A program that cannot be run is an error of kind
   * BP_ERROR_COMPILE. */
  int32_t (*run_compiler)(const BpCompilerRun *run, BpOwnedBytes *outputs, BpOwnedBytes *log);
} BpModuleTable;

/* ---- "target", 1 ------------------------------------------------------------------------- */
#define BP_TABLE_TARGET         "target"
#define BP_TABLE_TARGET_VERSION 1

/* Target kinds, and the attributes of targets. */
typedef struct BpTargetTable {
  uint64_t struct_size;
  /* Registers a kind, which must live for ever and be among the descriptor's `targets`. Only from
   * within BpPlugin::initialize, in the thread that it runs in; else an error of kind
   * BP_ERROR_RUNTIME. */
  int32_t (*register_kind)(const BpTargetKind *kind);
  /* The name of a target's kind; static. */
  const char *(*get_kind)(const BpTarget *target);
  /* Reads an attribute: *value is borrowed from the target; None when unset; a name that the kind
   * lacks is an error. */
  int32_t (*get_attr)(const BpTarget *target, const char *name, BpValue *value);
  /* Sets an attribute, only from within BpTargetKind::complete. Copies. */
  int32_t (*set_attr)(BpTarget *target, const char *name, const BpValue *value);
} BpTargetTable;

/* ---- "runtime", 1 ------------------------------------------------------------------------ */
#define BP_TABLE_RUNTIME         "runtime"
#define BP_TABLE_RUNTIME_VERSION 1

/* What a task of a parallel launch is given (TVMParallelGroupEnv). */
typedef struct BpParallelGroup {
  void *sync_handle;
  int32_t num_task;
} BpParallelGroup;

/* One task of a parallel launch; 0, or -1 with an error raised. Runs on any thread of the pool. */
typedef int (*BpParallelTask)(int task_id, BpParallelGroup *group, void *data);

/* Host memory, host threads, and the state of the calling thread. */
typedef struct BpRuntimeTable {
  uint64_t struct_size;
  /* Host memory. alignment is a power of two. Exhaustion raises BP_ERROR_MEMORY. */
  void *(*host_alloc)(uint64_t size, uint64_t alignment);
  void (*host_free)(void *data);
  /* Runs task(0..num_task-1) on the host's thread pool and waits; num_task 0: as many as there are
   * threads. Fails with the first failing task's error. Within a task it runs inline. */
  int32_t (*parallel_launch)(BpParallelTask task, void *data, int32_t num_task);
  /* Waits, within a task, for all tasks of its group. Each needs a thread of its own, so an error
   * comes in a group of more tasks than num_threads() or one launched within a task; and when a
   * task has ended without reaching the barrier. */
  int32_t (*parallel_barrier)(int32_t task_id, BpParallelGroup *group);
  int32_t (*num_threads)(void);
  /* The device and stream that are current in this thread. A kernel gets them in its invocation. */
  void (*get_current)(int32_t device_type, int32_t *device_id, void **stream);
  /* The directory for cached files of `subject` ("opencl"), made if need be, NUL-terminated into
   * `path`; -1 with an error if there is none that this user alone can write. */
  int32_t (*get_cache_dir)(const char *subject, char *path, size_t size);
  /* The value of a BACKPLANE_* variable, NULL when unset or ignored for safety. */
  const char *(*get_option)(const char *name);
  /* What a plugin keeps on disk between processes, such as programs that a driver built, below the
   * directory of `subject`. `key` is all that the bytes depend on: source, options, versions of
   * compiler and driver, the device. Neither fails nor touches this thread's error: a cache that
   * cannot be used, or a file in it that is damaged, costs time and a warning in the log. Reading
   * gives bytes of the caller's, with a NUL behind them that the size does not count, or `data`
   * NULL if there are none. Writing replaces what was kept; what was not used for longest is
   * removed when a subject takes more than BACKPLANE_CACHE_SIZE. */
  void (*cache_read)(const char *subject, const BpByteArray *key, BpOwnedBytes *bytes);
  void (*cache_write)(const char *subject, const BpByteArray *key, const BpByteArray *bytes);
} BpRuntimeTable;

/* ---- Fetching them ----------------------------------------------------------------------- */

/* Further tables, of the compiler library, are there when the application has loaded it, so they
 * are fetched when code is to be generated: "ir" (ir_api.h), "emitter" (emitter_api.h). */
typedef struct BpHost {
  uint64_t struct_size;
  uint32_t abi_version; /* BP_ABI_VERSION of the host */
  uint32_t reserved;    /* zero */
  /* The table, for ever valid; NULL, with no error raised, if the host has none of that name and
   * version. `host` is the BpHost that the slot was read from: a host that wraps another one keeps
   * what it needs behind its own BpHost. */
  const void *(*get_table)(const struct BpHost *host, const char *name, uint32_t version);
} BpHost;

#ifdef __cplusplus
}
#endif

#endif
