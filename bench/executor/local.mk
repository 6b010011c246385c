# SPDX-License-Identifier: Apache-2.0
# A small model, compared with onnxruntime's C API: make
# bench-executor.

bench_programs += bench-executor
bench_executor_SOURCES = bench/executor/executor.c
bench_executor_LDADD = $(LDADD) -ldl -lm
EXTRA_DIST += bench/executor/make_mlp.py
