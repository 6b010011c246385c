/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the conformance kit: code built for the plugin's target, its arguments, its calls. */
#ifndef BACKPLANE_CONFORMANCE_KERNEL_H
#define BACKPLANE_CONFORMANCE_KERNEL_H

#include "conformance/kit.h"

/* Finds the target that is checked: --target, else the device's own, else the plugin's first. Where
 * its code runs is kit->target_device, which is opened if it is the plugin's. bp__kit_absent if
 * there is none. */
void bp__kit_open_target(Kit *kit);
/* Whether the target's functions run on the host's processor, on the host's memory. They alone call
 * packed functions, take strings and addresses, assert, and allocate global memory. */
gboolean bp__kit_runs_on_host(const Kit *kit);
/* Whether the target has thread axes: then a function is launched over a grid, and else it loops.
 */
gboolean bp__kit_has_threads(const Kit *kit);
/* How many threads a block has where `wanted` of them, a power of two, are of use: as many, or the
 * largest power of two that the target's max_num_threads allows. */
int64_t bp__kit_block(const Kit *kit, int64_t wanted);

/* Code for the target. */
typedef struct KitCode {
  BpIrModule *ir;    /* as written, and verified */
  BpIrModule *legal; /* as the generator got it: there a kernel states its launch */
  BpModule *module;
} KitCode;

/* Builds code from IR as text; the check fails if the target refuses it. */
KitCode bp__kit_build(const Kit *kit, const char *text);
/* The same, NULL code with the error raised if it is refused. */
KitCode bp__kit_try_build(const Kit *kit, const char *text);
void bp__kit_code_clear(KitCode *code);
/* A function of a module (transfer full); the check fails if it is not there. */
BpFunction *bp__kit_function(BpModule *module, const char *name);

/* ---- Arguments --------------------------------------------------------------------------- */

#define KIT_MOST_ARGS 64

/* Memory of the target's device, as a tensor of one dimension. Behind the tensor are bytes that no
 * function may write: set writes them, and get fails the check if they have changed. */
typedef struct KitBuffer {
  void *handle;
  uint64_t bytes; /* of the tensor */
  int64_t extent;
  BpTensorView view;
  gboolean is_set;
} KitBuffer;

void bp__kit_buffer_create(const Kit *kit, KitBuffer *buffer, BpDataType dtype, int64_t extent);
void bp__kit_buffer_free(const Kit *kit, KitBuffer *buffer);
/* All of its bytes, on a stream of the target's device; get waits. */
void bp__kit_buffer_set(const Kit *kit, KitBuffer *buffer, const void *data, void *stream);
void bp__kit_buffer_get(const Kit *kit, const KitBuffer *buffer, void *data, void *stream);
BpValue bp__kit_buffer_value(KitBuffer *buffer);

/* The arguments of a call: the function's own and then one for each launch tag. */
typedef struct KitArgs {
  BpValue values[KIT_MOST_ARGS + 6];
  int32_t count;
} KitArgs;

void bp__kit_args_add(KitArgs *args, BpValue value);
void bp__kit_args_add_int(KitArgs *args, int64_t value);
/* The launch of a kernel of the code; none where functions run on the host. An extent that depends
 * on scalars has the value `varying`. */
void bp__kit_args_add_launch(KitArgs *args, const KitCode *code, const char *name, int64_t varying);

/* Calls a function on the stream that is current, and waits. The check fails on an error. */
void bp__kit_call(const Kit *kit, BpFunction *function, const KitArgs *args, void *stream);
/* The same without waiting. 0 or -1. */
int bp__kit_launch(BpFunction *function, const KitArgs *args);

/* Runs the function `name` of a text, of one int32 buffer of `extent` elements that are at first
 * -1, on the device and in the interpreter, which must agree. */
void bp__kit_expect_agrees(const Kit *kit, const char *text, const char *name, int64_t extent);

#endif
