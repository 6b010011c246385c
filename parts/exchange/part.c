/* SPDX-License-Identifier: Apache-2.0 */
/* The part's table. */

#include "core/registry/part.h"
#include "parts/exchange/exchange.h"

static const ExchangePart table = {
    .event_create = bp__event_create,
    .event_free = bp__event_free,
    .event_record = bp__event_record,
    .event_wait = bp__event_wait,
    .event_query = bp__event_query,
    .event_synchronize = bp__event_synchronize,
    .memory_forms = bp__memory_forms,
    .memory_import = bp__memory_import,
    .memory_export = bp__memory_export,
    .transfer_create = bp__transfer_create,
    .transfer_free = bp__transfer_free,
    .transfer_send = bp__transfer_send,
    .transfer_receive = bp__transfer_receive,
    .copy_between = bp__copy_between,
    .to_dlpack = bp__to_dlpack,
    .to_dlpack_versioned = bp__to_dlpack_versioned,
    .from_dlpack = bp__from_dlpack,
    .from_dlpack_versioned = bp__from_dlpack_versioned,
};

BP__PART(BP_PART_EXCHANGE, table);
