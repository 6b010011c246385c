/* SPDX-License-Identifier: Apache-2.0 */
/* The header that fakenvrtc includes before CUDA C++, so that the host's C++ compiler accepts it. A
 * template runs a kernel: the threads of a block are threads of the host if the kernel has
 * barriers, and run one after the other otherwise. */
#ifndef TESTS_MOCK_FAKECUDA_KERNEL_H
#define TESTS_MOCK_FAKECUDA_KERNEL_H

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __shared__ static

struct FakeIndex {
  unsigned x, y, z;
};
static thread_local FakeIndex threadIdx, blockIdx;
static FakeIndex blockDim, gridDim;
static pthread_barrier_t *fake_barrier;
/* The memory of `extern __shared__`, which fakenvrtc makes a pointer. */
static char *fake_dynamic;

static inline void __syncthreads() {
  if (fake_barrier)
    pthread_barrier_wait(fake_barrier);
}

/* ---- Functions that CUDA has ----------------------------------------------------------------- */

template <typename T, typename F> static T fake_bits(F from) {
  T to;
  memcpy(&to, &from, sizeof(T));
  return to;
}
static inline float __int_as_float(int a) {
  return fake_bits<float>(a);
}
static inline int __float_as_int(float a) {
  return fake_bits<int>(a);
}
static inline double __longlong_as_double(long long a) {
  return fake_bits<double>(a);
}
static inline float rsqrtf(float a) {
  return 1 / sqrtf(a);
}
static inline double rsqrt(double a) {
  return 1 / sqrt(a);
}
static inline int __popc(unsigned a) {
  return __builtin_popcount(a);
}
static inline int __popcll(unsigned long long a) {
  return __builtin_popcountll(a);
}

/* cvt.f32.f16 */
static inline float fake_half_to_float(unsigned short h) {
  int exponent = h >> 10 & 31, fraction = h & 1023;
  float value = exponent == 31 ? (fraction ? NAN : INFINITY)
                : exponent     ? ldexpf((float)(fraction + 1024), exponent - 25)
                               : ldexpf((float)fraction, -24);
  return h & 0x8000 ? -value : value;
}

/* cvt.rn.f16.f32 */
static inline unsigned short fake_float_to_half(float f) {
  unsigned short sign = signbit(f) ? 0x8000 : 0;
  if (f != f)
    return 0x7fff;
  f = fabsf(f);
  if (f >= 65520)
    return sign | 0x7c00;
  if (f < 0x1p-14f)
    return sign | (unsigned short)nearbyintf(f * 0x1p24f);
  int exponent;
  float fraction = frexpf(f, &exponent); /* 0.5 to 1 */
  unsigned rounded = (unsigned)nearbyintf(fraction * 2048) - 1024;
  return sign | (unsigned short)(((unsigned)(exponent + 14) << 10) + rounded);
}

/* add.f16, sub.f16, mul.f16 */
#define FAKE_HALF(a, OP, b)                                                                        \
  fake_float_to_half(                                                                              \
      fake_half_to_float((unsigned short)(a)) OP fake_half_to_float((unsigned short)(b)))

/* fma.rn.f16 */
static inline unsigned short fake_half_fma(unsigned short a, unsigned short b, unsigned short c) {
  double product = (double)fake_half_to_float(a) * (double)fake_half_to_float(b);
  return fake_float_to_half((float)(product + (double)fake_half_to_float(c)));
}

/* ---- Running a kernel ------------------------------------------------------------------------ */

typedef void *(*FakeResolve)(unsigned long long data);

/* Reads a parameter from the driver's copy, in which a pointer is a handle. */
template <typename T> struct FakeParam {
  static T get(const void *place, FakeResolve, int *) {
    T value;
    memcpy(&value, place, sizeof(T));
    return value;
  }
};
template <typename T> struct FakeParam<T *> {
  static T *get(const void *place, FakeResolve resolve, int *rc) {
    unsigned long long handle;
    memcpy(&handle, place, sizeof(handle));
    T *data = static_cast<T *>(handle ? resolve(handle) : nullptr);
    if (handle && !data)
      *rc = -1;
    return data;
  }
};

template <int... I> struct FakeIndices {};
template <int N, int... I> struct FakeCount : FakeCount<N - 1, N - 1, I...> {};
template <int... I> struct FakeCount<0, I...> { typedef FakeIndices<I...> type; };

struct FakeWork {
  void (*call)(void *kernel, void **params, FakeResolve resolve, int *rc);
  void *kernel;
  void **params;
  FakeResolve resolve;
  unsigned thread;
  int rc;
};

