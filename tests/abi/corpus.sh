#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The corpus: plugins and a program that never change after the release of their version. Each
# plugin and program is built against the headers of its version and against today's headers; the
# plugins are also built against later headers. Every program runs with every set of plugins on
# today's libraries.
set -u
. "$top_srcdir/tests/tap.sh"
CC=${CC:-cc}
command -v "${CC%% *}" >/dev/null || { echo "1..0 # SKIP no compiler"; exit 0; }
libraries=$(cd "$top_builddir/.libs" && pwd)
plugins=$BACKPLANE_PLUGIN_PATH

# build_plugins FOLDER OPTION...: builds all plugins of the corpus into the folder. A frozen plugin states the ABI of
# its version.
build_plugins() {
  local folder=$1 plugin
  shift
  mkdir -p "$folder"
  for plugin in device generator compiler layer; do
    # shellcheck disable=SC2086
    $CC $sanitize -std=gnu11 -O1 -w -fPIC -shared "-DBP_ABI_NEEDED_MINOR=${version#*.}" "$@" "$corpus/$plugin.c" \
      -o "$folder/backplane-frozen-$plugin.so" || return
  done
}

# build_program PROGRAM OPTION...
build_program() {
  local program=$1
  shift
  # shellcheck disable=SC2086
  $CC $sanitize -std=gnu11 -O1 -w "$@" "$corpus/application.c" -o "$program" -L"$libraries" -lbackplane-graph \
    -lbackplane-compiler -lbackplane "-Wl,-rpath,$libraries"
}

# run_program PROGRAM PLUGINS
run_program() {
  rm -rf "$work/run"
  mkdir "$work/run"
  BACKPLANE_LAYERS=frozen-layer BACKPLANE_PLUGIN_PATH=$2:$plugins "$1" "$work/run"
}

# Plugins for sanitized libraries are built with the sanitizers, too.
sanitize=
for kind in address:asan thread:tsan undefined:ubsan; do
  nm -D "$libraries/libbackplane.so" | grep -q "U __${kind#*:}_" && sanitize="$sanitize -fsanitize=${kind%:*}"
done
today="-I$top_srcdir/include -I$top_srcdir/sdk/include"
for corpus in "$top_srcdir"/tests/abi/corpus/*; do
  version=$(basename "$corpus")
  headers=$top_srcdir/sdk/abi/$version/include
  # shellcheck disable=SC2016
  ok "$version: no frozen file has changed" sh -c 'cd "$1" && sha256sum --quiet -c "$2/SHA256SUMS"' - "$top_srcdir" \
    "$(realpath "$corpus")"
  "$top_srcdir/tests/abi/newer-headers" "$top_srcdir/sdk/include/backplane" "$work/later/backplane"
  ok "$version: plugins are built with the frozen headers" build_plugins "$work/$version-frozen" "-I$headers"
  # shellcheck disable=SC2086
  ok "$version: plugins are built with the headers of today" build_plugins "$work/$version-today" $today
  ok "$version: plugins are built with later headers" build_plugins "$work/$version-later" "-I$work/later"
  ok "$version: the program is built with the frozen headers" build_program "$work/program-frozen" \
    "-I$corpus/application" "-I$headers"
  # shellcheck disable=SC2086
  ok "$version: the program is built with the headers of today" build_program "$work/program-today" $today
  for program in frozen today; do
    for set in frozen today later; do
      ok "$version: the program ($program headers) runs with the plugins ($set headers)" \
        run_program "$work/program-$program" "$work/$version-$set"
    done
  done
done
echo "1..$count"
