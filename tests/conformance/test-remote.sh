#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Devices of another machine pass the conformance kit: all calls that cross to that machine. This machine plays the
# other one.
set -u
. "$top_srcdir/tests/conformance/conforms.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ln -s "$top_builddir/tests/mock/.libs/simdev.so" "$folder"
export BACKPLANE_REMOTE=localhost BACKPLANE_REMOTE_PROGRAM=$BACKPLANE_WORKER_PROGRAM
export BACKPLANE_REMOTE_SHELL="env 'BACKPLANE_PLUGIN_PATH=$BACKPLANE_PLUGIN_PATH:$folder' sh -c 'eval \"\$1\"'"
check simdev --only device --only copy --only memory --only stream --only module --only launch --only fault --only types
