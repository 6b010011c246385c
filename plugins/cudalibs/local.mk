# SPDX-License-Identifier: Apache-2.0
# Plugin cudalibs: the graph compiler cudalibs.

if BUILD_CUDALIBS
plugin_LTLIBRARIES += backplane-cudalibs.la
backplane_cudalibs_la_SOURCES = \
	plugins/common/common.h \
	plugins/common/cuda_api.h \
	plugins/common/library.c \
	plugins/cudalibs/check.c \
	plugins/cudalibs/claim.c \
	plugins/cudalibs/compile.c \
	plugins/cudalibs/cudalibs.h \
	plugins/cudalibs/engine.c \
	plugins/cudalibs/library_api.h \
	plugins/cudalibs/loader.c \
	plugins/cudalibs/module.c \
	plugins/cudalibs/plan.c \
	plugins/cudalibs/plugin.c \
	plugins/cudalibs/run.c
backplane_cudalibs_la_CPPFLAGS = $(CPPFLAGS_PLUGIN)
backplane_cudalibs_la_LDFLAGS = $(LDFLAGS_PLUGIN)
backplane_cudalibs_la_LIBADD = -ldl
endif
