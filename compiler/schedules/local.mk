# SPDX-License-Identifier: Apache-2.0
# Schedules for common computations.

libbackplane_compiler_la_SOURCES += compiler/schedules/conv.c
