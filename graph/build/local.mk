# SPDX-License-Identifier: Apache-2.0
# The builder: from a graph to an artifact.

libbackplane_graph_la_SOURCES += \
	graph/build/append.c \
	graph/build/arenas.c \
	graph/build/build.h \
	graph/build/byte_bits.c \
	graph/build/byte_products.c graph/build/byte_products.h \
	graph/build/canonical.c \
	graph/build/choose.c graph/build/choose.h \
	graph/build/part_times.c \
	graph/build/claim.c \
	graph/build/compile.c \
	graph/build/dump.c \
	graph/build/fuse.c \
	graph/build/json.c \
	graph/build/kernels.c \
	graph/build/layout.c \
	graph/build/dequantized.c \
	graph/build/load.c \
	graph/build/lower.c \
	graph/build/numbers.c \
	graph/build/options.c graph/build/options.h \
	graph/build/outputs.c \
	graph/build/pack.c \
	graph/build/params.c \
	graph/build/passes.c \
	graph/build/place.c \
	graph/build/plan.c \
	graph/build/program.c graph/build/program.h \
	graph/build/program_code.c \
	graph/build/program_control.c \
	graph/build/program_extents.c \
	graph/build/program_values.c \
	graph/build/same.c \
	graph/build/simplify.c \
	graph/build/specialize.c \
	graph/build/steps.c \
	graph/build/stages.c \
	graph/build/view.c graph/build/view.h \
	graph/build/winograd.c graph/build/winograd.h
