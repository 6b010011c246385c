# SPDX-License-Identifier: Apache-2.0
# Schedules for common computations.

libbackplane_compiler_la_SOURCES += \
	compiler/schedules/analysis.c compiler/schedules/analysis.h \
	compiler/schedules/auto.c \
	compiler/schedules/elementwise.c \
	compiler/schedules/hoist.c \
	compiler/schedules/kernels.c \
	compiler/schedules/parts.h \
	compiler/schedules/permute.c \
	compiler/schedules/pooled.c \
	compiler/schedules/reduce.c \
	compiler/schedules/scan.c \
	compiler/schedules/statements.c \
	compiler/schedules/thread_block.c \
	compiler/schedules/thread_rows.c \
	compiler/schedules/thread_tile.c \
	compiler/schedules/thread_transform.c \
	compiler/schedules/threads.c compiler/schedules/threads.h \
	compiler/schedules/tile.c \
	compiler/schedules/transform.c \
	compiler/schedules/types.c \
	compiler/schedules/window.c
