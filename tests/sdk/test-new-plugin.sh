#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `backplane new-plugin`: the names that it accepts, and the files that it writes.
set -u
. "$top_srcdir/tests/sdk/stage.sh"
backplane=$top_builddir/backplane
export BACKPLANE_SDK_DIR=$top_srcdir/sdk
cd "$work" || exit 1

# The plugin with that name compiles, for any form of the name in C.
compiles() {
  local file
  "$backplane" new-plugin "$1" --directory "$work/$1" || return 1
  for file in "$work/$1"/src/*.c; do
    ${CC:-cc} -D_GNU_SOURCE -Wall -Wextra -Werror -I"$top_srcdir/sdk/include" -fsyntax-only "$file" || return 1
  done
}

# No text and no file name contains the template's name or a placeholder.
is_renamed() {
  ! grep -rniE 'simdev|@[a-z]+@' "$1" &&
    ! find "$1" -name '*simdev*' | grep .
}

writes_json() {
  "$backplane" new-plugin acme --build meson --directory acme-meson/ \
    --maintainer 'A Person <person@simdev.example>' --json >json &&
    grep -q '"directory": "acme-meson"' json && grep -q '"meson.build"' json
}

# The accelerator's plugin and the program that simulates it compile under a chosen name.
writes_an_accelerator() {
  "$backplane" new-plugin string --kind npu --directory npu && is_renamed npu &&
    [ -e npu/debian/rules ] && [ -e npu/.gitignore ] && [ -x npu/tests/conformance.sh ] && [ ! -e npu/src/queue.c ] || return 1
  local file
  for file in npu/src/*.c npu/tests/test-device.c; do
    ${CC:-cc} -D_GNU_SOURCE -Wall -Wextra -Werror -I"$top_srcdir/sdk/include" -I"$top_srcdir/include" -fsyntax-only "$file" || return 1
  done
}

# The host repeats the trial of a plugin only if a variable that its descriptor names changes.
names_its_variables() {
  local name names
  names=$(sed -n 's/.*get_option("\([A-Z_]*\)").*/\1/p' "$1"/src/*.c)
  [ -n "$names" ] || return 1
  for name in $names; do
    grep -qE "\"variables=(.* )?$name[ \\]" "$1"/src/*_plugin.h || return 1
  done
}

has_device_type() {
  local number
  number=$(sed -n 's/^#define ACME_DEVICE_TYPE *//p' backplane-plugin-acme/src/acme.h)
  [ "$number" -gt 61440 ] && [ "$number" -le 65535 ]
}

keeps_what_is_there() {
  mkdir there && touch there/file &&
    fails 1 "exists already" "$backplane" new-plugin zeta --directory there &&
    [ "$(ls there)" = file ] && ! ls -d there.* 2>/dev/null
}

ok name-with-capitals-is-refused fails 2 "'Acme' cannot be" "$backplane" new-plugin Acme
ok name-with-a-dash-is-refused fails 2 "'acme-2' cannot be" "$backplane" new-plugin acme-2
ok name-beginning-with-a-digit-is-refused fails 2 "'2acme' cannot be" "$backplane" new-plugin 2acme
ok empty-name-is-refused fails 2 "'' cannot be" "$backplane" new-plugin ''
ok name-of-33-letters-is-refused fails 2 "2 to 32" "$backplane" new-plugin "$(printf 'a%.0s' {1..33})"
ok no-name-is-a-usage-error fails 2 "takes one name" "$backplane" new-plugin
ok published-kind-is-refused fails 1 "'hexagon' is taken by the kind of device hexagon of DLPack" "$backplane" new-plugin hexagon
ok name-of-ours-is-refused fails 1 "'bp' is taken by Backplane itself" "$backplane" new-plugin bp
for word in auto help name pci plugin uuid; do
  ok "word-of-preferences-is-refused-$word" fails 1 "'$word' is taken by Backplane itself" "$backplane" new-plugin $word
done
ok installed-target-is-refused fails 1 "'llvm' is taken by the plugin" env BACKPLANE_PLUGIN_PATH="$BACKPLANE_PLUGIN_PATH" "$backplane" new-plugin llvm
ok unknown-build-is-refused fails 2 "autotools or meson" "$backplane" new-plugin acme --build cmake
ok unknown-kind-is-refused fails 2 "device (a device with" "$backplane" new-plugin acme --kind gpu
ok missing-sdk-names-the-variable fails 1 "BACKPLANE_SDK_DIR names no folder of the SDK" env BACKPLANE_SDK_DIR=/nowhere "$backplane" new-plugin acme
ok what-is-there-is-kept keeps_what_is_there
ok writes-the-project "$backplane" new-plugin acme
ok leaves-no-word-of-the-template is_renamed backplane-plugin-acme
ok takes-a-private-device-type has_device_type
ok writes-it-once fails 1 "exists already" "$backplane" new-plugin acme
ok json-lists-the-files writes_json
ok json-has-the-error ends_saying 1 '"message": "backplane-plugin-acme exists already' "$backplane" new-plugin acme --json
ok directory-may-end-in-a-slash "$backplane" new-plugin acme --directory acme-slash//
ok maintainer-is-named grep -qF 'Maintainer: A Person <person@simdev.example>' acme-meson/debian/control
ok meson-has-no-autotools test ! -e acme-meson/configure.ac -a -e acme-meson/meson.build
ok name-may-be-a-word-of-c compiles string
ok writes-an-accelerator writes_an_accelerator
ok descriptor-names-the-variables-that-are-read names_its_variables npu
echo "1..$count"
