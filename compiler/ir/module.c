/* SPDX-License-Identifier: Apache-2.0 */
/* The IR module: an object with an arena for its nodes and the list of its functions. */

#include <stdlib.h>

#include "compiler/ir/argument.h"
#include "compiler/ir/ir.h"
#include "compiler/ir/text.h"

#define FIRST_CHUNK 4096
#define LAST_CHUNK  (1 << 20)

typedef struct Chunk {
  struct Chunk *next;
  size_t size, used;
  max_align_t data[];
} Chunk;

struct BpIrModule {
  BpObject header;
  Chunk *chunks; /* list of chunks, the newest first */
  const BpIrNode **functions;
  int32_t num_functions, capacity;
  BpNames names; /* name of a function -> index + 1 */
  bool is_exhausted;
};

/* ---- The object -------------------------------------------------------------------------- */

static void module_delete(void *self, int flags) {
  BpIrModule *module = self;
  if (flags & BP_DELETER_STRONG) {
    while (module->chunks) {
      Chunk *next = module->chunks->next;
      free(module->chunks);
      module->chunks = next;
    }
    free(module->functions);
    bp__names_clear(&module->names);
  }
  if (flags & BP_DELETER_WEAK)
    free(module);
}

BpIrModule *bp_ir_module_create(void) {
  if (bp__compiler_initialize())
    return NULL;
  BpIrModule *module = calloc(1, sizeof *module);
  if (!module) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for an IR module");
    return NULL;
  }
  module->header.combined_count = ((uint64_t)1 << 32) | 1;
  module->header.type_index = BP_TYPE_IR_MODULE;
  module->header.deleter = module_delete;
  return module;
}

/* ---- Memory ------------------------------------------------------------------------------ */

static int raise_exhausted(void) {
  return bp_error_raise(BP_ERROR_MEMORY, "no memory for more IR");
}

static Chunk *add_chunk(BpIrModule *module, size_t size) {
  size_t last = module->chunks ? module->chunks->size : FIRST_CHUNK / 2;
  size_t wanted = last < LAST_CHUNK ? last * 2 : LAST_CHUNK;
  if (wanted < size)
    wanted = size;
  Chunk *chunk = malloc(sizeof *chunk + wanted);
  if (!chunk) {
    module->is_exhausted = true;
    raise_exhausted();
    return NULL;
  }
  chunk->size = wanted;
  chunk->used = 0;
  chunk->next = module->chunks;
  module->chunks = chunk;
  return chunk;
}

int bp__ir_check_memory(const BpIrModule *module) {
  if (!BP_NOT_NULL(module))
    return -1;
  return module->is_exhausted ? raise_exhausted() : 0;
}

void *bp__ir_alloc(BpIrModule *module, size_t size) {
  if (bp__ir_check_memory(module))
    return NULL;
  size = (size + 15) & ~(size_t)15;
  Chunk *chunk = module->chunks;
  if (!chunk || chunk->size - chunk->used < size) {
    chunk = add_chunk(module, size);
    if (!chunk)
      return NULL;
  }
  void *memory = (char *)chunk->data + chunk->used;
  chunk->used += size;
  return memory;
}

const char *bp__ir_strdup(BpIrModule *module, const char *text) {
  if (!*text)
    return "";
  size_t size = strlen(text) + 1;
  char *copy = bp__ir_alloc(module, size);
  return copy ? memcpy(copy, text, size) : NULL;
}

/* ---- Functions --------------------------------------------------------------------------- */

int bp_ir_module_add(BpIrModule *module, const BpIrNode *function) {
  if (!BP_NOT_NULL(module) || !BP_OPERAND(function))
    return -1;
  if (function->kind != BP_IR_FUNCTION)
    return bp_error_raise(BP_ERROR_VALUE, "a %s was added to an IR module; add functions only",
                          bp__ir_kind_name(function->kind));
  if (bp_ir_module_find(module, function->str_value))
    return bp_error_raise(BP_ERROR_VALUE, "the IR module has a function '%s' already",
                          function->str_value);
  if (module->num_functions == module->capacity) {
    int32_t capacity = module->capacity ? module->capacity * 2 : 8;
    const BpIrNode **functions = realloc(module->functions, (size_t)capacity * sizeof *functions);
    if (!functions)
      return bp_error_raise(BP_ERROR_MEMORY, "no memory for %d functions", capacity);
    module->functions = functions;
    module->capacity = capacity;
  }
  void *index = (void *)((uintptr_t)module->num_functions + 1);
  if (bp__names_set(&module->names, function->str_value, strlen(function->str_value), index, NULL))
    return -1;
  module->functions[module->num_functions++] = function;
  return 0;
}

const BpIrNode *bp_ir_module_find(const BpIrModule *module, const char *name) {
  if (!BP_NOT_NULL(module) || !BP_NOT_NULL(name))
    return NULL;
  uintptr_t index = (uintptr_t)bp__names_get(&module->names, name, strlen(name));
  return index ? module->functions[index - 1] : NULL;
}

int32_t bp__ir_module_num_functions(const BpIrModule *module) {
  return module->num_functions;
}

const BpIrNode *bp__ir_module_function(const BpIrModule *module, int32_t index) {
  return index >= 0 && index < module->num_functions ? module->functions[index] : NULL;
}

void bp__ir_module_replace(BpIrModule *module, int32_t index, const BpIrNode *function) {
  module->functions[index] = function; /* replaces the function of the same name */
}
