/* SPDX-License-Identifier: Apache-2.0 */
/* Models: one context each, which the Python class guards with a lock. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/graph/model.h>
#include <backplane/target.h>

typedef struct ModelObject {
  PyObject_HEAD BpModel *model;
  BpModelContext *context;
} ModelObject;

static PyTypeObject *model_type;

BpModel *bp_py_get_model(PyObject *object) {
  if (PyObject_TypeCheck(object, model_type))
    return ((ModelObject *)object)->model;
  PyErr_SetString(PyExc_TypeError, "expected a backplane.Model");
  return NULL;
}

/* Reads a tuple of devices; returns their number, or -1 with an exception. */
static Py_ssize_t get_devices(PyObject *tuple, BpDevice devices[BP_MODEL_MAX_DEVICES]) {
  Py_ssize_t count = PyTuple_Size(tuple);
  if (count > BP_MODEL_MAX_DEVICES) {
    PyErr_Format(PyExc_ValueError, "a model runs on at most %d devices", BP_MODEL_MAX_DEVICES);
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; i++)
    if (bp_py_get_device(PyTuple_GetItem(tuple, i), &devices[i]) < 0)
      return -1;
  return count;
}

static PyObject *model_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  PyObject *module, *tuple;
  BpDevice devices[BP_MODEL_MAX_DEVICES];
  Py_ssize_t count;
  (void)keywords;
  if (!PyArg_ParseTuple(args, "OO!", &module, &PyTuple_Type, &tuple) ||
      (count = get_devices(tuple, devices)) < 0)
    return NULL;
  BpModule *held = bp_py_held(module, bp_py_module_type);
  ModelObject *self = held ? (ModelObject *)PyType_GenericAlloc(type, 0) : NULL;
  if (!self)
    return NULL;
  Py_BEGIN_ALLOW_THREADS self->model = bp_model_create(held, devices, (size_t)count);
  self->context = self->model ? bp_model_context_create(self->model) : NULL;
  Py_END_ALLOW_THREADS if (self->context) return (PyObject *)self;
  bp_py_raise();
  Py_DECREF(self);
  return NULL;
}

