#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A vendor uses the installed SDK, without any file of Backplane's source: the test follows the vendor guide to the
# letter, with Autotools and Meson. test-vendor.sh runs in `make check-long`; scripts/check-packages
# follows the guide with the packages.
set -u
if [ -z "${BP_TEST_LONG-}" ]; then
  echo "1..0 # SKIP in make check-long; scripts/check-packages follows the guide"
  exit 0
fi
. "$top_srcdir/tests/sdk/stage.sh"
cp "$top_srcdir/docs/vendor-guide.md" "$top_srcdir/tests/sdk/follow-guide.sh" "$work"
kinds=
command -v meson >/dev/null && kinds=meson

# exports_entry NAME FILE
exports_entry() {
  [ "$(nm -D --defined-only "$2" | cut -d' ' -f3)" = "bp_plugin_entry_$1" ] &&
    ! nm -D --undefined-only "$2" | grep ' bp_'
}

# Prints the verdicts of the kit, one a line: name and outcome. Verdicts on the plugin's file are left out, because a
# linked plugin has no file.
verdicts() {
  "$@" --format tap | sed -n 's/^\(not ok\|ok\) [0-9]* - /\1 /p' | grep -vE ' plugin\.(exports|stack|paths)( |$)'
}

conforms_linked_as_loaded() {
  verdicts backplane verify --conformance backplane-plugin-acme/.libs/backplane-acme.so >loaded &&
    verdicts backplane-plugin-acme/conformance-static acme >linked &&
    [ "$(wc -l <loaded)" -gt 50 ] && diff loaded linked
}

# Every image is classified as the digit in its file name, on the installed plugin.
classifies() {
  local image got examples
  examples=$(pkg-config --variable=pkgdatadir backplane-plugin-1)/examples/digits
  for image in "$examples"/images/*.png; do
    backplane run backplane-plugin-acme/digits.so --device acme --input "image=$image" --json >json ||
      return 1
    got=$(tr -d '[:space:]' <json | sed 's/.*"values":\[\([^]]*\)\].*/\1/' | tr , '\n' |
      awk '$1 > most || NR == 1 { most = $1; best = NR - 1 } END { print best }')
    echo "$image: $got"
    [ "$got" = "$(basename "$image" | cut -c1)" ] || return 1
  done
}

installs_the_plugin_alone() {
  ls "$plugins"/backplane-acme*
  [ "$(cd "$plugins" && echo backplane-acme*)" = backplane-acme.so ]
}

echo 1..7
ok installs install_staged
cd "$work" || exit 1
# shellcheck disable=SC2086
ok guide-can-be-followed bash "$work/follow-guide.sh" "$work/vendor-guide.md" $kinds
if [ -z "$kinds" ]; then
  count=$((count + 1))
  echo "ok $count plugin-of-meson-exports-its-entry-point-alone # SKIP no meson"
else
  ok plugin-of-meson-exports-its-entry-point-alone exports_entry acmemeson acme-meson/build/backplane-acmemeson.so
fi
ok installs-the-plugin-and-no-libtool-archive installs_the_plugin_alone
ok plugin-exports-its-entry-point-alone exports_entry acme "$plugins/backplane-acme.so"
ok linked-statically-it-gets-the-same-verdicts conforms_linked_as_loaded
BACKPLANE_PLUGIN_PATH=$plugins ok installed-plugin-classifies-digits classifies
