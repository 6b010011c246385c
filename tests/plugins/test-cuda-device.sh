#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The tests of every device pass on cuda:0 and cuda:1: tests/core/test-device runs in the simulation
# of NVIDIA's driver.
set -u
cd "$top_builddir" || exit 1
BP_TEST_DEVICES="cuda:0 cuda:1" BACKPLANE_CUDA_LIBRARY=$top_builddir/tests/mock/.libs/fakecuda.so \
  exec tests/core/test-device --tap
