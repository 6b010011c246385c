/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration file: backplane.conf, groups of `key=value` lines. */
#ifndef BACKPLANE_PARTS_SELECT_CONFIG_H
#define BACKPLANE_PARTS_SELECT_CONFIG_H

/* Returns the value of a key (transfer full, g_free), and in *path the file that contains it
 * (transfer full, g_free): the user's ($XDG_CONFIG_HOME/backplane/, by default
 * ~/.config/backplane/), which a setuid program does not read, else the system's
 * ($(sysconfdir)/backplane/). *value is NULL if no file has the key. An existing file that cannot
 * be read, or is malformed, is an error. */
int bp__config_get(const char *group, const char *key, char **value, char **path);

#endif
