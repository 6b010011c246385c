# SPDX-License-Identifier: Apache-2.0
# Tests of the build itself.

test_programs += tests/frame/test-version
