# SPDX-License-Identifier: Apache-2.0
# Tests: each prints TAP. A test program needs one line; its source is found by its name:
#
#   test_programs += tests/core/test-registry
#
# A test script needs two lines: test_scripts += tests/tools/test-run.sh and EXTRA_DIST += tests/tools/test-run.sh;
# tests/tap.sh has the functions that scripts share. A plugin made for a test is check_LTLIBRARIES += tests/plugins/odd.la
# with LDFLAGS_TEST_PLUGIN; the plugin is then tests/plugins/.libs/odd.so. A program that tests start is in check_PROGRAMS.
#
# ./quickstart check runs a test under the address sanitizer, which finds more. A test in slow_tests, which is slow under
# the sanitizers, runs in the plain build instead; a test in plain_tests, some of whose cases the sanitizers prevent, runs in
# both. thread_tests also run under the thread sanitizer. A test that takes minutes is in long_programs or
# long_scripts: `make check-quick` leaves long tests and slow_tests out, and `make check` starts the
# long ones first, so that other tests run beside them.

test_programs =
test_scripts =
long_programs =
long_scripts =
slow_tests =
plain_tests =
thread_tests =
check_PROGRAMS = $(long_programs) $(test_programs)
helper_programs = $(filter-out $(long_programs) $(test_programs),$(check_PROGRAMS))

LDFLAGS_TEST_PLUGIN = $(AM_LDFLAGS) $(NO_UNDEFINED) -module -avoid-version -shared -rpath /nowhere

TESTS = $(long_scripts) $(long_programs) $(test_programs) $(test_scripts)
TEST_EXTENSIONS = .sh
TAP_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
LOG_DRIVER = $(TAP_DRIVER)
SH_LOG_DRIVER = $(TAP_DRIVER)
# A test that hangs is ended and counts as an error.
LOG_COMPILER = $(top_srcdir)/tests/run-test
SH_LOG_COMPILER = $(top_srcdir)/tests/run-test bash
CLEANFILES += tests/times

# The cache of generated code that the C compiler compiled for tests. Several builds of one source may use one cache:
# make check test_cache=/folder
test_cache = $(abs_top_builddir)/tests/cache

# The environment of a test: the plugins of this build, a cache apart from the user's, and no chosen device. GLib uses
# malloc, because its own allocator would hide leaks from the sanitizers. Under the sanitizers malloc returns NULL for a
# request that is too large, as elsewhere, and leaks of foreign libraries are suppressed. The sanitizers ignore the
# thread-local variables of libraries: gcc 12 guesses their place from memory that only glibc 2.19 wrote, and would read
# invalid addresses, or reset the shadow of an invalid range. Except in `make check-long`, PoCL and lavapipe compile without
# LLVM's optimizer, which would take half of their time.
AM_TESTS_ENVIRONMENT = \
	if test -z "$$BP_TEST_LONG"; then \
	  POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable GALLIVM_PERF=nopt; export POCL_EXTRA_BUILD_FLAGS GALLIVM_PERF; \
	fi; \
	ASAN_OPTIONS="allocator_may_return_null=1:intercept_tls_get_addr=0:$$ASAN_OPTIONS"; export ASAN_OPTIONS; \
	LSAN_OPTIONS='suppressions=$(abs_top_srcdir)/tests/lsan.supp:print_suppressions=0'; \
	export LSAN_OPTIONS; \
	TSAN_OPTIONS="allocator_may_return_null=1:intercept_tls_get_addr=0:suppressions=$(abs_top_srcdir)/tests/tsan.supp:print_suppressions=0:$$TSAN_OPTIONS"; \
	export TSAN_OPTIONS; \
	BACKPLANE_PLUGIN_PATH='$(built_plugin_dir)'; export BACKPLANE_PLUGIN_PATH; \
	BACKPLANE_CACHE_DIR='$(test_cache)'; export BACKPLANE_CACHE_DIR; \
	BACKPLANE_TRIAL_PROGRAM='$(abs_top_builddir)/backplane-trial'; \
	export BACKPLANE_TRIAL_PROGRAM; \
	BACKPLANE_WORKER_PROGRAM='$(abs_top_builddir)/backplane-worker'; \
	export BACKPLANE_WORKER_PROGRAM; \
	G_SLICE=always-malloc; export G_SLICE; \
	top_srcdir='$(abs_top_srcdir)'; export top_srcdir; \
	top_builddir='$(abs_top_builddir)'; export top_builddir; \
	unset BACKPLANE_DEVICE;

# What ./quickstart check runs in the plain build; of the test programs only these are built.
check-plain:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(filter $(slow_tests) $(plain_tests),$(TESTS))' \
	  check_PROGRAMS='$(filter $(slow_tests) $(plain_tests),$(check_PROGRAMS)) $(helper_programs)'
# What ./quickstart check runs under the sanitizers; of the test programs only these are built.
check-sanitized:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(filter-out $(slow_tests),$(TESTS))' \
	  check_PROGRAMS='$(filter-out $(slow_tests),$(check_PROGRAMS))'
# The suite without long tests: ./quickstart check --quick runs it.
check-quick:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(filter-out $(slow_tests) $(long_programs) $(long_scripts),$(TESTS))'
# A part of the suite: make check-part PART='tests/abi/% tests/core/%'. Of the test programs only these are built, and the
# programs that tests start. distcheck-part runs distcheck with these tests.
only_part = check_PROGRAMS='$(filter $(PART),$(check_PROGRAMS)) $(helper_programs)' \
  TESTS='$(filter $(PART),$(TESTS))'
check-part: all
	$(MAKE) $(AM_MAKEFLAGS) check-TESTS $(only_part)
distcheck-part: all
	$(MAKE) $(AM_MAKEFLAGS) distcheck $(only_part)

# Only the tests of threads, in a build with --enable-tsan; no other test program is built.
check-threads: all
	$(MAKE) $(AM_MAKEFLAGS) check-TESTS check_PROGRAMS='$(thread_tests)' TESTS='$(thread_tests)'
.PHONY: check-plain check-sanitized check-quick check-part check-threads distcheck-part

EXTRA_DIST += tests/peers.txt tests/lsan.supp tests/tsan.supp tests/failing_memory.h tests/process_usage.h \
	tests/bare_device.h tests/tap.sh tests/run-test

include tests/frame/local.mk
include tests/fuzz/local.mk
include tests/mock/local.mk
include tests/abi/local.mk
include tests/core/local.mk
include tests/compiler/local.mk
include tests/graph/local.mk
include tests/plugins/local.mk
include tests/conformance/local.mk
include tests/sdk/local.mk
include tests/tools/local.mk
include tests/docs/local.mk
include tests/models/local.mk
include tests/tvm/local.mk
include tests/python/local.mk
include tests/onnxruntime/local.mk