static void model_dealloc(PyObject *object) {
  ModelObject *self = (ModelObject *)object;
  PyTypeObject *type = Py_TYPE(object);
  Py_BEGIN_ALLOW_THREADS bp_model_context_free(self->context);
  bp_model_release(self->model);
  Py_END_ALLOW_THREADS freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

/* Describes an input or output: name, type, shape and kind. An extent of -1 is known only in a run;
 * a type or shape of None is unknown. */
static PyObject *describe(const BpModelTensorInfo *info) {
  static const char *const kinds[] = {"tensor", "sequence", "optional", "optional sequence"};
  char dtype[32];
  bp_dtype_format(info->dtype, dtype, sizeof dtype);
  PyObject *shape =
      info->ndim < 0 ? Py_NewRef(Py_None) : bp_py_make_extents(info->shape, info->ndim);
  return shape ? Py_BuildValue("szNs", info->name, info->dtype.bits ? dtype : NULL, shape,
                               kinds[info->kind & 3])
               : NULL;
}

static PyObject *describe_all(const BpModel *model, int32_t count,
                              const BpModelTensorInfo *(*get)(const BpModel *, int32_t)) {
  PyObject *list = PyList_New(count);
  for (int32_t i = 0; list && i < count; i++) {
    const BpModelTensorInfo *info = get(model, i);
    PyObject *item = info ? describe(info) : bp_py_raise();
    if (!item || PyList_SetItem(list, i, item) < 0)
      Py_CLEAR(list);
  }
  return list;
}

static PyObject *get_inputs(PyObject *self, PyObject *ignored) {
  const BpModel *model = ((ModelObject *)self)->model;
  (void)ignored;
  return describe_all(model, bp_model_num_inputs(model), bp_model_input_info);
}

static PyObject *get_outputs(PyObject *self, PyObject *ignored) {
  const BpModel *model = ((ModelObject *)self)->model;
  (void)ignored;
  return describe_all(model, bp_model_num_outputs(model), bp_model_output_info);
}

/* Copies the elements of a view, from dimension `axis` on, to consecutive memory. */
static char *gather(char *to, const char *from, const BpTensorView *view, int32_t axis,
                    size_t size) {
  if (axis == view->ndim) {
    memcpy(to, from, size);
    return to + size;
  }
  for (int64_t i = 0; i < view->shape[axis]; i++)
    to = gather(to, from + i * view->strides[axis] * (int64_t)size, view, axis + 1, size);
  return to;
}

/* Whether an input has that shape: a view may claim more elements than there is memory. */
static int has_shape_of_input(const BpModel *model, const char *name, const BpTensorView *view) {
  for (int32_t i = 0; i < bp_model_num_inputs(model); i++) {
    const BpModelTensorInfo *info = bp_model_input_info(model, i);
    if (strcmp(info->name, name))
      continue;
    int matches = info->ndim == view->ndim;
    for (int32_t k = 0; matches && k < info->ndim; k++)
      matches = info->shape[k] == -1 || info->shape[k] == view->shape[k];
    return matches;
  }
  return 0;
}

/* Whether the host can resolve the strides of a view: not those of packed elements smaller than a
 * byte. The model requires compact inputs. */
static int has_strides(const BpTensorView *view) {
  return view->device.device_type == BP_DEVICE_CPU && !bp_view_is_compact(view) &&
         view->dtype.bits % 8 == 0;
}

/* Makes a compact copy of a view, whose data the caller frees. */
static int make_compact(const char *name, const BpTensorView *view, BpTensorView *compact) {
  int64_t bytes = bp_view_num_bytes(view);
  if (bytes < 0)
    return -1;
  *compact = *view;
  compact->data = malloc((size_t)bytes + 1);
  if (!compact->data)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for a compact copy of input '%s'", name);
  gather(compact->data, (const char *)view->data + view->byte_offset, view, 0,
         bp_dtype_bytes(view->dtype));
  compact->byte_offset = 0;
  compact->strides = NULL;
  return 0;
}

/* Sets an input; the model reports errors. */
static int set_from_view(const ModelObject *self, const char *name, const BpTensorView *view) {
  BpTensorView compact;
  if (!has_strides(view) || !has_shape_of_input(self->model, name, view))
    return bp_model_set_input(self->context, name, view);
  if (make_compact(name, view, &compact))
    return -1;
  int status = bp_model_set_input(self->context, name, &compact);
  free(compact.data);
  return status;
}

/* The deleter of a tensor that keep_lent made: releases the array. */
static void release_array(void *context) {
  Py_buffer *buffer = context;
  PyGILState_STATE state = PyGILState_Ensure();
  PyBuffer_Release(buffer);
  PyGILState_Release(state);
  free(buffer);
}

/* Makes a tensor that takes over the lent memory (transfer full). After a failure, NULL with an
 * error, and the caller still ends `lent`. */
static BpTensor *keep_lent(BpValue *value, Lent *lent) {
  if (value->type_index == BP_TYPE_TENSOR)
    return bp_object_retain(value->v_obj);
  Py_buffer *buffer = malloc(sizeof(*buffer));
  BpTensor *tensor = buffer ? bp_tensor_wrap(&lent->view, release_array, buffer) : NULL;
  if (!tensor) {
    free(buffer);
    bp_error_raise(BP_ERROR_MEMORY, "no memory for an input");
    return NULL;
  }
  *buffer = lent->buffer;
  lent->has_buffer = 0;
  return tensor;
}

/* The alignment at which loads of wide vectors are fast: a matrix product took 1.4 times as long
 * with an unaligned operand. */
#define WIDE_ALIGNMENT 64

/* Whether a run can read an array in place as fast as it would read a copy. */
static int can_bind(const ModelObject *self, const BpTensorView *view) {
  size_t count = 0;
  const BpDevice *devices = bp_model_devices(self->model, &count);
  if (!count || view->device.device_type != devices[0].device_type ||
      view->device.device_id != devices[0].device_id || !bp_view_is_compact(view) ||
      view->dtype.bits % 8)
    return 0;
  return view->device.device_type != BP_DEVICE_CPU ||
         ((uintptr_t)view->data + view->byte_offset) % WIDE_ALIGNMENT == 0;
}

static int raise_no_array(const char *name, PyObject *object) {
  PyObject *type = PyType_GetName(Py_TYPE(object));
  const char *text = type ? PyUnicode_AsUTF8AndSize(type, NULL) : NULL;
  bp_error_raise(BP_ERROR_TYPE, "input '%s' takes an array or a tensor, not a value of type %s",
                 name, text ? text : "?");
  Py_XDECREF(type);
  return -1;
}

/* (name, array). The array is used in place if possible, and is then held until the input is set
 * again; otherwise it is copied. The array may be read-only. */
static PyObject *set_input(PyObject *self, PyObject *args) {
  ModelObject *model = (ModelObject *)self;
  const char *name;
  PyObject *object;
  BpValue value;
  Lent lent;
  int status = -1;
  if (!PyArg_ParseTuple(args, "sO", &name, &object) ||
      bp_py_to_value_for_reading(object, &value, &lent) < 0)
    return NULL;
  const BpTensorView *view = bp_value_view_tensor(&value);
  if (view && can_bind(model, view)) {
    BpTensor *tensor = keep_lent(&value, &lent);
    Py_BEGIN_ALLOW_THREADS if (tensor) status = bp_model_bind_input(model->context, name, tensor);
    bp_tensor_release(tensor);
    Py_END_ALLOW_THREADS
  } else if (view) {
    Py_BEGIN_ALLOW_THREADS status = set_from_view(model, name, view);
    Py_END_ALLOW_THREADS
  } else {
    raise_no_array(name, object);
  }
  bp_py_end_lending(&value, &lent);
  return status ? bp_py_raise() : Py_NewRef(Py_None);
}

/* A tensor for an input that is a list. */
typedef struct Item {
  BpValue value;
  Lent lent;
  BpTensorView compact; /* its data are owned, if a copy was made */
} Item;

/* Takes a tensor of the caller's; NULL, with a Python exception or, if *status is -1, an error. */
static const BpTensorView *take_item(const char *name, PyObject *object, Item *item, int *status) {
  if (bp_py_to_value_for_reading(object, &item->value, &item->lent) < 0)
    return NULL;
  const BpTensorView *view = bp_value_view_tensor(&item->value);
  *status = !view               ? raise_no_array(name, object)
            : has_strides(view) ? make_compact(name, view, &item->compact)
                                : 0;
  return *status ? NULL : item->compact.data ? &item->compact : view;
}

/* (name, tuple of arrays, or None for an optional without a value). The arrays are copied. */
static PyObject *set_input_list(PyObject *self, PyObject *args) {
  BpModelContext *context = ((ModelObject *)self)->context;
  const char *name;
  PyObject *tuple;
  int status = 0;
  if (!PyArg_ParseTuple(args, "sO", &name, &tuple))
    return NULL;
  Py_ssize_t count = tuple == Py_None ? BP_MODEL_NO_VALUE : PyTuple_Size(tuple), done = 0;
  if (tuple != Py_None && count < 0)
    return NULL;
  Item *items = calloc((size_t)(count > 0 ? count : 0) + 1, sizeof(*items));
  const BpTensorView **views = calloc((size_t)(count > 0 ? count : 0) + 1, sizeof(*views));
  if (!items || !views)
    status = bp_error_raise(BP_ERROR_MEMORY, "no memory for input '%s'", name);
  while (!status && done < count) {
    views[done] = take_item(name, PyTuple_GetItem(tuple, done), &items[done], &status);
    if (!views[done++])
      break;
  }
  int is_taken = !status && (done == 0 || views[done - 1]);
  if (is_taken) {
    Py_BEGIN_ALLOW_THREADS status = bp_model_set_input_list(context, name, views, count);
    Py_END_ALLOW_THREADS
  }
  for (Py_ssize_t i = 0; i < done; i++) {
    free(items[i].compact.data);
    bp_py_end_lending(&items[i].value, &items[i].lent);
  }
  free(items);
  free(views);
  return status ? bp_py_raise() : is_taken ? Py_NewRef(Py_None) : NULL;
}

/* (input, output, memory, length) */
static PyObject *bind_cache(PyObject *self, PyObject *args) {
  const char *input, *output;
  PyObject *object;
  long long length;
  int status = -1;
  if (!PyArg_ParseTuple(args, "ssOL", &input, &output, &object, &length))
    return NULL;
  BpTensor *memory = bp_py_held(object, bp_py_tensor_type);
  if (!memory)
    return NULL;
  BpModelContext *context = ((ModelObject *)self)->context;
  Py_BEGIN_ALLOW_THREADS status = bp_model_bind_cache(context, input, output, memory, length);
  Py_END_ALLOW_THREADS return status ? bp_py_raise() : Py_NewRef(Py_None);
}

static PyObject *cache_length(PyObject *self, PyObject *args) {
  const char *input;
  if (!PyArg_ParseTuple(args, "s", &input))
    return NULL;
  int64_t length = bp_model_cache_length(((ModelObject *)self)->context, input);
  return length < 0 ? bp_py_raise() : PyLong_FromLongLong(length);
}

static PyObject *set_cache_length(PyObject *self, PyObject *args) {
  const char *input;
  long long length;
  if (!PyArg_ParseTuple(args, "sL", &input, &length))
    return NULL;
  if (bp_model_set_cache_length(((ModelObject *)self)->context, input, length))
    return bp_py_raise();
  return Py_NewRef(Py_None);
}

/* Copies an output, or a tensor of one: the next run overwrites the model's own memory. */
static BpTensor *copy_output(const BpTensor *output) {
  if (!output)
    return NULL;
  const BpTensorView *view = &output->view;
  BpTensor *copy = bp_tensor_create(view->shape, view->ndim, view->dtype, view->device, NULL);
  if (copy && (bp_tensor_copy(view, &copy->view, NULL) || bp_stream_sync(view->device, NULL))) {
    bp_object_release(copy);
    return NULL;
  }
  return copy;
}

/* An output that is a list: a list of tensors, the tensor of an optional, or None. */
static PyObject *list_output(const ModelObject *self, int32_t index) {
  BpModelContext *context = self->context;
  int64_t length = 0;
  int status;
  Py_BEGIN_ALLOW_THREADS status = bp_model_get_output_length(context, index, &length);
  Py_END_ALLOW_THREADS if (status) return bp_py_raise();
  if (length == BP_MODEL_NO_VALUE)
    return Py_NewRef(Py_None);
  PyObject *list = PyList_New((Py_ssize_t)length), *only;
  for (int64_t i = 0; list && i < length; i++) {
    BpTensor *copy;
    Py_BEGIN_ALLOW_THREADS copy = copy_output(bp_model_get_output_item(context, index, i));
    Py_END_ALLOW_THREADS PyObject *tensor = bp_py_hold(bp_py_tensor_type, copy);
    if (!tensor || PyList_SetItem(list, (Py_ssize_t)i, tensor) < 0)
      Py_CLEAR(list);
  }
  if (!list || bp_model_output_info(self->model, index)->kind & BP_MODEL_SEQUENCE)
    return list;
  only = Py_NewRef(PyList_GetItem(list, 0));
  Py_DECREF(list);
  return only;
}

static PyObject *tensor_output(const ModelObject *self, int32_t index, int is_lent) {
  BpTensor *output;
  Py_BEGIN_ALLOW_THREADS output = bp_model_get_output(self->context, index);
  output = is_lent ? bp_object_retain(output) : copy_output(output);
  Py_END_ALLOW_THREADS return bp_py_hold(bp_py_tensor_type, output);
}

/* (bytes, one for each output: 1 if the output is in the caller's memory, and is not copied) */
static PyObject *run(PyObject *self, PyObject *args) {
  ModelObject *model = (ModelObject *)self;
  int32_t count = bp_model_num_outputs(model->model);
  const char *flags = "";
  Py_ssize_t num_flags = 0;
  int status;
  if (!PyArg_ParseTuple(args, "|y#", &flags, &num_flags))
    return NULL;
  Py_BEGIN_ALLOW_THREADS status = bp_model_run(model->context);
  Py_END_ALLOW_THREADS if (status) return bp_py_raise();
  PyObject *list = PyList_New(count);
  for (int32_t i = 0; list && i < count; i++) {
    PyObject *output = bp_model_output_info(model->model, i)->kind
                           ? list_output(model, i)
                           : tensor_output(model, i, i < num_flags && flags[i]);
    if (!output || PyList_SetItem(list, i, output) < 0)
      Py_CLEAR(list);
  }
  return list;
}

static int add_record(void *visitor, const char *node, const char *function, int64_t start_ns,
                      int64_t duration_ns) {
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject *record =
      Py_BuildValue("ssLL", node, function, (long long)start_ns, (long long)duration_ns);
  int failed = !record || PyList_Append(visitor, record) < 0;
  Py_XDECREF(record);
  PyGILState_Release(state);
  return failed;
}

static PyObject *profile(PyObject *self, PyObject *ignored) {
  PyObject *list = PyList_New(0);
  int status;
  (void)ignored;
  if (!list)
    return NULL;
  Py_BEGIN_ALLOW_THREADS status =
      bp_model_profile(((ModelObject *)self)->context, NULL, add_record, list);
  Py_END_ALLOW_THREADS if (!status && !PyErr_Occurred()) return list;
  Py_DECREF(list);
  return bp_py_raise();
}

static PyMethodDef methods[] = {
    {"inputs", get_inputs, METH_NOARGS, "(name, dtype, shape, kind) of each input."},
    {"outputs", get_outputs, METH_NOARGS, "(name, dtype, shape, kind) of each output."},
    {"set_input", set_input, METH_VARARGS, "Uses an array as an input, in place if possible."},
    {"set_input_list", set_input_list, METH_VARARGS,
     "Copies arrays into an input that is a sequence or an optional."},
    {"bind_cache", bind_cache, METH_VARARGS, "Keeps an input in the caller's memory."},
    {"cache_length", cache_length, METH_VARARGS, "The number of valid rows of a cache."},
    {"set_cache_length", set_cache_length, METH_VARARGS,
     "Sets the number of valid rows of a cache."},
    {"run", run, METH_VARARGS,
     "Runs; the outputs, as tensors or lists of them on the model's device."},
    {"profile", profile, METH_NOARGS, "Runs; (node, function, start ns, duration ns) of each."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"A model on a device; one thread at a time."},
    {Py_tp_new, (void *)model_new},
    {Py_tp_methods, methods},
    {Py_tp_dealloc, (void *)model_dealloc},
    {0, NULL},
};
static PyType_Spec spec = {"backplane._core.Model", sizeof(ModelObject), 0, Py_TPFLAGS_DEFAULT,
                           slots};

int bp_py_add_model(PyObject *module) {
  model_type = bp_py_add_type(module, &spec);
  return model_type ? 0 : -1;
}
