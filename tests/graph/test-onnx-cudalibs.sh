#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ONNX's own cases of the operators that the plugin cudalibs claims have the expected outputs, in the simulation of
# NVIDIA's driver, cuBLAS and cuDNN.
if [ -z "${BP_TEST_PYTHON-}" ]; then
  echo "1..0 # SKIP no Python with onnx; run ./quickstart check"
  exit 0
fi
if [ ! -e "$BACKPLANE_PLUGIN_PATH/backplane-cudalibs.so" ] || [ ! -e "$BACKPLANE_PLUGIN_PATH/backplane-cuda.so" ]; then
  echo "1..0 # SKIP the plugin cudalibs or cuda was not built"
  exit 0
fi
. "$top_srcdir/tests/tap.sh"
export BACKPLANE_CUDA_LIBRARY=$top_builddir/tests/mock/.libs/fakecuda.so
export BACKPLANE_CUBLAS_LIBRARY=$BACKPLANE_CUDA_LIBRARY BACKPLANE_CUDNN_LIBRARY=$BACKPLANE_CUDA_LIBRARY
export BACKPLANE_NVRTC_LIBRARY=$top_builddir/tests/mock/.libs/fakenvrtc.so
"$BP_TEST_PYTHON" "$top_srcdir/tests/graph/onnx_cases.py" "$top_builddir/backplane" "$work" cuda --graph-compiler=cudalibs \
  MatMul Gemm Conv MaxPool AveragePool GlobalMaxPool GlobalAveragePool Softmax LogSoftmax
