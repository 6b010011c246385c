#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The options and the results of the conformance kit, on the simulated device and on copies of it with a fault; and the
# documentation of every section.
set -u
. "$top_srcdir/tests/tap.sh"
simdev=$top_builddir/tests/mock/.libs/simdev.so
documentation=$top_srcdir/docs/conformance.md

verify() {
  "$top_builddir/backplane" verify --conformance "$@"
}

# mutant OLD NEW FILE: makes $work/mutant.so, a copy of the template's plugin with one line changed.
mutant() {
  rm -rf "$work/src"
  cp -r "$top_srcdir/sdk/template/src" "$work/src" || return 1
  sed -i "s|$1|$2|" "$work/src/$3"
  cmp -s "$work/src/$3" "$top_srcdir/sdk/template/src/$3" && echo "$3 has no $1" && return 1
  compile_mutant
}

compiler() {
  ${CC:-cc} -O1 -fPIC -fvisibility=hidden -pthread -D_GNU_SOURCE -w -I"$top_srcdir/sdk/include" "$@"
}

# The unchanged sources of the template are compiled once.
compile_mutant() {
  local source name template objects=()
  mkdir -p "$work/objects"
  for source in "$work"/src/*.c; do
    name=$(basename "$source" .c) template=$top_srcdir/sdk/template/src/$name.c
    if ! cmp -s "$source" "$template"; then
      objects+=("$source")
      continue
    fi
    [ -e "$work/objects/$name.o" ] || compiler -c -o "$work/objects/$name.o" "$template" || return 1
    objects+=("$work/objects/$name.o")
  done
  compiler -shared -o "$work/mutant.so" "${objects[@]}"
}

# The `after` of a check names only checks above it. The `after` of a core check names only core checks, because no
# plugin may decline core checks.
in_order() {
  verify --list | awk '
    /^[a-z]/ { name = $1; is_core[$1] = /[( ]core/; checks++ }
    /^    after / {
      for (i = 2; i <= NF; i++)
        if (!($i in is_core) || is_core[name] > is_core[$i]) { print name " builds on " $i; bad = 1 }
    }
    END { exit bad || checks < 50 }'
}

# The table in docs/conformance.md has each section of the program.
sections_are_documented() {
  local section missing=0
  for section in $(verify --list | sed -nE 's/^([a-z]+)\..*/\1/p' | sort -u); do
    grep -q "^| .*\`$section\`.* |" "$documentation" || { echo "not in docs/conformance.md: $section"; missing=1; }
  done
  [ -n "$section" ] && return $missing
}

mutants_fit_the_template() {
  command -v python3 >/dev/null || return 0
  python3 "$top_srcdir/tests/conformance/mutants.py" "$top_srcdir" "$top_builddir" --edits
}

passes_and_reports_identity() {
  ends 3 verify --only copy "$simdev" && grep -q '^plugin: simdev$' "$work/out" &&
    grep -q "^sha256: $(sha256sum "$simdev" | cut -d' ' -f1)$" "$work/out" && ! grep -q '^FAIL' "$work/out"
}

# Checks that depend on a failed check are blocked, and no other checks are.
blocks_what_follows() {
  mutant '  return simdev_submit(device_id, to, .*' '  return (void)to, 0;' queue.c &&
    ends 1 verify --format tap --only stream "$work/mutant.so" &&
    [ "$(grep -c '^not ok' "$work/out")" -eq 1 ] && grep -q '^not ok [0-9]* - stream.order$' "$work/out" &&
    grep -q '^ok [0-9]* - stream.freed # SKIP blocked by stream.order$' "$work/out" &&
    grep -q '^ok [0-9]* - stream.threads$' "$work/out"
}

# The fault in the vendor guide's example fails one check; the checks that upload into the middle of a buffer depend on
# it.
one_fault_is_one_failure() {
  mutant 'what->to, what->to_offset,' 'what->to, 0,' device.c &&
    ends 1 verify --format tap --only copy --only stream --only fault.host-memory "$work/mutant.so" &&
    [ "$(grep -c '^not ok' "$work/out")" -eq 1 ] && grep -q '^not ok [0-9]* - copy.offsets.upload$' "$work/out"
}

stops_at_the_first_failure() {
  ends 1 verify --fail-fast --format tap --only stream "$work/mutant.so" && ! grep -q 'stream.freed' "$work/out"
}

