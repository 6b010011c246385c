#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `backplane run`: the forms of input values, the forms of results, and comparisons with expected values.
set -u
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/tools/onnx.sh"
backplane=$top_builddir/backplane
digits=$top_srcdir/examples/digits
seven="image=$digits/images/7-3710.png"
export XDG_DATA_HOME=/proc/nonexistent XDG_CONFIG_HOME=/proc/nonexistent BACKPLANE_DEVICE=cpu

# bytes HEX: prints the bytes.
bytes() {
  printf '%b' "$(sed 's/../\\x&/g' <<<"$1")"
}

# array DESCR SHAPE HEX: writes a .npy file, whose header has 118 bytes.
array() {
  local header
  header=$(printf "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" "$1" "$2")
  printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$header" && bytes "$3"
}

# of MODEL VALUE... : prints the values of y, in one line of JSON; fails if the run fails.
of() {
  "$backplane" run "$1" "${@:2}" --json >"$work/out" && tr -d ' \n' <"$work/out" | sed 's/.*"values":\[\([^]]*\)\].*/\1/'
}

# gives VALUES MODEL OPTION...
gives() {
  local got
  got=$(of "${@:2}")
  echo "got $got"
  [ "$got" = "$1" ]
}

relu 01 "$(part 0a 0804)" >"$work/four.onnx"                                # float32, 4
relu 01 "$(part 0a "$(part 12 6e)")$(part 0a 0802)" >"$work/open.onnx"      # float32, nx2
relu 01 "$(part 0a "$(part 12 6e)")" >"$work/line.onnx"                      # float32, n
relu 0b "$(part 0a 0801)" >"$work/one.onnx"                                 # float64, 1
relu 0a "$(part 0a 0804)" >"$work/half.onnx"                                # float16, 4
relu 07 "$(part 0a 0802)" >"$work/whole.onnx"                               # int64, 2
# -1.5, -0.5, 0.5, 1.5, deflated, with 64-bit sizes in the local header, as NumPy writes it.
base64 -d <<<UEsDBC0AAAAIAAAAIQD6vFG5//////////8FABQAeC5ucHkBABAAkAAAAAAAAABRAAAAAAAAAJvsF+obEMnIUMZQrZ6SWpxcpG6loG6TZqKuo6Cell9UUpSYF59flJIKEndLzClOBYoXZyQWpAL5GiY6mjoKtQoUAC4GhgP7GRgYQNgeyLYHAFBLAQItAy0AAAAIAAAAIQD6vFG5UQAAAJAAAAAFAAAAAAAAAAAAAACAAQAAAAB4Lm5weVBLBQYAAAAAAQABADMAAACIAAAAAAA= >"$work/x.npz"
bytes 0000c0bf000000bf0000003f0000c03f >"$work/x.bin"
four=(gives 0.0,0.0,0.5,1.5 "$work/four.onnx")

# A red image, 8 by 8: the first plane is bright and the others are dark; grey is 0.299 of the first plane.
base64 -d <<</9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAIBAQEBAQIBAQECAgICAgQDAgICAgUEBAMEBgUGBgYFBgYGBwkIBgcJBwYGCAsICQoKCgoKBggLDAsKDAkKCgr/2wBDAQICAgICAgUDAwUKBwYHCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgr/wAARCAAIAAgDAREAAhEBAxEB/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/8QAHwEAAwEBAQEBAQEBAQAAAAAAAAECAwQFBgcICQoL/8QAtREAAgECBAQDBAcFBAQAAQJ3AAECAxEEBSExBhJBUQdhcRMiMoEIFEKRobHBCSMzUvAVYnLRChYkNOEl8RcYGRomJygpKjU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dXZ3eHl6goOEhYaHiImKkpOUlZaXmJmaoqOkpaanqKmqsrO0tba3uLm6wsPExcbHyMnK0tPU1dbX2Nna4uPk5ebn6Onq8vP09fb3+Pn6/9oADAMBAAIRAxEAPwD4vr+Uz/fw/9k= >"$work/red.jpg"
jpeg_is_a_value() {
  relu 01 "$(part 0a 0801)$(part 0a 0803)$(part 0a 0808)$(part 0a 0808)" >"$work/colour.onnx"
  relu 01 "$(part 0a 0808)$(part 0a "$(part 12 77)")" >"$work/grey.onnx"
  of "$work/colour.onnx" --input "x=$work/red.jpg" | tr , '\n' >"$work/planes" &&
    awk 'NR <= 64 ? $1 < 0.98 : $1 > 0.02 { wrong = 1 } END { exit wrong || NR != 192 }' "$work/planes" && cp "$work/red.jpg" "$work/red.JPEG" &&
    of "$work/grey.onnx" --input "x=$work/red.JPEG" | tr , '\n' >"$work/planes" && describes_shape 8x8 &&
    awk '$1 < 0.28 || $1 > 0.32 { wrong = 1 } END { exit wrong || NR != 64 }' "$work/planes"
}

