#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ONNX's own node cases with random changes are run, or refused with a message: two hundred, in `make check-long` five
# thousand. BP_TEST_SEED is the first seed.
if [ -z "${BP_TEST_PYTHON-}" ]; then
  echo "1..0 # SKIP no Python with onnx; run ./quickstart check"
  exit 0
fi
. "$top_srcdir/tests/tap.sh"
count=200
[ -z "${BP_TEST_LONG-}" ] || count=5000
export ASAN_OPTIONS="max_allocation_size_mb=2000:detect_leaks=0:${ASAN_OPTIONS-}"
"$BP_TEST_PYTHON" "$top_srcdir/tests/graph/mutated_models.py" "$top_builddir/backplane" "$work" "$count" "${BP_TEST_SEED-1}"
