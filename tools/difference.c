/* SPDX-License-Identifier: Apache-2.0 */
/* The difference of tensors, by the rule of numpy.testing.assert_allclose: an element matches if it
 * differs by at most atol + rtol * |expected|; NaN matches NaN, an infinity matches itself. */
#include "tools/command.h"

#include <math.h>
#include <string.h>

#include <backplane/object.h>

char *elements_copy(const BpTensorView *view) {
  int64_t bytes = bp_view_num_bytes(view);
  char *data = bytes < 0 ? NULL : g_try_malloc((gsize)MAX(bytes, 1));
  if (!data) {
    if (bytes >= 0)
      bp_error_raise(BP_ERROR_MEMORY, "no memory for %" G_GINT64_FORMAT " bytes of a tensor",
                     bytes);
    return NULL;
  }
  if (bp_tensor_copy_to_host(view, data, (uint64_t)bytes) == 0)
    return data;
  g_free(data);
  return NULL;
}

/* Returns the position of an element on each axis (transfer full, g_free). */
static int64_t *find_position(int64_t index, const int64_t *shape, int32_t ndim) {
  int64_t *position = g_new(int64_t, (gsize)ndim);
  for (int32_t i = ndim - 1; i >= 0; i--) {
    position[i] = index % shape[i];
    index /= shape[i];
  }
  return position;
}

char *index_to_text(int64_t index, const int64_t *shape, int32_t ndim) {
  int64_t *position = find_position(index, shape, ndim);
  GString *text = g_string_new("[");
  for (int32_t i = 0; i < ndim; i++)
    g_string_append_printf(text, "%s%" G_GINT64_FORMAT, i ? "," : "", position[i]);
  g_free(position);
  g_string_append_c(text, ']');
  return g_string_free(text, FALSE);
}

int tolerance_check(const Tolerance *tolerance) {
  if (tolerance->relative >= 0 && tolerance->absolute >= 0 && isfinite(tolerance->relative) &&
      isfinite(tolerance->absolute))
    return 0;
  return command_raise_usage("--rtol %g --atol %g: each is a number of at least 0",
                             tolerance->relative, tolerance->absolute);
}

static int raise_shapes(const BpTensorView *actual, const BpTensorView *expected) {
  char *got = shape_to_text(actual->shape, actual->ndim);
  char *wanted = shape_to_text(expected->shape, expected->ndim);
  bp_error_raise(BP_ERROR_VALUE, "the shape is %s; expected %s", got, wanted);
  g_free(got);
  g_free(wanted);
  return -1;
}

static int check_comparable(const BpTensorView *actual, const BpTensorView *expected) {
  if (actual->ndim != expected->ndim ||
      (actual->ndim &&
       memcmp(actual->shape, expected->shape, (size_t)actual->ndim * sizeof *actual->shape) != 0))
    return raise_shapes(actual, expected);
  const BpTensorView *both[] = {actual, expected};
  for (size_t i = 0; i < G_N_ELEMENTS(both); i++) {
    char dtype[32];
    if (element_is_number(both[i]->dtype))
      continue;
    bp_dtype_format(both[i]->dtype, dtype, sizeof dtype);
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "elements of %s are not compared", dtype);
  }
  return 0;
}

/* Adds an element and its distance from the expected value. */
static void add_element(Difference *difference, int64_t index, double distance, double expected,
                        const Tolerance *tolerance) {
  double size = fabs(expected);
  double relative = distance == 0 ? 0 : size > 0 ? distance / size : -1; /* numpy ignores these */
  double limit = tolerance->absolute + tolerance->relative * size;
  gboolean matches = distance == 0 || (isfinite(distance) && isfinite(size) && distance <= limit);
  if (isinf(distance) && size > 0)
    relative = (double)INFINITY;
  if (!matches && difference->mismatches++ == 0)
    difference->first = index;
  if (difference->absolute_at < 0 || distance > difference->absolute) {
    difference->absolute = distance;
    difference->absolute_at = index;
  }
  if (relative >= 0 && (difference->relative_at < 0 || relative > difference->relative)) {
    difference->relative = relative;
    difference->relative_at = index;
  }
}

int difference_find(const BpTensorView *actual, const BpTensorView *expected,
                    const Tolerance *tolerance, Difference *difference) {
  *difference = (Difference){.absolute_at = -1, .relative_at = -1, .first = -1};
  if (check_comparable(actual, expected) < 0)
    return -1;
  char *got = elements_copy(actual), *wanted = got ? elements_copy(expected) : NULL;
  size_t got_size = bp_dtype_bytes(actual->dtype), wanted_size = bp_dtype_bytes(expected->dtype);
  difference->elements = bp_view_num_elements(actual);
  for (int64_t i = 0; wanted && i < difference->elements; i++) {
    const char *a = got + (size_t)i * got_size, *b = wanted + (size_t)i * wanted_size;
    add_element(difference, i, element_distance(a, actual->dtype, b, expected->dtype),
                element_number(b, expected->dtype), tolerance);
  }
  if (wanted && difference->first >= 0) {
    difference->got = element_number(got + (size_t)difference->first * got_size, actual->dtype);
    difference->expected =
        element_number(wanted + (size_t)difference->first * wanted_size, expected->dtype);
  }
  int status = wanted ? 0 : -1;
  g_free(got);
  g_free(wanted);
  return status;
}

/* Formats the largest difference and its position, "1.2e-06 at [0,3]"; "-" for an empty tensor. */
static char *largest_to_text(double value, int64_t at, const BpTensorView *view) {
  if (at < 0)
    return g_strdup("-");
  char *index = index_to_text(at, view->shape, view->ndim);
  char *text = value == 0 ? g_strdup("0") : g_strdup_printf("%.3g at %s", value, index);
  g_free(index);
  return text;
}

char *difference_absolute_text(const Difference *difference, const BpTensorView *view) {
  return largest_to_text(difference->absolute, difference->absolute_at, view);
}

char *difference_relative_text(const Difference *difference, const BpTensorView *view) {
  return largest_to_text(difference->relative, difference->relative_at, view);
}

/* Returns the position of an element as an array; null for none. */
static json_t *position_json(int64_t index, const BpTensorView *view) {
  if (index < 0)
    return json_null();
  int64_t *position = find_position(index, view->shape, view->ndim);
  json_t *array = shape_json(position, view->ndim);
  g_free(position);
  return array;
}

void difference_add_json(json_t *object, const Difference *difference, const BpTensorView *view) {
  json_add(object, "matches", json_boolean(difference->mismatches == 0));
  json_add_int(object, "elements", difference->elements);
  json_add_int(object, "mismatches", difference->mismatches);
  json_add_double(object, "max_absolute", difference->absolute);
  json_add(object, "max_absolute_at", position_json(difference->absolute_at, view));
  json_add_double(object, "max_relative", difference->relative);
  json_add(object, "max_relative_at", position_json(difference->relative_at, view));
}

int difference_raise(const Difference *difference, const BpTensorView *view,
                     const Tolerance *tolerance) {
  char *at = index_to_text(difference->first, view->shape, view->ndim);
  bp_error_raise(BP_ERROR_VALUE,
                 "%" G_GINT64_FORMAT " of %" G_GINT64_FORMAT
                 " elements are further away than atol %g + rtol %g * |expected|; the first is %g "
                 "at %s, expected %g",
                 difference->mismatches, difference->elements, tolerance->absolute,
                 tolerance->relative, difference->got, at, difference->expected);
  g_free(at);
  return -1;
}
