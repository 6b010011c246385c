/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins of other machines: functions of the table Isolation. */
#ifndef BACKPLANE_PARTS_ISOLATION_REMOTE_H
#define BACKPLANE_PARTS_ISOLATION_REMOTE_H

#include "parts/plugins/isolate.h"

void bp__remote_find_all(void);
int bp__remote_find(const char *host);
/* Returns the number of a machine in this process, from 1 on. */
int32_t bp__remote_number(const char *host);
void bp__remote_fork(void);

/* Returns the command that starts the worker on a machine (transfer full, g_strfreev); its first
 * word is an absolute path. NULL with an error. */
char **bp__remote_command(const char *host);

#endif
