/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of cuBLAS and cuDNN that this plugin calls, declared from their published reference
 * manuals: NVIDIA's own headers are not in Debian main, and few declarations are needed. The names
 * are the libraries' symbols. Enumerations of the libraries are ints here.
 * tests/plugins/cuda-headers.cpp compares this file with NVIDIA's headers where they are installed.
 *
 * cuBLAS: every function exists since CUDA 11.0, and so in libcublas.so.12 and .13.
 *
 * cuDNN: every function is in libcudnn.so.9 since 9.0. */
#ifndef BP_PLUGINS_CUDALIBS_LIBRARY_API_H
#define BP_PLUGINS_CUDALIBS_LIBRARY_API_H

#include <stddef.h>
#include <stdint.h>

#include "../common/cuda_api.h"

/* ---- cuBLAS ------------------------------------------------------------------------------ */

typedef struct cublasContext *cublasHandle_t;

#define CUBLAS_STATUS_SUCCESS         0
#define CUBLAS_STATUS_NOT_INITIALIZED 1
#define CUBLAS_STATUS_ALLOC_FAILED    3

#define CUBLAS_OP_N 0
#define CUBLAS_OP_T 1

#define CUBLAS_DEFAULT_MATH                              0
#define CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION 16

#define CUBLAS_COMPUTE_32F           68
#define CUBLAS_COMPUTE_64F           70
#define CUBLAS_COMPUTE_32F_FAST_TF32 77
#define CUBLAS_GEMM_DEFAULT          (-1)

#define CUDA_R_32F  0
#define CUDA_R_64F  1
#define CUDA_R_16F  2
#define CUDA_R_16BF 14

/* X(symbol, parameters): functions of libcublas, all returning cublasStatus_t. Scalars (`alpha`,
 * `beta`) are host memory of the compute type. */
#define BP_CUDALIBS_CUBLAS_FUNCTIONS(X)                                                            \
  X(cublasCreate_v2, (cublasHandle_t * handle))                                                    \
  X(cublasDestroy_v2, (cublasHandle_t handle))                                                     \
  X(cublasSetStream_v2, (cublasHandle_t handle, CUstream stream))                                  \
  X(cublasSetMathMode, (cublasHandle_t handle, int mode))                                          \
  X(cublasGemmStridedBatchedEx,                                                                    \
    (cublasHandle_t handle, int op_a, int op_b, int m, int n, int k, const void *alpha,            \
     const void *a, int a_type, int lda, long long stride_a, const void *b, int b_type, int ldb,   \
     long long stride_b, const void *beta, void *c, int c_type, int ldc, long long stride_c,       \
     int batch, int compute_type, int algorithm))

/* ---- cuDNN ------------------------------------------------------------------------------- */

typedef struct cudnnContext *cudnnHandle_t;
typedef struct cudnnTensorStruct *cudnnTensorDescriptor_t;
typedef struct cudnnFilterStruct *cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct *cudnnConvolutionDescriptor_t;
typedef struct cudnnPoolingStruct *cudnnPoolingDescriptor_t;
typedef struct cudnnActivationStruct *cudnnActivationDescriptor_t;

#define CUDNN_STATUS_SUCCESS                                 0
#define CUDNN_STATUS_NOT_SUPPORTED                           3000 /* up to 3999: the other numbers say why */
#define CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED   4003
#define CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED 4004

#define CUDNN_DATA_FLOAT  0
#define CUDNN_DATA_DOUBLE 1
#define CUDNN_DATA_HALF   2

#define CUDNN_DEFAULT_MATH   0
#define CUDNN_TENSOR_OP_MATH 1
#define CUDNN_FMA_MATH       3

#define CUDNN_TENSOR_NCHW       0
#define CUDNN_CROSS_CORRELATION 1
#define CUDNN_NOT_PROPAGATE_NAN 0
#define CUDNN_PROPAGATE_NAN     1
#define CUDNN_ACTIVATION_RELU   1

#define CUDNN_POOLING_MAX                           0
#define CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING 1
#define CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING 2

#define CUDNN_SOFTMAX_ACCURATE     1
#define CUDNN_SOFTMAX_LOG          2
#define CUDNN_SOFTMAX_MODE_CHANNEL 1

#define CUDNN_CONVOLUTION_FWD_ALGO_COUNT 8

/* An answer of the search for an algorithm. */
typedef struct cudnnConvolutionFwdAlgoPerf {
  int algo;
  int status;
  float time;
  size_t memory;
  int determinism;
  int mathType;
  int reserved[3];
} cudnnConvolutionFwdAlgoPerf_t;

/* X(symbol, parameters): functions of libcudnn, all returning cudnnStatus_t. Scalars are host
 * memory: doubles for tensors of float64, else floats. */
