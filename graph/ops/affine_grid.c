/* SPDX-License-Identifier: Apache-2.0 */
/* AffineGrid: the positions of a picture's elements, from -1 to 1 along each axis, moved by an
 * affine map for each picture of a batch. */
#include "graph/ops/expr.h"
#include "graph/ops/rows.h"
#include "graph/ops/vector.h"

#define MOST_AXES 3

/* A batch of pictures, whose size is an input of the node. */
typedef struct Pictures {
  BpVectorMaker m;
  BpGraphValue *maps; /* affine maps, [pictures, rank, rank + 1] */
  int32_t rank;
  BpGraphValue *size; /* numbers of pictures and channels, and the extents of a picture */
  int64_t extents[MOST_AXES + 2];
} Pictures;

static int read_size(Pictures *pictures) {
  BpVectorMaker m = pictures->m;
  const BpGraphValue *maps = pictures->maps;
  int64_t count;
  BpGraphValue *size = bp__vector_read(m, 1, MOST_AXES + 2, &count);
  if (!size)
    return -1;
  pictures->rank = (int32_t)count - 2;
  if (count < 4 || maps->ndim != 3 || maps->shape[1] != count - 2 || maps->shape[2] != count - 1)
    return bp__op_bad(m.node,
                      "its size has %d extents, and its maps are not of pictures of %d axes",
                      (int)count, (int)count - 2);
  BpGraphValue *number = bp__op_slice(m.graph, m.node, size, 0, 0, 1);
  BpGraphValue *fits = v_binary(m, "And", v_binary(m, "GreaterOrEqual", size, v_number(m, 0)),
                                v_binary(m, "LessOrEqual", size, v_number(m, INT32_MAX)));
  fits = v_binary(m, "And", fits, v_binary(m, "Equal", number, v_extents(m, maps->shape, 1)));
  pictures->size = bp__op_bind(m.graph, m.node, v_choose(m, fits, size, v_number(m, -1)),
                               size->extents ? size->extents : size->data,
                               "its size is negative, too large, or not of as many pictures as it "
                               "has maps");
  for (int64_t i = 0; pictures->size && i < count; i++)
    pictures->extents[i] =
        pictures->size->data ? bp__value_get_int(pictures->size, i) : pictures->size->extents[i];
  return pictures->size ? 0 : -1;
}

static BpGraphValue *in_type(const Pictures *pictures, BpGraphValue *value) {
  return value ? bp__op_cast(pictures->m.graph, pictures->m.node, value, pictures->maps->dtype)
               : NULL;
}

static BpGraphValue *number(const Pictures *pictures, float value) {
  return in_type(pictures, bp__graph_float_scalar(pictures->m.graph, value));
}

/* The positions along an axis, for all axes of the result. */
static BpGraphValue *places_along(const Pictures *pictures, int32_t axis) {
  BpVectorMaker m = pictures->m;
  BpGraphValue *one = number(pictures, 1), *two = number(pictures, 2);
  BpGraphValue *length =
      in_type(pictures, bp__op_slice(m.graph, m.node, pictures->size, 0, 2 + axis, 3 + axis));
  BpGraphValue *places =
      in_type(pictures, bp__op_counting(m.graph, m.node, pictures->extents[2 + axis]));
  places = v_binary(m, "Mul", places, two);
  if (bp__node_int(m.node, "align_corners", 0))
    length = v_greatest(m, v_binary(m, "Sub", length, one), one);
  else
    places = v_binary(m, "Add", places, one);
  places = v_binary(m, "Sub", v_binary(m, "Div", places, length), one);
  int64_t shape[MOST_AXES + 1] = {pictures->extents[2 + axis], 1, 1, 1};
  return places ? bp__op_reshape(m.graph, m.node, places, shape, pictures->rank - axis + 1) : NULL;
}

/* A column of the maps, for all positions of a picture. */
static BpGraphValue *column(const Pictures *pictures, int32_t index) {
  BpVectorMaker m = pictures->m;
  int64_t shape[MOST_AXES + 2] = {pictures->maps->shape[0], 1, 1, 1, 1};
  shape[1 + pictures->rank] = pictures->rank;
  BpGraphValue *value = bp__op_slice(m.graph, m.node, pictures->maps, 2, index, index + 1);
  return value ? bp__op_reshape(m.graph, m.node, value, shape, 2 + pictures->rank) : NULL;
}

/* The last axis of a picture is the first coordinate of a position. */
BP_ROW_EXPAND(affine_grid) {
  Pictures pictures = {.m = {graph, node}, .maps = node->inputs[0]};
  if (!bp__dtype_is_float(pictures.maps->dtype))
    return bp__op_bad(node, "its maps are no floats");
  if (read_size(&pictures))
    return -1;
  BpGraphValue *sum = column(&pictures, pictures.rank);
  for (int32_t axis = 0; axis < pictures.rank; axis++)
    sum = v_binary(pictures.m, "Add", sum,
                   v_binary(pictures.m, "Mul", places_along(&pictures, axis),
                            column(&pictures, pictures.rank - 1 - axis)));
  node->outputs[0] = sum;
  return sum ? 0 : -1;
}
