/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the signature of a bytecode function from its code: compilers write checks of the arguments
 * at its beginning, and create each result by a call that names its type and shape. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/relax/builtin.h"
#include "graph/relax/model.h"
#include "graph/relax/module.h"

typedef struct Reading {
  const BpRelaxExecutable *executable;
  const BpRelaxFunction *function;
} Reading;

/* Sets an info, which owns its name and its extents. */
static int set_info(BpModelTensorInfo *info, const char *name, BpDataType dtype,
                    const int64_t *shape, int32_t ndim) {
  size_t count = ndim > 0 ? (size_t)ndim : 0;
  int64_t *extents = malloc((count + 1) * sizeof(*extents));
  char *copy = strdup(name);
  if (!extents || !copy) {
    free(extents);
    free(copy);
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the model's inputs and outputs");
  }
  for (size_t i = 0; i < count; i++)
    extents[i] = shape ? shape[i] : -1;
  free((void *)(uintptr_t)info->name);
  free((void *)(uintptr_t)info->shape);
  *info = (BpModelTensorInfo){
      .struct_size = sizeof *info, .name = copy, .dtype = dtype, .ndim = ndim, .shape = extents};
  return 0;
}

void bp__relax_infos_free(BpModelTensorInfo *infos, uint32_t count) {
  for (uint32_t i = 0; infos && i < count; i++) {
    free((void *)(uintptr_t)infos[i].name);
    free((void *)(uintptr_t)infos[i].shape);
  }
  free(infos);
}

/* Whether an instruction calls a builtin with at least `num_args` arguments. */
static int calls(const Reading *reading, const BpRelaxInstruction *instruction, const char *builtin,
                 uint32_t num_args) {
  if (instruction->op != BP_RELAX_CALL || instruction->num_args < num_args)
    return 0;
  const char *name = reading->executable->functions[instruction->function].name;
  size_t prefix = strlen(BP_RELAX_BUILTIN_PREFIX);
  return strncmp(name, BP_RELAX_BUILTIN_PREFIX, prefix) == 0 && strcmp(name + prefix, builtin) == 0;
}

/* The constant of a given type that an argument is, or NULL. */
static const BpValue *constant(const Reading *reading, const BpRelaxArg *arg, int32_t type) {
  if (arg->kind != BP_RELAX_CONSTANT)
    return NULL;
  const BpValue *value = &reading->executable->constants[arg->value];
  return value->type_index == type ? value : NULL;
}

/* ---- Inputs ------------------------------------------------------------------------------ */

/* Reads a check of an argument: (value, ndim, dtype, context) */
static int read_check(const Reading *reading, const BpRelaxArg *args, BpModelTensorInfo *info) {
  const BpValue *dtype = constant(reading, &args[2], BP_TYPE_DTYPE);
  if (!dtype || args[1].kind != BP_RELAX_IMMEDIATE || args[1].value < 0 || args[1].value > 64)
    return 0;
  return set_info(info, info->name, dtype->v_dtype, NULL, (int32_t)args[1].value);
}

/* Reads a match of extents: (value, heap, n, n x (code, number), context); code 0 means that the
 * extent is the number */
static void read_match(const BpRelaxInstruction *instruction, BpModelTensorInfo *info) {
  const BpRelaxArg *args = instruction->args;
  int64_t *extents = (int64_t *)(uintptr_t)info->shape;
  if (args[2].value != info->ndim || instruction->num_args < 3 + 2 * (uint64_t)args[2].value)
    return;
  for (int32_t i = 0; i < info->ndim; i++)
    if (args[3 + 2 * i].value == 0)
      extents[i] = args[4 + 2 * i].value;
}

/* Reads the type of a list (graph/relax/sequence.h) from `num_args` arguments. */
static int read_list(const Reading *reading, const BpRelaxArg *args, uint32_t num_args,
                     const char *name, BpModelTensorInfo *info) {
  const BpValue *dtype = num_args < 3 ? NULL : constant(reading, &args[1], BP_TYPE_DTYPE);
  int64_t kind = args[0].value, ndim = dtype ? args[2].value : -1;
  if (!dtype || args[0].kind != BP_RELAX_IMMEDIATE || args[2].kind != BP_RELAX_IMMEDIATE ||
      kind < BP_MODEL_SEQUENCE || kind > (BP_MODEL_SEQUENCE | BP_MODEL_OPTIONAL) || ndim < -1 ||
      ndim > num_args - 3)
    return bp_error_raise(BP_ERROR_FORMAT,
                          "the type of '%s' is not readable; the program is "
                          "damaged",
                          name);
  if (set_info(info, name, dtype->v_dtype, NULL, (int32_t)ndim) < 0)
    return -1;
  for (int64_t i = 0; i < ndim; i++)
    ((int64_t *)(uintptr_t)info->shape)[i] = args[3 + i].value;
  info->kind = (int32_t)kind;
  return 0;
}

