/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors as text, in the form of numpy.array2string with its default options. */
#include <float.h>
#include <glib.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/tensor.h>

#include "parts/text/attr.h"

#include "core/device/tensor.h"
#include "core/registry/element.h"
#include "core/registry/argument.h"
#include "core/registry/part.h"

#define THRESHOLD      1000 /* largest tensor that is shown in full */
#define EDGE_ITEMS     3    /* elements shown at each end of a dimension of a larger tensor */
#define LINE_WIDTH     75
#define MAX_FRACTION   8 /* most digits after the point */
#define MAX_DIGITS     17
#define WORD_SIZE      400 /* float64 has 308 digits before the point */
#define LEAST_POSITION 1e-4

/* A tensor in host memory, and the common format of its shown elements. */
typedef struct Form {
  FILE *out;
  const BpTensorView *view;
  const void *elements;
  int is_whole; /* no dimension is abbreviated */
  int is_integer;
  int is_float; /* a float type, described by `format` */
  FloatFormat format;
  double least, largest; /* magnitudes of finite elements other than 0 */
  int has_finite, is_scientific;
  int left, right;     /* characters before and after the point, or of an integer */
  int exponent_digits; /* digits of the exponent in scientific form */
  int column, blanks;  /* position in the current line; pending blanks */
} Form;

/* ---- Floats ------------------------------------------------------------------------------ */

/* Whether a number rounds to `value` in its type: no other number of the type is nearer, or one is
 * as near and odd. */
static int rounds_to(const Form *form, double number, double value) {
  int exponent;
  if (form->view->dtype.bits == 64 || !form->is_float)
    return number == value;
  double fraction = frexp(fabs(value), &exponent);
  int least = form->format.least_exponent;
  double step = ldexp(1, MAX(exponent - 1, least) - form->format.fraction_bits);
  int is_even = (int64_t)(fabs(value) / step) % 2 == 0;
  /* Below a power of two, numbers are twice as dense. */
  int is_power = fraction <= 0.5 && exponent - 1 > least;
  double distance = fabs(number) - fabs(value);
  double most = distance < 0 && is_power ? step / 4 : step / 2;
  return fabs(distance) < most || (is_even && fabs(distance) == most);
}

static void write_number(char *text, char letter, int digits, double value) {
  char format[16];
  g_snprintf(format, sizeof format, "%%.%d%c", digits, letter);
  g_ascii_formatd(text, WORD_SIZE, format, value);
}

/* Writes the fewest digits that distinguish the value from others of its type, as d.ddde+dd;
 * returns the number of digits after the point. */
static int write_shortest(const Form *form, char *text, double value) {
  int digits = 0;
  for (; digits < MAX_DIGITS; digits++) {
    write_number(text, 'e', digits, value);
    if (value == 0 || rounds_to(form, g_ascii_strtod(text, NULL), value))
      break;
  }
  return digits;
}

/* Removes the zeros before `end`, at the end of a fraction. */
static void trim_zeros(char *end) {
  char *last = end;
  while (last[-1] == '0')
    last--;
  memmove(last, end, strlen(end) + 1);
}

/* "1.", "0.25": at most `most` digits after the point; -1: all, and before the point no more digits
 * than needed to distinguish the value. */
static void write_position(const Form *form, char *text, double value, int most) {
  int digits = write_shortest(form, text, value);
  int exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
  int fraction = MAX(digits - exponent, 0);
  write_number(text, 'f', most < 0 ? fraction : MIN(fraction, most),
               most < 0 ? g_ascii_strtod(text, NULL) : value);
  if (strchr(text, '.'))
    trim_zeros(text + strlen(text));
  else
    g_strlcat(text, ".", WORD_SIZE);
}

/* Inserts the missing point of "1e+10". */
static void insert_point(char *text) {
  char *power = strchr(text, 'e');
  memmove(power + 1, power, strlen(power) + 1);
  *power = '.';
}

