/* SPDX-License-Identifier: Apache-2.0 */
/* Structures of programs that were built with older or newer headers than this host. */

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <backplane/target.h>
#include <glib.h>
#include <string.h>

/* ---- Copies ------------------------------------------------------------------------------ */

/* BpCopy with a member that a later version may add. */
typedef struct LaterCopy {
  BpCopy copy;
  uint64_t rows;
} LaterCopy;

static const BpDevice cpu = {BP_DEVICE_CPU, 0};

static LaterCopy make_copy(const char *from, char *to, uint64_t struct_size) {
  LaterCopy later = {.copy = {.struct_size = struct_size, .from = from, .from_device = cpu}};
  later.copy.to = to;
  later.copy.to_device = cpu;
  later.copy.size = 4;
  return later;
}

static void test_longer_copy_works_if_its_new_members_are_zero(void) {
  char to[] = "....";
  LaterCopy later = make_copy("abcd", to, sizeof later);
  g_assert_cmpint(bp_device_copy(&later.copy, NULL), ==, 0);
  g_assert_cmpstr(to, ==, "abcd");
}

static void assert_copy_refused(const LaterCopy *later, const char *to, const char *part) {
  g_assert_cmpint(bp_device_copy(&later->copy, NULL), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_assert_nonnull(strstr(bp_error_message(), part));
  bp_error_clear();
  g_assert_cmpstr(to, ==, "....");
}

static void test_longer_copy_with_a_new_member_set_is_refused(void) {
  char to[] = "....";
  LaterCopy later = make_copy("abcd", to, sizeof later);
  later.rows = 1;
  assert_copy_refused(&later, to, "a member set at byte 72");
}

static void test_bytes_behind_a_copy_are_not_read(void) {
  char to[] = "....";
  LaterCopy later = make_copy("abcd", to, sizeof(BpCopy));
  later.rows = 1;
  g_assert_cmpint(bp_device_copy(&later.copy, NULL), ==, 0);
  g_assert_cmpstr(to, ==, "abcd");
}

static void test_unknown_flag_of_a_copy_is_refused(void) {
  char to[] = "....";
  LaterCopy later = make_copy("abcd", to, sizeof(BpCopy));
  later.copy.flags = 4;
  assert_copy_refused(&later, to, "BpCopy: unknown flags 0x4");
  later.copy.size = 0;
  assert_copy_refused(&later, to, "BpCopy: unknown flags 0x4");
}

static void test_copy_without_its_size_is_refused(void) {
  static const uint64_t sizes[] = {0, sizeof(BpCopy) - 1, UINT64_MAX};
  for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
    char to[] = "....";
    LaterCopy later = make_copy("abcd", to, sizes[i]);
    assert_copy_refused(&later, to, "BpCopy::struct_size is ");
  }
}

/* ---- Allocations ------------------------------------------------------------------------- */

/* BpAllocation with a member that a later version may add. */
typedef struct LaterAllocation {
  BpAllocation allocation;
  void *stream;
} LaterAllocation;

static LaterAllocation make_allocation(uint64_t struct_size) {
  return (LaterAllocation){
      .allocation = {.struct_size = struct_size, .size = 16, .alignment = 64, .dtype = {1, 8, 1}}};
}

static void assert_allocation_refused(const LaterAllocation *later, const char *part) {
  void *handle = &handle;
  g_assert_cmpint(bp_device_alloc(cpu, &later->allocation, &handle), ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_assert_nonnull(strstr(bp_error_message(), part));
  g_assert_null(handle);
  bp_error_clear();
}

static void test_longer_allocation_works_if_its_new_members_are_zero(void) {
  void *handle = NULL;
  LaterAllocation later = make_allocation(sizeof later);
  g_assert_cmpint(bp_device_alloc(cpu, &later.allocation, &handle), ==, 0);
  g_assert_cmpint(bp_device_free(cpu, handle), ==, 0);
}

static void test_new_member_or_flag_of_an_allocation_is_refused(void) {
  LaterAllocation later = make_allocation(sizeof later);
  later.stream = &later;
  assert_allocation_refused(&later, "install a newer version");
  later.stream = NULL;
  later.allocation.flags = 1;
  assert_allocation_refused(&later, "unknown flags 0x1");
}

static void test_allocation_without_its_size_is_refused(void) {
  static const uint64_t sizes[] = {0, sizeof(BpAllocation) - 1, UINT64_MAX};
  for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
    LaterAllocation later = make_allocation(sizes[i]);
    assert_allocation_refused(&later, "BpAllocation::struct_size is ");
  }
}

/* ---- Structures that a plugin passes to the module table --------------------------------- */

static const BpModuleTable *module_table;

/* BpCompilerRun with a member that a later version may add. */
typedef struct LaterRun {
  BpCompilerRun run;
  const char *directory;
} LaterRun;

