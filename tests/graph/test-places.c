/* SPDX-License-Identifier: Apache-2.0 */
/* Random graphs run on several devices: devices of this machine, some of one kind, and devices of
 * this machine that are used as those of another machine. Nodes are dealt to the devices at random.
 * The results equal, bit by bit, those of the nodes one after the other. */
#include <unistd.h>

#include "tests/bare_device.h"
#include "tests/compiler/codegen-util.h"
#include "tests/graph/call_graph.h"
#include "tests/process_usage.h"

#include <backplane/graph/executor.h>
#include <backplane/object.h>

#define COUNT       32
#define MOST_PLACES 8
#define MODULUS     1009

/* A kind of device with code for it: functions of one and of two inputs. */
typedef struct Code {
  const char *target;
  const char *names[2];
  const char *launch; /* NULL: the functions loop */
} Code;

static const Code codes[] = {
    {"c", {"host_1", "host_2"}, NULL},
    {"opencl", {"opencl_1", "opencl_2"}, "4 8"},
    {"vulkan", {"vulkan_1", "vulkan_2"}, "4 8"},
    {"simdev", {"simdev_1", "simdev_2"}, "4 8"},
};

typedef struct Place {
  BpDevice device;
  const Code *code;
} Place;

static GArray *places; /* Place, of all devices */
static BpModule *module;

/* ---- Code -------------------------------------------------------------------------------- */

#define INDEX "(add (mul b 8) t)"

/* y = (3 * x + 1) mod 1009, or (3 * x + 5 * z + 1) mod 1009. */
static char *write_function(const Code *code, int num_inputs) {
  const char *index = code->launch ? INDEX : "i";
  g_autofree char *x = g_strdup_printf("(mul (load X %s) 3:int32)", index);
  g_autofree char *z = g_strdup_printf("(mul (load Z %s) 5:int32)", index);
  g_autofree char *sum = num_inputs == 2 ? g_strdup_printf("(add %s %s)", x, z) : g_strdup(x);
  g_autofree char *store =
      g_strdup_printf("(store Y %s (mod (add %s 1:int32) 1009:int32))", index, sum);
  g_autofree char *loops =
      code->launch ? g_strdup_printf("(for b:int64 0 4 bound \"blockIdx.x\" (for t:int64 0 8 bound "
                                     "\"threadIdx.x\" %s))",
                                     store)
                   : g_strdup_printf("(for i:int64 0 32 parallel %s)", store);
  return g_strdup_printf("(function \"%s\" (buffer X int32 global 32)%s (buffer Y int32 global 32) "
                         "%s)",
                         code->names[num_inputs - 1],
                         num_inputs == 2 ? " (buffer Z int32 global 32)" : "", loops);
}

static void add_code(const Code *code) {
  g_autofree char *one = write_function(code, 1), *two = write_function(code, 2);
  g_autofree char *text = g_strdup_printf("(module %s %s)", one, two);
  BpIrModule *ir = parse_verified(text);
  BpModule *built = build_ok(ir, code->target);
  bp_object_release(ir);
  if (!module) {
    module = built;
    return;
  }
  g_assert_cmpint(bp_module_import(module, built), ==, 0);
  bp_object_release(built);
}

/* Adds the devices of a kind, written as in preferences, with code for them. */
static void add_places(const char *kind, const Code *code) {
  BpDevice device;
  int32_t count = 0;
  const char *why = "";
  if (bp_device_select(kind, &device, NULL) < 0 ||
      bp_device_count(device.device_type, &count, &why) < 0) {
    g_test_message("%s: %s", kind, bp_error_message());
    bp_error_clear();
    return;
  }
  for (int32_t i = 0; i < count && i < 3; i++) {
    const Place place = {{device.device_type, i}, code};
    char text[256];
    bp_device_format(place.device, text, sizeof text);
    g_test_message("%s", text);
    g_array_append_val(places, place);
  }
}

static void find_places(void) {
  places = g_array_new(FALSE, FALSE, sizeof(Place));
  for (size_t i = 0; i < G_N_ELEMENTS(codes); i++) {
    guint before = places->len;
    add_places(i ? codes[i].target : "cpu", &codes[i]);
    g_autofree char *remote = g_strdup_printf("remote:me@there/%s", codes[i].target);
    if (i)
      add_places(remote, &codes[i]);
    if (places->len > before)
      add_code(&codes[i]);
  }
}

