# SPDX-License-Identifier: Apache-2.0
# A model with open extents beside the same with fixed ones: make bench-open.

bench_programs += bench-open
bench_open_SOURCES = bench/open/open.c
