# SPDX-License-Identifier: Apache-2.0
# Tests of: core.

test_programs += tests/core/test-registry
test_programs += tests/core/test-threads
