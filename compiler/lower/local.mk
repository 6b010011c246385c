# SPDX-License-Identifier: Apache-2.0
# Lowering passes.

libbackplane_compiler_la_SOURCES += \
	compiler/lower/linear.h \
	compiler/lower/linear.c \
	compiler/lower/lowering.h \
	compiler/lower/normalize.c \
	compiler/lower/region.c \
	compiler/lower/build.c \
	compiler/lower/flatten.c \
	compiler/lower/vectorize.c \
	compiler/lower/unroll.c \
	compiler/lower/lower.c
