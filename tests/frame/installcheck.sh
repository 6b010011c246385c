#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `make installcheck`: an application and a plugin are built with only the installed files and their
# pkg-config files, and work together. Prints TAP. Needs in its environment: PKG_CONFIG, CC, libdir.
set -u

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PKG_CONFIG_PATH=$libdir/pkgconfig LD_LIBRARY_PATH=$libdir
unset BACKPLANE_PLUGIN_PATH
number=0 failed=0

report() {
  number=$((number + 1))
  if [ "$1" -eq 0 ]; then
    echo "ok $number - $2"
  else
    failed=1
    echo "not ok $number - $2"
    sed 's/^/# /' "$work/log"
  fi
}

cat >"$work/application.c" <<'C'
#include <backplane/error.h>
#include <backplane/plugins.h>
#include <backplane/version.h>
#include <stdio.h>

int main(void) {
  BpPluginList *list = bp_plugin_list();
  if (!list) {
    printf("%s\n", bp_error_message());
    return 1;
  }
  printf("version %s\n", bp_version());
  for (size_t i = 0; i < bp_plugin_list_size(list); i++) {
    const BpPluginInfo *info = bp_plugin_list_get(list, i);
    printf("plugin %s state %d %s %s\n", info->name, info->state, info->path, info->reason);
  }
  bp_plugin_list_free(list);
  return 0;
}
C

cat >"$work/plugin.c" <<'C'
#include <backplane/plugin.h>

BP_PLUGIN_DESCRIPTOR("abi=" BP_ABI_NEEDED_TEXT "\nname=odd\nversion=1\nlicense=0BSD\ndescription=A test\n"
                     "entry=bp_plugin_entry_odd\nprovides=odd.answer\ndevices=\ntargets=\nlibraries=\n");

static int32_t initialize(void *context) {
  (void)context;
  return 0;
}

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_odd(const BpHost *host, BpPlugin *plugin);

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_odd(const BpHost *host, BpPlugin *plugin) {
  (void)host;
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return 0;
}
C

cd "$work" || exit 1
$CC -Wall -Wextra -Werror -o application application.c $($PKG_CONFIG --cflags --libs backplane) \
  >log 2>&1
report $? "an application builds with backplane.pc"

version=$($PKG_CONFIG --modversion backplane)
./application >log 2>&1 && grep -qx "version $version" log
report $? "it runs with the version that backplane.pc says"

wanted=0
for plugin in "$($PKG_CONFIG --variable=plugindir backplane-plugin-1)"/*.so; do
  [ -e "$plugin" ] || continue
  grep -qF " state 0 $plugin" log || wanted=1
done
report $wanted "it finds every installed plugin, all with good descriptors"

mkdir plugins
$CC -Wall -Wextra -Werror -fvisibility=hidden -shared -fPIC -Wl,-z,defs -o plugins/odd.so plugin.c \
  $($PKG_CONFIG --cflags backplane-plugin-1) >log 2>&1
report $? "a plugin builds with backplane-plugin-1.pc alone"

BACKPLANE_PLUGIN_PATH=$work/plugins ./application >log 2>&1 &&
  grep -qF "plugin odd state 0 $work/plugins/odd.so" log
report $? "the application finds it on BACKPLANE_PLUGIN_PATH"

echo "1..$number"
((failed == 0))
