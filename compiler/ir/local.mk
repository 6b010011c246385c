# SPDX-License-Identifier: Apache-2.0
# The tensor IR: nodes and their makers, text form, checks, reference interpreter.

libbackplane_compiler_la_SOURCES += \
	compiler/ir/block.c \
	compiler/ir/build.c \
	compiler/ir/interpreter/call.c \
	compiler/ir/interpreter/eval.c \
	compiler/ir/interpreter/resolve.c \
	compiler/ir/interpreter/run.c \
	compiler/ir/interpreter/state.h \
	compiler/ir/intrinsics.c \
	compiler/ir/intrinsics.h \
	compiler/ir/ir.h \
	compiler/ir/module.c \
	compiler/ir/node.c \
	compiler/ir/parse.c \
	compiler/ir/print.c \
	compiler/ir/rewrite.c \
	compiler/ir/scalar.c \
	compiler/ir/scalar.h \
	compiler/ir/statement.c \
	compiler/ir/syntax.c \
	compiler/ir/argument.h \
	compiler/ir/syntax.h \
	compiler/ir/table.c \
	compiler/ir/text.c \
	compiler/ir/text.h \
	compiler/ir/types.c \
	compiler/ir/types.h \
	compiler/ir/verify.c
