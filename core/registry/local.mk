# SPDX-License-Identifier: Apache-2.0
# Values, objects, errors, packed functions, the registry.

libbackplane_la_SOURCES += \
	core/registry/dtype.c \
	core/registry/element.c core/registry/element.h \
	core/registry/argument.h \
	core/registry/error.c \
	core/registry/host.c \
	core/registry/host.h \
	core/registry/log.h \
	core/registry/object.c \
	core/registry/object.h \
	core/registry/registration.c core/registry/registration.h \
	core/registry/registry.c \
	core/registry/registry.h \
	core/registry/installed.h \
	core/registry/argument.c \
	core/registry/value.c \
	core/registry/cache.c core/registry/cache.h \
	core/registry/hints.c core/registry/hints.h \
	core/registry/names.c core/registry/names.h \
	core/registry/part.c core/registry/part.h
