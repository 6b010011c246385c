#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Operators with extreme numbers and shapes, and the nodes of random graphs, have the outputs of onnxruntime. With
# BP_TEST_LONG: with LLVM's optimizer, on all devices, and with more graphs. BP_TEST_SEED is the seed of the first graph.
if ! "${BP_TEST_PYTHON:-false}" -c 'import onnx, onnxruntime' 2>/dev/null; then
  echo "1..0 # SKIP no Python with onnx and onnxruntime; run ./quickstart check"
  exit 0
fi
. "$top_srcdir/tests/tap.sh"
targets=("llvm -opt=0")
graphs=()
if [ -n "${BP_TEST_LONG-}" ]; then
  targets=("llvm -opt=1" "c -vector_bits=0")
  for kind in opencl vulkan; do
    "$top_builddir/backplane" inspect device "$kind" >/dev/null 2>&1 && targets+=("$kind")
  done
  graphs=(BP_TEST_COUNT=400)
fi
mkdir "$work/graphs"
if ! env -u BP_TEST_LONG BP_TEST_WRITE="$work/graphs" "${graphs[@]}" "$top_builddir/tests/graph/test-random-graphs" \
  >"$work/log" 2>&1; then
  tail -n 20 "$work/log" | sed 's/^/# /'
  echo "Bail out! tests/graph/test-random-graphs writes no graphs"
  exit 1
fi
"$BP_TEST_PYTHON" "$top_srcdir/tests/graph/onnxruntime_cases.py" "$top_builddir/backplane" "$work/graphs" "${targets[@]}"
