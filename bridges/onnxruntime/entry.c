/* SPDX-License-Identifier: Apache-2.0 */
/* The two functions that ONNX Runtime looks up, and the factory of providers, which offers each
 * device of Backplane. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/object.h>
#include <backplane/plugins.h>
#include <backplane/version.h>

#include "bridges/onnxruntime/bridge.h"

typedef struct Factory {
  OrtEpFactory base;
  Runtime ort;
  Memories *memories;    /* NULL if the runtime is older than MEMORY_SINCE */
  atomic_int references; /* held by ONNX Runtime and each provider, which may be released later */
} Factory;

/* ---- Errors ------------------------------------------------------------------------------ */

OrtStatus *bridge_status(const Runtime *ort) {
  int32_t code = bp_error_is(BP_ERROR_VALUE) || bp_error_is(BP_ERROR_NOT_FOUND)
                     ? ORT_INVALID_ARGUMENT
                 : bp_error_is(BP_ERROR_NOT_IMPLEMENTED) ? ORT_NOT_IMPLEMENTED
                                                         : ORT_EP_FAIL;
  const char *message = bp_error_message();
  OrtStatus *status = ort->api->CreateStatus(
      code, *message ? message : "an error of " EP_NAME " without a message");
  bp_error_clear();
  return status;
}

int bridge_check(const Runtime *ort, OrtStatus *status) {
  if (!status)
    return 0;
  bp_error_raise(BP_ERROR_RUNTIME, "ONNX Runtime says: %s", ort->api->GetErrorMessage(status));
  ort->api->ReleaseStatus(status);
  return -1;
}

/* ---- Devices ----------------------------------------------------------------------------- */

/* Returns the hardware of the type, else any hardware. */
static const OrtHardwareDevice *find_hardware(const Runtime *ort,
                                              const OrtHardwareDevice *const *hardware,
                                              size_t count, int32_t type) {
  for (size_t i = 0; i < count; i++)
    if (ort->api->HardwareDevice_Type(hardware[i]) == type)
      return hardware[i];
  return count > 0 ? hardware[0] : NULL;
}

static void add_name(const Runtime *ort, BpDevice device, OrtKeyValuePairs *metadata) {
  BpValue value;
  BpByteArray text;
  if (bp_device_get_attr(device, BP_ATTR_DEVICE_NAME, &value) < 0) {
    bp_error_clear();
    return;
  }
  char *name = bp_value_view_str(&value, &text) == 0 ? strndup(text.data, text.size) : NULL;
  if (name)
    ort->api->AddKeyValuePair(metadata, METADATA_NAME, name);
  free(name);
  bp_value_clear(&value);
  bp_error_clear();
}

static int add_device(Factory *factory, BpDevice device, const OrtHardwareDevice *hardware,
                      OrtEpDevice **result) {
  const Runtime *ort = &factory->ort;
  OrtKeyValuePairs *metadata = NULL;
  char text[BRIDGE_DEVICE_MAX];
  bp_device_format(device, text, sizeof text);
  ort->api->CreateKeyValuePairs(&metadata);
  ort->api->AddKeyValuePair(metadata, METADATA_DEVICE, text);
  add_name(ort, device, metadata);
  int status =
      bridge_check(ort, ort->ep->CreateEpDevice(&factory->base, hardware, metadata, NULL, result));
  ort->api->ReleaseKeyValuePairs(metadata);
  if (status || !factory->memories || device.device_type == BP_DEVICE_CPU)
    return status;
  status = memories_offer(factory->memories, device, *result);
  if (status)
    ort->ep->ReleaseEpDevice(*result);
  return status;
}

