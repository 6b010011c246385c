# SPDX-License-Identifier: Apache-2.0
# The headers of the application API.

compilerincludedir = $(pkgincludedir)/compiler
graphincludedir = $(pkgincludedir)/graph
conformanceincludedir = $(pkgincludedir)/conformance

pkginclude_HEADERS += \
	include/backplane/api.h \
	include/backplane/backplane.h \
	include/backplane/backplane.hpp \
	include/backplane/cache.h \
	include/backplane/device.h \
	include/backplane/error.h \
	include/backplane/module.h \
	include/backplane/object.h \
	include/backplane/plugins.h \
	include/backplane/target.h \
	include/backplane/tensor.h \
	include/backplane/version.h

compilerinclude_HEADERS = \
	include/backplane/compiler/ir.h \
	include/backplane/compiler/block.h \
	include/backplane/compiler/kernels.h \
	include/backplane/compiler/schedules.h \
	include/backplane/compiler/te.h

conformanceinclude_HEADERS = include/backplane/conformance/conformance.h

graphinclude_HEADERS = \
	include/backplane/graph/executor.h \
	include/backplane/graph/model.h \
	include/backplane/graph/npy.h \
	include/backplane/graph/relax.h
