#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A graph compiler in a separate process is reported as one in the host's process is, if it makes wrong claims or ends
# its process.
set -u
. "$top_srcdir/tests/tap.sh"
sources=$top_srcdir/sdk/template-npu/src
flags=(-O0 -w -fPIC -fvisibility=hidden -pthread -D_GNU_SOURCE "-I$sources" "-I$top_srcdir/sdk/include")
export BACKPLANE_ISOLATE=simdev

# build NAME FILE SCRIPT: builds the template's plugin in the folder $work/NAME; sed edits one of its files.
build() {
  mkdir -p "$work/objects" "$work/$1" && sed "$3" "$sources/$2" >"$work/$1/$2" &&
    ! cmp -s "$sources/$2" "$work/$1/$2" || return
  local file objects=()
  for file in "$sources"/*.c; do
    file=$(basename "$file" .c)
    [ "$file" != chip ] && [ "$file.c" != "$2" ] || continue
    [ -e "$work/objects/$file.o" ] || ${CC:-cc} "${flags[@]}" -c -o "$work/objects/$file.o" "$sources/$file.c" || return
    objects+=("$work/objects/$file.o")
  done
  ${CC:-cc} "${flags[@]}" -shared -o "$work/$1/simdev.so" "$work/$1/$2" "${objects[@]}"
}

# named TEXT NAME FILE SCRIPT: with the edited plugin, compiling a model fails and prints the text.
named() {
  local text=$1
  shift
  build "$@" &&
    fails 1 "$text" env BACKPLANE_PLUGIN_PATH="$work/$1:$BACKPLANE_PLUGIN_PATH" "$top_builddir/backplane" compile \
      "$top_srcdir/examples/digits/digits-int8.onnx" --shape image=1x1x28x28 --target simdev --graph-compiler simdev \
      --fallback c -o "$work/digits.so"
}

ok claims/node-that-is-not-there named 'node 9 of 9: there is no such node' \
  nowhere claim.c '/^int32_t simdev_claim/,$s/^  return 0;$/  table->take(claims, table->num_nodes(graph), 1);\n&/'
ok claims/node-taken-twice named 'node 0 of 9: it was taken or declined before' \
  twice claim.c '/^int32_t simdev_claim/,$s/^  return 0;$/  table->decline(claims, 0, "no");\n&/'
ok claims/declined-without-a-reason named 'it was declined without a reason' \
  unexplained claim.c 's/table->decline(claims, i, why)/table->decline(claims, i, NULL) * 0/'
ok claims/missing-slot named 'lacks a slot which has to be there' slot plugin.c 's/ *\.claim = simdev_claim,//'
ok claims/killed-while-claiming named 'was killed in a call of claim' \
  killed claim.c '/^int32_t simdev_claim/,$s/^  (void)context;$/  kill(getpid(), SIGKILL);/; 1i #include <signal.h>\n#include <unistd.h>'

echo "1..$count"
