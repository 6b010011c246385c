# SPDX-License-Identifier: Apache-2.0
# Modules and their serialised forms.

libbackplane_la_SOURCES += \
	core/module/blob.c core/module/blob.h \
	core/module/bytes.c core/module/bytes.h \
	core/module/device_code.c \
	core/module/library.c core/module/library.h \
	core/module/library_file.c core/module/library_file.h \
	core/module/load.c core/module/load.h \
	core/module/module.c core/module/module.h \
	core/module/parts.c core/module/parts.h \
	core/module/library_slots.c
