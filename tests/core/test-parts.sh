#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A part of libbackplane that is damaged, or another part under its name, is an error in words.
set -u
. "$top_srcdir/tests/tap.sh"

# with PART CONTENT COMMAND...: runs the installed form of the command with copies of libbackplane and its parts, of which
# one is replaced by a file.
with() {
  local part=$1 content=$2
  shift 2
  rm -rf "$work/lib" && mkdir "$work/lib" &&
    cp -L "$top_builddir"/.libs/libbackplane.so.? "$top_builddir"/.libs/backplane-{select,text,layering,isolation}.so "$work/lib" &&
    cp "$content" "$work/lib/backplane-$part.so" || return
  LD_LIBRARY_PATH=$work/lib:$(realpath "$top_builddir")/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$top_builddir/.libs/backplane" "$@"
}

echo 'no library' >"$work/text"
model=$top_srcdir/examples/digits/digits.onnx
compile=(compile "$model" --shape image=1x1x28x28 --target '{"kind": "c"}' -o "$work/digits.so")

help_is_no_silence() {
  says 'A list of preferences' with text "$work/text" run --device help &&
    for command in run profile bench; do
      fails 1 'backplane-select.so: ' with select "$work/text" "$command" --device help || return
    done
  fails 1 'backplane-select.so: ' with select "$work/text" inspect device help
}

export work top_builddir
warns_once() {
  says PLUGIN env BACKPLANE_REMOTE=nowhere BACKPLANE_ISOLATE=opencl bash -c "$(declare -f with); with isolation '$work/text' list --probe 2>'$work/err'" &&
    [ "$(grep -c 'backplane-isolation.so: ' "$work/err")" = 1 ]
}

ok parts/damaged-part-is-named fails 1 'backplane-text.so: ' with text "$work/text" "${compile[@]}"
ok parts/another-part-under-the-name-is-refused fails 1 'backplane-text.so: it is another part' \
  with text "$top_builddir/.libs/backplane-select.so" "${compile[@]}"
ok parts/isolation-without-its-part-is-one-warning warns_once
ok parts/help-without-its-part-is-an-error help_is_no_silence

echo "1..$count"
