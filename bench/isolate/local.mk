# SPDX-License-Identifier: Apache-2.0
# A device in a separate process, compared with the same device in the host's process:
# make bench-isolate.

bench_programs += bench-isolate
bench_isolate_SOURCES = bench/isolate/isolate.c
