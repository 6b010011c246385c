#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Models with If, Loop, Scan and sequences, run from Python beside onnxruntime. These models are a
# separate test, which runs beside the other tests.
set -euo pipefail
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/python/package.sh"
need_python pytest, numpy, onnx, onnxruntime, setuptools
ok /python/control-flow/package-builds package_builds "$BP_TEST_PYTHON"
ok /python/control-flow/tests-pass "$BP_TEST_PYTHON" -m pytest -q -p no:cacheprovider tests/test_control_flow.py tests/test_sequences.py
echo "1..$count"
