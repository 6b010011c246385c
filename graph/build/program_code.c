/* SPDX-License-Identifier: Apache-2.0 */
/* The code and the constants of a program, and the document that holds both. */
#include <string.h>

#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/build/program.h"
#include "graph/io/stream.h"
#include "graph/relax/builtin.h"
#include "graph/relax/module.h"

/* ---- Words ----------------------------------------------------------------------------------- */

static int64_t function_index(BpProgram *program, const char *name) {
  for (guint i = 0; i < program->functions->len; i++)
    if (!strcmp(program->functions->pdata[i], name))
      return i;
  g_ptr_array_add(program->functions, (gpointer)(uintptr_t)name);
  return program->functions->len - 1;
}

void bp__program_begin_instruction(BpProgram *program) {
  put(program->offsets, program->words->len);
}

void bp__program_call(BpProgram *program, int64_t dst, const char *function, const GArray *args) {
  bp__program_begin_instruction(program);
  put(program->words, BP_RELAX_CALL);
  put(program->words, dst);
  put(program->words, function_index(program, function));
  put(program->words, args->len);
  if (args->len > 0)
    g_array_append_vals(program->words, args->data, args->len);
  if (!g_str_has_prefix(function, BP_RELAX_BUILTIN_PREFIX))
    g_ptr_array_add(program->nodes, (gpointer)(uintptr_t)program->node);
}

void bp__program_call_with(BpProgram *program, int64_t dst, const char *function, int64_t *args,
                           guint count) {
  GArray *list = g_array_new(FALSE, FALSE, sizeof(int64_t));
  if (count > 0)
    g_array_append_vals(list, args, count);
  bp__program_call(program, dst, function, list);
  g_array_free(list, TRUE);
}

/* ---- Jumps ----------------------------------------------------------------------------------- */

int64_t bp__program_here(const BpProgram *program) {
  return program->offsets->len;
}

int64_t bp__program_jump(BpProgram *program, int64_t condition) {
  int64_t at = bp__program_here(program);
  bp__program_begin_instruction(program);
  put(program->words, condition < 0 ? BP_RELAX_GOTO : BP_RELAX_IF);
  if (condition >= 0)
    put(program->words, condition);
  put(program->words, 0);
  return at;
}

void bp__program_land(BpProgram *program, int64_t jump, int64_t target) {
  int64_t *word =
      &g_array_index(program->words, int64_t, g_array_index(program->offsets, int64_t, jump));
  word[*word == BP_RELAX_GOTO ? 1 : 2] = target - jump;
}

/* ---- Constants ------------------------------------------------------------------------------- */

static int64_t add_constant(BpProgram *program, const BpProgramConstant *constant) {
  g_array_append_vals(program->constants, constant, 1);
  return argument(BP_RELAX_CONSTANT, program->constants->len - 1);
}

int64_t bp__program_dtype(BpProgram *program, BpDataType dtype) {
  for (guint i = 0; i < program->constants->len; i++) {
    const BpProgramConstant *known = &g_array_index(program->constants, BpProgramConstant, i);
    if (known->type_index == BP_TYPE_DTYPE && bp__dtype_equal(known->dtype, dtype))
      return argument(BP_RELAX_CONSTANT, i);
  }
  return add_constant(program, &(BpProgramConstant){.type_index = BP_TYPE_DTYPE, .dtype = dtype});
}

int64_t bp__program_text(BpProgram *program, const char *text) {
  for (guint i = 0; i < program->constants->len; i++) {
    const BpProgramConstant *known = &g_array_index(program->constants, BpProgramConstant, i);
    if (known->type_index == BP_TYPE_STR && !strcmp(known->text, text))
      return argument(BP_RELAX_CONSTANT, i);
  }
  return add_constant(program, &(BpProgramConstant){.type_index = BP_TYPE_STR, .text = text});
}

