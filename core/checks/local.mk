# SPDX-License-Identifier: Apache-2.0
# Checks of arguments, which all libraries include.

libbackplane_la_SOURCES += core/checks/argument.h
