#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `make installcheck`: tests that need an installed Backplane: the configuration of the whole system, and a
# program with raised rights, which ignores a helper program in its environment. Prints TAP. Needs in its
# environment: PKG_CONFIG, CC, srcdir, libdir, bindir, sysconfdir.
set -u

work=$(mktemp -d)
folder=$sysconfdir/backplane configuration=$sysconfdir/backplane/backplane.conf
made=
clean_up() {
  [ -z "$made" ] || rm -f "$configuration"
  [ "$made" != folder ] || rmdir -p --ignore-fail-on-non-empty "$folder"
  rm -rf "$work"
}
trap clean_up EXIT
export PKG_CONFIG_PATH=$libdir/pkgconfig LD_LIBRARY_PATH=$libdir XDG_CONFIG_HOME=$work/config
export XDG_DATA_HOME=/proc/nonexistent
unset BACKPLANE_PLUGIN_PATH BACKPLANE_DEVICE BACKPLANE_TRIAL_PROGRAM BACKPLANE_PLUGIN_DEADLINE
number=0 failed=0

report() {
  number=$((number + 1))
  if [ "$1" -eq 0 ]; then
    echo "ok $number - $2"
  else
    failed=1
    echo "not ok $number - $2"
    sed 's/^/# /' "$work/log"
  fi
}

skip() {
  number=$((number + 1))
  echo "ok $number - $1 # SKIP $2"
}

# ---- The configuration of the system ---------------------------------------------------------

# configure FILE KIND
configure() {
  mkdir -p "${1%/*}" && printf '[device]\nselect=%s\n' "$2" >"$1"
}

# blames FILE KIND: the error says that no device has the kind that FILE requests.
blames() {
  "$bindir/backplane" doctor >"$work/log" 2>&1
  grep -q "$1: no installed plugin has devices of kind \"$2\"" "$work/log"
}

check_configuration() {
  blames "$configuration" quantum
  report $? "the system's configuration is read"
  configure "$work/config/backplane/backplane.conf" quark
  blames "$work/config/backplane/backplane.conf" quark
  report $? "the user's comes before it"
  export BACKPLANE_DEVICE=quill
  blames BACKPLANE_DEVICE quill
  report $? "the environment comes before both PLG-29"
  unset BACKPLANE_DEVICE
}

if [ -e "$configuration" ]; then
  skip "the system's configuration is read" "there is one already"
else
  made=file
  [ -e "$folder" ] || made=folder
  if configure "$configuration" quantum 2>/dev/null; then
    check_configuration
  else
    skip "the system's configuration is read" "this user may not write it"
  fi
fi

# ---- Broken plugins --------------------------------------------------------------------------

# The plugins of the tests, if they were built, with the package's helper program and library.
if [ -e tests/mock/.libs/defect.so ] && command -v python3 >/dev/null; then
  BP_TEST_COMMAND=$bindir/backplane top_srcdir=$srcdir top_builddir=. \
    bash "$srcdir/tests/core/test-broken-plugins.sh" >"$work/log" 2>&1 && ! grep -q '^not ok' "$work/log"
  report $? "broken plugins harm no good one beside them PLG-7"
else
  skip "broken plugins harm no good one beside them" "they are not built, or there is no python3"
fi

# ---- Raised rights ---------------------------------------------------------------------------

cat >"$work/privileged.c" <<'C'
#include <backplane/error.h>
#include <backplane/plugins.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <unistd.h>

/* Starts itself anew as another user's program with root's rights, and activates a plugin. */
int main(int argc, char **argv) {
  if (argc == 2)
    return setresuid(65534, 0, 0) || execl("/proc/self/exe", argv[0], argv[1], "again", (char *)0);
  int failed = bp_plugin_activate(argv[1]);
  printf("secure %d: %s\n", (int)getauxval(AT_SECURE), failed ? bp_error_message() : "active");
  return 0;
}
C

cat >"$work/plugin.c" <<'C'
#include <backplane/plugin_helpers.h>
#include <signal.h>

BP_PLUGIN_DESCRIPTOR("abi=" BP_ABI_NEEDED_TEXT "\nname=odd\nversion=1\nlicense=0BSD\ndescription=A test\n"
                     "entry=bp_plugin_entry_odd\nprovides=odd.nothing\ndevices=\ntargets=\n"
                     "libraries=\n");

static BpPluginTables tables;

static int nothing(void *self, const BpValue *arguments, int32_t count, BpValue *result) {
  return 0;
}

static int32_t initialize(void *context) {
  (void)context;
#ifdef CRASH
  raise(SIGSEGV);
#endif
  return bp_plugin_register(&tables, "odd.nothing", nothing, NULL);
}

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_odd(const BpHost *host, BpPlugin *plugin) {
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return bp_plugin_fetch_tables(host, &tables);
}
C

build_privileged() {
  local flags
  flags=$($PKG_CONFIG --cflags backplane-plugin-1)
  $CC -o "$work/privileged" "$work/privileged.c" $($PKG_CONFIG --cflags --libs backplane) \
    "-Wl,-rpath,$libdir" &&
    $CC -shared -fPIC -o "$work/good.so" "$work/plugin.c" $flags &&
    $CC -shared -fPIC -DCRASH -o "$work/crash.so" "$work/plugin.c" $flags
} >"$work/log" 2>&1

# This plugin would crash the program without a trial; the environment disables trials.
check_privileged() {
  "$work/privileged" "$work/good.so" >"$work/log" 2>&1
  grep -qx "secure 1: active" "$work/log"
  report $? "a program with raised rights uses a plugin PLG-15"
  BACKPLANE_TRIAL_PROGRAM=/proc/nonexistent BACKPLANE_PLUGIN_DEADLINE=0 \
    "$work/privileged" "$work/crash.so" >"$work/log" 2>&1
  grep -q "secure 1: .*it crashed (signal 11" "$work/log"
  report $? "it tries one out first, whatever its environment says PLG-15"
}

# This helper program would run with root's rights.
check_python() {
  local digits
  digits=$($PKG_CONFIG --variable=pkgdatadir backplane-plugin-1)/examples/digits
  printf '#!/bin/sh\ntouch "%s/started"\n' "$work" >"$work/python"
  chmod 755 "$work" "$work/python"
  BACKPLANE_PYTHON=$work/python setpriv --ruid 65534 "$bindir/backplane" compare --onnxruntime --device cpu \
    --input "image=$digits/images/7-3710.png" "$digits/digits.onnx" >"$work/log" 2>&1
  grep -q "onnxruntime is not used: this program runs with more rights" "$work/log" && [ ! -e "$work/started" ]
  report $? "the command with raised rights starts no program of its environment PLG-15"
}

if [ "$(id -u)" -ne 0 ]; then
  skip "a program with raised rights tries a plugin out first" "only root can start one"
elif build_privileged; then
  check_privileged
  check_python
else
  report 1 "a program with raised rights builds"
fi

echo "1..$number"
((failed == 0))