static void assert_value_error(int32_t rc, const char *part) {
  g_assert_cmpint(rc, ==, -1);
  g_assert_true(bp_error_is(BP_ERROR_VALUE));
  g_assert_nonnull(strstr(bp_error_message(), part));
  bp_error_clear();
}

static void test_unknown_member_of_a_compiler_run_is_refused(void) {
  static const char *const command[] = {"true", NULL};
  BpOwnedBytes log;
  LaterRun later = {{.struct_size = sizeof later, .subject = "sizes", .command = command}, "/"};
  assert_value_error(module_table->run_compiler(&later.run, NULL, &log), "a member set at byte 56");
  later.run.struct_size = sizeof later.run - 1;
  assert_value_error(module_table->run_compiler(&later.run, NULL, &log),
                     "BpCompilerRun::struct_size is 55");
}

/* ---- Attributes of a target kind --------------------------------------------------------- */

/* BpTargetAttr with a member that a later version may add. */
typedef struct LaterAttr {
  BpTargetAttr attr;
  const char *unit;
} LaterAttr;

static const LaterAttr later_attrs[] = {{{"first", BP_TYPE_INT, 0, "1", "x"}, "bytes"},
                                        {{"second", BP_TYPE_INT, 0, "2", "x"}, "bytes"}};
static const BpTargetTable *table;

static int build_nothing(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self, (void)args, (void)num_args, (void)result;
  return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "it makes nothing");
}

static int32_t register_build(void) {
  BpFunction *function = bp_function_create(build_nothing, NULL, NULL);
  int32_t rc = function && !bp_registry_set("target.build.later", function, 0) ? 0 : -1;
  bp_object_release(function);
  return rc;
}

static int32_t register_kinds(void *context) {
  (void)context;
  static const BpTargetKind later = {.struct_size = sizeof later,
                                     .name = "later",
                                     .device_type = BP_DEVICE_CPU,
                                     .attrs = &later_attrs[0].attr,
                                     .attr_size = sizeof(LaterAttr),
                                     .num_attrs = 2,
                                     .description = "x"};
  BpTargetKind unsized_kind = later;
  unsized_kind.attr_size = 0;
  g_assert_cmpint(table->register_kind(&unsized_kind), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "has an attr_size of 0"));
  bp_error_clear();
  return table->register_kind(&later) ? -1 : register_build();
}

static int32_t entry(const BpHost *host, BpPlugin *plugin) {
  table = host->get_table(host, BP_TABLE_TARGET, BP_TABLE_TARGET_VERSION);
  module_table = host->get_table(host, BP_TABLE_MODULE, BP_TABLE_MODULE_VERSION);
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = register_kinds;
  return 0;
}

static void test_rows_of_attributes_are_as_long_as_the_plugin_says(void) {
  g_assert_cmpint(bp_plugin_register_static("abi=" BP_ABI_NEEDED_TEXT
                                            "\nname=later\nversion=1\nlicense=MIT\n"
                                            "description=x\nentry=bp_plugin_entry_later\n"
                                            "provides=target.build.later\ntargets=later\n",
                                            entry),
                  ==, 0);
  BpTarget *target = bp_target_parse("later -second=5");
  if (!target)
    g_error("%s", bp_error_message());
  g_assert_cmpint(bp_target_get_int(target, "first", 0), ==, 1);
  g_assert_cmpint(bp_target_get_int(target, "second", 0), ==, 5);
  bp_object_release(target);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
#define ADD(path, test) g_test_add_func("/sizes/" path, test)
  ADD("longer-allocation-works-if-its-new-members-are-zero",
      test_longer_allocation_works_if_its_new_members_are_zero);
  ADD("new-member-or-flag-of-an-allocation-is-refused",
      test_new_member_or_flag_of_an_allocation_is_refused);
  ADD("allocation-without-its-size-is-refused", test_allocation_without_its_size_is_refused);
  ADD("longer-copy-works-if-its-new-members-are-zero",
      test_longer_copy_works_if_its_new_members_are_zero);
  ADD("longer-copy-with-a-new-member-set-is-refused",
      test_longer_copy_with_a_new_member_set_is_refused);
  ADD("bytes-behind-a-copy-are-not-read", test_bytes_behind_a_copy_are_not_read);
  ADD("copy-without-its-size-is-refused", test_copy_without_its_size_is_refused);
  ADD("rows-of-attributes-are-as-long-as-the-plugin-says",
      test_rows_of_attributes_are_as_long_as_the_plugin_says);
  ADD("unknown-flag-of-a-copy-is-refused", test_unknown_flag_of_a_copy_is_refused);
  ADD("unknown-member-of-a-compiler-run-is-refused",
      test_unknown_member_of_a_compiler_run_is_refused);
  return g_test_run();
}
