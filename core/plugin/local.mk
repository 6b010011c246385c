# SPDX-License-Identifier: Apache-2.0
# Discovery, descriptors, activation.

libbackplane_la_SOURCES += core/plugin/start.c
