/* SPDX-License-Identifier: Apache-2.0 */
/* Inline helpers for device plugins whose modules are a program, as text or bytes, with a table of
 * kernels: a complete module except for building and launching a kernel. Nothing in this header is
 * part of the ABI: a plugin carries its own copy of the functions.
 *
 *   static const BpModuleApi api = BP_KERNEL_MODULE_API("opencl");
 *   static const BpKernelModuleKind kind = {&host, &device_api, &api, "cl", launch, forget};
 */
#ifndef BACKPLANE_KERNEL_MODULE_H
#define BACKPLANE_KERNEL_MODULE_H

#include <backplane/kernel_helpers.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct BpKernelModule BpKernelModule;

/* One kernel of a module. */
typedef struct BpKernelEntry {
  BpKernel call;
  void *built; /* data of the plugin; NULL at first */
} BpKernelEntry;

/* A plugin's description of its modules; static. */
typedef struct BpKernelModuleKind {
  const BpPluginTables *host;
  const BpDeviceApi *device; /* the device kind that kernels run on */
  const BpModuleApi *api;    /* BP_KERNEL_MODULE_API */
  const char *format;        /* format of the code: "cl", "ptx" */
  /* Launches a kernel, which is built at the first launch. The host has checked the invocation. Any
   * thread, also at once from several; the module lives until it returns. 0, or -1 with an error
   * raised. */
  int32_t (*launch)(BpKernelModule *module, BpKernelEntry *kernel, const BpInvocation *invocation,
                    const BpValue *args, int32_t num_args);
  /* Frees the objects that `prepare` and `launch` stored in `built` of the module and of its
   * kernels. All `built` are NULL if the module is destroyed before `prepare`. Any thread. */
  void (*forget)(BpKernelModule *module);
  /* (optional: nothing) Checks the code of a module, so that errors are found when the module is
   * loaded, and fills `built`. The module is complete except for `self`. 0, or -1 with an error
   * raised; `forget` is called in both cases. */
  int32_t (*prepare)(BpKernelModule *module);
  /* (optional: none) Other formats of the code; ends with NULL. */
  const char *const *other_formats;
  int32_t uses_dynamic_shared_memory; /* (optional: 0) see BpKernel */
} BpKernelModuleKind;

/* A module. */
struct BpKernelModule {
  const BpKernelModuleKind *kind;
  BpModule *self;     /* the host's object, without a reference */
  const char *format; /* format of the code; one of the kind's formats */
  BpByteArray code;   /* ends in a NUL */
  char *source;       /* the source of the code; NULL: unknown, or the code itself is the source */
  BpKernelEntry *kernels;
  int32_t num_kernels;
  void *built; /* data of the plugin; NULL at first */
};

static inline int32_t bp_kernel_module_no_memory_(const BpKernelModule *module) {
  return bp_plugin_raise(module->kind->host, BP_ERROR_MEMORY, "module of kind %s: out of memory",
                         module->kind->api->kind);
}

/* ---- The slots of BpModuleApi ------------------------------------------------------------ */

static inline void bp_kernel_module_destroy_(void *context) {
  BpKernelModule *module = (BpKernelModule *)context;
  module->kind->forget(module);
  for (int32_t i = 0; i < module->num_kernels; i++)
    bp_kernel_clear(&module->kernels[i].call);
  __builtin_free(module->kernels);
  __builtin_free((void *)(uintptr_t)module->code.data);
  __builtin_free(module->source);
  __builtin_free(module);
}

/* The context of a function: the module, which the function keeps alive, and the kernel. */
typedef struct BpKernelCallee_ {
  BpKernelModule *module;
  BpKernelEntry *kernel;
} BpKernelCallee_;

static inline int32_t bp_kernel_module_launch_(void *context, const BpInvocation *invocation,
                                               const BpValue *args, int32_t num_args) {
  const BpKernelCallee_ *callee = (const BpKernelCallee_ *)context;
  const BpKernelModuleKind *kind = callee->module->kind;
  if (bp_plugin_check_flags(kind->host, kind->api->kind, "launch", invocation->flags) != 0)
    return -1;
  return kind->launch(callee->module, callee->kernel, invocation, args, num_args);
}

