# SPDX-License-Identifier: Apache-2.0
# Plugin layers: validate, trace and fault, around the devices of any plugin.

plugin_LTLIBRARIES += backplane-layers.la
backplane_layers_la_SOURCES = \
	plugins/layers/fault.c \
	plugins/layers/forward.c \
	plugins/layers/layers.h \
	plugins/layers/order.c \
	plugins/layers/plugin.c \
	plugins/layers/report.c \
	plugins/layers/slots.h \
	plugins/layers/table.c \
	plugins/layers/trace.c \
	plugins/layers/trace.h \
	plugins/layers/trace_file.c \
	plugins/layers/validate.c \
	plugins/layers/validate.h
backplane_layers_la_CPPFLAGS = $(CPPFLAGS_PLUGIN)
backplane_layers_la_LDFLAGS = $(LDFLAGS_PLUGIN)
backplane_layers_la_LIBADD = -ldl
