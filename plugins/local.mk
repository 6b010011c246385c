# SPDX-License-Identifier: Apache-2.0
# The plugins. One called NAME is added like this, with '-' as '_' in the variables:
#
#   if BUILD_OPENCL
#   plugin_LTLIBRARIES += backplane-opencl.la
#   backplane_opencl_la_SOURCES = plugins/opencl/plugin.c plugins/opencl/device.c
#   backplane_opencl_la_CPPFLAGS = $(CPPFLAGS_PLUGIN)
#   backplane_opencl_la_LDFLAGS = $(LDFLAGS_PLUGIN)
#   backplane_opencl_la_LIBADD = -ldl
#   endif

# The plugins for GPUs have plugins/common among their sources, each a copy of its own.
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
