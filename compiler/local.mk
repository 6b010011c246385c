# SPDX-License-Identifier: Apache-2.0
# libbackplane-compiler.

libbackplane_compiler_la_SOURCES += compiler/start.c

include compiler/ir/local.mk
include compiler/te/local.mk
include compiler/lower/local.mk
include compiler/emit/local.mk
include compiler/schedules/local.mk
