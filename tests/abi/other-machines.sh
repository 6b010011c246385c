#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The headers reject machines with other layouts: the test defines a compiler's macros for other machines. Prints
# TAP.
set -u
count=0

# refuses NAME TEXT HEADER OPTION...
refuses() {
  local name=$1 text=$2 header=$3
  shift 3
  count=$((count + 1))
  if ${CC:-cc} -std=gnu11 -w -fsyntax-only -I"$top_srcdir/sdk/include" "$@" -x c \
    "$top_srcdir/sdk/include/backplane/$header" 2>&1 | grep -q "error: .*$text"; then
    echo "ok $count $name"
  else
    echo "not ok $count $name"
  fi
}

refuses big_endian_machine_is_refused little-endian value.h -U__BYTE_ORDER__ -D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__
refuses machine_of_32_bits_is_refused 64-bit value.h -U__UINTPTR_MAX__ -D__UINTPTR_MAX__=0xffffffffu \
  -ffreestanding
refuses other_kind_of_object_file_is_refused "ELF file" plugin.h -U__ELF__
echo "1..$count"
