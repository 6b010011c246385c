# SPDX-License-Identifier: Apache-2.0
# What TVM compiled, run by us and by TVM.

EXTRA_PROGRAMS += bench/tvm/tvm
CLEANFILES += bench/tvm/tvm
bench_tvm_tvm_LDADD = $(LDADD) -lm
EXTRA_DIST += bench/tvm/bench_tvm.py
