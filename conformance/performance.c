/* SPDX-License-Identifier: Apache-2.0 */
/* Section performance: nothing is absurdly slow. Times are compared with other times of the same
 * run, with a wide margin, so only gross faults are found. The times are minima, because other work
 * of the machine only adds to a time, and are measured again until they are good or the deadline is
 * near: a busy machine makes a check longer, but does not make it fail. */
#include <string.h>

#include "conformance/kernel.h"

/* ---- Times ------------------------------------------------------------------------------- */

#define FEWEST_TRIES 5
#define MOST_TRIES   60
#define PATIENCE     (10 * G_USEC_PER_SEC)

typedef struct Tries {
  int count;
  gint64 began;
} Tries;

/* Whether to measure again, given whether the result is good. One fortunate time proves nothing, so
 * there are always a few tries; later ones come after ever longer pauses. */
static gboolean measure_again(Tries *tries, gboolean is_fine) {
  if (tries->count++ == 0)
    tries->began = g_get_monotonic_time();
  if (tries->count < FEWEST_TRIES)
    return TRUE;
  if (is_fine || tries->count == MOST_TRIES || g_get_monotonic_time() - tries->began > PATIENCE)
    return FALSE;
  g_usleep((gulong)tries->count * 5000);
  return TRUE;
}

/* ---- Copies ------------------------------------------------------------------------------ */

/* Returns 16 MiB, or as much as the device has space for, divisible by sixteen. */
static size_t large_copy(const Kit *kit) {
  int64_t free_bytes = bp__kit_int_attr(kit, BP_ATTR_AVAILABLE_GLOBAL_MEMORY, INT64_MAX);
  int64_t most = MIN(free_bytes / 2, bp__kit_int_attr(kit, BP_ATTR_MAX_ALLOCATION, INT64_MAX));
  if (most < (int64_t)1 << 20)
    bp__kit_skip("the device has no room for a copy of 1 MiB, and shorter ones tell nothing");
  return (size_t)MIN(most, (int64_t)16 << 20) / 16 * 16;
}

static gint64 time_upload(const Kit *kit, const void *data, void *handle, size_t size) {
  gint64 began = g_get_monotonic_time();
  bp__kit_upload(kit, data, handle, 0, size, NULL);
  bp__kit_sync(kit, NULL);
  return g_get_monotonic_time() - began;
}

/* Copying sixteen times the bytes takes at most about sixteen times as long. */
static void run_linear(Kit *kit) {
  bp__kit_open_device(kit);
  const size_t large = large_copy(kit), small = large / 16;
  uint8_t *data = g_malloc0(large);
  void *handle = bp__kit_alloc(kit, large);
  gint64 one = G_MAXINT64, many = G_MAXINT64;
  gboolean is_linear;
  Tries tries = {0, 0};
  do {
    one = MIN(one, time_upload(kit, data, handle, small));
    many = MIN(many, time_upload(kit, data, handle, large));
    is_linear = many <= (one + 1000) * 16 * 8;
  } while (measure_again(&tries, is_linear));
  KIT_TRUE(is_linear,
           "a copy of %zu bytes takes %" G_GINT64_FORMAT " us, and one of %zu %" G_GINT64_FORMAT
           " us",
           large, many, small, one);
  bp__kit_free(kit, handle);
  g_free(data);
}

static gint64 time_memcpy(uint8_t *from, uint8_t *to, size_t size) {
  gint64 began = g_get_monotonic_time();
  memcpy(to, from, size);
  from[to[size - 1]]++; /* the result is used, so that the copy is not optimised away */
  return g_get_monotonic_time() - began;
}

/* A copy to a device must not be done byte by byte: 100 times memcpy's time is enough for any
 * bus. */
static void run_bandwidth(Kit *kit) {
  bp__kit_open_device(kit);
  const size_t size = large_copy(kit);
  uint8_t *data = g_malloc0(size), *other = g_malloc0(size);
  void *handle = bp__kit_alloc(kit, size);
  gint64 memory = G_MAXINT64, device = G_MAXINT64;
  gboolean is_fast;
  Tries tries = {0, 0};
  do {
    memory = MIN(memory, time_memcpy(data, other, size));
    device = MIN(device, time_upload(kit, data, handle, size));
    is_fast = device <= (memory + 100) * 100;
  } while (measure_again(&tries, is_fast));
  KIT_TRUE(is_fast,
           "a copy of %zu bytes to the device takes %" G_GINT64_FORMAT
           " us; memcpy does it in %" G_GINT64_FORMAT " us",
           size, device, memory);
  bp__kit_free(kit, handle);
  g_free(data);
  g_free(other);
}

/* ---- Launches ---------------------------------------------------------------------------- */

/* A kernel of %d threads whose time grows with `rounds`: a chain of sums and products that a
 * compiler cannot skip. The loops are nested, because some drivers end a loop after 65,536
 * iterations. */
#define LONG_TEXT                                                                                  \
  "(module (function \"chain\" (buffer A int32 global 64) rounds:int32"                            \
  " (for t:int64 0 %d bound \"threadIdx.x\" (allocate (buffer L int32 local 1) (seq"               \
  " (store L 0 (load A t)) (for i:int32 0:int32 rounds serial (for j:int32 0:int32 1000:int32"     \
  " serial (store L 0 (add (mul (load L 0) 1664525:int32)"                                         \
  " (bit_xor (add i j) 1013904223:int32)))))"                                                      \
  " (store A t (load L 0)))))))"

typedef struct Chain {
  KitCode code;
  BpFunction *function;
  KitBuffer buffer;
  KitArgs args;
} Chain;

