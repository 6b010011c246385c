#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each command has a manual page with the text of its --help; the main page has every variable.
set -u
. "$top_srcdir/tests/tap.sh"
backplane=$top_builddir/backplane

# The page of new-plugin is written by hand.
commands() {
  "$backplane" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p' | grep -v '^new-plugin$'
}

# `make manual` writes the pages.
pages_are_current() {
  local command
  for command in $(commands); do
    "$backplane" "$command" --help-manual >"$work/page" && diff "$top_srcdir/tools/man/backplane-$command.1" "$work/page" || return 1
  done
  [ "$(commands | wc -l)" = "$(find "$top_srcdir/tools/man" -name 'backplane-*.1' | wc -l)" ]
}

every_option_is_there() {
  local command option
  for command in $(commands | grep -v '^verify$'); do
    sed 's/\\-/-/g' "$top_srcdir/tools/man/backplane-$command.1" >"$work/plain"
    "$backplane" "$command" --help | grep -oE '^  (-., )?--[a-z-]+' | grep -oE -- '--[a-z-]+$' >"$work/options"
    [ "$(wc -l <"$work/options")" -ge 3 ] || return 1
    while read -r option; do
      grep -qF -- "$option\\fR" "$work/plain" || { echo "$command: $option"; return 1; }
    done <"$work/options"
  done
}

# The manual has the variables that libraries, plugins and commands read.
every_variable_is_there() {
  local name
  grep -rhoE --include='*.c' --include='*.h' '"BACKPLANE_[A-Z0-9_]+"' "$top_srcdir"/{core,parts,compiler,graph,plugins,tools,conformance} |
    tr -d '"' | sort -u >"$work/variables"
  [ "$(wc -l <"$work/variables")" -ge 20 ] || return 1
  while read -r name; do
    grep -qw "$name" "$top_srcdir/tools/backplane.1" || { echo "$name"; return 1; }
  done <"$work/variables"
}

no_warnings() {
  local page
  for page in "$top_srcdir"/tools/man/*.1 "$top_srcdir"/tools/*.[15]; do
    groff -man -ww -z "$page" 2>&1
  done | tee "$work/warnings"
  [ ! -s "$work/warnings" ]
}

ok pages-of-the-manual-are-current pages_are_current
ok pages-have-every-option every_option_is_there
ok manual-has-every-variable every_variable_is_there
if command -v groff >/dev/null; then
  ok pages-format-without-warnings no_warnings
fi
echo "1..$count"
