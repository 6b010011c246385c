/* SPDX-License-Identifier: Apache-2.0 */
/* The emitter's table: turns a whole module into text. */
#include "compiler/emit/emit.h"
#include "compiler/emit/table.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/compiler/ir.h>
#include <backplane/error.h>

#include "compiler/ir/argument.h"

static const BpDialect *get_dialect(const char *name) {
  if (!BP_NOT_NULL(name))
    return NULL;
  static const BpDialect *const dialects[] = {&bp__dialect_c, &bp__dialect_opencl,
                                              &bp__dialect_glsl, &bp__dialect_cuda};
  for (size_t i = 0; i < sizeof(dialects) / sizeof(dialects[0]); i++) {
    if (strcmp(dialects[i]->name, name) == 0)
      return dialects[i];
  }
  bp_error_raise(BP_ERROR_NOT_FOUND,
                 "no dialect \"%s\"; there are \"c\", \"cuda\", \"glsl\" and \"opencl\"", name);
  return NULL;
}

static void free_emitter(BpEmitter *e) {
  BpText *texts[] = {&e->head, &e->types, &e->before, &e->opening, &e->body, &e->done};
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
    bp__text_free(texts[i]);
  bp_pointer_map_free(&e->symbols);
  bp_pointer_map_free(&e->uses);
  bp_pointer_map_free(&e->temps);
  bp_pointer_map_free(&e->lets);
  bp_pointer_map_free(&e->places);
  bp_pointer_map_free(&e->stable);
  bp_pointer_map_free(&e->same);
  bp__written_free(e);
  bp__arena_free(e);
}

/* Copies a plugin's dialect, which may come from older headers: members that it lacks become
 * NULL. */
static BpDialect copy_dialect(const BpDialect *given) {
  BpDialect dialect = {0};
  memcpy(&dialect, given,
         given->struct_size < sizeof(dialect) ? (size_t)given->struct_size : sizeof(dialect));
  return dialect;
}

static int check_reserved(const BpDialect *dialect) {
  if (!dialect->reserved && !dialect->reserved_end)
    return 0;
  return bp_error_raise(BP_ERROR_VALUE,
                        "a dialect has %d in `reserved` and %d in `reserved_end`, which have to be "
                        "0",
                        dialect->reserved, dialect->reserved_end);
}

/* Fails for a dialect of later headers that requests a feature this emitter does not know: text
 * made without the feature would be another program. */
static int check_known(const BpDialect *given) {
  const int32_t known = BP_DIALECT_KNOWN_FLAGS;
  if (given->flags & ~known)
    return bp_error_raise(BP_ERROR_VALUE,
                          "a dialect has the flags %#x, which this emitter does not know",
                          given->flags & ~known);
  for (uint64_t at = sizeof(*given); at < given->struct_size; at++)
    if (((const char *)given)[at])
      return bp_error_raise(BP_ERROR_VALUE,
                            "a dialect has a member set at byte %" PRIu64
                            ", which this emitter does not know: it knows %zu bytes",
                            at, sizeof(*given));
  return 0;
}

static int check_row(const char *member, int32_t count, uint64_t size, size_t least) {
  return count <= 0 || size >= least
             ? 0
             : bp_error_raise(BP_ERROR_VALUE,
                              "BpDialect::%s is %" PRIu64 "; set it to the size of a row, here %zu",
                              member, size, least);
}

/* Fails if the dialect's rows are shorter than in the first version that states their size; longer
 * rows are valid. */
static int check_rows(const BpDialect *dialect) {
  return check_row("type_size", dialect->num_types, dialect->type_size,
                   offsetof(BpDialectType, support) + sizeof(const char *)) ||
                 check_row("intrinsic_size", dialect->num_intrinsics, dialect->intrinsic_size,
                           offsetof(BpDialectIntrinsic, text) + sizeof(const char *)) ||
                 check_row("axis_size", dialect->num_axes, dialect->axis_size,
                           offsetof(BpDialectAxis, text) + sizeof(const char *))
             ? -1
             : 0;
}

/* ---- Pieces ------------------------------------------------------------------------------ */

/* The least size, in bytes, of a piece of a host's source. Each piece can be compiled apart, behind
 * what is before all pieces (parts/toolchain/compile.c). */
#define PIECE_SIZE 65536

static void begin_piece(BpEmitter *e, BpText *text) {
  static const char line[] = "/* ---- A piece that can be compiled apart ---- */\n";
  bp__append(e, text, line, strlen(line));
}

/* Emits functions into `done`; a single piece has no mark. */
static void emit_pieces(BpEmitter *e, const BpIrModule *module, int32_t first, int32_t end) {
  size_t begin = 0;
  for (int32_t i = first; i < end && !e->failed; i++) {
    bp__function(e, e->ir->get_function(module, i));
    if (!(e->dialect->flags & BP_DIALECT_HOST) || i + 1 == end || e->done.size - begin < PIECE_SIZE)
      continue;
    begin_piece(e, &e->done);
    begin = e->done.size;
    e->num_pieces++;
  }
}

static void begin_pieces(BpEmitter *e, BpText *text) {
  static const char our[] = "/* A function that other pieces call, too. */\n"
                            "#define BP_OUR __attribute__((visibility(\"hidden\")))\n";
  bp__append(e, text, our, strlen(our));
  begin_piece(e, text);
}

/* Emits the functions from `first` up to `end`. */
static int32_t emit_range(const BpIrModule *module, int32_t first, int32_t end,
                          const BpDialect *given, BpOwnedBytes *text) {
  if (!BP_NOT_NULL(module) || !BP_NOT_NULL(given) || !BP_NOT_NULL(text))
    return -1;
  const BpDialect copy = copy_dialect(given), *dialect = &copy;
  BpEmitter e = {.ir = bp_ir_table(), .dialect = dialect};
  BpText whole = {NULL, 0, 0};
  if (check_known(given) || check_reserved(dialect) || check_rows(dialect))
    return -1;
  emit_pieces(&e, module, first, end);
  bp__append(&e, &whole, dialect->prologue, strlen(dialect->prologue));
  if (dialect->support)
    bp__append_support(&e, &whole, dialect->support);
  bp__append(&e, &whole, e.head.data ? e.head.data : "", e.head.size);
  bp__append(&e, &whole, "\n", 1);
  if (e.num_pieces > 0)
    begin_pieces(&e, &whole);
  bp__append(&e, &whole, e.done.data ? e.done.data : "", e.done.size);
  int failed = e.failed;
  free_emitter(&e);
  if (failed) {
    bp__text_free(&whole);
    return -1;
  }
  *text = (BpOwnedBytes){whole.data, whole.size, free};
  return 0;
}

static int32_t emit(const BpIrModule *module, const BpDialect *dialect, BpOwnedBytes *text) {
  return emit_range(module, 0, bp_ir_table()->num_functions(module), dialect, text);
}

static int32_t emit_function(const BpIrModule *module, int32_t index, const BpDialect *dialect,
                             BpOwnedBytes *text) {
  if (module && (index < 0 || index >= bp_ir_table()->num_functions(module)))
    return bp_error_raise(BP_ERROR_INDEX, "no function %d in the IR module", index);
  return emit_range(module, index, index + 1, dialect, text);
}

static const BpEmitterTable emitter_table = {sizeof(BpEmitterTable), get_dialect, emit,
                                             emit_function};

const BpEmitterTable *bp__emitter_table(void) {
  return &emitter_table;
}