# The limit is too low for a plugin, but high enough for the program to start.
names_the_limit_of_files() {
  local files
  for files in 16 14 12 10; do
    (ulimit -n "$files" && LD_LIBRARY_PATH=$top_builddir/.libs exec "$top_builddir/.libs/backplane" run "$digits/digits.onnx" --input "$seven") \
      >"$work/out" 2>&1 && continue
    cat "$work/out"
    grep -q 'more files, and a plugin needs .*ulimit -n' "$work/out" && return
  done
  return 1
}

# A grey image of 8x8 pixels with that many scans.
make_scans() {
  local i
  printf '\xff\xd8\xff\xdb\0\x43\0' && printf '\x01%.0s' {1..64}
  printf '\xff\xc2\0\x0b\x08\0\x08\0\x08\x01\x01\x11\0'
  for i in '\0' '\x10'; do
    printf "\\xff\\xc4\\0\\x14$i\\x01" && printf '\0%.0s' {1..16}
  done
  printf '\xff\xda\0\x08\x01\x01\0\0\0\0\x7f'
  for ((i = 1; i < $1; i++)); do
    printf '\xff\xda\0\x08\x01\x01\0\x01\x3f\0\x7f'
  done
  printf '\xff\xd9'
}
limits_scans() {
  make_scans 2 >"$work/two.jpg" && make_scans 600 >"$work/scans.jpg" &&
    "$backplane" run "$work/grey.onnx" --input "x=$work/two.jpg" >/dev/null &&
    fails 1 "more than 500 scans" "$backplane" run "$work/grey.onnx" --input "x=$work/scans.jpg"
}
refuses_jpegs() {
  head -c 615 "$work/red.jpg" >"$work/short.jpg" && cp "$work/x.bin" "$work/no.jpg" && : >"$work/empty.jpg"
  fails 1 "short.jpg: " "$backplane" run "$work/colour.onnx" --input "x=$work/short.jpg" &&
    fails 1 "no.jpg: Not a JPEG file" "$backplane" run "$work/colour.onnx" --input "x=$work/no.jpg" &&
    printf '\377\330\377\300\0\024\10\0\10\0\10\4\1\21\0\2\21\0\3\21\0\4\21\0\377\332\0\16\4\1\0\2\0\3\0\4\0\0\77\0\377\331' >"$work/cmyk.jpg" &&
    fails 1 "its colours are CMYK" "$backplane" run "$work/colour.onnx" --input "x=$work/cmyk.jpg" &&
    fails 1 "empty.jpg: " "$backplane" run "$work/colour.onnx" --input "x=$work/empty.jpg" &&
    fails 1 "nowhere.jpg" "$backplane" run "$work/colour.onnx" --input "x=$work/nowhere.jpg" &&
    fails 1 "is 8 pixels wide and 8 high, the input is 28 by 28" "$backplane" run "$digits/digits.onnx" --shape image=1x1x28x28 --input "image=$work/red.jpg"
}

# The size of the file determines an open extent.
extent_from_the_size() {
  gives 0.0,0.0,0.5,1.5 "$work/open.onnx" --input "x=$work/x.bin" && describes_shape 2x2 &&
    head -c 7 "$work/x.bin" >"$work/short.bin" &&
    fails 1 "short.bin has 7 bytes; input 'x' is float32 ?x2, which takes a multiple of 8" "$backplane" run "$work/open.onnx" --input "x=$work/short.bin" &&
    fails 1 "short.bin has 7 bytes; input 'x' is float32 4, which takes 16" "$backplane" run "$work/four.onnx" --input "x=$work/short.bin"
}

describes_shape() {
  [ "$(tr -d ' \n' <"$work/out" | sed 's/.*"shape":\[\([^]]*\)\].*/\1/')" = "${1/x/,}" ]
}

# Numbers are rounded to the nearest half float, ties to even; 65520 is too large for a half float.
rounds_to_halves() {
  gives 2048.0,2052.0,5.9604644775390625e-08,null "$work/half.onnx" --input 'x=[2049,2051,5e-8,65520]'
}

