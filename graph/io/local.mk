# SPDX-License-Identifier: Apache-2.0
# Arrays in files, and byte streams.

libbackplane_graph_la_SOURCES += graph/io/npy.c graph/io/stream.c graph/io/stream.h
