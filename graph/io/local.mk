# SPDX-License-Identifier: Apache-2.0
# Arrays in files.

libbackplane_graph_la_SOURCES += graph/io/npy.c
