# SPDX-License-Identifier: Apache-2.0
# The program that runs an isolated plugin. The plugin worker (plugins/worker) starts this program
# and is the other end of its connection.

pkglibexec_PROGRAMS += backplane-worker
backplane_worker_SOURCES = \
	tools/worker/confine.c \
	tools/worker/device.c \
	tools/worker/event.c \
	tools/worker/graph.c \
	tools/worker/list.c \
	tools/worker/main.c \
	tools/worker/module.c \
	tools/worker/relay.c \
	tools/worker/serve.c \
	tools/worker/share.c \
	tools/worker/stream.c \
	tools/worker/target.c \
	tools/worker/worker.h
backplane_worker_CPPFLAGS = $(AM_CPPFLAGS) -DBP_COMPILER_LIBRARY='"libbackplane-compiler.so.1"'
backplane_worker_LDADD = libbackplane.la -ldl
