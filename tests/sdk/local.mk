# SPDX-License-Identifier: Apache-2.0
# Tests of: the SDK, as a vendor uses it.
test_programs += tests/sdk/test-handle-table
test_scripts += tests/sdk/test-dh-backplane.sh tests/sdk/test-new-plugin.sh tests/sdk/test-vendor.sh
# A vendor's plugin is built plain, and a host with sanitizers is none that it will meet.
slow_tests += tests/sdk/test-vendor.sh
EXTRA_DIST += tests/sdk/stage.sh tests/sdk/test-dh-backplane.sh tests/sdk/test-new-plugin.sh \
	tests/sdk/test-vendor.sh tests/sdk/follow-guide.sh

# It installs, for which libtool links our libraries anew where the other tests load them from.
tests/sdk/test-vendor.log: $(filter-out tests/sdk/test-vendor.log,$(TEST_LOGS))
