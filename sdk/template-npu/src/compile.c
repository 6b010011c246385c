/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles a part of a model to a program of the chip. Inputs are moved from the host's NCHW to the
 * chip's NHWC, and outputs back, only at the borders of a part. Weights are packed once, when a
 * part is compiled, for the tiles that the chip computes. */
#include "simdev.h"

#include <stdlib.h>
#include <string.h>

#define MAX_INSTRUCTIONS 16384

/* The place of a value in the chip's layout. */
typedef struct Home {
  int32_t is_there; /* the value was moved to, or is computed in, the chip's layout */
  int32_t offset;   /* offset in region 1 */
} Home;

typedef struct Compiling {
  const BpGraphTable *table;
  const BpOnnxGraph *part;
  Home *homes; /* homes by value */
  ChipInstruction *instructions;
  int32_t num_instructions;
  char *constants;
  int64_t constant_bytes, between_bytes;
} Compiling;

/* ---- Tiles ------------------------------------------------------------------------------- */

static int32_t lanes(int32_t channels) {
  return chip_round(channels, CHIP_LANES);
}

static int64_t row_pitch(SimdevImage image) {
  return chip_pitch(image.width, lanes(image.channels));
}

/* Returns the most input rows that `rows` output rows need. */
static int64_t rows_needed(const SimdevStep *step, int32_t rows) {
  return (int64_t)(rows - 1) * step->strides[0] +
         (int64_t)(step->kernel[0] - 1) * step->dilations[0] + 1;
}

int32_t simdev_tile(const SimdevStep *step, SimdevImage in, SimdevImage out, SimdevTiling *tiling) {
  int64_t half = CHIP_SCRATCHPAD / 2, weights = 0;
  int32_t channels = lanes(out.channels);
  if (step->kind == CHIP_CONV) {
    while (channels > CHIP_LANES &&
           chip_tile_bytes(step->kernel, lanes(in.channels), channels) > half)
      channels -= CHIP_LANES;
    weights = chip_tile_bytes(step->kernel, lanes(in.channels), channels);
    weights = (weights + CHIP_LINE - 1) / CHIP_LINE * CHIP_LINE;
  }
  for (int32_t rows = out.height; rows > 0; rows--) {
    int64_t needed = rows_needed(step, rows);
    int64_t input = (needed < in.height ? needed : in.height) * row_pitch(in);
    if (input + weights + rows * row_pitch(out) > CHIP_SCRATCHPAD)
      continue;
    *tiling = (SimdevTiling){rows, channels, (int32_t)input, (int32_t)(input + weights)};
    return 0;
  }
  return -1;
}

/* ---- Writing ----------------------------------------------------------------------------- */

/* Appends a zeroed instruction; NULL with an error. */
static ChipInstruction *append(Compiling *c, int32_t kind) {
  if (c->num_instructions == MAX_INSTRUCTIONS) {
    bp_plugin_raise(&simdev_host, BP_ERROR_NOT_IMPLEMENTED,
                    "the part takes more than %d instructions", MAX_INSTRUCTIONS);
    return NULL;
  }
  size_t count = (size_t)c->num_instructions + 1;
  ChipInstruction *grown = realloc(c->instructions, count * sizeof *grown);
  if (!grown) {
    bp_plugin_raise(&simdev_host, BP_ERROR_MEMORY, "no host memory for a program");
    return NULL;
  }
  c->instructions = grown;
  grown[c->num_instructions] = (ChipInstruction){.kind = kind};
  return &grown[c->num_instructions++];
}

/* Allocates memory between operators for an image; -1 with an error. A real compiler reuses memory
 * that is no longer needed. */
static int32_t add_between(Compiling *c, SimdevImage image, int32_t *offset) {
  int64_t size = row_pitch(image) * image.height * image.batch;
  if (size > CHIP_MEMORY - c->between_bytes)
    return bp_plugin_raise(&simdev_host, BP_ERROR_NOT_IMPLEMENTED,
                           "the part takes more than the %d bytes of the device's memory",
                           CHIP_MEMORY);
  *offset = (int32_t)c->between_bytes;
  c->between_bytes += size;
  return 0;
}

