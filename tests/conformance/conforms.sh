# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of one plugin each: conforms PLUGIN [OPTION...] runs the kit and prints its results as
# TAP. The test is skipped if the plugin was not built, or has no device.
conforms() {
  local plugin=$1
  if [ "${plugin%.so}" = "$plugin" ] && [ ! -e "$BACKPLANE_PLUGIN_PATH/backplane-$plugin.so" ]; then
    echo "1..0 # SKIP the plugin $plugin was not built"
    return
  fi
  check "$@"
}

# check PLUGIN [OPTION...]: like conforms, for a plugin that exists.
check() {
  local status
  # The check fault.exit ends its process on purpose, without freeing its memory.
  ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 "$top_builddir/backplane" verify --conformance --format tap "$@"
  status=$?
  # Core checks that cannot run on this device report it themselves.
  [ "$status" -eq 0 ] || [ "$status" -eq 3 ]
}
