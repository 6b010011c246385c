#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each system call of a trial fails once: a sample, or all with BP_TEST_LONG.
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
exec python3 "$top_srcdir/tests/core/trial_faults.py" "$top_builddir" "$@"
