#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
. "$top_srcdir/tests/tvm/compiled.sh" operators
