# SPDX-License-Identifier: Apache-2.0
# The execution provider, a library that ONNX Runtime loads. The execution provider links against no
# library of ONNX Runtime. The library is never unmapped, because sessions may outlive the
# provider's registration.

EXTRA_DIST += bridges/onnxruntime/libbackplane-onnxruntime.map bridges/onnxruntime/python/pyproject.toml \
	bridges/onnxruntime/python/setup.py bridges/onnxruntime/python/src/onnxruntime_ep_backplane/__init__.py \
	bridges/onnxruntime/python/src/onnxruntime_ep_backplane/py.typed
if BUILD_ONNXRUNTIME
bridge_LTLIBRARIES += libbackplane-onnxruntime.la
endif
libbackplane_onnxruntime_la_SOURCES = \
	bridges/onnxruntime/bridge.h \
	bridges/onnxruntime/bytes.c \
	bridges/onnxruntime/entry.c \
	bridges/onnxruntime/ep.c \
	bridges/onnxruntime/graph.c \
	bridges/onnxruntime/memory.c \
	bridges/onnxruntime/onnx_write.c \
	bridges/onnxruntime/onnxruntime.h \
	bridges/onnxruntime/options.c \
	bridges/onnxruntime/ort_abi.h \
	bridges/onnxruntime/part.c \
	bridges/onnxruntime/partition.c \
	bridges/onnxruntime/report.c \
	bridges/onnxruntime/stream.c
libbackplane_onnxruntime_la_LDFLAGS = $(AM_LDFLAGS) $(NO_UNDEFINED) -module -avoid-version -shared \
	-Wl,-z,nodelete -Wl,--version-script=$(srcdir)/bridges/onnxruntime/libbackplane-onnxruntime.map
libbackplane_onnxruntime_la_LIBADD = libbackplane-graph.la libbackplane.la
EXTRA_libbackplane_onnxruntime_la_DEPENDENCIES = bridges/onnxruntime/libbackplane-onnxruntime.map
