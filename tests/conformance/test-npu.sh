#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The plugin of the SDK's template `--kind npu`, which claims operators, passes the conformance kit.
set -u
. "$top_srcdir/tests/conformance/conforms.sh"
conforms "$top_builddir/tests/mock/.libs/simnpu.so"
