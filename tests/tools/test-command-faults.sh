#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# System calls of commands fail once: a sample, or all with BP_TEST_LONG.
set -u
if ! command -v python3 >/dev/null; then
  echo "1..0 # SKIP no python3"
  exit 0
fi
if ! strace -qqq -o /dev/null -b execve -e inject=getpid:error=EPERM true 2>/dev/null; then
  echo "1..0 # SKIP strace is not installed or may not trace"
  exit 0
fi
if nm -D "$top_builddir/.libs/libbackplane.so.1" | grep -qE ' U __[at]san_init'; then
  echo "1..0 # SKIP the sanitizer's own calls would fail"
  exit 0
fi
[ -n "${BP_TEST_LONG-}" ] || set -- --sample
LD_LIBRARY_PATH=$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec python3 "$top_srcdir/tests/tools/command_faults.py" "$top_builddir" \
  "$top_srcdir/examples/digits/digits.onnx" "$@"
