/* SPDX-License-Identifier: Apache-2.0 */
/* Reads Relax executables, which TVM 0.14 to 0.27 write in the following form:
 *
 *   u64 magic, str version
 *   u64 n, n x { i32 kind, str name, i64 first, i64 end, i64 num_args, i64 num_registers,
 *                u64 m, m x str parameter }          functions; first and end: instructions
 *   u64 n, n x { i64 constant, str memory scope }    (absent with the older magic)
 *   u64 n, n x { i32 type, value }                   constants, by their type index
 *   u64 n, n x i64                                   where in the words each instruction begins
 *   u64 n, n x i64                                   words
 *
 * An instruction is its operation, followed by: for a call dst, function, number of arguments,
 * arguments; for ret a register; for goto an offset; for if a register and an offset. An argument
 * has its kind in the top byte and a signed value in the other bytes. */
#include "graph/relax/executable.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/tensor.h>

#include "graph/io/stream.h"
#include "graph/relax/form.h"

#define MAGIC_NO_SCOPES 0xD225DE2F4214151Dull
#define MAX_REGISTERS   (1u << 20)

/* The minimum bytes of a function, a scope and a constant in the stream. */
#define MIN_FUNCTION 52
#define MIN_SCOPE    16
#define MIN_CONSTANT 8

typedef struct Reader {
  BpStreamReader stream;
  BpRelaxExecutable *executable;
  /* The code in the stream's form, and the range of each function's code. */
  int64_t *offsets;
  int64_t *words;
  int64_t (*ranges)[2];
  uint32_t num_offsets;
  uint32_t num_words;
  /* The numbers of used elements in the executable's lists. */
  size_t used_instructions;
  size_t used_args;
} Reader;

static int damaged(const Reader *reader, const char *name, const char *what) {
  return bp_error_raise(BP_ERROR_FORMAT, "%s: function '%s' %s; it is damaged", reader->stream.what,
                        name, what);
}

static int no_memory(const Reader *reader) {
  return bp_error_raise(BP_ERROR_MEMORY, "%s: no memory for it", reader->stream.what);
}

/* ---- Functions --------------------------------------------------------------------------- */

static int read_params(Reader *reader, BpRelaxFunction *function) {
  uint32_t count;
  if (bp__stream_read_count(&reader->stream, sizeof(uint64_t), &count) < 0)
    return -1;
  function->param_names = calloc((size_t)count + 1, sizeof(*function->param_names));
  if (!function->param_names)
    return no_memory(reader);
  for (; function->num_params < count; function->num_params++)
    if (!(function->param_names[function->num_params] = bp__stream_read_str(&reader->stream)))
      return -1;
  return 0;
}

/* Reads a function. A function that is not bytecode has no code, and states -2 arguments if it is
 * packed. */
static int read_function(Reader *reader, uint32_t index) {
  BpRelaxFunction *function = &reader->executable->functions[index];
  int32_t kind;
  int64_t counts[4]; /* first, end, arguments, registers */
  if (bp__stream_read(&reader->stream, &kind, sizeof(kind)) < 0 ||
      !(function->name = bp__stream_read_str(&reader->stream)) ||
      bp__stream_read(&reader->stream, counts, sizeof(counts)) < 0 ||
      read_params(reader, function) < 0)
    return -1;
  if (kind < BP_RELAX_PACKED || kind > BP_RELAX_COMPILED)
    return damaged(reader, function->name, "is of an unknown kind");
  function->kind = (BpRelaxFunctionKind)kind;
  memcpy(reader->ranges[index], counts, 2 * sizeof(*counts));
  if (kind == BP_RELAX_PACKED)
    return 0;
  if (counts[2] < 0 || counts[3] < counts[2] || counts[3] > MAX_REGISTERS ||
      (kind == BP_RELAX_COMPILED && counts[3] <= counts[2]))
    return damaged(reader, function->name, "has impossible numbers of arguments and registers");
  function->num_args = (uint32_t)counts[2];
  function->num_registers = (uint32_t)counts[3];
  if (function->num_params && function->num_params != function->num_args)
    return damaged(reader, function->name, "names more or fewer parameters than it has");
  return 0;
}

