#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs what TVM compiled. The argument of make_*.py's name is taken from this script's.
set -euo pipefail
what=$(basename "$0" .sh)
what=${what#test-}
if ! "${BP_TEST_PYTHON:-false}" -c 'import tvm' 2>/dev/null; then
  echo 1..1
  echo "ok 1 /tvm/$what # SKIP BP_TEST_PYTHON names no Python with apache-tvm"
  exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$BP_TEST_PYTHON" "$top_srcdir/tests/tvm/make_$what.py" "$folder" >"$folder/log" 2>&1 || {
  sed 's/^/# /' "$folder/log"
  echo "Bail out! TVM failed to compile"
  exit 1
}
"$top_builddir/tests/tvm/run-cases" "$folder/cases.txt"
