/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated cuDNN. The simulation has fewer algorithms than the library, lists some that it
 * refuses, and has convolution, bias and activation in one call only without groups and not for
 * float64. */
#include "tests/mock/fakelibs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BAD_PARAM        2000
#define BAD_SHAPE        2008
#define EXECUTION_FAILED 5000

#define SMALL_WORKSPACE 4096
#define LARGE_WORKSPACE ((size_t)1 << 30)

typedef struct Dims {
  FakeType type;
  int ndim;
  int dims[5];
} Dims;

struct cudnnContext {
  CUcontext context;
  CUstream stream;
};
struct cudnnTensorStruct {
  Dims d;
};
struct cudnnFilterStruct {
  Dims d;
};
typedef struct Window {
  int rank;
  int kernel[3], pads[3], strides[3], dilations[3];
  int groups, mode, math;
} Window;
struct cudnnConvolutionStruct {
  Window w;
  int compute_type;
};
struct cudnnPoolingStruct {
  Window w;
};
struct cudnnActivationStruct {
  int mode;
};

const char *cudnnGetErrorString(int status) {
  return status == BAD_SHAPE          ? "CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH"
         : status / 1000 == 2         ? "CUDNN_STATUS_BAD_PARAM"
         : status / 1000 == 3         ? "CUDNN_STATUS_NOT_SUPPORTED"
         : status / 1000 == 4         ? "CUDNN_STATUS_INTERNAL_ERROR"
         : status == EXECUTION_FAILED ? "CUDNN_STATUS_EXECUTION_FAILED"
                                      : "CUDNN_STATUS_NOT_INITIALIZED";
}

/* ---- Handles and descriptors ------------------------------------------------------------- */

#define CREATE(function, what, kind)                                                               \
  int status = fake_enter(function, 0);                                                            \
  if (status == CUDA_SUCCESS) {                                                                    \
    *what = calloc(1, sizeof(**what));                                                             \
    fake_add(kind, 1);                                                                             \
  }                                                                                                \
  return fake_leave(status)
#define DESTROY(function, what, kind)                                                              \
  fake_enter(function, 0);                                                                         \
  free(what);                                                                                      \
  fake_add(kind, -1);                                                                              \
  return fake_leave(0)

int cudnnCreate(cudnnHandle_t *handle) {
  int status = fake_enter("cudnnCreate", 1);
  if (status == CUDA_SUCCESS) {
    *handle = calloc(1, sizeof(**handle));
    (*handle)->context = fake_current();
    fake_add("handle", 1);
  }
  return fake_leave(status);
}

int cudnnDestroy(cudnnHandle_t handle) {
  DESTROY("cudnnDestroy", handle, "handle");
}

int cudnnSetStream(cudnnHandle_t handle, CUstream stream) {
  int status = fake_enter("cudnnSetStream", 1);
  if (status == CUDA_SUCCESS && stream && !fake_is_stream(stream, handle->context->device))
    status = BAD_PARAM;
  if (status == CUDA_SUCCESS)
    handle->stream = stream;
  return fake_leave(status);
}

int cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *tensor) {
  CREATE("cudnnCreateTensorDescriptor", tensor, "descriptor");
}

int cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  DESTROY("cudnnDestroyTensorDescriptor", tensor, "descriptor");
}

int cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *filter) {
  CREATE("cudnnCreateFilterDescriptor", filter, "descriptor");
}

int cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  DESTROY("cudnnDestroyFilterDescriptor", filter, "descriptor");
}

int cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *convolution) {
  CREATE("cudnnCreateConvolutionDescriptor", convolution, "descriptor");
}

int cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convolution) {
  DESTROY("cudnnDestroyConvolutionDescriptor", convolution, "descriptor");
}

int cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t *activation) {
  CREATE("cudnnCreateActivationDescriptor", activation, "descriptor");
}

int cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t activation) {
  DESTROY("cudnnDestroyActivationDescriptor", activation, "descriptor");
}

int cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t *pooling) {
  CREATE("cudnnCreatePoolingDescriptor", pooling, "descriptor");
}

int cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t pooling) {
  DESTROY("cudnnDestroyPoolingDescriptor", pooling, "descriptor");
}