refuses_lists() {
  local run=("$backplane" run "$work/four.onnx" --input)
  fails 2 "a list stands beside a number" "${run[@]}" 'x=[1,[2]]' && fails 2 "a number stands beside a list" "${run[@]}" 'x=[[1],2]' &&
    fails 2 "it lacks a comma" "${run[@]}" 'x=[1 2]' && fails 2 "it lacks a comma" "${run[@]}" 'x=[1' &&
    fails 2 "lists are not of one length" "${run[@]}" 'x=[[1],[2,3]]' && fails 2 "something follows its end" "${run[@]}" 'x=[1]]' &&
    fails 2 "'one' is no float32" "${run[@]}" 'x=[one]' && fails 2 "32 dimensions" "${run[@]}" "x=$(printf '[%.0s' {1..40})" &&
    fails 1 "is float32 4, and the value given is float32 2x2" "${run[@]}" 'x=[[1,2],[3,4]]' &&
    fails 2 "'1.5' is no int64" "$backplane" run "$work/whole.onnx" --input 'x=[1.5,2]' &&
    fails 2 "'9223372036854775808' is no int64" "$backplane" run "$work/whole.onnx" --input 'x=[9223372036854775808,2]' &&
    fails 2 "'-9223372036854775809' is no int64" "$backplane" run "$work/whole.onnx" --input 'x=[-9223372036854775809,2]' &&
    fails 2 "'9007199254740993.0' is no int64" "$backplane" run "$work/whole.onnx" --input 'x=[9007199254740993.0,2]'
}

# An archive's member has another name, and the bytes of an archive are changed one by one.
refuses_archives() {
  local at size status
  fails 1 "has no input 'x'" "$backplane" run "$digits/digits.onnx" --input "$work/x.npz" || return 1
  size=$(stat -c %s "$work/x.npz")
  for ((at = 0; at < size; at += 9)); do
    cp "$work/x.npz" "$work/flipped.npz"
    printf '\252' | dd of="$work/flipped.npz" bs=1 seek=$at conv=notrunc status=none
    "$backplane" run "$work/four.onnx" --input "x=$work/flipped.npz" >/dev/null 2>"$work/err"
    status=$?
    [ $status = 0 ] || { [ $status = 1 ] && grep -q flipped.npz "$work/err"; } || {
      echo "byte $at: status $status"
      cat "$work/err"
      return 1
    }
  done
  head -c 100 "$work/x.npz" >"$work/cut.npz"
  fails 1 "no ZIP directory" "$backplane" run "$work/four.onnx" --input "x=$work/cut.npz"
}

empty_list() {
  gives '' "$work/line.onnx" --input 'x=[]' && describes_shape 0
}

# A pipe is not read as an empty file, and its writer is not waited for.
refuses_pipes() {
  mkfifo "$work/silent.npz" "$work/silent.npy" || return
  fails 1 "silent.npz: it is not a regular file" timeout 60 "$backplane" run "$work/four.onnx" --input "x=$work/silent.npz" &&
    fails 1 "silent.npy: it is not a regular file" timeout 60 "$backplane" run "$work/four.onnx" --input "x=$work/silent.npy" ||
    return
  mkfifo "$work/pipe.npz" && { cat "$work/x.npz" >"$work/pipe.npz" & }
  fails 1 "pipe.npz: it is not a regular file" "$backplane" run "$work/four.onnx" --input "x=$work/pipe.npz" &&
    fails 1 "it is not a regular file" "$backplane" run "$work/four.onnx" --input 'x=[1,2,3,4]' --top 1 --labels <(echo a) &&
    fails 1 "Is a directory" "$backplane" run "$work/four.onnx" --input 'x=[1,2,3,4]' --top 1 --labels "$work"
}

# With a limit of zero bytes for a file, each writer names the file that it cannot write, and leaves no file behind.
ends_at_the_limit_of_file_sizes() {
  local file option command
  mkdir "$work/limit" && "$backplane" compile "$digits/digits.onnx" --shape image=1x1x28x28 --target c -o "$work/limit.so" ||
    return 1
  for file in 'run --output a.npz' 'run --output logits.npy' 'profile --trace t.json' 'report --output r.html'; do
    read -r command option file <<<"$file"
    [ "$file" = logits.npy ] && option="$option $work/limit/" || option="$option $work/limit/$file"
    [ "$command" != run ] || option="$option --input $seven"
    # shellcheck disable=SC2086
    (ulimit -f 0 && "$backplane" $command "$work/limit.so" --device cpu $option 2>&1; echo "status $?") | cat >"$work/err"
    grep -q "^backplane: $work/limit/$file: .*File too large" "$work/err" && grep -qx "status 1" "$work/err" || {
      cat "$work/err"
      return 1
    }
  done
  [ -z "$(ls -A "$work/limit")" ]
}

# A link to an open file, as /dev/stdout is, stays.
writes_into_open_files() {
  ln -s /proc/self/fd/5 "$work/open" &&
    "$backplane" profile "$work/limit.so" --device cpu --seconds 0 --trace "$work/open" 5>"$work/trace" &&
    [ -L "$work/open" ] && grep -q traceEvents "$work/trace" &&
    "$backplane" profile "$work/limit.so" --device cpu --seconds 0 --trace /dev/stdout >"$work/trace" 2>"$work/errors" &&
    [ -L /dev/stdout ] && grep -q traceEvents "$work/trace" && ! grep -q traceEvents "$work/errors"
}

