/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions of values to and from Python. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

#include <backplane/device.h>

PyObject *bp_py_device_class;

/* ---- Devices and extents ----------------------------------------------------------------- */

int bp_py_get_device(PyObject *object, BpDevice *device) {
  if (!bp_py_device_class || PyObject_IsInstance(object, bp_py_device_class) != 1) {
    PyErr_SetString(PyExc_TypeError, "expected a backplane.Device");
    return -1;
  }
  long type = PyLong_AsLong(PyTuple_GetItem(object, 0));
  long index = PyLong_AsLong(PyTuple_GetItem(object, 1));
  if (!PyErr_Occurred() && (type != (int32_t)type || index != (int32_t)index))
    PyErr_Format(PyExc_ValueError, "there is no device of type %ld with index %ld", type, index);
  *device = (BpDevice){(int32_t)type, (int32_t)index};
  return PyErr_Occurred() ? -1 : 0;
}

PyObject *bp_py_make_device(BpDevice device) {
  return PyObject_CallFunction(bp_py_device_class, "ii", (int)device.device_type,
                               (int)device.device_id);
}

PyObject *bp_py_make_extents(const int64_t *extents, int64_t count) {
  PyObject *tuple = PyTuple_New((Py_ssize_t)count);
  for (Py_ssize_t i = 0; tuple && i < count; i++) {
    PyObject *number = PyLong_FromLongLong(extents[i]);
    if (!number || PyTuple_SetItem(tuple, i, number) < 0)
      Py_CLEAR(tuple);
  }
  return tuple;
}

/* Sets the exception for extents that are not integers; returns -1. The message shows the whole
 * sequence. */
static int refuse_extents(PyObject *sequence) {
  if (PyErr_ExceptionMatches(PyExc_TypeError))
    PyErr_Format(PyExc_TypeError, "a shape is a tuple of integers, not %.80R", sequence);
  return -1;
}

