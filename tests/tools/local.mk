# SPDX-License-Identifier: Apache-2.0
# Tests of: tools.
test_scripts += tests/tools/test-backplane.sh tests/tools/test-run.sh tests/tools/test-compare.sh tests/tools/test-onnx.sh
slow_tests += tests/tools/test-backplane.sh
EXTRA_DIST += tests/tools/test-backplane.sh tests/tools/test-run.sh tests/tools/test-compare.sh tests/tools/test-onnx.sh tests/tools/onnx.sh
test_scripts += tests/tools/test-layers.sh
EXTRA_DIST += tests/tools/test-layers.sh
test_scripts += tests/tools/test-report.sh
EXTRA_DIST += tests/tools/test-report.sh
test_scripts += tests/tools/test-manual.sh
EXTRA_DIST += tests/tools/test-manual.sh
test_scripts += tests/tools/test-isolate.sh
EXTRA_DIST += tests/tools/test-isolate.sh
test_scripts += tests/tools/test-mpi.sh
EXTRA_DIST += tests/tools/test-mpi.sh tests/tools/mpi_items.py
test_scripts += tests/tools/test-remote.sh
EXTRA_DIST += tests/tools/test-remote.sh
test_scripts += tests/tools/test-command-faults.sh
EXTRA_DIST += tests/tools/test-command-faults.sh tests/tools/command_faults.py
plain_tests += tests/tools/test-command-faults.sh
