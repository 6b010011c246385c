/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the table Installed that are in files of their own. */
#ifndef BACKPLANE_PARTS_PLUGINS_PLUGINS_H
#define BACKPLANE_PARTS_PLUGINS_PLUGINS_H

#include "core/registry/installed.h"

int bp__plugins_activate_provider(const char *registry_name);
int bp__plugins_register_static(const char *descriptor, BpPluginEntry entry);
int bp__plugins_activate_named(const char *name);
void bp__plugins_try_kinds(const char *const *device_kinds);

#endif