/* Appends `size` zeroed bytes of constants, on a line; NULL with an error. */
static char *add_constants(Compiling *c, int64_t size, int32_t *offset) {
  size = (size + CHIP_LINE - 1) / CHIP_LINE * CHIP_LINE;
  char *grown = size > CHIP_MEMORY - c->constant_bytes
                    ? NULL
                    : realloc(c->constants, (size_t)(c->constant_bytes + size));
  if (!grown) {
    bp_plugin_raise(&simdev_host, BP_ERROR_NOT_IMPLEMENTED,
                    "the weights take more than the %d bytes of the device's memory", CHIP_MEMORY);
    return NULL;
  }
  *offset = (int32_t)c->constant_bytes;
  memset(grown + c->constant_bytes, 0, (size_t)size);
  c->constants = grown;
  c->constant_bytes += size;
  return grown + *offset;
}

/* ---- Borders ----------------------------------------------------------------------------- */

/* Moves an input or output between its argument, in NCHW, and its place in NHWC. */
static int32_t move_border(Compiling *c, int32_t value, int32_t region, int32_t is_input) {
  SimdevImage image = simdev_image(c->table->get_value(c->part, value));
  int32_t plane = image.height * image.width, pitch = (int32_t)row_pitch(image);
  const ChipPlace outside = {region, 0}, inside = {1, c->homes[value].offset};
  const int32_t nchw[4] = {image.channels * plane, plane, image.width, 1};
  const int32_t nhwc[4] = {pitch * image.height, 1, pitch, lanes(image.channels)};
  /* A matrix has its columns in place of channels. */
  const int32_t rows[4] = {0, 1, image.channels, 0};
  int is_matrix = c->table->get_value(c->part, value)->ndim == 2;
  ChipInstruction *i = append(c, CHIP_MOVE);
  if (!i)
    return -1;
  const int32_t extents[4] = {image.batch, image.channels, image.height, image.width};
  memcpy(i->extents, extents, sizeof extents);
  const int32_t *arg = is_matrix ? rows : nchw;
  memcpy(is_input ? i->strides_from : i->strides_to, arg, sizeof rows);
  memcpy(is_input ? i->strides_to : i->strides_from, nhwc, sizeof nhwc);
  i->memory = is_input ? outside : inside;
  i->to = is_input ? inside : outside;
  return 0;
}

static int32_t add_home(Compiling *c, int32_t value) {
  Home *home = &c->homes[value];
  if (add_between(c, simdev_image(c->table->get_value(c->part, value)), &home->offset))
    return -1;
  home->is_there = 1;
  return 0;
}

static int32_t move_inputs(Compiling *c) {
  int32_t count;
  const int32_t *inputs = c->table->get_inputs(c->part, &count);
  for (int32_t i = 0; i < count; i++)
    if (add_home(c, inputs[i]) || move_border(c, inputs[i], 2 + i, 1))
      return -1;
  return 0;
}

static int32_t move_outputs(Compiling *c) {
  int32_t num_inputs, count;
  c->table->get_inputs(c->part, &num_inputs);
  const int32_t *outputs = c->table->get_outputs(c->part, &count);
  for (int32_t i = 0; i < count; i++)
    if (move_border(c, outputs[i], 2 + num_inputs + i, 0))
      return -1;
  return 0;
}

/* ---- Weights ----------------------------------------------------------------------------- */

/* Returns element [out][in][y][x] of the weights. */
static int8_t weight_at(const Compiling *c, const SimdevStep *step, int32_t out, int32_t in,
                        int32_t window) {
  const BpOnnxValue *weights = c->table->get_value(c->part, step->weights);
  const int8_t *data = weights->data;
  return step->is_product
             ? data[(int64_t)in * weights->shape[1] + out]
             : data[((int64_t)out * weights->shape[1] + in) * step->kernel[0] * step->kernel[1] +
                    window];
}