int64_t bp__program_tensor(BpProgram *program, const BpGraphValue *tensor) {
  for (guint i = 0; i < program->constants->len; i++) {
    const BpProgramConstant *known = &g_array_index(program->constants, BpProgramConstant, i);
    if (known->type_index == BP_TYPE_TENSOR && bp__value_same_data(known->tensor, tensor))
      return argument(BP_RELAX_CONSTANT, i);
  }
  return add_constant(program,
                      &(BpProgramConstant){.type_index = BP_TYPE_TENSOR, .tensor = tensor});
}

int64_t bp__program_context(BpProgram *program, const char *what, const char *name) {
  const char *text =
      bp__arena_printf((BpArena *)(uintptr_t)&program->graph->arena, "%s '%s':", what, name);
  return bp__program_text(program, text ? text : "");
}

/* ---- The document ---------------------------------------------------------------------------- */

static void write_bytecode(BpStreamWriter *writer, const char *name, uint64_t first, uint64_t end,
                           int64_t num_registers, uint64_t num_params, const char *const *params) {
  int32_t kind = BP_RELAX_BYTECODE;
  bp__stream_write(writer, &kind, sizeof(kind));
  bp__stream_write_str(writer, name);
  bp__stream_write_u64(writer, first);
  bp__stream_write_u64(writer, end);
  bp__stream_write_u64(writer, num_params);
  bp__stream_write_u64(writer, (uint64_t)num_registers);
  bp__stream_write_u64(writer, num_params);
  for (uint64_t i = 0; i < num_params; i++)
    bp__stream_write_str(writer, params[i]);
}

static void write_packed(BpStreamWriter *writer, const char *name) {
  int32_t kind = BP_RELAX_PACKED;
  int64_t numbers[] = {0, 0, -2, 0};
  bp__stream_write(writer, &kind, sizeof(kind));
  bp__stream_write_str(writer, name);
  bp__stream_write(writer, numbers, sizeof(numbers));
  bp__stream_write_u64(writer, 0);
}

/* The number of the program's own functions that come before the functions that it calls. */
#define NUM_OWN_FUNCTIONS 3

/* A function that only has names, as the names of its parameters. */
typedef struct Names {
  const char *function;
  const char *const *items;
  uint64_t count;
} Names;

#define MOST_NAMES 4

/* Lists the functions that only have names: two that every program has, and others. */
static uint64_t list_names(const BpProgram *program, Names names[MOST_NAMES]) {
  uint64_t count = 2;
  names[0] =
      (Names){BP_RELAX_OUTPUT_NAMES, program->graph->output_names, program->graph->outputs.size};
  names[1] = (Names){BP_RELAX_STORAGE_NAMES, program->memory, G_N_ELEMENTS(program->memory)};
  if (program->nodes->len)
    names[count++] = (Names){BP_RELAX_NODE_NAMES, (const char *const *)program->nodes->pdata,
                             program->nodes->len};
  if (program->num_devices)
    names[count++] =
        (Names){BP_RELAX_DEVICE_NAMES, program->devices, (uint64_t)program->num_devices};
  return count;
}

static void write_names(BpStreamWriter *writer, const Names *names, uint64_t at) {
  write_bytecode(writer, names->function, at, at + 1, (int64_t)names->count, names->count,
                 names->items);
}

static void write_functions(const BpProgram *program, BpStreamWriter *writer) {
  const BpGraph *graph = program->graph;
  Names names[MOST_NAMES];
  uint64_t count = list_names(program, names), end = program->offsets->len - count;
  const char **inputs = g_new0(const char *, graph->inputs.size + 1);
  for (size_t i = 0; i < graph->inputs.size; i++)
    inputs[i] = ((const BpGraphValue *)graph->inputs.items[i])->name;
  bp__stream_write_u64(writer, program->functions->len + count - (NUM_OWN_FUNCTIONS - 1));
  write_bytecode(writer, "main", 0, end, program->num_registers, graph->inputs.size, inputs);
  for (uint64_t i = 0; i < NUM_OWN_FUNCTIONS - 1; i++)
    write_names(writer, &names[i], end + i);
  for (guint i = NUM_OWN_FUNCTIONS; i < program->functions->len; i++)
    write_packed(writer, program->functions->pdata[i]);
  for (uint64_t i = NUM_OWN_FUNCTIONS - 1; i < count; i++)
    write_names(writer, &names[i], end + i);
  g_free(inputs);
}

