#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every rule of scripts/lint fails on a tree that breaks it and names the place, and passes on a tree that follows it.
set -u

lint=$top_srcdir/scripts/lint
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
number=0

if ! command -v python3 >/dev/null; then
  echo "1..0 # SKIP python3 is not installed"
  exit 0
fi

spdx='/* SPDX-License-Identifier: Apache-2.0 */'

# file PATH: writes a file of the fixture tree from stdin.
file() {
  mkdir -p "$tree/$(dirname "$1")"
  cat >"$tree/$1"
}

# source PATH: writes a C file from stdin, after the preamble that every source has.
source_file() {
  { printf '%s\n/* A fixture. */\n\n' "$spdx"; cat; } | file "$1"
}

# report STATUS DESCRIPTION: prints one TAP line, and empties the tree for the next test.
report() {
  number=$((number + 1))
  if [ "$1" = skip ]; then
    echo "ok $number - $2 # SKIP a program that it needs is not installed"
  elif [ "$1" -eq 0 ]; then
    echo "ok $number - $2"
  else
    echo "not ok $number - $2"
    printf '%s\n' "$output" | sed 's/^/# /'
  fi
  rm -rf "$tree"
  mkdir -p "$tree"
  cp "$top_srcdir/.clang-format" "$tree/"
}

# breaks RULE PATTERN DESCRIPTION: the rule must fail on the tree, with a line matching PATTERN.
breaks() {
  local status=0
  output=$("$lint" --root "$tree" --build "$tree/build" --only "$1") || status=$?
  case $output in
    *"# SKIP"*) report skip "$1 rejects $3" ;;
    *) [ "$status" -eq 1 ] && grep -qE -- "$2" <<<"$output"; report $? "$1 rejects $3" ;;
  esac
}

# holds RULE DESCRIPTION: the rule must pass on the tree.
holds() {
  local status=0
  output=$("$lint" --root "$tree" --build "$tree/build" --only "$1") || status=$?
  report "$status" "$1 accepts $2"
}

output= report 0 "the fixture tree is empty" >/dev/null
number=0

source_file core/device/a.c <<<'int   bp__a( void );'
breaks format '^#   core/device/a.c:4' "unformatted code"

source_file core/device/a.h <<<'int bp__a(void);'
source_file core/registry/b.c <<<'#include "core/device/a.h"'
breaks includes '^#   core/registry/b.c:4: core/registry may not include' "an include against the direction"

source_file core/registry/a.h <<<'int bp__a(void);'
source_file plugins/cpu/b.c <<<'#include "core/registry/a.h"'
breaks includes '^#   plugins/cpu/b.c:4' "a plugin that sees the core"

source_file plugins/cpu/a.h <<<'int bp__a(void);'
source_file plugins/opencl/b.c <<<'#include "plugins/cpu/a.h"'
breaks includes '^#   plugins/opencl/b.c:4' "a plugin that sees another"

source_file include/backplane/compiler/a.h <<<'int bp__a(void);'
source_file graph/exec/b.c <<<'#include <backplane/compiler/a.h>'
breaks includes '^#   graph/exec/b.c:4' "an executor that sees the compiler"

source_file plugins/cpu/b.c <<<'#include <glib.h>'
breaks includes '^#   plugins/cpu/b.c:4: glib.h' "GLib in a plugin"

source_file sdk/include/backplane/a.h <<<'#include <stdio.h>'
breaks includes '^#   sdk/include/backplane/a.h:4' "a hosted header in the ABI"

source_file include/backplane/compiler/a.h <<<'int bp__a(void);'
source_file core/registry/a.h <<<'int bp__a(void);'
source_file graph/build/b.c <<<'#include <backplane/compiler/a.h>'
source_file parts/plugins/b.c <<<'#include "core/registry/a.h"'
holds includes "includes in the table's direction"

# object PATH SOURCE: makes a source of the fixture tree, and its object in the build folder.
object() {
  source_file "$1.c" <<<"$2"
  mkdir -p "$tree/build/$(dirname "$1")/.libs"
  "${CC:-cc}" -c -o "$tree/build/$(dirname "$1")/.libs/$(basename "$1").o" "$tree/$1.c"
}

