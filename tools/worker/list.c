/* SPDX-License-Identifier: Apache-2.0 */
/* The plugins of this machine, listed for a host on another machine. */

#include "worker.h"

#include <stdio.h>
#include <stdlib.h>

/* Writes a descriptor (plugin.h) without the lines that concern only this machine. */
static void print_plugin(FILE *file, const BpPluginInfo *info) {
  fprintf(file,
          "abi=%s\nname=%s\nversion=%s\nlicense=%s\ndescription=%s\nentry=bp_plugin_entry_%s\n"
          "provides=%s\ndevices=%s\ntargets=%s\n",
          info->abi, info->name, info->version, info->license, info->description, info->name,
          info->provides, info->devices, info->targets);
  fputc('\0', file);
}

static void print_plugins(FILE *file) {
  BpPluginList *list = bp_plugin_list();
  for (size_t i = 0; i < bp_plugin_list_size(list); i++) {
    const BpPluginInfo *info = bp_plugin_list_get(list, i);
    int is_usable = info->state == BP_PLUGIN_FOUND || info->state == BP_PLUGIN_ACTIVE;
    if (is_usable && *info->devices)
      print_plugin(file, info);
  }
  bp_plugin_list_free(list);
}

/* Lists the plugins that have devices and are not known to fail, each as a descriptor with its
 * NUL. */
int worker_list(Job *job) {
  char *text = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&text, &size);
  if (file)
    print_plugins(file);
  if (!file || fclose(file)) {
    free(text);
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for a list of plugins");
  }
  Blob *blob = worker_blob_create(text, size);
  free(text);
  worker_put_pointer(job, blob);
  bp_wire_put(&job->out, size);
  return blob ? 0 : -1;
}
