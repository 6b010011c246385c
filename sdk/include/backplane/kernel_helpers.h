/* SPDX-License-Identifier: Apache-2.0 */
/* Inline helpers for device plugins whose modules are tables of kernels: the description of a
 * kernel's call, read from its function in the IR or from a module's bytes; reading the arguments
 * of one call; and the first steps of every code generator. Nothing in this header is part of the
 * ABI: a plugin carries its own copy of the functions.
 *
 * A kernel is called with its arguments and then one integer for each launch tag. */
#ifndef BACKPLANE_KERNEL_HELPERS_H
#define BACKPLANE_KERNEL_HELPERS_H

#include <backplane/emitter_api.h>
#include <backplane/ir_api.h>
#include <backplane/plugin_helpers.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BP_KERNEL_MAX_ARGS 64
#define BP_KERNEL_MAX_TAGS 7
/* The number of the tag for bytes of shared memory that a launch requests, in addition to the
 * shared memory that the code declares. TVM has the tag for CUDA. */
#define BP_KERNEL_TAG_SHARED 6

/* How a kernel is called. A zeroed BpKernel is empty; bp_kernel_clear frees its memory. */
typedef struct BpKernel {
  char *name;
  BpDataType *arg_dtypes; /* BP_DTYPE_HANDLE for a buffer */
  int32_t num_args;
  int32_t num_tags;
  int32_t tags[BP_KERNEL_MAX_TAGS];   /* 0 to 2: blockIdx.x to .z; 3 to 5: threadIdx.x to .z */
  int32_t uses_dynamic_shared_memory; /* set by the plugin: BP_KERNEL_TAG_SHARED is a known tag */
} BpKernel;

/* Returns the name of launch tag 0 to BP_KERNEL_MAX_TAGS - 1; static. */
static inline const char *bp_kernel_tag_name(int32_t tag) {
  static const char *const names[BP_KERNEL_MAX_TAGS] = {"blockIdx.x",
                                                        "blockIdx.y",
                                                        "blockIdx.z",
                                                        "threadIdx.x",
                                                        "threadIdx.y",
                                                        "threadIdx.z",
                                                        "tir.use_dyn_shared_memory"};
  return names[tag];
}

static inline void bp_kernel_clear(BpKernel *kernel) {
  __builtin_free(kernel->name);
  __builtin_free(kernel->arg_dtypes);
  kernel->name = NULL;
  kernel->arg_dtypes = NULL;
}

static inline int32_t bp_kernel_add_tag_(const BpPluginTables *host, BpKernel *kernel,
                                         const char *text) {
  for (int32_t tag = 0; tag < BP_KERNEL_MAX_TAGS; tag++) {
    if (__builtin_strcmp(text, bp_kernel_tag_name(tag)) != 0 ||
        (tag == BP_KERNEL_TAG_SHARED && !kernel->uses_dynamic_shared_memory))
      continue;
    if (kernel->num_tags == BP_KERNEL_MAX_TAGS)
      return bp_plugin_raise(host, BP_ERROR_FORMAT, "kernel %s: more than %d launch tags",
                             kernel->name, BP_KERNEL_MAX_TAGS);
    kernel->tags[kernel->num_tags++] = tag;
    return 0;
  }
  return bp_plugin_raise(host, BP_ERROR_FORMAT, "kernel %s: unknown launch tag \"%s\"",
                         kernel->name, text);
}

/* Sets the name and makes room for the types of the arguments. */
static inline int32_t bp_kernel_begin_(const BpPluginTables *host, BpKernel *kernel,
                                       const char *name, int32_t num_args) {
  if (num_args > BP_KERNEL_MAX_ARGS)
    return bp_plugin_raise(host, BP_ERROR_NOT_IMPLEMENTED,
                           "kernel %s has %d arguments; %d are the most", name, num_args,
                           BP_KERNEL_MAX_ARGS);
  kernel->num_args = num_args;
  kernel->name = __builtin_strdup(name);
  kernel->arg_dtypes =
      (BpDataType *)__builtin_calloc((size_t)num_args + 1, sizeof(*kernel->arg_dtypes));
  if (kernel->name && kernel->arg_dtypes)
    return 0;
  return bp_plugin_raise(host, BP_ERROR_MEMORY, "kernel %s: out of memory", name);
}