static int read_functions(Reader *reader) {
  uint32_t count;
  if (bp__stream_read_count(&reader->stream, MIN_FUNCTION, &count) < 0)
    return -1;
  reader->executable->functions = calloc((size_t)count + 1, sizeof(BpRelaxFunction));
  reader->ranges = calloc((size_t)count + 1, sizeof(*reader->ranges));
  if (!reader->executable->functions || !reader->ranges)
    return no_memory(reader);
  reader->executable->num_functions = count;
  for (uint32_t i = 0; i < count; i++)
    if (read_function(reader, i) < 0)
      return -1;
  return 0;
}

/* ---- Constants --------------------------------------------------------------------------- */

static int read_shape(Reader *reader, BpValue *value) {
  uint32_t count;
  if (bp__stream_read_count(&reader->stream, sizeof(int64_t), &count) < 0)
    return -1;
  int64_t *extents = malloc(((size_t)count + 1) * sizeof(*extents));
  if (!extents)
    return no_memory(reader);
  BpShape *shape = NULL;
  if (bp__stream_read(&reader->stream, extents, count * sizeof(*extents)) == 0)
    shape = bp_shape_create(extents, count);
  free(extents);
  if (!shape)
    return -1;
  *value = (BpValue){.type_index = BP_TYPE_SHAPE, .v_obj = &shape->header};
  return 0;
}

static int read_text(Reader *reader, BpValue *value) {
  char *text = bp__stream_read_str(&reader->stream);
  if (!text)
    return -1;
  int status = bp_value_make_str(value, text, strlen(text));
  free(text);
  return status;
}

static int read_tensor(Reader *reader, BpValue *value) {
  BpTensor *tensor = bp__stream_read_tensor(&reader->stream);
  if (!tensor)
    return -1;
  *value = (BpValue){.type_index = BP_TYPE_TENSOR, .v_obj = &tensor->header};
  return 0;
}

static int read_constant(Reader *reader, BpValue *value) {
  BpStreamReader *stream = &reader->stream;
  int32_t type;
  if (bp__stream_read(stream, &type, sizeof(type)) < 0)
    return -1;
  switch (type) {
  case BP_TYPE_INT:
  case BP_TYPE_FLOAT:
    value->type_index = type;
    return bp__stream_read(stream, &value->v_int64, sizeof(value->v_int64));
  case BP_TYPE_DTYPE:
    value->type_index = type;
    return bp__stream_read(stream, &value->v_dtype, sizeof(value->v_dtype));
  case BP_TYPE_STR:
    return read_text(reader, value);
  case BP_TYPE_SHAPE:
    return read_shape(reader, value);
  case BP_TYPE_TENSOR:
    return read_tensor(reader, value);
  default:
    return bp_error_raise(BP_ERROR_FORMAT, "%s: a constant of the unknown type %" PRId32,
                          stream->what, type);
  }
}

static int read_constants(Reader *reader) {
  uint32_t count;
  if (bp__stream_read_count(&reader->stream, MIN_CONSTANT, &count) < 0)
    return -1;
  BpRelaxExecutable *executable = reader->executable;
  executable->constants = calloc((size_t)count + 1, sizeof(BpValue));
  executable->data_ends = calloc((size_t)count + 1, sizeof(*executable->data_ends));
  if (!executable->constants || !executable->data_ends)
    return no_memory(reader);
  executable->num_constants = count;
  for (uint32_t i = 0; i < count; i++) {
    if (read_constant(reader, &executable->constants[i]) < 0)
      return -1;
    if (executable->constants[i].type_index == BP_TYPE_TENSOR)
      executable->data_ends[i] = reader->stream.position;
  }
  return 0;
}

/* The memory scopes, which the stream has before their constants. */
typedef struct Scopes {
  int64_t *constants;
  char **names;
  uint32_t count;
} Scopes;

static int read_scopes(Reader *reader, Scopes *scopes) {
  uint32_t count;
  if (bp__stream_read_count(&reader->stream, MIN_SCOPE, &count) < 0)
    return -1;
  scopes->constants = calloc((size_t)count + 1, sizeof(*scopes->constants));
  scopes->names = calloc((size_t)count + 1, sizeof(*scopes->names));
  if (!scopes->constants || !scopes->names)
    return no_memory(reader);
  for (; scopes->count < count; scopes->count++)
    if (bp__stream_read(&reader->stream, &scopes->constants[scopes->count], sizeof(int64_t)) < 0 ||
        !(scopes->names[scopes->count] = bp__stream_read_str(&reader->stream)))
      return -1;
  return 0;
}

