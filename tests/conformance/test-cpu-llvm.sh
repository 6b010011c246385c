#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The plugin cpu-llvm passes the conformance kit.
set -u
. "$top_srcdir/tests/conformance/conforms.sh"
conforms cpu-llvm --target "llvm -opt=0"
