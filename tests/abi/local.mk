# SPDX-License-Identifier: Apache-2.0
# Tests of: the layouts of the ABI.

test_programs += tests/abi/test-layout
test_scripts += tests/abi/tvm-ffi-layout.sh tests/abi/abi-baseline.sh
EXTRA_DIST += tests/abi/tvm-ffi-layout.sh tests/abi/tvm_ffi_layout.c
EXTRA_DIST += scripts/abi-baseline tests/abi/abi-baseline.sh tests/abi/baseline/numbers \
	tests/abi/baseline/types.abi

# Stores the ABI of this build as the one that there is; docs/abi.md.
abi-baseline: all
	$(srcdir)/scripts/abi-baseline --update $(abs_top_builddir)
.PHONY: abi-baseline
