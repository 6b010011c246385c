/* SPDX-License-Identifier: Apache-2.0 */
/* Devices for places: those that are given, or the first ones of a list of preferences. */
#include "graph/io/places.h"

#include <stdio.h>
#include <string.h>

#include <glib.h>

#include <backplane/device.h>
#include <backplane/error.h>

#include "graph/io/device_text.h"

static int is_new(const BpDevice *given, size_t index) {
  for (size_t i = 0; i < index; i++)
    if (memcmp(&given[i], &given[index], sizeof(*given)) == 0)
      return 0;
  return 1;
}

/* Returns the device of a place; NULL if the given devices do not include it: *count is then the
 * number of given devices of the kind. */
static const BpDevice *find_device(BpPlace place, const BpDevice *given, size_t num_given,
                                   uint32_t *count) {
  *count = 0;
  if (place.device_type == 0)
    return given;
  for (size_t i = 0; i < num_given; i++)
    if (BP_DEVICE_TYPE_OF_CODE(given[i].device_type) == place.device_type && is_new(given, i) &&
        (*count)++ == place.ordinal)
      return &given[i];
  return NULL;
}

/* The first place without a device among the given ones; the number of places if every place has a
 * device. */
static uint32_t find_missing(const BpPlaces *places, const BpDevice *given, size_t num_given) {
  uint32_t place = 0, count;
  while (place < places->count && find_device(places->all[place], given, num_given, &count) != NULL)
    place++;
  return place;
}

/* How many devices of a type are needed. */
static uint32_t count_needed(const BpPlaces *places, int32_t type) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < places->count; i++)
    if (places->all[i].device_type == type && places->all[i].ordinal >= count)
      count = places->all[i].ordinal + 1;
  return count;
}

/* Appends "opencl", or "opencl:0,opencl:1". */
static size_t append_kind(char *text, size_t used, size_t size, int32_t type, uint32_t count) {
  char kind[BP_DEVICE_TEXT_MAX], number[16] = "";
  bp__kind_text(type, kind);
  for (uint32_t i = 0; i < count && used < size; i++) {
    if (count > 1)
      snprintf(number, sizeof number, ":%u", i);
    used += (size_t)snprintf(text + used, size - used, "%s%s%s", used ? "," : "", kind, number);
  }
  return used;
}

/* Writes the devices in the order in which they are named: "vulkan,cpu", "opencl:0,opencl:1". */
static void list_needed(const BpPlaces *places, int32_t first, char *text, size_t size) {
  int32_t type = BP_DEVICE_TYPE_OF_CODE(first);
  uint32_t count = count_needed(places, type);
  size_t used = append_kind(text, 0, size, type, count ? count : 1);
  for (uint32_t i = 0; i < places->count && used < size; i++) {
    int32_t next = places->all[i].device_type;
    int is_listed = next == 0 || next == type;
    for (uint32_t k = 0; k < i; k++)
      is_listed |= places->all[k].device_type == next;
    if (!is_listed)
      used = append_kind(text, used, size, next, count_needed(places, next));
  }
}

/* Completes the error about a missing device: adds the number of devices of the kind that the graph
 * needs, and the form of a full list. `first` is the type of the model's device. Returns -1. */
static int add_needed(const BpPlaces *places, int32_t first, uint32_t place) {
  int32_t type = places->all[place].device_type;
  uint32_t count = count_needed(places, type);
  char kind[BP_DEVICE_TEXT_MAX], list[1024];
  bp__kind_text(type, kind);
  list_needed(places, first, list, sizeof list);
  return bp_error_add_context(
      "the graph needs %u device%s of kind %s; name its devices in order, as in \"%s\"", count,
      count == 1 ? "" : "s", kind, list);
}

int bp__places_take(const BpPlaces *places, const BpDevice *given, size_t num_given,
                    BpDevice devices[BP_PLACES_MAX]) {
  for (uint32_t i = 0; i < places->count; i++) {
    uint32_t count;
    const BpDevice *device = find_device(places->all[i], given, num_given, &count);
    if (!device) {
      bp_error_raise(BP_ERROR_VALUE, count ? "%u such device%s given" : "no such device was given",
                     count, count == 1 ? " was" : "s were");
      return add_needed(places, given[0].device_type, i);
    }
    devices[i] = *device;
  }
  return 0;
}

static int is_listed_in(BpDevice device, const BpDevice *devices, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (memcmp(&devices[i], &device, sizeof device) == 0)
      return 1;
  return 0;
}

uint32_t bp__places_list(const BpDevice *devices, uint32_t count, const BpDevice *given,
                         size_t num_given, BpDevice used[BP_PLACES_MAX + 1]) {
  uint32_t num_used = 1;
  used[0] = given[0];
  for (size_t i = 1; i < num_given; i++)
    if (is_listed_in(given[i], devices, count) && !is_listed_in(given[i], used, num_used))
      used[num_used++] = given[i];
  return num_used;
}

int bp__places_select_another(int32_t type, const char *list, const BpDevice *chosen, size_t count,
                              BpDevice *device) {
  g_autoptr(GString) others = g_string_new(list);
  for (size_t i = 0; i < count; i++) {
    char text[BP_DEVICE_TEXT_MAX];
    if (BP_DEVICE_TYPE_OF_CODE(chosen[i].device_type) != type)
      continue;
    bp_device_format(chosen[i], text, sizeof text);
    g_string_append_printf(others, "%s!%s", others->len ? "," : "", text);
  }
  return bp_device_select_among(&type, 1, others->str, device, NULL);
}

static int select_by(const BpPlaces *places, const char *list, BpDevice *devices, size_t capacity,
                     size_t *num_devices) {
  for (uint32_t i; (i = find_missing(places, devices, *num_devices)) < places->count;) {
    if (*num_devices == capacity)
      return bp_error_raise(
          BP_ERROR_VALUE,
          "the model runs on more devices than the %zu that there is room for; pass an array of "
          "BP_MODEL_MAX_DEVICES",
          capacity);
    if (bp__places_select_another(places->all[i].device_type, list, devices, *num_devices,
                                  &devices[*num_devices]) < 0)
      return add_needed(places, devices[0].device_type, i);
    ++*num_devices;
  }
  return 0;
}

int bp__places_select(const BpPlaces *places, const char *preferences, BpDevice *devices,
                      size_t capacity, size_t *num_devices) {
  char *settings = preferences ? NULL : bp_device_preferences();
  const char *list = preferences ? preferences : settings;
  int status = list ? select_by(places, list, devices, capacity, num_devices) : -1;
  bp_str_free(settings);
  return status;
}
