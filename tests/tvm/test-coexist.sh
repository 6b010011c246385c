#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Backplane and Python's tvm_ffi in one process.
set -euo pipefail
if ! "${BP_TEST_PYTHON:-false}" -c 'import tvm' 2>/dev/null; then
  echo 1..1
  echo "ok 1 /coexist # SKIP BP_TEST_PYTHON names no Python with apache-tvm"
  exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$BP_TEST_PYTHON" "$top_srcdir/tests/tvm/make_coexist.py" "$folder"
number=0
for first in ours theirs; do
  "$BP_TEST_PYTHON" "$top_srcdir/tests/tvm/coexist.py" "$top_builddir/.libs/libbackplane.so" \
    "$folder/coexist.so" "$first" >"$folder/log" || { sed 's/^/# /' "$folder/log"; exit 1; }
  while read -r word rest; do
    case $word in
      ok) number=$((number + 1)); echo "ok $number ${rest#* }" ;;
      not) number=$((number + 1)); echo "not ok $number ${rest#ok * }" ;;
    esac
  done <"$folder/log"
done
echo "1..$number"
