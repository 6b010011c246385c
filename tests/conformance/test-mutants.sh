#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The conformance kit catches every mutant of the template plugin, by the check that names its fault.
set -u
if ! command -v python3 >/dev/null; then
  echo "1..0 # SKIP no python3"
  exit 0
fi
exec python3 "$top_srcdir/tests/conformance/mutants.py" "$top_srcdir" "$top_builddir"
