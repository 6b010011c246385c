# SPDX-License-Identifier: Apache-2.0
# Tests of: bridges/onnxruntime. Python loads the library, so sanitized builds leave these tests out.
EXTRA_DIST += tests/onnxruntime/provider_cases.py tests/onnxruntime/test-onnxruntime-ep.sh tests/onnxruntime/oldest.txt \
	tests/onnxruntime/slots.py tests/onnxruntime/test-onnxruntime-slots.sh
test_programs += tests/onnxruntime/test-onnxruntime-abi
if !SANITIZED
check_LTLIBRARIES += tests/onnxruntime/slots-provider.la
tests_onnxruntime_slots_provider_la_SOURCES = tests/onnxruntime/slots_provider.c
tests_onnxruntime_slots_provider_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)
test_scripts += tests/onnxruntime/test-onnxruntime-ep.sh tests/onnxruntime/test-onnxruntime-slots.sh
endif
plain_tests += tests/onnxruntime/test-onnxruntime-ep.sh tests/onnxruntime/test-onnxruntime-slots.sh