/* "1.e-05", "1.25e+10". */
static void write_power(const Form *form, char *text, double value) {
  if (write_shortest(form, text, value) > MAX_FRACTION)
    write_number(text, 'e', MAX_FRACTION, value);
  if (strchr(text, '.'))
    trim_zeros(strchr(text, 'e'));
  else
    insert_point(text);
}

/* Formats a float for a tensor, without blanks around it. */
static void write_float(const Form *form, char *text, double value) {
  if (isnan(value))
    g_strlcpy(text, "nan", WORD_SIZE);
  else if (isinf(value))
    g_strlcpy(text, value < 0 ? "-inf" : "inf", WORD_SIZE);
  else if (form->is_scientific)
    write_power(form, text, value);
  else
    write_position(form, text, value, MAX_FRACTION);
}

/* ---- Elements ---------------------------------------------------------------------------- */

/* Finds an element: *index is its index among the elements at the returned address. Eight elements
 * take as many bytes as one has bits. The offset is negative if a stride is. */
static const void *find_element(const Form *form, int64_t offset, uint64_t *index) {
  *index = (uint64_t)offset & 7;
  return (const char *)form->elements + (offset >> 3) * form->view->dtype.bits;
}

static double decode(const Form *form, int64_t offset) {
  double value = 0; /* the type was checked before */
  uint64_t index;
  const void *elements = find_element(form, offset, &index);
  bp_dtype_decode(form->view->dtype, elements, index, &value);
  return value;
}

static int is_bool(const Form *form) {
  return form->view->dtype.code == BP_DTYPE_BOOL;
}

static void write_integer(const Form *form, char *text, int64_t offset) {
  uint64_t index;
  const void *elements = find_element(form, offset, &index);
  int64_t value = bp__dtype_read_integer(form->view->dtype, elements, index);
  if (is_bool(form))
    snprintf(text, WORD_SIZE, "%s", value ? "True" : "False");
  else if (form->view->dtype.code == BP_DTYPE_INT)
    snprintf(text, WORD_SIZE, "%" PRId64, value);
  else
    snprintf(text, WORD_SIZE, "%" PRIu64, (uint64_t)value);
}

/* Calls `visit` with the offset of each shown element. */
static void visit_shown(Form *form, int32_t axis, int64_t offset,
                        void (*visit)(Form *form, int64_t offset)) {
  const BpTensorView *view = form->view;
  if (axis == view->ndim) {
    visit(form, offset);
    return;
  }
  int64_t extent = view->shape[axis], stride = view->strides[axis];
  int is_cut = !form->is_whole && extent > 2 * EDGE_ITEMS;
  for (int64_t i = 0; i < extent; i++) {
    if (is_cut && i == EDGE_ITEMS)
      i = extent - EDGE_ITEMS;
    visit_shown(form, axis + 1, offset + i * stride, visit);
  }
}

static void measure_magnitude(Form *form, int64_t offset) {
  double magnitude = fabs(decode(form, offset));
  if (!isfinite(magnitude))
    return;
  form->has_finite = 1;
  if (magnitude == 0)
    return;
  form->least = MIN(form->least, magnitude);
  form->largest = MAX(form->largest, magnitude);
}

static void measure_float(Form *form, int64_t offset) {
  char text[WORD_SIZE];
  double value = decode(form, offset);
  if (!isfinite(value))
    return;
  write_float(form, text, value);
  char *point = strchr(text, '.'), *power = strchr(text, 'e');
  size_t fraction = power ? (size_t)(power - point) - 1 : strlen(point) - 1;
  form->left = MAX(form->left, (int)(point - text));
  form->right = MAX(form->right, (int)fraction);
  if (power)
    form->exponent_digits = MAX(form->exponent_digits, (int)strlen(power) - 2);
}

/* Returns the characters after the point, including the exponent. */
static int right_side(const Form *form) {
  return form->right + (form->is_scientific ? form->exponent_digits + 2 : 0);
}

static void measure_special(Form *form, int64_t offset) {
  char text[WORD_SIZE];
  double value = decode(form, offset);
  if (isfinite(value))
    return;
  write_float(form, text, value);
  form->left = MAX(form->left, (int)strlen(text) - right_side(form) - 1);
}