expects_a_failure() {
  printf '# a list\nstream.order # which it has not\n' >"$work/expected"
  ends 3 verify --format tap --only stream --expect-fail "$work/expected" "$work/mutant.so" &&
    grep -q '^not ok [0-9]* - stream.order # TODO' "$work/out"
}

reports_what_passes_against_expectation() {
  ends_saying 1 'stream.order: it was expected to fail' \
    verify --only stream --expect-fail "$work/expected" "$simdev"
}

counts_each_result_once() {
  ends 1 verify --format junit --only stream --expect-fail "$work/expected" "$simdev" &&
    grep -q 'failures="1" errors="0" skipped="0"' "$work/out"
}

core_checks_are_not_expected_to_fail() {
  echo 'copy.*' >"$work/core"
  ends_saying 2 'core check' verify --expect-fail "$work/core" "$simdev"
}

a_crash_is_a_failure() {
  mutant 'memmove(' '*(volatile int *)0 = 1; memmove(' device.c &&
    ASAN_OPTIONS=${ASAN_OPTIONS-}:handle_segv=0 ends_saying 1 'signal 11' verify --only copy.roundtrip "$work/mutant.so" &&
    grep -q '^FAIL *copy.roundtrip' "$work/out"
}

a_hang_is_a_failure() {
  mutant 'memmove(' 'for (;;) nanosleep(\&(struct timespec){1, 0}, NULL); memmove(' device.c &&
    sed -i '1a #include <time.h>' "$work/src/device.c" &&
    compile_mutant && ends_saying 1 'no answer within 3 seconds' verify --timeout 3 --fail-fast "$work/mutant.so"
}

# gone FILE: the process whose number is in the file has ended, or ends soon.
gone() {
  local tries
  [ -s "$1" ] || return 1
  for ((tries = 0; tries < 300; tries++)); do
    grep -q '^State:[[:space:]]*[^ZX]' "/proc/$(cat "$1")/status" 2>/dev/null || return 0
    sleep 0.1
  done
  return 1
}

# starts_a_process PROGRAM THEN: makes a plugin whose copies start a process that runs PROGRAM. The plugin writes the
# process' number to $work/process, and then does THEN.
starts_a_process() {
  rm -f "$work/process"
  mutant 'memmove(' "start_process(); $2; memmove(" device.c && sed -i '4r /dev/stdin' "$work/src/device.c" <<EOF && compile_mutant
#include <stdio.h>
#include <unistd.h>
static void start_process(void) {
  static int is_started;
  if (is_started)
    return;
  is_started = 1;
  if (fork()) {
    while (access("$work/process", F_OK) != 0)
      usleep(1000);
    return;
  }
  FILE *file = fopen("$work/number", "w");
  fprintf(file, "%d", (int)getpid());
  fclose(file);
  rename("$work/number", "$work/process");
  $1;
}
EOF
}

a_hang_ends_with_what_it_started() {
  starts_a_process 'execlp("sleep", "sleep", "1000", (char *)0)' 'for (;;) pause()' &&
    ends_saying 1 'no answer within 5 seconds' verify --timeout 5 --fail-fast "$work/mutant.so" && gone "$work/process"
}

# The kit does not wait for another process that has the pipe open.
what_is_left_behind_is_ended() {
  starts_a_process 'for (;;) pause()' '(void)0' &&
    ends 3 verify --only copy.roundtrip "$work/mutant.so" && gone "$work/process"
}

# If the kit is ended, it ends the processes that it started, leaves no file, and does not change an earlier report.
a_signal_ends_the_run() {
  local pid
  starts_a_process 'execlp("sleep", "sleep", "1000", (char *)0)' 'for (;;) pause()' || return 1
  mkdir -p "$work/signal/tmp"
  echo earlier >"$work/signal/report"
  (
    export TMPDIR=$work/signal/tmp
    exec "$top_builddir/backplane" verify --conformance --output "$work/signal/report" --only copy "$work/mutant.so"
  ) &
  pid=$!
  until [ -s "$work/process" ] || ! kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
  kill "$pid"
  wait "$pid"
  [ $? -eq 143 ] && gone "$work/process" && [ "$(cat "$work/signal/report")" = earlier ] &&
    [ "$(find "$work/signal" -type f)" = "$work/signal/report" ]
}

