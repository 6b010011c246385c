# SPDX-License-Identifier: Apache-2.0
# Matrix products beside oneDNN, and the sum of vectors beside memcpy: make bench-matmul.

bench_programs += bench-matmul
if HAVE_DNNL
bench_matmul_SOURCES = bench/matmul/matmul.c bench/matmul/onednn.c bench/matmul/onednn.h \
	$(onnx_builder)
nodist_bench_matmul_SOURCES = graph/onnx/onnx.pb-c.c
bench_matmul_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
bench_matmul_LDADD = $(LDADD) $(PROTOBUF_C_LIBS) $(DNNL_LIBS) -lm
else
bench_matmul_SOURCES = bench/matmul/skipped.c
endif
EXTRA_DIST += bench/matmul/matmul.c bench/matmul/onednn.c bench/matmul/onednn.h \
	bench/matmul/skipped.c
