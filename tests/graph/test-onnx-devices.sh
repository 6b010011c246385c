#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In `make check-long`, a third of ONNX's own cases has the expected outputs on devices, or is refused by
# name.
if [ -z "${BP_TEST_PYTHON-}" ] || [ -z "${BP_TEST_LONG-}" ]; then
  echo "1..0 # SKIP no Python with onnx, or not in make check-long"
  exit 0
fi
. "$top_srcdir/tests/tap.sh"
for target in opencl vulkan; do
  "$BP_TEST_PYTHON" "$top_srcdir/tests/graph/onnx_cases.py" "$top_builddir/backplane" "$work" $target --third
done >"$work/cases"
# One plan for both runs: each run numbers its own cases.
sed -e '/^1\.\./d' -e 's/^\(not ok\|ok\) [0-9]* /\1 /' "$work/cases"
echo "1..$(($(sed -n 's/^1\.\.//p' "$work/cases" | paste -s -d+)))"
