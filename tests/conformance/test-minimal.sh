#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The example of a device with memory, copies and synchronisation alone is short, is compiled by a C compiler and nothing
# else, and passes the conformance kit.
set -u
. "$top_srcdir/tests/tap.sh"
CC=${CC:-cc}
command -v "${CC%% *}" >/dev/null || { echo "1..0 # SKIP no compiler"; exit 0; }
source=$top_srcdir/examples/minimal-device/minimal.c
plugin=$work/backplane-minimal.so
sanitize=
for kind in address:asan thread:tsan undefined:ubsan; do
  nm -D "$top_builddir/.libs/libbackplane.so" | grep -q "U __${kind#*:}_" && sanitize="$sanitize -fsanitize=${kind%:*}"
done

is_short() {
  [ "$(wc -l <"$source")" -lt 150 ]
}

compile() {
  # shellcheck disable=SC2086
  $CC $sanitize -std=gnu11 -Wall -Wextra -Werror -O2 -fPIC -shared "-I$top_srcdir/sdk/include" "$source" -o "$plugin"
}

ok "the example has less than 150 lines" is_short
ok "the example is compiled" compile
ok "the example conforms" env "ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0" "$top_builddir/backplane" verify --conformance \
  "$plugin"
echo "1..$count"
