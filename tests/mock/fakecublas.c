/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated cuBLAS. */
#include "tests/mock/fakelibs.h"

#include <stdlib.h>
#include <string.h>

#define STATUS_INVALID_VALUE    7
#define STATUS_EXECUTION_FAILED 13
#define STATUS_NOT_SUPPORTED    15

struct cublasContext {
  CUcontext context;
  CUstream stream;
  int math;
};

const char *cublasGetStatusString(int status) {
  switch (status) {
  case CUBLAS_STATUS_NOT_INITIALIZED:
    return "the library was not initialized";
  case CUBLAS_STATUS_ALLOC_FAILED:
    return "the resource allocation failed";
  case STATUS_EXECUTION_FAILED:
    return "the GPU program failed to execute";
  default:
    return "an unsupported value or parameter was passed to the function";
  }
}

int cublasCreate_v2(cublasHandle_t *handle) {
  int status = fake_enter("cublasCreate_v2", 1);
  if (status == CUDA_SUCCESS) {
    *handle = calloc(1, sizeof(**handle));
    (*handle)->context = fake_current();
    fake_add("handle", 1);
  }
  return fake_leave(status);
}

int cublasDestroy_v2(cublasHandle_t handle) {
  int status = fake_enter("cublasDestroy_v2", 0);
  free(handle);
  fake_add("handle", -1);
  return fake_leave(status);
}

int cublasSetStream_v2(cublasHandle_t handle, CUstream stream) {
  int status = fake_enter("cublasSetStream_v2", 1);
  if (status == CUDA_SUCCESS && stream && !fake_is_stream(stream, handle->context->device))
    status = STATUS_INVALID_VALUE;
  if (status == CUDA_SUCCESS)
    handle->stream = stream;
  return fake_leave(status);
}

int cublasSetMathMode(cublasHandle_t handle, int mode) {
  handle->math = mode;
  return fake_leave(fake_enter("cublasSetMathMode", 1));
}

/* ---- Products ---------------------------------------------------------------------------- */

typedef struct Gemm {
  int op_a, op_b, m, n, k, lda, ldb, ldc, batch;
  FakeType type;
  long long stride_a, stride_b, stride_c;
  const void *a, *b;
  void *c;
  double alpha, beta;
} Gemm;

/* Elements from the first to the last of a batch of column-major matrices. */
static int64_t extent(int columns, int ld, int rows, long long stride, int batch) {
  return (int64_t)(columns - 1) * ld + rows + (batch - 1) * stride;
}

static CUresult run_gemm(FakeCommand *command, int device) {
  Gemm g;
  memcpy(&g, command->args, sizeof(g));
  int rows_a = g.op_a ? g.k : g.m, columns_a = g.op_a ? g.m : g.k;
  int rows_b = g.op_b ? g.n : g.k, columns_b = g.op_b ? g.k : g.n;
  const void *a =
      fake_elements(device, g.a, g.type, extent(columns_a, g.lda, rows_a, g.stride_a, g.batch));
  const void *b =
      fake_elements(device, g.b, g.type, extent(columns_b, g.ldb, rows_b, g.stride_b, g.batch));
  void *c = fake_elements(device, g.c, g.type, extent(g.n, g.ldc, g.m, g.stride_c, g.batch));
  if (!a || !b || !c)
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (int64_t t = 0; t < g.batch; t++)
    for (int64_t j = 0; j < g.n; j++)
      for (int64_t i = 0; i < g.m; i++) {
        int64_t at = t * g.stride_c + j * g.ldc + i;
        double sum = 0;
        for (int64_t l = 0; l < g.k; l++) {
          int64_t in_a = g.op_a ? i * g.lda + l : l * g.lda + i;
          int64_t in_b = g.op_b ? l * g.ldb + j : j * g.ldb + l;
          sum += fake_load(g.type, a, t * g.stride_a + in_a) *
                 fake_load(g.type, b, t * g.stride_b + in_b);
        }
        sum *= g.alpha;
        if (g.beta != 0)
          sum += g.beta * fake_load(g.type, c, at);
        fake_store(g.type, c, at, sum);
      }
  return CUDA_SUCCESS;
}

static int find_type(int type, FakeType *found) {
  const int types[] = {[FAKE_F32] = CUDA_R_32F,
                       [FAKE_F64] = CUDA_R_64F,
                       [FAKE_F16] = CUDA_R_16F,
                       [FAKE_BF16] = CUDA_R_16BF};
  for (int i = 0; i < 4; i++)
    if (types[i] == type)
      *found = (FakeType)i;
  return type == types[*found];
}

/* Checks the leading dimensions, and that the result's matrices do not overlap. */
static int is_valid(const Gemm *g) {
  return (g->op_a == CUBLAS_OP_N || g->op_a == CUBLAS_OP_T) &&
         (g->op_b == CUBLAS_OP_N || g->op_b == CUBLAS_OP_T) && g->m > 0 && g->n > 0 && g->k > 0 &&
         g->batch > 0 && g->lda >= (g->op_a ? g->k : g->m) && g->ldb >= (g->op_b ? g->n : g->k) &&
         g->ldc >= g->m && (g->batch == 1 || g->stride_c >= (long long)g->ldc * g->n);
}

int cublasGemmStridedBatchedEx(cublasHandle_t handle, int op_a, int op_b, int m, int n, int k,
                               const void *alpha, const void *a, int a_type, int lda,
                               long long stride_a, const void *b, int b_type, int ldb,
                               long long stride_b, const void *beta, void *c, int c_type, int ldc,
                               long long stride_c, int batch, int compute_type, int algorithm) {
  int status = fake_enter("cublasGemmStridedBatchedEx", 1);
  int is_double = compute_type == CUBLAS_COMPUTE_64F;
  Gemm g = {op_a,     op_b,     m,        n,        k, lda, ldb, ldc, batch,
            FAKE_F32, stride_a, stride_b, stride_c, a, b,   c,   0,   0};
  if (status != CUDA_SUCCESS)
    return fake_leave(status);
  if (handle->context != fake_current() || !is_valid(&g))
    return fake_leave(STATUS_INVALID_VALUE);
  if (!find_type(a_type, &g.type) || a_type != b_type || a_type != c_type ||
      is_double != (g.type == FAKE_F64) || algorithm != CUBLAS_GEMM_DEFAULT ||
      (!is_double && compute_type != CUBLAS_COMPUTE_32F &&
       (compute_type != CUBLAS_COMPUTE_32F_FAST_TF32 || g.type != FAKE_F32)))
    return fake_leave(STATUS_NOT_SUPPORTED);
  g.alpha = is_double ? *(const double *)alpha : (double)*(const float *)alpha;
  g.beta = is_double ? *(const double *)beta : (double)*(const float *)beta;
  fake_add("tf32", compute_type == CUBLAS_COMPUTE_32F_FAST_TF32);
  status = fake_queue(handle->stream, run_gemm, &g, sizeof(g));
  return fake_leave(status == CUDA_SUCCESS ? 0 : STATUS_EXECUTION_FAILED);
}