# without_descriptors COMMAND...: runs the command with stdin, stdout and stderr only, without the descriptors of the
# test's runner.
without_descriptors() (
  for ((fd = 3; fd < 64; fd++)); do eval "exec $fd>&-"; done
  "$@"
)

# Data that other processes write to the kit's pipe fails that check, and no other check.
a_foreign_line_is_a_failure() {
  mutant 'memmove(' "foreign(); memmove(" device.c && sed -i '4r /dev/stdin' "$work/src/device.c" <<EOF && compile_mutant || return 1
#include <unistd.h>
static void foreign(void) {
  for (int fd = 3; fd < 64; fd++)
    (void)!write(fd, $1, sizeof $1 - 1);
}
EOF
  ends_saying 1 'something else than the kit wrote' without_descriptors verify --format tap --only copy.roundtrip "$work/mutant.so" &&
    [ "$(grep -c '^not ok' "$work/out")" -eq 1 ] && grep -q '^not ok [0-9]* - copy.roundtrip$' "$work/out"
}

each_foreign_line_is_a_failure() {
  local line
  for line in '"begin\n"' '"fact\t\t\n"' '"begin\t99999\t\n"' '"passed\t-1\t\n"' '"skipped\t0\t\n"' '"failed\t0\ttext\\\n"' \
    '"a\0\n"' '"\n"'; do
    a_foreign_line_is_a_failure "$line" || return 1
  done
}

# Threads that all fail at once count as one failure.
threads_fail_as_one() {
  mutant '  SimdevBuffer \*buffer = malloc' \
    '  if (gettid() != getpid()) return bp_plugin_raise(\&simdev_host, BP_ERROR_DEVICE, "not in a thread");\n&' memory.c
  sed -i '4i #include <unistd.h>' "$work/src/memory.c"
  compile_mutant && ends_saying 1 'not in a thread' verify --format tap --only stream.threads "$work/mutant.so" &&
    [ "$(grep -c '^not ok' "$work/out")" -eq 1 ] && grep -q '^not ok [0-9]* - stream.threads$' "$work/out"
}

no_device_is_incomplete() {
  mutant 'count = SIMDEV_DEVICES' 'count = 0' device.c && sed -i 's|why = ""|why = "there is none"|' "$work/src/device.c" &&
    compile_mutant && ends_saying 3 'no device here: there is none' verify "$work/mutant.so"
}

well_formed_junit() {
  ends 3 verify --format junit --output "$work/report.xml" --only copy "$simdev" && [ ! -s "$work/out" ] &&
    grep -q '<testcase classname="copy" name="copy.order"' "$work/report.xml" &&
    if command -v python3 >/dev/null; then
      python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$work/report.xml"
    fi
}

# A report keeps the mode of the file that it replaces; a new report has the mode that the umask allows.
keeps_the_mode() (
  umask 022
  echo earlier >"$work/mode" && chmod 640 "$work/mode" && rm -f "$work/new" &&
    ends 3 verify --output "$work/mode" --only plugin.descriptor "$simdev" && grep -q descriptor "$work/mode" &&
    [ "$(stat -c %a "$work/mode")" = 640 ] &&
    ends 3 verify --output "$work/new" --only plugin.descriptor "$simdev" && [ "$(stat -c %a "$work/new")" = 644 ]
)

# A report replaces no file that the kit reads.
keeps_what_it_reads() {
  cp "$simdev" "$work/kept.so" && ln -f "$work/kept.so" "$work/kept" && echo copy.order >"$work/known" || return
  ends_saying 2 'would replace a file that is read' verify --output "$work/kept" --only plugin.descriptor "$work/kept.so" &&
    BACKPLANE_PLUGIN_PATH=$work ends_saying 2 'would replace a file that is read' verify --output "$work/kept" --only plugin.descriptor simdev &&
    ends_saying 2 'would replace a file that is read' verify --output "$work/known" --expect-fail "$work/known" --only copy "$simdev" &&
    cmp "$simdev" "$work/kept.so" && [ "$(cat "$work/known")" = copy.order ]
}

# json EXPRESSION: the expression holds for d, the printed document.
json() {
  ! command -v python3 >/dev/null || python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(d); assert eval(sys.argv[2])' \
    "$work/out" "$1"
}

