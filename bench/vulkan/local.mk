# SPDX-License-Identifier: Apache-2.0
# The time that the plugin vulkan adds to the driver: make bench-vulkan. Products, compared with
# kernels written by hand: make bench-vulkan-products.

if BUILD_VULKAN
bench_programs += bench-vulkan bench-vulkan-products
bench_vulkan_SOURCES = bench/vulkan/vulkan.c bench/vulkan/raw.c bench/vulkan/raw.h \
	$(beside_driver)
bench_vulkan_LDADD = $(LDADD) -lvulkan
bench_vulkan_products_SOURCES = bench/vulkan/products.c bench/vulkan/raw.c bench/vulkan/raw.h \
	$(beside_driver)
bench_vulkan_products_CPPFLAGS = $(AM_CPPFLAGS) $(PROTOBUF_C_CFLAGS)
bench_vulkan_products_LDADD = $(graphtest_LDADD) -lvulkan
endif
EXTRA_DIST += bench/vulkan/vulkan.c bench/vulkan/products.c bench/vulkan/raw.c bench/vulkan/raw.h \
	bench/vulkan/register_tile.comp bench/vulkan/shared_tile.comp bench/vulkan/texel_tile.comp
