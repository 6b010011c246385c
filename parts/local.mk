# SPDX-License-Identifier: Apache-2.0
# Parts of the core that are loaded at their first use. Each part belongs to one version of the
# core.

# Parts are named by the soname of the core, so that two versions of the core may be installed.
partsdir = $(libdir)/libbackplane$(BP_ABI_MAJOR)
parts_LTLIBRARIES =
part_ldflags = $(AM_LDFLAGS) $(NO_UNDEFINED) -module -avoid-version -shared \
	-export-symbols-regex '^bp__part$$'

# Sources that several parts contain: parts_spawn starts programs, parts_file replaces files, and parts_parallel has the
# threads that try plugins.
parts_spawn = parts/spawn.c parts/spawn.h
parts_file = parts/file.c parts/file.h
parts_parallel = parts/parallel.c parts/parallel.h

# Plugins: finding, describing, checking and activating them.
parts_LTLIBRARIES += backplane-plugins.la
backplane_plugins_la_SOURCES = \
	parts/plugins/activate.c \
	parts/plugins/candidates.c \
	parts/plugins/descriptor.c parts/plugins/descriptor.h \
	parts/plugins/trial_identity.c \
	parts/plugins/isolate.c parts/plugins/isolate.h \
	parts/plugins/list.c \
	parts/plugins/named.c \
	parts/plugins/plugins.h \
	parts/plugins/read.c \
	parts/plugins/reasons.c parts/plugins/reasons.h \
	parts/plugins/scan.c \
	parts/plugins/store.h \
	parts/plugins/trial.c parts/plugins/trial.h \
	parts/plugins/trial_cache.c $(parts_parallel)
backplane_plugins_la_CPPFLAGS = $(libbackplane_la_CPPFLAGS)
backplane_plugins_la_LDFLAGS = $(AM_LDFLAGS) $(NO_UNDEFINED) -module -avoid-version -shared \
	-export-symbols-regex '^bp__'
backplane_plugins_la_LIBADD = libbackplane.la $(GLIB_LIBS) $(LIBELF_LIBS) -ldl
# The linker flags of parts that use the part backplane-plugins.so. The loader finds that part in
# the folder of the parts.
parts_plugins = -L.libs -l:backplane-plugins.so
part_ldflags_plugins = $(part_ldflags) -Wl,-rpath,'$$ORIGIN'

# Running compilers, and loading the libraries that they make.
parts_LTLIBRARIES += backplane-toolchain.la
backplane_toolchain_la_SOURCES = \
	parts/toolchain/cc.c parts/toolchain/cc.h \
	parts/toolchain/command.c parts/toolchain/command.h \
	parts/toolchain/compile.c parts/toolchain/compile.h \
	parts/toolchain/device_code.c \
	parts/toolchain/export.c parts/toolchain/export.h \
	parts/toolchain/compiler_run.c parts/toolchain/compiler_run.h \
	parts/toolchain/toolchain.c \
	parts/toolchain/workdir.c parts/toolchain/workdir.h $(parts_spawn) $(parts_file) $(parts_parallel)
backplane_toolchain_la_LDFLAGS = $(part_ldflags)
backplane_toolchain_la_LIBADD = libbackplane.la $(GLIB_LIBS)

# Libraries of TVM up to 0.19.
parts_LTLIBRARIES += backplane-tvm.la
backplane_tvm_la_SOURCES = \
	parts/tvm/mblob.c parts/tvm/mblob.h \
	parts/tvm/packed_c.c parts/tvm/packed_c.h \
	parts/tvm/tvm.c
backplane_tvm_la_LDFLAGS = $(part_ldflags)
backplane_tvm_la_LIBADD = libbackplane.la $(GLIB_LIBS)

# Diagnosing plugins: the defects found, and their remedies.
parts_LTLIBRARIES += backplane-doctor.la
backplane_doctor_la_SOURCES = \
	parts/doctor/container.c parts/doctor/container.h \
	parts/doctor/diagnose.c parts/doctor/diagnose.h \
	parts/doctor/doctor.c \
	parts/doctor/reasons.c parts/doctor/reasons.h $(parts_parallel)
EXTRA_backplane_doctor_la_DEPENDENCIES = backplane-plugins.la
backplane_doctor_la_LDFLAGS = $(part_ldflags_plugins)
backplane_doctor_la_LIBADD = libbackplane.la $(parts_plugins) $(GLIB_LIBS)