static int place_scopes(Reader *reader, Scopes *scopes) {
  BpRelaxExecutable *executable = reader->executable;
  executable->scopes = calloc((size_t)executable->num_constants + 1, sizeof(char *));
  if (!executable->scopes)
    return no_memory(reader);
  for (uint32_t i = 0; i < scopes->count; i++) {
    int64_t constant = scopes->constants[i];
    if (constant < 0 || constant >= executable->num_constants || executable->scopes[constant])
      return bp_error_raise(BP_ERROR_FORMAT,
                            "%s: a memory scope for constant %" PRId64 " of %u; it is damaged",
                            reader->stream.what, constant, executable->num_constants);
    if (!strcmp(scopes->names[i], "global") || !scopes->names[i][0])
      continue;
    executable->scopes[constant] = scopes->names[i];
    scopes->names[i] = NULL;
  }
  return 0;
}

static int read_data(Reader *reader, int has_scopes) {
  Scopes scopes = {NULL, NULL, 0};
  int status = has_scopes ? read_scopes(reader, &scopes) : 0;
  if (status == 0)
    status = read_constants(reader);
  if (status == 0)
    status = place_scopes(reader, &scopes);
  for (uint32_t i = 0; i < scopes.count; i++)
    free(scopes.names[i]);
  free(scopes.names);
  free(scopes.constants);
  return status;
}

/* ---- Code -------------------------------------------------------------------------------- */

static int read_words(Reader *reader, int64_t **words, uint32_t *count) {
  if (bp__stream_read_count(&reader->stream, sizeof(int64_t), count) < 0)
    return -1;
  *words = malloc(((size_t)*count + 1) * sizeof(**words));
  if (!*words)
    return no_memory(reader);
  return bp__stream_read(&reader->stream, *words, *count * sizeof(**words));
}

/* Records a register that code uses: a function gets as many registers as its code uses, whatever
 * number it states. */
static int decode_register(BpRelaxFunction *function, int64_t number, BpRelaxArg *arg) {
  *arg = (BpRelaxArg){number == BP_RELAX_CONTEXT_REGISTER ? BP_RELAX_CONTEXT
                      : number == BP_RELAX_VOID_REGISTER  ? BP_RELAX_VOID
                                                          : BP_RELAX_REGISTER,
                      number};
  if (arg->kind != BP_RELAX_REGISTER)
    return 0;
  if (number < 0 || number >= function->num_registers)
    return 1;
  if (number >= function->num_used)
    function->num_used = (uint32_t)number + 1;
  return 0;
}

/* Decodes an argument; returns non-zero if it refers to an element that does not exist. */
static int decode_arg(const Reader *reader, BpRelaxFunction *function, int64_t word,
                      BpRelaxArg *arg) {
  int64_t value =
      (int64_t)((uint64_t)word << (64 - BP_RELAX_VALUE_BITS)) >> (64 - BP_RELAX_VALUE_BITS);
  uint64_t kind = (uint64_t)word >> BP_RELAX_VALUE_BITS;
  if (kind == BP_RELAX_REGISTER)
    return decode_register(function, value, arg);
  *arg = (BpRelaxArg){(BpRelaxArgKind)kind, value};
  if (kind == BP_RELAX_CONSTANT)
    return value < 0 || value >= reader->executable->num_constants;
  if (kind == BP_RELAX_FUNCTION)
    return value < 0 || value >= reader->executable->num_functions;
  return kind != BP_RELAX_IMMEDIATE;
}

/* Reserves the arguments of an instruction, NULL with an error: functions may overlap in a damaged
 * file, and then have more arguments than the file has words. */
static BpRelaxArg *take_args(Reader *reader, const BpRelaxFunction *function, uint32_t count) {
  if (count > reader->num_words - reader->used_args) {
    damaged(reader, function->name, "shares code with another");
    return NULL;
  }
  BpRelaxArg *args = reader->executable->args + reader->used_args;
  reader->used_args += count;
  return args;
}