/* Returns the factor that rescales a sum, computed in the order of ONNX's operator. */
static float factor_of(const SimdevStep *step, int32_t channel) {
  float scale;
  memcpy(&scale, step->scales + (step->num_scales > 1 ? channel : 0), sizeof scale);
  return step->in_scale * scale / step->out_scale;
}

/* Packs a tile of output channels in the chip's order; -1 with an error. */
static int32_t pack(Compiling *c, const SimdevStep *step, SimdevImage in, SimdevImage out,
                    int32_t first, int32_t count, int32_t *offset) {
  int32_t in_lanes = lanes(in.channels), windows = step->kernel[0] * step->kernel[1];
  char *tile = add_constants(c, chip_tile_bytes(step->kernel, in_lanes, count), offset);
  if (!tile)
    return -1;
  char *biases = tile + (int64_t)count * windows * in_lanes, *factors = biases + 4 * (int64_t)count;
  const char *given = step->bias >= 0 ? c->table->get_value(c->part, step->bias)->data : NULL;
  for (int32_t k = 0; k < count && first + k < out.channels; k++) {
    float factor = factor_of(step, first + k);
    for (int32_t w = 0; w < windows; w++)
      for (int32_t i = 0; i < in.channels; i++)
        tile[((int64_t)k * windows + w) * in_lanes + i] = (char)weight_at(c, step, first + k, i, w);
    if (given)
      memcpy(biases + 4 * (int64_t)k, given + 4 * (int64_t)(first + k), 4);
    memcpy(factors + 4 * (int64_t)k, &factor, 4);
  }
  return 0;
}

/* ---- Steps ------------------------------------------------------------------------------- */

typedef struct Images {
  SimdevImage in, out;
  int32_t flags;
} Images;

static void fill_window(ChipInstruction *i, const SimdevStep *step, const Images *images) {
  i->flags = images->flags;
  i->in_height = images->in.height;
  i->in_width = images->in.width;
  i->in_channels = lanes(images->in.channels);
  i->out_height = images->out.height;
  i->out_width = images->out.width;
  i->out_channels = lanes(images->out.channels);
  memcpy(i->kernel, step->kernel, sizeof i->kernel);
  memcpy(i->strides, step->strides, sizeof i->strides);
  memcpy(i->dilations, step->dilations, sizeof i->dilations);
  memcpy(i->pads, step->pads, sizeof i->pads);
  i->in_zero = step->in_zero;
  i->out_zero = step->out_zero;
}

static int32_t add_dma(Compiling *c, int32_t kind, ChipPlace memory, int32_t scratch, int32_t rows,
                       int32_t row_bytes) {
  ChipInstruction *i = append(c, kind);
  if (!i)
    return -1;
  i->memory = memory;
  i->rows = rows;
  i->row_bytes = i->pitch = row_bytes;
  *(kind == CHIP_LOAD ? &i->input : &i->output) = scratch;
  return 0;
}

/* Computes output rows from `first` on; `ready` is an instruction that lacks only the tile. */
static int32_t compute_rows(Compiling *c, const SimdevStep *step, const Images *images,
                            const SimdevTiling *tiling, const int32_t *tiles,
                            const ChipInstruction *ready) {
  int32_t channels = step->kind == CHIP_CONV ? lanes(images->out.channels) : tiling->channels;
  for (int32_t at = 0, n = 0; at < channels; at += tiling->channels, n++) {
    int32_t count = channels - at < tiling->channels ? channels - at : tiling->channels;
    if (step->kind == CHIP_CONV) {
      int64_t bytes = chip_tile_bytes(step->kernel, lanes(images->in.channels), count);
      if (add_dma(c, CHIP_LOAD, (ChipPlace){0, tiles[n]}, tiling->weights, 1,
                  chip_round((int32_t)bytes, CHIP_LINE)))
        return -1;
    }
    ChipInstruction *i = append(c, step->kind);
    if (!i)
      return -1;
    *i = *ready;
    i->tile_first = step->kind == CHIP_CONV ? at : 0;
    i->tile_channels = step->kind == CHIP_CONV ? count : 0;
  }
  return 0;
}

