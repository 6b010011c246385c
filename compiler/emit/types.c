/* SPDX-License-Identifier: Apache-2.0 */
/* Names of types in the dialect; vector types and helpers are declared at their first use. */
#include "compiler/emit/emit.h"

#include <string.h>

static const char *code_name(uint8_t code) {
  static const char *const names[] = {"int",    "uint",    "float", "handle",
                                      "bfloat", "complex", "bool"};
  return code < sizeof(names) / sizeof(names[0]) ? names[code] : "unknown";
}

const char *bp__dtype_name(BpEmitter *e, BpDataType dtype) {
  if (bp__is_void(dtype))
    return "void";
  const char *name =
      bp__is_bool(dtype) ? "bool" : bp__format(e, "%s%d", code_name(dtype.code), dtype.bits);
  return dtype.lanes == 1 ? name : bp__format(e, "%sx%d", name, dtype.lanes);
}

/* Whether `name` is not declared yet; records the name. */
static int first_use(BpEmitter *e, const char *name) {
  const char *line = bp__format(e, "\n%s\n", name);
  if (e->types.data && strstr(e->types.data, line))
    return 0;
  bp__append(e, &e->types, line, strlen(line));
  return 1;
}

void bp__declare_once(BpEmitter *e, const char *text) {
  if (first_use(e, text))
    bp__append(e, &e->head, text, strlen(text));
}

const BpDialectType *bp__type_row(BpEmitter *e, BpDataType dtype) {
  for (int32_t i = 0; i < e->dialect->num_types; i++) {
    const BpDialectType *row = bp_dialect_type(e->dialect, i);
    if (row->dtype.code != dtype.code || row->dtype.bits != dtype.bits)
      continue;
    if (row->support)
      bp__declare_once(e, row->support);
    return row;
  }
  bp__fail(e, BP_ERROR_NOT_IMPLEMENTED, "the target has no type %s",
           bp__dtype_name(e, bp__scalar(dtype)));
  return NULL;
}

const char *bp__short_name(BpEmitter *e, BpDataType dtype) {
  static const char letters[] = "iufhbc?";
  int is_bfloat = dtype.code == BP_DTYPE_BFLOAT;
  return bp__format(e, "%s%c%d", is_bfloat ? "b" : "", is_bfloat ? 'f' : letters[dtype.code],
                    dtype.bits);
}

static const char *vector_type(BpEmitter *e, BpDataType dtype) {
  const BpDialect *d = e->dialect;
  int is_power = (dtype.lanes & (dtype.lanes - 1)) == 0;
  if (!(d->flags & BP_DIALECT_VECTORS) || !is_power || dtype.lanes > d->max_lanes)
    return bp__fail(e, BP_ERROR_NOT_IMPLEMENTED, "the language has no vectors of type %s",
                    bp__dtype_name(e, dtype));
  const BpDialectType *row = bp__type_row(e, bp__scalar(dtype));
  if (!row)
    return "";
  const char *element = row->name;
  const char *lanes = bp__format(e, "%d", dtype.lanes);
  const char *name =
      bp__apply(e, d->vector_type, element, lanes, bp__short_name(e, bp__scalar(dtype)));
  if (d->vector_support)
    bp__declare_once(e, d->vector_support);
  if (d->vector_typedef && first_use(e, name)) {
    const char *bytes = bp__format(e, "%d", dtype.bits / 8 * dtype.lanes);
    const char *lane_bytes = bp__format(e, "%d", dtype.bits / 8);
    const char *text = bp__apply(e, d->vector_typedef, element, lanes, name, bytes, lane_bytes);
    bp__append(e, &e->head, text, strlen(text));
  }
  return name;
}

const char *bp__type(BpEmitter *e, BpDataType dtype) {
  if (bp__is_void(dtype))
    return "void";
  if (dtype.lanes > 1)
    return vector_type(e, dtype);
  const BpDialectType *row = bp__type_row(e, dtype);
  return row ? row->name : "";
}

const char *bp__memory_type(BpEmitter *e, BpDataType dtype) {
  int is_byte = bp__is_bool(dtype) && (e->dialect->flags & BP_DIALECT_STRICT_BOOL);
  return bp__type(e, is_byte ? bp__dtype(BP_DTYPE_UINT, 8, dtype.lanes) : dtype);
}

const char *bp__value_type(BpEmitter *e, BpDataType dtype, int32_t mask_bits) {
  if (bp__is_bool(dtype) && dtype.lanes > 1)
    return bp__type(e, bp__dtype(BP_DTYPE_INT, (uint8_t)(mask_bits ? mask_bits : 32), dtype.lanes));
  return bp__type(e, dtype);
}

BpDataType bp__compute_dtype(BpEmitter *e, BpDataType dtype) {
  if (dtype.code == BP_DTYPE_HANDLE)
    return dtype;
  const BpDialectType *row = bp__type_row(e, bp__scalar(dtype));
  if (!row || !row->compute_bits)
    return dtype;
  return bp__dtype(BP_DTYPE_FLOAT, (uint8_t)row->compute_bits, dtype.lanes);
}

int bp__has_halves(const BpEmitter *e, BpDataType dtype) {
  return (e->dialect->flags & BP_DIALECT_HALVES) &&
         bp__same_dtype(bp__scalar(dtype), bp__dtype(BP_DTYPE_FLOAT, 16, 1));
}
