#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every numbered requirement in docs/plugins.md is in the name of a test. Prints TAP.
set -u
page=$top_srcdir/docs/plugins.md
count=0

report() {
  count=$((count + 1))
  if [ "$1" -eq 0 ]; then echo "ok $count - $2"; else echo "not ok $count - $2"; fi
}

numbers=$(grep -oE '^\| PLG-[0-9]+' "$page" | grep -oE '[0-9]+')
tested=$({
  grep -rhE '"[^"]*PLG-[0-9]+[^"]*"' "$top_srcdir"/tests --include='*.c'
  grep -rhE '^ *(ok|report|says) .*PLG-[0-9]+' "$top_srcdir"/tests --include='*.sh'
} | grep -oE 'PLG-[0-9]+' | sort -u)
[ "$(wc -w <<<"$numbers")" -ge 25 ]
report $? "the page numbers its requirements"
for number in $numbers; do
  grep -qx "PLG-$number" <<<"$tested"
  report $? "a test names PLG-$number"
done
for name in $tested; do
  grep -q "^| $name " "$page"
  report $? "the page has $name"
done
echo "1..$count"
