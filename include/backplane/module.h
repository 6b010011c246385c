/* SPDX-License-Identifier: Apache-2.0 */
/* Modules: loaded code, with imports. Loading a module runs its code: see docs/trust.md. A NULL
 * where none is allowed is an error of kind BP_ERROR_VALUE. */
#ifndef BACKPLANE_MODULE_H
#define BACKPLANE_MODULE_H

#include <backplane/api.h>
#include <backplane/module_api.h>
#include <backplane/object.h>
#include <backplane/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opens a module file (transfer full): a shared library (".so") with exported functions
 * `__tvm_ffi_NAME` (or, compiled by TVM up to 0.19, NAME) and embedded imports, or a file whose
 * extension EXT has a global function `runtime.module.loadfile_EXT`. A shared library is unmapped
 * when its last function or object is freed. */
BP_API BpModule *bp_module_load(const char *path);
/* Drops a reference to a module; the last one frees it. NULL is ignored. Any thread. */
static inline void bp_module_release(BpModule *module) {
  bp_object_release(module);
}

/* Inspects a shared library without loading it (transfer full): the module and its imports have
 * their kinds and list their functions, without signatures; the functions cannot be obtained. No
 * code of the library runs, and the dynamic loader does not read its tables. Loaders read the
 * embedded modules, as when the library is loaded. NULL with an error. Any thread. Since 1.0. */
BP_API BpModule *bp_module_read(const char *path);

/* Makes a module of `kind` from bytes that bp_module_save_to_bytes wrote (transfer full), by the
 * global function `runtime.module.loadbinary_KIND`. */
BP_API BpModule *bp_module_load_from_bytes(const char *kind, const BpByteArray *bytes);

/* Makes a module with a context, for code in this process. See BpModuleTable::create. */
BP_API BpModule *bp_module_create(const BpModuleApi *api, void *context);

/* Returns the context of a module that was made with `api`; NULL, with no error raised, for any
 * other module. */
BP_API void *bp_module_get_context(BpModule *module, const BpModuleApi *api);

/* Makes a function that keeps `module` alive; `call` gets a BpClosure as `self`. In all else like
 * bp_function_create. */
BP_API BpFunction *bp_module_function_create(BpModule *module, BpPackedCall call, void *context,
                                             void (*destroy)(void *context));

/* Makes a kernel of a device module: a function that bp_function_launch (backplane/device.h) runs
 * on the caller's choice of device and stream. See BpModuleTable::kernel_create (transfer full). */
BP_API BpFunction *bp_module_kernel_create(BpModule *module, int32_t device_type,
                                           BpKernelCall launch, void *context,
                                           void (*destroy)(void *context));

/* Returns the kind of a module (borrowed, static); NULL with an error. */
BP_API const char *bp_module_kind(BpModule *module);

/* Finds a function in the module and then, if `query_imports`, in its imports, depth first
 * (transfer full in *function, which keeps the module alive); NULL, without an error, if the module
 * has no function of that name. */
BP_API int bp_module_get_function(BpModule *module, const char *name, int query_imports,
                                  BpFunction **function);

/* Adds an import; the module takes its own reference. A cycle of imports is an error. */
BP_API int bp_module_import(BpModule *module, BpModule *imported);
/* Return the number of imports, and an import (transfer none; NULL with an error if out of
 * range). */
BP_API size_t bp_module_num_imports(BpModule *module);
BP_API BpModule *bp_module_get_import(BpModule *module, size_t index);

/* Returns the BP_MODULE_* flags of a module, 0 if it has none. */
BP_API int32_t bp_module_get_property(BpModule *module);
/* Gives the bytes that the module's loader reads, without its imports. Freed with
 * bp_owned_bytes_clear. The module may share the bytes: the caller does not change them. */
BP_API int bp_module_save_to_bytes(BpModule *module, BpOwnedBytes *bytes);
/* Gives the source in a format ("" for the module's preferred format); an unknown format is an
 * error. */
BP_API int bp_module_get_source(BpModule *module, const char *format, BpOwnedBytes *source);
/* Frees the bytes and sets the structure to 0. NULL is ignored. */
BP_API void bp_owned_bytes_clear(BpOwnedBytes *bytes);
/* Returns the names of the module's own functions, sorted; NULL-terminated, freed with
 * bp_names_free. */
BP_API char **bp_module_list_functions(BpModule *module, size_t *count);

/* Links the module and all its imports into one shared library at `path`, with the system's C
 * compiler (`BACKPLANE_CC`, default "cc"): host code as code, other imports as bytes. `path`
 * ends in ".so". The file appears whole or not at all. */
BP_API int bp_module_export_library(BpModule *module, const char *path);

#ifdef __cplusplus
}
#endif

#endif
