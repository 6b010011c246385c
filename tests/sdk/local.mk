# SPDX-License-Identifier: Apache-2.0
# Tests of: the SDK, as a vendor uses it.
test_programs += tests/sdk/test-handle-table
test_scripts += tests/sdk/test-applications.sh tests/sdk/test-dh-backplane.sh tests/sdk/test-new-plugin.sh
long_scripts += tests/sdk/test-vendor.sh
# A vendor's plugin and an application are built without sanitizers, so sanitized builds leave these tests out.
slow_tests += tests/sdk/test-applications.sh tests/sdk/test-vendor.sh
EXTRA_DIST += tests/sdk/stage.sh tests/sdk/test-dh-backplane.sh tests/sdk/test-new-plugin.sh \
	tests/sdk/test-applications.sh tests/sdk/test-vendor.sh tests/sdk/follow-guide.sh

# The tests of installed files install this build. To install, libtool links the libraries again in
# the folder from which the other tests load them, so the installation precedes all tests.
installing_logs = tests/sdk/test-applications.log tests/sdk/test-vendor.log
tests/sdk/installed:
	rm -rf $@ && $(MAKE) $(AM_MAKEFLAGS) install DESTDIR='$(abs_top_builddir)/$@'
$(TEST_LOGS): | $(if $(filter $(installing_logs),$(TEST_LOGS)),tests/sdk/installed)
.PHONY: tests/sdk/installed
