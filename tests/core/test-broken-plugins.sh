#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Plugins generated from tables of acts, places and limits, beside a good plugin: a sample, or all with
# BP_TEST_LONG.
set -u
if ! command -v python3 >/dev/null; then
  echo "1..0 # SKIP no python3"
  exit 0
fi
[ -n "${BP_TEST_LONG-}" ] || set -- --sample
# The mounts of a test end with its namespace.
enter=
if [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null; then enter="unshare -m"; fi
exec $enter python3 "$top_srcdir/tests/core/broken_plugins.py" "$top_builddir" "$@"