/* Accepts tensors of 4 or 5 dimensions of the supported types. */
static int set_dims(Dims *d, int type, int ndim, const int *dims) {
  const int types[] = {
      [CUDNN_DATA_FLOAT] = FAKE_F32, [CUDNN_DATA_DOUBLE] = FAKE_F64, [CUDNN_DATA_HALF] = FAKE_F16};
  if (type < 0 || type > CUDNN_DATA_HALF || ndim < 4 || ndim > 5)
    return CUDNN_STATUS_NOT_SUPPORTED;
  d->type = (FakeType)types[type];
  d->ndim = ndim;
  for (int i = 0; i < 5; i++)
    d->dims[i] = i < ndim ? dims[i] : 1;
  for (int i = 0; i < ndim; i++)
    if (dims[i] < 1)
      return BAD_PARAM;
  return 0;
}

int cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, int type, int ndim, const int *dims,
                               const int *strides) {
  int status = set_dims(&tensor->d, type, ndim, dims), stride = 1;
  for (int i = ndim - 1; i >= 0 && !status; i--) {
    if (strides[i] != stride)
      status = CUDNN_STATUS_NOT_SUPPORTED; /* the simulation has only compact tensors */
    stride *= dims[i];
  }
  return status;
}

int cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filter, int type, int format, int ndim,
                               const int *dims) {
  return format == CUDNN_TENSOR_NCHW ? set_dims(&filter->d, type, ndim, dims)
                                     : CUDNN_STATUS_NOT_SUPPORTED;
}

static int set_window(Window *w, int rank, const int *kernel, const int *pads, const int *strides,
                      const int *dilations) {
  if (rank < 2 || rank > 3)
    return CUDNN_STATUS_NOT_SUPPORTED;
  w->rank = rank;
  for (int i = 0; i < 3; i++) {
    w->kernel[i] = kernel && i < rank ? kernel[i] : 1;
    w->pads[i] = i < rank ? pads[i] : 0;
    w->strides[i] = i < rank ? strides[i] : 1;
    w->dilations[i] = dilations && i < rank ? dilations[i] : 1;
    if (w->kernel[i] < 1 || w->pads[i] < 0 || w->strides[i] < 1 || w->dilations[i] < 1)
      return BAD_PARAM;
  }
  return 0;
}

int cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t convolution, int rank,
                                    const int *pads, const int *strides, const int *dilations,
                                    int mode, int compute_type) {
  convolution->w.groups = 1;
  convolution->compute_type = compute_type;
  return mode == CUDNN_CROSS_CORRELATION
             ? set_window(&convolution->w, rank, NULL, pads, strides, dilations)
             : CUDNN_STATUS_NOT_SUPPORTED;
}

int cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution, int groups) {
  convolution->w.groups = groups;
  return groups < 1 ? BAD_PARAM : 0;
}

int cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution, int math) {
  convolution->w.math = math;
  return 0;
}

int cudnnSetActivationDescriptor(cudnnActivationDescriptor_t activation, int mode, int nans,
                                 double coefficient) {
  (void)coefficient;
  activation->mode = mode;
  return mode == CUDNN_ACTIVATION_RELU && nans == CUDNN_NOT_PROPAGATE_NAN
             ? 0
             : CUDNN_STATUS_NOT_SUPPORTED;
}

int cudnnSetPoolingNdDescriptor(cudnnPoolingDescriptor_t pooling, int mode, int nans, int rank,
                                const int *window, const int *pads, const int *strides) {
  pooling->w.mode = mode;
  return nans == CUDNN_PROPAGATE_NAN ? set_window(&pooling->w, rank, window, pads, strides, NULL)
                                     : CUDNN_STATUS_NOT_SUPPORTED;
}

/* ---- Tensors ----------------------------------------------------------------------------- */

static int64_t count_of(const Dims *d) {
  int64_t count = 1;
  for (int i = 0; i < d->ndim; i++)
    count *= d->dims[i];
  return count;
}

static int same_dims(const Dims *a, const Dims *b) {
  return a->type == b->type && a->ndim == b->ndim && !memcmp(a->dims, b->dims, sizeof(a->dims));
}

static double factor(FakeType type, const void *scalar) {
  return type == FAKE_F64 ? *(const double *)scalar : (double)*(const float *)scalar;
}

/* Work of any operator. */
typedef struct Work {
  Dims x, y, a; /* a: the weights of a convolution, the operand that is added */
  Window w;
  const void *x_data, *a_data, *z_data, *bias;
  void *y_data, *workspace;
  size_t workspace_size;
  double alpha, beta, share;
  int activates, algorithm;
} Work;

_Static_assert(sizeof(Work) <= FAKE_MOST_WORK, "work fits into a command");

