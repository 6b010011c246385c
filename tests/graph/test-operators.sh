#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# docs/operators.md lists the operators that `backplane operators` lists, and ONNX's operators (onnx-operators.txt) that it does
# not. With --write the page is made anew, by the command of _build or of $top_builddir.
set -u
root=${top_srcdir:-$(dirname "$0")/../..}
backplane=${top_builddir:-$root/_build}/backplane
page=$root/docs/operators.md
all=$root/tests/graph/onnx-operators.txt

# Those of ONNX's own domain, as the command lists them in columns.
rows() {
  "$backplane" operators | sed 1d | grep -v '^[^ ]*::' | awk -F '  +' '
    { print "| " $1 " | " $2 " | " $3 " | " ($4 == "all" ? "yes" : $4 == "input 0" ? "of input 0" : "") " |" }' | LC_ALL=C sort -f
}

# ONNX's operators that have no row, in a paragraph of lines of 120 characters.
missing() {
  comm -13 <(rows | cut -d' ' -f2 | LC_ALL=C sort) <(grep -vE '^#|^(If|Loop|Scan|Optional.*|Sequence.*|SplitToSequence|ConcatFromSequence)$' "$all" | LC_ALL=C sort) | LC_ALL=C sort -f |
    sed '$!s/$/,/' | tr '\n' ' ' | fold -s -w 120 | sed 's/ *$//'
}

page_text() {
  cat <<'HEAD'
# Operators

The operators of ONNX's own domain, operator sets 7 to 28, that the importer reads; [the missing ones](#missing) are at the end.
`tests/graph/test-operators.sh --write` makes the list from the operator table, `graph/ops/table.c`, which `backplane operators` shows; a test
compares the two. Operators mean what ONNX's specification says. A use that is not computed (an attribute, a type, an input that would have to be
constant) is refused when the model is compiled, by the node's name.

| case | result, on every target |
|---|---|
| an index outside of the data | `Gather` and the like read the nearest element, `Scatter` and the like change nothing |
| integers ([rules](ir.md)) | wrap; a quotient or remainder by 0 is 0, the least integer by -1 is itself, a `BitShift` by the width or more is 0 |
| `auto_pad` | never pads by less than 0, as in TensorFlow; onnxruntime cuts the input where a stride is longer than its window |
| quantised operators | differences from zero points, products and sums are int32, which wraps; scales apply in float32; halves round to even before the zero point is added, as in onnxruntime |
| a transform (`DFT`, `STFT`) of a length that only a run knows | one product with a matrix of that many rows |

