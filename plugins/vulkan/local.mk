# SPDX-License-Identifier: Apache-2.0
# Plugin vulkan: devices, modules, target kind vulkan.

if BUILD_VULKAN
plugin_LTLIBRARIES += backplane-vulkan.la
backplane_vulkan_la_SOURCES = \
	$(plugin_common_sources) \
	plugins/common/event.c \
	plugins/common/event.h \
	plugins/vulkan/copy.c \
	plugins/vulkan/device.c \
	plugins/vulkan/event.c \
	plugins/vulkan/external.c \
	plugins/vulkan/find.c \
	plugins/vulkan/glslc.c \
	plugins/vulkan/handle.c \
	plugins/vulkan/launch.c \
	plugins/vulkan/loader.c \
	plugins/vulkan/memory.c \
	plugins/vulkan/module.c \
	plugins/vulkan/pipeline.c \
	plugins/vulkan/plugin.c \
	plugins/vulkan/spirv.c \
	plugins/vulkan/stream.c \
	plugins/vulkan/target.c \
	plugins/vulkan/timer.c \
	plugins/vulkan/vulkan.h
backplane_vulkan_la_CPPFLAGS = $(CPPFLAGS_PLUGIN)
backplane_vulkan_la_LDFLAGS = $(LDFLAGS_PLUGIN)
backplane_vulkan_la_LIBADD = -ldl
endif
