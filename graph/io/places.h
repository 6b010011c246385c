/* SPDX-License-Identifier: Apache-2.0 */
/* The places of a model: the devices that it runs on, before it is known which these are. */
#ifndef BACKPLANE_GRAPH_IO_PLACES_H
#define BACKPLANE_GRAPH_IO_PLACES_H

#include <stddef.h>
#include <stdint.h>

#include <backplane/graph/model.h>

#define BP_PLACES_MAX BP_MODEL_MAX_DEVICES

/* A device of a model by its type and its number among the devices of that type, in the order of
 * the list that the model is given. */
typedef struct BpPlace {
  int32_t device_type; /* device type of the code; 0: the first given device, of any type */
  uint32_t ordinal;
} BpPlace;

typedef struct BpPlaces {
  BpPlace all[BP_PLACES_MAX];
  uint32_t count;
} BpPlaces;

/* Takes the devices of the places from those that are given, at least one. A device that is given
 * again does not count. A missing device is BP_ERROR_VALUE, which says how to name all. */
int bp__places_take(const BpPlaces *places, const BpDevice *given, size_t num_given,
                    BpDevice devices[BP_PLACES_MAX]);

/* Adds devices until each place has one: the first suitable devices of a list of preferences, as
 * for bp_device_select. `devices` has room for `capacity` devices and contains *num_devices; the
 * first is the model's device. */
int bp__places_select(const BpPlaces *places, const char *preferences, BpDevice *devices,
                      size_t capacity, size_t *num_devices);
/* Lists the devices of a model: the first given one, then the given ones that are among `devices`,
 * which bp__places_take chose, in the order given. Returns the number of listed devices. */
uint32_t bp__places_list(const BpDevice *devices, uint32_t count, const BpDevice *given,
                         size_t num_given, BpDevice used[BP_PLACES_MAX + 1]);
/* Chooses one device of a type by a list of preferences, but none of the `count` chosen devices. */
int bp__places_select_another(int32_t type, const char *list, const BpDevice *chosen, size_t count,
                              BpDevice *device);

#endif