/* Adds the devices of a kind; a kind without devices, or an unusable kind, adds none. */
static int add_kind(Factory *factory, const char *kind, const OrtHardwareDevice *const *hardware,
                    size_t num_hardware, OrtEpDevice **devices, size_t room, size_t *count) {
  BpDevice device;
  int32_t number = 0;
  if (bp_device_parse(kind, &device) < 0 ||
      bp_device_count(device.device_type, &number, NULL) < 0) {
    bp_error_clear();
    return 0;
  }
  const OrtHardwareDevice *on =
      find_hardware(&factory->ort, hardware, num_hardware,
                    device.device_type == BP_DEVICE_CPU ? ORT_HARDWARE_CPU : ORT_HARDWARE_GPU);
  for (int32_t i = 0; i < number && on && *count < room; i++) {
    device.device_id = i;
    if (add_device(factory, device, on, &devices[*count]))
      return -1;
    ++*count;
  }
  return 0;
}

static OrtStatus *get_devices(OrtEpFactory *self, const OrtHardwareDevice *const *hardware,
                              size_t num_hardware, OrtEpDevice **devices, size_t room,
                              size_t *count) {
  Factory *factory = (Factory *)self;
  size_t num_kinds;
  *count = 0;
  char **kinds = bp_device_kinds(&num_kinds);
  if (!kinds)
    return bridge_status(&factory->ort);
  bp_plugin_try((const char *const *)kinds);
  /* The CPU is first: ONNX Runtime may take only the first devices. */
  int status = add_kind(factory, "cpu", hardware, num_hardware, devices, room, count);
  for (size_t i = 0; i < num_kinds && status == 0; i++)
    if (strcmp(kinds[i], "cpu") != 0)
      status = add_kind(factory, kinds[i], hardware, num_hardware, devices, room, count);
  bp_names_free(kinds);
  if (status == 0)
    return NULL;
  for (size_t i = 0; i < *count; i++)
    factory->ort.ep->ReleaseEpDevice(devices[i]);
  *count = 0;
  return bridge_status(&factory->ort);
}

/* ---- The factory ------------------------------------------------------------------------- */

static void release(Factory *factory) {
  if (atomic_fetch_sub(&factory->references, 1) != 1)
    return;
  memories_free(factory->memories);
  free(factory);
}

static const char *get_name(const OrtEpFactory *self) {
  (void)self;
  return EP_NAME;
}

static const char *get_vendor(const OrtEpFactory *self) {
  (void)self;
  return "Backplane";
}

static uint32_t get_vendor_id(const OrtEpFactory *self) {
  (void)self;
  return VENDOR_ID;
}

static const char *get_version(const OrtEpFactory *self) {
  (void)self;
  return bp_version();
}

static OrtStatus *create_ep(OrtEpFactory *self, const OrtHardwareDevice *const *hardware,
                            const OrtKeyValuePairs *const *metadata, size_t count,
                            const OrtSessionOptions *options, const OrtLogger *logger,
                            OrtEp **result) {
  Factory *factory = (Factory *)self;
  (void)hardware;
  *result = ep_create(&factory->ort, factory->memories, metadata, count, options, logger);
  if (!*result)
    return bridge_status(&factory->ort);
  atomic_fetch_add(&factory->references, 1);
  return NULL;
}

static void release_ep(OrtEpFactory *self, OrtEp *ep) {
  if (!ep)
    return;
  ep_free(ep);
  release((Factory *)self);
}

static OrtStatus *create_allocator(OrtEpFactory *self, const OrtMemoryInfo *info,
                                   const OrtKeyValuePairs *options, OrtAllocator **result) {
  Factory *factory = (Factory *)self;
  (void)options;
  *result = memories_allocator(factory->memories, info);
  return *result ? NULL : bridge_status(&factory->ort);
}

static void release_allocator(OrtEpFactory *self, OrtAllocator *allocator) {
  (void)self;
  memories_release_allocator(allocator);
}

static OrtStatus *create_transfer(OrtEpFactory *self, OrtDataTransferImpl **result) {
  Factory *factory = (Factory *)self;
  *result = factory->memories ? memories_transfer(factory->memories) : NULL;
  return *result || !factory->memories ? NULL : bridge_status(&factory->ort);
}

