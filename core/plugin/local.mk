# SPDX-License-Identifier: Apache-2.0
# Discovery, descriptors, activation.

libbackplane_la_SOURCES += \
	core/plugin/start.c \
	core/plugin/activate.c \
	core/plugin/descriptor.c core/plugin/descriptor.h \
	core/plugin/elf_note.c core/plugin/elf_note.h \
	core/plugin/machine.c core/plugin/machine.h \
	core/plugin/plugins.c \
	core/plugin/read.c \
	core/plugin/scan.c \
	core/plugin/store.h
