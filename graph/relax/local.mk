# SPDX-License-Identifier: Apache-2.0
# Relax executables, the output of TVM's model compiler.

libbackplane_graph_la_SOURCES += \
	graph/relax/append.c graph/relax/arguments.c graph/relax/arguments.h \
	graph/relax/builtin.c graph/relax/builtin.h \
	graph/relax/context.c \
	graph/relax/executable.c graph/relax/executable.h graph/relax/form.h \
	graph/relax/kept.c graph/relax/kept.h \
	graph/relax/machine.c graph/relax/machine.h \
	graph/relax/model.c graph/relax/model.h \
	graph/relax/module.c graph/relax/module.h \
	graph/relax/sequence.c graph/relax/sequence.h \
	graph/relax/signature.c \
	graph/relax/storage.c graph/relax/storage.h \
	graph/relax/workspace.c graph/relax/workspace.h
