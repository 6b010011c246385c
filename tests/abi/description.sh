#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# sdk/backplane-abi.json describes the ABI for programs. The description agrees with the headers and
# the compiler, and code can be generated from it.
set -u
command -v python3 >/dev/null || { echo "1..0 # SKIP no python3"; exit 0; }
. "$top_srcdir/tests/tap.sh"
describe=$top_srcdir/scripts/abi-description
stored=$top_srcdir/sdk/backplane-abi.json

# same FILE ARGUMENT...: the output of the script equals the file.
same() {
  local file=$1
  shift
  "$describe" "$@" | diff -U 1 "$file" - && return
  echo "make abi-baseline; docs/abi.md says when"
  return 1
}

compiler_agrees() {
  "$describe" --asserts "$stored" >"$work/asserts.c" &&
    ${CC:-cc} -std=gnu11 "-I$top_srcdir/sdk/include" -fsyntax-only "$work/asserts.c"
}

# The Rust compiler checks the sizes, too.
rust_compiles() {
  "$describe" --rust "$stored" >"$work/backplane.rs" &&
    rustc --crate-type lib --edition 2021 -o "$work/libbackplane.rlib" "$work/backplane.rs"
}

# A plugin may include the headers of the libraries in addition to its own headers.
no_name_is_used_twice() {
  sed -nE 's/^static inline .*\b(bp_\w+)\(.*/\1/p' "$top_srcdir"/sdk/include/backplane/*.h | sort >"$work/helpers"
  sed -nE 's/^ (bp_\w+)@.*/\1/p' "$top_srcdir"/debian/*.symbols | sort >"$work/exports"
  [ -s "$work/helpers" ] && [ -s "$work/exports" ] && [ -z "$(comm -12 "$work/helpers" "$work/exports")" ]
}

ok "the description is that of the headers" same "$stored" "$top_srcdir/sdk/include/backplane"
ok "the slots of the layers are those of the description" same "$top_srcdir/plugins/layers/slots.h" --layers "$stored"
ok "sizes, offsets and constants are those of the compiler" compiler_agrees
if rustc --version >/dev/null 2>&1; then
  ok "declarations in Rust are compiled" rust_compiles
else
  count=$((count + 1))
  echo "ok $count declarations in Rust are compiled # SKIP rustc is not installed (Debian: rustc)"
fi
ok "no helper has the name of a function that a library exports" no_name_is_used_twice
echo "1..$count"
