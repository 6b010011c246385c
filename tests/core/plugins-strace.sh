#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The system calls of listing and rejecting plugins: no code of a plugin is mapped, and no vendor's
# library is opened. Needs strace. Prints TAP.
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

# copy FILE SCRIPT: copies the plugin of tests/mock; sed changes bytes without changing the length. The
# plugin's texts end in NULs, so a line of the descriptor may gain the bytes that another loses.
copy() {
  sed -z "$2" "$top_builddir/tests/mock/.libs/defect.so" >"$work/plugins/$1"
}

# trace COMMAND...: traces all processes of the command, with the files of descriptors.
trace() {
  strace -f -y -e trace=openat,open,mmap -o "$work/trace" "$backplane" "$@" >"$work/out" 2>&1
}

# absent PATTERN: no line of the trace matches, except those of the paths to ignore.
absent() {
  ! grep -E "$1" "$work/trace" >"$work/found"
}

mkdir "$work/plugins"
abi=$(sed -n 's/^#define BP_ABI_TEXT *"\(.*\)"/\1/p' "$top_srcdir/sdk/include/backplane/plugin.h")
if [ "$(uname -m)" = x86_64 ]; then foreign=sve; else foreign=fma; fi
copy good.so ''
copy crash.so 's/azazazazazazaz/azazazazazazc8/g; s/defect=none /defect=crash/
  s|files=\n\(.*\)padding=xxxxxxxx|files=/opt/*/x\n\1padding=|'
copy vendor.so 's/libc.so.6/libOpenCL/'
copy rejected-abi.so "s/abi=$abi/abi=9.9/"
copy rejected-cpu.so "s/isa=\(.*\)padding=xxxx/isa=$foreign \1padding=/"
copy rejected-sanitizer.so 's/sanitizer=address/sanitizer=thread /
  s/sanitizer=\n\(.*\)padding=xxxxxx/sanitizer=thread\n\1padding=/'
copy rejected-machine.so ''
printf '\x2b\x00' | dd of="$work/plugins/rejected-machine.so" bs=1 seek=18 conv=notrunc status=none
export BACKPLANE_PLUGIN_PATH=$work/plugins BACKPLANE_CACHE_DIR=$work/cache XDG_DATA_HOME=/proc/nonexistent

ln -s /dev/ptmx "$work/plugins/device.so"

trace list
grep -q "$work/plugins/good.so" "$work/trace"
report $? "listing reads the plugins"
absent "mmap.*PROT_EXEC.*$work/plugins"
report $? "listing maps no plugin executable"
absent 'libOpenCL|libcuda|libvulkan|libpocl'
report $? "listing opens no vendor library PLG-1"

absent '/dev/ptmx'
report $? "listing opens no device node behind a link"

trace doctor
grep -qE "mmap.*PROT_EXEC.*$work/plugins/good.so" "$work/trace"
report $? "a diagnosis maps a good plugin, in its trial"
absent "mmap.*PROT_EXEC.*$work/plugins/rejected"
report $? "a rejected plugin is never mapped executable PLG-2"
strace -y -e trace=mmap -o "$work/trace" "$backplane" doctor >"$work/out" 2>&1
grep -q "selected *ok" "$work/out" && absent "mmap.*PROT_EXEC.*$work/plugins"
report $? "a diagnosis that chooses a device maps no plugin into its own process PLG-25"
for code in abi-too-new cpu-too-old sanitizer-mismatch other-architecture; do
  cp "$work/out" "$work/found"
  grep -q "error *$code" "$work/out"
  report $? "one is rejected for $code PLG-2"
done

trace list
grep -q quarantined "$work/out"
report $? "a later process lists the quarantine"
absent '/opt'
report $? "listing looks at none of the files that a descriptor names PLG-1"

trace inspect device "defect-azazazazazazaz"
absent "mmap.*PROT_EXEC.*$work/plugins/rejected"
report $? "nor where its device is asked for"
echo "1..$count"
