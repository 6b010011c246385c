# SPDX-License-Identifier: Apache-2.0
# The ONNX importer. The decoder of ONNX messages is generated from onnx.proto.

libbackplane_graph_la_SOURCES += \
	graph/onnx/attribute.c \
	graph/onnx/body.c \
	graph/onnx/branch.c \
	graph/onnx/control.c \
	graph/onnx/declared.c \
	graph/onnx/describe.c \
	graph/onnx/external.c \
	graph/onnx/import.c graph/onnx/import.h \
	graph/onnx/memory.c \
	graph/onnx/open_sequence.c \
	graph/onnx/order.c \
	graph/onnx/reader.c graph/onnx/reader.h \
	graph/onnx/scope.c graph/onnx/scope.h \
	graph/onnx/sequence.c \
	graph/onnx/tensor.c
nodist_libbackplane_graph_la_SOURCES += graph/onnx/onnx.pb-c.c graph/onnx/onnx.pb-c.h

EXTRA_DIST += graph/onnx/onnx.proto
BUILT_SOURCES += graph/onnx/onnx.pb-c.h
CLEANFILES += graph/onnx/onnx.pb-c.c graph/onnx/onnx.pb-c.h

graph/onnx/onnx.pb-c.h: graph/onnx/onnx.proto
	$(AM_V_GEN)$(MKDIR_P) graph/onnx && \
	$(PROTOC_C) --proto_path=$(srcdir) --c_out=. $(srcdir)/graph/onnx/onnx.proto
graph/onnx/onnx.pb-c.c: graph/onnx/onnx.pb-c.h
	$(AM_V_at)touch $@
