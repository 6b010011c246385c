# SPDX-License-Identifier: Apache-2.0
# Plugin worker: runs other plugins in separate processes. tools/worker is the program of
# these processes.

plugin_LTLIBRARIES += backplane-worker.la
backplane_worker_la_SOURCES = \
	plugins/worker/device.c \
	plugins/worker/event.c \
	plugins/worker/graph.c \
	plugins/worker/module.c \
	plugins/worker/plugin.c \
	plugins/worker/protocol.h \
	plugins/worker/session.c \
	plugins/worker/share.c \
	plugins/worker/target.c \
	plugins/worker/worker.h
backplane_worker_la_CPPFLAGS = $(CPPFLAGS_PLUGIN)
backplane_worker_la_LDFLAGS = $(LDFLAGS_PLUGIN)