int bp_py_get_extents(PyObject *sequence, int64_t *extents) {
  PyObject *tuple = PySequence_Tuple(sequence);
  if (!tuple)
    return refuse_extents(sequence);
  Py_ssize_t count = PyTuple_Size(tuple);
  if (count > BP_PY_MAX_NDIM)
    PyErr_Format(PyExc_ValueError, "at most %d dimensions are possible", BP_PY_MAX_NDIM);
  for (Py_ssize_t i = 0; !PyErr_Occurred() && i < count; i++)
    extents[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
  Py_DECREF(tuple);
  return PyErr_Occurred() ? refuse_extents(sequence) : (int)count;
}

/* ---- Buffers ----------------------------------------------------------------------------- */

/* Parses a format of the buffer protocol as an element type. */
static int parse_format(const Py_buffer *buffer, BpDataType *dtype) {
  const char *format = buffer->format ? buffer->format : "B";
  int code = -1;
  if (*format && strchr(PY_BIG_ENDIAN ? "@=>!" : "@=<", *format))
    format++;
  if (*format && strchr("<>!", *format)) {
    PyErr_SetString(PyExc_TypeError, "the array has another byte order than this machine; pass "
                                     "array.astype(array.dtype.newbyteorder('='))");
    return -1;
  }
  if (*format == 'Z' && format[1] && strchr("efd", format[1]) && !format[2])
    code = BP_DTYPE_COMPLEX;
  else if (*format && !format[1])
    code = *format == '?'             ? BP_DTYPE_BOOL
           : strchr("bhilq", *format) ? BP_DTYPE_INT
           : strchr("BHILQ", *format) ? BP_DTYPE_UINT
           : strchr("efd", *format)   ? BP_DTYPE_FLOAT
                                      : -1;
  if (code < 0 || buffer->itemsize > 16) {
    PyErr_Format(PyExc_TypeError, "an array of elements \"%s\" cannot be passed",
                 buffer->format ? buffer->format : "");
    return -1;
  }
  *dtype = (BpDataType){(uint8_t)code, (uint8_t)(buffer->itemsize * 8), 1};
  return 0;
}

/* Objects of ctypes give no strides: they are compact. */
static int describe_buffer(Lent *lent) {
  const Py_buffer *buffer = &lent->buffer;
  BpTensorView *view = &lent->view;
  Py_ssize_t compact = buffer->itemsize;
  if (buffer->ndim > BP_PY_MAX_NDIM) {
    PyErr_Format(PyExc_ValueError, "at most %d dimensions are possible", BP_PY_MAX_NDIM);
    return -1;
  }
  *view = (BpTensorView){.data = buffer->buf,
                         .device = {BP_DEVICE_CPU, 0},
                         .ndim = buffer->ndim,
                         .shape = lent->extents,
                         .strides = lent->extents + BP_PY_MAX_NDIM};
  for (int i = buffer->ndim - 1; i >= 0; i--) {
    Py_ssize_t stride = buffer->strides ? buffer->strides[i] : compact;
    if (!buffer->strides)
      compact *= buffer->shape[i];
    view->shape[i] = buffer->shape[i];
    view->strides[i] = buffer->itemsize ? stride / buffer->itemsize : 0;
    if (buffer->itemsize && stride % buffer->itemsize) {
      PyErr_SetString(PyExc_ValueError, "the array's strides are no multiples of its elements");
      return -1;
    }
  }
  return parse_format(buffer, &view->dtype);
}

/* Whether an object is a scalar of numpy, which has a read-only buffer, too: 1, 0, or -1. */
static int is_numpy_number(PyObject *object) {
  PyObject *name = PyUnicode_FromString("numpy"), *numpy = name ? PyImport_GetModule(name) : NULL;
  PyObject *class = numpy ? PyObject_GetAttrString(numpy, "generic") : NULL;
  int found = class ? PyObject_IsInstance(object, class) : PyErr_Occurred() ? -1 : 0;
  Py_XDECREF(class);
  Py_XDECREF(numpy);
  Py_XDECREF(name);
  return found;
}

/* Converts a scalar of numpy to a Python number. */
static int lend_number(PyObject *object, BpValue *value, Lent *lent) {
  PyObject *item = PyObject_CallMethod(object, "item", NULL);
  int status = -1;
  if (item && (PyLong_Check(item) || PyFloat_Check(item)))
    status = bp_py_to_value(item, value, lent);
  else if (item)
    PyErr_Format(PyExc_TypeError, "%.80R cannot be passed to a function of the library", object);
  Py_XDECREF(item);
  return status;
}

/* Sets the exception for a read-only array; returns -1. */
static int refuse_read_only(void) {
  PyErr_SetString(PyExc_ValueError, "the array is read-only; functions may write to what they are "
                                    "given, so pass a copy");
  return -1;
}

static int lend_buffer(PyObject *object, BpValue *value, Lent *lent, int flags) {
  if (PyObject_GetBuffer(object, &lent->buffer, flags | PyBUF_FORMAT) < 0) {
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    int is_number = is_numpy_number(object);
    if (is_number) {
      Py_XDECREF(type);
      Py_XDECREF(error);
      Py_XDECREF(traceback);
      return is_number < 0 ? -1 : lend_number(object, value, lent);
    }
    PyErr_Restore(type, error, traceback);
    if ((flags & PyBUF_WRITABLE) &&
        (PyErr_ExceptionMatches(PyExc_BufferError) || PyErr_ExceptionMatches(PyExc_ValueError))) {
      PyErr_Clear();
      refuse_read_only();
    }
    return -1;
  }
  lent->has_buffer = 1;
  *value = (BpValue){.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &lent->view};
  return describe_buffer(lent);
}

/* ---- From Python ------------------------------------------------------------------------- */

static void own(BpValue *value, Lent *lent, int32_t type_index, void *object) {
  *value = (BpValue){.type_index = type_index, .v_obj = object};
  lent->owns_value = 1;
}

static int lend_text(PyObject *object, BpValue *value, Lent *lent) {
  Py_ssize_t size;
  const char *text = PyUnicode_AsUTF8AndSize(object, &size);
  if (!text)
    return -1;
  lent->owns_value = 1;
  return bp_value_make_str(value, text, (size_t)size) ? (bp_py_raise(), -1) : 0;
}

static int lend_bytes(PyObject *object, BpValue *value, Lent *lent) {
  char *data;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(object, &data, &size) < 0)
    return -1;
  lent->bytes = (BpByteArray){data, (size_t)size};
  *value = (BpValue){.type_index = BP_TYPE_BYTE_ARRAY, .v_ptr = &lent->bytes};
  return 0;
}

static int is_shape(PyObject *tuple) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); i++) {
    PyObject *item = PyTuple_GetItem(tuple, i);
    if (!PyLong_Check(item) || PyBool_Check(item))
      return 0;
  }
  return 1;
}

/* A list owns its values. A list may contain itself, or be deeply nested, so its depth is
 * limited. */
static int lend_list(PyObject *tuple, BpValue *value, Lent *lent) {
  Py_ssize_t count = PyTuple_Size(tuple), made = 0;
  if (Py_EnterRecursiveCall(" while a list is passed to a function of the library"))
    return -1;
  BpValue *values = calloc((size_t)count + 1, sizeof(*values));
  BpArray *array = NULL;
  if (!values)
    PyErr_NoMemory();
  while (values && made < count &&
         bp_py_to_owned_value(PyTuple_GetItem(tuple, made), &values[made]) == 0)
    made++;
  if (!PyErr_Occurred() && !(array = bp_array_create(values, (size_t)count)))
    bp_py_raise();
  for (Py_ssize_t i = 0; i < made; i++)
    bp_value_clear(&values[i]);
  free(values);
  Py_LeaveRecursiveCall();
  if (array)
    own(value, lent, BP_TYPE_ARRAY, array);
  return array ? 0 : -1;
}

