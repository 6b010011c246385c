# SPDX-License-Identifier: Apache-2.0
# Tests with code that TVM compiles.

check_PROGRAMS += tests/tvm/run-cases
tests_tvm_run_cases_LDADD = $(LDADD) -lm
test_scripts += tests/tvm/test-libraries.sh tests/tvm/test-models.sh tests/tvm/test-operators.sh tests/tvm/test-coexist.sh tests/tvm/test-page.sh
slow_tests += tests/tvm/test-libraries.sh tests/tvm/test-models.sh tests/tvm/test-operators.sh tests/tvm/test-coexist.sh tests/tvm/test-page.sh
EXTRA_DIST += tests/tvm/compiled.sh tests/tvm/make_libraries.py tests/tvm/make_models.py tests/tvm/make_operators.py tests/tvm/test-libraries.sh \
	tests/tvm/test-models.sh tests/tvm/test-operators.sh tests/tvm/test-coexist.sh tests/tvm/test-page.sh tests/tvm/make_coexist.py \
	tests/tvm/coexist.py

# Artifacts of TVM up to 0.19; the tests write them.
tvm_artifact = tests/tvm/artifact.c tests/tvm/artifact.h
test_programs += tests/tvm/test-packed-c
tests_tvm_test_packed_c_SOURCES = tests/tvm/test-packed-c.c $(tvm_artifact)
tvm_network = tests/tvm/network.c tests/tvm/network.h $(tvm_artifact)
test_programs += tests/tvm/test-graph
tests_tvm_test_graph_SOURCES = tests/tvm/test-graph.c $(tvm_network)
tests_tvm_test_graph_LDADD = $(LDADD) -ldl
tests_tvm_test_packed_c_LDADD = $(LDADD) -lm
check_PROGRAMS += tests/tvm/write-artifacts
tests_tvm_write_artifacts_SOURCES = tests/tvm/write-artifacts.c $(tvm_network)
test_scripts += tests/tvm/test-run.sh
EXTRA_DIST += tests/tvm/test-run.sh
