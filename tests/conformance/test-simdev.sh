#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The simulated device, which has queues and no code generator, passes the conformance kit.
set -u
. "$top_srcdir/tests/conformance/conforms.sh"
conforms "$top_builddir/tests/mock/.libs/simdev.so"
