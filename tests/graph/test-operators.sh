#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# docs/operators.md lists the operators of `backplane operators`, and the operators of ONNX (onnx-operators.txt) that
# Backplane lacks. --write writes the page with the command of _build or of $top_builddir.
set -u
root=${top_srcdir:-$(dirname "$0")/../..}
backplane=${top_builddir:-$root/_build}/backplane
page=$root/docs/operators.md
all=$root/tests/graph/onnx-operators.txt

# rows: prints the operators of ONNX's own domain that the command lists: name, version, open extents.
rows() {
  "$backplane" operators | sed 1d | grep -v '^[^ ]*::' | awk -F '  +' '{ print $1 "\t" $2 "\t" $4 }' | LC_ALL=C sort -f
}

# missing: prints the operators of ONNX (onnx-operators.txt) that the command does not list.
missing() {
  comm -13 <(rows | cut -f1 | LC_ALL=C sort) <(grep -vE '^#|^(If|Loop|Scan|Optional.*|Sequence.*|SplitToSequence|ConcatFromSequence)$' "$all" | LC_ALL=C sort) | LC_ALL=C sort -f
}

# listed [TEXT]: prints the input lines as a list after the text, in lines of at most 120 characters.
listed() {
  awk -v line="${1-}" '
    NR > 1 { line = line "," }
    line != "" && length(line) + length($0) > 118 { print line; line = "" }
    { line = line (line ~ /^$|: $/ ? "" : " ") $0 }
    END { print line }'
}

# by_extents EXTENTS: prints the operators whose open extents the command lists as EXTENTS.
by_extents() {
  rows | awk -F '\t' -v extents="$1" '$3 == extents { print $1 }'
}

