#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The backplane command as users call it: the main forms, and the messages on bad input.
set -u
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/tools/onnx.sh"
backplane=$top_builddir/backplane
digits=$top_srcdir/examples/digits
shape=image=1x1x28x28

# Two plugins that show the device at one address, and a third plugin with a device at another address.
grouped() {
  local plugin=$top_builddir/tests/mock/.libs/defect.so
  mkdir -p "$work/group"
  sed 's/defect=none         /defect=same-hardware/' "$plugin" >"$work/group/a.so"
  sed 's/azazazazazazaz/azazazazazazc8/g' "$plugin" >"$work/group/b.so"
  sed 's/azazazazazazaz/azazazazazc8az/g' "$work/group/a.so" >"$work/group/c.so"
  BACKPLANE_PLUGIN_PATH=$work/group "$backplane" list --probe | tee "$work/out" &&
    [ "$(grep -A1 'pci:0000:42:00.0' "$work/out" | tail -n 1 | grep -c 'the same as defect-azazazazazazaz:0')" = 1 ]
}

# Only the named kind is shown.
one_target() {
  says mcpu "$backplane" targets c && [ "$(grep -c '^[a-z]' "$work/out")" = 1 ] &&
    fails 1 "no installed plugin has the target kind 'cc'" "$backplane" targets cc &&
    fails 2 "got 'd' too" "$backplane" targets c d
}

# The message names the package of the C compiler if the compiler is missing, but not for a target kind "cc".
package_of_the_compiler() {
  mkdir -p "$work/names/backplane-1/packages.d" && cp "$top_srcdir/packaging/libbackplane1.conf" "$work/names/backplane-1/packages.d" &&
    fails 1 "target kind 'cc'; \`backplane targets\`" env XDG_DATA_HOME="$work/names" "$backplane" targets cc &&
    fails 1 "install gcc" env XDG_DATA_HOME="$work/names" BACKPLANE_CC="$work/none" BACKPLANE_CACHE_DIR="$work/names/cache" \
      "$backplane" compile "$digits/digits.onnx" --target c -o "$work/x.so"
}

# The message on "gpu" does not suggest "cpu".
lists_kinds() {
  fails 1 '"gpu" (installed: cpu' "$backplane" inspect device gpu && ! grep -q 'did you mean' "$work/err"
}

# A target is given as a device, and a device as a target.
tells_kinds_apart() {
  fails 1 '"cpu" is a kind of device, for which there is the target kind c' "$backplane" compile "$digits/digits.onnx" --target cpu -o "$work/x.so" &&
    fails 1 '"c" is a target kind, for devices of kind cpu' "$backplane" inspect device c
}

# If the target and the list of devices disagree, the message names both.
names_both_that_disagree() {
  BACKPLANE_DEVICE=cuda fails 1 '--target c is code for devices of kind cpu: BACKPLANE_DEVICE: no device fits "cuda"' \
    "$backplane" run "$digits/digits.onnx" --shape $shape --target c
}

configured() {
  mkdir -p "$work/config/backplane"
  printf '[device]\nselect=quantum\n' >"$work/config/backplane/backplane.conf"
  XDG_CONFIG_HOME=$work/config ends 5 "$backplane" doctor
  grep -q 'backplane.conf.*quantum' "$work/out"
}

every_stage() {
  local stage
  BACKPLANE_PLUGIN_PATH=$work/cpu "$backplane" doctor --json >"$work/doctor.json" || return 1
  for stage in found descriptor abi path dependencies permissions probe devices selected code; do
    grep -q "\"$stage\"" "$work/doctor.json" || return 1
  done
}

# Without a C compiler no code is compiled for the plugin's target: a warning says how to get a compiler.
no_code_without_a_compiler() {
  BACKPLANE_PLUGIN_PATH=$work/cpu says "c: a model is compiled and runs on cpu:0" "$backplane" doctor &&
    BACKPLANE_CC=/nowhere/cc BACKPLANE_PLUGIN_PATH=$work/cpu ends_saying 3 "code-failed: target c: " "$backplane" doctor &&
    grep -q /nowhere/cc "$work/out"
}

# The list shows the result of a plugin's use; the plugin was new before.
probe_shows_states() {
  mkdir -p "$work/crash"
  sed 's/defect=none /defect=crash/' "$top_builddir/tests/mock/.libs/defect.so" >"$work/crash/a.so"
  BACKPLANE_PLUGIN_PATH=$work/crash "$backplane" list --probe | tee "$work/out" |
    grep -qE '^defect-azazazazazazaz +1.0 +quarantined .*crashed'
}

# A plugin that passes its trial and then ends the program with status 0.
says_that_it_was_ended() {
  mkdir -p "$work/exit"
  sed 's/defect=none      /defect=exit!count/' "$top_builddir/tests/mock/.libs/defect.so" >"$work/exit/a.so"
  BACKPLANE_PLUGIN_PATH=$work/exit fails 1 "a plugin or driver ended the program before the command was done" "$backplane" list --probe --json
}

# Text that a plugin prints goes to stderr: only the command writes to stdout.
keeps_its_stdout() {
  mkdir -p "$work/flood"
  sed 's/defect=none /defect=flood/' "$top_builddir/tests/mock/.libs/defect.so" >"$work/flood/a.so"
  BACKPLANE_PLUGIN_PATH=$work/flood "$backplane" list --probe --json 2>"$work/err" >"$work/out"
  grep -q xxxxxxxxxxxxxxxx "$work/err" && ! grep -q xxxxxxxxxxxxxxxx "$work/out" &&
    [ "$(head -c 1 "$work/out")" = '{' ] && grep -q '"device": "defect-azazazazazazaz:0"' "$work/out"
}

# A plugin's signal handler interrupts the write of the output, which waits for space in a pipe.
writes_on_after_a_signal() {
  local plugin=$work/interrupt/a.so command
  mkdir -p "$work/interrupt" && mkfifo "$work/pipe" || return 1
  sed 's/defect=none           /defect=interrupt!count/' "$top_builddir/tests/mock/.libs/defect.so" >"$plugin"
  exec 3<>"$work/pipe"
  head -c 65536 /dev/zero >&3
  BACKPLANE_PLUGIN_PATH=$work/interrupt "$backplane" list --probe --json >"$work/pipe" 3>&- &
  command=$!
  exec 4<"$work/pipe" 3>&-
  sleep 1
  tail -c +65537 <&4 | tee "$work/out"
  exec 4<&-
  wait "$command" && grep -q '"device": "defect-azazazazazazaz:0"' "$work/out"
}

# A variable that the plugin reads may be the reason why it has no device: the message names the variable.
names_the_variable() {
  local text='BP_DEFECT_VARIABLE=odd is set, which may be why: nothing is plugged in'
  mkdir -p "$work/none"
  sed 's/defect=none         /defect=devices-none /' "$top_builddir/tests/mock/.libs/defect.so" >"$work/none/a.so"
  local -x BACKPLANE_PLUGIN_PATH=$work/none:$work/cpu
  says "nothing is plugged in" "$backplane" list --probe && ! grep -q BP_DEFECT_VARIABLE "$work/out" || return 1
  local -x BP_DEFECT_VARIABLE=odd
  says "$text" "$backplane" list --probe && says "$text" "$backplane" doctor &&
    fails 1 "$text" "$backplane" inspect device defect-azazazazazazaz
}

# A result that the same command found is not reported as an earlier one.
says_nothing_of_earlier() {
  BACKPLANE_CACHE_DIR=$work/new-cache BACKPLANE_PLUGIN_PATH=$work/crash ends 5 "$backplane" doctor &&
    grep -q 'Passed over: .*it is tried again in' "$work/out" && ! grep -q earlier "$work/out"
}

# silent COMMAND...: the command prints nothing on stderr, with any exit status.
silent() {
  "$@" 2>"$work/err"
  cat "$work/err"
  [ ! -s "$work/err" ]
}

finds_missing_folder_once() {
  BACKPLANE_PLUGIN_PATH=$work/cpu:/proc/nonexistent silent "$backplane" doctor >"$work/out" &&
    [ "$(grep -c 'directory-unreadable: /proc/nonexistent' "$work/out")" = 1 ]
}

