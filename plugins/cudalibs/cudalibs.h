/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of cuBLAS and cuDNN for NVIDIA's GPUs.
 *
 * library_api.h  declarations of the functions of cuBLAS and cuDNN
 * loader.c       the libraries, opened at run time; errors of their calls
 * claim.c        which nodes of a model the libraries take, each read as a step
 * compile.c      writes a part as steps, with the nodes that a step includes
 * check.c        checks the bytes of a part
 * engine.c       a device's context, and the libraries' handles
 * plan.c         descriptors, algorithms and memory of a part on a device
 * run.c          the calls of a plan
 * module.c       modules of kind `cudalibs`
 *
 * `data` of a tensor is a CUdeviceptr, and a stream is a CUstream, as in the plugin cuda. The
 * default stream, NULL, is ordered with CUDA's legacy default stream, which the libraries use. */
#ifndef BP_PLUGINS_CUDALIBS_H
#define BP_PLUGINS_CUDALIBS_H

#include <backplane/graph_compiler.h>
#include <backplane/part_module.h>
#include <backplane/plugin_helpers.h>
#include <pthread.h>
#include <stdatomic.h>

#include "../common/common.h"
#include "library_api.h"

#define BP_CUDALIBS_MAX_NDIM     8
#define BP_CUDALIBS_MAX_SPATIAL  3
#define BP_CUDALIBS_MOST_DEVICES 16
#define BP_CUDALIBS_MOST_TENSORS BP_KERNEL_MAX_ARGS /* arguments of a part's function */

extern BpPluginTables bp_cudalibs_host;

/* ---- The libraries (loader.c) ------------------------------------------------------------ */

#define BP_CUDALIBS_MEMBER(name, parameters) int(*name) parameters;
#define BP_CUDALIBS_TEXT(name, parameters)   const char *(*name)parameters;
typedef struct BpCudalibsLibraries {
  BP_CUDA_COMMON_FUNCTIONS(BP_CUDALIBS_MEMBER)
  BP_CUDALIBS_CUBLAS_FUNCTIONS(BP_CUDALIBS_MEMBER)
  BP_CUDALIBS_CUBLAS_TEXTS(BP_CUDALIBS_TEXT)
  BP_CUDALIBS_CUDNN_FUNCTIONS(BP_CUDALIBS_MEMBER)
  BP_CUDALIBS_CUDNN_TEXTS(BP_CUDALIBS_TEXT)
} BpCudalibsLibraries;
#undef BP_CUDALIBS_MEMBER
#undef BP_CUDALIBS_TEXT
extern BpCudalibsLibraries bp_cl;

typedef enum BpCudalibsLibrary {
  BP_CUDALIBS_CUBLAS,
  BP_CUDALIBS_CUDNN,
  BP_CUDALIBS_DRIVER,
  BP_CUDALIBS_NUM_LIBRARIES
} BpCudalibsLibrary;

/* Opens a library, once; NULL, or why it cannot be used (static). Any thread. */
const char *bp_cudalibs_load(BpCudalibsLibrary library);
/* Raises an error for a status of a library's call that is not success; returns -1. */
int32_t bp_cudalibs_raise(BpCudalibsLibrary library, int status, const char *call);

