/* SPDX-License-Identifier: Apache-2.0 */
/* The program simdev-chip simulates the chip (chip.h). The plugin starts the program and
 * communicates through the program's standard input, a socket. The program ends when the plugin's
 * process ends. With hardware this file is not needed. */
#include "chip.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char memory[CHIP_MEMORY] __attribute__((aligned(CHIP_LINE)));
static char scratchpad[CHIP_SCRATCHPAD] __attribute__((aligned(CHIP_LINE)));

/* ---- The link ---------------------------------------------------------------------------- */

/* Receives bytes. 0, or -1 if the other side has closed the socket. */
static int receive(void *to, size_t size) {
  for (char *at = to; size > 0;) {
    ssize_t count = read(STDIN_FILENO, at, size);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return -1;
    at += count;
    size -= (size_t)count;
  }
  return 0;
}

static int reply(const void *from, size_t size) {
  for (const char *at = from; size > 0;) {
    ssize_t count = send(STDIN_FILENO, at, size, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return -1;
    at += count;
    size -= (size_t)count;
  }
  return 0;
}

/* ---- Instructions ------------------------------------------------------------------------ */

static char *at_place(ChipPlace place, const ChipRegion *regions) {
  return memory + regions[place.region].address + place.offset;
}

static void move(const ChipInstruction *i, const ChipRegion *regions) {
  const char *from = at_place(i->memory, regions);
  char *to = at_place(i->to, regions);
  int32_t n[4];
  for (n[0] = 0; n[0] < i->extents[0]; n[0]++)
    for (n[1] = 0; n[1] < i->extents[1]; n[1]++)
      for (n[2] = 0; n[2] < i->extents[2]; n[2]++)
        for (n[3] = 0; n[3] < i->extents[3]; n[3]++) {
          int64_t source = 0, target = 0;
          for (int d = 0; d < 4; d++) {
            source += (int64_t)n[d] * i->strides_from[d];
            target += (int64_t)n[d] * i->strides_to[d];
          }
          to[target] = from[source];
        }
}

static void transfer(const ChipInstruction *i, const ChipRegion *regions) {
  char *there = at_place(i->memory, regions);
  char *here = scratchpad + (i->kind == CHIP_LOAD ? i->input : i->output);
  for (int32_t row = 0; row < i->rows; row++, there += i->pitch, here += i->row_bytes)
    memcpy(i->kind == CHIP_LOAD ? here : there, i->kind == CHIP_LOAD ? there : here,
           (size_t)i->row_bytes);
}

/* Returns an element of the input: channel 0 of row y, column x; NULL in the padding. */
static const char *input_at(const ChipInstruction *i, int32_t out_y, int32_t out_x, int32_t ky,
                            int32_t kx) {
  int64_t y = (int64_t)out_y * i->strides[0] - i->pads[0] + (int64_t)ky * i->dilations[0];
  int64_t x = (int64_t)out_x * i->strides[1] - i->pads[1] + (int64_t)kx * i->dilations[1];
  if (y < 0 || y >= i->in_height || x < 0 || x >= i->in_width)
    return NULL;
  return scratchpad + i->input + (y - i->in_first) * chip_pitch(i->in_width, i->in_channels) +
         x * i->in_channels;
}

static char *output_at(const ChipInstruction *i, int32_t y, int32_t x) {
  return scratchpad + i->output + (y - i->out_first) * chip_pitch(i->out_width, i->out_channels) +
         (int64_t)x * i->out_channels;
}

static int32_t element(const char *at, int is_unsigned) {
  return is_unsigned ? *(const uint8_t *)at : *(const int8_t *)at;
}

/* Rounds to nearest, ties to even, as ONNX's operators do. */
static char quantize(const ChipInstruction *i, int32_t sum, float factor) {
  float least = i->flags & CHIP_UNSIGNED_OUT ? 0 : -128, most = least + 255;
  float number = rintf((float)sum * factor) + (float)i->out_zero;
  number = number > least ? number : least; /* a NaN becomes the lowest value */
  return (char)(int32_t)(number < most ? number : most);
}

static int32_t sum_window(const ChipInstruction *i, int32_t y, int32_t x, const int8_t *weights) {
  uint32_t sum = 0; /* wraps around, as the chip's adders do */
  for (int32_t ky = 0; ky < i->kernel[0]; ky++)
    for (int32_t kx = 0; kx < i->kernel[1]; kx++, weights += i->in_channels) {
      const char *in = input_at(i, y, x, ky, kx);
      for (int32_t c = 0; in && c < i->in_channels; c++)
        sum += (uint32_t)((element(in + c, i->flags & CHIP_UNSIGNED_IN) - i->in_zero) * weights[c]);
    }
  return (int32_t)sum;
}

static void convolve(const ChipInstruction *i) {
  int64_t size = (int64_t)i->kernel[0] * i->kernel[1] * i->in_channels;
  const int8_t *weights = (const int8_t *)scratchpad + i->weights;
  const char *biases = scratchpad + i->weights + i->tile_channels * size;
  for (int32_t y = i->out_first; y < i->out_first + i->out_rows; y++)
    for (int32_t x = 0; x < i->out_width; x++)
      for (int32_t c = 0; c < i->tile_channels; c++) {
        int32_t bias;
        float factor;
        memcpy(&bias, biases + 4 * (int64_t)c, 4);
        memcpy(&factor, biases + 4 * (int64_t)(i->tile_channels + c), 4);
        uint32_t sum = (uint32_t)sum_window(i, y, x, weights + c * size) + (uint32_t)bias;
        output_at(i, y, x)[i->tile_first + c] = quantize(i, (int32_t)sum, factor);
      }
}

static void pool(const ChipInstruction *i) {
  int is_unsigned = i->flags & CHIP_UNSIGNED_IN;
  for (int32_t y = i->out_first; y < i->out_first + i->out_rows; y++)
    for (int32_t x = 0; x < i->out_width; x++)
      for (int32_t c = 0; c < i->out_channels; c++) {
        int32_t most = is_unsigned ? 0 : -128;
        for (int32_t k = 0; k < i->kernel[0] * i->kernel[1]; k++) {
          const char *in = input_at(i, y, x, k / i->kernel[1], k % i->kernel[1]);
          int32_t number = in ? element(in + c, is_unsigned) : most;
          most = number > most ? number : most;
        }
        output_at(i, y, x)[c] = (char)most;
      }
}

static int32_t execute(const ChipInstruction *i, const ChipRegion *regions, int32_t num_regions) {
  int32_t fault = chip_check(i, regions, num_regions);
  if (fault)
    return fault;
  if (i->kind == CHIP_MOVE)
    move(i, regions);
  else if (i->kind == CHIP_CONV)
    convolve(i);
  else if (i->kind == CHIP_POOL)
    pool(i);
  else
    transfer(i, regions);
  return CHIP_OK;
}

/* ---- Commands ---------------------------------------------------------------------------- */

static int32_t check_memory(int64_t address, int64_t size) {
  if (address < 0 || size < 0 || address + size > CHIP_MEMORY)
    return CHIP_BAD_MEMORY;
  return (address | size) % CHIP_LINE ? CHIP_BAD_LINE : CHIP_OK;
}

/* Drops the bytes that were sent for an invalid address. */
static int ignore(int32_t size) {
  char bytes[CHIP_LINE];
  for (; size > 0; size -= (int32_t)sizeof bytes)
    if (receive(bytes, size < (int32_t)sizeof bytes ? (size_t)size : sizeof bytes))
      return -1;
  return 0;
}

static int run(const ChipCommand *command, ChipReply *answer) {
  ChipRegion regions[CHIP_MAX_REGIONS];
  int32_t count = command->num_regions;
  if (count < 0 || count > CHIP_MAX_REGIONS)
    return -1;
  if (receive(regions, (size_t)count * sizeof *regions))
    return -1;
  for (int32_t r = 0; r < count; r++)
    if (regions[r].address < 0 || regions[r].size < 0 ||
        (int64_t)regions[r].address + regions[r].size > CHIP_MEMORY)
      answer->fault = CHIP_BAD_MEMORY;
  if (!answer->fault)
    answer->fault =
        check_memory(command->address, (int64_t)command->size * (int64_t)sizeof(ChipInstruction));
  for (int32_t n = 0; n < command->size && !answer->fault; n++) {
    ChipInstruction instruction;
    memcpy(&instruction, memory + command->address + (size_t)n * sizeof instruction,
           sizeof instruction);
    answer->instruction = n;
    answer->fault = execute(&instruction, regions, count);
  }
  return reply(answer, sizeof *answer);
}

static int answer_command(const ChipCommand *command) {
  ChipReply answer = {CHIP_OK, -1};
  if (command->kind == CHIP_RUN)
    return run(command, &answer);
  answer.fault = command->kind == CHIP_WRITE || command->kind == CHIP_READ
                     ? check_memory(command->address, command->size)
                     : CHIP_BAD_COMMAND;
  if (command->kind == CHIP_WRITE &&
      (answer.fault ? ignore(command->size)
                    : receive(memory + command->address, (size_t)command->size)))
    return -1;
  if (reply(&answer, sizeof answer))
    return -1;
  return command->kind == CHIP_READ && !answer.fault
             ? reply(memory + command->address, (size_t)command->size)
             : 0;
}

int main(void) {
  ChipCommand command;
  while (!receive(&command, sizeof command) && !answer_command(&command))
    continue;
  return 0;
}