# with_broken COMMAND...: runs the command with the CPU's plugin and a truncated plugin; the name of its file says
# OpenCL.
with_broken() {
  BACKPLANE_PLUGIN_PATH=$work/cut:$work/cpu "$@"
}

# Terabytes are planned, but not allocated.
inspects_huge_model() {
  "$backplane" compile "$digits/digits.onnx" --target c --shape image=100000000x1x28x28 -o "$work/huge.so" &&
    says "logits: float32 100000000x10" "$backplane" inspect model "$work/huge.so" &&
    grep -qE '^planned_bytes +[0-9]{13}$' "$work/out"
}

inspects_by_relative_path() {
  cd "$work" && BACKPLANE_PLUGIN_PATH=/proc/nonexistent "$backplane" inspect plugin cpu/backplane-cpu.so |
    grep -q device_api.cpu
}

# Prints the index of the largest float of an .npy file with a 128-byte header.
largest() {
  od -An -v -t f4 -w4 -j 128 "$1" | awk 'NR == 1 || $1 > max { max = $1; at = NR - 1 } END { print at }'
}

run_digit() {
  mkdir -p "$work/out-dir" || return 1
  "$backplane" run "$1" "${@:3}" --input "image=$2" --output-dir "$work/out-dir"
}

predicts() {
  run_digit "$@" && [ "$(largest "$work/out-dir/logits.npy")" = "$(basename "$2" | cut -c1)" ]
}

predicts_all() {
  local image
  for image in "$digits"/images/*.png; do predicts "$1" "$image" || return 1; done
}

same_from_source_and_artifact() {
  run_digit "$digits/digits.onnx" "$digits/images/7-3710.png" --shape $shape &&
    mv "$work/out-dir/logits.npy" "$work/source.npy" &&
    run_digit "$work/digits.so" "$digits/images/7-3710.png" &&
    cmp "$work/source.npy" "$work/out-dir/logits.npy"
}

compile() {
  "$backplane" compile "$digits/digits.onnx" --target c --shape $shape -o "$work/digits.so"
}

# As a reference each operator is a function, so the model has more intermediates; the result is equal.
each_operator_by_itself() {
  mkdir -p "$work/plain" "$work/reference" || return 1
  "$backplane" profile "$work/digits.so" --dump-dir "$work/plain" --runs 1 --seconds 0 >"$work/out" &&
    says 'that each took' "$backplane" profile "$digits/digits.onnx" --reference --target c --shape $shape \
      --dump-dir "$work/reference" --runs 1 --seconds 0 &&
    [ "$(find "$work/reference" -name '*.npy' | wc -l)" -gt "$(find "$work/plain" -name '*.npy' | wc -l)" ]
}

every_intermediate() {
  mkdir -p "$work/dump" || return 1
  says 'that each took in 3 runs' "$backplane" profile "$work/digits.so" --trace "$work/trace.json" --dump-dir "$work/dump" --runs 3 --seconds 0 &&
    grep -q traceEvents "$work/trace.json" && [ "$(find "$work/dump" -name '*.npy' | wc -l)" -ge 3 ]
}

# Dumped tensors replace .npy files, and no other files of these names.
dump_keeps_other_files() {
  local dump=$work/dump-kept file
  mkdir -p "$dump" && cp "$work"/dump/*.npy "$dump" && "$backplane" profile "$work/digits.so" --dump-dir "$dump" --runs 1 --seconds 0 || return 1
  for file in "$dump"/*.npy; do
    echo weights >"$file" &&
      fails 1 "$file is no .npy file and would be replaced" "$backplane" profile "$work/digits.so" --dump-dir "$dump" --runs 1 --seconds 0 &&
      grep -q '^weights$' "$file" && rm "$file" || return 1
  done
}

# A file of a dump that cannot be written is an error: here a folder has its name.
dump_is_complete_or_an_error() {
  local file
  mkdir -p "$work/passes" "$work/blocked" &&
    "$backplane" compile "$digits/digits.onnx" --target c --shape $shape -o "$work/dumped.so" --dump "$work/passes" || return 1
  for file in "$work"/passes/*.tidy.ir; do
    mkdir "$work/blocked/$(basename "$file")" || return 1
    break
  done
  fails 1 "tidy.ir: Is a directory" "$backplane" compile "$digits/digits.onnx" --target c --shape $shape -o "$work/undumped.so" --dump "$work/blocked" &&
    [ ! -e "$work/undumped.so" ]
}

# Without standard streams, no file that the command opens has the descriptor 0, 1 or 2: a message would go into the
# file. The compiler of this test shows these descriptors of the command. The compiler's parent is a process without
# descriptors, a child of the command.
fills_standard_streams() {
  printf '#!/bin/sh\ncommand=$(sed -n "s/^PPid:[^0-9]*//p" /proc/$PPID/status)\nfor fd in 0 1 2; do readlink /proc/$command/fd/$fd; done >>"%s"\nexec cc "$@"\n' \
    "$work/streams" >"$work/watched-cc" &&
    chmod +x "$work/watched-cc" &&
    BACKPLANE_CC=$work/watched-cc BACKPLANE_CACHE_DIR=$work/streams-cache "$backplane" compile "$digits/digits.onnx" --target c \
      --shape $shape -o "$work/streams.so" <&- 2>&- && sort -u "$work/streams" && [ "$(sort -u "$work/streams")" = /dev/null ]
}

# A model with open extents is another kind of executable: the names of its functions get numbers after the tensor's
# name.
every_intermediate_of_open_extents() {
  mkdir -p "$work/open-dump" || return 1
  "$backplane" profile "$digits/digits.onnx" --target c --input "image=$digits/images/7-3710.png" --dump-dir "$work/open-dump" --runs 1 \
    --seconds 0 >"$work/out" && [ "$(find "$work/open-dump" -name '*.npy' | wc -l)" -ge 3 ]
}

# describes TEXT COMMAND...: like `says`, for output without spaces and line ends.
describes() {
  local text=$1
  shift
  "$@" | tr -d ' \n' | tee "$work/out" | grep -qF -- "$text"
}

# Code for the device that a run would choose; the report names the device.
compiles_for_the_device_at_hand() {
  local digits_of=("$backplane" compile "$digits/digits.onnx" --shape $shape -o "$work/here.so")
  says "  c: for cpu:0 of this machine" "${digits_of[@]}" && predicts "$work/here.so" "$digits/images/7-3710.png" &&
    describes '"device":"cpu:0","portable":false' "${digits_of[@]}" --json &&
    fails 1 'no installed plugin has devices of kind "quantum"' "${digits_of[@]}" --device quantum
}

# The target of a named device is the device's own target, not the target of another device of its kind.
compiles_for_the_device_named() {
  local target digits_of=("$backplane" compile "$digits/digits.onnx" --shape $shape -o "$work/here.so")
  target=$("$backplane" inspect device opencl --json | sed -n 's/^  "target": "\(.*\)",$/\1/p' | cut -d' ' -f1-3)
  says "opencl: for every opencl device (--device opencl: for the device of this machine, faster)" "${digits_of[@]}" --target opencl &&
    says "$target" "${digits_of[@]}" --device cpu --device opencl --json && grep -q '"device": "opencl:0"' "$work/out" &&
    predicts "$work/here.so" "$digits/images/7-3710.png" --device opencl
}

# PoCL's compiler waits for `ld`.
driver_waits_for_its_children() {
  says '"opencl:0"' env --ignore-signal=CHLD POCL_CACHE_DIR="$work/pocl" "$backplane" run "$digits/digits.onnx" --shape $shape --device opencl \
    --input "image=$digits/images/7-3710.png" --json
}

portable_code_is_for_the_least_cpu() {
  local digits_of=("$backplane" compile "$digits/digits.onnx" --shape $shape -o "$work/any.so" --portable)
  says "  c: for every cpu of this architecture" "${digits_of[@]}" && predicts "$work/any.so" "$digits/images/7-3710.png" &&
    says "\"c -mcpu=$(uname -m | tr _ -)" "${digits_of[@]}" --target c --json &&
    fails 2 "--portable takes the kind of a target alone" "${digits_of[@]}" --target "c -num_cores=1"
}

