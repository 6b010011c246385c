# SPDX-License-Identifier: Apache-2.0
# What the plugin vulkan adds to the driver: make bench-vulkan.

if BUILD_VULKAN
bench_programs += bench-vulkan
bench_vulkan_SOURCES = bench/vulkan/vulkan.c $(beside_driver)
bench_vulkan_LDADD = $(LDADD) -lvulkan
endif
EXTRA_DIST += bench/vulkan/vulkan.c