In [a file for one target](graph.md#open-extents), data may decide about a shape: in `NonZero`, `Compress`, `Unique`, `NonMaxSuppression`, `Range`,
and as the shape, bounds, counts or axes of `Reshape`, `Expand`, `Slice`, `Resize`, `Split`, `Tile`, `Pad`, `TopK`, `Squeeze`, `Unsqueeze`, `CumSum`,
`CumProd`, `Trilu`, `OneHot`, `CenterCropPad`, `AffineGrid`, `Col2Im`, `MaxUnpool`, `DFT`, `STFT`, `MelWeightMatrix` (then in float64), the windows,
`ConstantOfShape`, and the reductions of at most four dimensions. Other such inputs are constants, or computed from shapes.

*Open extents*: in a file for one target the operator takes tensors whose extents only a run knows ([how](graph.md)): as all inputs, or, *of
input 0*, as the first one, while the shapes of weights are known. Other operators refuse such a tensor by name, with the `--shape` that helps.

**Types.** Operators compute in float32, float64, bool and the integers of 8 to 64 bits. float16 and bfloat16 are stored, and
computed in float32. Float8 (E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ), float4 (E2M1) and the integers of 4 and 2 bits are only stored:
as inputs, outputs, initializers and between operators. `Cast`, `CastLike`, `QuantizeLinear` and `DequantizeLinear` convert them,
`BitCast` reads their bits as another type, and operators that only move elements take them; every other operator refuses them
by name. Elements of less than a byte are packed as ONNX and DLPack pack them, the first in the lowest bits. Rounding and
saturation are those of ONNX's reference; on the CPU a subnormal float32 counts as 0, elsewhere it may. These types are not in `.npy` files: the
C API (`backplane/graph/model.h`) and the [Python](python.md) one take and give them as tensors. float8e8m0, complex numbers and strings are refused
by name.

*Computed*: by generated code of its own. *Element by element*: in the code of its neighbours. *A view*: without code. *By other operators*:
replaced when the model is read.

Node tests of onnx 1.23.2 with tensors of numpy's types, models unchanged and all inputs given when they run (25 November 2026):

| target kind | run | expected result | other result | refused by name |
|---|---|---|---|---|
| `llvm` | 1622 | 1556 | 4: two of Attention by a rounding of float16; two of Resize (`align_corners` with scales that leave a fraction), as onnxruntime | the others: missing operators, training, strings, optional inputs, ranks that depend on the data |
| `vulkan` (lavapipe) | 1328 | 1253 | the same 4 | 16 for functions of float64 that GLSL lacks (`exp`, `pow`, `fmod`); the others as `llvm` |
| `opencl` (PoCL), a third | 551 | 526 | none | the others as `llvm` |

The 129 cases with types that numpy lacks, except float8e8m0, give the expected result on these targets and on `c`.

| operator | from version | how | open extents |
|---|---|---|---|
HEAD
  rows
  cat <<'TAIL'

## Missing

The operators of ONNX 1.23.2 at the end of this page have no row. A model with such operators is refused when it is read, and one message names
them all. `If`, `Loop`, `Scan` and calls of the model's own functions have no row and [work](graph.md). So do operators of sequences and
optionals: a sequence is the list of its tensors, and its length and positions are known from constants and shapes. Refused by name are nodes that
would need them in a run, bodies of `Loop` and `Scan` and branches that give a sequence, and sequences as inputs and outputs of the model.

Of `com.microsoft` these work with open extents, checked against onnxruntime:

- `MatMulNBits`: weights of 2, 4 and 8 bits, zero points as packed integers or floats, a bias. It computes in float32 whatever `accuracy_level` says;
  an order of groups (`g_idx`) and a K that is no multiple of `block_size` are refused.
- `BiasGelu`, `FastGelu`, `QuickGelu`, `MatMulIntegerToFloat`, `DynamicQuantizeMatMul`, `QGemm`, `FusedMatMul`, `FusedConv`,
  `FusedGemm`, `SkipLayerNormalization` and `SkipSimplifiedLayerNormalization` (the mean and the deviation as outputs
  are refused), `EmbedLayerNormalization`, `QuantizeLinear`, `DequantizeLinear`, `NhwcMaxPool`;
- `RotaryEmbedding` (`scale` and `is_packed_batching` are refused), `MultiHeadAttention` (queries, keys and values in one input, and
  `unidirectional` with other numbers of keys than of queries are refused) and `Attention` (`do_rotary` and a buffer that past and present share are refused);
- `GroupQueryAttention` (`smooth_softmax`, `head_sink`, a `local_window_size` of 0 and a cache of more places than it has keys are
  refused), and `SimplifiedLayerNormalization`, which has its row in ONNX's own domain, as models have it;
- `QLinear` with `Add`, `Mul`, `LeakyRelu`, `Sigmoid`, `Softmax` (before operator set 13 along the last axis only),
  `GlobalAveragePool`, `AveragePool` (not `ceil_mode` with `count_include_pad`), `Concat` and `Where`. These compute in float32 and round as `QuantizeLinear` does, so that an element
  may differ by one from onnxruntime's, which rounds halves otherwise, and in `QLinearSoftmax` down.

All other operators of other domains (`ai.onnx.ml`, `com.microsoft`) are refused, too.

TAIL
  missing
  echo
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
if missing | grep -qw StringSplit && ! missing | grep -qw Relu; then
  echo "ok 3 - /operators/page/names-what-is-missing"
else
  echo "not ok 3 - /operators/page/names-what-is-missing"
fi
