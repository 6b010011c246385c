#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A quantised model runs on the device and on the CPU, and gives what each operator by itself gives on
# the CPU. What the device computes is equal; the floats that the CPU makes of it differ by their
# rounding: model.sh [PLUGIN.so]
set -eu
plugin=${1:-.libs/backplane-simdev.so}
backplane=${BACKPLANE_COMMAND:-backplane}
digits=$BACKPLANE_EXAMPLES/digits
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
BACKPLANE_PLUGIN_PATH=$(cd "$(dirname "$plugin")" && pwd)${BACKPLANE_PLUGIN_PATH:+:$BACKPLANE_PLUGIN_PATH}
export BACKPLANE_PLUGIN_PATH

# Five of its nine nodes are for the device; a copy of the artifact needs no graph compiler.
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
