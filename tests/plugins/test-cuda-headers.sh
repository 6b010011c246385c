#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The declarations of the CUDA driver in plugins/common/cuda_api.h, and of cuBLAS and cuDNN in
# plugins/cudalibs/library_api.h, equal those in NVIDIA's headers, if the headers are installed: in CUDA_HOME, in
# /usr/local/cuda or beside the system's.
set -u
. "$top_srcdir/tests/tap.sh"
api=("$top_srcdir/plugins/common/cuda_api.h" "$top_srcdir/plugins/cudalibs/library_api.h")

include=
for folder in "${CUDA_HOME:-/usr/local/cuda}/include" /usr/local/cuda/include /usr/include; do
  if [ -z "$include" ] && [ -e "$folder/cudnn.h" ] && [ -e "$folder/cublas_v2.h" ]; then
    include=$folder
  fi
done

# The names: functions are the first parameters of X(); numbers are macros with one library's prefix.
grep -ohE '\bX\((cu|cublas|cudnn)[A-Za-z0-9_]+,' "${api[@]}" | sed -E 's/X\((.*),/FUNCTION(\1)/' >"$work/names.h"
grep -ohE '^#define (CU|CUDA|CUBLAS|CUDNN)_[A-Za-z0-9_]+ ' "${api[@]}" |
  sed -E 's/#define (.*) /NUMBER(\1)/' >>"$work/names.h"

# print_names FILE OPTION...: compiles the program with these options, and runs it. The functions'
# addresses are not used, so the libraries are not linked.
print_names() {
  local file=$1
  shift
  ${CXX:-c++} -std=gnu++17 -w -O1 -I"$work" -I"$top_srcdir" "$@" -o "$work/program" \
    "$top_srcdir/tests/plugins/cuda-headers.cpp" -Wl,--unresolved-symbols=ignore-all &&
    "$work/program" >"$file"
}

same_declarations() {
  print_names "$work/ours" && print_names "$work/theirs" -DNVIDIA -isystem "$include" &&
    diff "$work/ours" "$work/theirs"
}

every_name_is_found() {
  local functions numbers
  functions=$(grep -c '^FUNCTION' "$work/names.h")
  numbers=$(grep -c '^NUMBER' "$work/names.h")
  echo "# $functions functions, $numbers numbers"
  ((functions >= 40 && numbers >= 35))
}

ok /cuda-headers/every-name-is-found every_name_is_found
if [ -z "$include" ]; then
  count=$((count + 1))
  echo "ok $count /cuda-headers/same-declarations # SKIP neither CUDA_HOME nor /usr/local/cuda nor /usr has the headers of cuBLAS and cuDNN"
else
  ok /cuda-headers/same-declarations same_declarations
fi
echo "1..$count"
