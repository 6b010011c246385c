#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `backplane compare` and `backplane bench`: several models and devices side by side.
set -u
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/tools/onnx.sh"
backplane=$top_builddir/backplane
digits=$top_srcdir/examples/digits/digits.onnx
shape=(--shape image=1x1x28x28)
export XDG_DATA_HOME=/proc/nonexistent XDG_CONFIG_HOME=/proc/nonexistent BACKPLANE_DEVICE=cpu TMPDIR=$work

for operator in Neg Abs Erf; do unary $operator 01 "$(part 0a 0804)" >"$work/$operator.onnx"; done
unary Neg 01 "$(part 0a 0805)" >"$work/five.onnx"
unary Neg 10 "$(part 0a 0804)" >"$work/bfloat.onnx"
two=("$backplane" compare "$work/Neg.onnx" "$work/Abs.onnx")

# The command removes the intermediates.
leaves_nothing() {
  [ -z "$(find "$work" -maxdepth 1 -name 'backplane-*')" ]
}

# With tolerance 0 a node before the output differs, pool1 or relu2 by the processor: the fast code adds in another order
# than the reference.
names_the_first_node() {
  ends_saying 1 "The first node that differs: " "$backplane" compare "$digits" "${shape[@]}" --rtol 0 --atol 0 &&
    grep -qE '^The first node that differs: (pool1|relu2), by ' "$work/out" && grep -q '^conv1 .*not compared: only A has it' "$work/out" && grep -q "as a reference" "$work/out" && leaves_nothing
}

nodes_in_json() {
  ends 1 "$backplane" compare "$digits" "${shape[@]}" --rtol 0 --atol 0 --json && tr -d ' \n' <"$work/out" | tee "$work/flat" |
    grep -qE '"matches":false,"first_difference":"(pool1|relu2)","nodes":\[\{"name":"conv1","reason":"onlyAhasit"\}' &&
    grep -qE '"outputs":\[\{"name":"logits","shape":"1x10","difference":\{"matches":(true|false),"elements":10,' "$work/flat"
}

outputs_that_differ() {
  ends_saying 1 "3 of 4" "${two[@]}" --input 'x=[1,0,2,3]' && ends_saying 0 "0 of 4" "${two[@]}" --input 'x=[-1,0,-2,-3]' &&
    ends_saying 0 '"matches": true' "${two[@]}" --input 'x=[-1,0,-2,-3]' --json
}

refuses_other_numbers() {
  fails 2 "one model or two" "$backplane" compare && fails 2 "these are more" "${two[@]}" --device cpu --device cpu &&
    fails 2 "an ONNX file alone is compared" "$backplane" compare "$work/Neg.onnx" --reference &&
    fails 2 "at least 0" "${two[@]}" --rtol -1 && fails 1 nowhere.so "$backplane" compare "$work/Neg.onnx" "$work/nowhere.so"
}