# A process that is killed while it compiles to a new file leaves no file with another name.
new_library_has_one_name() {
  mkdir "$work/new" &&
    ASAN_OPTIONS=detect_leaks=0 strace -f -qq -o "$work/calls" -e trace=linkat "$backplane" compile "$digits/digits.onnx" \
      --shape image=1x1x28x28 --target c -o "$work/new/digits.so" &&
    grep -q '"digits.so"' "$work/calls" && ! grep -q '"\.backplane-' "$work/calls"
}

# An archive has 16 bits for the length of a name, "y...y.npy".
names_of_archives() {
  unary Relu 01 "$(part 0a 0804)" "$(printf 'y%.0s' {1..65532})" >"$work/long.onnx"
  fails 1 "has 65532 bytes, and in an archive it has at most 65531" "$backplane" run "$work/long.onnx" --input 'x=[1,2,3,4]' -o "$work/long.npz"
}

# After "--" a file may have any name.
names_with_dashes() {
  mkdir "$work/dashes" && cp "$work/four.onnx" "$work/dashes/-x.onnx" || return
  (cd "$work/dashes" && "$backplane" run --input 'x=[1,2,3,4]' -o -y.npz -- -x.onnx && "$backplane" compile -o -x.so -- -x.onnx &&
    "$backplane" run --input 'x=[1,2,3,4]' --expect y=-y.npz -- -x.so && fails 2 "run takes one model" "$backplane" run -- -x.so --json &&
    "$backplane" compare --input 'x=[1,2,3,4]' -- ../four.onnx -x.onnx)
}

# A name has at most 255 bytes.
longest_names() {
  local name
  name=$(printf 'y%.0s' {1..251})
  unary Relu 01 "$(part 0a 0804)" "$name" >"$work/longest.onnx" && mkdir "$work/longest" &&
    "$backplane" run "$work/longest.onnx" --input 'x=[1,2,3,4]' --output "$work/longest" &&
    "$backplane" run "$work/longest.onnx" --input 'x=[1,2,3,4]' --output "$work/longest/$name.npz" --expect "$name=$work/longest/$name.npy" &&
    [ "$(ls -A "$work/longest")" = "$(printf '%s\n' "$name.npy" "$name.npz")" ]
}

# A written file can be read again, by its name.
archive_of_outputs() {
  "$backplane" run "$work/four.onnx" --input "$work/x.npz" -o "$work/y.npz" &&
    says '0 of 4' "$backplane" run "$work/four.onnx" --input "$work/x.npz" --expect "$work/y.npz" &&
    says '0 of 4' "$backplane" run "$work/four.onnx" --input "$work/x.npz" --expect "y=$work/y.npz" &&
    fails 1 "cannot write" "$backplane" run "$work/four.onnx" --input "$work/x.npz" -o "$work/nowhere/y.npz"
}

# compares STATUS TEXT VALUE HEX OPTION...: y = Relu(VALUE) against the floats.
compares() {
  array '<f4' '4,' "$4" >"$work/expected.npy"
  ends_saying "$1" "$2" "$backplane" run "$work/four.onnx" --input "x=$3" --expect "$work/expected.npy" "${@:5}"
}

# 1, 2, 4, 8, and an array that differs from it by 0.5 at 1 and by 1 at 3.
says_the_largest_and_where() {
  compares 1 '1 at [3]' '[1,2,4,8]' 0000803f00002040000080400000e040 &&
    grep -q '0.2 at \[1\] *2 of 4' "$work/out" &&
    grep -q "output 'y' differs from .*expected.npy: 2 of 4 elements .*; the first is 2 at \[1\], expected 2.5" "$work/out"
}

# The tolerance is that of numpy.testing.assert_allclose: atol + rtol * |expected|, the limit included.
tolerance_is_numpys() {
  local expected=0000803f00002040000080400000e040
  compares 0 '0 of 4' '[1,2,4,8]' $expected --rtol 0 --atol 1 && compares 1 '1 of 4' '[1,2,4,8]' $expected --rtol 0 --atol 0.99 &&
    compares 0 '0 of 4' '[1,2,4,8]' $expected --rtol 0.2 --atol 0 && compares 1 '1 of 4' '[1,2,4,8]' $expected --rtol 0.19 --atol 0 &&
    compares 2 'each is a number of at least 0' '[1,2,4,8]' $expected --atol -1
}

infinities() {
  compares 0 '0 of 4' '[inf,2,4,8]' 0000807f000000400000804000000041 &&
    compares 1 'inf at [1]' '[1,inf,4,8]' 0000803f000000400000804000000041 &&
    compares 1 'inf at [0]' '[1,2,4,8]' 0000c07f000000400000804000000041 &&
    compares 1 'inf at [0]' '[1,2,4,8]' 0000807f000000400000804000000041
}

