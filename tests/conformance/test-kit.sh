#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the conformance kit makes of its options and of its results, on the simulated device and on copies of it with a
# fault; and that documentation has every check and every mutant as they are.
set -u
simdev=$top_builddir/tests/mock/.libs/simdev.so
documentation=$top_srcdir/docs/conformance.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0

# ok NAME COMMAND...: a test that passes when the command succeeds.
ok() {
  local name=$1
  shift
  count=$((count + 1))
  if "$@" >"$work/log" 2>&1; then
    echo "ok $count $name"
  else
    echo "not ok $count $name"
    sed 's/^/# /' "$work/log"
  fi
}

verify() {
  "$top_builddir/backplane" verify --conformance "$@"
}

# ends STATUS COMMAND...: the command ends with that status; its output is in $work/out.
ends() {
  local status=$1 got
  shift
  "$@" >"$work/out" 2>&1
  got=$?
  cat "$work/out"
  [ "$got" -eq "$status" ]
}

# says STATUS TEXT COMMAND...: and a line of it has that text.
says() {
  local status=$1 text=$2
  shift 2
  ends "$status" "$@" && grep -qF -- "$text" "$work/out"
}

# mutant OLD NEW FILE: a copy of the template's plugin with one line changed, as $work/mutant.so.
mutant() {
  rm -rf "$work/src"
  cp -r "$top_srcdir/sdk/template/src" "$work/src" || return 1
  sed -i "s|$1|$2|" "$work/src/$3"
  cmp -s "$work/src/$3" "$top_srcdir/sdk/template/src/$3" && echo "$3 has no $1" && return 1
  compile_mutant
}

