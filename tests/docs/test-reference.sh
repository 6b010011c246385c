#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The reference of the C API, made of the headers: each function that the libraries export has a page, and text in it.
set -u
if ! command -v doxygen >/dev/null; then
  echo 1..1
  echo "ok 1 /reference # SKIP there is no doxygen"
  exit 0
fi
. "$top_srcdir/tests/tap.sh"
symbols=$(cd "$top_srcdir" && sed -n 's/^ \(bp_[a-z0-9_]*\)@.*/\1/p' debian/*.symbols)

each_has_a_page() {
  local name missing=0
  [ "$(wc -w <<<"$symbols")" -gt 200 ] || return 1
  for name in $symbols; do
    [ -e "$top_builddir/reference/man/man3/$name.3" ] || { echo "$name has no page"; missing=1; }
  done
  return $missing
}

each_is_explained() {
  ! grep -E "/include/backplane/.*\(function\).*is not documented" "$top_builddir/reference/warnings" | grep -v /sdk/ &&
    ! grep -E "unbalanced|explicit link|unsupported|end of file" "$top_builddir/reference/warnings"
}

# What a comment says of several functions, the page says of each.
several_share_a_comment() {
  local page
  page=$(man -l "$top_builddir/reference/man/man3/model.h.3" | sed -n '/^   void bp_model_release (BpModel/,/^$/p')
  grep -q "the last one frees it" <<<"$page"
}

echo 1..4
ok reference-is-made make -C "$top_builddir" reference
ok each-exported-function-has-a-page each_has_a_page
ok each-function-is-explained each_is_explained
if command -v man >/dev/null; then
  ok what-is-said-of-several-functions-is-said-of-each several_share_a_comment
else
  echo "ok 4 what-is-said-of-several-functions-is-said-of-each # SKIP no man"
fi
