# SPDX-License-Identifier: Apache-2.0
# The C-family emitter.

libbackplane_compiler_la_SOURCES += \
	compiler/emit/call.c \
	compiler/emit/dialect.h \
	compiler/emit/dialect_c.c \
	compiler/emit/dialect_cuda.c \
	compiler/emit/dialect_glsl.c \
	compiler/emit/dialect_opencl.c \
	compiler/emit/emit.h \
	compiler/emit/emitter.c \
	compiler/emit/equal.c \
	compiler/emit/expr.c \
	compiler/emit/function.c \
	compiler/emit/memory.c \
	compiler/emit/texel.c \
	compiler/emit/parallel.c \
	compiler/emit/stmt.c \
	compiler/emit/support.c \
	compiler/emit/table.h \
	compiler/emit/text.c \
	compiler/emit/types.c \
	compiler/emit/vector.c
