#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Recurrent layers have the outputs that NumPy computes by the formulas of ONNX's specification.
if [ -z "${BP_TEST_PYTHON-}" ]; then
  echo "1..0 # SKIP no Python with onnx; run ./quickstart check"
  exit 0
fi
. "$top_srcdir/tests/tap.sh"
"$BP_TEST_PYTHON" "$top_srcdir/tests/graph/recurrent_cases.py" "$top_builddir/backplane" "$work" "llvm -opt=0"