static void *elements(int device, const void *data, const Dims *d) {
  return fake_elements(device, data, d->type, count_of(d));
}

/* Queues work; `function` is the name of the call, for failures on demand. */
static int queue(const char *function, cudnnHandle_t handle,
                 CUresult (*run)(FakeCommand *command, int device), const Work *work, int refusal) {
  int status = fake_enter(function, 1);
  if (status == CUDA_SUCCESS && handle->context != fake_current())
    status = BAD_PARAM;
  if (status == CUDA_SUCCESS)
    status = refusal;
  if (status == CUDA_SUCCESS && fake_queue(handle->stream, run, work, sizeof(*work)))
    status = EXECUTION_FAILED;
  fake_add("tf32", work->x.type == FAKE_F32 && work->w.math == CUDNN_TENSOR_OP_MATH);
  return fake_leave(status);
}

/* Whether the extents of y are those that the window gives. */
static int fits_window(const Dims *x, const Dims *y, const Window *w) {
  for (int i = 0; i < w->rank; i++) {
    int room = x->dims[i + 2] + 2 * w->pads[i] - ((w->kernel[i] - 1) * w->dilations[i] + 1);
    if (room < 0 || room / w->strides[i] + 1 != y->dims[i + 2])
      return 0;
  }
  return x->ndim == w->rank + 2 && y->ndim == x->ndim && x->type == y->type &&
         x->dims[0] == y->dims[0];
}

/* The offset in x of a tap of the window at a place of y; -1: it is in the padding. `tap` and `at`
 * have 3 spatial dimensions. */
static int64_t place_of(const Work *work, const int *at, const int *tap) {
  int64_t offset = 0;
  for (int i = 0; i < 3; i++) {
    int extent = work->x.dims[i + 2];
    int place = at[i] * work->w.strides[i] - work->w.pads[i] + tap[i] * work->w.dilations[i];
    if (place < 0 || place >= extent)
      return -1;
    offset = offset * extent + place;
  }
  return offset;
}

static void split(int64_t index, const int *dims, int *parts) {
  for (int i = 2; i >= 0; i--) {
    parts[i] = (int)(index % dims[i]);
    index /= dims[i];
  }
}

static int64_t spatial(const int *dims) {
  return (int64_t)dims[0] * dims[1] * dims[2];
}

/* ---- Convolutions ------------------------------------------------------------------------ */

static double convolve(const Work *work, const void *x, const void *w, int64_t n, int64_t k,
                       const int *at) {
  const int *taps = &work->a.dims[2];
  int64_t channels = work->a.dims[1], per_group = work->a.dims[0] / work->w.groups;
  int64_t first = k / per_group * channels, in = spatial(&work->x.dims[2]);
  double sum = 0;
  for (int64_t c = 0; c < channels; c++)
    for (int64_t t = 0; t < spatial(taps); t++) {
      int tap[3];
      split(t, taps, tap);
      int64_t place = place_of(work, at, tap);
      if (place >= 0)
        sum += fake_load(work->x.type, x, (n * work->x.dims[1] + first + c) * in + place) *
               fake_load(work->a.type, w, (k * channels + c) * spatial(taps) + t);
    }
  return sum;
}

static CUresult run_conv(FakeCommand *command, int device) {
  Work work;
  memcpy(&work, command->args, sizeof(work));
  FakeType type = work.y.type;
  const void *x = elements(device, work.x_data, &work.x);
  const void *w = elements(device, work.a_data, &work.a);
  const void *z = elements(device, work.z_data, &work.y);
  const void *bias = fake_elements(device, work.bias, type, work.y.dims[1]);
  void *y = elements(device, work.y_data, &work.y);
  void *workspace =
      work.workspace_size
          ? fake_resolve(device, (CUdeviceptr)(uintptr_t)work.workspace, work.workspace_size)
          : NULL;
  if (!x || !w || !y || (work.workspace_size && !workspace) || (work.bias && (!bias || !z)))
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  if (workspace)
    memset(workspace, 0xee, work.workspace_size);
  const int *out = &work.y.dims[2];
  for (int64_t i = 0; i < count_of(&work.y); i++) {
    int at[3];
    int64_t k = i / spatial(out) % work.y.dims[1], n = i / spatial(out) / work.y.dims[1];
    split(i % spatial(out), out, at);
    double sum = work.alpha * convolve(&work, x, w, n, k, at);
    if (work.beta != 0)
      sum += work.beta * fake_load(type, y, i);
    if (work.bias)
      sum += fake_load(type, bias, k);
    if (work.share != 0)
      sum += work.share * fake_load(type, z, i);
    fake_store(type, y, i, work.activates && !(sum > 0) ? 0 : sum);
  }
  return CUDA_SUCCESS;
}

