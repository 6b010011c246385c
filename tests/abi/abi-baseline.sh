#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The ABI of this build is the one that was stored.
exec "$top_srcdir/scripts/abi-baseline" "$top_builddir"
