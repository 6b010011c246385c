#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The backend of torch.compile and from_torch, and the programs of docs/pytorch.md. BP_TEST_TORCH names a Python that
# has torch, onnxscript, onnx, pytest and setuptools; they take more than 1 GB, so `./quickstart check` installs none of
# them.
if ! "${BP_TEST_TORCH:-false}" -c 'import torch, onnxscript, onnx, pytest, setuptools' 2>/dev/null; then
  echo "1..0 # SKIP BP_TEST_TORCH names no Python with torch, onnxscript, onnx, pytest and setuptools"
  exit 0
fi
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/python/package.sh"
ok /torch/package-builds package_builds "$BP_TEST_TORCH"
ok /torch/tests-pass "$BP_TEST_TORCH" -m pytest -q -p no:cacheprovider tests/test_torch.py
page_runs() {
  "$BP_TEST_TORCH" "$top_srcdir/tests/docs/check_pages.py" --python "$top_srcdir/docs/pytorch.md" "$work"
}
ok /torch/page-runs page_runs
echo "1..$count"
