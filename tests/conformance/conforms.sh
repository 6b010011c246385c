# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of one plugin each: conforms PLUGIN [OPTION...] passes on what the kit says of
# it as TAP. Where the plugin was not built, or has no device, that is skipped.
conforms() {
  local plugin=$1
  if [ "${plugin%.so}" = "$plugin" ] && [ ! -e "$BACKPLANE_PLUGIN_PATH/backplane-$plugin.so" ]; then
    echo "1..0 # SKIP the plugin $plugin was not built"
    return
  fi
  check "$@"
}

# check PLUGIN [OPTION...]: the same for a plugin that is there.
check() {
  local status
  # fault.exit ends its process with all that it made, on purpose.
  ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 "$top_builddir/backplane" verify --conformance --format tap "$@"
  status=$?
  # Core checks that are not possible here say so themselves.
  [ "$status" -eq 0 ] || [ "$status" -eq 3 ]
}
