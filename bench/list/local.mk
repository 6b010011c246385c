# SPDX-License-Identifier: Apache-2.0
# The time to list a hundred plugins: make bench.

bench_programs += bench-list
bench_list_SOURCES = bench/list/list.c
bench_list_LDADD = $(GLIB_LIBS) -lm

bench_libraries += backplane-bench-list.la
backplane_bench_list_la_SOURCES = bench/list/plugin.c
backplane_bench_list_la_CPPFLAGS = $(CPPFLAGS_PLUGIN)
backplane_bench_list_la_LDFLAGS = $(LDFLAGS_PLUGIN) -rpath /nowhere
