/* SPDX-License-Identifier: Apache-2.0 */
/* The start of the graph library: its first use registers its loaders and functions. */
#include <backplane/graph/executor.h>

#include <pthread.h>

#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/exec/graph_module.h"
#include "graph/exec/sort.h"
#include "graph/relax/module.h"

/* The error of a failed registration, or NULL. */
static BpError *failure;

static void initialize(void) {
  if (bp__executor_register() < 0 || bp__graph_module_register() < 0 ||
      bp__factory_register() < 0 || bp__relax_register() < 0 || bp__sort_register() < 0)
    failure = bp_error_take();
}

int bp_graph_initialize(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, initialize);
  if (!failure)
    return 0;
  bp_error_put(bp_object_retain(failure));
  return -1;
}
