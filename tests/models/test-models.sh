#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The models whose references are committed give onnxruntime's outputs (see docs/models.md).
if [ -z "${BP_TEST_PYTHON-}" ] || [ -z "${BP_TEST_MODELS-}" ]; then
  echo "1..0 # SKIP no downloaded models; run ./quickstart check"
  exit 0
fi
# The leak checker is off: it may crash when a driver's threads end at the same time. Other
# tests check leaks.
export ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0
here=$top_srcdir/tests/models
exec "$BP_TEST_PYTHON" "$here/check_models.py" "$top_builddir/backplane" "$BP_TEST_MODELS" \
  "$here/references"