# node OPERATOR INPUTS OUTPUT [NAME NUMBER...]: prints a node in ONNX's form, named after its output, with an attribute
# of numbers.
node() {
  local input numbers='' fields=''
  for input in $2; do
    fields+=$(part 0a "$(digits_of "$input")")
  done
  fields+=$(part 12 "$(digits_of "$3")")$(part 1a "$(digits_of "$3")")$(part 22 "$(digits_of "$1")")
  if [ $# -gt 3 ]; then
    numbers=$(printf '40%02x' "${@:5}")
    fields+=$(part 2a "$(part 0a "$(digits_of "$4")")${numbers}a00107")
  fi
  part 0a "$fields"
}

# value FIELD NAME EXTENT...: prints an input or output of floats.
value() {
  local extent dims=''
  for extent in "${@:3}"; do
    dims+=$(part 0a "$(printf '08%02x' "$extent")")
  done
  part "$1" "$(part 0a "$(digits_of "$2")")$(part 12 "$(part 0a "0801$(part 12 "$dims")")")"
}

# m = MaxPool(r), r = Relu(Conv(x, w)), with ten channels. Ten channels do not fill a block; the padding channels are
# not compared.
spare_channels() {
  local weights
  weights="080a0803080308031001$(part 42 77)$(part 4a "$(printf '0000803f%.0s' {1..270})")"
  printf '%b' "$(printf '0808%s4202100d' "$(part 3a "$(node Conv 'x w' c pads 1 1 1 1)$(node Relu c r)$(node MaxPool r m kernel_shape 2 2)$(part \
    12 67)$(part 2a "$weights")$(value 5a x 1 3 8 8)$(value 62 m 1 10 7 7)")" | sed 's/../\\x&/g')" >"$work/ten.onnx"
  says "0 of 640" "$backplane" compare "$work/ten.onnx" && grep -qE '^r +1x10x8x8 ' "$work/out" && grep -qE '^m +1x10x7x7 .* 0 of 490' "$work/out"
}

other_shapes() {
  ends_saying 1 "not compared: its shape in B is 5" "$backplane" compare "$work/Neg.onnx" "$work/five.onnx"
}

# An output of B that A lacks is an error, as is an output of A that B lacks.
outputs_of_one_side() {
  unary Neg 01 "$(part 0a 0804)" y z >"$work/yz.onnx"
  fails 1 "Neg.onnx on cpu:0 has no output 'z', which $work/yz.onnx on cpu:0 has" "$backplane" compare "$work/yz.onnx" "$work/Neg.onnx" &&
    fails 1 "Neg.onnx on cpu:0 has no output 'z', which $work/yz.onnx on cpu:0 has" "$backplane" compare "$work/Neg.onnx" "$work/yz.onnx" &&
    ends_saying 0 "0 of 4" "$backplane" compare "$work/yz.onnx" "$work/yz.onnx"
}

# .npy files have no bfloat16: bfloat16 outputs are still compared.
without_nodes() {
  "$backplane" compare "$work/bfloat.onnx" >"$work/out" 2>"$work/err" && grep -q "only outputs are compared: .*bfloat16" "$work/err" &&
    grep -q '^y .*0 of 4' "$work/out" && leaves_nothing
}

# The name of a node becomes the name of a file, of at most 255 bytes.
without_names() {
  unary Neg 01 "$(part 0a 0804)" "$(printf 'y%.0s' {1..300})" >"$work/long.onnx"
  says "0 of 4" "$backplane" compare "$work/long.onnx" "$work/Neg.onnx" 2>"$work/err" && leaves_nothing &&
    grep -q "only outputs are compared: .*File name too long" "$work/err"
}

devices_agree() {
  says "0 of 10" "$backplane" compare "$digits" "${shape[@]}" --device cpu --device opencl --reference && grep -q '^B: .* on opencl:0' "$work/out" &&
    says "opencl:0" "$backplane" bench "$digits" "${shape[@]}" --device cpu --device opencl --runs 2 --seconds 0 &&
    grep -qE 'digits.onnx +cpu:0 +[0-9.]+ ' "$work/out"
}

several_results() {
  local name
  "$backplane" bench "$work/Neg.onnx" "$work/Abs.onnx" --runs 3 --seconds 0 --json | tr -d ' \n' >"$work/out"
  cat "$work/out"
  [ "$(grep -o '"runs":3' "$work/out" | wc -l)" = 2 ] && grep -q '^{"results":\[{"model":' "$work/out" &&
    for name in mean_ms stddev_ms p99_ms runs_per_second compile_ms load_ms planned_bytes; do
      [ "$(grep -oE "\"$name\":[0-9]" "$work/out" | wc -l)" = 2 ] || return 1
    done
}

# For a library with open extents the output says how storage depends on the extents.
storage_of_open_extents() {
  "$backplane" compile "$digits" --device cpu -o "$work/open.so" && says "open.so" "$backplane" bench "$work/open.so" "${shape[@]}" --runs 1 --seconds 0 &&
    grep -qE 'open.so .* KiB +[0-9.]+ KiB *$' "$work/out" && "$backplane" inspect model "$work/open.so" >"$work/out" &&
    cat "$work/out" && grep -qE '^planned +([0-9]+\*)?[a-zN]+' "$work/out" && grep -qE '^planned_for +[a-zN]+=1$' "$work/out"
}

# The contexts share the parameters; each context has its own storage.
contexts_at_once() {
  says '"contexts": 3' "$backplane" bench "$digits" "${shape[@]}" --contexts 3 --runs 9 --seconds 0 --json &&
    [ "$(sed -nE 's/.*"runs": ([0-9]+),/\1/p' "$work/out")" -ge 9 ] &&
    [ "$(sed -nE 's/.*"planned_bytes": ([0-9]+).*/\1/p' "$work/out")" = $((3 * $(planned))) ]
}

planned() {
  "$backplane" bench "$digits" "${shape[@]}" --runs 1 --seconds 0 --json | sed -nE 's/.*"planned_bytes": ([0-9]+).*/\1/p'
}

one_table() {
  says 'RUNS/s' "$backplane" bench "$work/Neg.onnx" "$work/Abs.onnx" --runs 2 --seconds 0 && grep -q 'COMPILE (ms)  LOAD (ms)' "$work/out" &&
    [ "$(grep -cE '^[^ ]*(Neg|Abs).onnx +cpu:0 ' "$work/out")" = 4 ] && grep -q 'in turns' "$work/out"
}

# docs/debugging.md shows this. A convolution that absorbed a batch normalisation has the name of the batch
# normalisation's output: onnxruntime has the same value under that name.
onnxruntime_agrees() {
  "$BP_TEST_PYTHON" - "$work/normal.onnx" <<'PYTHON' || return 1
import sys
import numpy
from onnx import TensorProto, helper, numpy_helper, save
value = numpy.random.default_rng(5).uniform(0.5, 1.5, (4, 3, 3, 3)).astype(numpy.float32)
channel = value[:, 0, 0, 0]
names = "scale shift mean variance".split()
graph = helper.make_graph(
    [helper.make_node("Conv", ["x", "w"], ["plain"], "conv"),
     helper.make_node("BatchNormalization", ["plain", *names], ["normal"], "norm"),
     helper.make_node("Relu", ["normal"], ["y"], "relu"),
     helper.make_node("Neg", ["normal"], ["z"], "neg")],
    "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
    [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, 6, 6]) for name in "yz"],
    [numpy_helper.from_array(value, "w"), *(numpy_helper.from_array(channel, name) for name in names)])