nan_is_nan() {
  unary Neg 01 "$(part 0a 0801)" >"$work/negative.onnx" && array '<f4' '1,' 0000c07f >"$work/nan.npy" &&
    says '0 of 1' "$backplane" run "$work/negative.onnx" --input x=nan --expect "$work/nan.npy" &&
    fails 1 '1 of 1 elements' "$backplane" run "$work/negative.onnx" --input x=1 --expect "$work/nan.npy"
}

difference_in_json() {
  compares 1 '' '[1,2,4,8]' 0000807f000000400000804000000041 --json
  tr -d ' \n' <"$work/out" | grep -qF '"matches":false,"elements":4,"mismatches":1,"max_absolute":null,"max_absolute_at":[0],"max_relative":null,"max_relative_at":[0]' &&
    compares 0 '' '[1,2,4,8]' 0000803f000000400000804000000041 --json &&
    tr -d ' \n' <"$work/out" | grep -qF '"matches":true,"elements":4,"mismatches":0,"max_absolute":0.0'
}

refuses_expectations() {
  array '<f4' '2,2' 00000000000000000000000000000000 >"$work/square.npy"
  local run=("$backplane" run "$work/four.onnx" --input 'x=[1,2,3,4]' --expect)
  fails 1 "output 'y' against $work/square.npy: the shape is 4; expected 2x2" "${run[@]}" "$work/square.npy" &&
    fails 1 "no output 'z'; it has: y" "${run[@]}" "z=$work/square.npy" && fails 1 "No such file" "${run[@]}" "$work/nowhere.npy" &&
    fails 1 "no output 'x'; it has: y" "${run[@]}" "$work/x.npz"
}

# Equal numbers keep their order; NaN is last.
best_with_labels() {
  local run=("$backplane" run "$work/four.onnx" --input 'x=[1,7,7,3]' --top)
  printf 'a\nb\nc\nd\n' >"$work/labels" && printf 'a\n' >"$work/few"
  says 'y       []   1      7      b' "${run[@]}" 2 --labels "$work/labels" && grep -qE '^y +\[\] +2 +7 +c$' "$work/out" &&
    ! grep -qE '3 +d$' "$work/out" && says '"label": "b"' "${run[@]}" 2 --labels "$work/labels" --json &&
    fails 1 "few has 1 lines; expected one for each element of an output's last axis: 4 of 'y'" "${run[@]}" 2 --labels "$work/few" &&
    fails 2 "it is for --top N" "$backplane" run "$work/four.onnx" --input 'x=[1,7,7,3]' --labels "$work/few" &&
    fails 2 "at least 1" "${run[@]}" -1
}

# Code for the extents of the inputs is compiled beside the general code, and the run uses it.
specializes() {
  array '<f4' '3, 2' 0000803f000000c000004040000080400000a0c00000c040 >"$work/three.npy"
  gives 1.0,0.0,3.0,4.0,0.0,6.0 "$work/open.onnx" --specialize --input "x=$work/three.npy" || return 1
  tr -d ' \n' <"$work/out" | grep -qF '"specialized":[{"inputs":"x=3x2","runs":1,' || return 1
  "$backplane" run "$work/open.onnx" --specialize --input "x=$work/three.npy" 2>&1 | grep -qF 'specialised for x=3x2 in '
}

# A model without open extents, and a compilation mode for all shapes.
refuses_to_specialize() {
  fails 1 'all shapes of the model were known' "$backplane" run "$work/four.onnx" --specialize --input x=[1,2,3,4] &&
    fails 2 'leave out --measure' "$backplane" run "$work/open.onnx" --specialize --measure --input 'x=[[1,2]]' &&
    fails 2 'Unknown option --specialize' "$backplane" inspect "$work/open.onnx" --specialize
}

pair=$(part 0a "0801$(part 12 "$(part 0a 0802)")") # a tensor, float32, 2
of_type "$(part 22 "$(part 0a "$pair")")" >"$work/sequence.onnx"
of_type "$(part 4a "$(part 0a "$pair")")" >"$work/optional.onnx"

