#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The plugin cudalibs, which claims operators for the devices of the plugin cuda, passes the
# conformance kit, in the simulation of NVIDIA's driver, cuBLAS and cuDNN.
set -u
. "$top_srcdir/tests/conformance/conforms.sh"
if [ -z "${BP_TEST_GPU:-}" ]; then
  export BACKPLANE_CUDA_LIBRARY=$top_builddir/tests/mock/.libs/fakecuda.so
  export BACKPLANE_CUBLAS_LIBRARY=$BACKPLANE_CUDA_LIBRARY BACKPLANE_CUDNN_LIBRARY=$BACKPLANE_CUDA_LIBRARY
  export BACKPLANE_NVRTC_LIBRARY=$top_builddir/tests/mock/.libs/fakenvrtc.so
fi
conforms cudalibs
