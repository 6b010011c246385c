#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The conformance kit catches mutants of the template plugin by the checks that name their faults. A sample of mutants
# runs these checks and their prerequisites; with BP_TEST_LONG all mutants run all checks. Devices of other kinds than
# the template's conform.
set -u
if ! command -v python3 >/dev/null; then
  echo "1..0 # SKIP no python3"
  exit 0
fi
[ -n "${BP_TEST_LONG-}" ] || set -- --sample
exec python3 "$top_srcdir/tests/conformance/mutants.py" "$top_srcdir" "$top_builddir" "$@"