static void set_rounds(Chain *chain, int64_t rounds) {
  chain->args.values[1].v_int64 = rounds;
}

/* Microseconds until the call returned, and until the launched work had ended. */
typedef struct Launch {
  gint64 launched, all;
} Launch;

static Launch time_chain(const Kit *kit, const Chain *chain) {
  Launch launch;
  gint64 began = g_get_monotonic_time();
  KIT_OK(bp__kit_launch(chain->function, &chain->args), "the call of a function");
  launch.launched = g_get_monotonic_time() - began;
  KIT_OK(bp_stream_sync(kit->target_device, NULL), "stream_sync");
  launch.all = g_get_monotonic_time() - began;
  return launch;
}

static gboolean is_long(const Kit *kit, const Chain *chain) {
  for (int i = 0; i < FEWEST_TRIES; i++)
    if (time_chain(kit, chain).all <= 50000)
      return FALSE;
  return TRUE;
}

/* Finds a number of rounds that takes at least a twentieth of a second. */
static void calibrate(const Kit *kit, Chain *chain) {
  set_rounds(chain, 1);
  time_chain(kit, chain);
  for (int64_t rounds = 1; rounds < 60000; rounds *= 4) {
    set_rounds(chain, rounds);
    if (is_long(kit, chain))
      return;
  }
  bp__kit_skip("no kernel takes long enough to be measured");
}

static void open_chain(Kit *kit, Chain *chain, int threads) {
  const int32_t zero[64] = {0};
  char *text = g_strdup_printf(LONG_TEXT, threads);
  *chain = (Chain){.code = bp__kit_build(kit, text)};
  g_free(text);
  chain->function = bp__kit_function(chain->code.module, "chain");
  bp__kit_buffer_create(kit, &chain->buffer, KIT_INT32, 64);
  bp__kit_buffer_set(kit, &chain->buffer, zero, NULL);
  bp__kit_args_add(&chain->args, bp__kit_buffer_value(&chain->buffer));
  bp__kit_args_add_int(&chain->args, 1);
  bp__kit_args_add_launch(&chain->args, &chain->code, "chain", threads);
}

static void close_chain(Kit *kit, Chain *chain) {
  bp__kit_buffer_free(kit, &chain->buffer);
  bp_object_release(chain->function);
  bp__kit_code_clear(&chain->code);
}

/* The first call of a function may build its code, which takes a while; later calls must not build
 * it. The kernel has one thread without work, so only building takes long. */
static void run_built_once(Kit *kit) {
  Chain chain;
  gint64 first = G_MAXINT64, best = G_MAXINT64;
  gboolean is_built;
  Tries tries = {0, 0};
  bp__kit_open_target(kit);
  for (int i = 0; i < FEWEST_TRIES; i++) {
    if (i)
      close_chain(kit, &chain);
    open_chain(kit, &chain, 1);
    set_rounds(&chain, 0);
    first = MIN(first, time_chain(kit, &chain).all);
  }
  do {
    best = MIN(best, time_chain(kit, &chain).all);
    is_built = best < 20000 || best < first / 4;
  } while (measure_again(&tries, is_built));
  KIT_TRUE(is_built,
           "the first call takes %" G_GINT64_FORMAT " us, and each other at least %" G_GINT64_FORMAT
           " us",
           first, best);
  close_chain(kit, &chain);
}

/* The call of a long kernel returns before the kernel has ended. */
static void run_asynchronous(Kit *kit) {
  Chain chain;
  Launch best = {G_MAXINT64, G_MAXINT64};
  gboolean is_early;
  Tries tries = {0, 0};
  bp__kit_open_target(kit);
  if (!kit->target_api || !kit->target_api->create_stream)
    bp__kit_skip("the device has one queue, and may run what it is given at once");
  open_chain(kit, &chain, (int)bp__kit_block(kit, 64));
  calibrate(kit, &chain);
  do {
    Launch launch = time_chain(kit, &chain);
    best.launched = MIN(best.launched, launch.launched);
    best.all = MIN(best.all, launch.all);
    is_early = best.launched < best.all / 2;
  } while (measure_again(&tries, is_early));
  KIT_TRUE(is_early,
           "a launch returns after %" G_GINT64_FORMAT " us, and its work has ended after "
           "%" G_GINT64_FORMAT " us",
           best.launched, best.all);
  close_chain(kit, &chain);
}

static const Check copy_checks[] = {
    {"performance.copy-linear",
     "16 MiB, or as much as fits, take at most about sixteen times as long as 1 MiB", "copy.large",
     CHECK_OPTIONAL | CHECK_PERFORMANCE, run_linear},
    {"performance.copy-bandwidth", "a copy to the device takes at most 100 times memcpy's time",
     "copy.large", CHECK_OPTIONAL | CHECK_PERFORMANCE, run_bandwidth},
};

static const Check launch_checks[] = {
    {"performance.built-once", "only the first call of a function builds its code", "launch.order",
     CHECK_OPTIONAL | CHECK_PERFORMANCE, run_built_once},
    {"performance.asynchronous", "the call of a long kernel returns before the kernel has ended",
     "performance.built-once stream.create", CHECK_OPTIONAL | CHECK_PERFORMANCE, run_asynchronous},
};

const Section bp__kit_copy_performance_section = {"performance", NEEDS_DEVICE, copy_checks,
                                                  G_N_ELEMENTS(copy_checks)};
const Section bp__kit_launch_performance_section = {"performance", NEEDS_TARGET, launch_checks,
                                                    G_N_ELEMENTS(launch_checks)};