# The text of a failure contains characters that JSON must escape.
well_formed_json() {
  mutant '  return simdev_submit(device_id, to, .*' '  return bp_plugin_raise(\&simdev_host, BP_ERROR_DEVICE, "\\"a\\\\\\t\\001");' queue.c &&
    ends 1 verify --json --only stream.order "$work/mutant.so" &&
    json 'd["failed"] == 1 and d["status"] == 1 and d["verdict"] == "does not conform"' &&
    json '[c for c in d["checks"] if c["outcome"] == "failed"][0]["name"] == "stream.order"' &&
    json '"\"a\\\t\x01" in [c for c in d["checks"] if c["outcome"] == "failed"][0]["text"]' &&
    json '{"name": "plugin", "value": "simdev"} in d["facts"] and d["passed"] == len(d["checks"]) - 1'
}

error_as_json() {
  verify --json nothing >"$work/out"
  [ $? -eq 2 ] && json 'd["error"]["kind"] == "ValueError" and "nothing" in d["error"]["message"]'
}

list_as_json() {
  ends 0 verify --list --json --only copy.order &&
    json '[c for c in d["checks"] if c["name"] == "copy.order"][0]["tags"] == ["core"]' && json 'd["checks"][0]["after"] == []'
}

refused_in_one_line() {
  ends_saying 2 "$1" verify "$2" && [ "$(wc -l <"$work/out")" -eq 1 ]
}

# Wrong options are reported before a report is changed.
wrong_options_leave_the_report() {
  echo earlier >"$work/report"
  ends 2 verify --output "$work/report" --format xml "$simdev" &&
    ends 2 verify --output "$work/report" --only nothing "$simdev" &&
    ends 2 verify --output "$work/report" --device -1 "$simdev" && [ "$(cat "$work/report")" = earlier ]
}

# The verdicts are the same for each way to load the plugin. A linked plugin has no file.
results() {
  sed -n 's/^\(not ok\|ok\) [0-9]* - \(.*\)/\1 \2/p' "$work/out" | grep -v ' plugin\.\(exports\|stack\|paths\)'
}

# Slow checks are left out.
linked_in_gives_the_same_result() {
  local less=(--format tap --skip stress --skip performance --skip launch --skip intrinsics --skip types)
  ends 3 verify "${less[@]}" "$simdev" && results >"$work/loaded" && [ -s "$work/loaded" ] &&
    ends 3 "$top_builddir/tests/conformance/static-simdev" "${less[@]}" simdev && results >"$work/linked" &&
    diff "$work/loaded" "$work/linked"
}

a_missing_slot_is_named() {
  mutant '    .copy = copy_data,' '' device.c && ends_saying 1 'the slot copy is NULL, and it is not optional' verify --fail-fast "$work/mutant.so"
}

