# SPDX-License-Identifier: Apache-2.0
# Tests of: graph.
test_programs += tests/graph/test-npy tests/graph/test-executor tests/graph/test-relax tests/graph/test-sort
thread_tests += tests/graph/test-executor

# Tests that make ONNX files need the messages, which the library keeps to itself.
onnx_builder = tests/graph/onnx_builder.c tests/graph/onnx_builder.h
test_programs += tests/graph/test-onnx
tests_graph_test_onnx_SOURCES = tests/graph/test-onnx.c $(onnx_builder)
nodist_tests_graph_test_onnx_SOURCES = graph/onnx/onnx.pb-c.c
tests_graph_test_onnx_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_onnx_LDADD = $(LDADD) $(PROTOBUF_C_LIBS)
test_programs += tests/graph/test-compile
tests_graph_test_compile_SOURCES = tests/graph/test-compile.c $(onnx_builder)
nodist_tests_graph_test_compile_SOURCES = graph/onnx/onnx.pb-c.c
tests_graph_test_compile_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_compile_LDADD = $(LDADD) $(PROTOBUF_C_LIBS) -lm

test_programs += tests/graph/test-types
tests_graph_test_types_SOURCES = tests/graph/test-types.c $(onnx_builder)
nodist_tests_graph_test_types_SOURCES = graph/onnx/onnx.pb-c.c
tests_graph_test_types_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_types_LDADD = $(LDADD) $(PROTOBUF_C_LIBS) -lm

test_programs += tests/graph/test-together
thread_tests += tests/graph/test-together
tests_graph_test_together_SOURCES = tests/graph/test-together.c $(onnx_builder)
nodist_tests_graph_test_together_SOURCES = graph/onnx/onnx.pb-c.c
tests_graph_test_together_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_together_LDADD = $(LDADD) $(PROTOBUF_C_LIBS) -lm

# It replaces malloc, which the sanitizers do themselves.
if !SANITIZED
test_programs += tests/graph/test-memory
endif

test_scripts += tests/graph/test-operators.sh
EXTRA_DIST += tests/graph/test-operators.sh
