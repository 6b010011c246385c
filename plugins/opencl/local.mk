# SPDX-License-Identifier: Apache-2.0
# Plugin opencl: devices, modules, target kind opencl.

if BUILD_OPENCL
plugin_LTLIBRARIES += backplane-opencl.la
backplane_opencl_la_SOURCES = \
	$(plugin_common_sources) \
	plugins/common/event.c \
	plugins/common/event.h \
	plugins/opencl/device.c \
	plugins/opencl/event.c \
	plugins/opencl/external.c \
	plugins/opencl/launch.c \
	plugins/opencl/loader.c \
	plugins/opencl/memory.c \
	plugins/opencl/module.c \
	plugins/opencl/opencl.h \
	plugins/opencl/plugin.c \
	plugins/opencl/program.c \
	plugins/opencl/target.c
backplane_opencl_la_CPPFLAGS = $(CPPFLAGS_PLUGIN)
backplane_opencl_la_LDFLAGS = $(LDFLAGS_PLUGIN)
backplane_opencl_la_LIBADD = -ldl
endif
