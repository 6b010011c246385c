/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a plan: the libraries' calls of its steps, queued on a stream. */
#include "cudalibs.h"

/* A run of a plan. */
typedef struct Run {
  const BpCudalibsPlan *plan;
  const BpCudalibsEngine *engine;
  CUstream stream;
  const CUdeviceptr *data;
} Run;

/* A factor, as the libraries read it: a double for float64, else a float. */
typedef union Scalar {
  float f32;
  double f64;
} Scalar;

static Scalar scalar(int32_t type, float value) {
  return bp_cudalibs_types[type].dtype.bits == 64 ? (Scalar){.f64 = (double)value}
                                                  : (Scalar){.f32 = value};
}

/* Returns the memory of a tensor. */
static CUdeviceptr memory_of(const Run *run, int32_t tensor) {
  const BpCudalibsPlan *plan = run->plan;
  const BpCudalibsHeader *header = &plan->program->header;
  if (tensor < header->num_inputs + header->num_outputs)
    return run->data[tensor];
  return (CUdeviceptr)plan->offsets[tensor] +
         (bp_cudalibs_is_constant(plan->program, tensor) ? plan->weights : run->engine->scratch);
}

static void *address_of(const Run *run, int32_t tensor) {
  return (void *)(uintptr_t)memory_of(run, tensor);
}

static int32_t copy(const Run *run, int32_t to, int32_t from) {
  size_t size = (size_t)bp_cudalibs_bytes(&run->plan->program->tensors[to]);
  return BP_CUDALIBS_CU(cuMemcpyDtoDAsync_v2, memory_of(run, to), memory_of(run, from), size,
                        run->stream);
}

/* ---- Products ---------------------------------------------------------------------------- */

/* The operands of one call of cuBLAS, row-major. */
typedef struct Gemm {
  int32_t m, n, k, batch;
  int32_t transposes_a, transposes_b;
  int64_t step_a, step_b; /* elements from one matrix of the batch to the next */
  CUdeviceptr a, b, c;
  float alpha, beta;
} Gemm;

static int compute_type(const Run *run, const BpCudalibsType *type) {
  return type->dtype.bits == 32 && run->plan->allows_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                          : type->compute;
}

/* cuBLAS has column-major matrices, which are the transposed row-major ones: it computes the
 * transposed result, b' * a', with the operands in the other order. */
static int32_t multiply(const Run *run, int32_t type, const Gemm *g) {
  const BpCudalibsType *t = &bp_cudalibs_types[type];
  Scalar alpha = scalar(type, g->alpha), beta = scalar(type, g->beta);
  return BP_CUDALIBS_BLAS(
      cublasGemmStridedBatchedEx, run->engine->cublas, g->transposes_b ? CUBLAS_OP_T : CUBLAS_OP_N,
      g->transposes_a ? CUBLAS_OP_T : CUBLAS_OP_N, g->n, g->m, g->k, &alpha,
      (const void *)(uintptr_t)g->b, t->cublas, g->transposes_b ? g->k : g->n, g->step_b,
      (const void *)(uintptr_t)g->a, t->cublas, g->transposes_a ? g->m : g->k, g->step_a, &beta,
      (void *)(uintptr_t)g->c, t->cublas, g->n, (long long)g->m * g->n, g->batch,
      compute_type(run, t), CUBLAS_GEMM_DEFAULT);
}

/* Writes the addend of a product to its result. A row is multiplied by a column of ones, and a
 * column by a row of ones, which is exact. */
static int32_t write_addend(const Run *run, const BpCudalibsStep *step, int32_t type) {
  const BpCudalibsProduct *p = &step->product;
  CUdeviceptr ones = run->plan->weights + (CUdeviceptr)run->plan->ones[type];
  CUdeviceptr addend = memory_of(run, step->bias);
  Gemm g = {.m = p->m * p->batch,
            .n = p->n,
            .k = 1,
            .batch = 1,
            .a = p->addend == BP_CUDALIBS_ROW ? ones : addend,
            .b = p->addend == BP_CUDALIBS_ROW ? addend : ones,
            .c = memory_of(run, step->dst),
            .alpha = 1};
  return p->addend == BP_CUDALIBS_FULL ? copy(run, step->dst, step->bias) : multiply(run, type, &g);
}

static int32_t run_product(const Run *run, const BpCudalibsStep *step, int32_t type) {
  const BpCudalibsProduct *p = &step->product;
  Gemm g = {.m = p->m,
            .n = p->n,
            .k = p->k,
            .batch = p->batch,
            .transposes_a = p->transposes_a,
            .transposes_b = p->transposes_b,
            .step_a = p->repeats_a ? 0 : (int64_t)p->m * p->k,
            .step_b = p->repeats_b ? 0 : (int64_t)p->k * p->n,
            .a = memory_of(run, step->src),
            .b = memory_of(run, step->weights),
            .c = memory_of(run, step->dst),
            .alpha = p->alpha,
            .beta = p->addend == BP_CUDALIBS_NO_ADDEND ? 0 : p->beta};
  if (p->addend != BP_CUDALIBS_NO_ADDEND && write_addend(run, step, type) != 0)
    return -1;
  return multiply(run, type, &g);
}

/* ---- Convolutions ------------------------------------------------------------------------ */

static int is_unsupported(int status) {
  return status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000;
}

/* Returns the workspace of a convolution, after the tensors between steps. */
static void *workspace_of(const Run *run) {
  return (void *)(uintptr_t)(run->engine->scratch + run->plan->inner_size);
}

