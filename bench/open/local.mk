# SPDX-License-Identifier: Apache-2.0
# A model with open extents, compared with the same model with fixed extents:
# make bench-open.

bench_programs += bench-open
bench_open_SOURCES = bench/open/open.c
