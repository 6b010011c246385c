/* SPDX-License-Identifier: Apache-2.0 */
/* write-artifacts FOLDER: writes the small network as TVM up to 0.19 would, for the CPU: all.so,
 * and net.json, net.so and net.params; and metal.so, for a device without a plugin. */

#include <string.h>

#include "tests/tvm/network.h"

static char *folder;

static void write_file(const char *name, const void *data, size_t size) {
  char *path = g_build_filename(folder, name, NULL);
  GError *error = NULL;
  if (!g_file_set_contents(path, data, (gssize)size, &error))
    g_error("%s", error->message);
  g_free(path);
}

static void build(const char *name, const char *header, const char *source,
                  const GByteArray *blob) {
  char *path = g_build_filename(folder, name, NULL);
  build_artifact(path, header, source, blob);
  g_free(path);
}

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  folder = argv[1];
  GByteArray *params = g_byte_array_new(), *blob = network_blob(network_json, NULL, NULL, "", 0),
             *for_metal = network_blob(network_json, "metal", "metal", "", 0);
  put_params_file(params, network_params, G_N_ELEMENTS(network_params));
  write_file("net.json", network_json, strlen(network_json));
  write_file("net.params", params->data, params->len);
  build("net.so", artifact_c_header, network_cpu_source, NULL);
  build("all.so", artifact_llvm_header, network_cpu_source, blob);
  build("metal.so", artifact_llvm_header, network_device_source, for_metal);
  g_byte_array_unref(params);
  g_byte_array_unref(blob);
  g_byte_array_unref(for_metal);
  return 0;
}