/* Computes a convolution, its bias, its sum and its relu in one call; returns cuDNN's status. */
static int convolve_at_once(const Run *run, const BpCudalibsStep *step, const BpCudalibsOp *op,
                            int32_t type) {
  Scalar one = scalar(type, 1), share = scalar(type, step->sum >= 0 ? 1 : 0);
  void *dst = address_of(run, step->dst);
  return bp_cl.cudnnConvolutionBiasActivationForward(
      run->engine->cudnn, &one, op->src, address_of(run, step->src), op->filter,
      address_of(run, step->weights), op->conv, op->algorithm, workspace_of(run), op->workspace,
      &share, op->dst, step->sum >= 0 ? address_of(run, step->sum) : dst, op->bias,
      address_of(run, step->bias), op->activation, op->dst, dst);
}

/* Computes the convolution, the bias, the sum and the activation one after the other. */
static int32_t convolve_split(const Run *run, const BpCudalibsStep *step, const BpCudalibsOp *op,
                              int32_t type) {
  Scalar one = scalar(type, 1), zero = scalar(type, 0);
  cudnnHandle_t handle = run->engine->cudnn;
  void *dst = address_of(run, step->dst);
  if (BP_CUDALIBS_DNN(cudnnConvolutionForward, handle, &one, op->src, address_of(run, step->src),
                      op->filter, address_of(run, step->weights), op->conv, op->algorithm,
                      workspace_of(run), op->workspace, &zero, op->dst, dst) ||
      (step->bias >= 0 && BP_CUDALIBS_DNN(cudnnAddTensor, handle, &one, op->bias,
                                          address_of(run, step->bias), &one, op->dst, dst)) ||
      (step->sum >= 0 && BP_CUDALIBS_DNN(cudnnAddTensor, handle, &one, op->dst,
                                         address_of(run, step->sum), &one, op->dst, dst)))
    return -1;
  return step->relu ? BP_CUDALIBS_DNN(cudnnActivationForward, handle, op->activation, &one, op->dst,
                                      dst, &zero, op->dst, dst)
                    : 0;
}

/* cuDNN tells only when it is called whether it has a convolution in one call. */
static int32_t run_conv(const Run *run, const BpCudalibsStep *step, BpCudalibsOp *op,
                        int32_t type) {
  if (!atomic_load(&op->splits)) {
    int status = convolve_at_once(run, step, op, type);
    if (!is_unsupported(status))
      return status ? bp_cudalibs_raise(BP_CUDALIBS_CUDNN, status,
                                        "cudnnConvolutionBiasActivationForward")
                    : 0;
    atomic_store(&op->splits, 1);
  }
  return convolve_split(run, step, op, type);
}

/* ---- Steps ------------------------------------------------------------------------------- */

static int32_t run_step(const Run *run, int32_t index) {
  const BpCudalibsStep *step = &run->plan->program->steps[index];
  BpCudalibsOp *op = &run->plan->ops[index];
  int32_t type = run->plan->program->tensors[step->dst].type;
  Scalar one = scalar(type, 1), zero = scalar(type, 0);
  cudnnHandle_t handle = run->engine->cudnn;
  void *src = address_of(run, step->src), *dst = address_of(run, step->dst);
  switch (step->kind) {
  case BP_CUDALIBS_PRODUCT:
    return run_product(run, step, type);
  case BP_CUDALIBS_CONV:
    return run_conv(run, step, op, type);
  case BP_CUDALIBS_POOL:
    return BP_CUDALIBS_DNN(cudnnPoolingForward, handle, op->pool, &one, op->src, src, &zero,
                           op->dst, dst);
  case BP_CUDALIBS_SOFTMAX:
    return BP_CUDALIBS_DNN(cudnnSoftmaxForward, handle, step->softmax.algorithm,
                           CUDNN_SOFTMAX_MODE_CHANNEL, &one, op->src, src, &zero, op->src, dst);
  case BP_CUDALIBS_RELU:
    return BP_CUDALIBS_DNN(cudnnActivationForward, handle, op->activation, &one, op->src, src,
                           &zero, op->src, dst);
  default: /* BP_CUDALIBS_ADD */
    return copy(run, step->dst, step->src) ||
                   BP_CUDALIBS_DNN(cudnnAddTensor, handle, &one, op->src,
                                   address_of(run, step->sum), &one, op->src, dst)
               ? -1
               : 0;
  }
}

int32_t bp_cudalibs_plan_run(BpCudalibsPlan *plan, CUstream stream, const CUdeviceptr *data) {
  BpCudalibsEngine *engine = bp_cudalibs_engine_take(
      plan->device, plan->program->needs, plan->inner_size + plan->workspace_size, stream);
  Run run = {plan, engine, stream, data};
  int32_t status = engine ? 0 : -1;
  for (int32_t s = 0; s < plan->program->header.num_steps && !status; s++) {
    status = run_step(&run, s);
    if (status)
      bp_plugin_add_context(&bp_cudalibs_host, "node '%s'", plan->program->steps[s].node);
  }
  /* The engine is returned also after an error, because calls may be queued. The first error is
   * kept. */
  if (engine && status) {
    BpError *first = bp_cudalibs_host.error->take();
    if (bp_cudalibs_engine_return(plan->device, engine, stream) != 0)
      bp_cudalibs_host.object->release(bp_cudalibs_host.error->take());
    return bp_cudalibs_host.error->put(first);
  }
  return engine ? bp_cudalibs_engine_return(plan->device, engine, stream) : -1;
}