/* Returns 0, or why these descriptors are no convolution. */
static int check_conv(const Dims *x, const Dims *w, cudnnConvolutionDescriptor_t convolution,
                      const Dims *y) {
  Window window = convolution->w;
  for (int i = 0; i < window.rank; i++)
    window.kernel[i] = w->dims[i + 2];
  if (w->ndim != x->ndim || !fits_window(x, y, &window) || y->dims[1] != w->dims[0] ||
      x->dims[1] != w->dims[1] * window.groups || w->dims[0] % window.groups)
    return BAD_SHAPE;
  return w->type == x->type && convolution->compute_type ==
                                   (x->type == FAKE_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT)
             ? 0
             : CUDNN_STATUS_NOT_SUPPORTED;
}

/* 0 and 1 are the algorithms that the simulation has; 5 needs too much memory. */
static int workspace_of(int algorithm, size_t *size) {
  *size = algorithm == 1 ? SMALL_WORKSPACE : algorithm == 5 ? LARGE_WORKSPACE : 0;
  return algorithm == 0 || algorithm == 1 || algorithm == 5 ? 0 : CUDNN_STATUS_NOT_SUPPORTED;
}

int cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                           cudnnFilterDescriptor_t w,
                                           cudnnConvolutionDescriptor_t convolution,
                                           cudnnTensorDescriptor_t y, int most, int *count,
                                           cudnnConvolutionFwdAlgoPerf_t *answers) {
  static const int order[] = {6, 4, 5, 1, 0};
  int status = fake_enter("cudnnGetConvolutionForwardAlgorithm_v7", 1);
  if (status == CUDA_SUCCESS && handle->context != fake_current())
    status = BAD_PARAM;
  if (status == CUDA_SUCCESS)
    status = check_conv(&x->d, &w->d, convolution, &y->d);
  *count = 0;
  for (int i = 0; i < 5 && i < most && !status; i++) {
    cudnnConvolutionFwdAlgoPerf_t *answer = &answers[(*count)++];
    memset(answer, 0, sizeof(*answer));
    answer->algo = order[i];
    answer->status = order[i] == 6 ? CUDNN_STATUS_NOT_SUPPORTED : 0;
    workspace_of(order[i], &answer->memory);
  }
  return fake_leave(status);
}

int cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                            cudnnFilterDescriptor_t w,
                                            cudnnConvolutionDescriptor_t convolution,
                                            cudnnTensorDescriptor_t y, int algorithm,
                                            size_t *size) {
  (void)handle;
  int status = check_conv(&x->d, &w->d, convolution, &y->d);
  return status ? status : workspace_of(algorithm, size);
}

int cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t x_desc,
                            const void *x, cudnnFilterDescriptor_t w_desc, const void *w,
                            cudnnConvolutionDescriptor_t convolution, int algorithm,
                            void *workspace, size_t size, const void *beta,
                            cudnnTensorDescriptor_t y_desc, void *y) {
  size_t needed = 0;
  int refusal = check_conv(&x_desc->d, &w_desc->d, convolution, &y_desc->d);
  FakeType type = x_desc->d.type;
  Work work = {.x = x_desc->d,
               .y = y_desc->d,
               .a = w_desc->d,
               .w = convolution->w,
               .x_data = x,
               .a_data = w,
               .y_data = y,
               .workspace = workspace,
               .workspace_size = size,
               .alpha = factor(type, alpha),
               .beta = factor(type, beta)};
  if (!refusal)
    refusal = workspace_of(algorithm, &needed);
  if (!refusal && size < needed)
    refusal = BAD_PARAM;
  return queue("cudnnConvolutionForward", handle, run_conv, &work, refusal);
}

int cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void *alpha1, cudnnTensorDescriptor_t x_desc, const void *x,
    cudnnFilterDescriptor_t w_desc, const void *w, cudnnConvolutionDescriptor_t convolution,
    int algorithm, void *workspace, size_t size, const void *alpha2, cudnnTensorDescriptor_t z_desc,
    const void *z, cudnnTensorDescriptor_t bias_desc, const void *bias,
    cudnnActivationDescriptor_t activation, cudnnTensorDescriptor_t y_desc, void *y) {
  size_t needed = 0;
  int refusal = check_conv(&x_desc->d, &w_desc->d, convolution, &y_desc->d);
  FakeType type = x_desc->d.type;
  Work work = {.x = x_desc->d,
               .y = y_desc->d,
               .a = w_desc->d,
               .w = convolution->w,
               .x_data = x,
               .a_data = w,
               .z_data = z,
               .bias = bias,
               .y_data = y,
               .workspace = workspace,
               .workspace_size = size,
               .alpha = factor(type, alpha1),
               .share = factor(type, alpha2),
               .activates = activation->mode == CUDNN_ACTIVATION_RELU};
  if (!refusal &&
      (!same_dims(&z_desc->d, &y_desc->d) || bias_desc->d.dims[1] != y_desc->d.dims[1] ||
       count_of(&bias_desc->d) != y_desc->d.dims[1] || !bias))
    refusal = BAD_SHAPE;
  if (!refusal && (type == FAKE_F64 || convolution->w.groups > 1))
    refusal = CUDNN_STATUS_NOT_SUPPORTED + 3;
  if (!refusal)
    refusal = workspace_of(algorithm, &needed);
  if (!refusal && size < needed)
    refusal = BAD_PARAM;
  return queue("cudnnConvolutionBiasActivationForward", handle, run_conv, &work, refusal);
}

/* ---- Pooling ----------------------------------------------------------------------------- */

static double pool(const Work *work, const void *x, int64_t plane, const int *at) {
  int64_t in = spatial(&work->x.dims[2]);
  double sum = 0, largest = -(double)INFINITY;
  int count = 0;
  for (int64_t t = 0; t < spatial(work->w.kernel); t++) {
    int tap[3];
    split(t, work->w.kernel, tap);
    int64_t place = place_of(work, at, tap);
    double value = place < 0 ? 0 : fake_load(work->x.type, x, plane * in + place);
    count += place >= 0;
    sum += value;
    if (place >= 0 && (isnan(value) || value > largest))
      largest = value;
  }
  return work->w.mode == CUDNN_POOLING_MAX ? largest
         : work->w.mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING
             ? sum / (double)spatial(work->w.kernel)
             : sum / count;
}

static CUresult run_pool(FakeCommand *command, int device) {
  Work work;
  memcpy(&work, command->args, sizeof(work));
  const void *x = elements(device, work.x_data, &work.x);
  void *y = elements(device, work.y_data, &work.y);
  const int *out = &work.y.dims[2];
  if (!x || !y)
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (int64_t i = 0; i < count_of(&work.y); i++) {
    int at[3];
    split(i % spatial(out), out, at);
    fake_store(work.y.type, y, i, pool(&work, x, i / spatial(out), at));
  }
  return CUDA_SUCCESS;
}

int cudnnPoolingForward(cudnnHandle_t handle, cudnnPoolingDescriptor_t pooling, const void *alpha,
                        cudnnTensorDescriptor_t x_desc, const void *x, const void *beta,
                        cudnnTensorDescriptor_t y_desc, void *y) {
  Work work = {.x = x_desc->d, .y = y_desc->d, .w = pooling->w, .x_data = x, .y_data = y};
  FakeType type = x_desc->d.type;
  int refusal = !fits_window(&work.x, &work.y, &work.w) || work.x.dims[1] != work.y.dims[1]
                    ? BAD_SHAPE
                : factor(type, alpha) != 1 || factor(type, beta) != 0 ? CUDNN_STATUS_NOT_SUPPORTED
                                                                      : 0;
  return queue("cudnnPoolingForward", handle, run_pool, &work, refusal);
}

/* ---- Softmax ----------------------------------------------------------------------------- */

/* One sum, over the elements `first`, `first + step` and so on. */
static void soften(const Work *work, const void *x, void *y, int64_t first, int64_t step) {
  FakeType type = work->x.type;
  double largest = -(double)INFINITY, sum = 0;
  for (int64_t c = 0; c < work->x.dims[1]; c++)
    largest = fmax(largest, fake_load(type, x, first + c * step));
  for (int64_t c = 0; c < work->x.dims[1]; c++)
    sum += exp(fake_load(type, x, first + c * step) - largest);
  for (int64_t c = 0; c < work->x.dims[1]; c++) {
    double value = fake_load(type, x, first + c * step) - largest;
    fake_store(type, y, first + c * step,
               work->algorithm == CUDNN_SOFTMAX_LOG ? value - log(sum) : exp(value) / sum);
  }
}