/* Fills a kernel from an entry of a module's bytes. The kernel is zeroed before, except for
 * uses_dynamic_shared_memory. The caller clears the kernel, also after a failure. */
static inline int32_t bp_kernel_from_info(const BpPluginTables *host, const BpKernelInfo *info,
                                          BpKernel *kernel) {
  if (bp_kernel_begin_(host, kernel, info->name, info->num_args) != 0)
    return -1;
  for (int32_t i = 0; i < info->num_args; i++)
    kernel->arg_dtypes[i] = info->arg_dtypes[i];
  for (int32_t i = 0; i < info->num_launch_tags; i++) {
    if (bp_kernel_add_tag_(host, kernel, info->launch_tags[i]) != 0)
      return -1;
  }
  return 0;
}

/* Fills a kernel from an IR function. The kernel is zeroed before, except for
 * uses_dynamic_shared_memory. The caller clears the kernel, also after a failure. */
static inline int32_t bp_kernel_from_function(const BpPluginTables *host, const BpIrTable *ir,
                                              const BpIrNode *function, BpKernel *kernel) {
  BpDataType handle = {BP_DTYPE_HANDLE, 64, 1};
  int32_t num_args = (int32_t)ir->int_value(function);
  if (bp_kernel_begin_(host, kernel, ir->str_value(function), num_args) != 0)
    return -1;
  for (int32_t i = 0; i < num_args; i++) {
    const BpIrNode *param = ir->operand(function, i);
    kernel->arg_dtypes[i] = ir->kind(param) == BP_IR_BUFFER ? handle : ir->dtype(param);
  }
  for (int32_t i = num_args; i < ir->num_operands(function); i++) {
    const BpIrNode *attr = ir->operand(function, i);
    if (ir->kind(attr) == BP_IR_ATTR &&
        __builtin_strcmp(ir->str_value(attr), BP_IR_ATTR_LAUNCH) == 0 &&
        bp_kernel_add_tag_(host, kernel, ir->str_value(ir->operand(attr, 0))) != 0)
      return -1;
  }
  return 0;
}

/* Returns the kernel as an entry of a module's bytes, borrowed from the kernel; `tags` is memory
 * for the names of its tags. */
static inline BpKernelInfo bp_kernel_info(const BpKernel *kernel,
                                          const char *tags[BP_KERNEL_MAX_TAGS]) {
  BpKernelInfo info = {sizeof(info),     kernel->name,     kernel->arg_dtypes,
                       kernel->num_args, kernel->num_tags, tags};
  for (int32_t i = 0; i < kernel->num_tags; i++)
    tags[i] = bp_kernel_tag_name(kernel->tags[i]);
  return info;
}

/* ---- Calls ------------------------------------------------------------------------------- */

static inline int32_t bp_kernel_check_count(const BpPluginTables *host, const BpKernel *kernel,
                                            int32_t num_args) {
  if (num_args == kernel->num_args + kernel->num_tags)
    return 0;
  return bp_plugin_raise(host, BP_ERROR_TYPE,
                         "%s: expected %d arguments and %d launch sizes, got %d", kernel->name,
                         kernel->num_args, kernel->num_tags, num_args);
}

/* Computes the blocks along x, y and z, and the threads of a block; 1 for an axis without a tag, or
 * with a size of 0. Checks that all sizes are integers of at least 0. */
static inline int32_t bp_kernel_get_launch(const BpPluginTables *host, const BpKernel *kernel,
                                           const BpValue *args, uint64_t blocks[3],
                                           uint64_t threads[3]) {
  for (int i = 0; i < 3; i++)
    blocks[i] = threads[i] = 1;
  for (int32_t i = 0; i < kernel->num_tags; i++) {
    const BpValue *size = &args[kernel->num_args + i];
    if (size->type_index != BP_TYPE_INT || size->v_int64 < 0)
      return bp_plugin_raise(host, BP_ERROR_VALUE,
                             "%s: launch size %d (%s): expected an integer of at least 0",
                             kernel->name, i, bp_kernel_tag_name(kernel->tags[i]));
    int32_t tag = kernel->tags[i];
    if (tag != BP_KERNEL_TAG_SHARED)
      *(tag < 3 ? &blocks[tag] : &threads[tag - 3]) = size->v_int64 ? (uint64_t)size->v_int64 : 1;
  }
  return 0;
}