static int lend_sequence(PyObject *object, BpValue *value, Lent *lent) {
  int64_t extents[BP_PY_MAX_NDIM];
  PyObject *tuple = PySequence_Tuple(object);
  int status = -1;
  if (!tuple)
    return -1;
  if (PyTuple_Size(tuple) > BP_PY_MAX_NDIM || !is_shape(tuple)) {
    status = lend_list(tuple, value, lent);
  } else {
    int count = bp_py_get_extents(tuple, extents);
    BpShape *shape = count < 0 ? NULL : bp_shape_create(extents, (size_t)count);
    if (shape) {
      own(value, lent, BP_TYPE_SHAPE, shape);
      status = 0;
    } else {
      bp_py_raise();
    }
  }
  Py_DECREF(tuple);
  return status;
}

static int may_be_lent(const BpTensor *tensor, int flags) {
  return !(flags & PyBUF_WRITABLE) || !bp_tensor_is_read_only(tensor);
}

static int lend_other(PyObject *object, BpValue *value, Lent *lent, int flags) {
  if (bp_py_device_class && PyObject_IsInstance(object, bp_py_device_class) == 1) {
    value->type_index = BP_TYPE_DEVICE;
    return bp_py_get_device(object, &value->v_device);
  }
  if (PyObject_CheckBuffer(object))
    return lend_buffer(object, value, lent, flags);
  if (PyTuple_Check(object) || PyList_Check(object))
    return lend_sequence(object, value, lent);
  if (PyObject_HasAttrString(object, "__dlpack__")) {
    BpTensor *tensor = bp_py_tensor_from_dlpack(object);
    if (tensor)
      own(value, lent, BP_TYPE_TENSOR, tensor);
    return !tensor ? -1 : may_be_lent(tensor, flags) ? 0 : refuse_read_only();
  }
  if (PyCallable_Check(object)) {
    BpFunction *function = bp_py_function_of(object);
    if (function)
      own(value, lent, BP_TYPE_FUNCTION, function);
    return function ? 0 : -1;
  }
  PyErr_Format(PyExc_TypeError, "%.80R cannot be passed to a function of the library", object);
  return -1;
}

/* flags of the buffer protocol: PyBUF_STRIDED, or PyBUF_STRIDED_RO for memory that is only read. */
static int lend(PyObject *object, BpValue *value, Lent *lent, int flags) {
  PyTypeObject *type = Py_TYPE(object);
  lent->owns_value = 0;
  lent->has_buffer = 0;
  *value = (BpValue){.type_index = BP_TYPE_NONE};
  if (type == bp_py_tensor_type || type == bp_py_function_type || type == bp_py_module_type) {
    BpObject *held = ((Holder *)object)->object;
    *value = (BpValue){.type_index = held->type_index, .v_obj = held};
    if (type == bp_py_function_type) /* so that the garbage collector sees this reference */
      own(value, lent, held->type_index, bp_object_retain(held));
    if (type == bp_py_tensor_type && !may_be_lent((const BpTensor *)held, flags))
      return refuse_read_only();
    return 0;
  }
  if (object == Py_None)
    return 0;
  if (PyBool_Check(object)) {
    *value = (BpValue){.type_index = BP_TYPE_BOOL, .v_int64 = object == Py_True};
    return 0;
  }
  if (PyLong_Check(object)) {
    *value = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = PyLong_AsLongLong(object)};
    return value->v_int64 == -1 && PyErr_Occurred() ? -1 : 0;
  }
  if (PyFloat_Check(object)) {
    *value = (BpValue){.type_index = BP_TYPE_FLOAT, .v_float64 = PyFloat_AsDouble(object)};
    return 0;
  }
  if (PyUnicode_Check(object))
    return lend_text(object, value, lent);
  if (PyBytes_Check(object))
    return lend_bytes(object, value, lent);
  if (lend_other(object, value, lent, flags) == 0)
    return 0;
  bp_py_end_lending(value, lent);
  return -1;
}

int bp_py_to_value(PyObject *object, BpValue *value, Lent *lent) {
  return lend(object, value, lent, PyBUF_STRIDED);
}

int bp_py_to_value_for_reading(PyObject *object, BpValue *value, Lent *lent) {
  if (Py_TYPE(object) == bp_py_tensor_type || PyBytes_Check(object) ||
      !PyObject_CheckBuffer(object))
    return lend(object, value, lent, PyBUF_STRIDED_RO);
  lent->owns_value = 0;
  lent->has_buffer = 0;
  if (lend_buffer(object, value, lent, PyBUF_STRIDED_RO) == 0)
    return 0;
  bp_py_end_lending(value, lent);
  return -1;
}

