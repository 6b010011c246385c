/* SPDX-License-Identifier: Apache-2.0 */
/* The device `cpu`: host memory through the host's allocator, copies by memmove, one queue that is
 * always empty. `data` is an address. */
#include "cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANK 100 /* the host's CPU on the scale of BP_ATTR_RANK */

static int32_t get_device_count(void *context, int32_t *count, const char **why) {
  (void)context;
  *count = 1;
  *why = "";
  return 0;
}

/* ---- Information about the machine ------------------------------------------------------- */

/* The value of a `key : value` line of a file in /proc; "" if the file has no such line. */
static void read_proc(const char *path, const char *key, char *value, size_t size) {
  char line[512];
  value[0] = '\0';
  FILE *file = fopen(path, "re");
  if (!file)
    return;
  size_t key_size = strlen(key);
  while (fgets(line, sizeof(line), file)) {
    char *colon = strchr(line, ':');
    if (!colon || strncmp(line, key, key_size) != 0 ||
        line[key_size + strspn(line + key_size, " \t")] != ':')
      continue;
    colon += 1 + strspn(colon + 1, " \t");
    colon[strcspn(colon, "\n")] = '\0';
    snprintf(value, size, "%s", colon);
    break;
  }
  fclose(file);
}

static int64_t read_number(const char *path) {
  long long value = 0;
  FILE *file = fopen(path, "re");
  if (!file)
    return 0;
  if (fscanf(file, "%lld", &value) != 1)
    value = 0;
  fclose(file);
  return value;
}

static int64_t total_memory(void) {
  return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

static int64_t available_memory(void) {
  char text[64];
  read_proc("/proc/meminfo", "MemAvailable", text, sizeof(text));
  return text[0] ? strtoll(text, NULL, 10) * 1024 : 0;
}

/* ---- Attributes -------------------------------------------------------------------------- */

static int32_t answer_int(BpValue *result, int64_t value) {
  return bp_plugin_answer_int(result, BP_TYPE_INT, value);
}

/* Answers a number of the machine, where 0 means unknown. */
static int32_t answer_positive(BpValue *result, int64_t value) {
  return value > 0 ? answer_int(result, value) : 0;
}

/* Returns the value of a line of /proc/cpuinfo. If there is no such line, returns `otherwise`, or
 * None if `otherwise` is NULL. */
static int32_t answer_cpuinfo(BpValue *result, const char *key, const char *otherwise) {
  char text[256];
  read_proc("/proc/cpuinfo", key, text, sizeof(text));
  const char *answer = text[0] ? text : otherwise;
  return answer ? bp_plugin_answer_str(&bp_cpu_host, result, answer) : 0;
}

static int32_t get_attr(void *context, int32_t device_id, int32_t attr, BpValue *result) {
  (void)context;
  (void)device_id;
  switch (attr) {
  case BP_ATTR_EXIST:
  case BP_ATTR_HOST_ACCESSIBLE:
    return bp_plugin_answer_int(result, BP_TYPE_BOOL, 1);
  case BP_ATTR_DEVICE_NAME:
    return answer_cpuinfo(result, "model name", bp_cpu_native()->name);
  case BP_ATTR_VENDOR:
    return answer_cpuinfo(result, "vendor_id", NULL);
  case BP_ATTR_MAX_CLOCK_RATE:
    return answer_positive(result,
                           read_number("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"));
  case BP_ATTR_MULTI_PROCESSOR_COUNT:
    return answer_int(result, bp_cpu_usable_cores());
  case BP_ATTR_L2_CACHE_SIZE:
    return answer_positive(result, sysconf(_SC_LEVEL2_CACHE_SIZE));
  case BP_ATTR_TOTAL_GLOBAL_MEMORY:
    return answer_positive(result, total_memory());
  case BP_ATTR_AVAILABLE_GLOBAL_MEMORY:
    return answer_positive(result, available_memory());
  case BP_ATTR_DATA_ALIGNMENT:
    return answer_int(result, 64);
  case BP_ATTR_TARGET:
    return bp_plugin_answer_str(&bp_cpu_host, result, "c");
  case BP_ATTR_RANK:
    return answer_int(result, RANK);
  default:
    return 0;
  }
}

/* ---- Memory and copies ------------------------------------------------------------------- */

static int32_t alloc_data_space(void *context, int32_t device_id, const BpAllocation *allocation,
                                void **handle) {
  (void)context;
  (void)device_id;
  if (bp_plugin_check_allocation(&bp_cpu_host, "cpu", allocation))
    return -1;
  uint64_t alignment = allocation->alignment < 64 ? 64 : allocation->alignment;
  *handle = bp_cpu_host.runtime->host_alloc(allocation->size, alignment);
  return *handle ? 0 : -1;
}

static int32_t free_data_space(void *context, int32_t device_id, void *handle) {
  (void)context;
  (void)device_id;
  bp_cpu_host.runtime->host_free(handle);
  return 0;
}

static int32_t copy(void *context, const BpCopy *what, void *stream) {
  (void)context;
  (void)stream;
  if (bp_plugin_check_flags(&bp_cpu_host, "cpu", "copy", what->flags) != 0)
    return -1;
  memmove((char *)what->to + what->to_offset, (const char *)what->from + what->from_offset,
          what->size);
  return 0;
}

static int32_t stream_sync(void *context, int32_t device_id, void *stream) {
  (void)context;
  (void)device_id;
  (void)stream;
  return 0;
}

const BpDeviceApi bp_cpu_device_api = {
    .struct_size = sizeof(BpDeviceApi),
    .device_type = BP_DEVICE_CPU,
    .name = "cpu",
    .get_device_count = get_device_count,
    .get_attr = get_attr,
    .alloc_data_space = alloc_data_space,
    .free_data_space = free_data_space,
    .copy = copy,
    .stream_sync = stream_sync,
};
