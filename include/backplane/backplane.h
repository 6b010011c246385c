/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that an application needs to run models; link with backplane-graph. Few applications
 * use the headers that are not included: the compiler's headers (compiler/), the executors by
 * themselves (graph/executor.h, graph/relax.h), and the parts of plugins (plugin.h). */
#ifndef BACKPLANE_BACKPLANE_H
#define BACKPLANE_BACKPLANE_H

#include <backplane/cache.h>
#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/model.h>
#include <backplane/graph/npy.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <backplane/target.h>
#include <backplane/tensor.h>
#include <backplane/version.h>

#endif
