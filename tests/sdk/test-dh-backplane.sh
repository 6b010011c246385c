#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# dh_backplane determines the dependencies of a plugin's package from the plugin's ELF notes. The test has its own
# `objcopy`, so that the notes may belong to any machine.
set -u
dh_backplane=$top_srcdir/packaging/dh_backplane
perl -MDebian::Debhelper::Dh_Lib -e 1 2>/dev/null || { echo "1..0 # SKIP debhelper is not installed"; exit 0; }
. "$top_srcdir/tests/tap.sh"
plugins=debian/backplane-plugin-odd/usr/lib/somewhere/backplane-1/plugins
export PATH=$work/bin:$PATH
cd "$work" || exit 1
mkdir -p bin debian
cat >bin/objcopy <<'SH'
#!/bin/sh
# objcopy -O binary --only-section=NAME FILE OUTPUT
cat "$4${3#--only-section=}" >"$5" 2>/dev/null || :
SH
chmod +x bin/objcopy
cat >debian/control <<'CONTROL'
Source: backplane-plugin-odd
Build-Depends: debhelper-compat (= 13)

Package: backplane-plugin-odd
Architecture: any
CONTROL
printf 'backplane-plugin-odd (1) unstable; urgency=low\n\n  * x\n\n -- x <x@example.org>  %s\n' \
  'Sat, 21 Nov 2026 12:00:00 +0000' >debian/changelog

# plugin ORDER DESCRIPTOR: writes an ELF file of that byte order (< or >) with that descriptor.
plugin() {
  local class='\002\001'
  [ "$1" = '<' ] || class='\002\002'
  rm -rf debian/backplane-plugin-odd debian/*.substvars
  mkdir -p "$plugins"
  printf "\\177ELF$class" >"$plugins/odd.so"
  order=$1
  note .note.backplane Backplane "$2"
}

# note SECTION OWNER TEXT: adds a note, as BP_ELF_NOTE makes it.
note() {
  perl -e 'my ($order, $owner, $text) = @ARGV;
    my ($name, $body) = ("$owner\0", "$text\0");
    print pack("L${order}3", length($name), length($body), 1),
      map { $_ . "\0" x (-length($_) & 3) } $name, $body' "$order" "$2" "$3" >>"$plugins/odd.so$1"
}

# gives LINE...: dh_backplane sets these variables and no others.
gives() {
  perl "$dh_backplane" || return 1
  cat debian/*.substvars
  [ "$(sort debian/*.substvars)" = "$(printf '%s\n' "$@")" ]
}

# refuses TEXT: dh_backplane fails, and its message contains the text.
refuses() {
  local status=0
  perl "$dh_backplane" >"$work/out" 2>&1 || status=$?
  cat "$work/out"
  [ "$status" -ne 0 ] && grep -qF -- "$1" "$work/out"
}

descriptor=$'abi=1.0\nname=odd\nlibraries=liba.so.1|liba.so.2 libb.so.1\npackage=a-runtime b\n'
for order in '<' '>'; do
  plugin "$order" "$descriptor"
  note .note.dlopen FDO '[{"soname":["liba.so.2"]},{"soname":["libb.so.1"],"priority":"required"}]'
  ok "the notes of a machine whose byte order is $order" gives 'backplane:Depends=backplane-plugin-abi-1 (>= 1.0)' \
    'dlopen:Depends=b' 'dlopen:Recommends=a-runtime'
done

plugin '<' "$descriptor"
note .note.dlopen FDO '[{"soname":["liba.so.1"],"priority":"suggested"}]'
note .note.dlopen Else 'no JSON'
note .note.dlopen FDO '[{"soname":["libb.so.1"],"priority":"suggested"}]'
ok "several notes in the section, one of another owner" gives \
  'backplane:Depends=backplane-plugin-abi-1 (>= 1.0)' 'dlopen:Suggests=a-runtime, b'

plugin '<' $'abi=2.3\nname=odd\n'
ok "an ABI that is declared" gives 'backplane:Depends=backplane-plugin-abi-2 (>= 2.3)'

plugin '<' $'name=odd\n'
ok "a descriptor without abi is an error" refuses 'odd.so: its descriptor has no abi'
plugin '<' "$descriptor"
note .note.dlopen FDO '[{"soname":["libnobody-has-it.so.9"]}]'
ok "a library of no known package is an error" refuses 'libnobody-has-it.so.9: no package is known'
plugin '<' "$descriptor"
note .note.dlopen FDO '[{"soname":'
ok "a note that is no JSON is an error" refuses 'odd.so: .note.dlopen: '
plugin '<' "$descriptor"
note .note.dlopen FDO '[{"soname":["liba.so.1"],"priority":"at all costs"}]'
ok "an unknown priority is an error" refuses 'no such priority: at all costs'
plugin '<' "$descriptor"
note .note.dlopen FDO '[]'
truncate -s -4 "$plugins/odd.so.note.dlopen"
ok "a note that is cut short is an error" refuses 'its section .note.dlopen is no note'
plugin '<' "$descriptor"
rm "$plugins/odd.so.note.backplane"
ok "a file without a descriptor is an error" refuses 'odd.so has no descriptor'
plugin '<' "$descriptor"
echo text >"$plugins/odd.so"
ok "a file that is not ELF is an error" refuses 'odd.so is no ELF file'

echo "1..$count"
