/* SPDX-License-Identifier: Apache-2.0 */
/* Section device: the table, the number of devices, attributes and properties. */
#include <pthread.h>
#include <string.h>

#include "conformance/kit.h"

/* ---- The table --------------------------------------------------------------------------- */

/* Words of lists of devices are no names of kinds: "remote:0" is a machine called 0. */
static void check_kind_names(const Kit *kit) {
  static const char *const words[] = {"auto", "plugin", "remote", NULL};
  for (char **kind = kit->kinds; *kind; kind++)
    KIT_TRUE(!g_strv_contains(words, *kind),
             "the kind of devices is called \"%s\", which is a word of --device and "
             "BACKPLANE_DEVICE: no device of it could be chosen; choose another name",
             *kind);
}

static void run_table(Kit *kit) {
  check_kind_names(kit);
  bp__kit_open_table(kit);
  const BpDeviceApi *own = kit->own;
  KIT_TRUE(own->struct_size >= offsetof(BpDeviceApi, create_stream),
           "struct_size is %" G_GUINT64_FORMAT ", which leaves no room for the slots that are not "
           "optional; it is sizeof(BpDeviceApi)",
           own->struct_size);
  KIT_TRUE(own->reserved == 0, "`reserved` is %d and not zero", own->reserved);
  KIT_TRUE(own->name && strcmp(own->name, kit->kinds[0]) == 0,
           "the table of device_api.%s says that its name is \"%s\"", kit->kinds[0],
           own->name ? own->name : "");
#define HAS_SLOT(slot)                                                                             \
  KIT_TRUE(BP_TABLE_HAS(own, slot), "the slot %s is NULL, and it is not optional", #slot)
  HAS_SLOT(get_device_count);
  HAS_SLOT(get_attr);
  HAS_SLOT(alloc_data_space);
  HAS_SLOT(free_data_space);
  HAS_SLOT(copy);
  HAS_SLOT(stream_sync);
#undef HAS_SLOT
  KIT_TRUE(bp_device_parse(kit->kinds[0], &kit->device) == 0, "the host refuses the table: %s",
           bp_error_message());
}

/* Checks that slots which belong together are either all present or all absent. */
static void run_groups(Kit *kit) {
  bp__kit_open_table(kit);
  const BpDeviceApi *own = kit->own;
  const struct {
    const char *name;
    int there, size;
  } groups[] = {
      {"workspace", BP_TABLE_HAS(own, alloc_workspace) + BP_TABLE_HAS(own, free_workspace), 2},
      {"streams",
       BP_TABLE_HAS(own, create_stream) + BP_TABLE_HAS(own, free_stream) +
           BP_TABLE_HAS(own, sync_stream_from_to),
       3},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(groups); i++)
    KIT_TRUE(groups[i].there == 0 || groups[i].there == groups[i].size,
             "%d of the %d slots of %s are there; the host ignores them all", groups[i].there,
             groups[i].size, groups[i].name);
}

static const void *extension(const BpDeviceApi *own, const char *name, uint32_t version) {
  return BP_TABLE_HAS(own, get_extension) ? own->get_extension(own->context, name, version) : NULL;
}

/* A table has every slot that is not optional, and the table of another version differs. */
static void run_extensions(Kit *kit) {
  bp__kit_open_table(kit);
  const BpDeviceApi *own = kit->own;
  const BpTimerApi *timer = extension(own, BP_EXTENSION_TIMER, BP_EXTENSION_TIMER_VERSION);
  const BpRecordingApi *recording =
      extension(own, BP_EXTENSION_RECORDING, BP_EXTENSION_RECORDING_VERSION);
  KIT_TRUE(!timer || (BP_TABLE_HAS(timer, start) && BP_TABLE_HAS(timer, stop) &&
                      BP_TABLE_HAS(timer, read) && BP_TABLE_HAS(timer, free)),
           "the extension \"timer\" lacks a slot");
  KIT_TRUE(!recording || (BP_TABLE_HAS(recording, begin) && BP_TABLE_HAS(recording, end) &&
                          BP_TABLE_HAS(recording, replay) && BP_TABLE_HAS(recording, free)),
           "the extension \"recording\" lacks a slot");
  const BpEventsApi *events = extension(own, BP_EXTENSION_EVENTS, BP_EXTENSION_EVENTS_VERSION);
  KIT_TRUE(!events || (BP_TABLE_HAS(events, create) && BP_TABLE_HAS(events, free) &&
                       BP_TABLE_HAS(events, record) && BP_TABLE_HAS(events, wait) &&
                       BP_TABLE_HAS(events, query) && BP_TABLE_HAS(events, synchronize)),
           "the extension \"events\" lacks a slot that is not optional");
  KIT_TRUE(!events || BP_TABLE_HAS(events, hold) == BP_TABLE_HAS(events, signal),
           "the extension \"events\" has only one of hold and signal");
  KIT_TRUE(!extension(own, "none of this name", 1), "there is an extension of any name");
  KIT_TRUE(!extension(own, BP_EXTENSION_TIMER, BP_EXTENSION_TIMER_VERSION + 1),
           "there is an extension \"timer\" of a later version, which is not known yet");
  KIT_TRUE(!extension(own, BP_EXTENSION_RECORDING, BP_EXTENSION_RECORDING_VERSION + 1),
           "there is an extension \"recording\" of a later version, which is not known yet");
  KIT_TRUE(!extension(own, BP_EXTENSION_EVENTS, BP_EXTENSION_EVENTS_VERSION + 1),
           "there is an extension \"events\" of a later version, which is not known yet");
}

static void run_count(Kit *kit) {
  bp__kit_open_table(kit);
  int32_t first = -1;
  for (int i = 0; i < 3; i++) {
    int32_t count = -1;
    const char *why = NULL;
    KIT_OK(kit->own->get_device_count(kit->own->context, &count, &why), "get_device_count");
    KIT_TRUE(count >= 0, "the number of devices is %d", count);
    KIT_TRUE(count > 0 || (why && *why), "there are no devices, and *why does not say why");
    KIT_TRUE(i == 0 || count == first, "there were %d devices and are %d now", first, count);
    first = count;
  }
}

static void run_present(Kit *kit) {
  bp__kit_require_device(kit);
  bp__kit_open_device(kit);
  KIT_TRUE(bp__kit_int_attr(kit, BP_ATTR_EXIST, 0) == 1,
           "%s was counted and answers that it does not exist", bp__kit_device_text(kit));
}

/* ---- Attributes -------------------------------------------------------------------------- */

/* The type of each attribute that is not None. */
static const int32_t attr_types[] = {
    [BP_ATTR_EXIST] = BP_TYPE_BOOL,
    [BP_ATTR_MAX_THREADS_PER_BLOCK] = BP_TYPE_INT,
    [BP_ATTR_WARP_SIZE] = BP_TYPE_INT,
    [BP_ATTR_MAX_SHARED_MEMORY_PER_BLOCK] = BP_TYPE_INT,
    [BP_ATTR_COMPUTE_VERSION] = BP_TYPE_STR,
    [BP_ATTR_DEVICE_NAME] = BP_TYPE_STR,
    [BP_ATTR_MAX_CLOCK_RATE] = BP_TYPE_INT,
    [BP_ATTR_MULTI_PROCESSOR_COUNT] = BP_TYPE_INT,
    [BP_ATTR_MAX_THREAD_DIMENSIONS] = BP_TYPE_SHAPE,
    [BP_ATTR_MAX_REGISTERS_PER_BLOCK] = BP_TYPE_INT,
    [BP_ATTR_ARCH_NAME] = BP_TYPE_STR,
    [BP_ATTR_API_VERSION] = BP_TYPE_STR,
    [BP_ATTR_DRIVER_VERSION] = BP_TYPE_STR,
    [BP_ATTR_L2_CACHE_SIZE] = BP_TYPE_INT,
    [BP_ATTR_TOTAL_GLOBAL_MEMORY] = BP_TYPE_INT,
    [BP_ATTR_AVAILABLE_GLOBAL_MEMORY] = BP_TYPE_INT,
    [BP_ATTR_IMAGE_PITCH_ALIGNMENT] = BP_TYPE_INT,
    [BP_ATTR_MAX_GRID_DIMENSIONS] = BP_TYPE_SHAPE,
    [BP_ATTR_MAX_ALLOCATION] = BP_TYPE_INT,
    [BP_ATTR_DATA_ALIGNMENT] = BP_TYPE_INT,
    [BP_ATTR_VENDOR] = BP_TYPE_STR,
    [BP_ATTR_UUID] = BP_TYPE_STR,
    [BP_ATTR_PCI_ADDRESS] = BP_TYPE_STR,
    [BP_ATTR_HOST_ACCESSIBLE] = BP_TYPE_BOOL,
    [BP_ATTR_TARGET] = BP_TYPE_STR,
    [BP_ATTR_RANK] = BP_TYPE_INT,
};

static gboolean is_of_type(const BpValue *value, int32_t type) {
  if (type == BP_TYPE_STR)
    return value->type_index == BP_TYPE_STR || value->type_index == BP_TYPE_SMALL_STR;
  return value->type_index == type;
}

static void check_shape(const char *name, const BpValue *value) {
  const BpShape *shape = (const BpShape *)(const void *)value->v_obj;
  KIT_TRUE(shape->size == 3, "%s has %zu extents and not 3", name, shape->size);
  for (size_t i = 0; i < 3; i++)
    KIT_TRUE(shape->data[i] > 0, "%s: extent %zu is %" G_GINT64_FORMAT, name, i, shape->data[i]);
}

static void check_str(const char *name, const BpValue *value) {
  BpByteArray view = {NULL, 0};
  KIT_OK(bp_value_view_str(value, &view), name);
  KIT_TRUE(view.size > 0, "%s is an empty string; an attribute that a device lacks is None", name);
  KIT_TRUE(g_utf8_validate(view.data, (gssize)view.size, NULL), "%s is no UTF-8", name);
}

static void check_attr(const char *name, int32_t attr, const BpValue *value) {
  int32_t type = attr_types[attr];
  if (value->type_index == BP_TYPE_NONE)
    return;
  KIT_TRUE(is_of_type(value, type), "%s is a %s; it is to be None or a %s", name,
           bp_type_name(value->type_index), bp_type_name(type));
  if (type == BP_TYPE_SHAPE)
    check_shape(name, value);
  else if (type == BP_TYPE_STR)
    check_str(name, value);
  else if (type == BP_TYPE_BOOL)
    KIT_TRUE(value->v_int64 == 0 || value->v_int64 == 1, "%s is a bool of value %" G_GINT64_FORMAT,
             name, value->v_int64);
  else if (attr != BP_ATTR_RANK && attr != BP_ATTR_AVAILABLE_GLOBAL_MEMORY)
    KIT_TRUE(value->v_int64 > 0,
             "%s is %" G_GINT64_FORMAT "; an attribute that a device lacks is None", name,
             value->v_int64);
}

static void run_attr_types(Kit *kit) {
  bp__kit_open_device(kit);
  for (int32_t attr = 0; attr < (int32_t)G_N_ELEMENTS(attr_types); attr++) {
    BpValue value = {.type_index = BP_TYPE_NONE};
    const char *name = bp_device_attr_name(attr);
    KIT_OK(kit->api->get_attr(kit->api->context, kit->device.device_id, attr, &value), name);
    check_attr(name, attr, &value);
    bp_value_clear(&value);
  }
}

static void run_attr_unknown(Kit *kit) {
  static const int32_t unknown[] = {-1, 1000, 65535, INT32_MIN};
  bp__kit_open_device(kit);
  for (size_t i = 0; i < G_N_ELEMENTS(unknown); i++) {
    BpValue value = {.type_index = BP_TYPE_NONE};
    KIT_OK(kit->api->get_attr(kit->api->context, kit->device.device_id, unknown[i], &value),
           "get_attr of an attribute that is of a later time");
    KIT_TRUE(value.type_index == BP_TYPE_NONE, "attribute %d, which does not exist, is a %s",
             unknown[i], bp_type_name(value.type_index));
  }
}

static void run_attr_limits(Kit *kit) {
  bp__kit_open_device(kit);
  int64_t total = bp__kit_int_attr(kit, BP_ATTR_TOTAL_GLOBAL_MEMORY, INT64_MAX);
  int64_t available = bp__kit_int_attr(kit, BP_ATTR_AVAILABLE_GLOBAL_MEMORY, 0);
  int64_t largest = bp__kit_int_attr(kit, BP_ATTR_MAX_ALLOCATION, 1);
  int64_t alignment = bp__kit_int_attr(kit, BP_ATTR_DATA_ALIGNMENT, 1);
  int64_t rank = bp__kit_int_attr(kit, BP_ATTR_RANK, 0);
  KIT_TRUE(available >= 0 && available <= total,
           "%" G_GINT64_FORMAT " bytes are available of %" G_GINT64_FORMAT, available, total);
  KIT_TRUE(largest <= total,
           "the largest allocation, %" G_GINT64_FORMAT
           ", is more than the memory, %" G_GINT64_FORMAT,
           largest, total);
  KIT_TRUE((alignment & (alignment - 1)) == 0,
           "data_alignment, %" G_GINT64_FORMAT ", is no power of two", alignment);
  KIT_TRUE(rank < 1000, "rank is %" G_GINT64_FORMAT "; 999 is the highest", rank);
}

/* Returns a text attribute (transfer full), or NULL if it is None. */
static char *str_attr(const Kit *kit, int32_t device_id, int32_t attr) {
  BpValue value = {.type_index = BP_TYPE_NONE};
  BpByteArray view = {NULL, 0};
  KIT_OK(kit->api->get_attr(kit->api->context, device_id, attr, &value), "get_attr");
  if (value.type_index == BP_TYPE_NONE)
    return NULL;
  KIT_OK(bp_value_view_str(&value, &view), "reading a string");
  char *text = g_strndup(view.data, view.size);
  bp_value_clear(&value);
  return text;
}

/* The same hardware may appear through several drivers, with the same UUID in each. */
static void run_attr_uuid(Kit *kit) {
  GHashTable *seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  int32_t count = 0;
  const char *why = "";
  bp__kit_open_device(kit);
  KIT_OK(kit->api->get_device_count(kit->api->context, &count, &why), "get_device_count");
  for (int32_t id = 0; id < count; id++) {
    char *uuid = str_attr(kit, id, BP_ATTR_UUID);
    char *driver = str_attr(kit, id, BP_ATTR_DRIVER_VERSION);
    if (uuid)
      KIT_TRUE(g_hash_table_add(seen, g_strconcat(uuid, " ", driver, NULL)),
               "two devices of one driver have the UUID %s", uuid);
    g_free(uuid);
    g_free(driver);
  }
  gboolean is_absent = g_hash_table_size(seen) == 0;
  g_hash_table_unref(seen);
  if (is_absent)
    bp__kit_skip("no device has a UUID");
}

static void run_attr_target(Kit *kit) {
  BpValue value = {.type_index = BP_TYPE_NONE};
  bp__kit_open_device(kit);
  KIT_OK(kit->api->get_attr(kit->api->context, kit->device.device_id, BP_ATTR_TARGET, &value),
         "get_attr");
  if (value.type_index == BP_TYPE_NONE)
    bp__kit_skip("the device names no target");
  bp_value_clear(&value);
  BpTarget *target = bp_target_from_device(kit->device);
  KIT_TRUE(target, "the target that the device names cannot be used: %s", bp_error_message());
  KIT_TRUE(bp_target_device_type(target) == BP_DEVICE_TYPE_OF_CODE(kit->device.device_type),
           "the target that the device names, %s, is for another kind of device",
           bp_target_kind(target));
  bp_object_release(target);
}

/* ---- Threads, properties ----------------------------------------------------------------------
 */

/* Attributes whose values change over time. */
static gboolean is_passing(int32_t attr) {
  return attr == BP_ATTR_AVAILABLE_GLOBAL_MEMORY || attr == BP_ATTR_MAX_CLOCK_RATE;
}

char *bp__kit_describe(BpDevice device) {
  GString *text = g_string_new(NULL);
  for (int32_t attr = 0; attr < (int32_t)G_N_ELEMENTS(attr_types); attr++) {
    BpValue value = {.type_index = BP_TYPE_NONE};
    BpByteArray view;
    if (is_passing(attr))
      continue;
    if (bp_device_get_attr(device, attr, &value) != 0) {
      g_string_free(text, TRUE);
      return NULL;
    }
    g_string_append_printf(text, "%s: ", bp_device_attr_name(attr));
    if (attr_types[attr] == BP_TYPE_STR && bp_value_view_str(&value, &view) == 0)
      g_string_append_len(text, view.data, (gssize)view.size);
    else if (value.type_index < BP_TYPE_OBJECT && value.type_index != BP_TYPE_NONE)
      g_string_append_printf(text, "%" G_GINT64_FORMAT, value.v_int64);
    g_string_append_c(text, '\n');
    bp_value_clear(&value);
    bp_error_clear();
  }
  return g_string_free(text, FALSE);
}

static char *describe(const Kit *kit) {
  char *text = bp__kit_describe(kit->device);
  KIT_TRUE(text, "get_attr: %s", bp_error_message());
  return text;
}

static void *describe_in_thread(void *context) {
  const Kit *kit = context;
  KIT_OK(bp_device_set_current(kit->device, NULL), "set_device in another thread");
  return describe(kit);
}

#define THREADS 4

static void run_attr_threads(Kit *kit) {
  pthread_t threads[THREADS];
  bp__kit_open_device(kit);
  char *expected = describe(kit);
  for (int i = 0; i < THREADS; i++)
    KIT_TRUE(pthread_create(&threads[i], NULL, describe_in_thread, kit) == 0, "no thread");
  for (int i = 0; i < THREADS; i++) {
    void *text = NULL;
    pthread_join(threads[i], &text);
    KIT_TRUE(strcmp(text, expected) == 0, "in one thread the attributes are\n%s\nin another\n%s",
             expected, (char *)text);
    g_free(text);
  }
  g_free(expected);
}

/* The device's attributes identify it later, and are part of the keys of cached artifacts. */
static void run_attr_processes(Kit *kit) {
  bp__kit_open_device(kit);
  if (!kit->identity)
    bp__kit_absent("another process finds no attributes of the device");
  char *text = describe(kit);
  char **here = g_strsplit(text, "\n", -1), **there = g_strsplit(kit->identity, "\n", -1);
  for (guint i = 0; here[i] && there[i]; i++)
    KIT_TRUE(strcmp(here[i], there[i]) == 0, "in one process it is \"%s\", in another \"%s\"",
             there[i], here[i]);
  g_strfreev(here);
  g_strfreev(there);
  g_free(text);
}

typedef struct Visits {
  int count, most;
} Visits;

static int32_t visit_fact(void *context, const char *name, const BpValue *value) {
  Visits *visits = context;
  KIT_TRUE(name && *name, "a property has no name");
  KIT_TRUE(value, "property %s has no value", name);
  return ++visits->count == visits->most;
}

static void run_properties(Kit *kit) {
  Visits all = {0, -1}, one = {0, 1};
  bp__kit_open_device(kit);
  if (!kit->api->visit_properties)
    bp__kit_skip("the device has no visit_properties");
  KIT_OK(kit->api->visit_properties(kit->api->context, kit->device.device_id, visit_fact, &all),
         "visit_properties");
  KIT_OK(kit->api->visit_properties(kit->api->context, kit->device.device_id, visit_fact, &one),
         "visit_properties, whose visitor ended it,");
  KIT_TRUE(one.count == MIN(all.count, 1),
           "visit_properties went on when the visitor had ended it");
}

static const Check checks[] = {
    {"device.table", "the table has its size, name and every slot that is not optional",
     "plugin.activate", CHECK_CORE, run_table},
    {"device.groups", "optional slots that belong together are all there or all missing",
     "device.table", CHECK_CORE, run_groups},
    {"device.extensions", "an extension has every slot, and is of the version that was asked for",
     "device.table", CHECK_OPTIONAL, run_extensions},
    {"device.count", "the number of devices is returned, or the reason why there are none",
     "device.table", CHECK_CORE, run_count},
    {"device.present", "there is a device, which says that it exists", "device.count", CHECK_CORE,
     run_present},
    {"device.attributes.types", "every attribute is None or of its type, and of a possible value",
     "device.present", CHECK_CORE, run_attr_types},
    {"device.attributes.unknown", "attributes of later versions are None", "device.present",
     CHECK_CORE, run_attr_unknown},
    {"device.attributes.limits", "sizes, alignment and rank are consistent",
     "device.attributes.types", CHECK_CORE, run_attr_limits},
    {"device.attributes.uuid", "no two devices of one driver have the same UUID",
     "device.attributes.types", CHECK_OPTIONAL, run_attr_uuid},
    {"device.attributes.target", "the target that the device names can be used for it",
     "device.attributes.types", CHECK_OPTIONAL, run_attr_target},
    {"device.attributes.threads", "attributes are the same in every thread, at once too",
     "device.attributes.types", CHECK_CORE, run_attr_threads},
    {"device.attributes.processes", "attributes are the same in every process",
     "device.attributes.types", CHECK_CORE, run_attr_processes},
    {"device.properties", "properties have names and values, and the visitor can end the visit",
     "device.present", CHECK_OPTIONAL, run_properties},
};

const Section bp__kit_device_section = {"device", NEEDS_DEVICE, checks, G_N_ELEMENTS(checks)};