/* Loads the input rows for output rows from `first` on, computes the output rows and stores
 * them. */
static int32_t add_rows(Compiling *c, const SimdevStep *step, const Images *images,
                        const SimdevTiling *tiling, const int32_t *tiles, int32_t image,
                        int32_t first) {
  int32_t rows =
      images->out.height - first < tiling->rows ? images->out.height - first : tiling->rows;
  int32_t in_pitch = (int32_t)row_pitch(images->in), out_pitch = (int32_t)row_pitch(images->out);
  int64_t begin = (int64_t)first * step->strides[0] - step->pads[0];
  int64_t end = begin + rows_needed(step, rows);
  begin = begin < 0 ? 0 : begin;
  end = end > images->in.height ? images->in.height : end;
  ChipInstruction ready = {.kind = step->kind,
                           .input = 0,
                           .weights = tiling->weights,
                           .output = tiling->output,
                           .in_first = (int32_t)begin,
                           .in_rows = (int32_t)(end - begin),
                           .out_first = first,
                           .out_rows = rows};
  fill_window(&ready, step, images);
  ChipPlace from = {1, c->homes[step->input].offset +
                           (image * images->in.height + ready.in_first) * in_pitch};
  ChipPlace to = {1,
                  c->homes[step->output].offset + (image * images->out.height + first) * out_pitch};
  if (add_dma(c, CHIP_LOAD, from, 0, ready.in_rows, in_pitch) ||
      compute_rows(c, step, images, tiling, tiles, &ready))
    return -1;
  return add_dma(c, CHIP_STORE, to, tiling->output, rows, out_pitch);
}

static int32_t pack_tiles(Compiling *c, const SimdevStep *step, const Images *images,
                          const SimdevTiling *tiling, int32_t *tiles) {
  int32_t channels = lanes(images->out.channels);
  for (int32_t at = 0, n = 0; step->kind == CHIP_CONV && at < channels;
       at += tiling->channels, n++) {
    int32_t count = channels - at < tiling->channels ? channels - at : tiling->channels;
    if (pack(c, step, images->in, images->out, at, count, &tiles[n]))
      return -1;
  }
  return 0;
}

static int32_t add_step(Compiling *c, const SimdevStep *step) {
  const BpOnnxValue *in = c->table->get_value(c->part, step->input);
  const BpOnnxValue *out = c->table->get_value(c->part, step->output);
  Images images = {simdev_image(in), simdev_image(out),
                   (in->dtype.code == BP_DTYPE_UINT ? CHIP_UNSIGNED_IN : 0) |
                       (out->dtype.code == BP_DTYPE_UINT ? CHIP_UNSIGNED_OUT : 0)};
  SimdevTiling tiling;
  if (simdev_tile(step, images.in, images.out, &tiling))
    return bp_plugin_raise(&simdev_host, BP_ERROR_NOT_IMPLEMENTED,
                           "not even one row fits the device's scratchpad");
  int32_t *tiles = bp_plugin_calloc(&simdev_host,
                                    ((size_t)images.out.channels / CHIP_LANES + 1) * sizeof *tiles);
  int32_t status = tiles ? pack_tiles(c, step, &images, &tiling, tiles) : -1;
  if (!status)
    status = add_home(c, step->output);
  for (int32_t image = 0; image < images.out.batch && !status; image++)
    for (int32_t row = 0; row < images.out.height && !status; row += tiling.rows)
      status = add_rows(c, step, &images, &tiling, tiles, image, row);
  free(tiles);
  return status;
}

