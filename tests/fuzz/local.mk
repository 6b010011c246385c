# SPDX-License-Identifier: Apache-2.0
# Fuzz targets, NAME being fuzz_NAME.c. In `make check` the driver tries the inputs in corpus/NAME
# and mutations of the target's seeds. A new target has the functions of fuzz.h, its name in
# fuzz_targets and EXTRA_PROGRAMS, a test test-NAME (with - for _), and an input in corpus/NAME.
#
# `make fuzz`, in a build configured with --enable-asan --enable-ubsan CC=clang
# CFLAGS="-g -O1 -fsanitize=fuzzer-no-link", lets libFuzzer look for FUZZ_SECONDS at each, starting
# with both, and with the target's pieces as its dictionary. The inputs that reach new code are then
# in tests/fuzz/NAME.corpus, an input that fails is in the current folder. `make fuzz-corpora` copies
# the smallest inputs of tests/fuzz/NAME.corpus to corpus/NAME.

FUZZ_SECONDS = 60
# A Relax program may request much memory: a large allocation is not an error.
fuzz_flags_relax = -malloc_limit_mb=65536

fuzz_targets = blob device_code graph_json ir_text mblob npy onnx params \
	plugin preferences relax target
fuzzers = $(fuzz_targets:%=tests/fuzz/fuzz_%)
EXTRA_PROGRAMS += tests/fuzz/fuzz_blob \
	tests/fuzz/fuzz_device_code \
	tests/fuzz/fuzz_graph_json \
	tests/fuzz/fuzz_ir_text \
	tests/fuzz/fuzz_mblob \
	tests/fuzz/fuzz_npy \
	tests/fuzz/fuzz_onnx \
	tests/fuzz/fuzz_params \
	tests/fuzz/fuzz_plugin \
	tests/fuzz/fuzz_preferences \
	tests/fuzz/fuzz_relax \
	tests/fuzz/fuzz_target
CLEANFILES += $(fuzzers)
EXTRA_DIST += tests/fuzz/fuzz.h tests/fuzz/keep-small tests/fuzz/corpus

test_programs += tests/fuzz/test-blob
tests_fuzz_test_blob_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz_blob.c tests/core/module-fixture.c
tests_fuzz_fuzz_blob_SOURCES = tests/fuzz/fuzz_blob.c tests/core/module-fixture.c

test_programs += tests/fuzz/test-device-code
tests_fuzz_test_device_code_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz_device_code.c tests/core/module-fixture.c
tests_fuzz_fuzz_device_code_SOURCES = tests/fuzz/fuzz_device_code.c tests/core/module-fixture.c

test_programs += tests/fuzz/test-graph-json
tests_fuzz_test_graph_json_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz_graph_json.c

test_programs += tests/fuzz/test-ir-text
tests_fuzz_test_ir_text_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz_ir_text.c

test_programs += tests/fuzz/test-mblob
tests_fuzz_test_mblob_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz_mblob.c tests/tvm/network.c tests/tvm/artifact.c
tests_fuzz_fuzz_mblob_SOURCES = tests/fuzz/fuzz_mblob.c tests/tvm/network.c tests/tvm/artifact.c

test_programs += tests/fuzz/test-npy
tests_fuzz_test_npy_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz_npy.c

test_programs += tests/fuzz/test-onnx
tests_fuzz_test_onnx_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz_onnx.c
tests_fuzz_test_onnx_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_fuzz_test_onnx_LDADD = $(graphtest_LDADD)
tests_fuzz_fuzz_onnx_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_fuzz_fuzz_onnx_LDADD = $(graphtest_LDADD)

test_programs += tests/fuzz/test-params
tests_fuzz_test_params_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz_params.c

test_programs += tests/fuzz/test-plugin
tests_fuzz_test_plugin_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz_plugin.c

test_programs += tests/fuzz/test-preferences
tests_fuzz_test_preferences_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz_preferences.c

test_programs += tests/fuzz/test-relax
tests_fuzz_test_relax_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz_relax.c

test_programs += tests/fuzz/test-target
tests_fuzz_test_target_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz_target.c

fuzz: all
	$(MAKE) $(AM_MAKEFLAGS) $(fuzz_targets:%=fuzz-%)
# libFuzzer provides main().
fuzz-%: all
	$(MAKE) $(AM_MAKEFLAGS) tests/fuzz/fuzz_$* AM_LDFLAGS='$(AM_LDFLAGS) -fsanitize=fuzzer'
	test=tests/fuzz/test-`echo $* | tr _ -` && $(MAKE) $(AM_MAKEFLAGS) $$test && \
	$(MKDIR_P) tests/fuzz/$*.corpus && ./$$test --write tests/fuzz/$*.corpus
	$(AM_TESTS_ENVIRONMENT) ASAN_OPTIONS="max_allocation_size_mb=4096:$$ASAN_OPTIONS" ./tests/fuzz/fuzz_$* -max_total_time=$(FUZZ_SECONDS) -timeout=10 \
	  -rss_limit_mb=2048 -max_len=8192 -print_final_stats=1 $(fuzz_flags_$*) -dict=tests/fuzz/$*.corpus.dict \
	  tests/fuzz/$*.corpus $(srcdir)/tests/fuzz/corpus/$*
fuzz-corpora:
	for target in $(fuzz_targets); do \
	  $(srcdir)/tests/fuzz/keep-small tests/fuzz/fuzz_$$target tests/fuzz/$$target.corpus \
	    $(srcdir)/tests/fuzz/corpus/$$target || exit 1; \
	done
.PHONY: fuzz fuzz-corpora
