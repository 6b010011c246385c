# SPDX-License-Identifier: Apache-2.0
# Modules and their serialised forms.

libbackplane_la_SOURCES += \
	core/module/absent.c \
	core/module/absent.h \
	core/module/blob.c \
	core/module/blob.h \
	core/module/bytes.c \
	core/module/bytes.h \
	core/module/device_code.c \
	core/module/device_code.h \
	core/module/elf_file.c \
	core/module/elf_file.h \
	core/module/library.c \
	core/module/library.h \
	core/module/library_file.c \
	core/module/library_file.h \
	core/module/load.c \
	core/module/load.h \
	core/module/module.c \
	core/module/module.h \
	core/module/old_tvm.c core/module/old_tvm.h \
	core/module/slots.c \
	core/module/start.c \
	core/module/toolchain.c core/module/toolchain.h
