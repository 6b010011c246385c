# SPDX-License-Identifier: Apache-2.0
# Tests of the build itself.

test_programs += tests/frame/test-version
test_scripts += tests/frame/test-lint.sh
slow_tests += tests/frame/test-lint.sh
EXTRA_DIST += tests/frame/test-lint.sh
