// SPDX-License-Identifier: Apache-2.0
// Prints the functions, numbers and structures of plugins/common/cuda_api.h and
// plugins/cudalibs/library_api.h, as these files declare them, or with -DNVIDIA as NVIDIA's headers
// do: test-cuda-headers.sh compares the two. Every type is printed as its size and kind, for the
// libraries' enumerations are ints in our files.
#include <cstddef>
#include <cstdio>
#include <type_traits>

#ifdef NVIDIA
#include <cublas_v2.h>
#include <cuda.h>
#include <cudnn.h>
#else
extern "C" {
#include "plugins/cudalibs/library_api.h"
}
#define DECLARE_INT(name, parameters)  extern "C" int name parameters;
#define DECLARE_TEXT(name, parameters) extern "C" const char *name parameters;
BP_CUDA_COMMON_FUNCTIONS(DECLARE_INT)
BP_CUDALIBS_CUBLAS_FUNCTIONS(DECLARE_INT)
BP_CUDALIBS_CUBLAS_TEXTS(DECLARE_TEXT)
BP_CUDALIBS_CUDNN_FUNCTIONS(DECLARE_INT)
BP_CUDALIBS_CUDNN_TEXTS(DECLARE_TEXT)
#endif

template <typename T> void print_type() {
  std::printf(" %c%zu",
              std::is_pointer<T>::value          ? 'p'
              : std::is_floating_point<T>::value ? 'f'
                                                 : 'i',
              sizeof(T));
}

template <typename Result, typename... Parameters>
void print_function(const char *name, Result (*)(Parameters...)) {
  std::printf("%s:", name);
  print_type<Result>();
  int dummy[] = {0, (print_type<Parameters>(), 0)...};
  (void)dummy;
  std::printf("\n");
}

#ifdef NVIDIA
// In C++ NVIDIA's header has two functions of this name; the library has this one.
using Gemm = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                                const void *, const void *, cudaDataType, int, long long,
                                const void *, cudaDataType, int, long long, const void *, void *,
                                cudaDataType, int, long long, int, cublasComputeType_t,
                                cublasGemmAlgo_t);
void print_function(const char *name, Gemm function) {
  print_function<>(name, function);
}
#endif

#define FUNCTION(name) print_function(#name, &name);
#define NUMBER(name)   std::printf(#name " %lld\n", static_cast<long long>(name));
#define MEMBER(name)                                                                               \
  std::printf("cudnnConvolutionFwdAlgoPerf_t." #name " %zu\n",                                     \
              offsetof(cudnnConvolutionFwdAlgoPerf_t, name));

int main() {
#include "names.h" // FUNCTION(...) and NUMBER(...) for each name in our files
  std::printf("cudnnConvolutionFwdAlgoPerf_t %zu\n", sizeof(cudnnConvolutionFwdAlgoPerf_t));
  MEMBER(algo)
  MEMBER(status)
  MEMBER(time)
  MEMBER(memory)
  MEMBER(determinism)
  MEMBER(mathType)
  MEMBER(reserved)
}
