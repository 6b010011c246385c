#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The ABI of this build equals the stored ABI.
exec "$top_srcdir/scripts/abi-baseline" "$top_builddir"
