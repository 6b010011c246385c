# SPDX-License-Identifier: Apache-2.0
# The plugins. These lines add a plugin called NAME; in the names of variables '-'
# becomes '_':
#
#   if BUILD_OPENCL
#   plugin_LTLIBRARIES += backplane-opencl.la
#   backplane_opencl_la_SOURCES = plugins/opencl/plugin.c plugins/opencl/device.c
#   backplane_opencl_la_CPPFLAGS = $(CPPFLAGS_PLUGIN)
#   backplane_opencl_la_LDFLAGS = $(LDFLAGS_PLUGIN)
#   backplane_opencl_la_LIBADD = -ldl
#   endif

# Each plugin for GPUs contains its own copy of the sources in plugins/common.
plugin_common_sources = \
	plugins/common/argument.c \
	plugins/common/common.h \
	plugins/common/devices.c \
	plugins/common/language.c \
	plugins/common/library.c \
	plugins/common/poll.c \
	plugins/common/text.c

include plugins/cpu/local.mk
include plugins/cuda/local.mk
include plugins/cudalibs/local.mk
include plugins/layers/local.mk
include plugins/dnnl/local.mk
include plugins/opencl/local.mk
include plugins/vulkan/local.mk
include plugins/worker/local.mk
