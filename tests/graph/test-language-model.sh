#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A small language model with open lengths has the outputs of onnxruntime at every step of a text. With
# BP_TEST_LONG: also SmolLM2, if its package is installed, and the text of the programs in examples/language-model.
if [ -z "${BP_TEST_PYTHON-}" ] || ! "$BP_TEST_PYTHON" -c 'import gguf, onnx, onnxruntime' 2>/dev/null; then
  echo "1..0 # SKIP no Python with gguf, onnx and onnxruntime; run ./quickstart check"
  exit 0
fi
. "$top_srcdir/tests/tap.sh"
"$BP_TEST_PYTHON" "$top_srcdir/tests/graph/language_model_cases.py" "$top_srcdir" "$top_builddir" "$work"
