#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The code that the target kind cuda generates has the interpreter's results, as far as the host's
# C++ compiler can tell: tests/compiler/test-codegen runs in the simulation of NVIDIA's driver and
# compiler.
set -u
unset BP_TEST_NVRTC # the real compiler's code is for a real GPU
cd "$top_builddir" || exit 1
mock=$top_builddir/tests/mock/.libs
if ! command -v c++ >/dev/null; then
  echo "1..0 # SKIP there is no C++ compiler"
  exit 0
fi
BACKPLANE_CUDA_LIBRARY=$mock/fakecuda.so BACKPLANE_NVRTC_LIBRARY=$mock/fakenvrtc.so \
  exec tests/compiler/test-codegen --tap -p /codegen/cuda
