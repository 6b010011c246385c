#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each slot of ort_abi.h works as the header says, in the installed onnxruntime. `make check-long` also installs the
# oldest supported onnxruntime, and runs the cases of the provider in it.
if ! "${BP_TEST_PYTHON:-false}" -c 'import numpy, onnx, onnxruntime' 2>/dev/null; then
  echo "1..0 # SKIP BP_TEST_PYTHON names no Python with numpy, onnx and onnxruntime; run ./quickstart check"
  exit 0
fi
. "$top_srcdir/tests/tap.sh"
export PYTHONDONTWRITEBYTECODE=1
export LD_LIBRARY_PATH=$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
here=$top_srcdir/tests/onnxruntime
slots() {
  "$1" "$here/slots.py" "$top_builddir/tests/onnxruntime/.libs/slots-provider.so" \
    "$top_srcdir/bridges/onnxruntime/ort_abi.h" "$work" >"$work/said" 2>&1
  sed 's/^/# /' "$work/said"
  grep -q '^ok 1 ' "$work/said" && grep -q '^ok 2 ' "$work/said" && grep -q 'the graph is read' "$work/said"
}
ok /onnxruntime/slots-of-the-newest-version slots "$BP_TEST_PYTHON"

cases_of_the_oldest() {
  "$1" "$here/provider_cases.py" "$top_builddir/.libs/libbackplane-onnxruntime.so" \
    "$top_srcdir/bridges/onnxruntime/python/src" "$work" "$top_srcdir/examples/digits/digits.onnx" >"$work/cases"
  local status=$?
  sed 's/^/# /' "$work/cases"
  return "$status"
}
if [ -n "${BP_TEST_LONG:-}" ]; then
  oldest=$work/oldest
  if "$BP_TEST_PYTHON" -m venv "$oldest" && "$oldest/bin/pip" install -q -r "$here/oldest.txt" >"$work/installed" 2>&1; then
    ok /onnxruntime/slots-of-the-oldest-version slots "$oldest/bin/python"
    if [ -e "$top_builddir/.libs/libbackplane-onnxruntime.so" ]; then
      ok /onnxruntime/cases-in-the-oldest-version cases_of_the_oldest "$oldest/bin/python"
    fi
  else
    tail -3 "$work/installed" | sed 's/^/# /'
    count=$((count + 1))
    echo "ok $count /onnxruntime/slots-of-the-oldest-version # SKIP pip does not install tests/onnxruntime/oldest.txt"
  fi
fi
echo "1..$count"
