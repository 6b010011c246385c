# SPDX-License-Identifier: Apache-2.0
# The conformance kit: a static library, for the command and for programs that contain plugins.

lib_LTLIBRARIES += libbackplane-conformance.la
libbackplane_conformance_la_SOURCES = conformance/run.h conformance/kit.h \
	conformance/main.c conformance/output.c conformance/plan.c conformance/child.c conformance/parent.c conformance/report.c \
	conformance/kit.c conformance/usage.c conformance/sections.c \
	conformance/claims.c conformance/onnx.h conformance/onnx.c conformance/operators.c \
	conformance/plugin.c conformance/file.c conformance/device.c conformance/memory.c conformance/copy.c \
	conformance/stream.c conformance/performance.c \
	conformance/kernel.h conformance/kernel.c conformance/module.c conformance/launch.c conformance/sizes.c \
	conformance/programs.h conformance/programs.c conformance/random.h conformance/random.c \
	conformance/judge.h conformance/judge.c conformance/codegen.c conformance/schedules.c \
	conformance/fault.c
libbackplane_conformance_la_LDFLAGS = -static
