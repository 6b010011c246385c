/* SPDX-License-Identifier: Apache-2.0 */
/* Section module: programs and argument lists as large as those of models. */
#include <string.h>

#include "conformance/kernel.h"

#define NUMBERS 16 /* the most numbers that one kernel gets in addition to buffers */

/* Returns a function that stores the only element of each buffer A0, A1... and then each number x0,
 * x1... in order (g_free). */
static char *gathering_text(int num_buffers, int num_numbers) {
  GString *text = g_string_new("(module (function \"f\"");
  GString *body = g_string_new("(for b:int64 0 1 bound \"blockIdx.x\" (seq");
  int count = num_buffers + num_numbers;
  for (int i = 0; i < num_buffers; i++) {
    g_string_append_printf(text, " (buffer A%d int32 global 1)", i);
    g_string_append_printf(body, " (store O %d (load A%d 0))", i, i);
  }
  g_string_append_printf(text, " (buffer O int32 global %d)", count);
  for (int i = 0; i < num_numbers; i++) {
    g_string_append_printf(text, " x%d:int32", i);
    g_string_append_printf(body, " (store O %d x%d)", num_buffers + i, i);
  }
  g_string_append_printf(text, " %s))))", body->str);
  g_string_free(body, TRUE);
  return g_string_free(text, FALSE);
}

/* Sets argument i to 1000 + i, in a buffer or as a number. */
static void expect_gathered(const Kit *kit, int num_buffers, int num_numbers) {
  char *text = gathering_text(num_buffers, num_numbers);
  int count = num_buffers + num_numbers;
  KitBuffer buffers[KIT_MOST_ARGS], gathered;
  KitArgs args = {.count = 0};
  KitCode code = bp__kit_build(kit, text);
  BpFunction *function = bp__kit_function(code.module, "f");
  for (int i = 0; i < num_buffers; i++) {
    int32_t number = 1000 + i;
    bp__kit_buffer_create(kit, &buffers[i], KIT_INT32, 1);
    bp__kit_buffer_set(kit, &buffers[i], &number, NULL);
    bp__kit_args_add(&args, bp__kit_buffer_value(&buffers[i]));
  }
  bp__kit_buffer_create(kit, &gathered, KIT_INT32, count);
  bp__kit_args_add(&args, bp__kit_buffer_value(&gathered));
  for (int i = num_buffers; i < count; i++)
    bp__kit_args_add_int(&args, 1000 + i);
  bp__kit_args_add_launch(&args, &code, "f", 1);
  bp__kit_call(kit, function, &args, NULL);
  int32_t *got = g_new0(int32_t, (gsize)count);
  bp__kit_buffer_get(kit, &gathered, got, NULL);
  for (int i = 0; i < count; i++)
    KIT_TRUE(got[i] == 1000 + i,
             "argument %d of a function of %d buffers and %d numbers: %d and not %d",
             i < num_buffers ? i : i + 1, num_buffers + 1, num_numbers, got[i], 1000 + i);
  for (int i = 0; i < num_buffers; i++)
    bp__kit_buffer_free(kit, &buffers[i]);
  bp__kit_buffer_free(kit, &gathered);
  bp_object_release(function);
  bp__kit_code_clear(&code);
  g_free(text);
  g_free(got);
}

static void run_many_arguments(Kit *kit) {
  bp__kit_open_target(kit);
  int64_t most = bp_target_get_int(kit->target, BP_TARGET_MAX_BUFFERS, KIT_MOST_ARGS);
  expect_gathered(kit, (int)CLAMP(most, 4, KIT_MOST_ARGS) - 1, 0);
  expect_gathered(kit, 3, NUMBERS);
}

static void run_wide_numbers(Kit *kit) {
  static const char text[] =
      "(module (function \"f\" (buffer A int64 global 3) x:int64 y:int64 z:int64"
      " (for b:int64 0 1 bound \"blockIdx.x\" (seq (store A 0 x) (store A 1 y) (store A 2 z)))))";
  const int64_t expected[3] = {((int64_t)1 << 40) + 5, -((int64_t)1 << 33) - 7, INT64_MIN};
  int64_t got[3] = {0};
  KitBuffer buffer;
  KitArgs args = {.count = 0};
  bp__kit_open_target(kit);
  KitCode code = bp__kit_try_build(kit, text);
  if (!code.module && bp_error_is(BP_ERROR_NOT_IMPLEMENTED))
    bp__kit_skip("%s", bp_error_message());
  KIT_TRUE(code.module, "%s: %s, of\n%s", bp_error_kind(), bp_error_message(), text);
  BpFunction *function = bp__kit_function(code.module, "f");
  bp__kit_buffer_create(kit, &buffer, (BpDataType){BP_DTYPE_INT, 64, 1}, 3);
  bp__kit_args_add(&args, bp__kit_buffer_value(&buffer));
  for (int i = 0; i < 3; i++)
    bp__kit_args_add_int(&args, expected[i]);
  bp__kit_args_add_launch(&args, &code, "f", 1);
  bp__kit_call(kit, function, &args, NULL);
  bp__kit_buffer_get(kit, &buffer, got, NULL);
  for (int i = 0; i < 3; i++)
    KIT_TRUE(got[i] == expected[i],
             "an int64 argument: %" G_GINT64_FORMAT " arrives as %" G_GINT64_FORMAT, expected[i],
             got[i]);
  bp__kit_buffer_free(kit, &buffer);
  bp_object_release(function);
  bp__kit_code_clear(&code);
}

#define STATEMENTS 1000
#define ELEMENTS   64

/* Each statement needs the results of the previous ones. */
static void run_long_program(Kit *kit) {
  GString *text = g_string_new(NULL);
  g_string_printf(text,
                  "(module (function \"f\" (buffer A int32 global %d)"
                  " (for b:int64 0 1 bound \"blockIdx.x\" (seq",
                  ELEMENTS);
  for (int i = 0; i < STATEMENTS; i++)
    g_string_append_printf(text, " (store A %d (add (load A %d) (mul (load A %d) %d:int32)))",
                           i * 29 % ELEMENTS, (i * 13 + 5) % ELEMENTS, i * 7 % ELEMENTS,
                           i % 11 + 1);
  g_string_append(text, "))))");
  bp__kit_open_target(kit);
  bp__kit_expect_agrees(kit, text->str, "f", ELEMENTS);
  g_string_free(text, TRUE);
}

static const Check checks[] = {
    {"module.arguments.many", "a function takes as many buffers as the target says, and 16 numbers",
     "module.arguments.scalars", CHECK_CORE, run_many_arguments},
    {"module.arguments.wide", "int64 arguments beyond the range of int32 arrive in full",
     "module.arguments.scalars", CHECK_OPTIONAL, run_wide_numbers},
    {"module.program.long", "a function of a thousand statements executes all of them",
     "module.call", CHECK_CORE, run_long_program},
};

const Section bp__kit_sizes_section = {"module", NEEDS_TARGET, checks, G_N_ELEMENTS(checks)};