static void measure_integer(Form *form, int64_t offset) {
  char text[WORD_SIZE];
  write_integer(form, text, offset);
  form->left = MAX(form->left, (int)strlen(text));
}

static double as_type(const Form *form, double value) {
  return form->view->dtype.bits == 64 ? value : (double)(float)value;
}

/* Applies the rules of numpy's FloatingFormat. */
static void measure(Form *form) {
  if (form->is_integer && is_bool(form))
    form->left = (int)strlen("False");
  else if (form->is_integer)
    visit_shown(form, 0, 0, measure_integer);
  if (form->is_integer)
    return;
  form->least = DBL_MAX;
  visit_shown(form, 0, 0, measure_magnitude);
  form->is_scientific =
      form->largest > 0 && (form->largest >= 1e8 || form->least < as_type(form, LEAST_POSITION) ||
                            as_type(form, form->largest / form->least) > 1000);
  visit_shown(form, 0, 0, measure_float);
  visit_shown(form, 0, 0, measure_special);
}

/* ---- Text -------------------------------------------------------------------------------- */

static void put_blanks(Form *form, int count) {
  fprintf(form->out, "%*s", MAX(count, 0), "");
}

/* Pads the fraction and the exponent to the digits of the other elements. */
static void write_equal_power(const Form *form, char *text, double value) {
  write_number(text, 'e', form->right, value);
  char *digits = strchr(text, 'e') + 2;
  int zeros = form->exponent_digits - (int)strlen(digits);
  memmove(digits + zeros, digits, strlen(digits) + 1);
  memset(digits, '0', (size_t)zeros);
  if (!form->right)
    insert_point(text);
}

/* Returns the text of an element, and the numbers of blanks before and after it. */
static void write_element(const Form *form, int64_t offset, char *text, int *before, int *after) {
  *after = 0;
  if (form->is_integer) {
    write_integer(form, text, offset);
    *before = form->left - (int)strlen(text);
    return;
  }
  double value = decode(form, offset);
  if (form->is_scientific && isfinite(value))
    write_equal_power(form, text, value);
  else
    write_float(form, text, value);
  const char *point = strchr(text, '.');
  if (!point) {
    *before = form->left + right_side(form) + 1 - (int)strlen(text);
    return;
  }
  *before = form->left - (int)(point - text);
  *after = right_side(form) - (int)strlen(point + 1);
}

/* Writes a word into a row, and begins a new line if the row is full. */
static void put_word(Form *form, const char *text, int before, int after) {
  int32_t ndim = form->view->ndim;
  int length = before + (int)strlen(text) + after;
  if (form->column + length > LINE_WIDTH - ndim && form->column > ndim) {
    fputc('\n', form->out);
    put_blanks(form, ndim);
    form->column = ndim;
    form->blanks = 0;
  }
  put_blanks(form, form->blanks + before);
  fputs(text, form->out);
  form->blanks = after;
  form->column += length;
}

static void print_row(Form *form, int32_t axis, int64_t offset) {
  char text[WORD_SIZE];
  int before, after;
  int64_t extent = form->view->shape[axis], stride = form->view->strides[axis];
  form->column = form->view->ndim;
  form->blanks = 0;
  for (int64_t i = 0; i < extent; i++) {
    if (i) {
      form->blanks++;
      form->column++;
    }
    if (!form->is_whole && extent > 2 * EDGE_ITEMS && i == EDGE_ITEMS) {
      put_word(form, "...", 0, 0);
      i = extent - EDGE_ITEMS - 1;
      continue;
    }
    write_element(form, offset + i * stride, text, &before, &after);
    put_word(form, text, before, after);
  }
  put_blanks(form, form->blanks);
}

