#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Models with open extents, run from Python beside onnxruntime. A test of its own, to run beside the others.
set -euo pipefail
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/python/package.sh"
need_python pytest, numpy, onnx, onnxruntime, setuptools
ok /python/open-shapes/package-builds package_builds "$BP_TEST_PYTHON"
ok /python/open-shapes/tests-pass "$BP_TEST_PYTHON" -m pytest -q -p no:cacheprovider tests/test_open_shapes.py
echo "1..$count"
