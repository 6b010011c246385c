# SPDX-License-Identifier: Apache-2.0
# Code that TVM compiled, run by Backplane and by TVM: make
# bench-tvm.

bench_programs += bench-tvm
bench_tvm_SOURCES = bench/tvm/tvm.c
bench_tvm_LDADD = $(LDADD) -lm
EXTRA_DIST += bench/tvm/bench_tvm.py bench/tvm/bench_python.py
