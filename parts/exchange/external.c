/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is imported and exported, by the extension "external_memory". A device without the
 * extension has no forms, so one message covers all refusals. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <backplane/device_extensions.h>
#include <backplane/error.h>

#include "core/device/device.h"
#include "core/registry/argument.h"
#include "parts/exchange/exchange.h"

static const char *const forms[] = {"host pointer", "opaque fd", "dma-buf"};

#define NUM_FORMS (sizeof forms / sizeof *forms)

/* The forms of memory that one device exchanges. */
typedef struct Exchange {
  BpDevice device;
  const BpDeviceApi *api;
  const BpExternalMemoryApi *external; /* NULL: nothing */
  uint64_t imports, exports, alignment;
} Exchange;

static int find_table(Exchange *exchange) {
  const BpDeviceApi *api = exchange->api = bp__device_get(exchange->device);
  if (!api)
    return -1;
  if (api->get_extension)
    exchange->external = api->get_extension(api->context, BP_EXTENSION_EXTERNAL_MEMORY,
                                            BP_EXTENSION_EXTERNAL_MEMORY_VERSION);
  if (!exchange->external || (BP_TABLE_HAS(exchange->external, get_forms) &&
                              BP_TABLE_HAS(exchange->external, import_memory) &&
                              BP_TABLE_HAS(exchange->external, export_memory)))
    return 0;
  return bp_error_raise(BP_ERROR_PLUGIN,
                        "the extension \"" BP_EXTENSION_EXTERNAL_MEMORY
                        "\" of %s lacks a slot that is not optional; this is a defect of the "
                        "plugin",
                        api->name);
}

static int find_exchange(BpDevice device, Exchange *exchange) {
  *exchange = (Exchange){.device = device, .alignment = 1};
  if (bp__device_check_fork())
    return -1;
  if (bp__device_is_host(device))
    return 0;
  if (find_table(exchange))
    return -1;
  if (exchange->external &&
      exchange->external->get_forms(exchange->api->context, device.device_id, &exchange->imports,
                                    &exchange->exports, &exchange->alignment))
    return bp__device_failed(device, "asking for the forms of external memory");
  if (exchange->alignment && !(exchange->alignment & (exchange->alignment - 1)))
    return 0;
  return bp_error_raise(BP_ERROR_PLUGIN,
                        "%s asks for addresses that are multiples of %" PRIu64
                        ", no power of two; this is a defect of the plugin",
                        exchange->api->name, exchange->alignment);
}

static void list_forms(uint64_t mask, char *text, size_t capacity) {
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < NUM_FORMS && used < capacity; i++)
    if (mask & UINT64_C(1) << i)
      used += (size_t)snprintf(text + used, capacity - used, "%s%s", used ? ", " : "", forms[i]);
}

static int check_form(const Exchange *exchange, uint32_t form, uint64_t had, const char *doing) {
  char device[BP_DEVICE_TEXT_MAX], list[64];
  if (!form || form & (form - 1) || form >> NUM_FORMS)
    return bp_error_raise(BP_ERROR_VALUE,
                          "BpExternalMemory: form %" PRIu32 " is not one of BP_EXTERNAL_*", form);
  if (had & form)
    return 0;
  bp_device_format(exchange->device, device, sizeof device);
  list_forms(had, list, sizeof list);
  return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "%s: %s of memory by %s; this device has: %s",
                        device, doing, forms[__builtin_ctz(form)], *list ? list : "none");
}

/* The size of BpExternalMemory in the first version that has it. */
#define LEAST_MEMORY (offsetof(BpExternalMemory, flags) + sizeof(uint64_t))

static int read_memory(const BpExternalMemory *given, BpExternalMemory *own) {
  if (bp__sized_read(own, sizeof *own, LEAST_MEMORY, given, "BpExternalMemory"))
    return -1;
  return own->flags ? bp_error_raise(BP_ERROR_VALUE, "BpExternalMemory: unknown flags 0x%" PRIx64,
                                     own->flags)
                    : 0;
}

static int check_bytes(const Exchange *exchange, const BpExternalMemory *memory) {
  if (memory->size == 0)
    return bp_error_raise(BP_ERROR_VALUE, "BpExternalMemory: the size is 0");
  if (memory->form != BP_EXTERNAL_HOST_POINTER)
    return memory->fd < 0
               ? bp_error_raise(BP_ERROR_VALUE, "BpExternalMemory: the fd is %d", memory->fd)
               : 0;
  if (memory->address && (uintptr_t)memory->address % exchange->alignment == 0)
    return 0;
  return bp_error_raise(BP_ERROR_VALUE,
                        "BpExternalMemory: the address %p is no multiple of %" PRIu64
                        ", as this device needs; bp_device_alloc on cpu:0 aligns memory",
                        memory->address, exchange->alignment);
}

int bp__memory_forms(BpDevice device, uint64_t *imports, uint64_t *exports, uint64_t *alignment) {
  Exchange exchange;
  if (find_exchange(device, &exchange))
    return -1;
  if (imports)
    *imports = exchange.imports;
  if (exports)
    *exports = exchange.exports;
  if (alignment)
    *alignment = exchange.alignment;
  return 0;
}

int bp__memory_import(BpDevice device, const BpExternalMemory *memory, void **handle) {
  Exchange exchange;
  BpExternalMemory known;
  *handle = NULL;
  if (read_memory(memory, &known) || find_exchange(device, &exchange) ||
      check_form(&exchange, known.form, exchange.imports, "import") ||
      check_bytes(&exchange, &known))
    return -1;
  return exchange.external->import_memory(exchange.api->context, device.device_id, &known, handle)
             ? bp__device_failed(device, "importing memory")
             : 0;
}

int bp__memory_export(BpDevice device, const BpAllocation *allocation, BpExternalMemory *memory,
                      void **handle) {
  Exchange exchange;
  BpAllocation wanted;
  BpExternalMemory known;
  *handle = NULL;
  if (read_memory(memory, &known) || bp__allocation_read(allocation, &wanted) ||
      find_exchange(device, &exchange) ||
      check_form(&exchange, known.form, exchange.exports, "export"))
    return -1;
  known.fd = -1;
  if (exchange.external->export_memory(exchange.api->context, device.device_id, &wanted, &known,
                                       handle))
    return bp__device_failed(device, "exporting memory");
  memory->fd = known.fd;
  memory->size = known.size;
  return 0;
}