/* ---- Graphs ------------------------------------------------------------------------------ */

/* A random graph on random devices; the first device is the model's. */
typedef struct Dealt {
  Random graph;
  BpDevice devices[MOST_PLACES];
  const char *launches[MOST_PLACES];
  size_t num_devices;
} Dealt;

static void deal(GRand *rand, Dealt *dealt) {
  const char *functions[MOST_PLACES];
  const Code *used[MOST_PLACES];
  g_autoptr(GArray) left = g_array_copy(places);
  size_t most = MIN(left->len, MOST_PLACES);
  dealt->num_devices = (size_t)g_rand_int_range(rand, 1, (gint32)most + 1);
  for (size_t i = 0; i < dealt->num_devices; i++) {
    guint at = (guint)g_rand_int_range(rand, 0, (gint32)left->len);
    const Place place = g_array_index(left, Place, at);
    g_array_remove_index(left, at);
    dealt->devices[i] = place.device;
    dealt->launches[i] = place.code->launch;
    used[i] = place.code;
    functions[i] = "";
  }
  make_random(rand, &dealt->graph, g_rand_int_range(rand, 3, MOST_NODES), (int)dealt->num_devices,
              functions);
  for (int i = 1; i < dealt->graph.count; i++) {
    Node *node = &dealt->graph.nodes[i];
    if (*node->function)
      continue;
    node->function = used[node->place]->names[node->num_inputs - 1];
  }
}

static int32_t input_value(int i) {
  return 31 * i % MODULUS;
}

/* Computes the output of the last node, element by element. */
static void compute(const Random *graph, int32_t output[COUNT]) {
  int32_t values[MOST_NODES];
  for (int i = 0; i < COUNT; i++) {
    values[0] = input_value(i);
    for (int n = 1; n < graph->count; n++) {
      const Node *node = &graph->nodes[n];
      int32_t x = values[node->inputs[0]], z = values[node->inputs[1]];
      values[n] = is_copy(node) ? x : (3 * x + (node->num_inputs == 2 ? 5 * z : 0) + 1) % MODULUS;
    }
    output[i] = values[graph->count - 1];
  }
}

static void call(BpModule *executor, const char *name, const BpValue *args, int32_t num_args,
                 BpValue *result) {
  BpFunction *function;
  g_assert_cmpint(bp_module_get_function(executor, name, 0, &function), ==, 0);
  if (bp_function_call(function, args, num_args, result))
    g_error("%s: %s", name, bp_error_message());
  bp_object_release(function);
}

static void set_input(BpModule *executor) {
  const int64_t extent = COUNT;
  BpValue result;
  BpTensor *x =
      bp_tensor_create(&extent, 1, (BpDataType){BP_DTYPE_INT, 32, 1}, (BpDevice){1, 0}, NULL);
  for (int i = 0; i < COUNT; i++)
    ((int32_t *)x->view.data)[i] = input_value(i);
  const BpValue args[] = {{.type_index = BP_TYPE_RAW_STR, .v_cstr = "x"},
                          {.type_index = BP_TYPE_TENSOR, .v_obj = &x->header}};
  call(executor, "set_input", args, 2, &result);
  bp_object_release(x);
}

static void assert_output(BpModule *executor, const int32_t expected[COUNT]) {
  const BpValue index = {.type_index = BP_TYPE_INT, .v_int64 = 0};
  int32_t values[COUNT];
  BpValue result;
  call(executor, "get_output", &index, 1, &result);
  const BpTensorView *view = &((BpTensor *)(void *)result.v_obj)->view;
  g_assert_cmpint(bp_tensor_copy_to_host(view, values, sizeof values), ==, 0);
  g_assert_cmpmem(values, sizeof values, expected, COUNT * sizeof *expected);
  bp_value_clear(&result);
}

static BpModule *create(const char *maker, const Dealt *dealt) {
  g_autofree char *json = write_graph(dealt->graph.nodes, dealt->graph.count, dealt->devices,
                                      "int32", COUNT, dealt->launches);
  BpFunction *function;
  BpValue result,
      args[2 + MOST_PLACES] = {{.type_index = BP_TYPE_RAW_STR, .v_cstr = json},
                               {.type_index = BP_TYPE_MODULE, .v_obj = (BpObject *)(void *)module}};
  for (size_t i = 0; i < dealt->num_devices; i++)
    args[2 + i] = (BpValue){.type_index = BP_TYPE_DEVICE, .v_device = dealt->devices[i]};
  g_assert_cmpint(bp_registry_get(maker, &function), ==, 0);
  if (bp_function_call(function, args, 2 + (int32_t)dealt->num_devices, &result))
    g_error("%s", bp_error_message());
  bp_object_release(function);
  return (BpModule *)(void *)result.v_obj;
}

