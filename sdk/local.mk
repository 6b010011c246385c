# SPDX-License-Identifier: Apache-2.0
# The plugin ABI's headers, and what vendors are given.

pkginclude_HEADERS += \
	sdk/include/backplane/device_api.h \
	sdk/include/backplane/emitter_api.h \
	sdk/include/backplane/error_kinds.h \
	sdk/include/backplane/host_api.h \
	sdk/include/backplane/ir_api.h \
	sdk/include/backplane/kernel_helpers.h \
	sdk/include/backplane/module_api.h \
	sdk/include/backplane/plugin.h \
	sdk/include/backplane/plugin_helpers.h \
	sdk/include/backplane/pointer_map.h \
	sdk/include/backplane/target_api.h \
	sdk/include/backplane/value.h

EXTRA_DIST += sdk/device-types.txt
