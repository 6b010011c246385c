# SPDX-License-Identifier: Apache-2.0
# A device in a process of its own beside the same device in this one: make bench-isolate.

bench_programs += bench-isolate
bench_isolate_SOURCES = bench/isolate/isolate.c
