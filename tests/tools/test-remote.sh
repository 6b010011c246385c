#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# BACKPLANE_REMOTE, --device remote:HOST and the command, with this machine as the other one: the output of list,
# inspect and doctor, and models whose results equal those of a run on this machine. The other machines have the plugin
# simdev; this machine has it only in $both.
set -u
. "$top_srcdir/tests/tap.sh"
backplane=$top_builddir/backplane
digits=$top_srcdir/examples/digits
mkdir "$work/plugins" "$work/npu"
ln -s "$top_builddir/tests/mock/.libs/simdev.so" "$work/plugins"
ln -s "$top_builddir/tests/mock/.libs/simnpu.so" "$work/npu"
alone=$BACKPLANE_PLUGIN_PATH both=$BACKPLANE_PLUGIN_PATH:$work/plugins
export BACKPLANE_REMOTE_PROGRAM=$BACKPLANE_WORKER_PROGRAM

# with FOLDER COMMAND...: runs the command; the other machines have the plugins in the folder.
with() {
  BACKPLANE_REMOTE_SHELL="env 'BACKPLANE_PLUGIN_PATH=$alone:$1' sh -c 'eval \"\$1\"'" "${@:2}"
}
export BACKPLANE_PLUGIN_PATH=$both BACKPLANE_REMOTE_SHELL="sh -c 'eval \"\$1\"'"

has() {
  "$backplane" inspect device "$1" >/dev/null 2>&1
}

# run FOLDER DEVICE: runs digits on a device, without output on stderr.
run() {
  mkdir -p "$work/$1"
  "$backplane" run "$digits/digits.onnx" --input "image=$digits/images/7-3710.png" --device "$2" --output-dir "$work/$1" \
    2>"$work/err" && ! grep . "$work/err"
}

same() {
  run here "$1" && run there "remote:me@there/$1" && cmp "$work/here/logits.npy" "$work/there/logits.npy"
}

says_which_machine() {
  "$backplane" run "$digits/digits.onnx" --input "image=$digits/images/7-3710.png" --device remote:me@there/simdev >"$work/out" &&
    grep '^Ran on remote:me@there/simdev:0 in ' "$work/out"
}

# The attributes of the device do not depend on its machine.
says_the_same() {
  "$backplane" inspect device "$1" >"$work/here.txt" && "$backplane" inspect device "remote:me@there/$1" >"$work/there.txt" &&
    grep -v available "$work/here.txt" >"$work/a" && sed 's|remote:me@there/||' "$work/there.txt" | grep -v available >"$work/b" && cmp "$work/a" "$work/b"
}

diagnoses() {
  BACKPLANE_REMOTE=me@there "$backplane" doctor >"$work/doctor" 2>&1
  grep -F "it is used on me@there (BACKPLANE_REMOTE)" "$work/doctor" &&
    grep -F "simdev: a model is compiled and runs on remote:me@there/simdev:0" "$work/doctor"
}

# A library that was compiled here runs on machines that its process contacts after loading it, and on a machine where
# another machine loads it first.
crosses() {
  BACKPLANE_PLUGIN_PATH=$both "$backplane" compile "$digits/digits.onnx" --target simdev -o "$work/digits.so" || return
  local device
  for device in a b; do
    mkdir -p "$work/on-$device" && "$backplane" run "$work/digits.so" --device "remote:$device/simdev" \
      --input "image=$digits/images/7-3710.png" --output-dir "$work/on-$device" >"$work/out" &&
      grep "^Ran on remote:$device/simdev:0 in " "$work/out" || return
  done
  BACKPLANE_PLUGIN_PATH=$both run here simdev && cmp "$work/here/logits.npy" "$work/on-a/logits.npy" &&
    cmp "$work/here/logits.npy" "$work/on-b/logits.npy" &&
    BACKPLANE_REMOTE=a "$backplane" run "$work/digits.so" --device remote:b/simdev --input "image=$digits/images/7-3710.png" \
      --output-dir "$work/on-b" >"$work/out" && cmp "$work/here/logits.npy" "$work/on-b/logits.npy"
}

# part FOLDER DEVICE: runs a model on a device and the CPU; a graph compiler claims the part for the device.
part() {
  mkdir -p "$work/$1" && "$backplane" run "$digits/digits-int8.onnx" --shape image=1x1x28x28 --graph-compiler simdev \
    --input "image=$digits/images/7-3710.png" --device "$2,cpu" --output-dir "$work/$1" >"$work/out" 2>&1 &&
    grep "^Ran on $2:0 and cpu:0 in " "$work/out" && grep "claim 5 of 9 nodes" "$work/out"
}

