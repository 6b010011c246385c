/* SPDX-License-Identifier: Apache-2.0 */
/* The SDK's table of handles. */
#include <backplane/handle_table.h>
#include <glib.h>

#define COUNT 1000

static int items[COUNT];

static void test_handle_stands_for_its_item(void) {
  BpHandleTable table = {0};
  void *handles[COUNT];
  for (int i = 0; i < COUNT; i++) {
    handles[i] = bp_handle_add(&table, &items[i]);
    g_assert_nonnull(handles[i]);
  }
  for (int i = 0; i < COUNT; i++)
    g_assert_true(bp_handle_get(&table, handles[i]) == &items[i]);
  bp_handle_table_free(&table);
}

static void test_removed_handle_stands_for_nothing(void) {
  BpHandleTable table = {0};
  void *first = bp_handle_add(&table, &items[0]);
  g_assert_true(bp_handle_remove(&table, first) == &items[0]);
  g_assert_null(bp_handle_get(&table, first));
  g_assert_null(bp_handle_remove(&table, first));
  bp_handle_table_free(&table);
}

static void test_place_is_used_again_under_another_handle(void) {
  BpHandleTable table = {0};
  void *before = bp_handle_add(&table, &items[0]);
  for (int i = 0; i < COUNT; i++) {
    bp_handle_remove(&table, before);
    void *handle = bp_handle_add(&table, &items[i]);
    g_assert_true(handle != before);
    g_assert_null(bp_handle_get(&table, before));
    g_assert_true(bp_handle_get(&table, handle) == &items[i]);
    before = handle;
  }
  g_assert_cmpuint(table.num_places, ==, 1);
  bp_handle_table_free(&table);
}

static void test_what_is_no_handle_is_found_out(void) {
  BpHandleTable table = {0};
  g_assert_null(bp_handle_get(&table, NULL));
  void *handle = bp_handle_add(&table, &items[0]);
  uint64_t number = (uintptr_t)handle;
  const uint64_t others[] = {
      0, 1, number + 1, number - 1, number & UINT32_MAX, (uintptr_t)&items[0], UINT64_MAX};
  for (size_t i = 0; i < G_N_ELEMENTS(others); i++) {
    g_assert_null(bp_handle_get(&table, (void *)(uintptr_t)others[i]));
    g_assert_null(bp_handle_remove(&table, (void *)(uintptr_t)others[i]));
  }
  g_assert_true(bp_handle_get(&table, handle) == &items[0]);
  bp_handle_table_free(&table);
}

static void test_handle_of_another_table_is_found_out(void) {
  BpHandleTable tables[2] = {{0}, {0}};
  void *handles[2];
  for (int i = 0; i < 2; i++)
    handles[i] = bp_handle_add(&tables[i], &items[i]);
  for (int i = 0; i < 2; i++) {
    g_assert_null(bp_handle_get(&tables[i], handles[!i]));
    g_assert_null(bp_handle_remove(&tables[i], handles[!i]));
    g_assert_true(bp_handle_remove(&tables[i], handles[i]) == &items[i]);
    bp_handle_table_free(&tables[i]);
  }
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/handle-table/handle-stands-for-its-item", test_handle_stands_for_its_item);
  g_test_add_func("/handle-table/removed-handle-stands-for-nothing",
                  test_removed_handle_stands_for_nothing);
  g_test_add_func("/handle-table/place-is-used-again-under-another-handle",
                  test_place_is_used_again_under_another_handle);
  g_test_add_func("/handle-table/what-is-no-handle-is-found-out",
                  test_what_is_no_handle_is_found_out);
  g_test_add_func("/handle-table/handle-of-another-table-is-found-out",
                  test_handle_of_another_table_is_found_out);
  return g_test_run();
}