/* Returns the bytes of shared memory that a launch requests; 0: none. The caller has checked the
 * sizes. */
static inline uint64_t bp_kernel_get_shared(const BpKernel *kernel, const BpValue *args) {
  uint64_t bytes = 0;
  for (int32_t i = 0; i < kernel->num_tags; i++)
    bytes = kernel->tags[i] == BP_KERNEL_TAG_SHARED ? (uint64_t)args[kernel->num_args + i].v_int64
                                                    : bytes;
  return bytes;
}

/* The largest launch of a device, along x, y and z. */
typedef struct BpKernelLimits {
  int64_t blocks[3];
  int64_t threads[3];
  int64_t block_threads; /* all threads of a block */
} BpKernelLimits;

static inline int32_t bp_kernel_check_limits(const BpPluginTables *host, const BpKernel *kernel,
                                             const BpKernelLimits *most, const uint64_t blocks[3],
                                             const uint64_t threads[3]) {
  uint64_t left = (uint64_t)most->block_threads;
  for (int i = 0; i < 3; i++) {
    if (blocks[i] > (uint64_t)most->blocks[i] || threads[i] > (uint64_t)most->threads[i])
      return bp_plugin_raise(
          host, BP_ERROR_VALUE,
          "%s: %llu blocks of %llu threads along %c; the device takes at most %lld of %lld",
          kernel->name, (unsigned long long)blocks[i], (unsigned long long)threads[i], 'x' + i,
          (long long)most->blocks[i], (long long)most->threads[i]);
    left /= threads[i];
  }
  if (left > 0)
    return 0;
  return bp_plugin_raise(host, BP_ERROR_VALUE,
                         "%s: %llu x %llu x %llu threads in a block; the device takes at most %lld",
                         kernel->name, (unsigned long long)threads[0],
                         (unsigned long long)threads[1], (unsigned long long)threads[2],
                         (long long)most->block_threads);
}

static inline int32_t bp_kernel_bad_argument(const BpPluginTables *host, const BpKernel *kernel,
                                             int32_t i, const char *expected, int32_t type) {
  return bp_plugin_raise(host, BP_ERROR_TYPE,
                         "%s: argument %d: expected %s, got a value of type %d", kernel->name, i,
                         expected, type);
}

static inline int bp_kernel_fits_(int64_t value, BpDataType dtype) {
  if (dtype.code == BP_DTYPE_BOOL || dtype.bits >= 64 || dtype.bits == 0)
    return dtype.bits != 0;
  int64_t half = (int64_t)1 << (dtype.bits - 1);
  int64_t lowest = dtype.code == BP_DTYPE_INT ? -half : 0;
  return value >= lowest && value <= lowest + (half - 1) + half;
}

/* Converts a scalar to the device's form: little-endian, in the whole bytes of dtype.bits. An
 * integer fits the type of the argument. */
