# SPDX-License-Identifier: Apache-2.0
# Tests of: graph.
test_programs += tests/graph/test-onnx-bytes
test_programs += tests/graph/test-npy tests/graph/test-executor tests/graph/test-overlap tests/graph/test-relax tests/graph/test-sort
thread_tests += tests/graph/test-executor
test_programs += tests/graph/test-places
tests_graph_test_overlap_SOURCES = tests/graph/test-overlap.c tests/graph/call_graph.h
tests_graph_test_places_SOURCES = tests/graph/test-places.c tests/graph/call_graph.h
tests_graph_test_places_LDADD = $(LDADD) -lm

test_programs += tests/graph/test-graph-ir
tests_graph_test_graph_ir_SOURCES = tests/graph/test-graph-ir.c graph/ir/arena.c graph/ir/extent.c graph/ir/graph.c graph/ir/live.c \
	graph/ir/verify.c
tests_graph_test_graph_ir_LDADD = $(LDADD) -lm

# Code of the tests that make ONNX files, with the ONNX messages, which the library does not export.
check_LTLIBRARIES += tests/graph/libgraphtest.la
tests_graph_libgraphtest_la_SOURCES = tests/graph/onnx_builder.c tests/graph/onnx_builder.h \
	tests/graph/compile_check.c tests/graph/compile_check.h \
	tests/graph/random_attention.c tests/graph/random_fused.c \
	tests/graph/random_graph.c tests/graph/random_graph_file.c tests/graph/random_layers.c \
	tests/graph/random_moves.c tests/graph/random_pictures.c tests/graph/random_windows.c \
	tests/graph/random_quantised.c \
	tests/graph/random_signals.c tests/graph/random_make.h tests/graph/random_graph.h
nodist_tests_graph_libgraphtest_la_SOURCES = graph/onnx/onnx.pb-c.c
tests_graph_libgraphtest_la_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
graphtest_LDADD = tests/graph/libgraphtest.la $(LDADD) $(PROTOBUF_C_LIBS) -lm

long_programs += tests/graph/test-convolution tests/graph/test-open-extents tests/graph/test-random-graphs tests/graph/test-compile
test_programs += tests/graph/test-onnx tests/graph/test-load \
	tests/graph/test-limits tests/graph/test-external-data tests/graph/test-nested \
	tests/graph/test-caches tests/graph/test-specialize tests/graph/test-stages \
	tests/graph/test-types tests/graph/test-together tests/graph/test-values tests/graph/test-streams tests/graph/test-lists
thread_tests += tests/graph/test-together tests/graph/test-specialize

test_programs += tests/graph/test-chain
tests_graph_test_chain_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_chain_LDADD = $(graphtest_LDADD)

test_programs += tests/graph/test-claims
tests_graph_test_claims_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_claims_LDADD = $(graphtest_LDADD)

slow_tests += tests/graph/test-random-graphs
# Some tests only compare values that generated code computes. The sanitizers do not see generated
# code; other tests of models run the compiler's passes under them.
slow_tests += tests/graph/test-convolution tests/graph/test-types tests/graph/test-open-extents
tests_graph_test_random_graphs_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_random_graphs_LDADD = $(graphtest_LDADD) $(JANSSON_LIBS)

# The test does not run under sanitizers, whose own memory would exceed its limit.
if !SANITIZED
test_programs += tests/graph/test-compile-memory
endif
plain_tests += tests/graph/test-compile-memory
tests_graph_test_compile_memory_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_compile_memory_LDADD = $(graphtest_LDADD)

# The test does not run under sanitizers, which slow operators as much as missing vectorisation
# does.
if !SANITIZED
test_programs += tests/graph/test-cliffs
endif
plain_tests += tests/graph/test-cliffs
tests_graph_test_cliffs_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_cliffs_LDADD = $(graphtest_LDADD)

tests_graph_test_onnx_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_onnx_LDADD = $(graphtest_LDADD)
tests_graph_test_load_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_load_LDADD = $(graphtest_LDADD)
tests_graph_test_compile_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_compile_LDADD = $(graphtest_LDADD)
tests_graph_test_convolution_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_convolution_LDADD = $(graphtest_LDADD)
tests_graph_test_limits_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_limits_LDADD = $(graphtest_LDADD)
tests_graph_test_external_data_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_external_data_LDADD = $(graphtest_LDADD)
tests_graph_test_nested_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_nested_LDADD = $(graphtest_LDADD)
tests_graph_test_stages_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_stages_LDADD = $(graphtest_LDADD)
tests_graph_test_open_extents_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_open_extents_LDADD = $(graphtest_LDADD)
tests_graph_test_specialize_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_specialize_LDADD = $(graphtest_LDADD)
tests_graph_test_caches_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_caches_LDADD = $(graphtest_LDADD)
tests_graph_test_streams_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_streams_LDADD = $(graphtest_LDADD)
tests_graph_test_lists_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_lists_LDADD = $(graphtest_LDADD)
tests_graph_test_types_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_types_LDADD = $(graphtest_LDADD)
tests_graph_test_values_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_values_LDADD = $(graphtest_LDADD)
tests_graph_test_together_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_graph_test_together_LDADD = $(graphtest_LDADD)

# test-memory and test-exhaustion replace malloc, as the sanitizers do.
if !SANITIZED
test_programs += tests/graph/test-memory tests/graph/test-exhaustion
endif
plain_tests += tests/graph/test-memory tests/graph/test-exhaustion

long_scripts += tests/graph/test-onnx-cudalibs.sh
EXTRA_DIST += tests/graph/test-onnx-cudalibs.sh
test_scripts += tests/graph/test-operators.sh tests/graph/test-onnx-cases.sh tests/graph/test-onnx-devices.sh tests/graph/test-recurrent.sh \
	tests/graph/test-language-model.sh tests/graph/test-mutated-models.sh
long_scripts += tests/graph/test-onnxruntime.sh
slow_tests += tests/graph/test-language-model.sh tests/graph/test-onnxruntime.sh tests/graph/test-onnx-cases.sh tests/graph/test-onnx-devices.sh tests/graph/test-recurrent.sh
EXTRA_DIST += tests/graph/test-operators.sh tests/graph/onnx-operators.txt tests/graph/test-onnx-cases.sh tests/graph/test-onnx-devices.sh \
	tests/graph/onnx_cases.py tests/graph/onnx_node_cases.py tests/graph/test-onnxruntime.sh tests/graph/onnxruntime_cases.py \
	tests/graph/test-recurrent.sh tests/graph/recurrent_cases.py tests/graph/test-language-model.sh \
	tests/graph/language_model_cases.py tests/graph/test-mutated-models.sh tests/graph/mutated_models.py