static void write_constant(const BpProgramConstant *constant, BpStreamWriter *writer) {
  bp__stream_write(writer, &constant->type_index, sizeof(constant->type_index));
  if (constant->type_index == BP_TYPE_DTYPE)
    bp__stream_write(writer, &constant->dtype, sizeof(constant->dtype));
  else if (constant->type_index == BP_TYPE_STR)
    bp__stream_write_str(writer, constant->text);
  else
    bp__stream_write_aligned_tensor(
        writer, &(BpTensorView){.data = (void *)(uintptr_t)constant->tensor->data,
                                .device = {BP_DEVICE_CPU, 0},
                                .ndim = constant->tensor->ndim,
                                .dtype = constant->tensor->dtype,
                                .shape = (int64_t *)(uintptr_t)constant->tensor->shape});
}

static void write_words(const GArray *words, BpStreamWriter *writer) {
  bp__stream_write_u64(writer, words->len);
  bp__stream_write(writer, words->data, words->len * sizeof(int64_t));
}

/* Releases the memory of large constants other than those from index `first` on. Lack of memory for
 * the list of constants only delays the release. */
static void release_before(const BpProgram *program, guint first, BpGraph *graph) {
  BpList live = {0};
  int status = 0;
  for (guint i = first; i < program->constants->len && !status; i++)
    status = bp__live_add(&live, g_array_index(program->constants, BpProgramConstant, i).tensor);
  bp__live_sort(&live);
  if (!status)
    bp__build_release_others(program->build, graph, &live);
  else
    bp_error_clear();
  bp__list_free(&live);
}

/* Writes the constants; if `spent` is not NULL, releases the large constants of that graph once
 * they are written. */
static void write_constants(const BpProgram *program, BpStreamWriter *writer, BpGraph *spent) {
  bp__stream_write_u64(writer, program->constants->len);
  for (guint i = 0; i < program->constants->len; i++) {
    const BpProgramConstant *constant = &g_array_index(program->constants, BpProgramConstant, i);
    write_constant(constant, writer);
    if (spent && constant->tensor && bp__value_num_bytes(constant->tensor) >= BP_GRAPH_LARGE)
      release_before(program, i + 1, spent);
  }
}

static void write_program(const BpProgram *program, BpStreamWriter *writer, BpGraph *spent) {
  bp__stream_write_u64(writer, BP_RELAX_MAGIC);
  bp__stream_write_str(writer, BP_RELAX_VERSION);
  write_functions(program, writer);
  bp__stream_write_u64(writer, 0); /* number of memory scopes */
  write_constants(program, writer, spent);
  write_words(program->offsets, writer);
  write_words(program->words, writer);
}

/* Writes an instruction for each function that only has names. */
static void end_code(BpProgram *program) {
  Names names[MOST_NAMES];
  for (uint64_t i = list_names(program, names); i > 0; i--) {
    bp__program_begin_instruction(program);
    put(program->words, BP_RELAX_RET);
    put(program->words, 0);
  }
}

BpModule *bp__program_load(BpProgram *program, BpGraph *graph) {
  end_code(program);
  BpStreamWriter counter = {NULL, 0};
  write_program(program, &counter, NULL);
  int64_t size = BP_RELAX_HEAD + (int64_t)counter.size;
  BpTensor *bytes = bp_tensor_create(&size, 1, BP__UINT8, (BpDevice){BP_DEVICE_CPU, 0}, NULL);
  if (!bytes) {
    bp_error_add_context("memory for a program of %zu bytes", counter.size);
    return NULL;
  }
  BpStreamWriter writer = {(char *)bytes->view.data + BP_RELAX_HEAD, 0};
  write_program(program, &writer, graph);
  BpModule *module = bp__relax_module_take(bytes);
  bp_tensor_release(bytes);
  return module;
}
