/* SPDX-License-Identifier: Apache-2.0 */
/* Section performance: nothing is absurdly slow. Times are compared with others of the same run,
 * minima of several, with a wide margin: only what is wrong in kind is found. */
#include <string.h>

#include "conformance/kernel.h"

#define TRIES 5

/* ---- Copies ------------------------------------------------------------------------------ */

static gint64 time_upload(const Kit *kit, const void *data, void *handle, size_t size) {
  gint64 best = G_MAXINT64;
  for (int i = 0; i < TRIES; i++) {
    gint64 began = g_get_monotonic_time();
    bp__kit_upload(kit, data, handle, 0, size, NULL);
    bp__kit_sync(kit, NULL);
    best = MIN(best, g_get_monotonic_time() - began);
  }
  return best;
}

/* Sixteen times as much takes at most some sixteen times as long. */
static void run_linear(Kit *kit) {
  const size_t small = (size_t)1 << 20, large = 16 * small;
  bp__kit_open_device(kit);
  uint8_t *data = g_malloc0(large);
  void *handle = bp__kit_alloc(kit, large);
  gint64 one = time_upload(kit, data, handle, small), many = time_upload(kit, data, handle, large);
  KIT_TRUE(many <= (one + 1000) * 16 * 8,
           "a copy of 16 MiB takes %" G_GINT64_FORMAT " us, and one of 1 MiB %" G_GINT64_FORMAT
           " us",
           many, one);
  bp__kit_free(kit, handle);
  g_free(data);
}

/* A device's copy is no byte by byte affair: 100 times memcpy's time is plenty for any bus. */
static void run_bandwidth(Kit *kit) {
  const size_t size = (size_t)16 << 20;
  bp__kit_open_device(kit);
  uint8_t *data = g_malloc0(size), *other = g_malloc0(size);
  void *handle = bp__kit_alloc(kit, size);
  gint64 memory = G_MAXINT64, device = time_upload(kit, data, handle, size);
  for (int i = 0; i < TRIES; i++) {
    gint64 began = g_get_monotonic_time();
    memcpy(other, data, size);
    data[other[size - 1]]++; /* so that the copy is used */
    memory = MIN(memory, g_get_monotonic_time() - began);
  }
  KIT_TRUE(device <= (memory + 100) * 100,
           "a copy of 16 MiB to the device takes %" G_GINT64_FORMAT
           " us; memcpy does it in %" G_GINT64_FORMAT " us",
           device, memory);
  bp__kit_free(kit, handle);
  g_free(data);
  g_free(other);
}

/* ---- Launches ---------------------------------------------------------------------------- */

/* A kernel whose time grows with `rounds`: a chain of sums and products that no one can skip. The
 * loops are nested, as there are drivers that end one after 65,536 turns. */
static const char long_text[] =
    "(module (function \"chain\" (buffer A int32 global 64) rounds:int64"
    " (for t:int64 0 64 bound \"threadIdx.x\" (allocate (buffer L int32 local 1) (seq"
    " (store L 0 (load A t)) (for i:int64 0 rounds serial (for j:int64 0 1000 serial (store L 0"
    " (add (mul (load L 0) 1664525:int32) (bit_xor (cast int32 (add i j)) 1013904223:int32)))))"
    " (store A t (load L 0)))))))";

typedef struct Chain {
  KitCode code;
  BpFunction *function;
  KitBuffer buffer;
  KitArgs args;
} Chain;

static void set_rounds(Chain *chain, int64_t rounds) {
  chain->args.values[1].v_int64 = rounds;
}

static gint64 time_chain(const Kit *kit, const Chain *chain, gint64 *until_launched) {
  gint64 began = g_get_monotonic_time();
  KIT_OK(bp__kit_launch(chain->function, &chain->args), "the call of a function");
  *until_launched = g_get_monotonic_time() - began;
  KIT_OK(bp_stream_sync(kit->target_device, NULL), "stream_sync");
  return g_get_monotonic_time() - began;
}

