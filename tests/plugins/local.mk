# SPDX-License-Identifier: Apache-2.0
# Tests of: plugins.
EXTRA_DIST += tests/plugins/plugin-util.h
test_programs += tests/plugins/test-cpu
tests_plugins_test_cpu_LDADD = $(LDADD) -lm
thread_tests += tests/plugins/test-cpu
if BUILD_CPU
test_programs += tests/plugins/test-cpu-cross
tests_plugins_test_cpu_cross_LDADD = $(LDADD) -lm
endif
if BUILD_CUDA
test_programs += tests/plugins/test-cuda
tests_plugins_test_cuda_LDADD = $(LDADD) -ldl -lm
test_scripts += tests/plugins/test-cuda-codegen.sh tests/plugins/test-cuda-device.sh
slow_tests += tests/plugins/test-cuda-codegen.sh
thread_tests += tests/plugins/test-cuda
endif
EXTRA_DIST += tests/plugins/test-cuda-codegen.sh tests/plugins/test-cuda-device.sh
test_scripts += tests/plugins/test-cuda-headers.sh
EXTRA_DIST += tests/plugins/test-cuda-headers.sh tests/plugins/cuda-headers.cpp
if BUILD_CUDALIBS
if BUILD_CUDA
long_programs += tests/plugins/test-cudalibs
thread_tests += tests/plugins/test-cudalibs
endif
endif
tests_plugins_test_cudalibs_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_plugins_test_cudalibs_LDADD = $(graphtest_LDADD) -ldl
if BUILD_OPENCL
test_programs += tests/plugins/test-opencl
tests_plugins_test_opencl_LDADD = $(LDADD) -lm
thread_tests += tests/plugins/test-opencl
endif
if BUILD_VULKAN
test_programs += tests/plugins/test-vulkan
tests_plugins_test_vulkan_LDADD = $(LDADD) -lm
thread_tests += tests/plugins/test-vulkan
endif
if BUILD_DNNL
long_programs += tests/plugins/test-dnnl
endif
tests_plugins_test_dnnl_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
tests_plugins_test_dnnl_LDADD = $(graphtest_LDADD)
