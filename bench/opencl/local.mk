# SPDX-License-Identifier: Apache-2.0
# The time that the plugin opencl adds to the driver: make
# bench-opencl.

if BUILD_OPENCL
bench_programs += bench-opencl
bench_opencl_SOURCES = bench/opencl/opencl.c $(beside_driver)
bench_opencl_LDADD = $(LDADD) -ldl
endif
EXTRA_DIST += bench/opencl/opencl.c
