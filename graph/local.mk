# SPDX-License-Identifier: Apache-2.0
# libbackplane-graph.

include graph/ir/local.mk
include graph/ops/local.mk
include graph/onnx/local.mk
include graph/build/local.mk
include graph/exec/local.mk
include graph/io/local.mk
include graph/relax/local.mk

libbackplane_graph_la_SOURCES += graph/start.c
