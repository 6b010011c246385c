/* SPDX-License-Identifier: Apache-2.0 */
/* The required slots of a device table, for devices without memory or with host memory: tests of
 * the layers above devices add their own slots. */
#ifndef BACKPLANE_TESTS_BARE_DEVICE_H
#define BACKPLANE_TESTS_BARE_DEVICE_H

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/plugin_helpers.h>
#include <glib.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Returns the devices that BP_TEST_DEVICES names, else `otherwise`; both are separated by spaces
 * (transfer full, g_strfreev). The call adds the plugins of tests/mock to the search path. */
static inline char **bare_list_devices(const char *otherwise) {
  const char *wanted = g_getenv("BP_TEST_DEVICES");
  const char *build = g_getenv("top_builddir"), *plugins = g_getenv("BACKPLANE_PLUGIN_PATH");
  g_autofree char *path =
      g_strdup_printf("%s:%s/tests/mock/.libs", plugins ? plugins : "", build ? build : ".");
  g_setenv("BACKPLANE_PLUGIN_PATH", path, TRUE);
  return g_strsplit(wanted ? wanted : otherwise, " ", -1);
}

static inline int32_t bare_count(void *context, int32_t *count, const char **why) {
  (void)context;
  *count = 1;
  *why = "";
  return 0;
}

static inline int32_t bare_attr(void *context, int32_t device_id, int32_t attr, BpValue *result) {
  (void)context;
  (void)device_id;
  (void)attr;
  (void)result;
  return 0;
}

static inline int32_t bare_alloc(void *context, int32_t device_id, const BpAllocation *allocation,
                                 void **handle) {
  (void)context;
  (void)device_id;
  (void)allocation;
  *handle = NULL;
  return bp_error_raise(BP_ERROR_MEMORY, "no memory");
}

/* A slot that frees nothing and waits for nothing. */
static inline int32_t bare_nothing(void *context, int32_t device_id, void *handle_or_stream) {
  (void)context;
  (void)device_id;
  (void)handle_or_stream;
  return 0;
}

static inline int32_t bare_copy(void *context, const BpCopy *copy, void *stream) {
  (void)context;
  (void)copy;
  (void)stream;
  return 0;
}

#define BARE_MEMORY                                                                                \
  .alloc_data_space = bare_alloc, .free_data_space = bare_nothing, .copy = bare_copy,              \
  .stream_sync = bare_nothing

static inline int32_t bare_host_alloc(void *context, int32_t device_id,
                                      const BpAllocation *allocation, void **handle) {
  (void)context;
  (void)device_id;
  *handle = malloc(allocation->size ? allocation->size : 1);
  return *handle ? 0 : bp_error_raise(BP_ERROR_MEMORY, "no memory");
}

static inline int32_t bare_host_free(void *context, int32_t device_id, void *handle) {
  (void)context;
  (void)device_id;
  free(handle);
  return 0;
}

static inline int32_t bare_host_copy(void *context, const BpCopy *copy, void *stream) {
  (void)context;
  (void)stream;
  memmove((char *)copy->to + copy->to_offset, (const char *)copy->from + copy->from_offset,
          copy->size);
  return 0;
}

/* Registers `device_api.KIND` without a plugin. 0 or -1 with an error. */
static inline int bare_register(const char *registry_name, const BpDeviceApi *api) {
  BpFunction *function = bp_function_create(bp_plugin_answer_context, (void *)(uintptr_t)api, NULL);
  int rc = function ? bp_registry_set(registry_name, function, 0) : -1;
  bp_object_release(function);
  return rc;
}

#endif
