# SPDX-License-Identifier: Apache-2.0
# Tests of: docs and README.md.
test_scripts += tests/docs/test-pages.sh tests/docs/test-reference.sh
slow_tests += tests/docs/test-pages.sh tests/docs/test-reference.sh
EXTRA_DIST += tests/docs/test-pages.sh tests/docs/test-reference.sh tests/docs/check_pages.py