static void check(GRand *rand, int rounds) {
  Dealt dealt;
  int32_t expected[COUNT];
  deal(rand, &dealt);
  compute(&dealt.graph, expected);
  BpModule *executor = create("graph_executor.create", &dealt);
  set_input(executor);
  for (int i = 0; i < rounds; i++) {
    BpValue result;
    call(executor, "run", NULL, 0, &result);
    assert_output(executor, expected);
  }
  bp_object_release(executor);
}

static void test_nodes_on_all_devices_give_the_results_of_nodes_in_turn(void) {
  GRand *rand = g_rand_new_with_seed(23);
  for (int i = 0; i < 30; i++)
    check(rand, 3);
  g_rand_free(rand);
}

/* Waits until fewer threads are there: those of drivers stay. */
static void wait_for_fewer_threads(void) {
  int count = count_threads();
  for (int tenths = 0; count_threads() >= count && tenths < 600; tenths++)
    g_usleep(G_USEC_PER_SEC / 10);
  g_assert_cmpuint(count_threads(), <, count);
}

/* The threads of executors end after some seconds without a run. */
static void test_threads_that_ended_are_replaced(void) {
  enum { EXECUTORS = 8 };
  GRand *rand = g_rand_new_with_seed(31);
  BpModule *executors[EXECUTORS];
  int32_t expected[EXECUTORS][COUNT];
  for (int i = 0; i < EXECUTORS; i++) {
    Dealt dealt;
    deal(rand, &dealt);
    compute(&dealt.graph, expected[i]);
    executors[i] = create("graph_executor.create", &dealt);
    set_input(executors[i]);
  }
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < EXECUTORS; i++) {
      BpValue result;
      call(executors[i], "run", NULL, 0, &result);
      assert_output(executors[i], expected[i]);
    }
    if (round == 0)
      wait_for_fewer_threads();
  }
  for (int i = 0; i < EXECUTORS; i++)
    bp_object_release(executors[i]);
  g_rand_free(rand);
}

/* A profile calls the functions of all devices in one thread, which has one current device of each
 * kind. */
static void test_profile_gives_what_a_run_gives(void) {
  GRand *rand = g_rand_new_with_seed(29);
  for (int i = 0; i < 10; i++) {
    Dealt dealt;
    int32_t expected[COUNT];
    BpValue result;
    deal(rand, &dealt);
    compute(&dealt.graph, expected);
    BpModule *executor = create("graph_executor_debug.create", &dealt);
    set_input(executor);
    call(executor, "profile", NULL, 0, &result);
    bp_value_clear(&result);
    assert_output(executor, expected);
    bp_object_release(executor);
  }
  g_rand_free(rand);
}

int main(int argc, char **argv) {
  /* Two devices of one kind. Of PoCL's drivers "pthread" bears threads; "basic" locks up. */
  g_setenv("POCL_DEVICES", "pthread pthread", FALSE);
  g_setenv("BACKPLANE_REMOTE_SHELL", "sh -c 'eval \"$1\"'", TRUE);
  if (g_getenv("BACKPLANE_WORKER_PROGRAM"))
    g_setenv("BACKPLANE_REMOTE_PROGRAM", g_getenv("BACKPLANE_WORKER_PROGRAM"), TRUE);
  g_test_init(&argc, &argv, NULL);
  g_strfreev(bare_list_devices("")); /* the plugins of tests/mock are found */
  g_assert_cmpint(bp_graph_initialize(), ==, 0);
  find_places();
  g_test_add_func("/places/nodes-on-all-devices-give-the-results-of-nodes-in-turn",
                  test_nodes_on_all_devices_give_the_results_of_nodes_in_turn);
  g_test_add_func("/places/threads-that-ended-are-replaced", test_threads_that_ended_are_replaced);
  g_test_add_func("/places/profile-gives-what-a-run-gives", test_profile_gives_what_a_run_gives);
  int status = g_test_run();
  g_array_unref(places);
  bp_object_release(module);
  return status;
}
