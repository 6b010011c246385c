/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that bench/list copies a hundred times under other names. The benchmark detects that its
 * code runs: each process that runs it adds a byte to a file. The names are made of pairs "az" and
 * "c8", so that all entry points have the hash that the dynamic loader looks for
 * (tests/mock/defect.c). */
#include <backplane/plugin.h>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

BP_PLUGIN_DESCRIPTOR("abi=" BP_ABI_TEXT "\n"
                     "name=bench-azazazazazazaz\n"
                     "version=1.0\n"
                     "license=Apache-2.0\n"
                     "description=one of a hundred\n"
                     "entry=bp_plugin_entry_bench_azazazazazazaz\n"
                     "provides=device_api.bench-azazazazazazaz\n"
                     "devices=bench-azazazazazazaz\n"
                     "targets=\n"
                     "libraries=libnowhere.so.1\n");

#define ENTRY bp_plugin_entry_bench_azazazazazazaz

BP_PLUGIN_EXPORT int32_t ENTRY(const BpHost *host, BpPlugin *plugin);

int32_t ENTRY(const BpHost *host, BpPlugin *plugin) {
  const char *path = getenv("BENCH_LIST_WITNESS");
  (void)host;
  (void)plugin;
  int fd = path ? open(path, O_CREAT | O_WRONLY | O_APPEND, 0600) : -1;
  if (fd >= 0 && write(fd, "x", 1) == 1)
    close(fd);
  return -1;
}