static inline void bp_kernel_module_free_(void *data) {
  __builtin_free(data);
}

static inline int32_t bp_kernel_module_get_function_(void *context, const char *name,
                                                     BpFunction **function) {
  BpKernelModule *module = (BpKernelModule *)context;
  *function = NULL;
  for (int32_t i = 0; i < module->num_kernels; i++) {
    if (__builtin_strcmp(module->kernels[i].call.name, name) != 0)
      continue;
    BpKernelCallee_ *callee = (BpKernelCallee_ *)__builtin_malloc(sizeof(*callee));
    if (!callee)
      return bp_kernel_module_no_memory_(module);
    callee->module = module;
    callee->kernel = &module->kernels[i];
    *function = module->kind->host->module->kernel_create(
        module->self, module->kind->device->device_type, bp_kernel_module_launch_, callee,
        bp_kernel_module_free_);
    return *function ? 0 : -1;
  }
  return 0;
}

static inline int32_t bp_kernel_module_get_property_(void *context, int32_t *flags) {
  (void)context;
  *flags = BP_MODULE_BINARY_SERIALIZABLE | BP_MODULE_RUNNABLE;
  return 0;
}

static inline int32_t bp_kernel_module_save_(void *context, BpOwnedBytes *bytes) {
  const BpKernelModule *module = (const BpKernelModule *)context;
  typedef const char *Tags[BP_KERNEL_MAX_TAGS];
  size_t count = (size_t)module->num_kernels;
  BpKernelInfo *infos = (BpKernelInfo *)__builtin_calloc(count + 1, sizeof(*infos));
  Tags *tags = (Tags *)__builtin_calloc(count + 1, sizeof(*tags));
  int32_t rc = infos && tags ? 0 : bp_kernel_module_no_memory_(module);
  for (size_t i = 0; rc == 0 && i < count; i++)
    infos[i] = bp_kernel_info(&module->kernels[i].call, tags[i]);
  if (rc == 0)
    rc = module->kind->host->module->encode_device_code(module->format, infos, module->num_kernels,
                                                        &module->code, bytes);
  __builtin_free(infos);
  __builtin_free(tags);
  return rc;
}

/* Answers with a copy of bytes and a NUL after it, for a plugin's own slots. */
static inline int32_t bp_kernel_module_answer_bytes(const BpKernelModule *module, const void *data,
                                                    size_t size, BpOwnedBytes *bytes) {
  bytes->data = (char *)__builtin_malloc(size + 1);
  if (!bytes->data)
    return bp_kernel_module_no_memory_(module);
  __builtin_memcpy(bytes->data, data, size);
  bytes->data[size] = '\0';
  bytes->size = size;
  bytes->free_data = bp_kernel_module_free_;
  return 0;
}

static inline int32_t bp_kernel_module_get_source_(void *context, const char *format,
                                                   BpOwnedBytes *source) {
  const BpKernelModule *module = (const BpKernelModule *)context;
  __builtin_memset(source, 0, sizeof(*source));
  if (format[0] && __builtin_strcmp(format, module->format) != 0)
    return 0;
  return bp_kernel_module_answer_bytes(module, module->code.data, module->code.size, source);
}

static inline int32_t bp_kernel_module_visit_(void *context,
                                              int32_t (*visit)(void *visitor, const char *name,
                                                               const char *signature),
                                              void *visitor) {
  const BpKernelModule *module = (const BpKernelModule *)context;
  int32_t rc = 0;
  for (int32_t i = 0; i < module->num_kernels && rc == 0; i++)
    rc = visit(visitor, module->kernels[i].call.name, NULL);
  return rc < 0 ? -1 : 0;
}

/* The table of a module's functions; `kind` is KIND in the loader's name. BP_KERNEL_MODULE_API_WITH
 * is for a plugin with its own get_source, whose context is the BpKernelModule. */
