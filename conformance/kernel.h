/* SPDX-License-Identifier: Apache-2.0 */
/* For the conformance kit: code built for the plugin's target, its arguments and its calls. */
#ifndef BACKPLANE_CONFORMANCE_KERNEL_H
#define BACKPLANE_CONFORMANCE_KERNEL_H

#include "conformance/kit.h"

/* Finds the target to check: --target, else the device's own, else the plugin's first. The target's
 * code runs on kit->target_device, which is opened if it belongs to the plugin. bp__kit_absent if
 * there is no target. */
void bp__kit_open_target(Kit *kit);
/* Whether the target's functions run on the host's processor and memory. Only functions of such a
 * target may call packed functions, take strings and addresses, assert, and allocate global
 * memory. */
gboolean bp__kit_runs_on_host(const Kit *kit);
/* Whether the target has thread axes: then a function is launched over a grid; otherwise it has
 * loops. */
gboolean bp__kit_has_threads(const Kit *kit);
/* Returns the number of threads of a block if `wanted` threads, a power of two, are useful:
 * `wanted`, or the largest power of two that the target's max_num_threads allows. */
int64_t bp__kit_block(const Kit *kit, int64_t wanted);

/* Code built for the target. */
typedef struct KitCode {
  BpIrModule *ir;    /* the verified module, before legalisation */
  BpIrModule *legal; /* the legalised module: a kernel states its launch */
  BpModule *module;
} KitCode;

/* Builds code from the text of IR; the check fails if the target refuses the code. */
KitCode bp__kit_build(const Kit *kit, const char *text);
/* Builds code from the text of IR; if the target refuses it, returns NULL code with the error
 * raised. */
KitCode bp__kit_try_build(const Kit *kit, const char *text);
void bp__kit_code_clear(KitCode *code);
/* Finds a function of a module (transfer full); the check fails if it is missing. */
BpFunction *bp__kit_function(BpModule *module, const char *name);

/* ---- Arguments --------------------------------------------------------------------------- */

#define KIT_MOST_ARGS 64

/* Memory of the target's device, as a tensor of one dimension. No function may write the guard
 * bytes after the tensor: set writes them, and get fails the check if they have changed. */
typedef struct KitBuffer {
  void *handle;
  uint64_t bytes; /* bytes of the tensor, without the guard */
  int64_t extent;
  BpTensorView view;
  gboolean is_set;
} KitBuffer;

void bp__kit_buffer_create(const Kit *kit, KitBuffer *buffer, BpDataType dtype, int64_t extent);
void bp__kit_buffer_free(const Kit *kit, KitBuffer *buffer);
/* Copy all bytes of a buffer, on a stream of the target's device; get waits. */
void bp__kit_buffer_set(const Kit *kit, KitBuffer *buffer, const void *data, void *stream);
void bp__kit_buffer_get(const Kit *kit, const KitBuffer *buffer, void *data, void *stream);
BpValue bp__kit_buffer_value(KitBuffer *buffer);

/* The arguments of a call: the function's own, then one for each launch tag. */
typedef struct KitArgs {
  BpValue values[KIT_MOST_ARGS + 6];
  int32_t count;
} KitArgs;

void bp__kit_args_add(KitArgs *args, BpValue value);
void bp__kit_args_add_int(KitArgs *args, int64_t value);
/* Adds the launch sizes of a kernel of the code; none if functions run on the host. An extent that
 * depends on scalars has the value `varying`. */
void bp__kit_args_add_launch(KitArgs *args, const KitCode *code, const char *name, int64_t varying);

/* Calls a function on the current stream, and waits. The check fails on an error. */
void bp__kit_call(const Kit *kit, BpFunction *function, const KitArgs *args, void *stream);
/* Calls a function on the current stream without waiting. Returns 0 or -1. */
int bp__kit_launch(BpFunction *function, const KitArgs *args);

/* Runs the function `name` of a text, with one int32 buffer of `extent` elements that are initially
 * -1, on the device and in the interpreter; the results must agree. */
void bp__kit_expect_agrees(const Kit *kit, const char *text, const char *name, int64_t extent);

#endif
