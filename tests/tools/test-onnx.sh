#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The command's output on ONNX: its operators, and a file as it is.
set -u
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/tools/onnx.sh"
backplane=$top_builddir/backplane
digits=$top_srcdir/examples/digits/digits.onnx
export BACKPLANE_PLUGIN_PATH=/proc/nonexistent # no plugin is needed

# describes TEXT COMMAND...: like `says`, for output without spaces and line ends.
describes() {
  local text=$1
  shift
  "$@" | tr -d ' \n' | tee "$work/out" | grep -qF -- "$text"
}

facts_of_a_file() {
  says 'operator_set  ai.onnx 17' "$backplane" inspect model "$digits" && grep -q 'producer *examples/digits/train.py' "$work/out" &&
    grep -q 'image: float32 Nx1x28x28' "$work/out" && grep -q '80.0 KiB in 6' "$work/out" && grep -qE '^MaxPool +2 +computed$' "$work/out" &&
    ! grep -q conv1 "$work/out" && ! grep -qE 'unsupported|incomplete' "$work/out"
}

nodes_have_shapes() {
  says 'pool1    float32 Nx16x14x14' "$backplane" inspect model "$digits" --nodes &&
    describes '{"name":"dense","operator":"Gemm","domain":"","computed":"byotheroperators","outputs":[{"name":"logits","dtype":"float32","shape":["N",10]}]}' \
      "$backplane" inspect model "$digits" --json && grep -qF '{"name":"Conv","computed":"computed","count":2}' "$work/out" &&
    grep -qF '"input":[{"name":"image","dtype":"float32","shape":["N",1,28,28],"kind":"tensor"}]' "$work/out" && grep -qF '"parameter_bytes":81960' "$work/out" &&
    fails 2 "--nodes: it is for an ONNX file" "$backplane" inspect model "$work/x.so" --nodes
}

# The other facts are still printed; nothing is inferred.
missing_operator() {
  unary Oelu 01 "$(part 0a 0840)" >"$work/missing.onnx"
  says "Oelu      1      no: it is missing" "$backplane" inspect model "$work/missing.onnx" --nodes &&
    grep -q "lacks: Oelu (node 'Oelu_0')" "$work/out" && grep -qE '^Oelu_0 +Oelu +y +\? \?$' "$work/out" &&
    describes '"computed":null,"outputs":[{"name":"y","dtype":null,"shape":null}]' "$backplane" inspect model "$work/missing.onnx" --json &&
    grep -qF '"unsupported":"themodeluses1operator' "$work/out"
}

# A convolution without weights: the output says why shapes are unknown.
incomplete() {
  unary Conv 01 "$(part 0a 0840)" >"$work/bare.onnx"
  says "incomplete " "$backplane" inspect model "$work/bare.onnx" && grep -q "Conv_0" "$work/out"
}

# Names that are not UTF-8 do not break the JSON.
names_that_are_no_text() {
  unary $'Re\377lu' 01 "$(part 0a 0840)" >"$work/odd.onnx"
  "$backplane" inspect model "$work/odd.onnx" --json >"$work/out" 2>"$work/err"
  iconv -f UTF-8 -t UTF-8 "$work/out" >/dev/null && [ -s "$work/out" ]
}

lists_operators() {
  says 'Conv      1             computed  input 0' "$backplane" operators Conv && [ "$(wc -l <"$work/out")" = 2 ] &&
    says 'com.microsoft::MatMulNBits' "$backplane" operators && ! grep -q 'backplane::' "$work/out" && [ "$(wc -l <"$work/out")" -gt 150 ] &&
    describes '"operators":[{"name":"Relu","domain":"","since":6,"computed":"elementbyelement","open_extents":"all","attributes":[],"least_inputs":1,"most_inputs":1,"most_outputs":1}]}' "$backplane" operators Relu --json &&
    fails 1 "there is no operator 'relu'; the nearest is 'Relu'" "$backplane" operators Conv relu
}

ok file-as-it-is-has-facts-and-operators facts_of_a_file
ok nodes-have-inferred-shapes nodes_have_shapes
ok missing-operator-is-told-beside-the-rest missing_operator
ok shapes-that-are-not-known-have-a-reason incomplete
ok names-that-are-no-text-are-valid-json names_that_are_no_text
ok operators-are-listed lists_operators
echo "1..$count"
