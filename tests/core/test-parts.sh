#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A damaged part of libbackplane, or another part under its name, causes an error with a message.
set -u
. "$top_srcdir/tests/tap.sh"

# with PART CONTENT COMMAND...: runs the installed form of the command with copies of libbackplane and its parts; a file
# or a FIFO replaces one of the parts.
with() {
  local part=$1 content=$2
  shift 2
  rm -rf "$work/lib" && mkdir "$work/lib" &&
    cp -L "$top_builddir"/.libs/{libbackplane.so.?,backplane-{cache,exchange,hints,isolation,layering,plugins,select,target,text,toolchain,trial}.so} "$work/lib" &&
    if [ -p "$content" ]; then
      rm "$work/lib/backplane-$part.so" && mkfifo "$work/lib/backplane-$part.so"
    else
      cp "$content" "$work/lib/backplane-$part.so"
    fi || return
  LD_LIBRARY_PATH=$work/lib:$(realpath "$top_builddir")/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout 60 "$top_builddir/.libs/backplane" "$@"
}

echo 'no library' >"$work/text"
mkfifo "$work/fifo"
model=$top_srcdir/examples/digits/digits.onnx
compile=(compile "$model" --shape image=1x1x28x28 --target '{"kind": "c"}' -o "$work/digits.so")

help_is_no_silence() {
  says 'A list of preferences' with target "$work/text" run --device help &&
    for command in run profile bench; do
      fails 1 'backplane-select.so: ' with select "$work/text" "$command" --device help || return
    done
  fails 1 'backplane-select.so: ' with select "$work/text" inspect device help
}

# First the section headers lie behind the end of the file; then none exist, and only the segments reveal the cut.
truncated_part_is_named() {
  local part=$top_builddir/.libs/backplane-target.so size
  size=$(stat -L -c %s "$part") &&
    head -c $((size / 2)) "$part" >"$work/half" &&
    fails 1 'backplane-target.so: it is truncated' with target "$work/half" "${compile[@]}" || return
  # e_shoff, e_shentsize and e_shnum are 0: a file without section headers is valid.
  dd if=/dev/zero of="$work/half" bs=1 seek=40 count=8 conv=notrunc 2>/dev/null &&
    dd if=/dev/zero of="$work/half" bs=1 seek=58 count=6 conv=notrunc 2>/dev/null &&
    head -c 8192 "$work/half" >"$work/start" &&
    fails 1 'backplane-target.so: it is truncated' with target "$work/start" "${compile[@]}"
}

library_that_lacks_a_part_is_named() {
  fails 1 "to which $work/lib/libbackplane.so." with plugins "$work/text" list
}

message_without_advice_stays() {
  local typo=(compile "$model" --shape image=1x1x28x28 --target lvlm -o "$work/digits.so")
  fails 1 "the target kind 'lvlm';" with hints "$work/text" "${typo[@]}" &&
    [ "$(grep -c 'messages have no advice: .*backplane-hints.so: ' "$work/err")" = 1 ] &&
    fails 1 "the target kind 'lvlm'; did you mean \"llvm\"?" with select "$work/text" "${typo[@]}"
}

export work top_builddir
warns_once() {
  says PLUGIN env BACKPLANE_REMOTE=nowhere BACKPLANE_ISOLATE=opencl bash -c "$(declare -f with); with isolation '$work/text' list --probe 2>'$work/err'" &&
    [ "$(grep -c 'backplane-isolation.so: ' "$work/err")" = 1 ]
}

# Without the part that removes old files, files are kept.
cache_without_its_part_keeps_files() {
  local tensor=(--shape image=1x1x28x28 --target c)
  fails 1 'backplane-cache.so: ' with cache "$work/text" cache size &&
    BACKPLANE_CACHE_DIR=$work/cache with cache "$work/text" compile "$model" "${tensor[@]}" -o "$work/kept.so" 2>"$work/err" &&
    grep -qF 'no old file of the cache is removed: ' "$work/err" && ls "$work"/cache/*/*.o
}

# Weights and outputs keep their values: without the part of texts no number is read as 0.
numbers_need_no_part() {
  local out=(run "$work/digits.so" --device cpu --input "image=$top_srcdir/examples/digits/images/3-1666.png" --json)
  with text "$top_builddir/.libs/backplane-text.so" "${compile[@]}" && cp "$work/digits.so" "$work/whole.so" &&
    with text "$top_builddir/.libs/backplane-text.so" "${out[@]}" >"$work/whole" &&
    with text "$work/text" "${compile[@]}" && cmp "$work/digits.so" "$work/whole.so" &&
    with text "$work/text" "${out[@]}" >"$work/less" && grep -v '_ms"' "$work/less" >"$work/out" && grep -v '_ms"' "$work/whole" | diff - "$work/out"
}

ok parts/damaged-part-is-named fails 1 'backplane-target.so: ' with target "$work/text" "${compile[@]}"
ok parts/truncated-part-is-named truncated_part_is_named
ok parts/library-that-lacks-a-part-is-named library_that_lacks_a_part_is_named
ok parts/fifo-in-place-of-a-part-is-named fails 1 'backplane-target.so: it is not a regular file' \
  with target "$work/fifo" "${compile[@]}"
ok parts/another-part-under-the-name-is-refused fails 1 'backplane-target.so: it is another part' \
  with target "$top_builddir/.libs/backplane-select.so" "${compile[@]}"
ok parts/isolation-without-its-part-is-one-warning warns_once
ok parts/cache-without-its-part-keeps-files cache_without_its_part_keeps_files
ok parts/message-without-advice-stays message_without_advice_stays
ok parts/help-without-its-part-is-an-error help_is_no_silence
ok parts/numbers-need-no-part numbers_need_no_part

echo "1..$count"
