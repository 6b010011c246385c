#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Python package, built against this build: its own tests, and mypy.
set -euo pipefail
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/python/package.sh"
need_python pytest, mypy, numpy, setuptools
ok /python/builds package_builds "$BP_TEST_PYTHON"
export MYPY_CACHE_DIR=$work/mypy
ok /python/types-are-sound "$BP_TEST_PYTHON" -m mypy
# Only newer Pythons have the method __buffer__; the protocol is older.
echo backplane._core.Tensor.__buffer__ >"$work/allowed"
ok /python/stubs-match "$BP_TEST_PYTHON" -m mypy.stubtest backplane._core \
  --allowlist "$work/allowed" --ignore-unused-allowlist
ok /python/tests-pass "$BP_TEST_PYTHON" -m pytest -q -p no:cacheprovider tests --ignore tests/test_open_shapes.py \
  --ignore tests/test_control_flow.py --ignore tests/test_sequences.py
ok /python/example-runs "$BP_TEST_PYTHON" "$top_srcdir/python/examples/first_steps.py"
# The program of README.md runs in a folder with the files that it loads.
readme_runs() {
  "$top_builddir/backplane" compile "$top_srcdir/examples/digits/digits.onnx" --shape image=1x1x28x28 --target c -o "$work/digits.so" &&
    says "This is a 1" "$BP_TEST_PYTHON" "$top_srcdir/tests/docs/check_pages.py" --python "$top_srcdir/README.md" "$work"
}
# The blocks of the Python page run as one program.
page_runs() {
  cp "$top_srcdir/examples/digits/digits.onnx" "$work/" &&
    "$BP_TEST_PYTHON" "$top_srcdir/tests/docs/check_pages.py" --python "$top_srcdir/docs/python.md" "$work"
}
# The example of docs/debugging.md runs on a dump with one wrong pass.
finds_the_pass() {
  local find=$top_srcdir/scripts/find-pass
  mkdir "$work/dump" && "$top_builddir/backplane" compile "$top_srcdir/examples/digits/digits.onnx" --shape image=1x1x28x28 --target c \
    --dump "$work/dump" -o "$work/dumped.so" &&
    says "fused_maxpool_2: all passes agree" "$BP_TEST_PYTHON" "$find" "$work/dump" fused_maxpool_2 &&
    sed -i 's/(max /(min /' "$work"/dump/*maxpool_2.{vectorize,unroll,tidy}.ir &&
    ends_saying 1 "fused_maxpool_2: vectorize changes the result" "$BP_TEST_PYTHON" "$find" "$work/dump" fused_maxpool_2
}
ok /python/finds-the-pass finds_the_pass
ok /python/readme-runs readme_runs
ok /python/page-runs page_runs
if [ -e "$top_builddir/plugins/built/backplane-dnnl.so" ]; then
  ok /python/page-of-dnnl-runs "$BP_TEST_PYTHON" "$top_srcdir/tests/docs/check_pages.py" --python "$top_srcdir/docs/plugin-dnnl.md" "$work"
fi
# The modules of the page of IR are valid.
ok /python/page-of-ir-verifies "$BP_TEST_PYTHON" "$top_srcdir/tests/docs/check_pages.py" --ir "$top_srcdir/docs/ir.md"
echo "1..$count"
