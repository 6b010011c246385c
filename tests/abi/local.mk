# SPDX-License-Identifier: Apache-2.0
# Tests of: the layouts of the ABI.

test_programs += tests/abi/test-layout
test_scripts += tests/abi/tvm-ffi-layout.sh
EXTRA_DIST += tests/abi/tvm-ffi-layout.sh tests/abi/tvm_ffi_layout.c