int bp_py_to_owned_value(PyObject *object, BpValue *value) {
  Lent lent;
  int status = 0;
  if (bp_py_to_value(object, value, &lent) < 0)
    return -1;
  if (value->type_index == BP_TYPE_BYTE_ARRAY) {
    if (bp_value_make_bytes(value, lent.bytes.data, lent.bytes.size))
      status = (bp_py_raise(), -1);
  } else if (value->type_index == BP_TYPE_TENSOR_VIEW) {
    bp_py_end_lending(value, &lent);
    BpTensor *tensor = bp_py_tensor_from_dlpack(object);
    *value = (BpValue){.type_index = tensor ? BP_TYPE_TENSOR : BP_TYPE_NONE,
                       .v_obj = (BpObject *)tensor};
    status = tensor ? 0 : -1;
  } else if (!lent.owns_value && value->type_index >= BP_TYPE_OBJECT) {
    bp_object_retain(value->v_obj);
  }
  return status;
}

void bp_py_end_lending(BpValue *value, Lent *lent) {
  if (lent->owns_value)
    bp_value_clear(value);
  if (lent->has_buffer)
    PyBuffer_Release(&lent->buffer);
  lent->owns_value = 0;
  lent->has_buffer = 0;
}

/* ---- To Python --------------------------------------------------------------------------- */

static PyObject *make_list(const BpArray *array) {
  PyObject *list = PyList_New((Py_ssize_t)array->size);
  for (Py_ssize_t i = 0; list && i < array->size; i++) {
    BpValue item = array->data[i];
    if (item.type_index >= BP_TYPE_OBJECT)
      bp_object_retain(item.v_obj);
    PyObject *object = bp_py_from_value(&item);
    if (!object || PyList_SetItem(list, i, object) < 0)
      Py_CLEAR(list);
  }
  return list;
}

static PyObject *make_dtype(BpDataType dtype) {
  char text[32];
  bp_dtype_format(dtype, text, sizeof text);
  return PyUnicode_FromString(text);
}

/* Makes the Python object of a value's object: an object with a Python type of its own keeps the
 * reference. */
static PyObject *from_object(BpValue *value) {
  BpObject *object = value->v_obj;
  switch (value->type_index) {
  case BP_TYPE_TENSOR:
    return bp_py_hold(bp_py_tensor_type, object);
  case BP_TYPE_FUNCTION:
    return bp_py_hold(bp_py_function_type, object);
  case BP_TYPE_MODULE:
    return bp_py_hold(bp_py_module_type, object);
  default:
    break;
  }
  PyObject *made = NULL;
  if (value->type_index == BP_TYPE_SHAPE)
    made = bp_py_make_extents(((BpShape *)object)->data, (int64_t)((BpShape *)object)->size);
  else if (value->type_index == BP_TYPE_ARRAY)
    made = make_list((const BpArray *)object);
  else
    PyErr_Format(PyExc_TypeError, "a result of type %s has no Python type",
                 bp_type_name(value->type_index));
  bp_value_clear(value);
  return made;
}

static PyObject *from_text(BpValue *value) {
  BpByteArray view;
  PyObject *made = NULL;
  int32_t type = value->type_index;
  int is_bytes = type == BP_TYPE_BYTES || type == BP_TYPE_SMALL_BYTES || type == BP_TYPE_BYTE_ARRAY;
  if (bp_value_view_str(value, &view))
    bp_py_raise();
  else if (is_bytes)
    made = PyBytes_FromStringAndSize(view.data, (Py_ssize_t)view.size);
  else
    made = PyUnicode_DecodeUTF8(view.data, (Py_ssize_t)view.size, "surrogateescape");
  bp_value_clear(value);
  return made;
}

PyObject *bp_py_from_value(BpValue *value) {
  switch (value->type_index) {
  case BP_TYPE_NONE:
    return Py_NewRef(Py_None);
  case BP_TYPE_INT:
    return PyLong_FromLongLong(value->v_int64);
  case BP_TYPE_BOOL:
    return PyBool_FromLong(value->v_int64 != 0);
  case BP_TYPE_FLOAT:
    return PyFloat_FromDouble(value->v_float64);
  case BP_TYPE_POINTER:
    return PyLong_FromVoidPtr(value->v_ptr);
  case BP_TYPE_DTYPE:
    return make_dtype(value->v_dtype);
  case BP_TYPE_DEVICE:
    return bp_py_make_device(value->v_device);
  case BP_TYPE_RAW_STR:
  case BP_TYPE_BYTE_ARRAY:
  case BP_TYPE_SMALL_STR:
  case BP_TYPE_SMALL_BYTES:
  case BP_TYPE_STR:
  case BP_TYPE_BYTES:
    return from_text(value);
  default:
    return from_object(value);
  }
}