static CUresult run_softmax(FakeCommand *command, int device) {
  Work work;
  memcpy(&work, command->args, sizeof(work));
  const void *x = elements(device, work.x_data, &work.x);
  void *y = elements(device, work.y_data, &work.x);
  int64_t step = spatial(&work.x.dims[2]);
  if (!x || !y)
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (int64_t n = 0; n < work.x.dims[0]; n++)
    for (int64_t i = 0; i < step; i++)
      soften(&work, x, y, n * work.x.dims[1] * step + i, step);
  return CUDA_SUCCESS;
}

int cudnnSoftmaxForward(cudnnHandle_t handle, int algorithm, int mode, const void *alpha,
                        cudnnTensorDescriptor_t x_desc, const void *x, const void *beta,
                        cudnnTensorDescriptor_t y_desc, void *y) {
  Work work = {.x = x_desc->d, .x_data = x, .y_data = y, .algorithm = algorithm};
  FakeType type = x_desc->d.type;
  int refusal = mode != CUDNN_SOFTMAX_MODE_CHANNEL || factor(type, alpha) != 1 ||
                        factor(type, beta) != 0 || !same_dims(&x_desc->d, &y_desc->d)
                    ? CUDNN_STATUS_NOT_SUPPORTED
                    : 0;
  return queue("cudnnSoftmaxForward", handle, run_softmax, &work, refusal);
}

/* ---- Elements ---------------------------------------------------------------------------- */

/* y = alpha * a + beta * y; an extent of 1 of `a` is repeated. */
static CUresult run_add(FakeCommand *command, int device) {
  Work work;
  memcpy(&work, command->args, sizeof(work));
  const void *a = elements(device, work.a_data, &work.a);
  void *y = elements(device, work.y_data, &work.y);
  if (!a || !y)
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (int64_t i = 0; i < count_of(&work.y); i++) {
    int64_t rest = i, offset = 0, step = 1;
    for (int k = 4; k >= 0; k--) {
      offset += work.a.dims[k] == 1 ? 0 : rest % work.y.dims[k] * step;
      step *= work.a.dims[k];
      rest /= work.y.dims[k];
    }
    fake_store(work.y.type, y, i,
               work.alpha * fake_load(work.a.type, a, offset) +
                   work.beta * fake_load(work.y.type, y, i));
  }
  return CUDA_SUCCESS;
}

int cudnnAddTensor(cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t a_desc,
                   const void *a, const void *beta, cudnnTensorDescriptor_t c_desc, void *c) {
  FakeType type = c_desc->d.type;
  Work work = {.a = a_desc->d,
               .y = c_desc->d,
               .a_data = a,
               .y_data = c,
               .alpha = factor(type, alpha),
               .beta = factor(type, beta)};
  int refusal = a_desc->d.ndim != c_desc->d.ndim || a_desc->d.type != type ? BAD_SHAPE : 0;
  for (int i = 0; i < 5; i++)
    if (work.a.dims[i] != 1 && work.a.dims[i] != work.y.dims[i])
      refusal = BAD_SHAPE;
  return queue("cudnnAddTensor", handle, run_add, &work, refusal);
}

static CUresult run_relu(FakeCommand *command, int device) {
  Work work;
  memcpy(&work, command->args, sizeof(work));
  const void *x = elements(device, work.x_data, &work.x);
  void *y = elements(device, work.y_data, &work.x);
  if (!x || !y)
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (int64_t i = 0; i < count_of(&work.x); i++) {
    double value = fake_load(work.x.type, x, i);
    fake_store(work.x.type, y, i, value > 0 ? value : 0);
  }
  return CUDA_SUCCESS;
}

int cudnnActivationForward(cudnnHandle_t handle, cudnnActivationDescriptor_t activation,
                           const void *alpha, cudnnTensorDescriptor_t x_desc, const void *x,
                           const void *beta, cudnnTensorDescriptor_t y_desc, void *y) {
  Work work = {.x = x_desc->d, .x_data = x, .y_data = y};
  FakeType type = x_desc->d.type;
  int refusal = activation->mode != CUDNN_ACTIVATION_RELU || factor(type, alpha) != 1 ||
                        factor(type, beta) != 0 || !same_dims(&x_desc->d, &y_desc->d)
                    ? CUDNN_STATUS_NOT_SUPPORTED
                    : 0;
  return queue("cudnnActivationForward", handle, run_relu, &work, refusal);
}