# library PATH SOURCE: makes a shared library in the fixture's build folder.
library() {
  mkdir -p "$tree/build/.libs" "$tree/build/plugins/built"
  "${CC:-cc}" -shared -fPIC -o "$tree/build/$1.so" -x c - <<<"$2"
}

# Three libraries that follow the rules.
libraries() {
  source_file include/backplane/a.h <<<'/* A. */
BP_API int bp_a(void);'
  source_file include/backplane/compiler/b.h <<<'/* B. */
BP_API int bp_b(void);'
  source_file include/backplane/graph/c.h <<<'/* C. */
BP_API int bp_c(void);'
  library .libs/libbackplane 'int bp_a(void) { return 0; }'
  library .libs/libbackplane-compiler 'int bp_b(void) { return 0; }'
  library .libs/libbackplane-graph 'int bp_c(void) { return 0; }'
}

if command -v "${CC:-cc}" >/dev/null && command -v nm >/dev/null; then
  libraries
  library plugins/built/backplane-odd 'int bp_plugin_entry_odd(void) { return 0; }'
  holds exports "libraries that export what is declared"
  libraries
  library .libs/libbackplane 'int bp_a(void) { return 0; } int bp_more(void) { return 0; }'
  breaks exports 'exports bp_more' "an undeclared export"
  libraries
  library .libs/libbackplane 'int a;'
  breaks exports 'bp_a is declared' "a declared function that is not exported"
  libraries
  library plugins/built/backplane-odd 'int bp_plugin_entry_odd(void) { return 0; } int other(void) { return 0; }'
  breaks exports 'backplane-odd.so.*other' "a plugin's second export"
  libraries
  library plugins/built/backplane-odd 'int bp_a(void); int bp_plugin_entry_odd(void) { return bp_a(); }'
  breaks exports 'backplane-odd.so.*imports bp_a' "a plugin's import from us"
  for part in 'extern const int bp__part; const int bp__part = 1; int bp__more(void); int more(void) { return bp__more(); }' \
    'extern const int bp__part; const int bp__part = 1;'; do
    libraries
    library plugins/built/backplane-odd 'int bp_plugin_entry_odd(void) { return 0; }'
    source_file parts/some/a.c <<<'extern const int bp__part;'
    library .libs/libbackplane 'int bp_a(void) { return 0; } int bp__more(void) { return 0; }'
    library .libs/backplane-some "$part"
    case $part in
      *more*) breaks exports 'backplane-some.so:0: exports .*, not bp__part alone' "a part's second export" ;;
      *) breaks exports 'exports bp__more, which no part uses' "a private export that no part uses" ;;
    esac
  done
  libraries
  library plugins/built/backplane-odd 'int bp_plugin_entry_odd(void) { return 0; }'
  source_file parts/plugins/a.c <<<'extern const int bp__part;'
  library .libs/backplane-plugins 'extern const int bp__part; const int bp__part = 1; int bp__more(void) { return 0; }'
  breaks exports 'backplane-plugins.so:0: exports bp__more, which no part uses' "an export of the part plugins that no part uses"
  libraries
  library plugins/built/backplane-odd 'int bp_plugin_entry_odd(void) { return 0; }'
  "${CC:-cc}" -shared -fPIC -Wl,--no-as-needed -o "$tree/build/.libs/libbackplane.so" -x c - -lm \
    <<<'int bp_a(void) { return 0; }'
  breaks exports 'libbackplane.so:0: is linked with libm' "a core that is linked with more"
  mkdir -p "$tree/build/core/.libs"
  "${CC:-cc}" -c -o "$tree/build/core/.libs/a.o" -x c - <<<'int helper(void) { return 0; }'
  breaks names 'core/.libs/a.o:0: helper' "a global without the prefix"
  object core/registry/a 'int bp__b(void); int bp__a(void) { return bp__b(); }'
  object core/device/b 'int bp__b(void) { return 0; }'
  breaks links '^#   core/registry/a.c:0: uses bp__b of core/device/b.c, which is above' "a call against the direction"
  object core/registry/a 'int bp__a(void) { return 0; }'
  object core/device/b 'int bp__a(void); int bp__b(void) { return bp__a(); }'
  holds links "a call in the direction"
  object core/registry/a 'int bp__a(void) { return 0; }'
  object core/device/b 'int bp__a(void); int bp__b(void) { return bp__a(); }'
  mkdir -p "$tree/docs"
  "$top_srcdir/scripts/draw-architecture" --root "$tree" "$tree/build"
  cp -r "$tree" "$tree.kept"
  holds picture "the picture of the build"
  cp -r "$tree.kept/." "$tree"
  rm -rf "$tree.kept"
  object core/device/b 'int bp__b(void) { return 0; }'
  breaks picture '^#   docs/architecture.svg:0: is not today' "a picture of other uses"
  for i in 1 2 3 4; do
    object core/device/f$i "int bp__f$((i % 4 + 1))(void); int bp__f$i(void) { return bp__f$((i % 4 + 1))(); }"
  done
  breaks links '^#   core/device:0: 4 files use each other: f1.c f2.c f3.c f4.c' "a cycle of four files"
