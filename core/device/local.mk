# SPDX-License-Identifier: Apache-2.0
# Devices and their tables, memory, streams, tensors, the host's threads.

libbackplane_la_SOURCES += \
	core/device/device.h \
	core/device/kinds.c \
	core/device/launch.c \
	core/device/layers.c core/device/layers.h \
	core/device/memory.c \
	core/device/parts.c core/device/parts.h \
	core/device/runtime.c \
	core/device/stream.c \
	core/device/tensor.c core/device/tensor.h \
	core/device/threads.c \
	core/device/workspace.c
