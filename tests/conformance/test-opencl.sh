#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The plugin opencl passes the conformance kit.
set -u
. "$top_srcdir/tests/conformance/conforms.sh"
conforms opencl
