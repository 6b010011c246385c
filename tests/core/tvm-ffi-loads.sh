#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Has Python's tvm_ffi load libraries that Backplane exported.
set -euo pipefail
if [ -z "${BP_TEST_PYTHON:-}" ]; then
  echo 1..1
  echo "ok 1 /tvm-ffi # SKIP BP_TEST_PYTHON names no Python with apache-tvm-ffi"
  exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$top_builddir/tests/core/export-example" "$folder/host.so" "$folder/importing.so"
"$BP_TEST_PYTHON" "$top_srcdir/tests/core/tvm_ffi_loads.py" "$folder/host.so" "$folder/importing.so"