static int decode_call(Reader *reader, BpRelaxFunction *function, const int64_t *words,
                       uint64_t num_words, BpRelaxInstruction *instruction) {
  if (num_words < 4 || words[3] < 0 || (uint64_t)words[3] > num_words - 4)
    return damaged(reader, function->name, "has a call that is cut off");
  if (words[2] < 0 || words[2] >= reader->executable->num_functions)
    return damaged(reader, function->name, "calls a function that does not exist");
  BpRelaxArg dst;
  if (decode_register(function, words[1], &dst))
    return damaged(reader, function->name, "writes a register that it does not have");
  BpRelaxArg *args = take_args(reader, function, (uint32_t)words[3]);
  if (!args)
    return -1;
  instruction->dst = dst.kind == BP_RELAX_REGISTER ? words[1] : -1;
  instruction->function = (uint32_t)words[2];
  instruction->num_args = (uint32_t)words[3];
  instruction->args = args;
  for (uint32_t i = 0; i < instruction->num_args; i++)
    if (decode_arg(reader, function, words[4 + i], &args[i]))
      return damaged(reader, function->name, "has an argument that does not exist");
  if (instruction->num_args > function->max_call_args)
    function->max_call_args = instruction->num_args;
  return 0;
}

static int decode_operand(Reader *reader, BpRelaxFunction *function, int64_t number,
                          BpRelaxInstruction *instruction) {
  BpRelaxArg *arg = take_args(reader, function, 1);
  if (!arg)
    return -1;
  if (decode_register(function, number, arg))
    return damaged(reader, function->name, "reads a register that it does not have");
  instruction->args = arg;
  return 0;
}

/* Decodes the target of a jump, which is relative to instruction `at` of its function. A GOTO may
 * go back: Backplane's compiler writes loops, TVM's makes them recursion. */
static int decode_jump(const Reader *reader, const BpRelaxFunction *function, uint32_t at,
                       int64_t offset, BpRelaxInstruction *instruction) {
  int64_t least = instruction->op == BP_RELAX_GOTO ? -(int64_t)at : 1;
  if (offset < least || offset == 0 || offset >= (int64_t)function->num_instructions - at)
    return damaged(reader, function->name, "jumps to itself, or out of its code");
  instruction->target = (int64_t)at + offset;
  return 0;
}

/* Decodes an instruction; `number` is its index in the stream, `at` its index in the function. */
static int decode_instruction(Reader *reader, BpRelaxFunction *function, uint32_t number,
                              uint32_t at, BpRelaxInstruction *instruction) {
  const int64_t *words = reader->words + reader->offsets[number];
  int64_t end = number + 1 < reader->num_offsets ? reader->offsets[number + 1] : reader->num_words;
  uint64_t num_words = (uint64_t)(end - reader->offsets[number]);
  int last = at + 1 == function->num_instructions;
  if (num_words < 2)
    return damaged(reader, function->name, "has an instruction that is cut off");
  instruction->op = words[0] >= BP_RELAX_CALL && words[0] <= BP_RELAX_IF ? (BpRelaxOp)words[0] : 0;
  switch (instruction->op) {
  case BP_RELAX_CALL:
    if (last)
      break;
    return decode_call(reader, function, words, num_words, instruction);
  case BP_RELAX_RET:
    return decode_operand(reader, function, words[1], instruction);
  case BP_RELAX_GOTO:
    return decode_jump(reader, function, at, words[1], instruction);
  case BP_RELAX_IF:
    if (last || num_words < 3)
      break;
    return decode_operand(reader, function, words[1], instruction) < 0
               ? -1
               : decode_jump(reader, function, at, words[2], instruction);
  default:
    return damaged(reader, function->name, "has an unknown instruction");
  }
  return damaged(reader, function->name, "does not end in a return");
}

static int decode_function(Reader *reader, uint32_t index) {
  BpRelaxFunction *function = &reader->executable->functions[index];
  int64_t first = reader->ranges[index][0], end = reader->ranges[index][1];
  if (function->kind != BP_RELAX_BYTECODE)
    return 0;
  if (first < 0 || end <= first || end > reader->num_offsets ||
      (uint64_t)(end - first) > reader->num_offsets - reader->used_instructions)
    return damaged(reader, function->name, "has no code, or shares it with another");
  BpRelaxInstruction *code = reader->executable->instructions + reader->used_instructions;
  function->num_instructions = (uint32_t)(end - first);
  function->code = code;
  reader->used_instructions += function->num_instructions;
  function->num_used = function->num_args;
  for (uint32_t i = 0; i < function->num_instructions; i++)
    if (decode_instruction(reader, function, (uint32_t)first + i, i, &code[i]) < 0)
      return -1;
  function->num_registers = function->num_used;
  return 0;
}

