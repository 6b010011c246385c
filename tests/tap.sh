# SPDX-License-Identifier: Apache-2.0
# Sourced by test scripts. Each `ok` prints one line of TAP. The script prints the plan at its end: `echo "1..$count"`.
# $work is the test's own temporary folder.
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
    tail -n 100 "$work/log" | sed 's/^/# /'
  fi
}

# skip NAME REASON: a test that cannot run here.
skip() {
  count=$((count + 1))
  echo "ok $count $1 # SKIP $2"
}

# ends STATUS COMMAND...: the command ends with that status; $work/out has its stdout and stderr.
ends() {
  local status=$1 got
  shift
  "$@" >"$work/out" 2>&1
  got=$?
  cat "$work/out"
  [ "$got" -eq "$status" ]
}

# ends_saying STATUS TEXT COMMAND...: the command ends with that status, and a line of its output contains the text.
ends_saying() {
  local status=$1 text=$2
  shift 2
  ends "$status" "$@" && grep -qF -- "$text" "$work/out"
}

# fails STATUS TEXT COMMAND...: the command ends with that status and prints that text on stderr.
fails() {
  local status=$1 text=$2 got
  shift 2
  "$@" >"$work/out" 2>"$work/err" </dev/null
  got=$?
  cat "$work/out" "$work/err"
  [ "$got" -eq "$status" ] && grep -qF -- "$text" "$work/err"
}

# says TEXT COMMAND...: the command succeeds and prints that text on stdout; $work/out has stdout.
says() {
  local text=$1 status
  shift
  "$@" >"$work/out"
  status=$?
  cat "$work/out"
  [ "$status" -eq 0 ] && grep -qF -- "$text" "$work/out"
}
