# SPDX-License-Identifier: Apache-2.0
# The operating system: the environment, files, locks, and the permissions of files.

libbackplane_la_SOURCES += \
	core/system/elf.c core/system/elf.h \
	core/system/env.c core/system/env.h \
	core/system/file.c core/system/file.h \
	core/system/lock.c core/system/lock.h \
	core/system/shared.h \
	core/system/trust.c core/system/trust.h