static int read_inputs(const Reading *reading, BpModelTensorInfo *infos) {
  const BpRelaxFunction *function = reading->function;
  for (uint32_t i = 0; i < function->num_instructions; i++) {
    const BpRelaxInstruction *instruction = &function->code[i];
    if (instruction->op != BP_RELAX_CALL)
      break;
    const BpRelaxArg *first = instruction->args;
    int is_input = instruction->num_args && first->kind == BP_RELAX_REGISTER &&
                   first->value < function->num_args;
    if (is_input && calls(reading, instruction, "check_tensor_info", 4)) {
      if (read_check(reading, first, &infos[first->value]) < 0)
        return -1;
    } else if (is_input && calls(reading, instruction, "check_list", 5)) {
      if (read_list(reading, first + 1, instruction->num_args - 2, infos[first->value].name,
                    &infos[first->value]) < 0)
        return -1;
    } else if (is_input && infos[first->value].ndim >= 0 &&
               calls(reading, instruction, "match_shape", 4)) {
      read_match(instruction, &infos[first->value]);
    } else if (instruction->dst >= 0 && instruction->dst < function->num_args) {
      break; /* from here on the code reuses the arguments' registers */
    }
  }
  return 0;
}

static int name_inputs(const Reading *reading, BpModelTensorInfo *infos) {
  for (uint32_t i = 0; i < reading->function->num_args; i++) {
    char number[32];
    snprintf(number, sizeof(number), "input_%u", i);
    const char *name =
        i < reading->function->num_params ? reading->function->param_names[i] : number;
    if (set_info(&infos[i], name, (BpDataType){0}, NULL, -1) < 0)
      return -1;
  }
  return 0;
}

/* ---- Outputs ----------------------------------------------------------------------------- */

/* Whether one call alone writes a register, and the register is not an argument's. */
static int has_one_writer(const Reading *reading, int64_t reg) {
  uint32_t count = reg < (int64_t)reading->function->num_args ? 2 : 0;
  for (uint32_t i = 0; i < reading->function->num_instructions && count < 2; i++) {
    const BpRelaxInstruction *instruction = &reading->function->code[i];
    count += instruction->op == BP_RELAX_CALL && instruction->dst == reg;
  }
  return count == 1;
}

/* The last call before instruction `before` that writes a register, or NULL. Behind a jump another
 * call may have written the register, so there only a register with one writer is
 * accepted. */
static const BpRelaxInstruction *find_writer(const Reading *reading, uint32_t *before,
                                             const BpRelaxArg *arg) {
  int has_jumped = 0;
  while (arg->kind == BP_RELAX_REGISTER && *before > 0) {
    const BpRelaxInstruction *instruction = &reading->function->code[--*before];
    if (instruction->op != BP_RELAX_CALL)
      has_jumped = 1;
    else if (instruction->dst == arg->value)
      return has_jumped && !has_one_writer(reading, arg->value) ? NULL : instruction;
  }
  return NULL;
}

/* Reads a shape from a call: (heap, n, n x (code, number)); code 0 means that the extent is the
 * number */
static int read_made_shape(const BpRelaxArg *args, uint32_t num_args, BpDataType dtype,
                           const char *name, BpModelTensorInfo *info) {
  int64_t count = args[1].value;
  if (args[1].kind != BP_RELAX_IMMEDIATE || count < 0 || count > (num_args - 2) / 2)
    return 0;
  if (set_info(info, name, dtype, NULL, (int32_t)count) < 0)
    return -1;
  for (int64_t i = 0; i < count; i++)
    if (args[2 + 2 * i].value == 0)
      ((int64_t *)(uintptr_t)info->shape)[i] = args[3 + 2 * i].value;
  return 0;
}

static int read_shape(const Reading *reading, uint32_t before, const BpRelaxArg *arg,
                      BpDataType dtype, const char *name, BpModelTensorInfo *info) {
  const BpValue *value = constant(reading, arg, BP_TYPE_SHAPE);
  if (value) {
    const BpShape *shape = (const BpShape *)value->v_obj;
    return set_info(info, name, dtype, shape->data, (int32_t)shape->size);
  }
  const BpRelaxInstruction *writer = find_writer(reading, &before, arg);
  if (writer && calls(reading, writer, "make_shape", 2))
    return read_made_shape(writer->args, writer->num_args, dtype, name, info);
  return 0;
}

/* Whether a call makes a kept tensor: (machine, entry, device or tensor, dtype, heap, ndim,
 * extents) */
static int is_kept(const Reading *reading, const BpRelaxInstruction *writer) {
  return calls(reading, writer, "kept_tensor", 6) || calls(reading, writer, "without_room", 6);
}

/* The type of the tensor in a register, taken from the tensor's allocation, through views. */
static const BpValue *find_dtype(const Reading *reading, uint32_t before, const BpRelaxArg *arg) {
  for (;;) {
    const BpRelaxInstruction *writer = find_writer(reading, &before, arg);
    if (writer && (calls(reading, writer, "alloc_tensor", 4) || is_kept(reading, writer)))
      return constant(reading, &writer->args[3], BP_TYPE_DTYPE);
    if (!writer || !calls(reading, writer, "reshape", 2))
      return NULL;
    arg = &writer->args[0];
  }
}