fi

source_file include/backplane/a.h <<<'size_t bp_a(void);'
breaks headers '^#   include/backplane/a.h:0: alone in c:' "a header that needs another first"

source_file include/backplane/a.h <<<'int bp_a(int class);'
breaks headers 'alone in c\+\+' "a header that C++ cannot read"

source_file sdk/include/backplane/a.h <<<'#include <stdint.h>
typedef struct A {
  int32_t flag : 1;
} A;'
breaks abi 'a.h:6: int32_t flag' "a bit-field"

source_file sdk/include/backplane/a.h <<<'typedef struct A {
  enum B b;
} A;'
breaks abi 'a.h:5: enum B' "an enum-typed member"

source_file sdk/include/backplane/a.h <<<'int bp_a(unsigned long size);'
breaks abi 'a.h:4: unsigned long' "a long"

source_file sdk/include/backplane/a.h <<<'enum { BP_A, BP_B }; /* enum x in a comment */'
holds abi "constants, and words in comments"

for token in 'abort()' 'exit(1)' 'printf("x")' 'fputs("x", stderr)' 'assert(1)' 'getenv("X")' 'strcpy(a, b)' \
  'g_mutex_lock(m)'; do
  source_file core/device/a.c <<<"static void a(void) {
  $token;
}"
  breaks tokens '^#   core/device/a.c:5' "$token in a library"
done

source_file core/device/a.c <<<'__attribute__((constructor)) static void a(void) {}'
breaks tokens 'core/device/a.c:4' "a constructor"

source_file core/device/a.c <<<"/* $(printf 'TO%s' DO): later. */"
breaks tokens 'core/device/a.c:4' "an unfinished note"

source_file tools/a.c <<<'static void a(void) { printf("abort()"); exit(1); } /* getenv() */'
holds tokens "a tool that prints and exits"

{
  echo 'int bp__long(void) {'
  for _ in $(seq 80); do echo '  a();'; done
  echo '}'
} | source_file core/device/a.c
breaks sizes 'core/device/a.c:4: bp__long has 82 lines' "a function of 82 lines"

for _ in $(seq 1500); do echo 'int a;'; done | source_file core/device/a.c
breaks sizes 'the file has 1503 lines' "a file of 1,503 lines"

{
  echo 'int bp__long(void) {'
  for _ in $(seq 78); do echo '  a();'; done
  echo '}'
} | source_file core/device/a.c
holds sizes "a function of 80 lines"

source_file include/backplane/a.h <<<'BP_API int bp_a(void);'
breaks docs 'a.h:4: no comment' "an undocumented function"

file core/device/a.c <<<'int a;'
breaks preamble 'core/device/a.c:1' "a source without its licence"

file core/device/a.c <<<"$spdx

int a;"
breaks preamble 'core/device/a.c:2' "a source without a description"

if command -v git >/dev/null; then
  file stray.txt <<<'x'
  file kept.txt <<<'x'
  file build/Makefile <<<$'dist-list:\n\t@echo kept.txt .clang-format build'
  git -C "$tree" init -q && git -C "$tree" add .
  breaks dist '^#   stray.txt' "a tracked file that is not distributed"
fi

source_file core/device/a.c <<<'int bp__a(void) {
  int x[2];
  x[5] = 1;
  return x[5];
}'
breaks cppcheck 'core/device/a.c:6: arrayIndexOutOfBounds' "an index out of bounds"

source_file core/system/env.c <<<'static void a(void) { getenv("X"); }'
file scripts/lint-allow.txt <<<'tokens core/system/env.c getenv # the one place'
holds tokens "what the allow-list names"

echo "1..$number"
