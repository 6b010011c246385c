#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# BACKPLANE_ISOLATE and the command: the output of list, inspect and doctor, and models whose results equal those of a
# run in one process, also under layers.
set -u
. "$top_srcdir/tests/tap.sh"
backplane=$top_builddir/backplane
digits=$top_srcdir/examples/digits
mkdir "$work/plugins"
ln -s "$top_builddir/tests/mock/.libs/simdev.so" "$work/plugins"
export BACKPLANE_PLUGIN_PATH=$BACKPLANE_PLUGIN_PATH:$work/plugins

has() {
  "$backplane" inspect device "$1" >/dev/null 2>&1
}

# run FOLDER DEVICE [VARIABLE=VALUE...]: runs digits on a device, without output on stderr.
run() {
  local folder=$work/$1 device=$2
  shift 2
  mkdir -p "$folder"
  env "$@" "$backplane" run "$digits/digits.onnx" --input "image=$digits/images/7-3710.png" --device "$device" \
    --output-dir "$folder" 2>"$work/err" && ! grep . "$work/err"
}

same() {
  run within "$1" && run isolated "$1" BACKPLANE_ISOLATE="$1" "${@:2}" && cmp "$work/within/logits.npy" "$work/isolated/logits.npy"
}

# The attributes of the device do not depend on the process of its plugin.
says_the_same() {
  "$backplane" inspect device "$1" >"$work/within.txt" && BACKPLANE_ISOLATE=$1 "$backplane" inspect device "$1" >"$work/isolated.txt" &&
    grep -v available "$work/within.txt" >"$work/a" && grep -v available "$work/isolated.txt" >"$work/b" && cmp "$work/a" "$work/b"
}

diagnoses() {
  BACKPLANE_ISOLATE=simdev,cpu "$backplane" doctor >"$work/doctor" 2>&1
  grep -F "it is used in a process of its own" "$work/doctor" && grep -F "isolation-impossible: " "$work/doctor" &&
    grep -F "take the plugin off the list in BACKPLANE_ISOLATE" "$work/doctor" && grep -F "provides runtime.isolate" "$work/doctor"
}

# The worker's user may have one process, so the program cannot make the child that serves.
names_the_limit_of_processes() {
  printf '#!/bin/sh\nexec %s prlimit --nproc=1:1 "%s" "$@"\n' "$as_nobody" "$worker" >"$work/limited" && chmod +x "$work/limited" &&
    BACKPLANE_ISOLATE=simdev BACKPLANE_WORKER_PROGRAM=$work/limited LD_LIBRARY_PATH=$top_builddir/.libs \
      fails 1 "it cannot start a process: Resource temporarily unavailable" "$backplane" inspect device simdev
}

lists_none() {
  "$backplane" list >"$work/list" && ! grep -F "(isolated)" "$work/list"
}

BACKPLANE_ISOLATE='sim*' ok "list shows a plugin that is isolated" ends_saying 0 "found (isolated)" "$backplane" list
# A worker's program that ends before it serves.
ends_stopped_start() {
  printf '#!/bin/sh\necho $$ >"%s/pid"\nkill -STOP $$\n' "$work" >"$work/stopped" && chmod +x "$work/stopped" || return
  BACKPLANE_ISOLATE=simdev BACKPLANE_WORKER_PROGRAM=$work/stopped timeout -s KILL 60 "$backplane" inspect device simdev:0 >"$work/out" 2>&1
  cat "$work/out"
  ! kill -KILL "$(cat "$work/pid")" && grep -qF "it did not serve within 20 seconds" "$work/out"
}
ok "a worker's program that stops is killed after 20 seconds" ends_stopped_start
ok "list shows none without the variable" lists_none
BACKPLANE_ISOLATE=simdev ok "inspect says that a plugin is isolated" ends_saying 0 '"isolated": true' "$backplane" inspect plugin simdev --json
ok "doctor says where a plugin is used, and what cannot be isolated" diagnoses
BACKPLANE_ISOLATE=simdev BACKPLANE_WORKER_PROGRAM=/nowhere/worker ok "a program that does not exist is named" \
  ends_saying 1 "/nowhere/worker: No such file or directory; install it, or name it in BACKPLANE_WORKER_PROGRAM" "$backplane" inspect device simdev
BACKPLANE_ISOLATE=simdev BACKPLANE_WORKER_PROGRAM=/bin/true ok "another program is refused" \
  ends_saying 1 "does not greet" "$backplane" inspect device simdev
worker=$top_builddir/.libs/backplane-worker
as_nobody=
[ "$(id -u)" != 0 ] || as_nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
if $as_nobody test -x "$worker" && $as_nobody prlimit --nproc=1:1 true; then
  ok "a limit of processes is named" names_the_limit_of_processes
else
  skip "a limit of processes is named" "the user nobody cannot run the worker, or processes cannot be limited"
fi
for device in simdev opencl vulkan; do
  has "$device" || continue
  ok "$device says of itself what it says in one process" says_the_same "$device"
  ok "$device: an isolated run gives the same bytes" same "$device"
done
ok "simdev: an isolated run under validate gives the same bytes" same simdev BACKPLANE_LAYERS=validate
echo "1..$count"