save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sys.argv[1])
PYTHON
  BACKPLANE_PYTHON=$BP_TEST_PYTHON ends_saying 0 "No node that both have differs." "$backplane" compare "$work/normal.onnx" --onnxruntime &&
    grep -q "^A: .* in onnxruntime [0-9]" "$work/out" && grep -q "^y .* 0 of 144" "$work/out" && grep -q "^z .* 0 of 144" "$work/out" &&
    BACKPLANE_PYTHON=$BP_TEST_PYTHON ends_saying 1 '"device": "onnxruntime ' "$backplane" compare "$digits" "${shape[@]}" --onnxruntime --reference \
      --rtol 0 --atol 0 --json && grep -q '"name": "conv1"' "$work/out" && leaves_nothing
}

# compare --onnxruntime takes one ONNX file on one device, and a Python that has onnxruntime.
onnxruntime_needs() {
  fails 2 "an ONNX file beside it on one device" "${two[@]}" --onnxruntime &&
    BACKPLANE_PYTHON=/nowhere/python fails 1 "BACKPLANE_PYTHON names a Python" "$backplane" compare "$digits" "${shape[@]}" --onnxruntime &&
    BACKPLANE_PYTHON=/bin/false fails 1 "it said nothing" "$backplane" compare "$digits" "${shape[@]}" --onnxruntime
}

# A Python that ends the command, which has folders of tensors by then.
ended_leaves_nothing() {
  mkdir -p "$work/ended" &&
    printf '#!/bin/sh\nls "%s"/*/*.npy >"%s"\nkill -TERM $PPID\nexec sleep 0.1\n' "$work/ended" "$work/dumped" >"$work/killer" &&
    chmod +x "$work/killer" || return 1
  BACKPLANE_PYTHON=$work/killer TMPDIR=$work/ended ends 143 "$backplane" compare "$digits" "${shape[@]}" --onnxruntime &&
    [ -s "$work/dumped" ] && [ -z "$(ls -A "$work/ended")" ]
}

ok first-node-that-differs-is-named names_the_first_node
ok nodes-that-differ-are-in-json nodes_in_json
ok outputs-of-two-models-are-compared outputs_that_differ
ok layouts-with-spare-channels-are-compared spare_channels
ok other-shapes-are-not-compared other_shapes
ok outputs-that-one-side-lacks-are-an-error outputs_of_one_side
ok elements-without-a-form-in-files-leave-nodes-out without_nodes
ok nodes-that-no-file-is-named-after-are-left-out without_names
ok comparing-takes-two refuses_other_numbers
if "$backplane" list | grep -q '^opencl '; then
  ok two-devices-are-compared-and-measured devices_agree
fi
if "${BP_TEST_PYTHON:-false}" -c 'import onnx, onnxruntime'; then
  ok nodes-are-compared-with-onnxruntime onnxruntime_agrees
fi
ok onnxruntime-takes-one-onnx-file-and-a-python onnxruntime_needs
ok ended-command-leaves-no-temporary-files ended_leaves_nothing
ok several-models-are-measured-in-one-table one_table
ok several-results-are-in-json several_results
ok contexts-run-at-once contexts_at_once
ok storage-of-open-extents-is-an-expression storage_of_open_extents
ok number-of-contexts-is-checked fails 2 "--contexts 0: it is 1 to 1024" "$backplane" bench "$work/Neg.onnx" --contexts 0
ok bench-without-a-model-is-a-usage-error fails 2 "one model or several" "$backplane" bench
echo "1..$count"
