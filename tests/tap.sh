# SPDX-License-Identifier: Apache-2.0
# Sourced by tests that are scripts. A line of TAP comes of each `ok`; the plan is the script's, `echo "1..$count"` at its
# end. $work is a folder of its own.
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

# ends STATUS COMMAND...: the command ends with that status; what it says on stdout and stderr is in $work/out.
ends() {
  local status=$1 got
  shift
  "$@" >"$work/out" 2>&1
  got=$?
  cat "$work/out"
  [ "$got" -eq "$status" ]
}

# ends_saying STATUS TEXT COMMAND...: and a line of what it says has that text.
ends_saying() {
  local status=$1 text=$2
  shift 2
  ends "$status" "$@" && grep -qF -- "$text" "$work/out"
}

# fails STATUS TEXT COMMAND...: the command ends with that status and says that text on stderr.
fails() {
  local status=$1 text=$2 got
  shift 2
  "$@" >"$work/out" 2>"$work/err" </dev/null
  got=$?
  cat "$work/out" "$work/err"
  [ "$got" -eq "$status" ] && grep -qF -- "$text" "$work/err"
}

# says TEXT COMMAND...: the command succeeds and says that text on stdout, which is in $work/out.
says() {
  local text=$1 status
  shift
  "$@" >"$work/out"
  status=$?
  cat "$work/out"
  [ "$status" -eq 0 ] && grep -qF -- "$text" "$work/out"
}
