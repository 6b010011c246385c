#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# model.sh [PLUGIN.so]: runs a quantised model on the device and on the CPU, and compares the outputs with
# the results of each single operator on the CPU. Outputs of the device are equal; floats that the CPU
# computes from them may differ by rounding.
set -eu
plugin=${1:-.libs/backplane-simdev.so}
backplane=${BACKPLANE_COMMAND:-backplane}
digits=$BACKPLANE_EXAMPLES/digits
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
BACKPLANE_PLUGIN_PATH=$(cd "$(dirname "$plugin")" && pwd)${BACKPLANE_PLUGIN_PATH:+:$BACKPLANE_PLUGIN_PATH}
export BACKPLANE_PLUGIN_PATH

# Five of the model's nine nodes run on the device. A copy of the artifact runs without the graph
# compiler.
"$backplane" compile "$digits/digits-int8.onnx" --shape image=1x1x28x28 --target simdev --fallback c \
  --graph-compiler simdev --require 0.5 -o "$work/model.so"
"$backplane" compile "$digits/digits-int8.onnx" --shape image=1x1x28x28 --target c --reference \
  -o "$work/reference.so"
for image in "$digits"/images/*.png; do
  "$backplane" run "$work/reference.so" --device cpu --input "image=$image" --output "$work" >"$work/log"
  "$backplane" run "$work/model.so" --device simdev,cpu --input "image=$image" \
    --expect "logits=$work/logits.npy" >"$work/log" || { cat "$work/log"; exit 1; }
  grep -q 'Ran on simdev:0' "$work/log"
done
