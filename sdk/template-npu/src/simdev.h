/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the plugin simdev: what its files offer one another.
 *
 * The device computes on int8 alone and has no compiler for loops, so the plugin claims operators
 * of models and compiles parts of models (backplane/graph_compiler.h). The chip is simulated by a
 * process of its own, in which an address of the host means nothing. To drive another chip replace
 * link.c by calls of its driver, chip.h by its instruction set, and with these compile.c. */
#ifndef SIMDEV_H
#define SIMDEV_H

#include <backplane/device_api.h>
#include <backplane/graph_compiler.h>
#include <backplane/part_module.h>
#include <backplane/plugin_helpers.h>
#include <pthread.h>

#include "chip.h"

/* A number of the private range, for experiments: two vendors may have the same. Before anything
 * is published ask for one of your own; device-types.txt of the SDK says how. */
#define SIMDEV_DEVICE_TYPE 61440

/* The host's tables, set by the entry point; the table that the host gets. */
extern BpPluginTables simdev_host;
extern const BpDeviceApi simdev_device_api;

/* ---- link.c ------------------------------------------------------------------------------ */

/* Why the chip cannot be used; NULL: it can. Starts nothing. */
const char *simdev_link_problem(void);
/* Whether the chip was there and is there no more. */
int simdev_link_is_lost(void);
/* Each returns when the chip has done the work: 0, or -1 with an error raised. The first call
 * starts the chip. Addresses and sizes are multiples of a line. The caller holds simdev_lock. */
int32_t simdev_link_write(int32_t address, const void *from, int32_t size);
int32_t simdev_link_read(int32_t address, void *to, int32_t size);
/* Runs instructions that lie in the chip's memory. */
int32_t simdev_link_run(int32_t address, int32_t num_instructions, const ChipRegion *regions,
                        int32_t num_regions);

/* ---- memory.c ---------------------------------------------------------------------------- */

/* Held during each use of the chip and of its memory's table. */
extern pthread_mutex_t simdev_lock;

int32_t simdev_alloc(void *context, int32_t device_id, const BpAllocation *allocation,
                     void **handle);
int32_t simdev_free(void *context, int32_t device_id, void *handle);
int32_t simdev_copy(void *context, const BpCopy *copy, void *stream);
/* Where `size` bytes from `offset` on of a buffer are in the chip's memory; -1 with an error if
 * there is no such buffer, or the bytes do not lie within it. With simdev_lock held. */
int32_t simdev_find(const void *handle, uint64_t offset, uint64_t size);
/* Memory of the plugin's own: its address, or -1 with an error. With simdev_lock held. */
int32_t simdev_reserve(int64_t size);
void simdev_release(int32_t address);
int64_t simdev_memory_in_use(void);

/* ---- claim.c ----------------------------------------------------------------------------- */

/* An operator that the chip has, as compile.c needs it. Values are numbers of the graph. */
typedef struct SimdevStep {
  int32_t kind; /* CHIP_CONV or CHIP_POOL */
  int32_t input, output;
  int32_t weights, bias; /* CONV: values; -1: no bias */
  int32_t is_product;    /* CONV of a matrix: weights are [input channel][output channel] */
  int32_t kernel[2], strides[2], dilations[2], pads[2];
  int32_t in_zero, out_zero;
  const float *scales; /* CONV: of the weights, 1 or one for each output channel */
  int32_t num_scales;
  float in_scale, out_scale;
} SimdevStep;

/* A tensor as the chip has it: a matrix is an image of one column whose channels are its columns.
 */
typedef struct SimdevImage {
  int32_t batch, height, width, channels;
} SimdevImage;

/* Why the chip does not have the operator of a node, a static text; NULL, and *step says what it
 * does. */
const char *simdev_read_node(const BpGraphTable *table, const BpOnnxGraph *graph,
                             const BpOnnxNode *node, SimdevStep *step);
SimdevImage simdev_image(const BpOnnxValue *value);
int32_t simdev_claim(void *context, const BpOnnxGraph *graph, const BpTarget *target,
                     BpClaims *claims);

/* ---- compile.c --------------------------------------------------------------------------- */

/* How a step uses the scratchpad: so many rows at once, and of a convolution's output channels. */
typedef struct SimdevTiling {
  int32_t rows, channels;
  int32_t weights, output; /* bytes of the scratchpad; the input is at 0 */
} SimdevTiling;

/* 0, or -1: not even one row fits. Raises nothing. */
int32_t simdev_tile(const SimdevStep *step, SimdevImage in, SimdevImage out, SimdevTiling *tiling);
int32_t simdev_compile(void *context, const BpOnnxGraph *part, const BpTarget *target,
                       const char *function, BpModule **module);

/* ---- module.c ---------------------------------------------------------------------------- */

/* What a module is saved as: this, its arguments, its instructions, its constants. Numbers are
 * little-endian. Regions of the instructions: 0 the constants, 1 what lies between operators, then
 * the arguments. */
#define SIMDEV_MAGIC    "SIMDEV\0" /* and a NUL */
#define SIMDEV_MAX_ARGS (CHIP_MAX_REGIONS - 2)

typedef struct SimdevHeader {
  char magic[8];
  int32_t chip_version;
  int32_t num_inputs, num_outputs, num_instructions;
  int32_t constant_bytes, between_bytes;
} SimdevHeader;

typedef struct SimdevArgument {
  int32_t is_unsigned; /* uint8; else int8 */
  int32_t ndim;        /* 2 or 4 */
  int32_t shape[4];
} SimdevArgument;

/* A module of one function; takes over `bytes`, which are untrusted. NULL with an error. */
BpModule *simdev_module_create(const char *function, char *bytes, size_t size);
/* runtime.module.loadbinary_simdev */
int simdev_loadbinary(void *self, const BpValue *args, int32_t num_args, BpValue *result);

/* ---- target.c ---------------------------------------------------------------------------- */

extern const BpTargetKind simdev_target_kind;
/* target.build.simdev */
int simdev_build(void *self, const BpValue *args, int32_t num_args, BpValue *result);

#endif