static bool is_stream_aware(const OrtEpFactory *self) {
  return ((const Factory *)self)->memories != NULL;
}

static OrtStatus *create_stream(OrtEpFactory *self, const OrtMemoryDevice *memory,
                                const OrtKeyValuePairs *options, OrtSyncStreamImpl **result) {
  Factory *factory = (Factory *)self;
  BpDevice device;
  (void)options;
  Stream *stream = memories_device(factory->memories, memory, &device)
                       ? NULL
                       : stream_create(factory->memories, device);
  *result = stream ? &stream->base : NULL;
  return stream ? NULL : bridge_status(&factory->ort);
}

/* ---- Functions that ONNX Runtime looks up ------------------------------------------------ */

/* Returns the N of "1.N.P"; 0 for another text. */
static uint32_t parse_version(const char *text) {
  char *end;
  if (!text || strncmp(text, "1.", 2) != 0)
    return 0;
  unsigned long number = strtoul(text + 2, &end, 10);
  return *end == '.' && number < 10000 ? (uint32_t)number : 0;
}

/* Requesting an unsupported version would print to stderr, so the version is read first. */
static OrtStatus *refuse_runtime(const OrtApiBase *base, const char *version) {
  const OrtApi *api = base->GetApi(1);
  Bytes text = {0};
  bytes_print(&text,
              EP_NAME ": this is ONNX Runtime %s, and the provider needs 1.%d or a later 1.x; "
                      "upgrade the package onnxruntime",
              version ? version : "of no version", ORT_OLDEST_VERSION);
  OrtStatus *status =
      api ? api->CreateStatus(ORT_NOT_IMPLEMENTED, bytes_end(&text) ? EP_NAME : text.data) : NULL;
  bytes_free(&text);
  return status;
}

BP_API OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base,
                                    const OrtLogger *logger, OrtEpFactory **factories, size_t room,
                                    size_t *count) {
  const char *text = base->GetVersionString();
  uint32_t version = parse_version(text);
  (void)name;
  (void)logger;
  *count = 0;
  if (version < ORT_OLDEST_VERSION)
    return refuse_runtime(base, text);
  Runtime ort = {.version = version};
  ort.api = base->GetApi(version < ORT_NEWEST_VERSION ? version : ORT_NEWEST_VERSION);
  ort.ep = ort.api ? ort.api->GetEpApi() : NULL;
  if (!ort.ep)
    return refuse_runtime(base, text);
  if (room < 1)
    return ort.api->CreateStatus(ORT_INVALID_ARGUMENT, EP_NAME ": there is no room for a factory");
  Factory *factory = calloc(1, sizeof(*factory));
  if (!factory)
    return ort.api->CreateStatus(ORT_EP_FAIL, EP_NAME ": no memory for a factory");
  factory->base = (OrtEpFactory){.version = ORT_OLDEST_VERSION,
                                 .GetName = get_name,
                                 .GetVendor = get_vendor,
                                 .GetSupportedDevices = get_devices,
                                 .CreateEp = create_ep,
                                 .ReleaseEp = release_ep,
                                 .GetVendorId = get_vendor_id,
                                 .GetVersion = get_version,
                                 .CreateAllocator = create_allocator,
                                 .ReleaseAllocator = release_allocator,
                                 .CreateDataTransfer = create_transfer,
                                 .IsStreamAware = is_stream_aware,
                                 .CreateSyncStreamForDevice = create_stream};
  factory->ort = ort;
  atomic_init(&factory->references, 1);
  if (version >= MEMORY_SINCE) {
    factory->memories = memories_create(&factory->ort);
    if (!factory->memories || memories_add_kernels(factory->memories)) {
      OrtStatus *status = bridge_status(&factory->ort);
      release(factory);
      return status;
    }
  }
  factories[0] = &factory->base;
  *count = 1;
  return NULL;
}

BP_API OrtStatus *ReleaseEpFactory(OrtEpFactory *factory) {
  if (factory)
    release((Factory *)factory);
  return NULL;
}
