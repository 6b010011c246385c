#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by tests of the command: makes small ONNX files from hexadecimal digits.

# part TAG HEX: prints a protobuf field with its length, as hexadecimal digits.
part() {
  local length=$((${#2} / 2)) digits=
  for (( ; length > 127; length >>= 7)); do
    digits+=$(printf '%02x' $((length & 127 | 128)))
  done
  printf '%s%s%02x%s' "$1" "$digits" "$length" "$2"
}

# digits_of TEXT: prints the bytes of the text as hexadecimal digits.
digits_of() {
  printf '%s' "$1" | od -An -v -t x1 | tr -d ' \n'
}

# unary OPERATOR TYPE DIMENSIONS [OUTPUT...]: an ONNX model of y = OPERATOR(x), with ONNX's number of the type, and the
# dimensions as `part`s. With names of outputs, each output comes from a node of its name, and all outputs have equal
# values.
unary() {
  local about nodes='' outputs='' output name=''
  about=$(part 12 "$(part 0a "08$2$(part 12 "$3")")")
  if [ $# -gt 3 ]; then
    name=1a
  else
    set -- "$@" y
  fi
  for output in "${@:4}"; do
    output=$(digits_of "$output")
    nodes+=$(part 0a "$(part 0a 78)$(part 12 "$output")${name:+$(part $name "$output")}$(part 22 "$(digits_of "$1")")")
    outputs+=$(part 62 "$(part 0a "$output")$about")
  done
  printf '%b' "$(printf '0808%s4202100d' "$(part 3a "$nodes$(part 12 67)$(part 5a "$(part 0a 78)$about")$outputs")" | sed 's/../\\x&/g')"
}

# of_type TYPE: an ONNX model of y = Identity(x), with the bytes of the type in hexadecimal digits.
of_type() {
  local about
  about=$(part 12 "$1")
  printf '%b' "$(printf '0808%s4202100d' "$(part 3a "$(part 0a "$(part 0a 78)$(part 12 79)$(part 22 "$(digits_of Identity)")")$(part 12 67)$(part 5a "$(part 0a 78)$about")$(part 62 "$(part 0a 79)$about")")" |
    sed 's/../\\x&/g')"
}

relu() {
  unary Relu "$@"
}

# sum_with_file FILE: an ONNX model of y = x + w. The elements of w are the last 8 of the 136 bytes of the file.
sum_with_file() {
  local about places tensor node
  about=$(part 12 "$(part 0a "0801$(part 12 "$(part 0a 0802)")")")
  places=$(part 6a "$(part 0a "$(digits_of location)")$(part 12 "$(digits_of "$1")")")
  places+=$(part 6a "$(part 0a "$(digits_of offset)")$(part 12 "$(digits_of 128)")")
  tensor=$(part 2a "08021001$(part 42 77)${places}7001")
  node=$(part 0a "$(part 0a 78)$(part 0a 77)$(part 12 79)$(part 22 "$(digits_of Add)")")
  printf '%b' "$(printf '0808%s4202100d' "$(part 3a "$node$(part 12 67)$tensor$(part 5a "$(part 0a 78)$about")$(
    part 62 "$(part 0a 79)$about")")" | sed 's/../\\x&/g')"
}
