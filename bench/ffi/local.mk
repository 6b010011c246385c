# SPDX-License-Identifier: Apache-2.0
# Calls and look-ups, compared with tvm-ffi: make
# bench-ffi.

bench_programs += bench-ffi
bench_ffi_SOURCES = bench/ffi/ffi.c
EXTRA_DIST += bench/ffi/run
