# SPDX-License-Identifier: Apache-2.0
# Target kinds.

libbackplane_la_SOURCES += \
	core/target/target.c \
	core/target/target.h
