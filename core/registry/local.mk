# SPDX-License-Identifier: Apache-2.0
# Values, objects, errors, packed functions, the registry.

libbackplane_la_SOURCES += core/registry/version.c
