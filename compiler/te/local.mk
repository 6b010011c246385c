# SPDX-License-Identifier: Apache-2.0
# Tensor expressions and schedules.

libbackplane_compiler_la_SOURCES += \
	compiler/te/te_private.h \
	compiler/te/te.c \
	compiler/te/schedule.c \
	compiler/te/cache.c \
	compiler/te/widen.c \
	compiler/te/scan.c \
	compiler/te/statements.c
