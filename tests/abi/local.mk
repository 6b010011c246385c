# SPDX-License-Identifier: Apache-2.0
# Tests of: the layouts of the ABI, and the plugin that is kept as source.

# The corpus, with the headers of its versions: see tests/abi/corpus.sh.
frozen_files = \
	sdk/abi/1.0/include/backplane/device_api.h \
	sdk/abi/1.0/include/backplane/device_extensions.h \
	sdk/abi/1.0/include/backplane/device_layer.h \
	sdk/abi/1.0/include/backplane/emitter_api.h \
	sdk/abi/1.0/include/backplane/error_kinds.h \
	sdk/abi/1.0/include/backplane/graph_compiler.h \
	sdk/abi/1.0/include/backplane/host_api.h \
	sdk/abi/1.0/include/backplane/ir_api.h \
	sdk/abi/1.0/include/backplane/kernel_helpers.h \
	sdk/abi/1.0/include/backplane/kernel_module.h \
	sdk/abi/1.0/include/backplane/module_api.h \
	sdk/abi/1.0/include/backplane/plugin.h \
	sdk/abi/1.0/include/backplane/plugin_helpers.h \
	sdk/abi/1.0/include/backplane/pointer_map.h \
	sdk/abi/1.0/include/backplane/target_api.h \
	sdk/abi/1.0/include/backplane/value.h \
	tests/abi/corpus/1.0/SHA256SUMS \
	tests/abi/corpus/1.0/application.c \
	tests/abi/corpus/1.0/application/backplane/api.h \
	tests/abi/corpus/1.0/application/backplane/backplane.h \
	tests/abi/corpus/1.0/application/backplane/cache.h \
	tests/abi/corpus/1.0/application/backplane/compiler/block.h \
	tests/abi/corpus/1.0/application/backplane/compiler/ir.h \
	tests/abi/corpus/1.0/application/backplane/compiler/kernels.h \
	tests/abi/corpus/1.0/application/backplane/compiler/schedules.h \
	tests/abi/corpus/1.0/application/backplane/compiler/te.h \
	tests/abi/corpus/1.0/application/backplane/conformance/conformance.h \
	tests/abi/corpus/1.0/application/backplane/device.h \
	tests/abi/corpus/1.0/application/backplane/error.h \
	tests/abi/corpus/1.0/application/backplane/graph/executor.h \
	tests/abi/corpus/1.0/application/backplane/graph/model.h \
	tests/abi/corpus/1.0/application/backplane/graph/npy.h \
	tests/abi/corpus/1.0/application/backplane/graph/relax.h \
	tests/abi/corpus/1.0/application/backplane/module.h \
	tests/abi/corpus/1.0/application/backplane/object.h \
	tests/abi/corpus/1.0/application/backplane/plugins.h \
	tests/abi/corpus/1.0/application/backplane/target.h \
	tests/abi/corpus/1.0/application/backplane/tensor.h \
	tests/abi/corpus/1.0/application/backplane/version.h \
	tests/abi/corpus/1.0/compiler.c \
	tests/abi/corpus/1.0/device.c \
	tests/abi/corpus/1.0/generator.c \
	tests/abi/corpus/1.0/layer.c

test_programs += tests/abi/test-layout tests/abi/test-frozen tests/abi/test-sizes
check_LTLIBRARIES += tests/abi/frozen-then.la tests/abi/frozen-now.la \
	tests/abi/frozen-newer.la tests/abi/frozen-newest.la
tests_abi_frozen_then_la_SOURCES = sdk/abi/1.0/frozen.c
tests_abi_frozen_then_la_CPPFLAGS = -I$(srcdir)/sdk/abi/1.0/include -DFROZEN=then \
	-DFROZEN_DEVICE_TYPE=65001
tests_abi_frozen_then_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)
tests_abi_frozen_now_la_SOURCES = sdk/abi/1.0/frozen.c
tests_abi_frozen_now_la_CPPFLAGS = -I$(srcdir)/sdk/include -DFROZEN=now -DFROZEN_DEVICE_TYPE=65002
tests_abi_frozen_now_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)
# Plugins with newer headers than the host's: the first plugin states that the host's ABI is enough.
tests_abi_frozen_newer_la_SOURCES = sdk/abi/1.0/frozen.c
tests_abi_frozen_newer_la_CPPFLAGS = -Itests/abi/newer -DFROZEN=newer -DFROZEN_DEVICE_TYPE=65003 \
	-DFROZEN_LATER -DBP_ABI_NEEDED_MINOR=0
tests_abi_frozen_newer_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)
tests_abi_frozen_newest_la_SOURCES = sdk/abi/1.0/frozen.c
tests_abi_frozen_newest_la_CPPFLAGS = -Itests/abi/newer -DFROZEN=newest \
	-DFROZEN_DEVICE_TYPE=65004 -DFROZEN_LATER
tests_abi_frozen_newest_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

newer_header = tests/abi/newer/backplane/plugin.h
$(newer_header): $(filter sdk/include/%,$(pkginclude_HEADERS)) tests/abi/newer-headers
	$(AM_V_GEN)$(srcdir)/tests/abi/newer-headers $(srcdir)/sdk/include/backplane tests/abi/newer/backplane
sdk/abi/1.0/tests_abi_frozen_newer_la-frozen.lo \
sdk/abi/1.0/tests_abi_frozen_newest_la-frozen.lo: $(newer_header)
CLEANFILES += tests/abi/newer/backplane/*.h
EXTRA_DIST += tests/abi/newer-headers tests/abi/compare-headers tests/abi/appends.sh
test_scripts += tests/abi/appends.sh
test_scripts += tests/abi/corpus.sh
EXTRA_DIST += tests/abi/corpus.sh $(frozen_files)
test_scripts += tests/abi/description.sh
EXTRA_DIST += tests/abi/description.sh scripts/abi-description
test_scripts += tests/abi/test-null-arguments.sh
EXTRA_DIST += tests/abi/test-null-arguments.sh tests/abi/null_arguments.py tests/abi/null-allowed.txt
test_scripts += tests/abi/other-machines.sh
EXTRA_DIST += tests/abi/other-machines.sh
test_scripts += tests/abi/tvm-ffi-layout.sh tests/abi/abi-baseline.sh
EXTRA_DIST += tests/abi/tvm-ffi-layout.sh tests/abi/tvm_ffi_layout.c
EXTRA_DIST += scripts/abi-baseline tests/abi/abi-baseline.sh tests/abi/baseline/numbers \
	tests/abi/baseline/types.abi

# Replaces the stored ABI by the ABI of this build; see docs/abi.md.
abi-baseline: all
	$(srcdir)/scripts/abi-baseline --update $(abs_top_builddir)
	$(srcdir)/scripts/abi-description $(srcdir)/sdk/include/backplane >$(srcdir)/sdk/backplane-abi.json
	$(srcdir)/scripts/abi-description --layers $(srcdir)/sdk/backplane-abi.json >$(srcdir)/plugins/layers/slots.h
.PHONY: abi-baseline