#define BP_KERNEL_MODULE_API(kind) BP_KERNEL_MODULE_API_WITH(kind, bp_kernel_module_get_source_)
#define BP_KERNEL_MODULE_API_WITH(kind, get_source)                                                \
  {                                                                                                \
    sizeof(BpModuleApi), kind, bp_kernel_module_get_function_, bp_kernel_module_get_property_,     \
        bp_kernel_module_save_, get_source, bp_kernel_module_visit_, bp_kernel_module_destroy_     \
  }

/* ---- Making modules ---------------------------------------------------------------------- */

static inline BpKernelModule *bp_kernel_module_new_(const BpKernelModuleKind *kind) {
  BpKernelModule *module = (BpKernelModule *)__builtin_calloc(1, sizeof(*module));
  if (!module) {
    bp_plugin_raise(kind->host, BP_ERROR_MEMORY, "module of kind %s: out of memory",
                    kind->api->kind);
    return NULL;
  }
  module->kind = kind;
  module->format = kind->format;
  return module;
}

/* Appends a zeroed kernel; NULL with an error. */
static inline BpKernel *bp_kernel_module_append_(BpKernelModule *module) {
  size_t count = (size_t)module->num_kernels;
  BpKernelEntry *grown =
      (BpKernelEntry *)__builtin_realloc(module->kernels, (count + 1) * sizeof(*grown));
  if (!grown) {
    bp_kernel_module_no_memory_(module);
    return NULL;
  }
  module->kernels = grown;
  __builtin_memset(&grown[count], 0, sizeof(*grown));
  grown[count].call.uses_dynamic_shared_memory = module->kind->uses_dynamic_shared_memory;
  module->num_kernels++;
  return &grown[count].call;
}

static inline int32_t bp_kernel_module_add_info_(void *context, const BpKernelInfo *info) {
  BpKernelModule *module = (BpKernelModule *)context;
  BpKernel *kernel = bp_kernel_module_append_(module);
  return kernel ? bp_kernel_from_info(module->kind->host, info, kernel) : -1;
}

/* Stores a copy of the code, with a NUL after it. */
static inline int32_t bp_kernel_module_set_code_(BpKernelModule *module, const BpByteArray *code) {
  char *copy = (char *)__builtin_malloc(code->size + 1);
  if (!copy)
    return bp_kernel_module_no_memory_(module);
  if (code->size)
    __builtin_memcpy(copy, code->data, code->size);
  copy[code->size] = '\0';
  module->code.data = copy;
  module->code.size = code->size;
  return 0;
}

/* Gives the module its code and makes the host's object; if `rc` is not 0, destroys the module. */
static inline BpModule *bp_kernel_module_finish_(BpKernelModule *module, int32_t rc,
                                                 const BpByteArray *code) {
  if (rc == 0)
    rc = bp_kernel_module_set_code_(module, code);
  if (rc == 0 && module->kind->prepare)
    rc = module->kind->prepare(module);
  if (rc != 0) {
    bp_kernel_module_destroy_(module);
    return NULL;
  }
  BpModule *made = module->kind->host->module->create(module->kind->api, module);
  if (made)
    module->self = made;
  return made;
}

/* The compiled form of the kernels of an IR module. */
typedef struct BpKernelCode {
  const char *format; /* one of the kind's formats; static */
  BpByteArray bytes;
  const char *source; /* the source of `bytes`, or NULL */
} BpKernelCode;

/* Makes a module of the kernels of an IR module and of their compiled code, which is copied. NULL
 * with an error. */
static inline BpModule *bp_kernel_module_from_code(const BpKernelModuleKind *kind,
                                                   const BpIrTable *ir, const BpIrModule *functions,
                                                   const BpKernelCode *code) {
  BpKernelModule *module = bp_kernel_module_new_(kind);
  if (!module)
    return NULL;
  module->format = code->format;
  module->source = code->source ? __builtin_strdup(code->source) : NULL;
  int32_t rc = code->source && !module->source ? bp_kernel_module_no_memory_(module) : 0;
  for (int32_t i = 0; rc == 0 && i < ir->num_functions(functions); i++) {
    BpKernel *kernel = bp_kernel_module_append_(module);
    rc = kernel ? bp_kernel_from_function(kind->host, ir, ir->get_function(functions, i), kernel)
                : -1;
  }
  return bp_kernel_module_finish_(module, rc, &code->bytes);
}