static void print_nested(Form *form, int32_t axis, int64_t offset) {
  const BpTensorView *view = form->view;
  fputc('[', form->out);
  if (axis + 1 == view->ndim)
    print_row(form, axis, offset);
  for (int64_t i = 0; axis + 1 < view->ndim && i < view->shape[axis]; i++) {
    for (int32_t line = axis + 1; i && line < view->ndim; line++)
      fputc('\n', form->out);
    put_blanks(form, i ? axis + 1 : 0);
    if (!form->is_whole && view->shape[axis] > 2 * EDGE_ITEMS && i == EDGE_ITEMS) {
      fputs("...", form->out);
      i = view->shape[axis] - EDGE_ITEMS - 1;
    } else
      print_nested(form, axis + 1, offset + i * view->strides[axis]);
  }
  fputc(']', form->out);
}

/* Formats a scalar as Python prints it. */
static void print_scalar(Form *form) {
  char text[WORD_SIZE];
  if (form->is_integer) {
    write_integer(form, text, 0);
    fputs(text, form->out);
    return;
  }
  double value = decode(form, 0), magnitude = fabs(value);
  if (!isfinite(value))
    write_float(form, text, value);
  else if (magnitude == 0 || (magnitude >= as_type(form, LEAST_POSITION) && magnitude < 1e16)) {
    write_position(form, text, value, -1);
    if (g_str_has_suffix(text, "."))
      g_strlcat(text, "0", WORD_SIZE);
  } else
    write_shortest(form, text, value);
  fputs(text, form->out);
}

/* ---- Tensors ----------------------------------------------------------------------------- */

static char *format_elements(Form *form) {
  char *text = NULL;
  size_t size = 0;
  form->out = open_memstream(&text, &size);
  if (form->out) {
    if (form->view->ndim == 0)
      print_scalar(form);
    else if (bp_view_num_elements(form->view) == 0)
      fputs("[]", form->out);
    else {
      measure(form);
      print_nested(form, 0, 0);
    }
  }
  int is_written = form->out && !ferror(form->out);
  if (form->out && fclose(form->out) == 0 && is_written)
    return text;
  free(text);
  bp_error_raise(BP_ERROR_MEMORY, "no memory for the text of a tensor");
  return NULL;
}

/* `view` is in host memory. */
static char *format_on_host(const BpTensorView *tensor, int64_t threshold) {
  int64_t strides[BP_MAX_NDIM], count = bp_view_num_elements(tensor);
  BpTensorView view = *tensor;
  if (count > 0 && !view.data) {
    bp_error_raise(BP_ERROR_VALUE, "a tensor of %" PRId64 " elements without memory", count);
    return NULL;
  }
  if (!view.strides) {
    bp__view_fill_strides(&view, strides);
    view.strides = strides;
  }
  Form form = {.view = &view};
  form.elements = view.data ? (const char *)view.data + view.byte_offset : NULL;
  form.is_whole = count <= (threshold ? threshold : THRESHOLD);
  form.is_integer = bp__dtype_is_integer(view.dtype);
  form.is_float = !form.is_integer && bp__dtype_float_format(view.dtype, &form.format) >= 0;
  return format_elements(&form);
}

static char *format_tensor(const BpTensorView *tensor, int64_t threshold) {
  const double zero = 0;
  double ignored;
  char *text = NULL;
  int64_t bytes = BP_NOT_NULL(tensor) ? bp_view_num_bytes(tensor) : -1;
  if (bytes < 0 || bp_dtype_decode(tensor->dtype, &zero, 0, &ignored) < 0)
    return NULL;
  if (tensor->device.device_type == BP_DEVICE_CPU)
    return format_on_host(tensor, threshold);
  BpTensorView copy = *tensor;
  copy.device = (BpDevice){BP_DEVICE_CPU, 0};
  copy.strides = NULL;
  copy.byte_offset = 0;
  copy.data = malloc((size_t)bytes + 1);
  if (!copy.data)
    bp_error_raise(BP_ERROR_MEMORY, "no memory for the elements of a tensor");
  else if (bp_tensor_copy_to_host(tensor, copy.data, (uint64_t)bytes) == 0)
    text = format_on_host(&copy, threshold);
  free(copy.data);
  return text;
}

static const Text text_table = {.format_tensor = format_tensor, .attr_name = bp__attr_name};

BP__PART(BP_PART_TEXT, text_table);
