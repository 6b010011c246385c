# SPDX-License-Identifier: Apache-2.0
# Fuzzing of what reads untrusted input. `make check` runs each target over mutations of its seeds;
# `make fuzz`, in a build configured with --enable-asan --enable-ubsan CC=clang
# CFLAGS="-g -O1 -fsanitize=fuzzer-no-link", lets libFuzzer look for FUZZ_SECONDS at each. A target
# NAME is fuzz_NAME.c, and the lines of the one below.

fuzzers =
FUZZ_SECONDS = 60
EXTRA_DIST += tests/fuzz/fuzz.h tests/fuzz/driver.c

test_programs += tests/fuzz/test-ir-text
tests_fuzz_test_ir_text_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz_ir_text.c tests/fuzz/fuzz.h
fuzzers += tests/fuzz/fuzz_ir_text

test_programs += tests/fuzz/test-blob tests/fuzz/test-device-code
tests_fuzz_test_blob_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz_blob.c \
	tests/core/module-fixture.c
tests_fuzz_test_device_code_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz_device_code.c \
	tests/core/module-fixture.c
fuzzers += tests/fuzz/fuzz_blob tests/fuzz/fuzz_device_code

test_programs += tests/fuzz/test-graph-json
tests_fuzz_test_graph_json_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz_graph_json.c
fuzzers += tests/fuzz/fuzz_graph_json

test_programs += tests/fuzz/test-target
tests_fuzz_test_target_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz_target.c
fuzzers += tests/fuzz/fuzz_target
tests_fuzz_fuzz_target_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_target_LDADD = libbackplane.la $(GLIB_LIBS)

test_programs += tests/fuzz/test-onnx
tests_fuzz_test_onnx_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz_onnx.c
tests_fuzz_test_onnx_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_fuzz_test_onnx_LDADD = $(graphtest_LDADD)
fuzzers += tests/fuzz/fuzz_onnx

test_programs += tests/fuzz/test-relax
tests_fuzz_test_relax_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz_relax.c
fuzzers += tests/fuzz/fuzz_relax
tests_fuzz_fuzz_relax_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer

test_programs += tests/fuzz/test-params tests/fuzz/test-mblob
tests_fuzz_test_params_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz_params.c
tests_fuzz_test_mblob_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz_mblob.c tests/tvm/network.c \
	tests/tvm/artifact.c
fuzzers += tests/fuzz/fuzz_params tests/fuzz/fuzz_mblob
tests_fuzz_fuzz_params_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_params_LDADD = libbackplane-graph.la libbackplane.la $(GLIB_LIBS)
tests_fuzz_fuzz_mblob_SOURCES = tests/fuzz/fuzz_mblob.c tests/tvm/network.c tests/tvm/artifact.c
tests_fuzz_fuzz_mblob_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_mblob_LDADD = libbackplane-graph.la libbackplane.la $(GLIB_LIBS)

EXTRA_PROGRAMS += $(fuzzers)
CLEANFILES += $(fuzzers)
tests_fuzz_fuzz_ir_text_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_ir_text_LDADD = libbackplane-compiler.la libbackplane.la $(GLIB_LIBS)
tests_fuzz_fuzz_blob_SOURCES = tests/fuzz/fuzz_blob.c tests/core/module-fixture.c
tests_fuzz_fuzz_blob_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_blob_LDADD = libbackplane.la $(GLIB_LIBS)
tests_fuzz_fuzz_device_code_SOURCES = tests/fuzz/fuzz_device_code.c tests/core/module-fixture.c
tests_fuzz_fuzz_device_code_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_device_code_LDADD = libbackplane.la $(GLIB_LIBS)
tests_fuzz_fuzz_graph_json_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_graph_json_LDADD = libbackplane-graph.la libbackplane.la $(GLIB_LIBS)
tests_fuzz_fuzz_onnx_SOURCES = tests/fuzz/fuzz_onnx.c
tests_fuzz_fuzz_onnx_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_fuzz_fuzz_onnx_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_onnx_LDADD = tests/graph/libgraphtest.la libbackplane-graph.la libbackplane-compiler.la libbackplane.la \
	$(GLIB_LIBS) $(PROTOBUF_C_LIBS)

fuzz: $(fuzzers)
	for fuzzer in $(fuzzers); do \
	  $(MKDIR_P) $$fuzzer.corpus && $(AM_TESTS_ENVIRONMENT) \
	  ./$$fuzzer -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 $$fuzzer.corpus || exit 1; \
	done
.PHONY: fuzz
