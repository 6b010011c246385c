#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ONNX's own cases have the expected outputs: cases of recurrent layers, and of operators that are not element-wise. In
# `make check-long` all cases have them, or are refused by name.
if [ -z "${BP_TEST_PYTHON-}" ]; then
  echo "1..0 # SKIP no Python with onnx; run ./quickstart check"
  exit 0
fi
. "$top_srcdir/tests/tap.sh"
operators="If Loop LSTM GRU RNN
  TopK ScatterElements Scatter ScatterND GatherND Einsum OneHot Compress NonZero NonMaxSuppression Unique Hardmax EyeLike
  ReverseSequence RotaryEmbedding GridSample DFT STFT LinearAttention Col2Im DeformConv RoiAlign Det MaxUnpool MelWeightMatrix
  Identity SequenceInsert SequenceMap SplitToSequence OptionalGetElement OptionalHasElement
  QuantizeLinear DequantizeLinear DynamicQuantizeLinear MatMulInteger ConvInteger QLinearMatMul QLinearConv"
[ -z "${BP_TEST_LONG-}" ] || operators=
# shellcheck disable=SC2086
"$BP_TEST_PYTHON" "$top_srcdir/tests/graph/onnx_cases.py" "$top_builddir/backplane" "$work" "llvm -opt=0" $operators
