/* SPDX-License-Identifier: Apache-2.0 */
/* The extension "events" of devices. */
#ifndef BACKPLANE_PARTS_EXCHANGE_EVENT_H
#define BACKPLANE_PARTS_EXCHANGE_EVENT_H

#include <backplane/device_extensions.h>

/* Gives the extension of a device: NULL for the host's device and for a device without the
 * extension. 0, or -1 with an error: there is no such device, or its table lacks a slot. */
int bp__event_table(BpDevice device, const BpEventsApi **events);

/* Whether streams of a device with these `events` can wait for events of other devices; `events`
 * may be NULL. */
int bp__event_can_hold(const BpEventsApi *events);

#endif