/* Makes a module whose code is its own source, in the kind's first format. NULL with an error. */
static inline BpModule *bp_kernel_module_from_ir(const BpKernelModuleKind *kind,
                                                 const BpIrTable *ir, const BpIrModule *functions,
                                                 const BpByteArray *code) {
  BpKernelCode own = {kind->format, *code, NULL};
  return bp_kernel_module_from_code(kind, ir, functions, &own);
}

/* Sets the format of the code to the name in the saved bytes. */
static inline int32_t bp_kernel_module_set_format_(BpKernelModule *module,
                                                   const BpByteArray *name) {
  const BpKernelModuleKind *kind = module->kind;
  const char *const *others = kind->other_formats;
  for (module->format = kind->format; module->format;
       module->format = others && *others ? *others++ : NULL) {
    if (__builtin_strlen(module->format) == name->size &&
        __builtin_memcmp(module->format, name->data, name->size) == 0)
      return 0;
  }
  return bp_plugin_raise(kind->host, BP_ERROR_FORMAT,
                         "module of kind %s: format \"%.*s\", not \"%s\"%s", kind->api->kind,
                         (int)name->size, name->data, kind->format,
                         kind->other_formats ? " or another that it takes" : "");
}

/* Makes a module from saved bytes, which are untrusted and are copied. NULL with an error. */
static inline BpModule *bp_kernel_module_from_bytes(const BpKernelModuleKind *kind,
                                                    const BpByteArray *bytes) {
  BpByteArray format = {NULL, 0}, code = {NULL, 0};
  BpKernelModule *module = bp_kernel_module_new_(kind);
  if (!module)
    return NULL;
  int32_t rc = kind->host->module->decode_device_code(bytes, &format, bp_kernel_module_add_info_,
                                                      module, &code);
  if (rc == 0)
    rc = bp_kernel_module_set_format_(module, &format);
  return bp_kernel_module_finish_(module, rc, &code);
}

/* ---- Registered functions ---------------------------------------------------------------- */

/* Implements the loader `runtime.module.loadbinary_KIND`; its context is the BpKernelModuleKind.
 * Arguments: the bytes and, if they are in a file, their owner. */
static inline int bp_kernel_module_loadbinary(void *self, const BpValue *args, int32_t num_args,
                                              BpValue *result) {
  const BpKernelModuleKind *kind = (const BpKernelModuleKind *)((BpClosure *)self)->context;
  BpByteArray bytes;
  if (num_args != 1 && num_args != 2)
    return bp_plugin_raise(kind->host, BP_ERROR_TYPE,
                           "runtime.module.loadbinary_%s: expected bytes and an owner, "
                           "got %d arguments",
                           kind->api->kind, num_args);
  if (kind->host->object->view_str(&args[0], &bytes) != 0)
    return -1;
  return bp_plugin_answer_module(result, bp_kernel_module_from_bytes(kind, &bytes));
}

/* A code generator: compiles an IR module for a target into a module. NULL with an error. */
typedef BpModule *(*BpKernelBuild)(const BpIrModule *functions, const BpTarget *target);

/* Implements `target.build.KIND`: checks the arguments and answers with the module that `build`
 * makes. */
static inline int bp_kernel_module_build(const BpKernelModuleKind *kind, BpKernelBuild build,
                                         const BpValue *args, int32_t num_args, BpValue *result) {
  if (num_args != 2 || args[0].type_index != BP_TYPE_IR_MODULE ||
      args[1].type_index != BP_TYPE_TARGET)
    return bp_plugin_raise(kind->host, BP_ERROR_TYPE,
                           "target.build.%s: expected an IR module and a target", kind->api->kind);
  return bp_plugin_answer_module(result, build((const BpIrModule *)(const void *)args[0].v_obj,
                                               (const BpTarget *)(const void *)args[1].v_obj));
}

#ifdef __cplusplus
}
#endif

#endif
