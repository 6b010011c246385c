# SPDX-License-Identifier: Apache-2.0
# Plugin dnnl: the graph compiler dnnl.

if BUILD_DNNL
plugin_LTLIBRARIES += backplane-dnnl.la
backplane_dnnl_la_SOURCES = \
	plugins/common/common.h \
	plugins/common/library.c \
	plugins/dnnl/claim.c \
	plugins/dnnl/compile.c \
	plugins/dnnl/dnnl.h \
	plugins/dnnl/loader.c \
	plugins/dnnl/module.c \
	plugins/dnnl/operators.c \
	plugins/dnnl/plan.c \
	plugins/dnnl/plugin.c \
	plugins/dnnl/resolve.c
backplane_dnnl_la_CPPFLAGS = $(CPPFLAGS_PLUGIN)
backplane_dnnl_la_LDFLAGS = $(LDFLAGS_PLUGIN)
backplane_dnnl_la_LIBADD = -ldl
endif
