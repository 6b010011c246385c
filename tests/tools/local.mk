# SPDX-License-Identifier: Apache-2.0
# Tests of: tools.
test_scripts += tests/tools/test-backplane.sh tests/tools/test-run.sh tests/tools/test-compare.sh tests/tools/test-onnx.sh
EXTRA_DIST += tests/tools/test-backplane.sh tests/tools/test-run.sh tests/tools/test-compare.sh tests/tools/test-onnx.sh tests/tools/onnx.sh
test_scripts += tests/tools/test-layers.sh
EXTRA_DIST += tests/tools/test-layers.sh