sequences_go_in_and_out() {
  local run=("$backplane" run "$work/sequence.onnx")
  mkdir -p "$work/items" && says "Output 'y': sequence of 2 tensors." "${run[@]}" -i 'x=[1,2]' -i 'x=[3,4]' -o "$work/items" &&
    grep -q "^y.1     float32  2      $work/items/y.1.npy$" "$work/out" && array '<f4' 2, 0000404000008040 | cmp - "$work/items/y.1.npy" &&
    ends 0 "${run[@]}" -i "x=$work/items/y.1.npy" -i 'x=[5,6]' --expect "y.0=$work/items/y.1.npy" &&
    "${run[@]}" -i 'x=[1,2]' --json | tr -d ' \n' | grep -qF '"outputs":[{"name":"y.0","dtype":"float32","shape":[2],"values":[1.0,2.0]}],"lists":{"y":1}' &&
    says "Output 'y': sequence of 0 tensors." "${run[@]}" -i x= &&
    "$backplane" compile "$work/sequence.onnx" --target c -o "$work/sequence.so" &&
    says "sequence of 1 tensor." "$backplane" run "$work/sequence.so" -i 'x=[1,2]' &&
    says "x: sequence of float32 2" "$backplane" inspect model "$work/sequence.so" && says "y: sequence of float32 2" "$backplane" inspect model "$work/sequence.onnx"
}

optionals_go_in_and_out() {
  says "Output 'y': optional of 1 tensor." "$backplane" run "$work/optional.onnx" -i 'x=[1,2]' && grep -q '^y.0 .* 1, 2$' "$work/out" &&
    says "Output 'y': optional without a value." "$backplane" run "$work/optional.onnx" -i x= &&
    "$backplane" run "$work/optional.onnx" -i x= --json | tr -d ' \n' | grep -qF '"outputs":[],"lists":{"y":null}'
}

wrong_lists() {
  fails 2 "input 'x' is given without a value, and once more" "$backplane" run "$work/sequence.onnx" -i x= -i 'x=[1,2]' &&
    fails 2 "input 'x' is given without a value, and once more" "$backplane" run "$work/sequence.onnx" -i 'x=[1,2]' -i x= &&
    fails 2 "--input x=: expected NAME=FILE; only sequences" "$backplane" run "$work/four.onnx" -i x= &&
    fails 1 "no value for x (sequence)" "$backplane" run "$work/sequence.onnx" &&
    fails 1 "tensor 1: dimension 0 of input 'x' is 2" "$backplane" run "$work/sequence.onnx" -i 'x=[1,2]' -i 'x=[1]' &&
    fails 1 "input 'x' is an optional tensor" "$backplane" run "$work/optional.onnx" -i 'x=[1,2]' -i 'x=[3,4]' &&
    fails 1 "no output 'y.1'; it has: y.0" "$backplane" run "$work/sequence.onnx" -i 'x=[1,2]' --expect "y.1=$work/items/y.1.npy" &&
    fails 1 "needs one --target" "$backplane" compile "$work/sequence.onnx" --target c,opencl -o "$work/two.so"
}

# Commands that take each output for one tensor say so.
other_commands_with_lists() {
  ends 0 "$backplane" bench "$work/sequence.onnx" -i 'x=[1,2]' --seconds 0.01 && ends 0 "$backplane" profile "$work/sequence.onnx" -i x= --seconds 0.01 &&
    fails 1 "no value for x (sequence)" "$backplane" bench "$work/sequence.onnx" --seconds 0.01 &&
    fails 1 "'x' of the model is of kind sequence" "$backplane" compare "$work/sequence.onnx" "$work/sequence.onnx" -i 'x=[1,2]'
}

ok list-on-the-command-line-is-a-value "${four[@]}" --input 'x=[-1.5, -0.5, 0.5, 1.5]'
ok number-is-a-value-of-one-element gives 2.5 "$work/one.onnx" --input x=2.5
ok whole-numbers-keep-all-digits gives 9223372036854775807,0 "$work/whole.onnx" --input 'x=[9223372036854775807,-9223372036854775808]'
ok half-floats-are-rounded rounds_to_halves
ok extents-of-the-inputs-are-specialised specializes
ok what-cannot-be-specialised-says-why refuses_to_specialize
ok nested-list-fixes-an-open-extent gives 1.0,0.0,3.0,4.0 "$work/open.onnx" --input 'x=[[1,-2],[3,4]]'
ok list-that-is-none-says-why refuses_lists
ok archive-is-a-value "${four[@]}" --input "x=$work/x.npz"
ok archive-alone-has-the-names-of-inputs "${four[@]}" --input "$work/x.npz"
ok damaged-archive-is-an-error refuses_archives
ok raw-elements-are-a-value "${four[@]}" --input "x=$work/x.bin"
ok raw-elements-say-an-open-extent extent_from_the_size
ok jpeg-is-a-value jpeg_is_a_value
ok damaged-jpeg-is-an-error refuses_jpegs
ok scans-of-a-jpeg-are-limited limits_scans
ok empty-list-is-a-value empty_list
ok pipe-is-no-file refuses_pipes
ok name-that-is-too-long-for-an-archive-is-an-error names_of_archives
ok share-is-of-what-a-graph-compiler-claims fails 2 "--require 0.5: it needs --graph-compiler NAME" "$backplane" run "$work/four.onnx" --require 0.5
# Names of outputs differ only in characters that file names cannot have.
outputs_keep_apart() {
  local file
  unary Relu 01 "$(part 0a 0802)" a/b a_b a_b.1 "a$(printf '\t')b" >"$work/alike.onnx" && mkdir -p "$work/alike" &&
    says "$work/alike/a_b.1.npy" "$backplane" run "$work/alike.onnx" --device cpu --input 'x=[1, 2]' --output "$work/alike" &&
    for file in a_b a_b.1 a_b.1.1 a_b.2; do
      [ -s "$work/alike/$file.npy" ] || return
    done
}
ok outputs-of-one-file-name-are-kept-apart outputs_keep_apart

