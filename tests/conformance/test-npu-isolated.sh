#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The plugin of the SDK's template `--kind npu` in a separate process passes the conformance kit: its graph compiler
# sees the same graph as in the host's process.
set -u
. "$top_srcdir/tests/conformance/conforms.sh"
export BACKPLANE_ISOLATE=simdev
conforms "$top_builddir/tests/mock/.libs/simnpu.so"