# Trials of new plugins.
parts_LTLIBRARIES += backplane-trial.la
backplane_trial_la_SOURCES = \
	parts/trial/child.c \
	parts/trial/learn.c \
	parts/trial/part.c \
	parts/trial/report.c parts/trial/report.h \
	parts/trial/run.c \
	parts/trial/trial.h $(parts_spawn)
EXTRA_backplane_trial_la_DEPENDENCIES = backplane-plugins.la
backplane_trial_la_LDFLAGS = $(part_ldflags_plugins)
backplane_trial_la_LIBADD = libbackplane.la $(parts_plugins) $(GLIB_LIBS) -ldl

# Removing old files of the cache, and counting them.
parts_LTLIBRARIES += backplane-cache.la
backplane_cache_la_SOURCES = parts/cache/cache.c $(parts_file)
backplane_cache_la_LDFLAGS = $(part_ldflags)
backplane_cache_la_LIBADD = libbackplane.la $(GLIB_LIBS)

# The advice in messages, and code whose plugin is absent.
parts_LTLIBRARIES += backplane-hints.la
backplane_hints_la_SOURCES = \
	parts/hints/absence.c \
	parts/hints/absent_module.c \
	parts/hints/device.c \
	parts/hints/hints.h \
	parts/hints/nearest.c \
	parts/hints/packages.c
backplane_hints_la_CPPFLAGS = $(libbackplane_la_CPPFLAGS)
backplane_hints_la_LDFLAGS = $(part_ldflags)
backplane_hints_la_LIBADD = libbackplane.la $(GLIB_LIBS)

# Events, external memory, copies between devices, DLPack.
parts_LTLIBRARIES += backplane-exchange.la
backplane_exchange_la_SOURCES = \
	parts/exchange/dlpack.c \
	parts/exchange/event.c parts/exchange/event.h \
	parts/exchange/exchange.h \
	parts/exchange/external.c \
	parts/exchange/part.c \
	parts/exchange/transfer.c
backplane_exchange_la_LDFLAGS = $(part_ldflags)
backplane_exchange_la_LIBADD = libbackplane.la $(GLIB_LIBS)

# Choosing a device from a list of preferences.
parts_LTLIBRARIES += backplane-select.la
backplane_select_la_SOURCES = \
	parts/select/config.c parts/select/config.h \
	parts/select/preferences.c parts/select/preferences.h \
	parts/select/select.c
backplane_select_la_CPPFLAGS = $(libbackplane_la_CPPFLAGS)
backplane_select_la_LDFLAGS = $(part_ldflags)
backplane_select_la_LIBADD = libbackplane.la $(GLIB_LIBS)

# Targets, their text forms, and generating code for them.
parts_LTLIBRARIES += backplane-target.la
backplane_target_la_SOURCES = \
	parts/target/json.c \
	parts/target/kind.c \
	parts/target/options.c \
	parts/target/part.c \
	parts/target/range.c \
	parts/target/target.c parts/target/target.h
backplane_target_la_LDFLAGS = $(part_ldflags)
backplane_target_la_LIBADD = libbackplane.la $(GLIB_LIBS) -lm

# Tensors as text.
parts_LTLIBRARIES += backplane-text.la
backplane_text_la_SOURCES = \
	parts/text/attr.c parts/text/attr.h \
	parts/text/tensor.c
backplane_text_la_LDFLAGS = $(part_ldflags)
backplane_text_la_LIBADD = libbackplane.la $(GLIB_LIBS) -lm

# Layers around the tables of devices.
parts_LTLIBRARIES += backplane-layering.la
backplane_layering_la_SOURCES = parts/layering/layers.c
backplane_layering_la_LDFLAGS = $(part_ldflags)
backplane_layering_la_LIBADD = libbackplane.la $(GLIB_LIBS)

# Plugins in separate processes, and on other machines.
parts_LTLIBRARIES += backplane-isolation.la
backplane_isolation_la_SOURCES = \
	parts/isolation/isolate.c parts/isolation/isolate.h \
	parts/isolation/remote.c parts/isolation/remote.h $(parts_spawn)
backplane_isolation_la_CPPFLAGS = $(libbackplane_la_CPPFLAGS)
EXTRA_backplane_isolation_la_DEPENDENCIES = backplane-plugins.la
backplane_isolation_la_LDFLAGS = $(part_ldflags_plugins)
backplane_isolation_la_LIBADD = libbackplane.la $(parts_plugins) $(GLIB_LIBS)