static inline int32_t bp_kernel_get_scalar(const BpPluginTables *host, const BpKernel *kernel,
                                           int32_t i, const BpValue *arg, BpDataType dtype,
                                           char bytes[8]) {
  int is_number = arg->type_index >= BP_TYPE_INT && arg->type_index <= BP_TYPE_FLOAT;
  int is_real = dtype.code == BP_DTYPE_FLOAT && dtype.bits >= 32;
  if ((!is_real && dtype.code != BP_DTYPE_INT && dtype.code != BP_DTYPE_UINT &&
       dtype.code != BP_DTYPE_BOOL) ||
      dtype.bits > 64 || dtype.lanes != 1)
    return bp_kernel_bad_argument(host, kernel, i, "a scalar of a type that the device takes",
                                  arg->type_index);
  if (is_real && is_number) {
    double value = arg->type_index == BP_TYPE_FLOAT ? arg->v_float64 : (double)arg->v_int64;
    float narrow = (float)value;
    __builtin_memcpy(bytes, dtype.bits == 32 ? (void *)&narrow : (void *)&value, dtype.bits / 8);
    return 0;
  }
  if (!is_number || arg->type_index == BP_TYPE_FLOAT)
    return bp_kernel_bad_argument(host, kernel, i, is_real ? "a number" : "an integer",
                                  arg->type_index);
  if (!bp_kernel_fits_(arg->v_int64, kernel->arg_dtypes[i]))
    return bp_plugin_raise(host, BP_ERROR_VALUE, "%s: argument %d: %lld is no integer of %d bits",
                           kernel->name, i, (long long)arg->v_int64, kernel->arg_dtypes[i].bits);
  int64_t number = dtype.code == BP_DTYPE_BOOL ? arg->v_int64 != 0 : arg->v_int64;
  __builtin_memcpy(bytes, &number, (dtype.bits + 7u) / 8);
  return 0;
}

/* A buffer argument: a handle without bounds, or a tensor. */
typedef struct BpKernelBuffer {
  void *data;
  uint64_t offset;
  uint64_t size; /* bytes of the tensor, at most UINT64_MAX; 0 for a handle alone */
} BpKernelBuffer;

/* The device of a launch. */
typedef struct BpKernelPlace {
  const BpDeviceApi *api;
  int32_t device_id;
} BpKernelPlace;

/* At most UINT64_MAX. */
static inline uint64_t bp_kernel_count_elements_(const BpTensorView *view) {
  uint64_t count = 1;
  for (int32_t k = 0; k < view->ndim; k++)
    if (__builtin_mul_overflow(count, (uint64_t)view->shape[k], &count))
      count = UINT64_MAX;
  return count;
}

static inline int32_t bp_kernel_get_view_(const BpPluginTables *host, const BpKernel *kernel,
                                          BpKernelPlace place, int32_t i, const BpTensorView *view,
                                          BpKernelBuffer *buffer) {
  if (view->device.device_type != place.api->device_type ||
      view->device.device_id != place.device_id)
    return bp_plugin_raise(
        host, BP_ERROR_VALUE,
        "%s: argument %d: expected a tensor on %s:%d, got one of device type %d, index %d",
        kernel->name, i, place.api->name, place.device_id, view->device.device_type,
        view->device.device_id);
  buffer->data = view->data;
  buffer->offset = view->byte_offset;
  uint64_t count = bp_kernel_count_elements_(view);
  if (bp_dtype_array_bytes(view->dtype, count, &buffer->size) != 0)
    buffer->size = UINT64_MAX;
  uint64_t compact = 1; /* wraps around only if the size is UINT64_MAX */
  for (int32_t k = view->ndim - 1; k >= 0 && view->strides && count; k--) {
    if (view->shape[k] != 1 && (uint64_t)view->strides[k] != compact)
      return bp_plugin_raise(host, BP_ERROR_VALUE,
                             "%s: argument %d: a kernel takes compact tensors; copy this one first",
                             kernel->name, i);
    compact *= (uint64_t)view->shape[k];
  }
  return 0;
}

/* Reads a buffer argument. A tensor must be on the device of the launch. */
static inline int32_t bp_kernel_get_buffer(const BpPluginTables *host, const BpKernel *kernel,
                                           BpKernelPlace place, int32_t i, const BpValue *arg,
                                           BpKernelBuffer *buffer) {
  switch (arg->type_index) {
  case BP_TYPE_POINTER:
    buffer->data = arg->v_ptr;
    buffer->offset = buffer->size = 0;
    return 0;
  case BP_TYPE_TENSOR_VIEW:
    return bp_kernel_get_view_(host, kernel, place, i, arg->v_view, buffer);
  case BP_TYPE_TENSOR:
    return bp_kernel_get_view_(host, kernel, place, i, &((BpTensor *)(void *)arg->v_obj)->view,
                               buffer);
  default:
    return bp_kernel_bad_argument(host, kernel, i, "a buffer", arg->type_index);
  }
}

