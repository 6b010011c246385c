# SPDX-License-Identifier: Apache-2.0
# The time from the start of a process to its first kernel: make bench.

bench_programs += bench-start bench-start-empty
bench_start_SOURCES = bench/start/start.c
bench_start_LDADD = libbackplane.la -lm
bench_start_empty_SOURCES = bench/start/empty.c
bench_start_empty_LDADD =

bench_libraries += bench-start-kernel.la
bench_start_kernel_la_SOURCES = bench/start/kernel.c
bench_start_kernel_la_CPPFLAGS = $(CPPFLAGS_PLUGIN)
bench_start_kernel_la_LDFLAGS = $(AM_LDFLAGS) $(NO_UNDEFINED) -module -avoid-version -shared -rpath /nowhere
