# SPDX-License-Identifier: Apache-2.0
# Tests of: core.

test_programs += tests/core/test-registry tests/core/test-object
test_programs += tests/core/test-threads
test_programs += tests/core/test-module
tests_core_test_module_SOURCES = tests/core/test-module.c tests/core/module-fixture.c \
	tests/core/module-fixture.h
test_programs += tests/core/test-device-code
tests_core_test_device_code_SOURCES = tests/core/test-device-code.c tests/core/module-fixture.c
test_programs += tests/core/test-library-file
tests_core_test_library_file_SOURCES = tests/core/test-library-file.c tests/core/module-fixture.c

test_programs += tests/core/test-compilers
tests_core_test_compilers_SOURCES = tests/core/test-compilers.c tests/core/module-fixture.c
# The test of compilers defines umask(), which libbackplane must call.
tests_core_test_compilers_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_programs += tests/core/test-absent-module
tests_core_test_absent_module_SOURCES = tests/core/test-absent-module.c \
	tests/core/module-fixture.c
test_programs += tests/core/test-memory
tests_core_test_memory_SOURCES = tests/core/test-memory.c tests/core/module-fixture.c
plain_tests += tests/core/test-memory
test_programs += tests/core/test-plugins tests/core/test-registration tests/core/test-candidates
test_programs += tests/core/test-trust tests/core/test-cache tests/core/test-trial
plain_tests += tests/core/test-trial
EXTRA_DIST += tests/core/plugin_files.h tests/core/package_names.h tests/core/asserts.h
# test-privileged starts without libtool's script: a privileged program ignores the script's
# LD_LIBRARY_PATH.
test_programs += tests/core/test-privileged
tests_core_test_privileged_LDFLAGS = $(AM_LDFLAGS) -no-install
test_programs += tests/core/test-device tests/core/test-events tests/core/test-external \
	tests/core/test-transfer
test_programs += tests/core/test-launch tests/core/test-packed
test_programs += tests/core/test-simdev
test_programs += tests/core/test-layers tests/core/test-validate tests/core/test-fault
test_programs += tests/core/test-isolate tests/core/test-remote
test_programs += tests/core/test-runtime
test_programs += tests/core/test-select
test_programs += tests/core/test-format
test_programs += tests/core/test-target
check_PROGRAMS += tests/core/export-example
tests_core_export_example_SOURCES = tests/core/export-example.c tests/core/module-fixture.c
test_scripts += tests/core/tvm-ffi-loads.sh tests/core/plugins-strace.sh \
	tests/core/plugin-requirements.sh tests/core/doctor-container.sh
EXTRA_DIST += tests/core/plugins-strace.sh tests/core/plugin-requirements.sh \
	tests/core/doctor-container.sh
test_scripts += tests/core/test-broken-plugins.sh
EXTRA_DIST += tests/core/test-broken-plugins.sh tests/core/broken_plugins.py
slow_tests += tests/core/test-broken-plugins.sh
test_scripts += tests/core/test-parts.sh
EXTRA_DIST += tests/core/test-parts.sh
test_scripts += tests/core/test-trial-faults.sh
EXTRA_DIST += tests/core/test-trial-faults.sh tests/core/trial_faults.py
plain_tests += tests/core/test-trial-faults.sh
EXTRA_DIST += tests/core/tvm-ffi-loads.sh tests/core/tvm_ffi_loads.py
test_programs += tests/core/test-defects
test_programs += tests/core/test-doctor tests/core/test-order tests/core/test-load
plain_tests += tests/core/test-load
EXTRA_DIST += tests/core/defects.h
thread_tests += tests/core/test-layers tests/core/test-validate
thread_tests += tests/core/test-registry tests/core/test-object tests/core/test-threads \
	tests/core/test-plugins tests/core/test-registration tests/core/test-candidates \
	tests/core/test-defects \
	tests/core/test-doctor tests/core/test-load tests/core/test-select tests/core/test-device tests/core/test-events \
	tests/core/test-simdev tests/core/test-target tests/core/test-runtime
test_programs += tests/core/test-fork
tests_core_test_fork_SOURCES = tests/core/test-fork.c tests/core/module-fixture.c
tests_core_test_remote_SOURCES = tests/core/test-remote.c tests/core/module-fixture.c
