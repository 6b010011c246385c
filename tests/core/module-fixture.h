/* SPDX-License-Identifier: Apache-2.0 */
/* Modules made for tests: some with bytes of their own, some of host code. */
#ifndef BACKPLANE_TESTS_CORE_MODULE_FIXTURE_H
#define BACKPLANE_TESTS_CORE_MODULE_FIXTURE_H

#include <backplane/host_api.h>
#include <backplane/module.h>

/* Host code as a code generator writes it: with the ABI's types written out, and a slot for each
 * host function that it calls. This code has the functions "add" and "fail". */
#define ADD_SOURCE                                                                                 \
  "typedef struct { int type; unsigned pad; long long v; } Any;\n"                                 \
  "__attribute__((weak)) void (*__TVMFFIErrorSetRaisedFromCStr)(const char *, const char *);\n"    \
  "int __tvm_ffi_add(void *self, const Any *args, int n, Any *result) {\n"                         \
  "  result->type = 1; result->v = args[0].v + args[1].v; return 0;\n"                             \
  "}\n"                                                                                            \
  "int __tvm_ffi_fail(void *self, const Any *args, int n, Any *result) {\n"                        \
  "  __TVMFFIErrorSetRaisedFromCStr(\"OddError\", \"it is odd\"); return -1;\n"                    \
  "}\n"
/* "call_size" calls "size", which is in the library's imports or the registry. */
#define CALL_SOURCE                                                                                \
  "typedef struct { int type; unsigned pad; long long v; } Any;\n"                                 \
  "__attribute__((weak)) int (*__TVMFFIEnvModLookupFromImports)(void *, const char *, void **);\n" \
  "__attribute__((weak)) int (*__TVMFFIFunctionCall)(void *, Any *, int, Any *);\n"                \
  "__attribute__((weak)) int (*__TVMFFIHandleInitOnce)(void **, int (*)(void **));\n"              \
  "__attribute__((weak)) void *__tvm_ffi__library_ctx;\n"                                          \
  "static void *size_function;\n"                                                                  \
  "static int find_size(void **result) {\n"                                                        \
  "  return __TVMFFIEnvModLookupFromImports(__tvm_ffi__library_ctx, \"size\", result);\n"          \
  "}\n"                                                                                            \
  "int __tvm_ffi_call_size(void *self, const Any *args, int n, Any *result) {\n"                   \
  "  if (__TVMFFIHandleInitOnce(&size_function, find_size)) return -1;\n"                          \
  "  return __TVMFFIFunctionCall(size_function, 0, 0, result);\n"                                  \
  "}\n"

/* Registers the loaders, and fetches the host's tables as a plugin would. */
void fixture_begin(void);
const BpModuleTable *module_table(void);

/* Makes a serialisable module of kind "test_dev" or "test_other" with a payload (copied). The
 * module's function "size" ("other_size") returns the number of bytes of the payload. */
BpModule *fake_module(const char *kind, const char *payload);
/* Counts the existing modules of these kinds. */
int fake_modules_alive(void);
/* Whether the last module that was loaded from bytes of a library uses the bytes in place, aligned
 * to 64 bytes. */
int fake_bytes_are_in_place(void);

/* Makes a module of host code with C source and compiler arguments (borrowed; either may be
 * NULL). */
BpModule *fake_host_module(const char *source, const char *flags);

/* Export a library of CALL_SOURCE that imports two modules, one of them "test_dev" with 100003
 * bytes; and a library with a small blob. */
void export_with_imports(const char *path);
void export_small(const char *path);

/* Registers a global function "size". */
void register_size(int64_t size);

/* Returns a new path in the folder of temporary files (transfer full). */
char *temporary_path(const char *name);
void remove_tree(const char *path);

#endif
