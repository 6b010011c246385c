#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The smallest examples of a device, a layer and a library of operators are short, compile with only a C compiler, and
# pass the conformance kit. The layer sees launches.
set -u
. "$top_srcdir/tests/tap.sh"
CC=${CC:-cc}
command -v "${CC%% *}" >/dev/null || { echo "1..0 # SKIP no compiler"; exit 0; }
sanitize=
for kind in address:asan thread:tsan undefined:ubsan; do
  nm -D "$top_builddir/.libs/libbackplane.so" | grep -q "U __${kind#*:}_" && sanitize="$sanitize -fsanitize=${kind%:*}"
done

is_short() {
  [ "$(wc -l <"$top_srcdir/examples/$1")" -lt 150 ]
}

# compile SOURCE NAME
compile() {
  # shellcheck disable=SC2086
  $CC $sanitize -std=gnu11 -Wall -Wextra -Werror -O2 -fPIC -shared "-I$top_srcdir/sdk/include" "$top_srcdir/examples/$1" \
    -o "$work/backplane-$2.so"
}

conforms() {
  ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 "$top_builddir/backplane" verify --conformance "$work/backplane-$1.so"
}

layer_counts() {
  local digits=$top_srcdir/examples/digits
  ln -s "$top_builddir/tests/mock/.libs/simdev.so" "$work"
  BACKPLANE_PLUGIN_PATH=$BACKPLANE_PLUGIN_PATH:$work BACKPLANE_LAYERS=count "$top_builddir/backplane" run "$digits/digits.onnx" \
    --input "image=$digits/images/7-3710.png" --device simdev >"$work/out" 2>&1
  cat "$work/out"
  grep -q 'simdev: [1-9][0-9]* launches' "$work/out"
}

for example in minimal-device/minimal.c minimal-layer/layer.c minimal-operators/operators.c; do
  ok "$example has less than 150 lines" is_short "$example"
  ok "$example is compiled" compile "$example" "$(basename "$example" .c)"
done
ok "the device conforms" conforms minimal
ok "the layer conforms" conforms layer
ok "the operators conform" conforms operators
ok "the layer counts the launches of a model" layer_counts
echo "1..$count"
