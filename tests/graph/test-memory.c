/* SPDX-License-Identifier: Apache-2.0 */
/* Exhausted memory while a compiled model is loaded and run: whichever allocation fails, the result
 * is MemoryError, and no memory leaks. */
#include <limits.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include <backplane/graph/executor.h>
#include <backplane/graph/model.h>
#include <backplane/graph/npy.h>
#include <backplane/object.h>

#include "tests/failing_memory.h"

static BpModel *model;
static BpModel *open_model; /* a model for any number of images */
static BpTensor *image;
static char *npy_path;
static BpOwnedBytes saved;  /* the compiled model */
static BpOwnedBytes params; /* a parameter file */

static int run_model_of(BpModel *which) {
  BpModelContext *context = bp_model_context_create(which);
  int rc = context && !bp_model_set_input(context, "image", &image->view) &&
                   !bp_model_bind_input(context, "image", image) && !bp_model_run(context) &&
                   bp_model_get_output(context, 0)
               ? 0
               : -1;
  bp_model_context_free(context);
  return rc;
}

static int run_model(void) {
  return run_model_of(model);
}

static int run_open_model(void) {
  return run_model_of(open_model);
}

static int ignore(void *context, const char *name, BpTensor *tensor) {
  (void)context;
  (void)name;
  (void)tensor;
  return 0;
}

static int read_params(void) {
  const BpByteArray bytes = {params.data, params.size};
  return bp_params_decode(&bytes, ignore, NULL);
}

static int save_params(void) {
  const char *const names[] = {"first", "second"};
  BpTensor *const tensors[] = {image, image};
  BpOwnedBytes bytes;
  int rc = bp_params_encode(names, tensors, 2, &bytes);
  if (rc == 0)
    bp_owned_bytes_clear(&bytes);
  return rc;
}

static int load_model(void) {
  const BpByteArray bytes = {saved.data, saved.size};
  BpModule *module = bp_module_load_from_bytes("backplane.graph", &bytes);
  bp_object_release(module);
  return module ? 0 : -1;
}

static int read_npy(void) {
  BpTensor *tensor = bp_npy_read(npy_path);
  bp_object_release(tensor);
  return tensor ? 0 : -1;
}

static int write_npy(void) {
  return bp_npy_write(npy_path, &image->view);
}

typedef struct Scenario {
  const char *path;
  int (*work)(void);
} Scenario;

static const Scenario scenarios[] = {
    {"/graph/memory/run", run_model},           {"/graph/memory/open/run", run_open_model},
    {"/graph/memory/load", load_model},         {"/graph/memory/params/read", read_params},
    {"/graph/memory/params/save", save_params}, {"/graph/memory/npy/read", read_npy},
    {"/graph/memory/npy/write", write_npy},
};

static void test_scenario(gconstpointer data) {
  const Scenario *scenario = data;
  g_assert_cmpint(fail_every_allocation(scenario->work, 0), >, 0);
  fail_every_allocation(scenario->work, 1);
}

/* Counts the allocations of this thread for one run with `image`. */
static long count_allocations(BpModelContext *context) {
  fail_at = LONG_MAX;
  count = 0;
  int rc = bp_model_set_input(context, "image", &image->view) || bp_model_run(context) ||
           !bp_model_get_output(context, 0);
  fail_at = -1;
  g_assert_cmpint(rc, ==, 0);
  return count;
}

static void test_runs_of_equal_shapes_allocate_nothing(void) {
  BpModelContext *context = bp_model_context_create(open_model);
  const int64_t shape[] = {3, 1, 28, 28};
  BpTensor *images = bp_tensor_create(shape, 4, (BpDataType){BP_DTYPE_FLOAT, 32, 1},
                                      (BpDevice){BP_DEVICE_CPU, 0}, NULL);
  g_assert_nonnull(context);
  g_assert_cmpint(count_allocations(context), >, 0);
  g_assert_cmpint(count_allocations(context), ==, 0);
  memset(images->view.data, 0, 3 * 28 * 28 * sizeof(float));
  g_assert_cmpint(bp_model_set_input(context, "image", &images->view), ==, 0);
  g_assert_cmpint(bp_model_run(context), ==, 0); /* a larger batch: the storage grows */
  g_assert_cmpint(count_allocations(context), >, 0);
  g_assert_cmpint(count_allocations(context), ==, 0);
  bp_object_release(images);
  bp_model_context_free(context);
}

static BpModel *compile(const BpTarget *target, const char *path, const BpInputShape *shape,
                        BpModule **module) {
  const BpTarget *targets[] = {target};
  const BpCompileOptions options = {.struct_size = sizeof(options),
                                    .targets = targets,
                                    .num_targets = 1,
                                    .shapes = shape,
                                    .num_shapes = shape != NULL,
                                    .shape_size = sizeof(BpInputShape)};
  const BpDevice host = {BP_DEVICE_CPU, 0};
  *module = target ? bp_model_compile(path, &options) : NULL;
  return *module ? bp_model_create(*module, &host, 1) : NULL;
}

static void prepare(void) {
  const char *source = g_getenv("top_srcdir");
  char *path = g_build_filename(source ? source : ".", "examples/digits/digits.onnx", NULL);
  const int64_t shape[] = {1, 1, 28, 28};
  const BpInputShape shapes[] = {{"image", shape, 4}};
  BpTarget *target = bp_target_parse("c");
  const BpDevice host = {BP_DEVICE_CPU, 0};
  BpModule *module, *open_module;
  model = compile(target, path, shapes, &module);
  open_model = compile(target, path, NULL, &open_module);
  image = bp_tensor_create(shape, 4, (BpDataType){BP_DTYPE_FLOAT, 32, 1}, host, NULL);
  if (!model || !open_model || !image || bp_module_save_to_bytes(module, &saved))
    g_error("%s", bp_error_message());
  memset(image->view.data, 0, 28 * 28 * sizeof(float));
  const char *const names[] = {"first"};
  BpTensor *const tensors[] = {image};
  if (bp_params_encode(names, tensors, 1, &params))
    g_error("%s", bp_error_message());
  npy_path = g_strdup_printf("%s/backplane-memory-%d.npy", g_get_tmp_dir(), (int)getpid());
  bp_object_release(module);
  bp_object_release(open_module);
  bp_object_release(target);
  g_free(path);
}

int main(int argc, char **argv) {
  /* Concurrent threads need workspaces of their own, which are kept: their number varies. */
  g_setenv("BACKPLANE_NUM_THREADS", "1", TRUE);
  g_test_init(&argc, &argv, NULL);
  prepare();
  for (size_t i = 0; i < G_N_ELEMENTS(scenarios); i++)
    g_test_add_data_func(scenarios[i].path, &scenarios[i], test_scenario);
  g_test_add_func("/graph/memory/open/runs_of_equal_shapes_allocate_nothing",
                  test_runs_of_equal_shapes_allocate_nothing);
  write_npy();
  int rc = g_test_run();
  g_unlink(npy_path);
  g_free(npy_path);
  bp_owned_bytes_clear(&saved);
  bp_owned_bytes_clear(&params);
  bp_object_release(image);
  bp_model_release(model);
  bp_model_release(open_model);
  return rc;
}
