/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this process runs in a container, and how a container gets a plugin's devices. */
#ifndef BACKPLANE_PARTS_DOCTOR_CONTAINER_H
#define BACKPLANE_PARTS_DOCTOR_CONTAINER_H

#include "parts/plugins/descriptor.h"

/* Whether this process runs in a container, by the marks of Docker, Podman, containerd, Kubernetes,
 * LXC, systemd and Apptainer. */
int bp__container_is_here(void);

/* Returns the options that pass the plugin's device nodes into a container (transfer full,
 * g_free). */
char *bp__container_remedy(const Descriptor *descriptor);

#endif
