# SPDX-License-Identifier: Apache-2.0
# Calls and look-ups beside tvm-ffi.

EXTRA_PROGRAMS += bench/ffi/ffi
bench_ffi_ffi_SOURCES = bench/ffi/ffi.c
EXTRA_DIST += bench/ffi/run