/* ---- Code generators --------------------------------------------------------------------- */

/* The compiler's tables. */
typedef struct BpCompilerTables {
  const BpIrTable *ir;
  const BpEmitterTable *emitter;
} BpCompilerTables;

/* Fetches the compiler's tables for the target kind `kind`. The tables exist only if the
 * application has loaded the compiler, so a plugin fetches them when it generates code. */
static inline int32_t bp_kernel_fetch_compiler(const BpPluginTables *host, const char *kind,
                                               BpCompilerTables *tables) {
  tables->ir =
      (const BpIrTable *)host->host->get_table(host->host, BP_TABLE_IR, BP_TABLE_IR_VERSION);
  tables->emitter = (const BpEmitterTable *)host->host->get_table(host->host, BP_TABLE_EMITTER,
                                                                  BP_TABLE_EMITTER_VERSION);
  if (tables->ir && tables->emitter)
    return 0;
  return bp_plugin_raise(host, BP_ERROR_NOT_FOUND, "target %s: the compiler library is not loaded",
                         kind);
}

/* Copies a built-in dialect, so that the plugin can change the copy. Members that the host's
 * dialect lacks are zero; members and flags that these headers lack are omitted. */
static inline int32_t bp_kernel_copy_dialect(const BpEmitterTable *emitter, const char *name,
                                             BpDialect *copy) {
  const BpDialect *dialect = emitter->get_dialect(name);
  if (!dialect)
    return -1;
  size_t size = dialect->struct_size < sizeof(*copy) ? dialect->struct_size : sizeof(*copy);
  __builtin_memset(copy, 0, sizeof(*copy));
  __builtin_memcpy(copy, dialect, size);
  copy->struct_size = sizeof(*copy);
  copy->flags &= BP_DIALECT_KNOWN_FLAGS;
  return 0;
}

/* Sum of the shared arrays of a function; INT64_MAX if a size is not a constant. */
typedef struct BpKernelShared_ {
  const BpIrTable *ir;
  int64_t bytes;
} BpKernelShared_;

static inline int32_t bp_kernel_add_shared_(void *context, const BpIrNode *node) {
  BpKernelShared_ *shared = (BpKernelShared_ *)context;
  const BpIrTable *ir = shared->ir;
  const BpIrNode *buffer = ir->kind(node) == BP_IR_ALLOCATE ? ir->operand(node, 0) : NULL;
  if (!buffer || ir->int_value(buffer) != BP_IR_SCOPE_SHARED)
    return 0;
  BpDataType dtype = ir->dtype(buffer);
  int64_t bytes = (dtype.bits + 7) / 8 * dtype.lanes;
  for (int32_t i = 0; i < ir->num_operands(buffer); i++)
    if (__builtin_mul_overflow(bytes, ir->int_value(ir->operand(buffer, i)), &bytes))
      bytes = INT64_MAX;
  if (__builtin_add_overflow(shared->bytes, bytes, &shared->bytes))
    shared->bytes = INT64_MAX;
  return 0;
}

/* Refuses functions whose shared arrays exceed `most` bytes in total. */
static inline int32_t bp_kernel_check_shared(const BpPluginTables *host, const char *kind,
                                             const BpIrTable *ir, const BpIrModule *module,
                                             int64_t most) {
  for (int32_t i = 0; i < ir->num_functions(module); i++) {
    const BpIrNode *function = ir->get_function(module, i);
    BpKernelShared_ shared = {ir, 0};
    const BpIrVisitor visitor = {sizeof(visitor), &shared, bp_kernel_add_shared_, NULL};
    ir->visit(function, &visitor);
    if (shared.bytes > most)
      return bp_plugin_raise(host, BP_ERROR_NOT_IMPLEMENTED,
                             "target %s: %s shares %lld bytes in a block, where %lld are", kind,
                             ir->str_value(function), (long long)shared.bytes, (long long)most);
  }
  return 0;
}

#ifdef __cplusplus
}
#endif

#endif
