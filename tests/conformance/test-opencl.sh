#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The plugin opencl passes the conformance kit. PoCL optimizes its kernels here.
set -u
unset POCL_EXTRA_BUILD_FLAGS
. "$top_srcdir/tests/conformance/conforms.sh"
conforms opencl
