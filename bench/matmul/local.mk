# SPDX-License-Identifier: Apache-2.0
# Matrix products, compared with oneDNN, and sums of vectors, compared with memcpy: make
# bench-matmul.

bench_programs += bench-matmul
if HAVE_DNNL
bench_matmul_SOURCES = bench/matmul/matmul.c bench/matmul/onednn.c bench/matmul/onednn.h
bench_matmul_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
bench_matmul_LDADD = $(graphtest_LDADD) $(DNNL_LIBS)
else
bench_matmul_SOURCES = bench/matmul/skipped.c
endif
EXTRA_DIST += bench/matmul/matmul.c bench/matmul/onednn.c bench/matmul/onednn.h \
	bench/matmul/skipped.c
