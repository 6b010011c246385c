# SPDX-License-Identifier: Apache-2.0
# The choice of a device by a list of preferences.

libbackplane_la_SOURCES += \
	core/select/preferences.c core/select/preferences.h \
	core/select/select.c