static int32_t add_steps(Compiling *c) {
  for (int32_t n = 0; n < c->table->num_nodes(c->part); n++) {
    SimdevStep step;
    const char *why = simdev_read_node(c->table, c->part, c->table->get_node(c->part, n), &step);
    if (why)
      return bp_plugin_raise(&simdev_host, BP_ERROR_NOT_IMPLEMENTED, "%s", why);
    if (add_step(c, &step))
      return -1;
  }
  return 0;
}

/* ---- The module -------------------------------------------------------------------------- */

static SimdevArgument argument_of(const BpOnnxValue *value) {
  SimdevArgument argument = {value->dtype.code == BP_DTYPE_UINT, value->ndim, {0}};
  for (int32_t i = 0; i < value->ndim; i++)
    argument.shape[i] = (int32_t)value->shape[i];
  return argument;
}

/* Joins all parts of the module into one block of bytes; NULL with an error. */
static char *join(const Compiling *c, size_t *size) {
  SimdevHeader header = {SIMDEV_MAGIC,
                         CHIP_VERSION,
                         0,
                         0,
                         c->num_instructions,
                         (int32_t)c->constant_bytes,
                         (int32_t)c->between_bytes};
  const int32_t *inputs = c->table->get_inputs(c->part, &header.num_inputs);
  const int32_t *outputs = c->table->get_outputs(c->part, &header.num_outputs);
  if (header.num_inputs + header.num_outputs > SIMDEV_MAX_ARGS) {
    bp_plugin_raise(&simdev_host, BP_ERROR_NOT_IMPLEMENTED,
                    "the part has %d inputs and outputs; at most %d are possible",
                    header.num_inputs + header.num_outputs, SIMDEV_MAX_ARGS);
    return NULL;
  }
  size_t num_args = (size_t)(header.num_inputs + header.num_outputs);
  size_t program = (size_t)c->num_instructions * sizeof(ChipInstruction);
  *size = sizeof header + num_args * sizeof(SimdevArgument) + program + (size_t)c->constant_bytes;
  char *bytes = bp_plugin_calloc(&simdev_host, *size);
  if (!bytes)
    return NULL;
  memcpy(bytes, &header, sizeof header);
  SimdevArgument *arguments = (SimdevArgument *)(void *)(bytes + sizeof header);
  for (int32_t i = 0; i < header.num_inputs; i++)
    arguments[i] = argument_of(c->table->get_value(c->part, inputs[i]));
  for (int32_t i = 0; i < header.num_outputs; i++)
    arguments[header.num_inputs + i] = argument_of(c->table->get_value(c->part, outputs[i]));
  char *at = (char *)(arguments + num_args);
  memcpy(at, c->instructions, program);
  if (c->constant_bytes)
    memcpy(at + program, c->constants, (size_t)c->constant_bytes);
  return bytes;
}

int32_t simdev_compile(void *context, const BpOnnxGraph *part, const BpTarget *target,
                       const char *function, BpModule **module) {
  Compiling c = {.table = simdev_host.host->get_table(simdev_host.host, BP_TABLE_GRAPH,
                                                      BP_TABLE_GRAPH_VERSION),
                 .part = part};
  (void)context;
  (void)target;
  size_t size = 0;
  char *bytes = NULL;
  *module = NULL;
  if (!c.table)
    return bp_plugin_raise(&simdev_host, BP_ERROR_PLUGIN, "the host has no table \"graph\"");
  c.homes = bp_plugin_calloc(&simdev_host, (size_t)c.table->num_values(part) * sizeof *c.homes + 1);
  if (c.homes && !move_inputs(&c) && !add_steps(&c) && !move_outputs(&c))
    bytes = join(&c, &size);
  if (bytes)
    *module = simdev_module_create(function, bytes, size);
  free(c.homes);
  free(c.instructions);
  free(c.constants);
  return *module ? 0 : -1;
}
