/* SPDX-License-Identifier: Apache-2.0 */
/* Elements and work of the simulated libraries. */
#include "tests/mock/fakelibs.h"

#include <math.h>
#include <string.h>

size_t fake_size_of(FakeType type) {
  return type == FAKE_F64 ? 8 : type == FAKE_F32 ? 4 : 2;
}

static double half_to_double(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent == 31  ? (fraction ? (double)NAN : (double)INFINITY)
                 : exponent == 0 ? ldexp(fraction, -24)
                                 : ldexp(fraction + 1024, exponent - 25);
  return bits & 0x8000 ? -value : value;
}

/* Rounds to the nearest, ties to even. */
static uint16_t double_to_half(double value) {
  uint16_t sign = signbit(value) ? 0x8000 : 0;
  double size = fabs(value);
  int exponent;
  if (isnan(value))
    return sign | 0x7e00;
  if (size >= 65520)
    return sign | 0x7c00;
  if (size == 0)
    return sign;
  frexp(size, &exponent); /* size is in [2^(exponent-1), 2^exponent) */
  int unit = exponent - 11 < -24 ? -24 : exponent - 11;
  long steps = lrint(ldexp(size, -unit));
  return (uint16_t)(sign | (unit == -24 ? steps : ((unit + 24) << 10) + steps));
}

double fake_load(FakeType type, const void *data, int64_t index) {
  const char *at = (const char *)data + (size_t)index * fake_size_of(type);
  uint32_t wide;
  uint16_t bits;
  float f32;
  double f64;
  switch (type) {
  case FAKE_F32:
    memcpy(&f32, at, sizeof(f32));
    return (double)f32;
  case FAKE_F64:
    memcpy(&f64, at, sizeof(f64));
    return f64;
  case FAKE_F16:
    memcpy(&bits, at, sizeof(bits));
    return half_to_double(bits);
  default:
    memcpy(&bits, at, sizeof(bits));
    wide = (uint32_t)bits << 16;
    memcpy(&f32, &wide, sizeof(f32));
    return (double)f32;
  }
}

void fake_store(FakeType type, void *data, int64_t index, double value) {
  char *at = (char *)data + (size_t)index * fake_size_of(type);
  float f32 = (float)value;
  uint32_t wide;
  uint16_t bits;
  switch (type) {
  case FAKE_F32:
    memcpy(at, &f32, sizeof(f32));
    return;
  case FAKE_F64:
    memcpy(at, &value, sizeof(value));
    return;
  case FAKE_F16:
    bits = double_to_half(value);
    break;
  default:
    memcpy(&wide, &f32, sizeof(wide));
    bits = (uint16_t)(isnan(f32) ? 0x7fc0 : (wide + 0x7fff + (wide >> 16 & 1)) >> 16);
  }
  memcpy(at, &bits, sizeof(bits));
}

/* Runs the work in a command, unless the next kernel has to fail. */
static CUresult run_work(FakeCommand *command, int device) {
  CUresult (*run)(FakeCommand *, int);
  CUresult failure = fake_take_kernel_failure();
  memcpy(&run, command->args[FAKE_MOST_ARGS - 1], sizeof(run));
  return failure ? failure : run(command, device);
}

CUresult fake_queue(CUstream stream, CUresult (*run)(FakeCommand *command, int device),
                    const void *work, size_t size) {
  FakeCommand command = {.run = run_work};
  if (size > FAKE_MOST_WORK)
    return CUDA_ERROR_INVALID_VALUE;
  memcpy(command.args, work, size);
  memcpy(command.args[FAKE_MOST_ARGS - 1], &run, sizeof(run));
  return fake_submit(stream, &command);
}

void *fake_elements(int device, const void *data, FakeType type, int64_t count) {
  return fake_resolve(device, (CUdeviceptr)(uintptr_t)data, (size_t)count * fake_size_of(type));
}
