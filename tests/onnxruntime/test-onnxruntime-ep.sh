#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The execution provider inside onnxruntime, and its Python package.
if ! "${BP_TEST_PYTHON:-false}" -c 'import numpy, onnx, onnxruntime' 2>/dev/null; then
  echo "1..0 # SKIP BP_TEST_PYTHON names no Python with numpy, onnx and onnxruntime; run ./quickstart check"
  exit 0
fi
library=$top_builddir/.libs/libbackplane-onnxruntime.so
if [ ! -e "$library" ]; then
  echo "1..0 # SKIP configured with --disable-onnxruntime"
  exit 0
fi
. "$top_srcdir/tests/tap.sh"
export LD_LIBRARY_PATH=$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PYTHONDONTWRITEBYTECODE=1
# Build the package as for a wheel, with the library inside.
cp -r "$top_srcdir/bridges/onnxruntime/python" "$work/python"
chmod -R u+w "$work/python"
package_has_its_library() {
  (cd "$work/python" && BACKPLANE_ONNXRUNTIME_LIBRARY=$library "$BP_TEST_PYTHON" setup.py -q build_py --build-lib "$work/built") &&
    PYTHONPATH=$work/built says "$work/built" "$BP_TEST_PYTHON" -c \
      'import onnxruntime_ep_backplane as package; print(package.get_library_path())'
}
# The blocks of the page run as one program.
page_runs() {
  cp "$top_srcdir/examples/digits/digits.onnx" "$work/" &&
    PYTHONPATH=$work/built "$BP_TEST_PYTHON" "$top_srcdir/tests/docs/check_pages.py" --python \
      "$top_srcdir/docs/onnxruntime.md" "$work" &&
    [ -s "$work/digits-kept.onnx" ]
}
cases() {
  "$BP_TEST_PYTHON" "$top_srcdir/tests/onnxruntime/provider_cases.py" "$library" \
    "$top_srcdir/bridges/onnxruntime/python/src" "$work" "$top_srcdir/examples/digits/digits.onnx" ${BP_TEST_LONG:+--all}
}
ok /onnxruntime/package-has-its-library package_has_its_library
# This program names the provider in the form that onnxruntime 1.26 and later accept.
if "$BP_TEST_PYTHON" -c 'import onnxruntime; raise SystemExit(tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 26))'; then
  ok /onnxruntime/page-runs page_runs
fi
# The TAP lines of provider_cases.py follow, renumbered and without its plan.
cases >"$work/cases"
sed -e '/^1\.\./d' -e 's/^\(not ok\|ok\) [0-9]* /\1 /' "$work/cases"
planned=$(sed -n 's/^1\.\.//p' "$work/cases")
echo "1..$((count + planned))"
