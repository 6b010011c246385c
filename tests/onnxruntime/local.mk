# SPDX-License-Identifier: Apache-2.0
# Tests of: bridges/onnxruntime. Python loads the library, so a sanitized build leaves them out.
EXTRA_DIST += tests/onnxruntime/provider_cases.py tests/onnxruntime/test-onnxruntime-ep.sh
test_programs += tests/onnxruntime/test-onnxruntime-abi
if !SANITIZED
test_scripts += tests/onnxruntime/test-onnxruntime-ep.sh
endif
