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

What the importer reads, from ONNX's own domain, operator sets 7 to 28; [what is missing](#missing) stands at the end. The list is made from the
operator table, `graph/ops/table.c`, which `backplane operators` shows, by `tests/graph/test-operators.sh --write`; a test keeps the two
together. An operator has the meaning of ONNX's specification; a use of one that is not computed (an
attribute, a type, an input that would have to be constant) is refused when the model is compiled,
naming the node. An index that is outside of the data reads the nearest element there (`Gather` and its kin) or
changes nothing (`Scatter` and its kin). Integers wrap; a quotient or remainder by 0 is 0, the least integer by -1 is itself, and
a `BitShift` by the width or more gives 0, on every target ([the rules](ir.md)). Of quantised operators, differences from zero points, products and sums are int32,
which wraps; scales are applied in float32, and halves are rounded to even before the zero point is added, as onnxruntime does. What decides about a shape may be data in [a file for one target](graph.md#open-extents): for `NonZero`, `Compress`, `Unique`, `NonMaxSuppression`, `Range`, and the inputs of `Reshape`, `Expand`, `Slice`, `Resize`, `Split`, `Tile`, `Pad`, `TopK`, `Squeeze`, `Unsqueeze`, `CumSum`, `CumProd`, `Trilu`, `OneHot`, `CenterCropPad`, `AffineGrid`, the windows, `ConstantOfShape` and the reductions (of four dimensions at most) that say a shape, bounds, counts or axes. Other such inputs are constants, or computed from shapes.

*Open extents*: in a file for one target the operator takes tensors whose extents are not known before the model runs ([how](graph.md)): all of its
inputs, or, *of input 0*, its first one, while the shapes of weights are known.
The others are refused by name where such a tensor reaches them, with the `--shape` that helps.

**Types.** Operators compute in float32, float64, bool and the integers of 8 to 64 bits. float16 and bfloat16 are stored, and
computed in float32. Float8 (E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ), float4 (E2M1) and the integers of 4 and 2 bits are only stored:
as inputs, outputs, initializers and between operators. `Cast`, `CastLike`, `QuantizeLinear` and `DequantizeLinear` convert them,
`BitCast` reads their bits as another type, and operators that only move elements take them; every other operator refuses them
by name. Elements of less than a byte are packed as ONNX and DLPack pack them, the first in the lowest bits. Rounding and
saturation are those of ONNX's reference; on the CPU a subnormal float32 counts as 0, elsewhere it may. These types are not in `.npy` files: the
C API (`backplane/graph/model.h`) and the [Python](python.md) one take and give them as tensors. float8e8m0, complex numbers and strings are refused
by name.

*Computed*: by generated code of its own. *Element by element*: joins the code of its neighbours. *A
view*: no code at all. *By other operators*: replaced when the model is read.

Of the 1622 node tests of onnx 1.23.2 with tensors of numpy's types 1542 give the expected result with target kind `llvm` (24 November
2026), the models unchanged and all their inputs given when they run. Two of Attention differ, by a rounding of float16, and two of Resize, `align_corners` with scales that
leave a fraction, where we compute what onnxruntime does. The others
are refused by name: operators that are missing, training, strings, and a few inputs
that have to be constants. PoCL with target kind `opencl` gives the same in the cases of TopK, the scatters, Einsum, GridSample and
Attention; lavapipe with `vulkan` as well, but for those that need float64, which it refuses by name. The 129
cases of these operators with types that numpy lacks, float8e8m0 apart, give the expected result on all four targets (`c` too).

| operator | from version | how | open extents |
|---|---|---|---|
HEAD
  rows
  cat <<'TAIL'

## Missing

Of ONNX 1.23.2's own operators these have no row. A model that has one is refused when it is read, with all that are missing in one
message. `If`, `Loop`, `Scan` and calls of the model's own functions have no row, and are read all the same ([how](graph.md)). So are the
operators of sequences and optionals, which reading a model settles: a sequence is the list of its tensors. Its length and the positions
that nodes ask for are known then, from constants and shapes; nodes that would need them when the model runs, bodies of `Loop` and `Scan` and branches
that give a sequence, and inputs and outputs of the model that are one, are refused by name. Of other
domains there is `MatMulNBits` of `com.microsoft`: weights of 2, 4 and 8 bits, zero points as packed integers or as floats, a bias, open
extents. It computes in float32 whatever `accuracy_level` says; an order of groups (`g_idx`) and a K that is no multiple of `block_size`
are refused. Of the same domain, with open extents and checked against onnxruntime:

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
