# SPDX-License-Identifier: Apache-2.0
# The graph IR.

libbackplane_graph_la_SOURCES += \
	graph/ir/arena.c graph/ir/arena.h \
	graph/ir/extent.c graph/ir/extent.h \
	graph/ir/graph.c graph/ir/graph.h graph/ir/live.c graph/ir/verify.c
