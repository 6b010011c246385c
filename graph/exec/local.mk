# SPDX-License-Identifier: Apache-2.0
# Executors and artifacts.

libbackplane_graph_la_SOURCES += \
	graph/exec/artifact.c graph/exec/artifact.h graph/exec/graph_module.h \
	graph/exec/calls.h \
	graph/exec/crossing.c graph/exec/crossing.h \
	graph/exec/executor.c graph/exec/executor.h \
	graph/exec/graph_json.c graph/exec/graph_json.h \
	graph/exec/executor_module.c \
	graph/exec/factory.c \
	graph/exec/linked.c graph/exec/linked.h \
	graph/exec/graph_model.c \
	graph/exec/model.c graph/exec/model.h \
	graph/exec/order.c graph/exec/order.h \
	graph/exec/params.c \
	graph/exec/queue_thread.c graph/exec/queue_thread.h \
	graph/exec/run.c \
	graph/exec/sort.c graph/exec/sort.h \
	graph/exec/special.c graph/exec/special.h
