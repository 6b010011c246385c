# SPDX-License-Identifier: Apache-2.0
# Tests of: the conformance kit, and Backplane's plugins with the kit.
test_scripts += tests/conformance/test-cpu.sh
EXTRA_DIST += tests/conformance/test-cpu.sh
test_scripts += tests/conformance/test-cpu-llvm.sh
EXTRA_DIST += tests/conformance/test-cpu-llvm.sh
long_scripts += tests/conformance/test-opencl.sh
EXTRA_DIST += tests/conformance/test-opencl.sh
long_scripts += tests/conformance/test-vulkan.sh
EXTRA_DIST += tests/conformance/test-vulkan.sh
test_scripts += tests/conformance/test-cuda.sh
EXTRA_DIST += tests/conformance/test-cuda.sh
test_scripts += tests/conformance/test-minimal.sh
EXTRA_DIST += tests/conformance/test-minimal.sh
test_scripts += tests/conformance/test-simdev.sh
EXTRA_DIST += tests/conformance/test-simdev.sh
test_scripts += tests/conformance/test-npu.sh tests/conformance/test-npu-isolated.sh
test_scripts += tests/conformance/test-claims-isolated.sh
EXTRA_DIST += tests/conformance/test-claims-isolated.sh
EXTRA_DIST += tests/conformance/test-npu.sh tests/conformance/test-npu-isolated.sh
test_scripts += tests/conformance/test-dnnl.sh
EXTRA_DIST += tests/conformance/test-dnnl.sh
test_scripts += tests/conformance/test-cudalibs.sh
EXTRA_DIST += tests/conformance/test-cudalibs.sh
test_scripts += tests/conformance/test-isolated.sh
EXTRA_DIST += tests/conformance/test-isolated.sh
test_scripts += tests/conformance/test-remote.sh
EXTRA_DIST += tests/conformance/test-remote.sh
EXTRA_DIST += tests/conformance/conforms.sh
long_scripts += tests/conformance/test-mutants.sh
EXTRA_DIST += tests/conformance/test-mutants.sh tests/conformance/mutants.py tests/conformance/mutants.txt \
	tests/conformance/mutants-npu.txt
slow_tests += tests/conformance/test-mutants.sh
# The plugin simdev, linked into a program.
check_PROGRAMS += tests/conformance/static-simdev
tests_conformance_static_simdev_SOURCES = tests/conformance/static-simdev.c $(template_plugin_sources)
tests_conformance_static_simdev_LDADD = libbackplane-conformance.la $(LDADD) $(JANSSON_LIBS)
test_scripts += tests/conformance/test-kit.sh
EXTRA_DIST += tests/conformance/test-kit.sh
test_scripts += tests/conformance/test-operators.sh
EXTRA_DIST += tests/conformance/test-operators.sh tests/mock/operators.c
