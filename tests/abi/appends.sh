#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each declaration of an ABI version is also in later versions that load its plugins: docs/abi.md, "What may grow, and
# how". sdk/abi has the headers of each version that is in force.
set -u
command -v perl >/dev/null || { echo "1..0 # SKIP perl is not installed"; exit 0; }
. "$top_srcdir/tests/tap.sh"
compare=$top_srcdir/tests/abi/compare-headers
today=$top_srcdir/sdk/include/backplane
# The headers of tier 1; other headers may grow without a new version number.
tier_1="value.h error_kinds.h host_api.h device_api.h module_api.h target_api.h plugin.h"

number() {
  sed -n "s/^#define BP_ABI_$1 *//p" "$today/plugin.h"
}

# is_declared MINOR: the declarations of version 0.MINOR are still declared today.
is_declared() {
  "$compare" "$top_srcdir/sdk/abi/$(number MAJOR).$1/include/backplane" "$today"
}

is_stored() {
  # shellcheck disable=SC2086
  "$compare" --same "$top_srcdir/sdk/abi/$(number MAJOR).$(number MINOR)/include/backplane" "$today" $tier_1 && return
  echo "raise BP_ABI_MINOR and store these headers in sdk/abi: docs/abi.md"
  return 1
}

none_is_older() {
  local folder
  for folder in "$top_srcdir/sdk/abi"/*; do
    [ "${folder##*.}" -ge "$1" ] || { echo "$folder"; return 1; }
  done
}

# differs HEADER SCRIPT WORD: a header that sed has changed is incompatible with today's header, and the report
# contains WORD.
differs() {
  rm -rf "$work/changed"
  mkdir "$work/changed"
  cp "$today"/*.h "$work/changed"
  sed -i "$2" "$work/changed/$1"
  ! "$compare" "$today" "$work/changed" >"$work/report" && grep -q "$3" "$work/report"
}

oldest=$(number OLDEST_MINOR)
for minor in $(seq "$oldest" "$(number MINOR)"); do
  ok "what minor version $minor declares is declared today" is_declared "$minor"
done
ok "the headers of tier 1 are those that are stored for their version" is_stored
ok "no version that is no longer loaded is stored" none_is_older "$oldest"
"$top_srcdir/tests/abi/newer-headers" "$today" "$work/newer"
ok "members at the end are taken for an addition" "$compare" "$today" "$work/newer"
ok "a member in the middle is no addition" \
  differs device_api.h 's/^  void \*context; .*/&\n  void *inserted;/' BpDeviceApi
ok "a parameter of another type is no addition" \
  differs device_api.h 's/(\*stream_sync)(void \*context, int32_t/(*stream_sync)(void *context, int64_t/' BpDeviceApi
ok "a member of a structure that does not state its size is no addition" \
  differs value.h 's/^} BpByteArray;/  void *later;\n&/' BpByteArray
ok "a constant of another value is no addition" \
  differs device_api.h 's/^\(#define BP_ATTR_UUID *\)21/\199/' BP_ATTR_UUID
ok "a constant less is no addition" differs device_api.h '/^#define BP_ATTR_UUID /d' 'BP_ATTR_UUID is gone'
echo "1..$count"