compile_mutant() {
  ${CC:-cc} -O1 -fPIC -fvisibility=hidden -pthread -D_GNU_SOURCE -w -I"$top_srcdir/sdk/include" -shared \
    -o "$work/mutant.so" "$work"/src/*.c
}

# Every check's `after` names checks above it.
in_order() {
  verify --list | awk '
    /^[a-z]/ { seen[$1] = 1; checks++ }
    /^    after / { for (i = 2; i <= NF; i++) if (!($i in seen)) { print $i " is not above"; bad = 1 } }
    END { exit bad || checks < 50 }'
}

# The rows of the tables in docs/conformance.md, from the program and from the mutants.
rows_of_checks() {
  verify --list | awk '
    function row() { if (name) print "| `" name "` | " shows " | " after " | " tags " |" }
    /^[a-z]/ { row(); name = $1; tags = $0; gsub(/^[^(]*\(|\)$/, "", tags); shows = after = ""; next }
    shows { after = substr($0, 11); gsub(/[^ ]+/, "`&`", after); next }
    { shows = substr($0, 5) }
    END { row() }'
}

rows_of_mutants() {
  sed -nE '/^\[/ { N; s/^\[(.*)\] (.*)\n(.*)/| `\1` | \3 | `\2` |/p }' "$top_srcdir/tests/conformance/mutants.txt"
}

documented() {
  local row missing=0
  while IFS= read -r row; do
    grep -qxF -- "$row" "$documentation" || { echo "not in docs/conformance.md: $row"; missing=1; }
  done < <("$@")
  return $missing
}

mutants_fit_the_template() {
  command -v python3 >/dev/null || return 0
  python3 "$top_srcdir/tests/conformance/mutants.py" "$top_srcdir" "$top_builddir" --edits
}

passes_and_reports_identity() {
  ends 3 verify --only copy "$simdev" && grep -q '^plugin: simdev$' "$work/out" &&
    grep -q "^sha256: $(sha256sum "$simdev" | cut -d' ' -f1)$" "$work/out" && ! grep -q '^FAIL' "$work/out"
}

# What builds on a check that failed is blocked, and nothing else is.
blocks_what_follows() {
  mutant '  wait_until(step->stream, step->done);' '  (void)step;' queue.c &&
    ends 1 verify --format tap --only stream "$work/mutant.so" &&
    [ "$(grep -c '^not ok' "$work/out")" -eq 1 ] && grep -q '^not ok [0-9]* - stream.order$' "$work/out" &&
    grep -q '^ok [0-9]* - stream.freed # SKIP blocked by stream.order$' "$work/out" &&
    grep -q '^ok [0-9]* - stream.threads$' "$work/out"
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
  says 1 'stream.order: it was expected to fail' \
    verify --only stream --expect-fail "$work/expected" "$simdev"
}

counts_each_result_once() {
  ends 1 verify --format junit --only stream --expect-fail "$work/expected" "$simdev" &&
    grep -q 'failures="1" errors="0" skipped="0"' "$work/out"
}

core_checks_are_not_expected_to_fail() {
  echo 'copy.*' >"$work/core"
  says 2 'core check' verify --expect-fail "$work/core" "$simdev"
}

a_crash_is_a_failure() {
  mutant 'memmove(' '*(volatile int *)0 = 1; memmove(' device.c &&
    ASAN_OPTIONS=${ASAN_OPTIONS-}:handle_segv=0 says 1 'signal 11' verify --only copy.roundtrip "$work/mutant.so" &&
    grep -q '^FAIL *copy.roundtrip' "$work/out"
}

a_hang_is_a_failure() {
  mutant 'memmove(' 'for (;;) nanosleep(\&(struct timespec){1, 0}, NULL); memmove(' device.c &&
    sed -i '1a #include <time.h>' "$work/src/device.c" &&
    compile_mutant && says 1 'no answer within 3 seconds' verify --timeout 3 --fail-fast "$work/mutant.so"
}

no_device_is_incomplete() {
  mutant 'count = SIMDEV_DEVICES' 'count = 0' device.c && sed -i 's|why = ""|why = "there is none"|' "$work/src/device.c" &&
    compile_mutant && says 3 'no device here: there is none' verify "$work/mutant.so"
}

well_formed_junit() {
  ends 3 verify --format junit --output "$work/report.xml" --only copy "$simdev" && [ ! -s "$work/out" ] &&
    grep -q '<testcase classname="copy" name="copy.order"' "$work/report.xml" &&
    if command -v python3 >/dev/null; then
      python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$work/report.xml"
    fi
}

# The verdict on each check, whoever holds the plugin.
results() {
  sed -n 's/^\(not ok\|ok\) [0-9]* - \(.*\)/\1 \2/p' "$work/out"
}

linked_in_gives_the_same_result() {
  ends 0 verify --format tap "$simdev" && results >"$work/loaded" && [ -s "$work/loaded" ] &&
    ends 0 "$top_builddir/tests/conformance/static-simdev" --format tap simdev && results >"$work/linked" &&
    diff "$work/loaded" "$work/linked"
}

ok list/prerequisites-come-first in_order
ok list/checks-are-documented documented rows_of_checks
ok list/mutants-are-documented documented rows_of_mutants
ok list/mutants-fit-the-template mutants_fit_the_template
ok report/identity passes_and_reports_identity
ok report/junit well_formed_junit
ok failure/blocks-what-follows blocks_what_follows
ok failure/fail-fast stops_at_the_first_failure
ok failure/expected expects_a_failure
ok failure/unexpected-pass reports_what_passes_against_expectation
ok failure/unexpected-pass-is-counted-once counts_each_result_once
ok failure/core-cannot-be-expected core_checks_are_not_expected_to_fail
ok failure/crash a_crash_is_a_failure
ok failure/hang a_hang_is_a_failure
ok profile/no-device-is-incomplete no_device_is_incomplete
ok usage/unknown-check says 2 'copy.nothing' verify --only copy.nothing "$simdev"
ok usage/unknown-format says 2 'no format "xml"' verify --format xml "$simdev"
ok usage/no-such-device says 3 'none of index 7' verify --device 7 --only module.build "$simdev"
ok usage/no-plugin says 2 'one plugin is checked' verify
ok usage/unknown-plugin says 1 'no plugin "nothing" is installed' verify --fail-fast nothing
ok usage/unwritable-report says 2 '/nowhere/report' verify --output /nowhere/report "$simdev"
ok program/linked-in-gives-the-same-result linked_in_gives_the_same_result
echo "1..$count"
