# SPDX-License-Identifier: Apache-2.0
# Tests of: core.

test_programs += tests/core/test-registry
test_programs += tests/core/test-threads
test_programs += tests/core/test-module
tests_core_test_module_SOURCES = tests/core/test-module.c tests/core/module-fixture.c \
	tests/core/module-fixture.h
test_programs += tests/core/test-plugins
EXTRA_DIST += tests/core/plugin_files.h
test_programs += tests/core/test-device
test_programs += tests/core/test-simdev
test_programs += tests/core/test-target
