/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated chip: this file stands for its hardware manual. The plugin and the program that
 * simulates the chip (chip.c) share this file and nothing else.
 *
 * The chip has CHIP_MEMORY bytes of memory, numbered from 0, and a scratchpad of CHIP_SCRATCHPAD
 * bytes. The chip computes only in the scratchpad. DMA moves whole lines of CHIP_LINE bytes.
 * Tensors in the memory are NHWC with the channels padded to CHIP_LANES; a row (W and C) begins on
 * a line. The padding of channels and rows is undefined. */
#ifndef SIMDEV_CHIP_H
#define SIMDEV_CHIP_H

#include <stddef.h>
#include <stdint.h>

#define CHIP_VERSION      1 /* version of the instruction set */
#define CHIP_MEMORY       (8 << 20)
#define CHIP_SCRATCHPAD   (64 << 10)
#define CHIP_LINE         64
#define CHIP_LANES        16
#define CHIP_MAX_REGIONS  64
#define CHIP_MAX_WINDOW   255
#define CHIP_MAX_CHANNELS 65536

/* ---- Instructions ------------------------------------------------------------------------ */

enum {
  CHIP_MOVE,  /* memory to memory, byte by byte in another order: between NCHW and NHWC */
  CHIP_LOAD,  /* loads rows of whole lines from memory into the scratchpad */
  CHIP_STORE, /* and back */
  CHIP_CONV,  /* computes rows of a convolution, of some output channels */
  CHIP_POOL   /* computes rows of maximum pooling */
};

#define CHIP_UNSIGNED_IN  1 /* elements of the input are uint8; else int8 */
#define CHIP_UNSIGNED_OUT 2 /* elements of the output are uint8; else int8 */

/* A byte in memory. Programs name regions, and each run gives the regions' addresses. */
typedef struct ChipPlace {
  int32_t region, offset;
} ChipPlace;

/* An instruction. Members that the kind does not need are 0. All numbers but the zero points are
 * from 0 to CHIP_MEMORY. */
typedef struct ChipInstruction {
  int32_t kind, flags;
  ChipPlace memory;                                   /* MOVE: source; LOAD, STORE: memory */
  ChipPlace to;                                       /* MOVE: destination */
  int32_t extents[4], strides_from[4], strides_to[4]; /* MOVE, in bytes */
  int32_t rows, row_bytes, pitch; /* LOAD, STORE; `pitch`: bytes from row to row in memory */
  /* Addresses in the scratchpad: LOAD and STORE use `input` and `output`. The rows of both tensors
   * follow each other without gaps, but each begins on a line. Weights of a tile of output channels
   * are [channel][y][x][input channel], followed by a bias (int32) and a factor (float) for each
   * channel. */
  int32_t input, weights, output;
  int32_t in_height, in_width, in_channels, in_first, in_rows;      /* rows in the scratchpad */
  int32_t out_height, out_width, out_channels, out_first, out_rows; /* output rows to compute */
  int32_t tile_first, tile_channels;                                /* CONV: output channels */
  int32_t kernel[2], strides[2], dilations[2], pads[2]; /* y, x; `pads`: before the data */
  int32_t in_zero, out_zero;
  int32_t reserved[18]; /* 0 */
} ChipInstruction;

_Static_assert(sizeof(ChipInstruction) % CHIP_LINE == 0, "instructions begin on lines");

typedef struct ChipRegion {
  int32_t address, size;
} ChipRegion;

/* ---- Commands ---------------------------------------------------------------------------- */

enum {
  CHIP_WRITE, /* `size` bytes for memory follow the command */
  CHIP_READ,  /* `size` bytes of memory follow the reply */
  CHIP_RUN    /* runs `size` instructions from `address` on; `num_regions` ChipRegion follow */
};

typedef struct ChipCommand {
  int32_t kind, address, size, num_regions;
} ChipCommand;

/* Faults of a command or an instruction. */
enum {
  CHIP_OK,
  CHIP_BAD_COMMAND,
  CHIP_BAD_LINE,   /* an address or a size is not a multiple of CHIP_LINE */
  CHIP_BAD_MEMORY, /* an address beyond memory or a region */
  CHIP_BAD_SCRATCHPAD,
  CHIP_BAD_INSTRUCTION,
  CHIP_NUM_FAULTS
};

typedef struct ChipReply {
  int32_t fault, instruction;
} ChipReply;

/* ---- Rules ------------------------------------------------------------------------------- */

static inline int32_t chip_round(int32_t number, int32_t unit) {
  return (number + unit - 1) / unit * unit;
}

/* Returns the bytes from one row to the next, of a tensor with that width and padded channels. */
static inline int64_t chip_pitch(int64_t width, int64_t channels) {
  return (width * channels + CHIP_LINE - 1) / CHIP_LINE * CHIP_LINE;
}

/* Returns the bytes of the weights, biases and factors of a tile. */
static inline int64_t chip_tile_bytes(const int32_t kernel[2], int64_t in_channels,
                                      int64_t tile_channels) {
  return tile_channels * (kernel[0] * kernel[1] * in_channels + 8);
}

static inline int32_t chip_check_place(ChipPlace place, int64_t size, const ChipRegion *regions,
                                       int32_t num_regions) {
  if (place.region >= num_regions)
    return CHIP_BAD_MEMORY;
  return place.offset + size <= regions[place.region].size ? CHIP_OK : CHIP_BAD_MEMORY;
}

