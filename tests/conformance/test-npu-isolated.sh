#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The plugin of the SDK's template `--kind npu` in a process of its own passes the conformance kit: its graph compiler sees
# there the graph that it would see here.
set -u
. "$top_srcdir/tests/conformance/conforms.sh"
export BACKPLANE_ISOLATE=simdev
conforms "$top_builddir/tests/mock/.libs/simnpu.so"
