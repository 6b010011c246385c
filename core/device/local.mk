# SPDX-License-Identifier: Apache-2.0
# The DeviceAPI's front, tensors, host threads.

libbackplane_la_SOURCES += \
	core/device/attr.c \
	core/device/device.h \
	core/device/exchange.c core/device/exchange.h \
	core/device/flush.h \
	core/device/forked.c core/device/forked.h \
	core/device/futex.h \
	core/device/host_memory.c \
	core/device/kinds.c \
	core/device/launch.c \
	core/device/layers.c core/device/layers.h \
	core/device/library_slots.c core/device/library_slots.h \
	core/device/memory.c \
	core/device/runtime.c \
	core/device/select.c core/device/select.h \
	core/device/stream.c \
	core/device/team.c core/device/team.h \
	core/device/threads.c \
	core/device/tensor.c \
	core/device/tensor.h \
	core/device/workspace.c
