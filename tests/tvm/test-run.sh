#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The backplane command runs artifacts of TVM up to 0.19.
set -u
. "$top_srcdir/tests/tap.sh"
backplane=$top_builddir/backplane

# runs ARGUMENTS...: the network's outputs are the expected ones for x = 1, 2, 3, 4.
runs() {
  "$backplane" run "$@" --device cpu --input "x=$work/x.npy" | tee "$work/out"
  grep -q 'output0 .*4, 8, 12, 16' "$work/out" && grep -q 'output1 .*scalar .*40' "$work/out" &&
    grep -q 'output2 .*bool' "$work/out"
}

# Four floats as NumPy writes them: a header of 128 bytes, the numbers.
{
  printf '\223NUMPY\1\0\166\0%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }"
  printf '\0\0\200\77\0\0\0\100\0\0\100\100\0\0\200\100'
} >"$work/x.npy"
mkdir "$work/net" "$work/apart"
"$top_builddir/tests/tvm/write-artifacts" "$work/net" || {
  echo "Bail out! the artifacts were not written"
  exit 1
}
mv "$work/net/all.so" "$work/net/metal.so" "$work"
tar -cf "$work/net.tar" -C "$work/net" .
tar -czf "$work/net.tgz" -C "$work/net" .

echo 1..13
ok /tvm/run/library runs "$work/all.so"
ok /tvm/run/folder runs "$work/net"
ok /tvm/run/graph runs "$work/net/net.json"
cp "$work/net/net.so" "$work/apart/deploy_lib.so"
cp "$work/net/net.params" "$work/apart/weights"
ok /tvm/run/each-file-named runs "$work/net/net.json" --library "$work/apart/deploy_lib.so" \
  --params "$work/apart/weights"
ok /tvm/run/parameters-need-their-library fails 2 '--library names the library of these parameters' \
  "$backplane" run "$work/net/net.json" --params "$work/apart/weights"
ok /tvm/run/library-without-graph fails 1 'belongs a graph (.json)' \
  "$backplane" run "$work/net/net.so"
ok /tvm/run/profile says tvmgen_default_fused_multiply "$backplane" profile "$work/all.so" \
  --device cpu
ok /tvm/run/inspect-model says 'x: float32 4' "$backplane" inspect model "$work/all.so" \
  --device cpu
ok /tvm/run/inspect-module says packed_c_library "$backplane" inspect module "$work/all.so"
ok /tvm/run/archive-is-to-be-unpacked-tar fails 1 'is a tar archive: unpack it first' \
  "$backplane" run "$work/net.tar"
ok /tvm/run/archive-is-to-be-unpacked-tgz fails 1 'is compressed (gzip): unpack it first' \
  "$backplane" run "$work/net.tgz"
ok /tvm/run/absent-device-is-named \
  fails 1 'no device fits the default among the kinds that the code is for (metal)' "$backplane" run "$work/metal.so"
ok /tvm/run/absent-plugin-is-named \
  fails 1 'metal: no installed plugin has devices of kind "metal"' "$backplane" run "$work/metal.so"
