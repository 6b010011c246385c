/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the plugin simdev: declarations that its files share.
 *
 * The device computes on int8 alone and has no compiler for loops, so the plugin claims operators
 * of models and compiles parts of models (backplane/graph_compiler.h). A separate process simulates
 * the chip; an address of the host is meaningless in that process. To drive another chip, replace
 * link.c by calls of its driver and chip.h by its instruction set, and rewrite compile.c for
 * them. */
#ifndef SIMDEV_H
#define SIMDEV_H

#include <backplane/device_api.h>
#include <backplane/graph_compiler.h>
#include <backplane/part_module.h>
#include <backplane/plugin_helpers.h>
#include <pthread.h>

#include "chip.h"

/* A number of the private range, for experiments: two vendors may use the same number. Before you
 * publish a plugin, request a number of your own; device-types.txt of the SDK says how. */
#define SIMDEV_DEVICE_TYPE 61440

/* The host's tables, set by the entry point; and the plugin's device table. */
extern BpPluginTables simdev_host;
extern const BpDeviceApi simdev_device_api;

/* ---- link.c ------------------------------------------------------------------------------ */

/* Returns why the chip cannot be used; NULL if it can. The call starts no process. */
const char *simdev_link_problem(void);
/* Whether the chip was started and has been lost. */
int simdev_link_is_lost(void);
/* Each of these functions returns when the chip has done the work: 0, or -1 with an error raised.
 * The first call starts the chip. Addresses and sizes are multiples of a line. The caller holds
 * simdev_lock. */
int32_t simdev_link_write(int32_t address, const void *from, int32_t size);
int32_t simdev_link_read(int32_t address, void *to, int32_t size);
/* Runs instructions that are in the chip's memory. */
int32_t simdev_link_run(int32_t address, int32_t num_instructions, const ChipRegion *regions,
                        int32_t num_regions);

/* ---- memory.c ---------------------------------------------------------------------------- */

/* Held during each use of the chip and of the table of its memory. */
extern pthread_mutex_t simdev_lock;

int32_t simdev_alloc(void *context, int32_t device_id, const BpAllocation *allocation,
                     void **handle);
int32_t simdev_free(void *context, int32_t device_id, void *handle);
int32_t simdev_copy(void *context, const BpCopy *copy, void *stream);
/* Returns the address in the chip's memory of `size` bytes from `offset` on of a buffer. -1 with an
 * error if there is no such buffer, or the bytes exceed it. Called with simdev_lock held. */
int32_t simdev_find(const void *handle, uint64_t offset, uint64_t size);
/* Allocates memory for the plugin itself. Returns its address, or -1 with an error. Called with
 * simdev_lock held. */
int32_t simdev_reserve(int64_t size);
void simdev_release(int32_t address);
int64_t simdev_memory_in_use(void);

/* ---- claim.c ----------------------------------------------------------------------------- */

/* An operator for the chip, in the form that compile.c needs. Values are numbers of the graph. */
typedef struct SimdevStep {
  int32_t kind; /* CHIP_CONV or CHIP_POOL */
  int32_t input, output;
  int32_t weights, bias; /* CONV: values of the graph; -1: no bias */
  int32_t is_product;    /* CONV of a matrix: weights are [input channel][output channel] */
  int32_t kernel[2], strides[2], dilations[2], pads[2];
  int32_t in_zero, out_zero;
  const float *scales; /* CONV: number of scales of the weights, 1 or one for each output channel */
  int32_t num_scales;
  float in_scale, out_scale;
} SimdevStep;

/* A tensor in the chip's form: a matrix is an image of one column whose channels are the matrix's
 * columns. */
typedef struct SimdevImage {
  int32_t batch, height, width, channels;
} SimdevImage;

/* Reads a node as a step for the chip. Returns why the chip lacks the node's operator, a static
 * text; or NULL and fills *step. */
const char *simdev_read_node(const BpGraphTable *table, const BpOnnxGraph *graph,
                             const BpOnnxNode *node, SimdevStep *step);
SimdevImage simdev_image(const BpOnnxValue *value);
int32_t simdev_claim(void *context, const BpOnnxGraph *graph, const BpTarget *target,
                     BpClaims *claims);

/* ---- compile.c --------------------------------------------------------------------------- */

/* How a step uses the scratchpad: the number of rows at once, and of output channels of a
 * convolution. */
typedef struct SimdevTiling {
  int32_t rows, channels;
  int32_t weights, output; /* addresses in the scratchpad; the input is at 0 */
} SimdevTiling;

/* Divides a step into tiles. 0, or -1 if not even one row fits. Raises no error. */
int32_t simdev_tile(const SimdevStep *step, SimdevImage in, SimdevImage out, SimdevTiling *tiling);
int32_t simdev_compile(void *context, const BpOnnxGraph *part, const BpTarget *target,
                       const char *function, BpModule **module);

/* ---- module.c ---------------------------------------------------------------------------- */

/* The header of a saved module; its arguments, instructions and constants follow. Numbers are
 * little-endian. Regions of the instructions: 0 is the constants, 1 the values between operators,
 * the arguments follow. */
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

/* Makes a module of one function; takes over `bytes`, which are untrusted. NULL with an error. */
BpModule *simdev_module_create(const char *function, char *bytes, size_t size);
/* runtime.module.loadbinary_simdev */
int simdev_loadbinary(void *self, const BpValue *args, int32_t num_args, BpValue *result);

/* ---- target.c ---------------------------------------------------------------------------- */

extern const BpTargetKind simdev_target_kind;
/* target.build.simdev */
int simdev_build(void *self, const BpValue *args, int32_t num_args, BpValue *result);

#endif
