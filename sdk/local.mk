# SPDX-License-Identifier: Apache-2.0
# The headers of the plugin ABI, and the files for vendors.

pkginclude_HEADERS += \
	sdk/include/backplane/device_api.h \
	sdk/include/backplane/device_extensions.h \
	sdk/include/backplane/device_layer.h \
	sdk/include/backplane/emitter_api.h \
	sdk/include/backplane/error_kinds.h \
	sdk/include/backplane/graph_compiler.h \
	sdk/include/backplane/handle_table.h \
	sdk/include/backplane/host_api.h \
	sdk/include/backplane/ir_api.h \
	sdk/include/backplane/kernel_helpers.h \
	sdk/include/backplane/kernel_module.h \
	sdk/include/backplane/module_api.h \
	sdk/include/backplane/operator_call.h \
	sdk/include/backplane/part_module.h \
	sdk/include/backplane/plugin.h \
	sdk/include/backplane/plugin_helpers.h \
	sdk/include/backplane/pointer_map.h \
	sdk/include/backplane/target_api.h \
	sdk/include/backplane/value.h

aclocaldir = $(datadir)/aclocal
dist_aclocal_DATA = sdk/backplane-plugin.m4
dist_man_MANS += sdk/backplane-sdk.7

# The template of `backplane new-plugin`: a plugin called simdev; the command replaces the name.
# The template is installed as $(pkgdatadir)/sdk/template, with a program and a model for first
# steps beside it.
template_plugin_sources = \
	sdk/template/src/device.c \
	sdk/template/src/launch.c \
	sdk/template/src/events.c \
	sdk/template/src/external.c \
	sdk/template/src/memory.c \
	sdk/template/src/plugin.c \
	sdk/template/src/queue.c \
	sdk/template/src/simdev.h \
	sdk/template/src/simdev_plugin.h \
	sdk/template/src/target.c

# The template of `backplane new-plugin --kind npu`: an accelerator that claims operators, and the program that simulates
# the accelerator. The template npu takes debian/ and some tests from the template simdev.
template_npu_sources = \
	sdk/template-npu/src/chip.h \
	sdk/template-npu/src/claim.c \
	sdk/template-npu/src/compile.c \
	sdk/template-npu/src/device.c \
	sdk/template-npu/src/link.c \
	sdk/template-npu/src/memory.c \
	sdk/template-npu/src/module.c \
	sdk/template-npu/src/plugin.c \
	sdk/template-npu/src/simdev.h \
	sdk/template-npu/src/simdev_plugin.h \
	sdk/template-npu/src/target.c

sdkdir = $(pkgdatadir)
nobase_dist_sdk_DATA = \
	examples/minimal-device/minimal.c \
	examples/minimal-layer/layer.c \
	examples/minimal-operators/operators.c \
	examples/run-model/CMakeLists.txt \
	examples/run-model/meson.build \
	examples/run-model/run-model.c \
	examples/run-model/run-model.cc \
	examples/digits/README.md \
	examples/digits/digits.onnx \
	examples/digits/digits-int8.onnx \
	$(digits_images) \
	sdk/backplane-abi.json \
	sdk/device-types.txt \
	$(template_plugin_sources) \
	sdk/template/README.md \
	sdk/template/autotools/Makefile.am \
	sdk/template/autotools/configure.ac \
	sdk/template/debian/changelog \
	sdk/template/debian/control \
	sdk/template/debian/copyright \
	sdk/template/debian/source/format \
	sdk/template/debian/tests/control \
	sdk/template/gitignore \
	sdk/template/meson/meson.build \
	sdk/template/meson/meson_options.txt \
	sdk/template/tests/conformance-static.c \
	sdk/template/tests/test-device.c \
	sdk/template/tests/testing.h \
	$(template_npu_sources) \
	sdk/template-npu/README.md \
	sdk/template-npu/autotools/Makefile.am \
	sdk/template-npu/autotools/configure.ac \
	sdk/template-npu/meson/meson.build \
	sdk/template-npu/meson/meson_options.txt \
	sdk/template-npu/src/chip.c \
	sdk/template-npu/tests/test-device.c
nobase_dist_sdk_SCRIPTS = \
	sdk/template/debian/rules \
	sdk/template-npu/tests/model.sh \
	sdk/template/tests/conformance-static.sh \
	sdk/template/tests/conformance.sh
