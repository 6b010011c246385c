#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The layers and the command: models on each device, the trace's document and sums, faults, the conformance kit.
set -u
. "$top_srcdir/tests/tap.sh"
backplane=$top_builddir/backplane
digits=$top_srcdir/examples/digits
mkdir "$work/plugins"
ln -s "$top_builddir/tests/mock/.libs/simdev.so" "$work/plugins"
export BACKPLANE_PLUGIN_PATH=$BACKPLANE_PLUGIN_PATH:$work/plugins
command -v python3 >/dev/null || { echo "1..0 # SKIP there is no python3"; exit 0; }

# run DEVICE [VARIABLE=VALUE...]: runs digits on a device, without output on stderr.
run() {
  local device=$1
  shift
  mkdir -p "$work/$device"
  env "$@" "$backplane" run "$digits/digits.onnx" --input "image=$digits/images/7-3710.png" --device "$device" \
    --output-dir "$work/$device" 2>"$work/err" && ! grep . "$work/err"
}

has() {
  "$backplane" inspect device "$1" >/dev/null 2>&1
}

# The output is the same with and without layers, and the trace records the run.
traces() {
  local device=$1
  run "$device" && mv "$work/$device/logits.npy" "$work/without.npy" &&
    run "$device" BACKPLANE_LAYERS=validate,trace BACKPLANE_TRACE_FILE="$work/$device.json" &&
    cmp "$work/without.npy" "$work/$device/logits.npy" && sums "$work/$device.json" "$device"
}

# sums FILE KIND: the sums at the end of the trace equal the sums of its events.
sums() {
  python3 - "$1" "$2" <<'PYTHON'
import collections, json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
kind = sys.argv[2]
calls = [e for e in events if e["ph"] == "X" and e["args"]["kind"] == kind]
told = [e for e in events if e["name"] == f"sums of {kind}"]
assert len(told) == 1 and calls, (len(told), len(calls))
told = told[0]["args"]
count = collections.Counter(e["cat"] for e in calls)
assert count == told["calls"], (count, told["calls"])
copied = collections.Counter()
for e in calls:
    if e["cat"] == "copy":
        copied[e["args"]["direction"]] += e["args"]["bytes"]
assert {d: v["bytes"] for d, v in told["copies"].items() if v["bytes"]} == copied, (told["copies"], copied)
launches = collections.Counter(e["name"] for e in calls if e["cat"] == "launch")
assert {k: v["count"] for k, v in told["launches"].items()} == launches
memory = [e["args"]["bytes"] for e in events if e["name"] == f"memory of {kind}:0"]
assert max(memory) == told["peak_bytes"][f"{kind}:0"] and min(memory) >= 0, memory
if kind != "cpu":
    assert copied["host_to_device"] >= 28 * 28 * 4 and copied["device_to_host"] >= 40, copied
    assert any("conv" in name for name in launches), launches
    assert memory[-1] == 0, memory
assert all(e["dur"] >= 0 for e in calls)
PYTHON
}

# A process that is killed leaves a complete document.
is_whole_after_a_kill() {
  BACKPLANE_LAYERS=trace BACKPLANE_TRACE_FILE="$work/killed-%p.json" \
    "$backplane" bench "$digits/digits.onnx" --shape image=1x1x28x28 --device simdev --seconds 60 >/dev/null 2>&1 &
  local pid=$! try
  for try in $(seq 300); do
    [ "$(stat -c %s "$work/killed-$pid.json" 2>/dev/null || echo 0)" -gt 20000 ] && break
    sleep 0.1
  done
  kill -KILL "$pid"
  wait "$pid" 2>/dev/null
  python3 -c 'import json, sys; events = json.load(open(sys.argv[1]))["traceEvents"]; assert len(events) > 50; print(len(events), "events")' \
    "$work/killed-$pid.json"
}

is_whole_at_a_limit() {
  (ulimit -f 16 && BACKPLANE_LAYERS=trace BACKPLANE_TRACE_FILE="$work/limit.json" \
    ends_saying 0 "ends here: the limit of file sizes is reached" \
    "$backplane" bench "$digits/digits.onnx" --shape image=1x1x28x28 --device simdev --seconds 0.1) || return 1
  python3 -c 'import json, sys; assert len(json.load(open(sys.argv[1]))["traceEvents"]) > 20' "$work/limit.json"
}

