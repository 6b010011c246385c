#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the kernel sees of listing plugins and of rejecting them: no code of theirs is mapped, no
# vendor's library opened. Needs strace. Prints TAP.
set -u
backplane=$top_builddir/backplane
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! strace -o "$work/probe" true 2>/dev/null; then
  echo "1..0 # SKIP strace is not installed or may not trace"
  exit 0
fi
count=0

report() {
  count=$((count + 1))
  if [ "$1" -eq 0 ]; then
    echo "ok $count - $2"
  else
    echo "not ok $count - $2"
    sed 's/^/# /' "$work/found"
  fi
}

# copy FILE FROM TO: the plugin of tests/mock with bytes changed, of the same length.
copy() {
  sed "s/$2/$3/g" "$top_builddir/tests/mock/.libs/defect.so" >"$work/plugins/$1"
}

# trace COMMAND...: with the files of descriptors, and of all processes.
trace() {
  strace -f -y -e trace=openat,open,mmap -o "$work/trace" "$backplane" "$@" >"$work/out" 2>&1
}

# absent PATTERN: no line of the trace matches, except those of the paths to ignore.
absent() {
  ! grep -E "$1" "$work/trace" >"$work/found"
}

mkdir "$work/plugins"
abi=$(sed -n 's/^#define BP_ABI_TEXT *"\(.*\)"/\1/p' "$top_srcdir/sdk/include/backplane/plugin.h")
copy good.so nothing nothing
copy rejected.so "abi=$abi" "abi=9.9"
copy vendor.so libc.so.6 libOpenCL
export BACKPLANE_PLUGIN_PATH=$work/plugins BACKPLANE_CACHE_DIR=$work/cache XDG_DATA_HOME=/nonexistent

trace list
grep -q "$work/plugins/good.so" "$work/trace"
report $? "listing reads the plugins"
absent "mmap.*PROT_EXEC.*$work/plugins"
report $? "listing maps no plugin executable"
absent 'libOpenCL|libcuda|libvulkan|libpocl'
report $? "listing opens no vendor library PLG-1"

trace doctor
grep -qE "mmap.*PROT_EXEC.*$work/plugins/good.so" "$work/trace"
report $? "a diagnosis maps a good plugin, in its trial"
absent "mmap.*PROT_EXEC.*$work/plugins/rejected.so"
report $? "a rejected plugin is never mapped executable PLG-2"

trace inspect device "defect-azazazazazazaz"
absent "mmap.*PROT_EXEC.*$work/plugins/rejected.so"
report $? "nor where its device is asked for"
echo "1..$count"