# The part is claimed and compiled there or here, and runs there, whether or not this machine has a device of the kind.
claims() {
  export BACKPLANE_SIMDEV_CHIP=$top_builddir/tests/mock/simdev-chip
  BACKPLANE_PLUGIN_PATH=$alone:$work/npu part here simdev || return
  BACKPLANE_PLUGIN_PATH=$alone part there remote:me@there/simdev && cmp "$work/here/logits.npy" "$work/there/logits.npy" || return
  BACKPLANE_LAYERS=validate BACKPLANE_PLUGIN_PATH=$alone:$work/npu part both remote:me@there/simdev &&
    cmp "$work/here/logits.npy" "$work/both/logits.npy"
}

# The command that reaches the machine is called once: the plugin is used through the connection that listed it.
connects_once() {
  printf '#!/bin/sh\necho >>"%s"\neval "$2"\n' "$work/calls" >"$work/shell" && chmod +x "$work/shell" &&
    BACKPLANE_REMOTE_SHELL=$work/shell run once remote:me@there/simdev && [ "$(wc -l <"$work/calls")" -eq 1 ]
}

# The command works only the first time, so the machine's second plugin is unusable; this machine's plugin does not
# replace it.
does_not_fall_back() {
  ln -s "$top_builddir/tests/mock/.libs/fragile.so" "$work/plugins"
  printf '#!/bin/sh\n[ -e "%s" ] && exit 9\n: >"%s"\neval "$2"\n' "$work/called" "$work/called" >"$work/shell" && chmod +x "$work/shell"
  BACKPLANE_REMOTE_SHELL=$work/shell BACKPLANE_REMOTE=me@there "$backplane" list --probe >"$work/out" 2>&1
  cat "$work/out"
  rm "$work/plugins/fragile.so"
  grep "^remote:me@there/simdev .*ended with status 9" "$work/out" && ! grep "^remote:me@there/simdev:" "$work/out"
}

# A command that neither reads nor writes.
ends_deaf_command() {
  printf '#!/bin/sh\necho $$ >"%s"\nexec sleep 300\n' "$work/deaf.pid" >"$work/deaf" && chmod +x "$work/deaf" || return
  BACKPLANE_WORKER_DEADLINE=2 BACKPLANE_REMOTE_SHELL=$work/deaf "$backplane" inspect device remote:me@deaf/simdev >"$work/out" 2>&1
  cat "$work/out"
  local pid
  pid=$(cat "$work/deaf.pid") && for _ in $(seq 50); do
    [ -e "/proc/$pid" ] && ! grep -q '^State:.*Z' "/proc/$pid/status" || return 0
    sleep 0.1
  done
  kill "$pid"
  return 1
}

BACKPLANE_REMOTE=me@there ok "list shows the plugins of another machine" ends_saying 0 "found (remote)" "$backplane" list
BACKPLANE_REMOTE=me@there ok "inspect says where a plugin is" ends_saying 0 "remote:me@there/simdev" "$backplane" inspect plugin remote:me@there/simdev
BACKPLANE_PLUGIN_PATH=$alone with "$work/plugins" ok "doctor runs a model on another machine" diagnoses
BACKPLANE_PLUGIN_PATH=$alone with "$work/plugins" ok "a library of this machine runs on two others" crosses
with "$work/npu" ok "a graph compiler works over another machine" claims
ok "a run connects once" connects_once
ok "a command that reads nothing ends with its relay" ends_deaf_command
BACKPLANE_PLUGIN_PATH=$alone BACKPLANE_REMOTE=a,b with "$work/plugins" ok "an index of two machines is ambiguous" \
  fails 1 "write remote:a/simdev or remote:b/simdev" "$backplane" inspect device simdev:0
ok "a run says on which machine it was" says_which_machine
ok "a plugin of another machine that fails is not replaced by this machine's" does_not_fall_back
BACKPLANE_REMOTE_PROGRAM=/nowhere/worker ok "a program that does not exist is named" \
  fails 1 "/nowhere/worker" "$backplane" run "$digits/digits.onnx" --input "image=$digits/images/7-3710.png" --device remote:me@there
BACKPLANE_REMOTE_SHELL=/nowhere/ssh ok "a command that does not exist is named" \
  fails 1 "/nowhere/ssh" "$backplane" run "$digits/digits.onnx" --input "image=$digits/images/7-3710.png" --device remote:me@there
BACKPLANE_ISOLATE=simdv ok "a name in BACKPLANE_ISOLATE that no plugin has is reported" \
  ends_saying 0 'no plugin has the name "simdv"; did you mean "simdev"?' "$backplane" list
for device in simdev opencl vulkan; do
  has "$device" || continue
  ok "$device says of itself what it says on this machine" says_the_same "$device"
  ok "$device: a run on another machine gives the same bytes" same "$device"
done
echo "1..$count"