# The image determines the extents that the model leaves open, and so does an array.
shape_comes_from_the_value() {
  predicts "$digits/digits.onnx" "$digits/images/7-3710.png" &&
    "$backplane" compile "$digits/digits.onnx" --input "image=$digits/images/7-3710.png" -o "$work/given.so" &&
    says "image: float32 1x1x28x28" "$backplane" inspect model "$work/given.so" &&
    relu 01 "$(part 0a "$(part 12 6e)")$(part 0a 080a)" >"$work/open.onnx" &&
    says "y       float32  1x10" "$backplane" run "$work/open.onnx" --input "x=$work/out-dir/logits.npy" &&
    fails 1 "No such file" "$backplane" run "$work/open.onnx" --input "x=$work/nowhere.npy"
}

dump_has_the_sources() {
  mkdir -p "$work/sources" &&
    "$backplane" compile "$digits/digits.onnx" --target c --shape $shape --dump "$work/sources" -o "$work/x.so" &&
    grep -q fused_ "$work/sources/0-c-c.c" && grep -q '__tvm_ffi_' "$work/sources/0-c-c.c"
}

imports_are_objects() {
  describes '{"kind":"backplane.graph","functions":[],"imports":[{"kind":"library","functions":["fused_' \
    "$backplane" inspect module "$work/digits.so" --json
}

usage_errors_are_json_too() {
  ends_saying 2 '"kind": "UsageError"' "$backplane" run --json && ends_saying 2 '"kind": "UsageError"' "$backplane" list --wings --json
}

no_compiler_makes_no_library() {
  BACKPLANE_CC=/nowhere/cc BACKPLANE_CACHE_DIR=$work/cache fails 1 BACKPLANE_CC \
    "$backplane" compile "$digits/digits.onnx" --target c --shape $shape -o "$work/none.so" &&
    [ ! -e "$work/none.so" ]
}

# The model runs, and the output states its cost.
unwritable_cache() {
  BACKPLANE_CACHE_DIR=$1 "$backplane" run "$digits/digits.onnx" --shape $shape \
    --input "image=$digits/images/7-3710.png" 2>"$work/err" && cat "$work/err" &&
    grep -F "compiled code is not cached" "$work/err" | grep -qF "$1"
}

# A uniformly grey image of 28 by 28 pixels; the first three quarters are transparent.
transparency_is_left_out() {
  base64 -d <<<iVBORw0KGgoAAAANSUhEUgAAABwAAAAcCAYAAAByDd+UAAAAKUlEQVR42u3NMQ0AAAgDsElD/mThgoP06N20nUsRCoVCoVAoFAqFH8MFwrHx6tu5ncsAAAAASUVORK5CYII= >"$work/clear.png" &&
    base64 -d <<<iVBORw0KGgoAAAANSUhEUgAAABwAAAAcCAAAAABXZoBIAAAAFElEQVR42mM4gQcwjEqOSo5KwgAAnxFkn8CmS3YAAAAASUVORK5CYII= >"$work/opaque.png" &&
    run_digit "$work/digits.so" "$work/opaque.png" && mv "$work/out-dir/logits.npy" "$work/opaque.npy" &&
    run_digit "$work/digits.so" "$work/clear.png" && cmp "$work/opaque.npy" "$work/out-dir/logits.npy"
}

# write_png FILE EXTRA: a picture of 28 by 28 black pixels, and EXTRA bytes of compressed zeros behind them.
write_png() {
  python3 -c 'import struct, sys, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
pixels = zlib.compress(bytes(28 * 29 + int(sys.argv[2])), 9)
open(sys.argv[1], "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 28, 28, 8, 0, 0, 0, 0))
                              + chunk(b"IDAT", pixels[:1000]) + chunk(b"IDAT", pixels[1000:]) + chunk(b"IEND", b""))' "$1" "$2"
}

# Decompressing what lies behind the pixels takes seconds for each megabyte of the file.
data_behind_the_pixels() {
  write_png "$work/black.png" 0 && write_png "$work/little.png" 1000000 && write_png "$work/much.png" 100000000 &&
    run_digit "$work/digits.so" "$work/black.png" && mv "$work/out-dir/logits.npy" "$work/black.npy" &&
    run_digit "$work/digits.so" "$work/little.png" && cmp "$work/black.npy" "$work/out-dir/logits.npy" &&
    fails 1 "bytes of compressed pixels, and 28 by 28 pixels need at most" "$backplane" run "$work/digits.so" --input "image=$work/much.png"
}

# Two images of 28 by 28 pixels with a palette of 10 colours. The last pixel is colour 9 of one, and colour 10 of the other.
colour_outside_of_the_palette() {
  base64 -d <<<iVBORw0KGgoAAAANSUhEUgAAABwAAAAcCAMAAABF0y+mAAAAHlBMVEUAAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB1ySg6HAAAAEUlEQVR4nGNgGAWjYBQQATgBAzUACtDAwagAAAAASUVORK5CYII= >"$work/last.png" &&
    base64 -d <<<iVBORw0KGgoAAAANSUhEUgAAABwAAAAcCAMAAABF0y+mAAAAHlBMVEUAAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB1ySg6HAAAAEUlEQVR4nGNgGAWjYBQQAbgAAzYAC4ZRcg8AAAAASUVORK5CYII= >"$work/beyond.png" &&
    run_digit "$work/digits.so" "$work/last.png" &&
    fails 1 "beyond.png: pixel 27 of row 27 is colour 10, and the palette has colours 0 to 9" \
      "$backplane" run "$work/digits.so" --input "image=$work/beyond.png"
}

# For each changed byte of the image, the command reads the image or reports an error.
flipped_png() {
  local at size status
  size=$(stat -c %s "$digits/images/7-3710.png")
  for ((at = 0; at < size; at += 7)); do
    cp "$digits/images/7-3710.png" "$work/flipped.png"
    printf '\252' | dd of="$work/flipped.png" bs=1 seek=$at conv=notrunc status=none
    "$backplane" run "$work/digits.so" --input "image=$work/flipped.png" >/dev/null 2>"$work/err"
    status=$?
    [ $status = 0 ] || { [ $status = 1 ] && grep -q flipped.png "$work/err"; } || {
      echo "byte $at: status $status"
      cat "$work/err"
      return 1
    }
  done
}

# A value of 32-bit integers, made from the floats of a written output.
wrong_dtype() {
  LC_ALL=C sed 's/<f4/<i4/' "$work/source.npy" >"$work/ints.npy"
  fails 1 "$1" "$backplane" run "$work/digits.so" --input "image=$work/ints.npy" &&
    "$backplane" compile "$digits/digits.onnx" --target c -o "$work/any-shape.so" &&
    fails 1 "is int32 of 2; convert it to float32" "$backplane" run "$work/any-shape.so" --input "image=$work/ints.npy"
}

# A folder with one file that is not a plugin.
unusable_plugin() {
  mkdir -p "$work/plugins" && echo "no plugin" >"$work/plugins/broken.so" &&
    BACKPLANE_PLUGIN_PATH=$work/plugins "$backplane" list 2>&1 | tee "$work/out" &&
    grep -F "$work/plugins/broken.so" "$work/out" | grep -q rejected
}

# Values are printed as numbers, with the names from the model.
values_and_types_in_json() {
  "$backplane" run "$work/digits.so" --input "image=$digits/images/7-3710.png" --json |
    tr -d ' \n' | tee "$work/out" | grep -qE '"values":\[(-?[0-9.]+,){9}-?[0-9.]+\]' &&
    "$backplane" inspect model "$work/digits.so" --json | tr -d ' \n' | tee "$work/out" |
    grep -qF '"input":[{"name":"image","dtype":"float32","shape":[1,1,28,28],"kind":"tensor"}]' &&
    "$backplane" inspect device cpu --json | tee "$work/out" | grep -q '"exist": true'
}

# little BYTES NUMBER: prints the bytes of the number, the lowest first.
little() {
  local i number=$2
  for ((i = 0; i < $1; i++)); do
    printf '%b' "\\x$(printf %02x $((number & 255)))"
    number=$((number >> 8))
  done
}

