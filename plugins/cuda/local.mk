# SPDX-License-Identifier: Apache-2.0
# Plugin cuda: devices, modules, target kind cuda. The plugin builds without any package of NVIDIA.

if BUILD_CUDA
plugin_LTLIBRARIES += backplane-cuda.la
backplane_cuda_la_SOURCES = \
	$(plugin_common_sources) \
	plugins/common/cuda_api.h \
	plugins/cuda/compile.c \
	plugins/cuda/cuda.h \
	plugins/cuda/device.c \
	plugins/cuda/event.c \
	plugins/cuda/driver_api.h \
	plugins/cuda/launch.c \
	plugins/cuda/loader.c \
	plugins/cuda/memory.c \
	plugins/cuda/module.c \
	plugins/cuda/plugin.c \
	plugins/cuda/stream.c \
	plugins/cuda/target.c
backplane_cuda_la_CPPFLAGS = $(CPPFLAGS_PLUGIN)
backplane_cuda_la_LDFLAGS = $(LDFLAGS_PLUGIN)
backplane_cuda_la_LIBADD = -ldl
endif
