#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# dh_backplane: the dependencies of a plugin's package, from its notes. The sections come from an
# `objcopy` of the test's own, so that they may be of any machine.
set -u
dh_backplane=$top_srcdir/packaging/dh_backplane
perl -MDebian::Debhelper::Dh_Lib -e 1 2>/dev/null || { echo "1..0 # SKIP debhelper is not installed"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
plugins=debian/backplane-plugin-odd/usr/lib/somewhere/backplane/plugins
export PATH=$work/bin:$PATH
number=0 failed=0
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

# plugin ORDER DESCRIPTOR: an ELF file of that byte order, < or >, with that descriptor.
plugin() {
  local class='\002\001'
  [ "$1" = '<' ] || class='\002\002'
  rm -rf debian/backplane-plugin-odd debian/*.substvars
  mkdir -p "$plugins"
  printf "\\177ELF$class" >"$plugins/odd.so"
  order=$1
  note .note.backplane Backplane "$2"
}

# note SECTION OWNER TEXT: one more note, as BP_ELF_NOTE makes it.
note() {
  perl -e 'my ($order, $owner, $text) = @ARGV;
    my ($name, $body) = ("$owner\0", "$text\0");
    print pack("L${order}3", length($name), length($body), 1),
      map { $_ . "\0" x (-length($_) & 3) } $name, $body' "$order" "$2" "$3" >>"$plugins/odd.so$1"
}

# gives NAME LINE...: dh_backplane sets these variables and no others.
gives() {
  local name=$1 log
  shift
  number=$((number + 1))
  if log=$(perl "$dh_backplane" 2>&1) && [ "$(sort debian/*.substvars)" = "$(printf '%s\n' "$@")" ]; then
    echo "ok $number - $name"
    return
  fi
  echo "not ok $number - $name"
  { echo "$log"; cat debian/*.substvars; } 2>&1 | sed 's/^/# /'
  failed=1
}

# refuses NAME PATTERN: it fails, and its message has the pattern.
refuses() {
  local log
  number=$((number + 1))
  if ! log=$(perl "$dh_backplane" 2>&1) && grep -qE "$2" <<<"$log"; then
    echo "ok $number - $1"
    return
  fi
  echo "not ok $number - $1"
  sed 's/^/# /' <<<"$log"
  failed=1
}

descriptor=$'abi=0.7\nname=odd\nlibraries=liba.so.1|liba.so.2 libb.so.1\npackage=a-runtime b\n'
for order in '<' '>'; do
  plugin "$order" "$descriptor"
  note .note.dlopen FDO '[{"soname":["liba.so.2"]},{"soname":["libb.so.1"],"priority":"required"}]'
  gives "the notes of a machine whose byte order is $order" 'backplane:Depends=backplane-plugin-abi-0 (= 0.7)' \
    'dlopen:Depends=b' 'dlopen:Recommends=a-runtime'
done

plugin '<' "$descriptor"
note .note.dlopen FDO '[{"soname":["liba.so.1"],"priority":"suggested"}]'
note .note.dlopen Else 'no JSON'
note .note.dlopen FDO '[{"soname":["libb.so.1"],"priority":"suggested"}]'
gives "several notes in the section, one of another owner" \
  'backplane:Depends=backplane-plugin-abi-0 (= 0.7)' 'dlopen:Suggests=a-runtime, b'

plugin '<' $'abi=2.3\nname=odd\n'
gives "an ABI that is declared" 'backplane:Depends=backplane-plugin-abi-2 (>= 2.3)'

plugin '<' $'name=odd\n'
refuses "a descriptor without abi is an error" 'odd.so: its descriptor has no abi'
plugin '<' "$descriptor"
note .note.dlopen FDO '[{"soname":["libnobody-has-it.so.9"]}]'
refuses "a library of no known package is an error" 'libnobody-has-it.so.9: no package is known'
plugin '<' "$descriptor"
note .note.dlopen FDO '[{"soname":'
refuses "a note that is no JSON is an error" 'odd.so: .note.dlopen: '
plugin '<' "$descriptor"
note .note.dlopen FDO '[{"soname":["liba.so.1"],"priority":"at all costs"}]'
refuses "an unknown priority is an error" 'no such priority: at all costs'
plugin '<' "$descriptor"
note .note.dlopen FDO '[]'
truncate -s -4 "$plugins/odd.so.note.dlopen"
refuses "a note that is cut short is an error" 'its section .note.dlopen is no note'
plugin '<' "$descriptor"
rm "$plugins/odd.so.note.backplane"
refuses "a file without a descriptor is an error" 'odd.so has no descriptor'
plugin '<' "$descriptor"
echo text >"$plugins/odd.so"
refuses "a file that is not ELF is an error" 'odd.so is no ELF file'

echo "1..$number"
exit "$failed"
