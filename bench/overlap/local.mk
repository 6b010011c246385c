# SPDX-License-Identifier: Apache-2.0
# A graph on a device and the host, compared with each half alone: make
# bench-overlap.

bench_programs += bench-overlap
bench_overlap_SOURCES = bench/overlap/overlap.c