# A link gives one file two names, as a file system that ignores case does.
outputs_of_one_file() {
  unary Relu 01 "$(part 0a 0802)" A a >"$work/case.onnx" && mkdir -p "$work/case" &&
    unary Relu 01 "$(part 0a 0802)" A >"$work/one.onnx" &&
    "$backplane" run "$work/one.onnx" --device cpu --input 'x=[1, 2]' --output "$work/case" && ln -s A.npy "$work/case/a.npy" &&
    says "$work/case/a.1.npy" "$backplane" run "$work/case.onnx" --device cpu --input 'x=[1, 2]' --output "$work/case"
}
ok outputs-whose-names-are-one-file-are-kept-apart outputs_of_one_file

# A service may have a umask that denies the owner, too.
compiles_under_a_umask() {
  printf '#!/bin/sh\nstat -c %%a . >>"%s"\nexec cc "$@"\n' "$work/modes" >"$work/cc-modes" && chmod 755 "$work/cc-modes" &&
    (umask 0177 && BACKPLANE_CACHE_DIR=$work/masked BACKPLANE_CC=$work/cc-modes "$backplane" compile "$work/four.onnx" --target c \
      --output "$work/masked.so") && cat "$work/modes" && [ "$(sort -u "$work/modes")" = 700 ] &&
    [ "$(stat -c %a "$work/masked" "$work/masked/c" | sort -u)" = 700 ]
}
ok folders-of-the-cache-belong-to-the-owner-under-any-umask compiles_under_a_umask

