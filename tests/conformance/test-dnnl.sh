#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The plugin dnnl, which claims operators for the CPU, passes the conformance kit.
set -u
. "$top_srcdir/tests/conformance/conforms.sh"
conforms dnnl