static inline int32_t chip_check_move(const ChipInstruction *i, const ChipRegion *regions,
                                      int32_t num_regions) {
  int64_t from = 1, to = 1;
  for (int d = 0; d < 4; d++) {
    if (i->extents[d] < 1)
      return CHIP_BAD_INSTRUCTION;
    from += (int64_t)(i->extents[d] - 1) * i->strides_from[d];
    to += (int64_t)(i->extents[d] - 1) * i->strides_to[d];
  }
  int32_t fault = chip_check_place(i->memory, from, regions, num_regions);
  return fault ? fault : chip_check_place(i->to, to, regions, num_regions);
}

static inline int32_t chip_check_dma(const ChipInstruction *i, const ChipRegion *regions,
                                     int32_t num_regions) {
  int32_t at = i->kind == CHIP_LOAD ? i->input : i->output;
  if (i->rows < 1 || i->row_bytes < 1)
    return CHIP_BAD_INSTRUCTION;
  if ((i->memory.offset | i->row_bytes | i->pitch | at) % CHIP_LINE)
    return CHIP_BAD_LINE;
  if (at + (int64_t)i->rows * i->row_bytes > CHIP_SCRATCHPAD)
    return CHIP_BAD_SCRATCHPAD;
  return chip_check_place(i->memory, (int64_t)(i->rows - 1) * i->pitch + i->row_bytes, regions,
                          num_regions);
}

/* Checks that all rows in the windows of the output rows are in the scratchpad. */
static inline int32_t chip_check_rows(const ChipInstruction *i) {
  int64_t first = (int64_t)i->out_first * i->strides[0] - i->pads[0];
  int64_t last = first + (int64_t)(i->out_rows - 1) * i->strides[0] +
                 (int64_t)(i->kernel[0] - 1) * i->dilations[0];
  first = first < 0 ? 0 : first;
  last = last >= i->in_height ? i->in_height - 1 : last;
  return first > last || (first >= i->in_first && last < (int64_t)i->in_first + i->in_rows)
             ? CHIP_OK
             : CHIP_BAD_INSTRUCTION;
}

static inline int32_t chip_check_window(const ChipInstruction *i) {
  for (int d = 0; d < 2; d++)
    if (i->kernel[d] < 1 || i->kernel[d] > CHIP_MAX_WINDOW || i->strides[d] < 1 ||
        i->dilations[d] < 1)
      return CHIP_BAD_INSTRUCTION;
  if (i->in_channels < CHIP_LANES || i->in_channels > CHIP_MAX_CHANNELS ||
      i->in_channels % CHIP_LANES || i->out_channels < CHIP_LANES ||
      i->out_channels > CHIP_MAX_CHANNELS || i->out_channels % CHIP_LANES || i->in_width < 1 ||
      i->out_width < 1 || i->in_rows < 1 || i->out_rows < 1 ||
      (int64_t)i->in_first + i->in_rows > i->in_height ||
      (int64_t)i->out_first + i->out_rows > i->out_height)
    return CHIP_BAD_INSTRUCTION;
  if ((i->input | i->weights | i->output) % CHIP_LINE)
    return CHIP_BAD_LINE;
  if (i->input + i->in_rows * chip_pitch(i->in_width, i->in_channels) > CHIP_SCRATCHPAD ||
      i->output + i->out_rows * chip_pitch(i->out_width, i->out_channels) > CHIP_SCRATCHPAD)
    return CHIP_BAD_SCRATCHPAD;
  return chip_check_rows(i);
}

static inline int32_t chip_check_compute(const ChipInstruction *i) {
  int32_t fault = chip_check_window(i);
  if (fault)
    return fault;
  if (i->kind == CHIP_POOL)
    return i->in_channels == i->out_channels ? CHIP_OK : CHIP_BAD_INSTRUCTION;
  if (i->tile_channels < 1 || (int64_t)i->tile_first + i->tile_channels > i->out_channels)
    return CHIP_BAD_INSTRUCTION;
  return i->weights + chip_tile_bytes(i->kernel, i->in_channels, i->tile_channels) <=
                 CHIP_SCRATCHPAD
             ? CHIP_OK
             : CHIP_BAD_SCRATCHPAD;
}

/* Checks an instruction, whose bytes are untrusted. Both the chip and the loader of modules use the
 * check of instructions, so loading a program for another chip fails. */
static inline int32_t chip_check(const ChipInstruction *i, const ChipRegion *regions,
                                 int32_t num_regions) {
  const int32_t *numbers = (const int32_t *)(const void *)i;
  int32_t num_numbers = (int32_t)(offsetof(ChipInstruction, in_zero) / sizeof(int32_t));
  for (int32_t n = 0; n < num_numbers; n++)
    if (numbers[n] < 0 || numbers[n] > CHIP_MEMORY)
      return CHIP_BAD_INSTRUCTION;
  for (size_t n = 0; n < sizeof i->reserved / sizeof *i->reserved; n++)
    if (i->reserved[n])
      return CHIP_BAD_INSTRUCTION;
  if (i->in_zero < -128 || i->in_zero > 255 || i->out_zero < -128 || i->out_zero > 255)
    return CHIP_BAD_INSTRUCTION;
  switch (i->kind) {
  case CHIP_MOVE:
    return chip_check_move(i, regions, num_regions);
  case CHIP_LOAD:
  case CHIP_STORE:
    return chip_check_dma(i, regions, num_regions);
  case CHIP_CONV:
  case CHIP_POOL:
    return chip_check_compute(i);
  default:
    return CHIP_BAD_INSTRUCTION;
  }
}

#endif
