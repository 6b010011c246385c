# SPDX-License-Identifier: Apache-2.0
# Plugins cpu (device, target kind c) and cpu-llvm (target kind llvm).

if BUILD_CPU
plugin_LTLIBRARIES += backplane-cpu.la
backplane_cpu_la_SOURCES = \
	plugins/cpu/c_module.c \
	plugins/cpu/c_target.c \
	plugins/cpu/cpu.h \
	plugins/cpu/device.c \
	plugins/cpu/machine.c \
	plugins/cpu/plugin.c \
	plugins/cpu/target.c
backplane_cpu_la_CPPFLAGS = $(CPPFLAGS_PLUGIN)
backplane_cpu_la_LDFLAGS = $(LDFLAGS_PLUGIN)
endif
