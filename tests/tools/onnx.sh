#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by tests of the command: small ONNX files, made from hexadecimal digits.

# part TAG HEX: a field of protobuf's with its length, of less than 128 bytes, as hexadecimal digits.
part() {
  printf '%s%02x%s' "$1" $((${#2} / 2)) "$2"
}

# unary OPERATOR TYPE DIMENSIONS: an ONNX model of y = OPERATOR(x), the type as ONNX numbers it, the dimensions as `part`s.
unary() {
  local about graph operator
  operator=$(printf '%s' "$1" | od -An -v -t x1 | tr -d ' \n')
  about=$(part 12 "$(part 0a "08$2$(part 12 "$3")")")
  graph=$(part 0a "$(part 0a 78)$(part 12 79)$(part 22 "$operator")")$(part 12 67)
  graph+=$(part 5a "$(part 0a 78)$about")$(part 62 "$(part 0a 79)$about")
  printf '%b' "$(printf '0808%s4202100d' "$(part 3a "$graph")" | sed 's/../\\x&/g')"
}

relu() {
  unary Relu "$@"
}
