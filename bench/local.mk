# SPDX-License-Identifier: Apache-2.0
# Benchmarks. `make bench` builds all of them; the name of a
# benchmark builds it alone.

bench_programs =
bench_libraries =
beside_driver = bench/beside_driver.c bench/beside_driver.h
EXTRA_DIST += $(beside_driver) bench/bench.h
include bench/models/local.mk
include bench/operators/local.mk
include bench/ffi/local.mk
include bench/bridges/local.mk
include bench/cuda/local.mk
include bench/executor/local.mk
include bench/isolate/local.mk
include bench/language-model/local.mk
include bench/list/local.mk
include bench/matmul/local.mk
include bench/mpi/local.mk
include bench/open/local.mk
include bench/opencl/local.mk
include bench/overlap/local.mk
include bench/start/local.mk
include bench/tvm/local.mk
include bench/vulkan/local.mk
EXTRA_PROGRAMS += $(bench_programs)
EXTRA_LTLIBRARIES += $(bench_libraries)

bench: $(bench_programs) $(bench_libraries)
.PHONY: bench
