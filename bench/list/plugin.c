/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that bench/list copies a hundred times under other names. Running its code shows: it
 * writes to a file, which the benchmark looks for. */
#include <backplane/plugin.h>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

BP_PLUGIN_DESCRIPTOR("abi=" BP_ABI_TEXT "\n"
                     "name=bench-000\n"
                     "version=1.0\n"
                     "license=Apache-2.0\n"
                     "description=one of a hundred\n"
                     "entry=bp_plugin_entry_bench_000\n"
                     "provides=device_api.bench000\n"
                     "devices=bench000\n"
                     "targets=\n"
                     "libraries=libnowhere.so.1\n");

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_bench_000(const BpHost *host, BpPlugin *plugin);

int32_t bp_plugin_entry_bench_000(const BpHost *host, BpPlugin *plugin) {
  const char *path = getenv("BENCH_LIST_WITNESS");
  (void)host;
  (void)plugin;
  if (path)
    close(open(path, O_CREAT | O_WRONLY, 0600));
  return -1;
}