/* Checks that the offsets increase, so that instructions do not overlap and are no more than the
 * words. */
static int check_offsets(const Reader *reader) {
  int64_t last = -1;
  for (uint32_t i = 0; i < reader->num_offsets; last = reader->offsets[i++])
    if (reader->offsets[i] <= last || reader->offsets[i] >= reader->num_words)
      return bp_error_raise(BP_ERROR_FORMAT, "%s: its instructions are out of order; it is damaged",
                            reader->stream.what);
  return 0;
}

static int read_code(Reader *reader) {
  if (read_words(reader, &reader->offsets, &reader->num_offsets) < 0 ||
      read_words(reader, &reader->words, &reader->num_words) < 0 ||
      bp__stream_read_end(&reader->stream) < 0 || check_offsets(reader) < 0)
    return -1;
  reader->executable->instructions =
      calloc((size_t)reader->num_offsets + 1, sizeof(BpRelaxInstruction));
  reader->executable->args = calloc((size_t)reader->num_words + 1, sizeof(BpRelaxArg));
  if (!reader->executable->instructions || !reader->executable->args)
    return no_memory(reader);
  for (uint32_t i = 0; i < reader->executable->num_functions; i++)
    if (decode_function(reader, i) < 0)
      return -1;
  return 0;
}

/* ---- All of it --------------------------------------------------------------------------- */

static int read_version(Reader *reader, int *has_scopes) {
  uint64_t magic;
  if (bp__stream_read_u64(&reader->stream, &magic) < 0)
    return -1;
  if (magic != BP_RELAX_MAGIC && magic != MAGIC_NO_SCOPES)
    return bp_error_raise(BP_ERROR_FORMAT, "%s: it does not begin with the magic number",
                          reader->stream.what);
  *has_scopes = magic == BP_RELAX_MAGIC;
  char *version = bp__stream_read_str(&reader->stream);
  if (!version)
    return -1;
  int status = 0;
  if (strcmp(version, BP_RELAX_VERSION))
    status =
        bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                       "%s: it is of version \"%.32s\", and this library runs \"" BP_RELAX_VERSION
                       "\"; compile the model with another TVM (0.27 is tested)",
                       reader->stream.what, version);
  free(version);
  return status;
}

BpRelaxExecutable *bp__relax_executable_read(const BpByteArray *bytes, BpObject *owner) {
  Reader reader = {.stream = {bytes->data, bytes->size, 0, "Relax executable", owner}};
  int has_scopes = 0;
  reader.executable = calloc(1, sizeof(*reader.executable));
  if (!reader.executable) {
    no_memory(&reader);
    return NULL;
  }
  int status = read_version(&reader, &has_scopes);
  if (status == 0)
    status = read_functions(&reader);
  if (status == 0)
    status = read_data(&reader, has_scopes);
  if (status == 0)
    status = read_code(&reader);
  free(reader.offsets);
  free(reader.words);
  free(reader.ranges);
  if (status == 0)
    return reader.executable;
  bp__relax_executable_free(reader.executable);
  return NULL;
}

static void clear_function(BpRelaxFunction *function) {
  for (uint32_t i = 0; i < function->num_params; i++)
    free(function->param_names[i]);
  free(function->param_names);
  free(function->name);
}

void bp__relax_executable_free(BpRelaxExecutable *executable) {
  if (!executable)
    return;
  for (uint32_t i = 0; i < executable->num_functions; i++)
    clear_function(&executable->functions[i]);
  for (uint32_t i = 0; i < executable->num_constants; i++) {
    bp_value_clear(&executable->constants[i]);
    if (executable->scopes)
      free(executable->scopes[i]);
  }
  free(executable->functions);
  free(executable->constants);
  free(executable->data_ends);
  free(executable->scopes);
  free(executable->instructions);
  free(executable->args);
  free(executable);
}

int64_t bp__relax_executable_find(const BpRelaxExecutable *executable, const char *name) {
  for (uint32_t i = 0; i < executable->num_functions; i++)
    if (!strcmp(executable->functions[i].name, name))
      return i;
  return -1;
}
