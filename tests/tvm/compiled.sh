# SPDX-License-Identifier: Apache-2.0
# Sourced with a name: runs the libraries that TVM compiles for make_NAME.py.
set -euo pipefail
what=$1
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
