# SPDX-License-Identifier: Apache-2.0
# Lowering passes.

libbackplane_compiler_la_SOURCES += \
	compiler/lower/linear.h \
	compiler/lower/linear.c \
	compiler/lower/lowering.h \
	compiler/lower/normalize.c \
	compiler/lower/reads.c \
	compiler/lower/region.c \
	compiler/lower/build.c \
	compiler/lower/nest.h \
	compiler/lower/scan.c \
	compiler/lower/prefetch.c \
	compiler/lower/sink.c \
	compiler/lower/partition.c \
	compiler/lower/flatten.c \
	compiler/lower/vectorize.c \
	compiler/lower/turn.c \
	compiler/lower/unroll.c \
	compiler/lower/jam.c \
	compiler/lower/lower.c \
	compiler/lower/passes.h \
	compiler/lower/expand_intrinsics.c \
	compiler/lower/gather.c \
	compiler/lower/guard.c \
	compiler/lower/iterations.c \
	compiler/lower/legalize.c \
	compiler/lower/mark_kernels.c \
	compiler/lower/name_shared.c \
	compiler/lower/narrow.c \
	compiler/lower/refuse_int64.c \
	compiler/lower/scalarize.c \
	compiler/lower/serialize_grids.c \
	compiler/lower/share_indices.c \
	compiler/lower/shuffle.c \
	compiler/lower/simplify.c \
	compiler/lower/split_kernels.c