keeps_private_files_private() {
  local mode
  (umask 022 && touch "$work/private.html" "$work/private.so" && chmod 600 "$work/private.html" "$work/private.so" &&
    "$backplane" report "$work/four.onnx" --device cpu --input 'x=[1, 2, 3, 4]' --seconds 0 --output "$work/private.html" &&
    "$backplane" compile "$work/four.onnx" --target c --output "$work/private.so") || return
  for mode in $(stat -c %a "$work/private.html" "$work/private.so"); do
    echo "$mode"
    [ $((8#$mode & 8#77)) = 0 ] || return
  done
}
ok private-file-that-is-replaced-stays-private keeps_private_files_private

# Expected values are read before the run. An output replaces no file that the command reads, and no file of another
# kind: a model may read it.
keeps_what_it_reads() {
  local kept=$work/kept
  mkdir "$kept" && "$backplane" compile "$digits/digits.onnx" --shape image=1x1x28x28 --target c -o "$kept/m.so" &&
    "$backplane" run "$kept/m.so" --input "image=$digits/images/3-1666.png" --output "$kept" &&
    "$backplane" run "$kept/m.so" --input "image=$digits/images/3-1666.png" --output "$kept/three.npz" &&
    "$backplane" report "$kept/m.so" --device cpu --seconds 0 --json >"$kept/earlier.json" &&
    unary Relu 01 "$(part 0a 0802)" >"$kept/relu.onnx" &&
    "$backplane" run "$kept/relu.onnx" --device cpu --input 'x=[1, -2]' --output "$kept" &&
    sum_with_file y.npy >"$kept/sum.onnx" && mkdir "$kept/dump" &&
    "$backplane" profile "$kept/relu.onnx" --device cpu --input 'x=[1, -2]' --seconds 0 --dump-dir "$kept/dump" &&
    cp "$kept/y.npy" "$kept/dump/0-c-imported.txt" && sum_with_file 0-c-imported.txt >"$kept/dump/dumped.onnx" || return
  for file in data.html data.json data.npz data/logits.npy; do
    mkdir -p "$kept/data" && echo weights >"$kept/$file" || return
  done
  cp -r "$kept" "$work/before" || return
  local reads="would replace a file that the command reads" kind="would replace a file that is no"
  (cd "$kept" && ln m.so link.html &&
    fails 2 "--output ./logits.npy $reads: logits.npy" "$backplane" run m.so --input "$seven" --output . --expect logits.npy &&
    fails 2 "--output three.npz $reads: three.npz" "$backplane" run m.so --input "$seven" --output three.npz --expect three.npz &&
    fails 2 "--trace m.so $reads: m.so" "$backplane" profile m.so --device cpu --seconds 0 --trace m.so &&
    fails 2 "--output link.html $reads: m.so" "$backplane" report m.so --device cpu --seconds 0 --output link.html &&
    fails 2 "--output earlier.json $reads: earlier.json" "$backplane" report m.so --device cpu --seconds 0 --earlier earlier.json -o earlier.json &&
    fails 2 "--output three.npz $reads: image=three.npz" "$backplane" run m.so --input image=three.npz --output three.npz &&
    fails 2 "--output ./y.npy $reads: x=y.npy" "$backplane" run relu.onnx --device cpu --input x=y.npy --output . &&
    fails 2 "--output ./y.npy $reads: ./y.npy" "$backplane" run sum.onnx --device cpu --input 'x=[1, 2]' --output . &&
    fails 2 "--dump-dir dump/0:Relu_0.npy $reads: x=dump/0:Relu_0.npy" "$backplane" profile relu.onnx --device cpu --seconds 0 \
      --input x=dump/0:Relu_0.npy --dump-dir dump &&
    fails 2 "--dump dump may replace a file that the command reads: dump/0-c-imported.txt" "$backplane" compile dump/dumped.onnx \
      --target c --dump dump -o sum.so &&
    fails 2 "--output data.html $kind HTML page" "$backplane" report m.so --device cpu --seconds 0 --output data.html &&
    fails 2 "--trace data.json $kind JSON" "$backplane" profile m.so --device cpu --seconds 0 --trace data.json &&
    fails 2 "--output data.npz $kind .npz file" "$backplane" run m.so --input "$seven" --output data.npz &&
    fails 2 "--output data/logits.npy $kind .npy file" "$backplane" run m.so --input "$seven" --output data &&
    rm link.html && diff -r "$kept" "$work/before")
}
ok no-output-replaces-a-file-that-the-command-reads keeps_what_it_reads

# A file that cannot be read is not taken for one of another kind. Root reads every file with CAP_DAC_OVERRIDE alone.
says_that_it_cannot_read() {
  local before=()
  [ "$(id -u)" != 0 ] || before=(setpriv --bounding-set=-dac_override,-dac_read_search)
  : >"$work/kept/unread.npz" && echo PK >"$work/kept/unread.npz" && chmod 000 "$work/kept/unread.npz" &&
    fails 1 "cannot be read, to see whether it is a .npz file: Permission denied" "${before[@]}" \
      "$backplane" run "$work/kept/m.so" --input "image=$digits/images/3-1666.png" --output "$work/kept/unread.npz"
}
if [ "$(id -u)" != 0 ] || setpriv --bounding-set=-dac_override,-dac_read_search true; then
  ok output-that-cannot-be-read-is-told-with-the-reason says_that_it_cannot_read
fi

# A compilation needs 1 MiB.
raises_the_stack() {
  (ulimit -S -s 256 && "$backplane" compile "$digits/digits.onnx" --shape image=1x1x28x28 --target c -o "$work/stack.so")
}
ok low-limit-of-the-stack-is-raised raises_the_stack

ok outputs-become-an-archive archive_of_outputs
ok files-after-the-separator-may-begin-with-a-dash names_with_dashes
ok outputs-may-have-the-longest-names longest_names
ok difference-says-the-largest-and-where says_the_largest_and_where
ok tolerance-is-that-of-numpy tolerance_is_numpys
ok infinity-matches-itself-alone infinities
ok nan-matches-nan nan_is_nan
ok difference-in-json difference_in_json
ok expectation-that-does-not-fit-says-why refuses_expectations
ok digits-give-what-they-gave bash -c '"$0" run "$1/digits.onnx" --input "$2" -o "$3/d.npz" && "$0" run "$1/digits.onnx" --reference --input "$2" --expect "$3/d.npz" --top 1 | grep -E "^logits +\[0\] +7 "' "$backplane" "$digits" "$seven" "$work"
ok best-elements-have-index-label-and-value best_with_labels
ok ends-at-the-limit-of-file-sizes ends_at_the_limit_of_file_sizes
ok output-into-a-link-to-an-open-file writes_into_open_files
ok too-few-descriptors-are-named names_the_limit_of_files
if strace -o "$work/calls" true 2>/dev/null; then
  ok new-library-has-one-name new_library_has_one_name
else
  skip "new-library-has-one-name" "strace is not installed or may not trace"
fi
ok sequences-go-in-and-out sequences_go_in_and_out
ok optionals-go-in-and-out optionals_go_in_and_out
ok wrong-lists-are-refused wrong_lists
ok commands-take-lists-or-refuse-them other_commands_with_lists
echo "1..$count"