/* Rounds that take at least a twentieth of a second. */
static void calibrate(const Kit *kit, Chain *chain) {
  gint64 until_launched;
  set_rounds(chain, 1);
  time_chain(kit, chain, &until_launched);
  for (int64_t rounds = 1; rounds < 60000; rounds *= 4) {
    set_rounds(chain, rounds);
    if (time_chain(kit, chain, &until_launched) > 50000)
      return;
  }
  bp__kit_skip("no kernel takes long enough to be measured");
}

static void open_chain(Kit *kit, Chain *chain) {
  const int32_t zero[64] = {0};
  *chain = (Chain){.code = bp__kit_build(kit, long_text)};
  chain->function = bp__kit_function(chain->code.module, "chain");
  bp__kit_buffer_create(kit, &chain->buffer, KIT_INT32, 64);
  bp__kit_buffer_set(kit, &chain->buffer, zero, NULL);
  bp__kit_args_add(&chain->args, bp__kit_buffer_value(&chain->buffer));
  bp__kit_args_add_int(&chain->args, 1);
  bp__kit_args_add_launch(&chain->args, &chain->code, "chain", 64);
}

static void close_chain(Kit *kit, Chain *chain) {
  bp__kit_buffer_free(kit, &chain->buffer);
  bp_object_release(chain->function);
  bp__kit_code_clear(&chain->code);
}

/* The call of a long kernel returns before it has ended, in one of some tries. */
static void run_asynchronous(Kit *kit) {
  Chain chain;
  gint64 launched = 0, all = 0;
  gboolean is_early = FALSE;
  bp__kit_open_target(kit);
  if (!kit->api || !kit->api->create_stream)
    bp__kit_skip("the device has one queue, and may run what it is given at once");
  open_chain(kit, &chain);
  calibrate(kit, &chain);
  for (int i = 0; i < TRIES && !is_early; i++) {
    all = time_chain(kit, &chain, &launched);
    is_early = launched < all / 2;
  }
  KIT_TRUE(is_early,
           "a launch returns after %" G_GINT64_FORMAT " us, and its work has ended after "
           "%" G_GINT64_FORMAT " us",
           launched, all);
  close_chain(kit, &chain);
}

/* Where the first call of a function builds its code, which takes a while, the others do not: of a
 * kernel that has nothing to do, so that all that takes long is the building. */
static void run_built_once(Kit *kit) {
  Chain chain;
  gint64 until_launched, best = G_MAXINT64;
  bp__kit_open_target(kit);
  open_chain(kit, &chain);
  set_rounds(&chain, 0);
  gint64 first = time_chain(kit, &chain, &until_launched);
  for (int i = 0; i < 20; i++)
    best = MIN(best, time_chain(kit, &chain, &until_launched));
  KIT_TRUE(best < 20000 || best < first / 2,
           "the first call takes %" G_GINT64_FORMAT " us, and each other at least %" G_GINT64_FORMAT
           " us",
           first, best);
  close_chain(kit, &chain);
}

static const Check copy_checks[] = {
    {"performance.copy-linear", "16 MiB take at most some sixteen times as long as one",
     "copy.large", CHECK_OPTIONAL | CHECK_PERFORMANCE, run_linear},
    {"performance.copy-bandwidth", "a copy to the device takes at most 100 times memcpy's time",
     "copy.large", CHECK_OPTIONAL | CHECK_PERFORMANCE, run_bandwidth},
};

static const Check launch_checks[] = {
    {"performance.asynchronous", "the call of a long kernel returns before the kernel has ended",
     "launch.order stream.create", CHECK_OPTIONAL | CHECK_PERFORMANCE, run_asynchronous},
    {"performance.built-once", "only the first call of a function builds its code", "launch.order",
     CHECK_OPTIONAL | CHECK_PERFORMANCE, run_built_once},
};

const Section bp__kit_copy_performance_section = {"performance", NEEDS_DEVICE, copy_checks,
                                                  G_N_ELEMENTS(copy_checks)};
const Section bp__kit_launch_performance_section = {"performance", NEEDS_TARGET, launch_checks,
                                                    G_N_ELEMENTS(launch_checks)};
