/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a Relax executable is read, and a valid one is run. The executable calls the
 * machine's own functions, so wild bytecode reaches each of these functions. */

#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/graph/executor.h>
#include <backplane/graph/model.h>
#include <backplane/graph/relax.h>
#include <backplane/object.h>

#include "tests/fuzz/fuzz.h"

#define U64(low)   low "\0\0\0\0\0\0\0"
#define I32(low)   low "\0\0\0"
#define STR7(text) U64("\7") text
#define NONE       U64("\0")
#define HEAD       "\x1e\x15\x14\x42\x2f\xde\x25\xd2" U64("\4") "0.14"

/* Arguments of instructions: register, number, constant, function; the machine; no register. */
#define REG(n)   U64(n)
#define NUM(n)   n "\0\0\0\0\0\0\1"
#define CONST(n) n "\0\0\0\0\0\0\2"
#define FUNC(n)  n "\0\0\0\0\0\0\3"
#define MACHINE  "\1\0\0\0\0\0\x40\0"
#define VOID     "\0\0\0\0\0\0\x40\0"

/* A function of bytecode with one argument, and a packed one. */
#define BYTECODE(name, first, end, registers)                                                      \
  I32("\1") STR7(name) first U64(end) U64("\1") U64(registers) U64("\1") U64("\1") "x"
#define FORWARD(end, registers) BYTECODE("forward", NONE, end, registers)
#define BUILTIN(size, name)                                                                        \
  I32("\0") U64(size) "vm.builtin." name NONE NONE "\xfe\xff\xff\xff\xff\xff\xff\xff" NONE NONE

#define CALL(dst, function, count, args) U64("\1") dst U64(function) U64(count) args
#define RET(reg)                         U64("\2") REG(reg)

#define SHAPE   I32("\x45") U64("\2") U64("\3") U64("\2")
#define FLOAT32 I32("\5") "\2\x20\1\0"
#define SCOPE   I32("\x41") U64("\6") "global"
#define NUMBER  I32("\1") U64("\7")
#define TENSOR                                                                                     \
  I32("\x46")                                                                                      \
  "\x3f\xa1\xb4\x96\xf0\x40\x5e\xdd" NONE I32("\1") I32("\0") I32("\1") "\0\x40\1\0" U64("\2")     \
      U64("\x10") U64("\1") U64("\2")

static const FuzzSeed seeds[] = {
    /* heap, match, make shape, storage, tensor, return */
    FUZZ_TEXT(
        HEAD U64("\7") FORWARD("\7", "\6") BUILTIN("\x1b", "alloc_shape_heap") BUILTIN(
            "\x16", "match_shape") BUILTIN("\x15", "make_shape") BUILTIN("\x18", "alloc_storage")
            BUILTIN("\x17", "alloc_tensor") BUILTIN("\x12", "reshape") NONE U64("\4")
                SHAPE FLOAT32 SCOPE NUMBER U64("\7") U64("\0") U64("\6") U64("\x12") U64("\x1c")
                    U64("\x25") U64("\x2d") U64("\x33") U64("\x35")
                        CALL(REG("\1"), "\1", "\2", MACHINE NUM("\3")) CALL(
                            VOID, "\2", "\x08",
                            CONST("\0") REG("\1") NUM("\2") NUM("\1") NUM("\1") NUM("\0") NUM("\2")
                                CONST("\2")) CALL(REG("\2"), "\3", "\6",
                                                  REG("\1") NUM("\2") NUM("\1") NUM("\1") NUM("\0")
                                                      NUM("\2")) CALL(REG("\3"), "\4", "\5",
                                                                      MACHINE CONST("\0") NUM("\0")
                                                                          CONST("\1") CONST("\2"))
                            CALL(REG("\4"), "\5", "\4", REG("\3") NUM("\0") REG("\2") CONST("\1"))
                                CALL(REG("\5"), "\6", "\2", REG("\4") CONST("\0")) RET("\5")),
    /* tuples, closures of itself, conditions, jumps */
    FUZZ_TEXT(HEAD U64("\6") FORWARD("\6", "\4") BUILTIN("\x15", "make_tuple") BUILTIN(
        "\x18", "tuple_getitem") BUILTIN("\x17", "make_closure") BUILTIN("\x19", "invoke_closure")
                  BUILTIN("\x17", "read_if_cond") NONE U64("\2") TENSOR NUMBER U64("\6") U64("\0")
                      U64("\6") U64("\x0b") U64("\x0e") U64("\x14") U64("\x16") U64("\x18")
                          CALL(REG("\1"), "\1", "\2", CONST("\0") CONST("\1"))
                              CALL(REG("\2"), "\5", "\1", CONST("\1")) U64("\4") REG("\2") U64("\2")
                                  CALL(REG("\3"), "\3", "\2", FUNC("\0") REG("\1")) RET("\3")
                                      RET("\1")),
    /* two functions; one calls the other */
    FUZZ_TEXT(HEAD U64("\3") FORWARD("\2", "\3") BYTECODE("another", U64("\2"), "\4", "\3")
                  BUILTIN("\x15", "make_tuple") NONE NONE U64("\4") U64("\0") U64("\5") U64("\7")
                      U64("\xd") U64("\xf") CALL(REG("\1"), "\1", "\1", REG("\0")) RET("\1")
                          CALL(REG("\1"), "\2", "\2", REG("\0") REG("\0")) RET("\1")),
};

static const FuzzSeed pieces[] = {
    FUZZ_TEXT(NONE),
    FUZZ_TEXT(U64("\1")),
    FUZZ_TEXT(MACHINE),
    FUZZ_TEXT(VOID),
    FUZZ_TEXT(REG("\2")),
    FUZZ_TEXT(NUM("\2")),
    FUZZ_TEXT(FUNC("\0")),
    FUZZ_TEXT(CONST("\0")),
    FUZZ_TEXT("\xff\xff\xff\xff\xff\xff\xff\xff"),
    FUZZ_TEXT(BUILTIN("\x13", "shape_of")),
    FUZZ_TEXT(BUILTIN("\x18", "tuple_getitem")),
    FUZZ_TEXT(TENSOR),
};

const FuzzSeed *fuzz_seeds(size_t *count) {
  *count = sizeof seeds / sizeof *seeds;
  return seeds;
}

const FuzzSeed *fuzz_pieces(size_t *count) {
  *count = sizeof pieces / sizeof *pieces;
  return pieces;
}

/* Runs the executable as a model; the run is stopped in a loop, because a loop may have no end. */
static void run(BpModule *executable) {
  const BpDevice cpu = {BP_DEVICE_CPU, 0};
  const int64_t extent = 1;
  BpTensor *argument = bp_tensor_create(&extent, 1, (BpDataType){BP_DTYPE_INT, 64, 1}, cpu, NULL);
  BpModel *model = bp_model_create(executable, &cpu, 1);
  BpModelContext *context = model ? bp_model_context_create(model) : NULL;
  const BpModelTensorInfo *info = context ? bp_model_input_info(model, 0) : NULL;
  if (info && bp_model_bind_input(context, info->name, argument) == 0 &&
      bp_model_cancel(context) == 0)
    bp_model_run(context);
  bp_model_context_free(context);
  bp_model_release(model);
  bp_object_release(argument);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (bp_graph_initialize())
    abort();
  const BpByteArray bytes = {(const char *)data, size};
  BpModule *executable = bp_module_load_from_bytes("relax.VMExecutable", &bytes);
  if (!executable && !*bp_error_message())
    abort();
  if (executable)
    run(executable);
  bp_object_release(executable);
  bp_error_clear();
  return 0;
}
