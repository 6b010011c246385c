/* SPDX-License-Identifier: Apache-2.0 */
/* Recognising a container. None of the marks is guaranteed: they only decide whether a hint is
 * given. */

#include "parts/doctor/container.h"

#include "core/system/env.h"
#include "core/registry/names.h"

#include <glib.h>
#include <string.h>
#include <unistd.h>

static int has_file(void) {
  static const char *const files[] = {"/.dockerenv", "/run/.containerenv", "/run/systemd/container",
                                      "/.singularity.d"};
  for (size_t i = 0; i < G_N_ELEMENTS(files); i++)
    if (!access(files[i], F_OK))
      return 1;
  return 0;
}

static int has_control_group(void) {
  static const char *const words[] = {"docker", "kubepods", "containerd", "libpod", "lxc"};
  g_autofree char *groups = NULL;
  if (!g_file_get_contents("/proc/1/cgroup", &groups, NULL, NULL))
    return 0;
  for (size_t i = 0; i < G_N_ELEMENTS(words); i++)
    if (strstr(groups, words[i]))
      return 1;
  return 0;
}

int bp__container_is_here(void) {
  return has_file() || bp__env_get("container") || bp__env_get("KUBERNETES_SERVICE_HOST") ||
         has_control_group();
}

/* Returns the option that passes one node: the node's folder if the folder holds only nodes of that
 * kind. */
static char *option_of(const char *node) {
  if (g_str_has_prefix(node, "/dev/nvidia"))
    return g_strdup("--gpus all");
  g_autofree char *plain = g_strndup(node, strcspn(node, "*?["));
  g_autofree char *folder = g_path_get_dirname(plain);
  return g_strdup_printf("--device %s", strcmp(folder, "/dev") ? folder : plain);
}

static void add_options(GPtrArray *options, const char *words) {
  size_t length = 0;
  for (const char *word = words; (word = bp__words_next(word, &length));) {
    g_autofree char *node = g_strndup(word, length);
    if (!g_str_has_prefix(node, "/dev/"))
      continue;
    char *option = option_of(node);
    if (g_ptr_array_find_with_equal_func(options, option, g_str_equal, NULL))
      g_free(option);
    else
      g_ptr_array_add(options, option);
  }
}

char *bp__container_remedy(const Descriptor *descriptor) {
  g_autoptr(GPtrArray) options = g_ptr_array_new_with_free_func(g_free);
  add_options(options, descriptor->nodes);
  add_options(options, descriptor->files);
  g_ptr_array_add(options, NULL);
  g_autofree char *list = g_strjoinv(", ", (char **)options->pdata);
  return *list ? g_strdup_printf("start the container with what the machine has of these: %s; and "
                                 "have the vendor's libraries in its image",
                                 list)
               : g_strdup("start the container with the vendor's devices (--device, --gpus), and "
                          "have the vendor's libraries in its image");
}