a_reserved_kind_is_refused() {
  rm -rf "$work/src" && cp -r "$top_srcdir/sdk/template/src" "$work/src" &&
    sed -i 's/device_api\.simdev/device_api.remote/g; s/"devices=simdev/"devices=remote/' "$work/src"/*.[ch] &&
    sed -i 's/"simdev"/"remote"/g' "$work/src/device.c" &&
    compile_mutant && ends_saying 1 'the kind of devices is called "remote", which is a word of --device' \
    verify --only device.table "$work/mutant.so"
}

# with_machine COMMAND...: runs the command with this machine as the remote machine, too; the remote machine has simdev.
with_machine() {
  mkdir -p "$work/plugins" && ln -sf "$simdev" "$work/plugins/backplane-simdev.so"
  BACKPLANE_PLUGIN_PATH=$BACKPLANE_PLUGIN_PATH:$work/plugins BACKPLANE_REMOTE_PROGRAM=$BACKPLANE_WORKER_PROGRAM \
    BACKPLANE_REMOTE_SHELL="sh -c 'eval \"\$1\"'" "$@"
}

verify_remote() {
  BACKPLANE_REMOTE=localhost verify "$@"
}

checks_the_plugin_that_is_named() {
  with_machine ends_saying 3 'runs: on another machine, remote:localhost/simdev' verify --only copy.order remote:localhost/simdev &&
    grep '^remote:localhost/simdev:0: ' "$work/out" && ! grep '^FAIL' "$work/out" || return 1
  with_machine ends_saying 3 'runs: in the program; remote:localhost/simdev is not checked' verify_remote --only copy.order simdev &&
    grep '^simdev:0: ' "$work/out"
}

says_how_it_runs() {
  ends_saying 3 'runs: in the program' verify --only plugin.descriptor "$simdev" && grep '^layers: none$' "$work/out" || return 1
  BACKPLANE_ISOLATE=simdev BACKPLANE_LAYERS=validate with_machine ends 3 verify --json --only copy.order simdev &&
    json '{"name": "runs", "value": "in a process of its own (BACKPLANE_ISOLATE)"} in d["facts"]' &&
    json '{"name": "layers", "value": "validate"} in d["facts"]'
}

ok list/prerequisites-come-first in_order
ok list/sections-are-documented sections_are_documented
ok list/mutants-fit-the-template mutants_fit_the_template
ok report/identity passes_and_reports_identity
ok report/says-how-the-plugin-runs says_how_it_runs
ok report/names-the-plugin-that-is-checked checks_the_plugin_that_is_named
ok failure/kind-with-a-reserved-name-is-refused a_reserved_kind_is_refused
ok failure/missing-slot-is-named a_missing_slot_is_named
ok report/junit well_formed_junit
ok report/keeps-the-mode keeps_the_mode
ok report/replaces-no-file-that-is-read keeps_what_it_reads
ok report/json well_formed_json
ok report/json-of-an-error error_as_json
ok list/json list_as_json
ok failure/one-fault-is-one-failure one_fault_is_one_failure
ok failure/blocks-what-follows blocks_what_follows
ok failure/fail-fast stops_at_the_first_failure
ok failure/expected expects_a_failure
ok failure/unexpected-pass reports_what_passes_against_expectation
ok failure/unexpected-pass-is-counted-once counts_each_result_once
ok failure/core-cannot-be-expected core_checks_are_not_expected_to_fail
ok failure/crash a_crash_is_a_failure
ok failure/hang a_hang_is_a_failure
ok failure/hang-ends-with-what-it-started a_hang_ends_with_what_it_started
ok failure/what-is-left-behind-is-ended what_is_left_behind_is_ended
ok failure/foreign-line each_foreign_line_is_a_failure
ok failure/threads-at-once threads_fail_as_one
ok run/a-signal-ends-it a_signal_ends_the_run
ok profile/no-device-is-incomplete no_device_is_incomplete
ok usage/unknown-check ends_saying 2 'copy.nothing' verify --only copy.nothing "$simdev"
ok usage/unknown-format ends_saying 2 'no format "xml"' verify --format xml "$simdev"
ok usage/no-such-device ends_saying 3 'none of index 7' verify --device 7 --only module.build "$simdev"
ok usage/unknown-target ends_saying 2 "target kind 'nothing'" verify --target nothing "$simdev"
ok usage/target-of-another-plugin ends_saying 2 "not one of the plugin's targets (simdev)" verify --target c "$simdev"
ok usage/target-of-the-plugin ends 3 verify --target "simdev -max_num_threads=8" --only module.launch.most-threads "$simdev"
ok usage/no-plugin ends_saying 2 'one plugin is checked' verify
ok usage/unknown-plugin refused_in_one_line 'no plugin "nothing" is installed' nothing
ok usage/missing-file refused_in_one_line "nothing.so cannot be opened: No such file" "$work/nothing.so"
ok usage/file-that-is-no-plugin refused_in_one_line "README.md is not an ELF file; give a plugin" "$top_srcdir/README.md"
ok usage/library-without-a-descriptor refused_in_one_line "has no Backplane descriptor: it is no plugin; give a plugin" "$top_builddir/.libs/libbackplane.so.1.0.0"
ok usage/no-such-plugin-of-another-machine with_machine refused_in_one_line 'localhost has no plugin of this name that can be isolated; it has remote:localhost/' remote:localhost/nothing
ok usage/machine-without-a-plugin refused_in_one_line 'is written remote:HOST/PLUGIN' remote:localhost
ok usage/one-form-of-report ends_saying 2 'a report has one form' verify --json --format tap "$simdev"
ok usage/unwritable-report ends_saying 2 '/nowhere/report' verify --output /nowhere/report "$simdev"
ok usage/full-disk ends_saying 2 'No space left' verify --only plugin.descriptor --output /dev/full "$simdev"
ok usage/wrong-options-leave-the-report wrong_options_leave_the_report
ok usage/wrong-options-point-to-help ends_saying 2 'verify --conformance --help` explains' verify --wings "$simdev"
ok program/linked-in-gives-the-same-result linked_in_gives_the_same_result
echo "1..$count"
