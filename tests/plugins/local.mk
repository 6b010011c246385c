# SPDX-License-Identifier: Apache-2.0
# Tests of: plugins.
test_programs += tests/plugins/test-cpu
tests_plugins_test_cpu_LDADD = $(LDADD) -lm
