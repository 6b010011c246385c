# SPDX-License-Identifier: Apache-2.0
# Calls and look-ups beside tvm-ffi: make bench-ffi.

bench_programs += bench-ffi
bench_ffi_SOURCES = bench/ffi/ffi.c
EXTRA_DIST += bench/ffi/run
