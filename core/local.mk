# SPDX-License-Identifier: Apache-2.0
# libbackplane.

include core/checks/local.mk
include core/system/local.mk
include core/registry/local.mk
include core/module/local.mk
include core/device/local.mk
include core/target/local.mk

libbackplane_la_SOURCES += core/plugins.c core/start.c

# The host's threads and the destructors of per-thread data outlive a dlclose of the
# library.
libbackplane_la_LDFLAGS += -Wl,-z,nodelete
