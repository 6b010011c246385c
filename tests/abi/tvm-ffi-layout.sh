#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compiles a comparison of the layouts of Backplane with the headers in tvm-ffi's wheel.
set -euo pipefail
echo 1..1
name=/abi/layout/same-as-tvm-ffi-headers
if [ -z "${BP_TEST_PYTHON:-}" ]; then
  echo "ok 1 $name # SKIP BP_TEST_PYTHON names no Python with apache-tvm-ffi"
  exit 0
fi
flags=()
while read -r folder; do flags+=(-isystem "$folder"); done < <("$BP_TEST_PYTHON" -c '
import tvm_ffi.libinfo as info
print(info.find_include_path())
print(info.find_dlpack_include_path())')
if ${CC:-cc} -std=gnu11 -fsyntax-only -I"$top_srcdir/sdk/include" -I"$top_srcdir/include" \
  "${flags[@]}" "$top_srcdir/tests/abi/tvm_ffi_layout.c" 2>&1 | sed 's/^/# /'; then
  echo "ok 1 $name"
else
  echo "not ok 1 $name"
fi
