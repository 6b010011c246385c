/* SPDX-License-Identifier: Apache-2.0 */
/* Measures a packed call with three arguments and a look-up of a global function, beside tvm-ffi in
 * the same process. Batches of the two alternate; the program prints the shortest time per
 * operation of each and the ratio of Backplane's time to tvm-ffi's.
 *
 *   bench-ffi LIBTVM_FFI.so [BATCHES] */

#include "bench/bench.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPERATIONS 20000 /* operations in a batch */
#define NUM_NAMES  500   /* additional functions in each registry */

/* tvm-ffi's functions; their types have the same layout as Backplane's. */
static struct {
  int (*function_create)(void *self, BpPackedCall call, void (*deleter)(void *), void **out);
  int (*function_call)(void *function, const BpValue *args, int32_t num_args, BpValue *result);
  int (*function_get_global)(const BpByteArray *name, void **out);
  int (*function_set_global)(const BpByteArray *name, void *function, int override);
  int (*object_dec_ref)(void *object);
} peer;

/* Backplane's functions are also looked up at run time: a call through the linker's table costs an
 * extra jump. */
static struct {
  int (*function_call)(BpFunction *function, const BpValue *args, int32_t num_args,
                       BpValue *result);
  int (*registry_get)(const char *name, BpFunction **function);
  void (*object_release)(void *object);
} ours;

static BpFunction *our_function;
static void *peer_function;
static char names[NUM_NAMES][48];

static int add_three(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)num_args;
  result->type_index = BP_TYPE_INT;
  result->v_int64 = args[0].v_int64 + args[1].v_int64 + args[2].v_int64;
  return 0;
}

static void *symbol(void *library, const char *name) {
  void *address = dlsym(library, name);
  if (!address)
    fail(dlerror());
  return address;
}

static void open_peer(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    fail(dlerror());
  *(void **)&peer.function_create = symbol(library, "TVMFFIFunctionCreate");
  *(void **)&peer.function_call = symbol(library, "TVMFFIFunctionCall");
  *(void **)&peer.function_get_global = symbol(library, "TVMFFIFunctionGetGlobal");
  *(void **)&peer.function_set_global = symbol(library, "TVMFFIFunctionSetGlobal");
  *(void **)&peer.object_dec_ref = symbol(library, "TVMFFIObjectDecRef");
}

static void prepare(void) {
  *(void **)&ours.function_call = symbol(RTLD_DEFAULT, "bp_function_call");
  *(void **)&ours.registry_get = symbol(RTLD_DEFAULT, "bp_registry_get");
  *(void **)&ours.object_release = symbol(RTLD_DEFAULT, "bp_object_release");
  our_function = bp_function_create(add_three, NULL, NULL);
  if (!our_function || peer.function_create(NULL, add_three, NULL, &peer_function))
    fail("cannot create a function");
  for (int i = 0; i < NUM_NAMES; ++i) {
    snprintf(names[i], sizeof names[i], "bench.target.build.kind_%d", i);
    BpByteArray name = {names[i], strlen(names[i])};
    if (bp_registry_set(names[i], our_function, 0) ||
        peer.function_set_global(&name, peer_function, 0))
      fail("cannot register a function");
  }
}

/* Each function runs its operation OPERATIONS times, and returns the nanoseconds of one
 * operation. */
static BpValue arguments[3] = {{.type_index = BP_TYPE_INT, .v_int64 = 1},
                               {.type_index = BP_TYPE_INT, .v_int64 = 2},
                               {.type_index = BP_TYPE_INT, .v_int64 = 3}};

/* bp_function_call sets the result to None; tvm-ffi leaves that to the caller. */
static double our_call(void) {
  int64_t sum = 0;
  double began = now();
  for (int i = 0; i < OPERATIONS; ++i) {
    BpValue result;
    arguments[2].v_int64 = i;
    ours.function_call(our_function, arguments, 3, &result);
    sum += result.v_int64;
  }
  double took = (now() - began) * 1e9 / OPERATIONS;
  return sum ? took : 0;
}

static double peer_call(void) {
  int64_t sum = 0;
  double began = now();
  for (int i = 0; i < OPERATIONS; ++i) {
    BpValue result = {.type_index = BP_TYPE_NONE};
    arguments[2].v_int64 = i;
    peer.function_call(peer_function, arguments, 3, &result);
    sum += result.v_int64;
  }
  double took = (now() - began) * 1e9 / OPERATIONS;
  return sum ? took : 0;
}

static double our_look_up(void) {
  double began = now();
  for (int i = 0; i < OPERATIONS; ++i) {
    BpFunction *function;
    ours.registry_get(names[i % NUM_NAMES], &function);
    ours.object_release(function);
  }
  return (now() - began) * 1e9 / OPERATIONS;
}

/* Callers of tvm-ffi pass the length of the name; it is counted here because our function counts
 * it, too. */
static double peer_look_up(void) {
  double began = now();
  for (int i = 0; i < OPERATIONS; ++i) {
    void *function;
    BpByteArray name = {names[i % NUM_NAMES], strlen(names[i % NUM_NAMES])};
    peer.function_get_global(&name, &function);
    peer.object_dec_ref(function);
  }
  return (now() - began) * 1e9 / OPERATIONS;
}

static void compare(const char *what, int batches, double (*our)(void), double (*their)(void)) {
  double our_least = 1e9, their_least = 1e9;
  for (int i = 0; i < batches; ++i) {
    double took = our();
    our_least = took < our_least ? took : our_least;
    took = their();
    their_least = took < their_least ? took : their_least;
  }
  printf("%-24s %8.2f ns  tvm-ffi %8.2f ns  ratio %.2f\n", what, our_least, their_least,
         our_least / their_least);
}

int main(int argc, char **argv) {
  if (argc < 2)
    fail("give the path of libtvm_ffi.so (bench/ffi/run finds it)");
  int batches = argc > 2 ? atoi(argv[2]) : 500;
  open_peer(argv[1]);
  prepare();
  compare("call, 3 arguments", batches, our_call, peer_call);
  compare("look-up and release", batches, our_look_up, peer_look_up);
  return 0;
}
