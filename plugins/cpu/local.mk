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
	plugins/cpu/module.c \
	plugins/cpu/plugin.c \
	plugins/cpu/target.c
backplane_cpu_la_CPPFLAGS = $(CPPFLAGS_PLUGIN)
backplane_cpu_la_LDFLAGS = $(LDFLAGS_PLUGIN)
endif

if BUILD_CPU_LLVM
plugin_LTLIBRARIES += backplane-cpu-llvm.la
backplane_cpu_llvm_la_SOURCES = \
	plugins/cpu/cpu.h \
	plugins/cpu/llvm_call.c \
	plugins/cpu/llvm_expr.c \
	plugins/cpu/llvm_function.c \
	plugins/cpu/llvm_gen.c \
	plugins/cpu/llvm_gen.h \
	plugins/cpu/llvm_half.c \
	plugins/cpu/llvm_module.c \
	plugins/cpu/llvm_parallel.c \
	plugins/cpu/llvm_plugin.c \
	plugins/cpu/llvm_stmt.c \
	plugins/cpu/llvm_target.c \
	plugins/cpu/machine.c \
	plugins/cpu/module.c \
	plugins/cpu/target.c
backplane_cpu_llvm_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) $(LLVM_CFLAGS)
backplane_cpu_llvm_la_LDFLAGS = $(LDFLAGS_PLUGIN)
backplane_cpu_llvm_la_LIBADD = $(LLVM_LIBS)
endif
