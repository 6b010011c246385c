#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Devices of a plugin in a separate process pass the conformance kit: all calls that cross to that process. Generated
# code does not depend on the process; test-simdev.sh checks it.
set -u
. "$top_srcdir/tests/conformance/conforms.sh"
export BACKPLANE_ISOLATE=simdev
conforms "$top_builddir/tests/mock/.libs/simdev.so" --only device --only copy --only memory --only stream --only module \
  --only launch --only fault --only types