static int read_output(const Reading *reading, uint32_t before, const BpRelaxArg *arg,
                       const char *name, BpModelTensorInfo *info) {
  const BpValue *dtype = find_dtype(reading, before, arg);
  if (set_info(info, name, (BpDataType){0}, NULL, -1) < 0)
    return -1;
  const BpRelaxInstruction *writer = find_writer(reading, &before, arg);
  if (writer && calls(reading, writer, "copy_list", 5))
    return read_list(reading, &writer->args[2], writer->num_args - 2, name, info);
  if (!dtype || !writer)
    return 0;
  if (is_kept(reading, writer))
    return read_made_shape(&writer->args[4], writer->num_args - 4, dtype->v_dtype, name, info);
  const BpRelaxArg *shape = &writer->args[calls(reading, writer, "reshape", 2) ? 1 : 2];
  return read_shape(reading, before, shape, dtype->v_dtype, name, info);
}

/* The function that has the names of `count` outputs, or NULL. */
static const BpRelaxFunction *find_names(const BpRelaxExecutable *executable, uint32_t count) {
  int64_t index = bp__relax_executable_find(executable, BP_RELAX_OUTPUT_NAMES);
  return index >= 0 && executable->functions[index].num_params == count
             ? &executable->functions[index]
             : NULL;
}

static int read_outputs(const Reading *reading, BpModelTensorInfo **infos, uint32_t *count) {
  uint32_t at = reading->function->num_instructions - 1;
  const BpRelaxInstruction *last = &reading->function->code[at];
  const BpRelaxInstruction *writer =
      last->op == BP_RELAX_RET ? find_writer(reading, &at, last->args) : NULL;
  int is_own = writer && calls(reading, writer, "kept_tuple", 3);
  int is_tuple = is_own || (writer && calls(reading, writer, "make_tuple", 1));
  uint32_t first = is_own ? 2 : 0;
  if (!is_tuple)
    at = reading->function->num_instructions - 1;
  *count = is_tuple ? writer->num_args - first : 1;
  *infos = calloc(*count, sizeof(**infos));
  if (!*infos)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the model's outputs");
  const BpRelaxFunction *names = find_names(reading->executable, *count);
  for (uint32_t i = 0; i < *count; i++) {
    char number[32] = "output";
    if (is_tuple)
      snprintf(number, sizeof(number), "output_%u", i);
    const char *name = names ? names->param_names[i] : number;
    if (read_output(reading, at, is_tuple ? &writer->args[first + i] : last->args, name,
                    &(*infos)[i]) < 0)
      return -1;
  }
  return 0;
}

int bp__relax_signature(const BpRelaxExecutable *executable, uint32_t function,
                        BpModelTensorInfo **inputs, BpModelTensorInfo **outputs,
                        uint32_t *num_outputs) {
  const Reading reading = {executable, &executable->functions[function]};
  if (reading.function->kind != BP_RELAX_BYTECODE)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "'%s' is compiled to host code, which says nothing of its arguments; "
                          "compile the model to bytecode, or call the function itself, through "
                          "bp_relax_machine_create",
                          reading.function->name);
  *inputs = calloc((size_t)reading.function->num_args + 1, sizeof(**inputs));
  if (!*inputs)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the model's inputs");
  if (name_inputs(&reading, *inputs) < 0 || read_inputs(&reading, *inputs) < 0)
    return -1;
  return read_outputs(&reading, outputs, num_outputs);
}

/* ---- Inputs that runs append to ---------------------------------------------------------- */

/* Whether a call appends: (machine, entry, output, tensor, new rows, axis, ...) */
static int is_append(const Reading *reading, const BpRelaxInstruction *instruction) {
  if (!calls(reading, instruction, "append", 9))
    return 0;
  const BpRelaxArg *args = instruction->args;
  return args[2].kind == BP_RELAX_IMMEDIATE && args[3].kind == BP_RELAX_REGISTER &&
         args[3].value < reading->function->num_args && args[5].kind == BP_RELAX_IMMEDIATE;
}

int bp__relax_find_appends(const BpRelaxExecutable *executable, uint32_t function,
                           BpRelaxAppend **appends, uint32_t *count) {
  const Reading reading = {executable, &executable->functions[function]};
  uint32_t found = 0;
  for (uint32_t i = 0; i < reading.function->num_instructions; i++)
    found += is_append(&reading, &reading.function->code[i]) != 0;
  *appends = calloc((size_t)found + 1, sizeof(**appends));
  *count = 0;
  if (!*appends)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the model's inputs and outputs");
  for (uint32_t i = 0; i < reading.function->num_instructions; i++) {
    const BpRelaxArg *args = reading.function->code[i].args;
    if (is_append(&reading, &reading.function->code[i]))
      (*appends)[(*count)++] =
          (BpRelaxAppend){(uint32_t)args[3].value, args[2].value, args[5].value};
  }
  return 0;
}
