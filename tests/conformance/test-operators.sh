#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The kit's checks of single operators: a library of two operators conforms, and a copy with a defect fails the check
# for that defect.
set -u
. "$top_srcdir/tests/tap.sh"

# first_failure DEFECT: prints the first check that fails for a copy with the defect, or "none".
first_failure() {
  ${CC:-cc} -O1 -fPIC -fvisibility=hidden -pthread -D_GNU_SOURCE -Wall -DDEFECT="$1" -I"$top_srcdir/sdk/include" -shared \
    -o "$work/$1.so" "$top_srcdir/tests/mock/operators.c" || return 1
  "$top_builddir/backplane" verify --conformance "$work/$1.so" >"$work/$1.txt" 2>&1
  grep -q 'pass  operators\|fail  \|FAIL  ' "$work/$1.txt" || cat "$work/$1.txt"
  awk 'tolower($1) == "fail" { sub(":", "", $2); print $2; found = 1; exit } END { if (!found) print "none" }' "$work/$1.txt"
}

# fails DEFECT CHECK
first_is() {
  says "$2" first_failure "$1"
}

ok /operators/right-ones-conform first_is 0 none
ok /operators/right-ones-are-called grep -q 'pass  operators.result' "$work/0.txt"
ok /operators/wrong-results-are-found first_is 1 operators.result
ok /operators/overwritten-inputs-are-found first_is 2 operators.result
ok /operators/unchecked-shapes-are-found first_is 3 operators.result
ok /operators/absent-functions-are-found first_is 4 plugin.activate
ok /operators/calls-that-cannot-be-read-are-found first_is 5 operators.names
echo "1..$count"