template <typename... A> struct FakeCall {
  typedef void (*Kernel)(A...);
  template <int... I>
  static void spread(FakeIndices<I...>, Kernel kernel, void **params, FakeResolve resolve,
                     int *rc) {
    (void)params;
    (void)resolve;
    struct Pack {
      void (*dummy)();
    };
    int failed = 0;
    apply(kernel, &failed, FakeParam<A>::get(params[I], resolve, &failed)...);
    if (failed)
      *rc = -1;
  }
  static void apply(Kernel kernel, int *failed, A... args) {
    if (!*failed)
      kernel(args...);
  }
  static void call(void *kernel, void **params, FakeResolve resolve, int *rc) {
    spread(typename FakeCount<sizeof...(A)>::type(), (Kernel)kernel, params, resolve, rc);
  }
};

static inline FakeIndex fake_index(unsigned number, FakeIndex extents) {
  return FakeIndex{number % extents.x, number / extents.x % extents.y,
                   number / extents.x / extents.y};
}

/* One thread of every block, block after block. */
static void *fake_thread(void *data) {
  FakeWork *work = static_cast<FakeWork *>(data);
  unsigned long long blocks = 1ull * gridDim.x * gridDim.y * gridDim.z;
  threadIdx = fake_index(work->thread, blockDim);
  for (unsigned long long b = 0; b < blocks; b++) {
    blockIdx = fake_index((unsigned)b, gridDim);
    work->call(work->kernel, work->params, work->resolve, &work->rc);
    __syncthreads();
  }
  return nullptr;
}

static int fake_run_threads(const FakeWork &work, unsigned threads) {
  pthread_barrier_t barrier;
  pthread_t *ids = static_cast<pthread_t *>(calloc(threads, sizeof(pthread_t)));
  FakeWork *works = static_cast<FakeWork *>(calloc(threads, sizeof(FakeWork)));
  int rc = 0;
  pthread_barrier_init(&barrier, nullptr, threads);
  fake_barrier = &barrier;
  for (unsigned i = 0; i < threads; i++) {
    works[i] = work;
    works[i].thread = i;
    if (pthread_create(&ids[i], nullptr, fake_thread, &works[i]) != 0)
      abort();
  }
  for (unsigned i = 0; i < threads; i++) {
    pthread_join(ids[i], nullptr);
    rc |= works[i].rc;
  }
  fake_barrier = nullptr;
  pthread_barrier_destroy(&barrier);
  free(ids);
  free(works);
  return rc;
}

template <typename... A>
static int fake_run(void (*kernel)(A...), int has_barriers, void **params, const unsigned *grid,
                    const unsigned *block, unsigned shared, FakeResolve resolve) {
  FakeWork work = {FakeCall<A...>::call, (void *)kernel, params, resolve, 0, 0};
  gridDim = FakeIndex{grid[0], grid[1], grid[2]};
  blockDim = FakeIndex{block[0], block[1], block[2]};
  unsigned threads = block[0] * block[1] * block[2];
  fake_dynamic = static_cast<char *>(aligned_alloc(64, (shared + 127) / 64 * 64));
  if (has_barriers && threads > 1) {
    work.rc = fake_run_threads(work, threads);
  } else {
    for (work.thread = 0; work.thread < threads; work.thread++)
      fake_thread(&work);
  }
  free(fake_dynamic);
  return work.rc;
}

template <typename... A> constexpr unsigned fake_num_params(void (*)(A...)) {
  return sizeof...(A);
}

/* For a kernel: fake_run_NAME, and fake_sizes_NAME as the driver reads them. */
template <typename... A> struct FakeSizes { unsigned numbers[sizeof...(A) + 2]; };
template <typename... A> static FakeSizes<A...> fake_sizes(void (*)(A...), unsigned bound) {
  return FakeSizes<A...>{{sizeof...(A), bound, (unsigned)sizeof(A)...}};
}
#define FAKE_KERNEL(name, bound, has_barriers)                                                     \
  extern "C" __attribute__((visibility("default"))) int fake_run_##name(                           \
      void **params, const unsigned *grid, const unsigned *block, unsigned shared,                 \
      FakeResolve resolve) {                                                                       \
    return fake_run(name, has_barriers, params, grid, block, shared, resolve);                     \
  }                                                                                                \
  extern "C" __attribute__((visibility("default"))) auto fake_sizes_##name =                       \
      fake_sizes(name, bound);

#endif
