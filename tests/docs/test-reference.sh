#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The reference of the C API, made from the headers: each exported function has a page with text.
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
    [ -e "$top_builddir/reference/man/man3/$name.3bp" ] || { echo "$name has no page"; missing=1; }
  done
  return $missing
}

each_is_explained() {
  ! grep -E "/include/backplane/.*\(function\).*is not documented" "$top_builddir/reference/warnings" | grep -v /sdk/ &&
    ! grep -E "unbalanced|explicit link|unsupported|end of file" "$top_builddir/reference/warnings"
}

# A comment on several functions appears on the page of each function.
several_share_a_comment() {
  local page
  page=$(man -l "$top_builddir/reference/man/man3/model.h.3bp" | sed -n '/^   void bp_model_release (BpModel/,/^$/p')
  grep -q "the last one frees the model" <<<"$page"
}

# The site contains the pages and the reference, without scripts. make.py fails if a link leads nowhere.
pages_become_a_site() {
  make -C "$top_builddir" site >"$work/log" 2>&1 || { cat "$work/log"; return 1; }
  grep -q '<a href="docs/running.html"' "$top_builddir/site/index.html" &&
    grep -q '<a href="../reference/index.html">' "$top_builddir/site/docs/running.html" &&
    grep -q 'bp_model_load_for' "$top_builddir/site/reference/model_8h.html" &&
    ! grep -rql '<script' "$top_builddir/site"
}

echo 1..5
ok reference-is-made make -C "$top_builddir" reference
ok each-exported-function-has-a-page each_has_a_page
ok each-function-is-explained each_is_explained
if command -v man >/dev/null; then
  ok what-is-said-of-several-functions-is-said-of-each several_share_a_comment
else
  echo "ok 4 what-is-said-of-several-functions-is-said-of-each # SKIP no man"
fi
if command -v pandoc >/dev/null; then
  ok pages-become-a-site-without-scripts pages_become_a_site
else
  echo "ok 5 pages-become-a-site-without-scripts # SKIP there is no pandoc"
fi