# parameter CODE BITS LANES COUNT HEX: writes a parameter file in TVM's form, with COUNT elements for x.
parameter() {
  local i
  little 8 $((0xF7E58D4F05049CB7)) && little 8 0 && little 8 1 && little 8 1 && printf x && little 8 1
  little 8 $((0xDD5E40F096B4A13F)) && little 8 0 && little 4 1 && little 4 0 && little 4 1
  little 1 "$1" && little 1 "$2" && little 2 "$3" && little 8 "$4" && little 8 $((${#5} / 2))
  for ((i = 0; i < ${#5}; i += 2)); do printf '%b' "\\x${5:i:2}"; done
}

# shown_as TEXT JSON TYPE CODE BITS LANES COUNT HEX: the command prints these texts for an output of that type. The
# graph returns a parameter unchanged.
shown_as() {
  local run=("$backplane" run "$work/x.json" --library "$work/digits.so" --params "$work/x.params" --device cpu)
  parameter "${@:4}" >"$work/x.params"
  printf '{"nodes":[{"op":"null","name":"x","inputs":[]}],"arg_nodes":[0],"heads":[[0,0,0]],
    "node_row_ptr":[0,1],"attrs":{"dltype":["list_str",["%s"]],"shape":["list_shape",[[%d]]],
    "storage_id":["list_int",[0]]}}' "$3" "$7" >"$work/x.json"
  says "  $1" "${run[@]}" && ends_saying "${json_status:-0}" "$2" "${run[@]}" --json
}

# Integers are printed with all digits.
every_type() {
  local refused="have no form in JSON"
  shown_as "-128, 127" "-128," int8 0 8 1 2 807f &&
    shown_as "-1, -32768" "-32768" int16 0 16 1 2 ffff0080 &&
    shown_as "1000001, -2" "1000001," int32 0 32 1 2 41420f00feffffff &&
    shown_as 9223372036854775807 9223372036854775807 int64 0 64 1 1 ffffffffffffff7f &&
    shown_as "128, 255" 255 uint8 1 8 1 2 80ff &&
    shown_as 65535 65535 uint16 1 16 1 1 ffff &&
    shown_as 4294967295 4294967295 uint32 1 32 1 1 ffffffff &&
    shown_as "18446744073709551615, 1" 1.8446744073709552e+19 uint64 1 64 1 2 ffffffffffffffff0100000000000000 &&
    shown_as "1.5, 5.96046e-08, -inf" 5.9604644775390625e-08 float16 2 16 1 3 003e010000fc &&
    shown_as "1.5, nan" null float32 2 32 1 2 0000c03f0000c07f &&
    shown_as -0.1 -0.1 float64 2 64 1 1 9a9999999999b9bf &&
    shown_as "1.5, -2, inf" -2.0 bfloat16 4 16 1 3 c03f00c0807f &&
    shown_as "1, 0" 1 bool 6 8 1 2 0100 &&
    json_status=1 shown_as "elements of complex64 are not shown" "complex64 $refused" complex64 5 64 1 1 0000803f00000000 &&
    json_status=1 shown_as "elements of float32x2 are not shown" "float32x2 $refused" float32x2 2 32 2 1 0000803f00000040
}

# A plugin's file whose name is not UTF-8 and holds an escape sequence.
odd_names() {
  local name=$'\374\e[31m'
  mkdir -p "$work/odd$name" && echo "no plugin" >"$work/odd$name/$name.so" &&
    BACKPLANE_PLUGIN_PATH=$work/odd$name "$backplane" "$@" >"$work/out"
  cat "$work/out"
  iconv -f UTF-8 -t UTF-8 "$work/out" >"$work/text" && grep -q 'ELF' "$work/text" && ! grep -q $'\e' "$work/text"
}

# The name of a file cannot start a new line, and cannot reverse the direction of the text.
name_stays_in_its_line() {
  mkdir -p "$work/lines" && echo "no plugin" >"$work/lines/"$'a\nsearch path\342\200\256.so' &&
    BACKPLANE_PLUGIN_PATH=$work/lines "$backplane" "$@" >"$work/out"
  cat "$work/out"
  grep -q 'a?search path?.so' "$work/out" && ! grep -qE $'^search path|\342\200\256' "$work/out"
}

# completes WORDS... TEXT: the completions of the last word include TEXT.
completes() {
  PATH=$top_builddir:$PATH bash -c '. "$0" && COMP_WORDS=("${@:1:$#-1}") && COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) &&
    _backplane && printf "%s\n" "${COMPREPLY[@]}" | grep -qxF -- "${@: -1}"' \
    "$top_srcdir/tools/completion/backplane" backplane "$@"
}

# completions WORDS...: prints the completions of the last word.
completions() {
  PATH=$top_builddir:$PATH bash -c '. "$0" && COMP_WORDS=("$@") && COMP_CWORD=$(($# - 1)) && _backplane &&
    printf "%s\n" "${COMPREPLY[@]}"' "$top_srcdir/tools/completion/backplane" backplane "$@"
}

# Only kinds of devices are completed, and each option once.
completes_nothing_else() {
  completions run --device "" | tee "$work/out" | grep -qx cpu && ! grep -qxE 'llvm|c|targets|devices' "$work/out" &&
    [ "$(completions run -- | sort | uniq -d | wc -l)" = 0 ]
}

every_completion() {
  completes ins inspect && completes help pro profile && completes inspect "" device &&
    completes inspect plugin "" cpu && completes inspect device "" cpu && completes run --device "" cpu &&
    completes run --device a auto && completes compile --target "" c && completes new-plugin --build m meson &&
    completes profile -- --dump-dir && completes run "$work/dig" "$work/digits.so"
}

every_completion_of_the_kit() {
  local option
  for option in list only skip expect-fail seed device target format json output timeout fail-fast; do
    completes verify --conformance -- "--$option" || return 1
  done
  completes verify "" --conformance && completes verify --conformance --format j junit &&
    completes verify --conformance --only copy.o copy.order && completes verify --conformance --skip cop copy &&
    completes verify --conformance --skip str stress && completes verify --conformance c cpu
}

# Random half floats are uniform from 0 to 1, and not random bytes: of 64 most are above 1/32, 0x2800.
random_halves() {
  mkdir -p "$work/halves" && relu 0a "$(part 0a 0840)" >"$work/half.onnx" &&
    "$backplane" profile "$work/half.onnx" --device cpu --runs 1 --seconds 0 --dump-dir "$work/halves" || return 1
  od -An -v -t u2 -w2 -j 128 "$work"/halves/*.npy | tee "$work/out" |
    awk '$1 > 15360 { exit 1 } $1 > 10240 { above++ } END { exit above < 50 }'
}

# A file's open dimensions are shown as open; a run requires their values.
example_of_a_shape() {
  relu 01 "$(part 0a "$(part 12 6261746368)")$(part 0a 0840)" >"$work/open.onnx" # "batch"
  says 'x: float32 batch x 64' "$backplane" inspect model "$work/open.onnx" || return 1
  relu 01 "$(part 0a "$(part 12 6e)")$(part 0a 0840)" >"$work/open.onnx"
  says 'x: float32 nx64' "$backplane" inspect model "$work/open.onnx" && grep -q 'y: float32 nx64' "$work/out" &&
    says 'x: float32 2x64' "$backplane" inspect model "$work/open.onnx" --shape x=2x64 --device cpu || return 1
  fails 1 "('n') is not fixed by the model; give the input's shape, for example --shape x=1x64" \
    "$backplane" compile "$work/open.onnx" --target c --target opencl -o "$work/open.so"
}

# Without plugins, without a compiler, and without the digits.
no_device_for_the_demo() {
  BACKPLANE_PLUGIN_PATH=/proc/nonexistent fails 1 "install one, as the package backplane-plugin-cpu" "$backplane" demo "$digits" &&
    BACKPLANE_CC=/nowhere/cc BACKPLANE_CACHE_DIR=$work/cache ends_saying 1 '/nowhere/cc' "$backplane" demo "$digits" --device cpu &&
    fails 1 "has no images/DIGIT*.png" "$backplane" demo "$work" && fails 2 "got 'y' too" "$backplane" demo x y
}

# The kind of an error is printed only for programs.
errors_without_kinds() {
  fails 1 "backplane: cannot open the model '$work/nowhere.onnx'" "$backplane" run "$work/nowhere.onnx" &&
    ends_saying 1 '"kind": "OSError"' "$backplane" run "$work/nowhere.onnx" --json
}

# Of two plugins with one name the second is not used; a list logs this as information.
shows_the_log() {
  mkdir -p "$work/again" && cp "$BACKPLANE_PLUGIN_PATH/backplane-cpu.so" "$work/again/"
  local -x BACKPLANE_PLUGIN_PATH=$work/cpu:$work/again
  fails 0 "$work/again" "$backplane" list --verbose && silent "$backplane" list
}

says_what_is_usable() {
  local -x BACKPLANE_PLUGIN_PATH=$work/cpu:$work/broken
  says 'rejected  no' "$backplane" list && grep -qE '^cpu .* found +unknown +cpu ' "$work/out" &&
    says '"usable": "yes"' "$backplane" list --probe --json && grep -qF '"usable": "no"' "$work/out" &&
    BACKPLANE_PLUGIN_PATH=$work/none says 'active  no' "$backplane" list --probe
}

leaves_out_nothing_known() {
  says multi_processor_count "$backplane" inspect device cpu && ! grep -qE ' -$' "$work/out" && ! grep -q '^warp_size' "$work/out" &&
    "$backplane" inspect device cpu --json | grep -q '"warp_size": null'
}

# Only files of the cache are removed, except those of the last minute.
clears_the_cache() {
  local -x BACKPLANE_CACHE_DIR=$work/cleared
  mkdir -m 700 "$BACKPLANE_CACHE_DIR" && "$backplane" compile "$digits/digits.onnx" --target c --shape $shape -o "$work/x.so" || return 1
  says "$work/cleared" "$backplane" cache path && says ' file' "$backplane" cache size && says '"removed_files": 0' "$backplane" cache clear --json &&
    echo mine >"$work/cleared/c/mine" && find "$work/cleared" -type f -exec touch -d '2 minutes ago' {} + &&
    says '0 that were used in the last minute stay' "$backplane" cache clear && ! grep -q 'removed 0' "$work/out" &&
    says '"bytes": 0' "$backplane" cache size --json && [ -e "$work/cleared/c/mine" ] || return 1
  fails 1 'the cache directory "here" is relative' env BACKPLANE_CACHE_DIR=here "$backplane" cache size &&
    fails 2 "size, path or clear" "$backplane" cache && fails 2 "size, path or clear" "$backplane" cache empty
}

profile_describes() {
  says 'conv1 relu1 pool1' "$backplane" profile "$work/digits.so" --order run --runs 1 --seconds 0 && grep -qE '1x10 +dense$' "$work/out" &&
    [ "$(sed -n 2p "$work/out" | cut -d: -f1)" = 0 ] &&
    describes '"shape":[1,10],"computes":["dense"]' "$backplane" profile "$work/digits.so" --runs 1 --seconds 0 --json &&
    fails 2 "--order size: it is time or run" "$backplane" profile "$work/digits.so" --order size
}

# A missing operator is reported before any code is compiled.
inspect_names_missing_operators() {
  relu 01 "$(part 0a 0840)" | sed 's/Relu/Oelu/' >"$work/missing.onnx"
  says "lacks: Oelu (node 'Oelu_0')" "$backplane" inspect model "$work/missing.onnx" &&
    grep -q 'x: float32 64' "$work/out" && ! "$backplane" inspect model "$digits/digits.onnx" | grep -q unsupported
}

# The target is declared without doubles: the refusal names the remedy, and the remedy's message names its cost.
second_device_is_told() {
  local target="opencl -fp64=false"
  relu 0b "$(part 0a 0840)" >"$work/double.onnx"
  fails 1 "--fallback c runs on the CPU what a target refuses" "$backplane" compile "$work/double.onnx" --target "$target" -o "$work/double.so" &&
    fails 1 "--device opencl,cpu runs on the CPU what target opencl refuses" "$backplane" run "$work/double.onnx" --target "$target" --device opencl &&
    says "as in --device opencl,cpu" "$backplane" compile "$work/double.onnx" --target "$target" --fallback c -o "$work/double.so" &&
    grep -q 'KiB for opencl -fp64=false with c,' "$work/out" &&
    says '"devices": "opencl,cpu"' "$backplane" compile "$work/double.onnx" --target "$target" --fallback c -o "$work/double.so" --json &&
    grep -q '"runs_as": "c[" ]' "$work/out" &&
    says "KiB for opencl, in" "$backplane" compile "$work/double.onnx" --target opencl --fallback c -o "$work/double.so" &&
    ! grep -q 'opencl,cpu' "$work/out"
}

# Numbers are printed with units for people, and without units for programs.
attributes_have_units() {
  says bytes "$backplane" inspect device cpu && grep -qE '^total_global_memory +[0-9]+ bytes \([0-9.]+ [KMGT]iB\)$' "$work/out" &&
    "$backplane" inspect device cpu --json | grep -qE '"total_global_memory": [0-9]+,'
}

# A library with code for a device whose plugin is not installed.
runs_where_a_plugin_is_missing() {
  "$backplane" compile "$digits/digits.onnx" --target c,opencl --shape $shape -o "$work/both.so" &&
    BACKPLANE_PLUGIN_PATH=$work/cpu predicts "$work/both.so" "$digits/images/7-3710.png"
}

# An image, text, and a file that is neither.
wrong_kind_of_file() {
  local advice="a model is an .onnx file, a library (.so)"
  head -c 300 /dev/zero >"$work/zeros.bin"
  fails 1 "is a picture (PNG), and no model: $advice" "$backplane" run "$digits/images/7-3710.png" &&
    fails 1 "is text, and no model: $advice" "$backplane" run "$top_srcdir/README.md" &&
    fails 1 "zeros.bin\" is no model: $advice" "$backplane" run "$work/zeros.bin" &&
    ! grep -q "install the" "$work/err"
}

# A library with a callable function and without a graph.
kernels_alone() {
  echo 'int __tvm_ffi_nothing(void) { return 0; }' >"$work/kernels.c"
  ${BACKPLANE_CC:-cc} -shared -fPIC -o "$work/kernels.so" "$work/kernels.c" &&
    says nothing "$backplane" inspect module "$work/kernels.so" &&
    fails 1 "which holds functions and no model" "$backplane" run "$work/kernels.so"
}

# A wrong file to compile is not reported as a problem of plugins.
onnx_is_no_module() {
  fails 1 "is to be compiled first" "$backplane" inspect module "$digits/digits.onnx" && ! grep -q "install the" "$work/err"
}

truncated() {
  head -c "$1" "$2" >"$work/truncated.${2##*.}"
  shift 2
  fails 1 "$@"
}

mkdir "$work/cpu" "$work/broken"
ln -s "$(realpath "$BACKPLANE_PLUGIN_PATH/backplane-cpu.so")" "$work/cpu/"
echo nonsense >"$work/broken/broken.so"
mkdir "$work/cut"
head -c 20000 "$BACKPLANE_PLUGIN_PATH/backplane-cpu.so" >"$work/cut/backplane-opencl.so"
export XDG_DATA_HOME=/proc/nonexistent XDG_CONFIG_HOME=/proc/nonexistent

ok help-lists-the-commands says profile "$backplane" --help
ok version says "backplane " "$backplane" --version
ok list-json-names-the-plugin says '"cpu"' "$backplane" list --json
ok list-probe-names-the-device says cpu:0 "$backplane" list --probe
if "$backplane" list | grep -q '^opencl '; then
  ok second-device-that-a-library-takes-is-told second_device_is_told
  ok target-without-thread-axes-is-told fails 1 "not a kernel, as the target attribute thread_axes has it" "$backplane" compile "$digits/digits.onnx" --target "opencl -thread_axes=false" --shape $shape -o "$work/x.so"
  ok compile-is-for-the-device-that-is-named compiles_for_the_device_named
  ok driver-waits-for-its-children-where-SIGCHLD-is-ignored driver_waits_for_its_children
  ok library-runs-where-the-plugin-of-a-part-is-missing runs_where_a_plugin_is_missing
  ok list-probe-names-the-kind-without-a-device env OCL_ICD_VENDORS=/nowhere OCL_ICD_FILENAMES= bash -c '"$@" --probe | grep -E "^opencl +none +[^ ]" && "$@" --probe --json | tr -d " \n" | grep -F "{\"kind\":\"opencl\",\"reason\":"' - "$backplane" list
fi
ok doctor-finds-nothing-wrong says "A program that asks for no device gets" env BACKPLANE_PLUGIN_PATH="$work/cpu" "$backplane" doctor
ok doctor-names-every-stage-in-json every_stage
ok doctor-finds-that-no-model-can-be-compiled no_code_without_a_compiler
ok doctor-lists-its-codes says library-missing "$backplane" doctor --codes
ok doctor-lists-its-codes-as-json describes '{"codes":[{"stage":' "$backplane" doctor --codes --json
ok doctor-without-plugins-says-where-they-are-from ends_saying 5 "install a backend" env BACKPLANE_PLUGIN_PATH=/proc/nonexistent "$backplane" doctor
ok doctor-blames-the-request-for-a-device ends_saying 5 "change the request" env BACKPLANE_DEVICE=cpu:7 BACKPLANE_PLUGIN_PATH="$work/cpu" "$backplane" doctor
ok doctor-finds-a-missing-folder-once finds_missing_folder_once
ok doctor-shows-a-broken-plugin-once with_broken silent "$backplane" doctor
ok list-shows-a-broken-plugin-once with_broken silent "$backplane" list
ok broken-plugin-is-nothing-to-who-asks-for-another with_broken silent "$backplane" inspect device cpu
ok broken-plugin-is-why-a-kind-is-not-there with_broken fails 1 "backplane-opencl.so: is truncated" "$backplane" inspect device opencl
ok broken-plugin-is-why-a-target-is-not-there with_broken fails 1 "backplane-opencl.so: is truncated" "$backplane" compile "$digits/digits.onnx" --target opencl --shape $shape -o "$work/x.so"
ok broken-plugin-is-why-its-name-is-not-known with_broken fails 1 "backplane-opencl.so: is truncated" "$backplane" inspect plugin opencl
ok list-probe-shows-what-became-of-a-plugin probe_shows_states
ok says-that-a-plugin-ended-the-program says_that_it_was_ended
ok doctor-says-nothing-of-earlier-at-a-first-try says_nothing_of_earlier
ok variable-that-is-set-is-named-where-there-is-no-device names_the_variable
ok json-has-nothing-of-what-a-plugin-prints keeps_its_stdout
ok doctor-without-plugins-is-status-5 ends 5 env BACKPLANE_PLUGIN_PATH=/proc/nonexistent "$backplane" doctor
ok doctor-with-a-broken-plugin-is-status-4 ends 4 env BACKPLANE_PLUGIN_PATH="$work/cpu:$work/broken" "$backplane" doctor
ok doctor-with-a-warning-is-status-3 ends 3 env BACKPLANE_PLUGIN_PATH="$work/cpu:/proc/nonexistent" "$backplane" doctor
ok device-help-explains-the-grammar says plugin:NAME "$backplane" run --device help
ok variable-help-explains-the-grammar says plugin:NAME env BACKPLANE_DEVICE=help "$backplane" run "$work/nowhere.so"
ok device-beyond-the-last-says-what-there-is fails 1 "there is no device cpu:7: there is only cpu:0" "$backplane" inspect device cpu:7
ok device-of-a-class-and-not-a-kind-lists-the-kinds lists_kinds
ok kinds-of-devices-and-of-targets-are-told-apart tells_kinds_apart
ok device-in-capitals-is-an-error-with-the-nearest fails 1 'did you mean "cpu"' env BACKPLANE_DEVICE=CPU "$backplane" inspect model "$digits/digits.onnx" --target c
ok negative-index-of-a-device-is-told fails 1 "cpu:-1: there is no device of that index; indices count from 0" "$backplane" inspect device cpu:-1
ok device-that-nobody-knows-is-an-error-with-the-nearest fails 1 'did you mean "cpu"' "$backplane" inspect device cpv,cpu
ok configuration-file-selects-the-device configured
ok list-probe-groups-one-piece-of-hardware-PLG-30 grouped
ok targets-show-attributes says vector_bits "$backplane" targets
ok targets-of-one-kind-show-it-alone one_target
ok inspect-device-help-explains-the-grammar says plugin:NAME "$backplane" inspect device help
ok library-of-a-library-is-a-usage-error fails 2 "it is for a graph of TVM" "$backplane" inspect model "$work/x.so" --library "$work/y.so"
ok inspect-plugin says device_api.cpu "$backplane" inspect plugin cpu
ok inspect-plugin-by-relative-path inspects_by_relative_path
ok inspect-plugin-that-is-no-file-is-an-error fails 1 "there is no plugin './nowhere.so'" "$backplane" inspect plugin ./nowhere.so
ok inspect-device says multi_processor_count "$backplane" inspect device cpu
ok inspect-device-shows-units attributes_have_units
ok inspect-function says Function "$backplane" inspect function device_api.cpu
ok compile-writes-a-library compile
ok compile-is-for-the-device-at-hand compiles_for_the_device_at_hand
ok portable-code-is-for-the-least-cpu portable_code_is_for_the_least_cpu
ok shape-comes-from-the-value shape_comes_from_the_value
ok dump-has-the-sources dump_has_the_sources
ok json-of-a-module-has-its-imports-as-objects imports_are_objects
ok json-of-a-usage-error-says-what-is-wrong usage_errors_are_json_too
ok shell-completes-kinds-of-devices-alone completes_nothing_else
ok run-classifies-from-the-artifact predicts_all "$work/digits.so"
ok run-says-apart-what-it-passed-over fails 0 "opencl: there is no code for it" "$backplane" run "$work/digits.so" --input "image=$digits/images/7-3710.png" --device opencl,cpu
ok compile-takes-targets-one-by-one fails 1 "targets c and llvm" "$backplane" compile "$digits/digits.onnx" --target c --target llvm --shape $shape -o "$work/x.so"
ok auto-passes-a-broken-plugin-over with_broken fails 0 "passed over: $work/cut/backplane-opencl.so: is truncated" "$backplane" run "$work/digits.so" --input "image=$digits/images/7-3710.png" --device auto
ok who-names-no-device-hears-nothing-of-others with_broken silent "$backplane" run "$work/digits.so" --input "image=$digits/images/7-3710.png"
ok empty-list-of-devices-is-a-usage-error fails 2 '--device is empty; "auto"' "$backplane" run "$work/digits.so" --input "image=$digits/images/7-3710.png" --device ""
ok run-without-plugins-says-where-they-are-from fails 1 "each backend is a package of its own" env BACKPLANE_PLUGIN_PATH=/proc/nonexistent "$backplane" run "$work/digits.so" --input "image=$digits/images/7-3710.png"
ok device-without-code-says-what-else-is-in-the-way fails 1 "; cuda:999: " "$backplane" run "$work/digits.so" --input "image=$digits/images/7-3710.png" --device cuda:999
ok no-code-for-the-device-says-what-there-is fails 1 'no device fits "opencl" among the kinds that the code is for (cpu). There is: cpu:0' "$backplane" run "$work/digits.so" --input "image=$digits/images/7-3710.png" --device opencl
ok run-gives-the-same-from-source-and-artifact same_from_source_and_artifact
ok inspect-module says fused_ "$backplane" inspect module "$work/digits.so"
ok inspect-model says "logits: float32 1x10" "$backplane" inspect model "$work/digits.so"
ok inspect-model-takes-no-memory-of-a-run inspects_huge_model
ok inspect-model-without-its-device-shows-what-it-takes says "logits: float32 1x10" env BACKPLANE_PLUGIN_PATH=/proc/nonexistent "$backplane" inspect model "$work/digits.so"
ok inspect-model-without-the-device-that-was-named-is-an-error fails 1 'no device fits "opencl:77"' "$backplane" inspect model "$work/digits.so" --device opencl:77
ok inspect-model-shows-its-targets says "c -mcpu=" "$backplane" inspect model "$work/digits.so"
ok every-type-of-elements-is-shown-or-refused-by-name every_type
ok shell-completes-what-is-installed every_completion
ok shell-completes-the-options-of-the-kit every_completion_of_the_kit
ok json-has-numbers-as-numbers values_and_types_in_json
ok help-of-a-command-is-its-help says "Runs a model once" "$backplane" help run
cp "$digits/digits.onnx" "$work/DIGITS.ONNX"
mkdir "$work/a=b" && cp "$digits/images/7-3710.png" "$work/a=b/"
ok input-is-read-from-a-path-with-an-equals-sign run_digit "$work/digits.so" "$work/a=b/7-3710.png"
ok input-without-a-file-is-a-usage-error fails 2 "expected NAME=FILE" "$backplane" run "$work/digits.so" --input image=
ok extension-in-capitals-is-read run_digit "$work/DIGITS.ONNX" "$digits/images/7-3710.png" --shape $shape
ok bench-json-has-the-percentiles-and-their-unit says '"p90_ms"' "$backplane" bench "$work/digits.so" --seconds 0 --runs 3 --json
ok profile-writes-a-trace-and-every-intermediate every_intermediate
ok dump-of-tensors-keeps-files-of-another-kind dump_keeps_other_files
ok dump-of-a-compilation-is-complete-or-an-error dump_is_complete_or_an_error
ok closed-standard-streams-become-no-files fills_standard_streams
ok missing-folder-for-temporary-files-names-the-variable fails 1 "/nowhere\": No such file or directory; set TMPDIR" env TMPDIR="$work/nowhere" BACKPLANE_CACHE_DIR="$work/no-temporary" "$backplane" compile "$digits/digits.onnx" --target c --shape $shape -o "$work/x.so"
ok profile-dumps-every-intermediate-of-open-extents every_intermediate_of_open_extents
ok profile-of-a-reference-has-more-operators each_operator_by_itself
ok random-half-floats-are-from-0-to-1 random_halves
ok open-dimensions-are-shown-and-have-an-example example_of_a_shape
ok inspect-model-names-missing-operators inspect_names_missing_operators

ok demo-classifies-digits says '10 of 10' env BACKPLANE_PLUGIN_PATH="$work/cpu" "$backplane" demo "$digits"
ok demo-in-json describes '"right":10' "$backplane" demo "$digits" --device cpu --json
ok demo-where-no-device-works-says-why no_device_for_the_demo
ok mistyped-command-gets-the-nearest fails 2 "no command 'lst', did you mean 'list'?" "$backplane" lst
ok mistyped-version-gets-the-nearest fails 2 "did you mean 'version'?" "$backplane" verison
ok mistyped-option-gets-the-nearest fails 2 "--devise, did you mean --device?" "$backplane" run --devise cpu
ok unlike-option-gets-none bash -c '! "$0" run --wings 2>&1 | grep -q "did you mean"' "$backplane"
ok errors-begin-with-what-failed errors_without_kinds
ok output-is-complete-after-signals writes_on_after_a_signal
ok verbose-shows-what-is-logged shows_the_log
ok list-says-whether-a-plugin-is-usable says_what_is_usable
ok inspect-leaves-out-what-is-not-known leaves_out_nothing_known
ok cache-is-measured-and-cleared clears_the_cache
ok profile-has-shapes-nodes-and-an-order profile_describes
ok unknown-command-is-an-error-in-json ends_saying 2 '"kind": "UsageError"' "$backplane" lst --json
ok unknown-command-is-a-usage-error fails 2 "no command 'walk'" "$backplane" walk
ok unknown-option-is-a-usage-error fails 2 --wings "$backplane" run --wings x.onnx
ok compile-without-output-is-a-usage-error fails 2 --output "$backplane" compile "$digits/digits.onnx"
ok compile-to-another-name-than-a-library-is-a-usage-error fails 2 "$work/x: the name of a library ends in .so" "$backplane" compile "$digits/digits.onnx" --target c --shape $shape -o "$work/x"
cp "$digits/digits.onnx" "$work/model.so"
ok compile-does-not-write-over-the-model fails 2 "would replace a file that the command reads" "$backplane" compile "$work/model.so" --target c --shape $shape -o "$work/model.so"
echo weights > "$work/weights.so"
ok compile-replaces-no-file-that-is-no-library fails 2 "would replace a file that is no library" "$backplane" compile "$digits/digits.onnx" --target c --shape $shape -o "$work/weights.so"
ok the-file-that-is-no-library-is-as-it-was grep -q "^weights$" "$work/weights.so"
ok two-targets-for-one-kind-of-device-are-an-error fails 1 "one kind of device" "$backplane" compile "$digits/digits.onnx" --target "c,c -mcpu=x86-64-v2" --shape $shape -o "$work/x.so"
ok output-that-cannot-be-written-is-an-error fails 1 "cannot write the output" bash -c '"$@" >/dev/full' - "$backplane" list
ok help-that-cannot-be-written-is-an-error fails 1 "cannot write the output" bash -c '"$@" >/dev/full' - "$backplane" run --help
ok names-of-files-are-listed-as-text odd_names list
ok names-of-files-are-listed-as-json odd_names list --json
ok names-of-files-are-diagnosed-as-text odd_names doctor
ok name-of-a-file-is-listed-in-one-line name_stays_in_its_line list
ok name-of-a-file-is-diagnosed-in-one-line name_stays_in_its_line doctor
ok control-characters-of-two-bytes-are-not-printed fails 2 "no command 'walk?'" "$backplane" $'walk\302\233'
ok control-characters-of-two-bytes-are-escaped-in-json ends_saying 2 'walk\u009b\u202e' "$backplane" $'walk\302\233\342\200\256' --json
ok options-are-read-in-any-locale fails 1 "'größe'" env LC_ALL=C "$backplane" run "$digits/digits.onnx" --shape größe=1
ok negative-number-of-threads-is-a-usage-error fails 2 "-1 threads" "$backplane" run "$work/digits.so" --threads -1
ok shape-without-extents-is-a-usage-error-in-json ends_saying 2 '"kind": "UsageError"' "$backplane" inspect model "$digits/digits.onnx" --shape image --json
ok limit-without-a-number-is-a-usage-error fails 2 "it is NAME=N" "$backplane" compile "$digits/digits.onnx" --target c --shape $shape --limit nodes -o "$work/x.so"
ok empty-device-to-compile-for-is-a-usage-error fails 2 "--device is empty" "$backplane" compile "$digits/digits.onnx" --device "" -o "$work/x.so"
ok time-without-end-is-a-usage-error fails 2 --seconds "$backplane" bench "$work/digits.so" --seconds inf
ok file-without-extension-says-what-a-model-is fails 1 "a model is an .onnx file" "$backplane" run /dev/null
ok missing-model-names-the-file fails 1 nowhere.onnx "$backplane" run "$work/nowhere.onnx"
ok file-that-is-no-model-says-what-it-is-and-what-one-is wrong_kind_of_file
ok library-without-a-model-says-so kernels_alone
ok onnx-file-as-a-module-is-to-be-compiled onnx_is_no_module
ok two-targets-of-a-run-are-a-usage-error fails 2 "--target c,c: it is one target, and these are 2" "$backplane" run "$digits/digits.onnx" --shape $shape --target c,c
ok target-and-device-that-disagree-are-both-named names_both_that_disagree
ok eight-fallbacks-are-an-error fails 1 "8 fallbacks are given; at most 7" "$backplane" compile "$digits/digits.onnx" --target c --fallback c,c,c,c,c,c,c,c --shape $shape -o "$work/x.so"
ok no-threads-is-a-usage-error fails 2 "0 threads" "$backplane" run "$work/digits.so" --threads 0
ok misspelt-input-is-told-before-open-extents fails 1 "the model has no input 'img'; it has: image" "$backplane" run "$digits/digits.onnx" --input "img=$digits/images/7-3710.png"
ok input-without-a-name-is-told-before-open-extents fails 2 "expected NAME=FILE, where NAME is an input of the model: image" "$backplane" run "$digits/digits.onnx" --input "$digits/images/7-3710.png"
ok misspelt-shape-name-is-an-error fails 1 "'picture'" "$backplane" run "$digits/digits.onnx" --shape picture=1x1x28x28
ok shape-given-twice-is-an-error fails 1 "two shapes" "$backplane" run "$digits/digits.onnx" --shape $shape --shape $shape
ok input-given-twice-is-a-usage-error fails 2 "has a value already" "$backplane" run "$work/digits.so" --input "image=$digits/images/7-3710.png" --input "image=$digits/images/7-3710.png"
ok missing-file-is-told-from-an-unknown-kind fails 1 "No such file" "$backplane" run "$work/nowhere.tar"
cp "$digits/images/7-3710.png" "$work/picture.gif"
ok picture-of-another-form-is-told fails 1 "a file of arrays (.npy, .npz), of raw elements (.bin), or a picture (.png, .jpg)" "$backplane" run "$work/digits.so" --input "image=$work/picture.gif"
ok missing-picture-is-an-error fails 1 "No such file" "$backplane" run "$work/digits.so" --input image=/nowhere.png
ok folder-as-an-input-is-an-error fails 1 "Is a directory" "$backplane" run "$work/digits.so" --input "image=$work"
ok output-folder-that-is-not-there-is-an-error fails 1 "'$work/nowhere'" "$backplane" run "$work/digits.so" --input "image=$digits/images/7-3710.png" -o "$work/nowhere"
ok output-folder-that-is-a-file-is-an-error fails 1 "Not a directory" "$backplane" profile "$work/digits.so" --dump-dir "$work/digits.so"
ok dump-folder-that-is-not-there-is-an-error fails 1 "make it first" "$backplane" compile "$digits/digits.onnx" --target c --shape $shape -o "$work/x.so" --dump "$work/nowhere"
ok no-folder-was-made test ! -e "$work/nowhere"
ok trace-that-cannot-be-written-names-it fails 1 "/nowhere/trace.json: cannot write" "$backplane" profile "$work/digits.so" --trace /nowhere/trace.json
ok missing-shape-names-the-option fails 1 --shape "$backplane" compile "$digits/digits.onnx" --target c --target opencl -o "$work/x.so"
ok missing-input-names-it-and-what-to-give fails 1 "image (1x1x28x28); give each with --input NAME=FILE, a .npy or .png" "$backplane" run "$work/digits.so"
ok wrong-input-name-lists-the-right-ones fails 1 "it has: image" "$backplane" run "$work/digits.so" --input "picture=$digits/images/7-3710.png"
ok wrong-input-shape-says-both fails 1 "1x1x28x28" "$backplane" run "$work/digits.so" --input "image=$work/source.npy"
ok wrong-input-dtype-says-both wrong_dtype "is float32 1x1x28x28, and the value given is int32 1x10; convert it to float32"
ok malformed-shape-is-a-usage-error fails 2 1x3x48x192 "$backplane" run "$digits/digits.onnx" --shape image=1x-2
ok shape-of-what-is-filled-is-checked fails 1 "1x1x28x28" "$backplane" bench "$work/digits.so" --shape image=1x1x28x29
ok shape-of-no-input-lists-those-that-are fails 1 "no input 'picture'; it has: image" "$backplane" bench "$work/digits.so" --shape picture=1
ok target-for-an-artifact-is-a-usage-error fails 2 "--target is for ONNX files" "$backplane" bench "$work/digits.so" --target c
ok quickstart-has-help says "./quickstart check" "$top_srcdir/quickstart" --help
ok reference-for-an-artifact-is-a-usage-error fails 2 "--reference is for ONNX files" "$backplane" run "$work/digits.so" --reference
ok shape-for-an-artifact-is-a-usage-error fails 2 "--shape is for ONNX files" "$backplane" run "$work/digits.so" --shape $shape
ok unknown-device-lists-what-is-there fails 1 cpu "$backplane" run "$work/digits.so" --device quantum
ok the-package-of-the-compiler-is-for-the-compiler-alone package_of_the_compiler
ok unknown-target-names-the-kind fails 1 "'cc'" "$backplane" run "$digits/digits.onnx" --shape $shape --target cc
ok unknown-target-attribute-names-the-nearest fails 1 mcpu "$backplane" run "$digits/digits.onnx" --shape $shape --target "c -mcup=native"
ok wrong-type-of-a-target-attribute-names-it fails 1 vector_bits "$backplane" run "$digits/digits.onnx" --shape $shape --target "c -vector_bits=many"
ok unusable-plugin-is-listed-with-its-reason unusable_plugin
ok no-compiler-says-how-to-get-one env BACKPLANE_CC=/nowhere/cc BACKPLANE_CACHE_DIR="$work/cache" bash -c 'out=$("$@" 2>&1); [ $? = 1 ] && grep -q "/nowhere/cc" <<<"$out"' - "$backplane" run "$digits/digits.onnx" --shape $shape --input "image=$digits/images/7-3710.png"
ok no-compiler-makes-no-library no_compiler_makes_no_library
ok artifact-needs-no-compiler env BACKPLANE_CC=/nowhere/cc BACKPLANE_CACHE_DIR="$work/cache" "$backplane" run "$work/digits.so" --input "image=$digits/images/7-3710.png"
ok unwritable-cache-is-a-warning unwritable_cache /proc/nowhere
ok cache-that-is-a-file-is-a-warning unwritable_cache "$work/digits.so"
ok truncated-onnx-is-an-error truncated 40000 "$digits/digits.onnx" onnx "$backplane" run "$work/truncated.onnx" --shape $shape
ok truncated-library-is-an-error truncated 20000 "$work/digits.so" truncated.so "$backplane" run "$work/truncated.so"
ok truncated-npy-is-an-error truncated 140 "$work/source.npy" truncated.npy "$backplane" run "$work/digits.so" --input "image=$work/truncated.npy"
ok flipped-png-is-read-or-an-error flipped_png
ok transparency-is-left-out transparency_is_left_out
ok colour-outside-of-the-palette-is-an-error colour_outside_of_the_palette
ok data-behind-the-pixels-of-a-png-is-an-error data_behind_the_pixels
ok truncated-png-is-an-error truncated 100 "$digits/images/7-3710.png" truncated.png "$backplane" run "$work/digits.so" --input "image=$work/truncated.png"
ok errors-are-json-too says '"kind"' bash -c '"$@" --json 2>/dev/null; :' - "$backplane" run "$work/nowhere.onnx"

# on_terminal COLUMNS COMMAND...: prints the output of the command on a terminal of that width.
on_terminal() {
  local columns=$1
  shift
  NO_COLOR='' TERM=xterm COLUMNS=$columns script -qec "$(printf '%q ' "$@")" /dev/null </dev/null | tr -d '\r'
}
escape=$'\e'
tables_fit_the_terminal() {
  local widest
  on_terminal 80 "$backplane" list >"$work/terminal"
  widest=$(sed "s/$escape\[[0-9;]*m//g" "$work/terminal" | wc -L)
  cat "$work/terminal"
  [ "$widest" -le 80 ] && [ "$widest" -gt 60 ] && [ "$("$backplane" list | wc -L)" -gt 80 ] &&
    [ "$(sed "s/$escape\[[0-9;]*m//g" "$work/terminal" | tr -s ' \n' '\n\n' | sort)" = "$("$backplane" list | tr -s ' \n' '\n\n' | sort)" ]
}
terminals_get_colours() {
  on_terminal 100 "$backplane" list | grep -qF "$escape[1mPLUGIN" &&
    on_terminal 100 "$backplane" no-such-command | grep -qF "$escape[31mbackplane:$escape[0m"
}
no_color_is_obeyed() {
  ! NO_COLOR=1 TERM=xterm script -qec "$backplane list" /dev/null </dev/null | grep -qF "$escape"
}
pipes_get_no_colours() {
  ! "$backplane" list | grep -qF "$escape" && ! "$backplane" no-such-command 2>&1 | grep -qF "$escape"
}
if command -v script >/dev/null; then
  ok tables-fit-the-terminal tables_fit_the_terminal
  ok terminals-get-colours terminals_get_colours
  ok no-color-is-obeyed no_color_is_obeyed
fi
ok pipes-get-no-colours pipes_get_no_colours
echo "1..$count"
