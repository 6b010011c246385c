# SPDX-License-Identifier: Apache-2.0
# Arrays in files, byte streams, the clock, the devices of models.

libbackplane_graph_la_SOURCES += graph/io/clock.h graph/io/device_text.h graph/io/argument.h graph/io/json.c graph/io/json.h \
	graph/io/model_executor.h graph/io/npy.c graph/io/npy.h graph/io/overlap.h graph/io/places.c graph/io/places.h \
	graph/io/stream.c graph/io/stream.h graph/io/write.c graph/io/write.h
