# SPDX-License-Identifier: Apache-2.0
# Discovery, descriptors, activation.

libbackplane_la_SOURCES += \
	core/plugin/activate.c \
	core/plugin/candidates.c \
	core/plugin/descriptor.c core/plugin/descriptor.h \
	core/plugin/identity.c \
	core/plugin/isolate.c core/plugin/isolate.h \
	core/plugin/read.c \
	core/plugin/reasons.c core/plugin/reasons.h \
	core/plugin/scan.c \
	core/plugin/store.h \
	core/plugin/trial.c core/plugin/trial.h \
	core/plugin/trial_cache.c
