#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# follow-guide.sh GUIDE.md [KIND...]: follows a guide in the current folder. Runs in one shell, in
# their order, the blocks that begin with ```sh, and the blocks that begin with ```sh KIND for each
# given KIND. Ends with the status of the first command that fails.
set -eu
guide=$1
shift
script=$(mktemp)
trap 'rm -f "$script"' EXIT
awk -v kinds=" $* " '
  /^```sh *$/ { inside = 1; print ": line " NR; next }
  /^```sh [a-z]+$/ { inside = index(kinds, " " $2 " ") > 0; next }
  /^```/ { inside = 0; next }
  inside { print }
' "$guide" >"$script"
[ -s "$script" ] || { echo "no block to run in $guide" >&2; exit 1; }
bash -euxo pipefail "$script"
