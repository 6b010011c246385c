# SPDX-License-Identifier: Apache-2.0
# What Doxygen reads in the place of a header: a comment before declarations documents all of them up
# to the next comment or blank line, a comment behind a member that member, and the first the file.

function close_group() {
  if (is_open)
    print "/**@}*/"
  is_open = 0
}

/^[^ *}].*\{$/ && !/^extern / { is_inside = 1 }
/^\}/ { is_inside = 0 }
/^\/\* (SPDX|----).*\*\/$/ { close_group(); print ""; next }
/^\/\* ----/ { $0 = "/*" }
/^\/\*/ && !has_file { has_file = 1; sub(/^\/\* ?/, "/** @file\n * "); print; next }
/^\/\*/ { close_group(); is_open = 1; print "/**@{*/"; sub(/^\/\*/, "/**"); print; next }
/^(#(if|else|endif)|$)/ && !is_inside { close_group() }
/^ +\/\*/ { sub(/\/\*/, "/**") }
/^ *[^ *\/].*\/\* / { sub(/\/\* /, "/**< ") }
{ print }
END { close_group() }