page_text() {
  cat <<'HEAD'
# Operators

The importer reads these operators of ONNX's own domain, operator sets 7 to 28, and [others](#missing). `backplane operators` also shows how each is
computed. Compiling refuses an unsupported use (an attribute, a type, an input that must be constant) by the node's name.
ONNX's specification defines the operators; besides:

| case | result, on every target |
|---|---|
| an index outside of the data | `Gather` and its relatives read the nearest element, those of `Scatter` change nothing |
| integers ([rules](ir.md)) | wrap; a quotient or remainder by 0 is 0, the least integer by -1 is itself, a `BitShift` by the width or more is 0 |
| `auto_pad` | never pads by less than 0, as in TensorFlow; onnxruntime cuts the input if a stride is longer than its window |
| quantised operators | differences from zero points, products and sums are int32, which wraps; scales apply in float32; halves round to even before the zero point is added |
| `clip` of `LSTM` | bounds what every activation reads, the new cell state before the last one too; onnxruntime does not bound that one |
| `Resize` by weighted sums of integers | rounded, as by ONNX's reference; onnxruntime rounds down |
| `DFT` or `STFT` of a data-dependent length | one product with a matrix of that many rows |
| an open extent that is 0 in a run, in the shape of a `Reshape` whose expressions prove the number of elements | 0, where ONNX copies the input's extent |

In [an artifact for one target](graph.md#open-extents) operators take tensors with *open extents*, which only a run knows. The last two lists below
name operators that take them in their first input alone, or not at all; the error for another use names the `--shape` that helps. There a shape may
also depend on data: in `NonZero`, `Compress`, `Unique`, `NonMaxSuppression`, `Range`, and by the shape, bounds, counts or axes
of `Reshape`, `Expand`, `Slice`, `Resize`, `Split`, `Tile`, `Pad`, `TopK`, `Squeeze`, `Unsqueeze`, `CumSum`, `CumProd`, `Trilu`, `OneHot`, `CenterCropPad`,
`AffineGrid`, `Col2Im`, `MaxUnpool`, `DFT`, `STFT`, `MelWeightMatrix` (then in float64), the windows, `ConstantOfShape`, and the reductions of at most
four dimensions. Other such inputs must be constants, or computed from shapes.

**Types.** Operators compute in float32, float64, bool and the integers of 8 to 64 bits, and float16 and bfloat16 in float32. Float8 (E4M3FN,
E4M3FNUZ, E5M2, E5M2FNUZ), float4 (E2M1) and the integers of 4 and 2 bits are only stored: `Cast`, `CastLike`, `QuantizeLinear` and `DequantizeLinear`
convert them, `BitCast` reads their bits as another type, operators that move elements take them, others refuse them. Elements of less than a byte
are [packed](abi.md#values). Rounding and saturation are those of ONNX's reference, but a conversion to a type of 16 bits or less
rounds to float32 first, as onnxruntime's does. On the CPU subnormal float32 and float64 count as 0, elsewhere they may.
`Cast` from or to these types needs fixed extents. `.npy` files lack these types; tensors of C and [Python](python.md) have them. float8e8m0, complex numbers and strings are refused.

Of the 1622 node tests of onnx 1.23.2 that target kind `llvm` runs, 1556 give the expected result, 4 another, and the others are refused by name
([all targets](measurements/onnx-cases-2026-11-25.md)). So do the 29 with sequences and optionals.

Each operator with its first version:

HEAD
  rows | awk -F '\t' '{ print $1 " " $2 }' | listed
  echo
  by_extents "input 0" | listed "Open extents in the first input alone: "
  echo
  by_extents none | listed "No open extents: "
  cat <<'TAIL'

## Missing

The operators at the end of this page are missing: one message names all of a model's. `If`, `Loop`, `Scan` and calls of the model's
own functions [work](graph.md#control-flow), and so do [sequences and optionals](graph.md#sequences).

These operators of `com.microsoft` work, with open extents, compared with onnxruntime. An attribute or input after "without" is refused.

- `MatMulNBits`: weights of 2, 4 and 8 bits, zero points as packed integers or floats, a bias; in float32, or int8 if that is faster and `accuracy_level` is 4.
  With `g_idx`, or `MatMulBnb4` blocks across columns, constant weights become float32.
- `GatherBlockQuantized`, `MoE` and `QMoE` (all experts are computed, of one row only the chosen; without a third projection).
- `Gelu`, `BiasGelu`, `FastGelu`, `QuickGelu`, `MatMulIntegerToFloat`, `DynamicQuantizeMatMul`, `DynamicQuantizeLSTM` (row-wise ranges), `QGemm`,
  `FusedMatMul`, `FusedConv`, `FusedGemm`, `EmbedLayerNormalization`, `QuantizeLinear`, `DequantizeLinear`, `NhwcMaxPool`.
- `SimplifiedLayerNormalization` (in ONNX's own domain), `SkipLayerNormalization` and
  `SkipSimplifiedLayerNormalization`, without the outputs mean and deviation.
- `RotaryEmbedding`, ignoring `scale` like onnxruntime.
- `MultiHeadAttention`, without queries, keys and values in one input, and `unidirectional` only with as many keys as queries.
- `Attention` and `QAttention`, without `do_rotary` and a buffer that past and present share.
- `GroupQueryAttention`, without spare places in one batch's cache of open length.
- `QLinear` with `Add`, `Mul`, `LeakyRelu`, `Sigmoid`, `Softmax` (before operator set 13 along the last axis only),
  `GlobalAveragePool`, `AveragePool` (not `ceil_mode` with `count_include_pad`), `Concat` and `Where`, computed in float32 and rounded as by
  `QuantizeLinear`: an element may differ by one from onnxruntime's, which rounds halves otherwise.

Other domains' operators are refused.

TAIL
  missing | listed
}

if [ "${1:-}" = --write ]; then
  page_text >"$page"
  exit
fi
echo 1..3
if [ "$(rows | wc -l)" -gt 100 ]; then echo "ok 1 - /operators/table/is-found"; else echo "not ok 1 - /operators/table/is-found"; fi
if diff <(page_text) "$page" >&2; then
  echo "ok 2 - /operators/page/lists-the-table"
else
  echo "not ok 2 - /operators/page/lists-the-table # run tests/graph/test-operators.sh --write"
fi
if missing | grep -qw StringSplit && ! missing | grep -qw Relu && by_extents none | grep -qx HannWindow; then
  echo "ok 3 - /operators/page/names-what-is-missing"
else
  echo "not ok 3 - /operators/page/names-what-is-missing"
fi