# A trace is never truncated: the name of an unusable file is an error, and so is a limit below the shortest trace.
refuses_what_it_cannot_write() {
  local name=$work
  while [ ${#name} -lt 4092 ]; do name=$name/.; done
  name=${name:0:4085}/trace
  BACKPLANE_LAYERS=trace BACKPLANE_TRACE_FILE=$name fails 1 "its name is too long" "$backplane" inspect device cpu &&
    (ulimit -f 0 && BACKPLANE_LAYERS=trace BACKPLANE_TRACE_FILE="$work/none.json" \
      "$backplane" inspect device cpu 2>&1 >/dev/null | grep -q "the limit of file sizes is lower") && [ ! -e "$work/none.json" ]
}

# The trace is not written through a link, nor into a file with several links or other content; an empty file and a trace are replaced.
keeps_others_files() {
  echo mine >"$work/mine"
  ln -sf "$work/mine" "$work/link"
  BACKPLANE_LAYERS=trace BACKPLANE_TRACE_FILE="$work/link" fails 1 "it is a symbolic link" "$backplane" inspect device cpu &&
    ln "$work/mine" "$work/second" &&
    BACKPLANE_LAYERS=trace BACKPLANE_TRACE_FILE="$work/mine" fails 1 "it has another name, too" "$backplane" inspect device cpu &&
    rm "$work/second" &&
    BACKPLANE_LAYERS=trace BACKPLANE_TRACE_FILE="$work/mine" fails 1 "it exists and is no trace" "$backplane" inspect device cpu &&
    [ "$(cat "$work/mine")" = mine ] && : >"$work/mine" &&
    BACKPLANE_LAYERS=trace BACKPLANE_TRACE_FILE="$work/mine" says FACT "$backplane" inspect device cpu &&
    BACKPLANE_LAYERS=trace BACKPLANE_TRACE_FILE="$work/mine" says FACT "$backplane" inspect device cpu &&
    python3 -m json.tool "$work/mine" >/dev/null
}

# Two processes do not write into one trace.
keeps_the_trace_of_another_process() {
  : >"$work/shared.json"
  BACKPLANE_LAYERS=trace BACKPLANE_TRACE_FILE="$work/shared.json" \
    fails 1 "another process writes it" flock "$work/shared.json" "$backplane" inspect device cpu
}

# By default the trace's file is in the current directory, and its name has the process' number.
has_a_name_by_default() {
  (mkdir -p "$work/here" && cd "$work/here" && BACKPLANE_LAYERS=trace "$backplane" inspect device cpu >/dev/null &&
    python3 -m json.tool backplane-trace-[0-9]*.json >/dev/null)
}

# faults SLOT KIND MESSAGE: the call fails the run, and the run leaks nothing.
faults() {
  BACKPLANE_LAYERS=fault:simdev,validate BACKPLANE_FAULT=$1 fails 1 "$2" \
    "$backplane" run "$digits/digits.onnx" --input "image=$digits/images/7-3710.png" --device simdev --output-dir "$work" &&
    ! grep 'validate' "$work/err"
}

every_slot_of_a_run_faults() {
  local slot
  for slot in create_stream:1 stream_sync:1 alloc_data_space:1 alloc_data_space:3 copy:1 copy:3 launch:1 launch:4 launch:2:every; do
    faults "$slot" "fault: simdev: ${slot%%:*} fails in its call" || return 1
  done
  faults get_device_count:1 "fault: simdev: get_device_count fails in its call 1"
}

# A trial decides whether a plugin is usable; it uses no layers.
trial_knows_no_layers() {
  BACKPLANE_CACHE_DIR=$work/cache BACKPLANE_LAYERS=fault:simdev BACKPLANE_FAULT=get_device_count:1 \
    fails 1 "fault: simdev: get_device_count" "$backplane" inspect device simdev &&
    BACKPLANE_CACHE_DIR=$work/cache says simdev "$backplane" inspect device simdev
}

# The device conforms under the layer, too: the kit's deliberate errors are still errors, and correct calls succeed.
conforms() {
  local status
  BACKPLANE_LAYERS=validate "$backplane" verify --conformance "$top_builddir/tests/mock/.libs/simdev.so" \
    --only memory --only copy --only stream --only launch
  status=$?
  [ "$status" -eq 0 ] || [ "$status" -eq 3 ]
}

for device in cpu simdev opencl vulkan; do
  if has "$device"; then
    ok "digits-run-under-validate-and-trace-on-$device" traces "$device"
  else
    skip "digits-run-under-validate-and-trace-on-$device" "no device $device"
  fi
done
ok trace-is-whole-when-the-process-is-killed is_whole_after_a_kill
ok trace-is-whole-when-the-file-may-not-grow is_whole_at_a_limit
ok trace-refuses-a-file-that-it-cannot-write refuses_what_it_cannot_write
ok trace-writes-into-no-file-of-others keeps_others_files
ok trace-of-another-process-is-not-overwritten keeps_the_trace_of_another_process
ok trace-has-a-file-by-default has_a_name_by_default
ok faults-fail-the-run-and-leave-nothing every_slot_of_a_run_faults
ok trial-of-a-plugin-knows-no-layers trial_knows_no_layers
ok template-conforms-under-validate conforms
echo "1..$count"