#define BP_CUDALIBS_CUDNN_FUNCTIONS(X)                                                             \
  X(cudnnCreate, (cudnnHandle_t * handle))                                                         \
  X(cudnnDestroy, (cudnnHandle_t handle))                                                          \
  X(cudnnSetStream, (cudnnHandle_t handle, CUstream stream))                                       \
  X(cudnnCreateTensorDescriptor, (cudnnTensorDescriptor_t * tensor))                               \
  X(cudnnDestroyTensorDescriptor, (cudnnTensorDescriptor_t tensor))                                \
  X(cudnnSetTensorNdDescriptor,                                                                    \
    (cudnnTensorDescriptor_t tensor, int type, int ndim, const int *dims, const int *strides))     \
  X(cudnnCreateFilterDescriptor, (cudnnFilterDescriptor_t * filter))                               \
  X(cudnnDestroyFilterDescriptor, (cudnnFilterDescriptor_t filter))                                \
  X(cudnnSetFilterNdDescriptor,                                                                    \
    (cudnnFilterDescriptor_t filter, int type, int format, int ndim, const int *dims))             \
  X(cudnnCreateConvolutionDescriptor, (cudnnConvolutionDescriptor_t * convolution))                \
  X(cudnnDestroyConvolutionDescriptor, (cudnnConvolutionDescriptor_t convolution))                 \
  X(cudnnSetConvolutionNdDescriptor,                                                               \
    (cudnnConvolutionDescriptor_t convolution, int rank, const int *pads, const int *strides,      \
     const int *dilations, int mode, int compute_type))                                            \
  X(cudnnSetConvolutionGroupCount, (cudnnConvolutionDescriptor_t convolution, int groups))         \
  X(cudnnSetConvolutionMathType, (cudnnConvolutionDescriptor_t convolution, int math))             \
  X(cudnnGetConvolutionForwardAlgorithm_v7,                                                        \
    (cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,                   \
     cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y, int most, int *count,    \
     cudnnConvolutionFwdAlgoPerf_t *answers))                                                      \
  X(cudnnGetConvolutionForwardWorkspaceSize,                                                       \
    (cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,                   \
     cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y, int algorithm,           \
     size_t *size))                                                                                \
  X(cudnnConvolutionForward,                                                                       \
    (cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t x_desc, const void *x,       \
     cudnnFilterDescriptor_t w_desc, const void *w, cudnnConvolutionDescriptor_t convolution,      \
     int algorithm, void *workspace, size_t size, const void *beta,                                \
     cudnnTensorDescriptor_t y_desc, void *y))                                                     \
  X(cudnnConvolutionBiasActivationForward,                                                         \
    (cudnnHandle_t handle, const void *alpha1, cudnnTensorDescriptor_t x_desc, const void *x,      \
     cudnnFilterDescriptor_t w_desc, const void *w, cudnnConvolutionDescriptor_t convolution,      \
     int algorithm, void *workspace, size_t size, const void *alpha2,                              \
     cudnnTensorDescriptor_t z_desc, const void *z, cudnnTensorDescriptor_t bias_desc,             \
     const void *bias, cudnnActivationDescriptor_t activation, cudnnTensorDescriptor_t y_desc,     \
     void *y))                                                                                     \
  X(cudnnAddTensor, (cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t a_desc,      \
                     const void *a, const void *beta, cudnnTensorDescriptor_t c_desc, void *c))    \
  X(cudnnCreateActivationDescriptor, (cudnnActivationDescriptor_t * activation))                   \
  X(cudnnDestroyActivationDescriptor, (cudnnActivationDescriptor_t activation))                    \
  X(cudnnSetActivationDescriptor,                                                                  \
    (cudnnActivationDescriptor_t activation, int mode, int nans, double coefficient))              \
  X(cudnnActivationForward, (cudnnHandle_t handle, cudnnActivationDescriptor_t activation,         \
                             const void *alpha, cudnnTensorDescriptor_t x_desc, const void *x,     \
                             const void *beta, cudnnTensorDescriptor_t y_desc, void *y))           \
  X(cudnnCreatePoolingDescriptor, (cudnnPoolingDescriptor_t * pooling))                            \
  X(cudnnDestroyPoolingDescriptor, (cudnnPoolingDescriptor_t pooling))                             \
  X(cudnnSetPoolingNdDescriptor, (cudnnPoolingDescriptor_t pooling, int mode, int nans, int rank,  \
                                  const int *window, const int *pads, const int *strides))         \
  X(cudnnPoolingForward, (cudnnHandle_t handle, cudnnPoolingDescriptor_t pooling,                  \
                          const void *alpha, cudnnTensorDescriptor_t x_desc, const void *x,        \
                          const void *beta, cudnnTensorDescriptor_t y_desc, void *y))              \
  X(cudnnSoftmaxForward, (cudnnHandle_t handle, int algorithm, int mode, const void *alpha,        \
                          cudnnTensorDescriptor_t x_desc, const void *x, const void *beta,         \
                          cudnnTensorDescriptor_t y_desc, void *y))

/* Functions that return texts. */
#define BP_CUDALIBS_CUBLAS_TEXTS(X) X(cublasGetStatusString, (int status))
#define BP_CUDALIBS_CUDNN_TEXTS(X)  X(cudnnGetErrorString, (int status))

#endif
