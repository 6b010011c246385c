#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The commands of docs/tvm.md work: the command runs the models that the page compiles with TVM.
set -uo pipefail
if ! "${BP_TEST_PYTHON:-false}" -c 'import onnx, tvm' 2>/dev/null; then
  echo 1..1
  echo "ok 1 /tvm/page # SKIP BP_TEST_PYTHON names no Python with apache-tvm and onnx"
  exit 0
fi
. "$top_srcdir/tests/tap.sh"
backplane=$top_builddir/backplane
page=$top_srcdir/docs/tvm.md

# Prints the indented block of the page that begins with a line.
block() {
  awk -v first="    $1" 'index($0, first) == 1 { found = 1 } found && /^[^ ]/ { exit }
                         found { sub(/^    /, ""); print }' "$page"
}

# python LINE...: runs the blocks that begin with these lines, as one program.
python() {
  local line
  for line; do block "$line"; done >program.py
  [ -s program.py ] && "$BP_TEST_PYTHON" program.py
}

# follow LINE: runs the commands of the block, with the file's name in place of net.so.
follow() {
  local command
  block "backplane inspect model net.so" | head -n 2 | sed "s/net\.so/$1/" >commands
  [ "$(wc -l <commands)" = 2 ] || return 1
  while read -r program command; do
    "$backplane" $command 2>&1 | tee output || return 1
  done <commands
  grep -q 'output  *float32  *1x10' output
}

cd "$work" || exit 1
cp "$top_srcdir/examples/digits/digits.onnx" net.onnx
"$BP_TEST_PYTHON" -c 'import numpy; numpy.save("image.npy", numpy.zeros((1, 1, 28, 28), "float32"))'
echo 1..8
ok /tvm/page/compiles-for-the-cpu python "import onnx, tvm"
ok /tvm/page/runs-on-the-cpu follow net.so
ok /tvm/page/compiles-for-opencl python "import onnx, tvm" "target = tvm.target.Target"
if "$backplane" inspect device opencl:0 >"$work/log" 2>&1; then
  ok /tvm/page/runs-on-opencl follow net-opencl.so
else
  count=$((count + 1))
  echo "ok $count /tvm/page/runs-on-opencl # SKIP there is no OpenCL device"
fi

# An image is accepted if the run may choose the number of images.
ok /tvm/page/takes-a-picture "$backplane" run net.so --input "image=$top_srcdir/examples/digits/images/7-3710.png"
ok /tvm/page/shows-the-functions says 'main vm_load_executable' "$backplane" inspect module net.so

# The command does not guess an extent that only a run determines; the user may give it.
ok /tvm/page/profile-asks-for-what-it-cannot-invent fails 1 'no value for image (?x1x28x28)' "$backplane" profile net.so
ok /tvm/page/profile-takes-the-shape-of-what-it-invents says relu "$backplane" profile net.so --shape image=2x1x28x28 --seconds 0
