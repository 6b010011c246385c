# SPDX-License-Identifier: Apache-2.0
# The time that the plugin cuda adds to NVIDIA's driver:
# make bench-cuda.

if BUILD_CUDA
bench_programs += bench-cuda
bench_cuda_SOURCES = bench/cuda/cuda.c $(beside_driver)
bench_cuda_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
bench_cuda_LDADD = $(graphtest_LDADD) -ldl
endif
EXTRA_DIST += bench/cuda/cuda.c
