#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The plugin cpu passes the conformance kit.
set -u
. "$top_srcdir/tests/conformance/conforms.sh"
# The C compiler takes most of the time. scripts/check-packages tests the plugin with optimization.
conforms cpu --target "c -options=-O0"
