#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# No function of the public headers and no slot of the host's tables is ended by NULL: it raises an error, or NULL is allowed.
set -u
. "$top_srcdir/tests/tap.sh"
command -v python3 >/dev/null || { echo "1..0 # SKIP no python3"; exit 0; }
libraries=$top_builddir/.libs
if nm -D "$libraries/libbackplane.so" | grep -qE ' U __(asan|tsan)_'; then
  echo "1..0 # SKIP Python does not load sanitized libraries"
  exit 0
fi

null_is_an_error() {
  "$top_builddir/backplane" compile "$top_srcdir/examples/digits/digits.onnx" --target c --shape image=1x1x28x28 -o "$work/digits.so" &&
    python3 "$top_srcdir/tests/abi/null_arguments.py" "$top_srcdir/include:$top_srcdir/sdk/include" "$top_srcdir/sdk/backplane-abi.json" \
      "$libraries/libbackplane.so:$libraries/libbackplane-compiler.so:$libraries/libbackplane-graph.so" "$work/digits.so" \
      "$top_srcdir/tests/abi/null-allowed.txt"
}

ok "NULL is an error where it is not allowed" null_is_an_error
echo "1..$count"
