# SPDX-License-Identifier: Apache-2.0
# Benchmarks: EXTRA_PROGRAMS, built by their own targets.

include bench/models/local.mk
include bench/ffi/local.mk
include bench/executor/local.mk
include bench/list/local.mk
include bench/matmul/local.mk
include bench/opencl/local.mk
include bench/tvm/local.mk
