/* SPDX-License-Identifier: Apache-2.0 */
/* Containers: whether this process runs in one, and how one is given a plugin's devices. */
#ifndef BACKPLANE_CORE_PLUGIN_CONTAINER_H
#define BACKPLANE_CORE_PLUGIN_CONTAINER_H

#include "core/plugin/descriptor.h"

/* By the marks that Docker, Podman, containerd, Kubernetes, LXC, systemd and Apptainer leave. */
int bp__container_is_here(void);

/* With what options a container is started that the plugin's device nodes are passed into (transfer
 * full, g_free). */
char *bp__container_remedy(const Descriptor *descriptor);

#endif