/* Calls a function of a library: 0, or -1 with an error. */
#define BP_CUDALIBS_CALL(library, function, ...)                                                   \
  ({                                                                                               \
    int status_ = bp_cl.function(__VA_ARGS__);                                                     \
    status_ ? bp_cudalibs_raise(library, status_, #function) : 0;                                  \
  })
#define BP_CUDALIBS_CU(function, ...)   BP_CUDALIBS_CALL(BP_CUDALIBS_DRIVER, function, __VA_ARGS__)
#define BP_CUDALIBS_BLAS(function, ...) BP_CUDALIBS_CALL(BP_CUDALIBS_CUBLAS, function, __VA_ARGS__)
#define BP_CUDALIBS_DNN(function, ...)  BP_CUDALIBS_CALL(BP_CUDALIBS_CUDNN, function, __VA_ARGS__)

/* ---- Types ------------------------------------------------------------------------------- */

/* A type of elements, in the numbers of each library. */
typedef struct BpCudalibsType {
  BpDataType dtype;
  int32_t size;
  int cublas;  /* CUDA_R_* */
  int cudnn;   /* CUDNN_DATA_*; -1: none */
  int compute; /* CUBLAS_COMPUTE_* */
} BpCudalibsType;

#define BP_CUDALIBS_NUM_TYPES 4
extern const BpCudalibsType bp_cudalibs_types[BP_CUDALIBS_NUM_TYPES];

/* ---- Steps ------------------------------------------------------------------------------- */

typedef enum BpCudalibsKind {
  BP_CUDALIBS_PRODUCT, /* cuBLAS; the kinds below are cuDNN's */
  BP_CUDALIBS_CONV,
  BP_CUDALIBS_POOL,
  BP_CUDALIBS_SOFTMAX,
  BP_CUDALIBS_RELU,
  BP_CUDALIBS_ADD,
  BP_CUDALIBS_NUM_KINDS
} BpCudalibsKind;

/* The shape of the addend of a product. */
typedef enum BpCudalibsAddend {
  BP_CUDALIBS_NO_ADDEND,
  BP_CUDALIBS_FULL,   /* an addend of the result's shape */
  BP_CUDALIBS_ROW,    /* one element for each column: added to each row */
  BP_CUDALIBS_COLUMN, /* one element for each row: added to each column */
  BP_CUDALIBS_NUM_ADDENDS
} BpCudalibsAddend;

/* dst[m, n] = alpha * a[m, k] * b[k, n] + beta * addend, `batch` times; matrices are row-major. */
typedef struct BpCudalibsProduct {
  int32_t m, n, k, batch;
  int32_t transposes_a; /* a is stored as [k, m] */
  int32_t transposes_b; /* b is stored as [n, k] */
  int32_t repeats_a;    /* every product of the batch has the first matrix a */
  int32_t repeats_b;
  int32_t addend; /* BpCudalibsAddend */
  float alpha, beta;
} BpCudalibsProduct;

/* A window, by spatial dimension. The padding is the same before and after the data. */
typedef struct BpCudalibsWindow {
  int32_t kernel[BP_CUDALIBS_MAX_SPATIAL];
  int32_t strides[BP_CUDALIBS_MAX_SPATIAL];
  int32_t dilations[BP_CUDALIBS_MAX_SPATIAL];
  int32_t pads[BP_CUDALIBS_MAX_SPATIAL];
  int32_t groups;  /* groups of a convolution */
  int32_t pooling; /* CUDNN_POOLING_* of a pooling */
} BpCudalibsWindow;

/* The source of a softmax is [outer, extent, inner]; each sum is over `extent`. */
typedef struct BpCudalibsSoftmax {
  int32_t outer, extent, inner;
  int32_t algorithm; /* CUDNN_SOFTMAX_* */
} BpCudalibsSoftmax;

/* A step of a part in its saved form. A tensor is given by its number; -1 means no tensor. */
typedef struct BpCudalibsStep {
  int32_t kind; /* BpCudalibsKind */
  int32_t src, weights;
  int32_t bias; /* bias of a convolution, or addend of a product */
  int32_t sum;  /* a tensor added to the result of a convolution before relu */
  int32_t dst;
  int32_t relu; /* 1: negative results become 0 */
  BpCudalibsProduct product;
  BpCudalibsWindow window;
  BpCudalibsSoftmax softmax;
  char node[64]; /* the beginning of the node's name, for messages */
} BpCudalibsStep;

/* ---- Claiming (claim.c) ------------------------------------------------------------------ */

/* A graph and the host's table that reads it. */
typedef struct BpCudalibsView {
  const BpGraphTable *table;
  const BpOnnxGraph *graph;
} BpCudalibsView;

/* Reads a node as a step without tensors. Returns NULL, or why the libraries do not take the node
 * (static). */
const char *bp_cudalibs_read_node(const BpCudalibsView *view, int32_t node, BpCudalibsStep *step);
/* Finds the node that the step, whose result is `value`, can include: its only reader, which is not
 * marked in `is_done` (by node; may be NULL). The step then has `relu`, or the value *other as
 * `sum` or `bias` (*is_bias). Returns the node, or -1. */
int32_t bp_cudalibs_follow(const BpCudalibsView *view, int32_t value, const char *is_done,
                           BpCudalibsStep *step, int32_t *other, int32_t *is_bias);
/* The slots of BpGraphCompilerApi. */
int32_t bp_cudalibs_claim(void *context, const BpOnnxGraph *graph, const BpTarget *target,
                          BpClaims *claims);
int32_t bp_cudalibs_compile(void *context, const BpOnnxGraph *part, const BpTarget *target,
                            const char *function, BpModule **module);

/* ---- Programs (compile.c, check.c) ------------------------------------------------------- */

#define BP_CUDALIBS_INNER    0
#define BP_CUDALIBS_CONSTANT 1 /* the elements are at `offset` of the data */
/* Alignment in bytes of constants, and of tensors between steps. */
#define BP_CUDALIBS_ALIGNMENT 256

/* Rounds a size up to the alignment. */
static inline int64_t bp_cudalibs_round_up(int64_t size) {
  return (size + BP_CUDALIBS_ALIGNMENT - 1) / BP_CUDALIBS_ALIGNMENT * BP_CUDALIBS_ALIGNMENT;
}

/* The first tensors are the inputs, then come the outputs, and then the others. */
typedef struct BpCudalibsTensor {
  int32_t ndim;
  int32_t type;  /* row of bp_cudalibs_types */
  int32_t place; /* BP_CUDALIBS_*, of tensors that are neither input nor output */
  int32_t reserved;
  int64_t dims[BP_CUDALIBS_MAX_NDIM];
  int64_t offset; /* in bytes */
} BpCudalibsTensor;

/* The header of a module's code; tensors, steps and the data of constants follow. */
typedef struct BpCudalibsHeader {
  char magic[8]; /* BP_CUDALIBS_MAGIC */
  int32_t num_inputs, num_outputs, num_tensors, num_steps;
} BpCudalibsHeader;
#define BP_CUDALIBS_MAGIC "bpcudl1"

typedef struct BpCudalibsProgram {
  BpCudalibsHeader header;
  const BpCudalibsTensor *tensors;
  const BpCudalibsStep *steps;
  const char *data;
  int64_t data_size;
  int32_t needs[BP_CUDALIBS_NUM_LIBRARIES]; /* whether a step needs the library */
} BpCudalibsProgram;

/* The number of elements of a tensor, and its size in bytes. */
int64_t bp_cudalibs_count(const BpCudalibsTensor *tensor);
int64_t bp_cudalibs_bytes(const BpCudalibsTensor *tensor);
/* Whether a tensor is a constant of the part. */
int32_t bp_cudalibs_is_constant(const BpCudalibsProgram *program, int32_t tensor);
/* Returns the row of bp_cudalibs_types, or -1. */
int32_t bp_cudalibs_type_of(BpDataType dtype);
/* Finds the parts of a program in aligned bytes, and checks every field that is read later; needs
 * neither a library nor a device. The program borrows the bytes. 0, or -1 with an error. */
int32_t bp_cudalibs_read_program(const char *bytes, size_t size, BpCudalibsProgram *program);

/* ---- Devices (engine.c) ------------------------------------------------------------------ */

/* The libraries' handles and a block of memory, for one run at a time. A run on another stream than
 * the one before waits, on the device, for the end of that run. */
typedef struct BpCudalibsEngine {
  struct BpCudalibsEngine *next;
  cublasHandle_t cublas; /* NULL: not needed yet */
  cudnnHandle_t cudnn;
  CUevent done; /* recorded after the latest run */
  int32_t has_run;
  CUdeviceptr scratch;
  size_t scratch_size;
} BpCudalibsEngine;

/* A device, in its primary context. */
typedef struct BpCudalibsDevice {
  int32_t index;
  CUcontext context;
  const BpDeviceApi *api; /* the table `device_api.cuda` */
  pthread_mutex_t lock;   /* guards the list of engines */
  BpCudalibsEngine *idle;
} BpCudalibsDevice;

/* Opens a device and makes its context current in this thread. NULL with an error. */
BpCudalibsDevice *bp_cudalibs_device(int32_t device_id);
/* Allocates memory of the device, or frees it; freeing waits for queued work, raises no error, and
 * ignores 0. */
int32_t bp_cudalibs_alloc(BpCudalibsDevice *device, size_t size, CUdeviceptr *data);
void bp_cudalibs_free(BpCudalibsDevice *device, CUdeviceptr data);
/* Copies to memory of the device, and waits. */
int32_t bp_cudalibs_upload(BpCudalibsDevice *device, CUdeviceptr to, const void *from, size_t size);
/* Lends an engine that has the libraries' handles, in `needs`, and `scratch_size` bytes, for calls
 * on `stream`. NULL with an error. */
BpCudalibsEngine *bp_cudalibs_engine_take(BpCudalibsDevice *device, const int32_t *needs,
                                          size_t scratch_size, CUstream stream);
/* Takes an engine back after its calls; 0, or -1 with an error. */
int32_t bp_cudalibs_engine_return(BpCudalibsDevice *device, BpCudalibsEngine *engine,
                                  CUstream stream);

/* ---- Plans (plan.c, run.c) --------------------------------------------------------------- */

/* A step on a device. Descriptors that the step's kind does not need are NULL. */
typedef struct BpCudalibsOp {
  cudnnTensorDescriptor_t src, dst, bias;
  cudnnFilterDescriptor_t filter;
  cudnnConvolutionDescriptor_t conv;
  cudnnPoolingDescriptor_t pool;
  cudnnActivationDescriptor_t activation;
  int algorithm;
  size_t workspace;   /* bytes at the end of the scratch memory */
  _Atomic int splits; /* the library lacks this convolution with bias and activation in one call */
} BpCudalibsOp;

/* A part on a device. */
typedef struct BpCudalibsPlan {
  BpCudalibsDevice *device;
  const BpCudalibsProgram *program;
  int allows_tf32;
  BpCudalibsOp *ops;   /* by step */
  int64_t *offsets;    /* by tensor: offset in `weights` of a constant, or in the scratch */
  CUdeviceptr weights; /* the constants, and rows of ones for addends of products */
  int64_t ones[BP_CUDALIBS_NUM_TYPES]; /* offset in `weights` of a row of ones of the type */
  size_t inner_size;                   /* bytes for tensors between steps */
  size_t workspace_size;               /* most bytes of workspace of a step */
} BpCudalibsPlan;

/* Makes the plan of a checked program, which outlives it, and uploads its constants. The libraries
 * are open. NULL with an error. */
BpCudalibsPlan *bp_cudalibs_plan_create(const BpCudalibsProgram *program, BpCudalibsDevice *device);
void bp_cudalibs_plan_free(BpCudalibsPlan *plan);
/* Queues a run on a stream of the plan's device. `data` has the memory of the inputs and then of
 * the outputs. Any thread, also at once from several. */
int32_t bp_cudalibs_plan_run(BpCudalibsPlan *plan, CUstream stream, const CUdeviceptr *data);

/* ---- Modules (module.c) ------------------------------------------------------------------ */

/* Makes a module with one function from the bytes of a program. The module takes over the bytes
 * (free), also if it fails: NULL with an error. */
BpModule *bp_cudalibs_module_create(const char *function, char *bytes, size_t size);
/* The function runtime.module.loadbinary_cudalibs. */
int bp_cudalibs_loadbinary(void *self, const BpValue *args, int32_t num_args, BpValue *result);

#endif
