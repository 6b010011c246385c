#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Devices of a plugin in a process of its own pass the conformance kit: all that crosses to that process. What code the
# plugin generates does not depend on the process; test-simdev.sh checks it.
set -u
. "$top_srcdir/tests/conformance/conforms.sh"
export BACKPLANE_ISOLATE=simdev
conforms "$top_builddir/tests/mock/.libs/simdev.so" --only device --only copy --only memory --only stream --only module \
  --only launch --only fault --only types
