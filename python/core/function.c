/* SPDX-License-Identifier: Apache-2.0 */
/* Functions: calling those of the library, and being called by the library. */
#include "core.h"

#include <stdlib.h>

#include <backplane/device.h>

PyTypeObject *bp_py_function_type;

#define FEW 8

/* ---- Calling ----------------------------------------------------------------------------- */

static PyObject *call_with(BpFunction *function, PyObject *args, BpValue *values, Lent *lents) {
  int32_t count = (int32_t)PyTuple_Size(args), made = 0;
  BpValue result = {.type_index = BP_TYPE_NONE};
  int status = -1;
  while (made < count &&
         bp_py_to_value(PyTuple_GetItem(args, made), &values[made], &lents[made]) == 0)
    made++;
  if (made == count) {
    Py_BEGIN_ALLOW_THREADS status = bp_function_call(function, values, count, &result);
    Py_END_ALLOW_THREADS if (status) bp_py_raise();
  }
  for (int32_t i = 0; i < made; i++)
    bp_py_end_lending(&values[i], &lents[i]);
  return status ? NULL : bp_py_from_value(&result);
}

static PyObject *function_call(PyObject *self, PyObject *args, PyObject *keywords) {
  BpFunction *function = (BpFunction *)((Holder *)self)->object;
  if (keywords && PyDict_Size(keywords)) {
    PyErr_SetString(PyExc_TypeError, "packed functions take no keyword arguments");
    return NULL;
  }
  size_t count = (size_t)PyTuple_Size(args);
  if (count <= FEW) {
    BpValue values[FEW];
    Lent lents[FEW];
    return call_with(function, args, values, lents);
  }
  BpValue *values = malloc(count * sizeof(*values));
  Lent *lents = malloc(count * sizeof(*lents));
  PyObject *result = values && lents ? call_with(function, args, values, lents) : PyErr_NoMemory();
  free(values);
  free(lents);
  return result;
}

PyObject *bp_py_call_on_device_of(PyObject *self, PyObject *args) {
  PyObject *object, *function, *arguments;
  int32_t before;
  void *stream;
  (void)self;
  if (!PyArg_ParseTuple(args, "OOO!", &object, &function, &PyTuple_Type, &arguments))
    return NULL;
  const BpTensor *tensor = bp_py_held(object, bp_py_tensor_type);
  if (!tensor || !bp_py_held(function, bp_py_function_type))
    return NULL;
  BpDevice device = tensor->view.device;
  bp_device_get_current(device.device_type, &before, &stream);
  if (before == device.device_id)
    return function_call(function, arguments, NULL);
  if (bp_device_set_current(device, NULL))
    return bp_py_raise();
  PyObject *result = function_call(function, arguments, NULL);
  if (bp_device_set_current((BpDevice){device.device_type, before}, stream) && result) {
    Py_DECREF(result);
    return bp_py_raise();
  }
  return result;
}

/* ---- Calls by the library ---------------------------------------------------------------- */

/* Makes a Python object from an argument. A view is lent for the call: its tensor is emptied
 * afterwards. */
static PyObject *make_argument(const BpValue *value, BpTensor **lent) {
  BpValue copy = *value;
  if (value->type_index == BP_TYPE_TENSOR_VIEW) {
    *lent = bp_tensor_wrap(value->v_view, NULL, NULL);
    return *lent ? bp_py_hold(bp_py_tensor_type, bp_object_retain(*lent)) : bp_py_raise();
  }
  if (copy.type_index >= BP_TYPE_OBJECT)
    bp_object_retain(copy.v_obj);
  return bp_py_from_value(&copy);
}

static void end_lending_tensor(BpTensor *tensor) {
  if (!tensor)
    return;
  tensor->view.data = NULL;
  for (int32_t i = 0; i < tensor->view.ndim; i++)
    tensor->view.shape[i] = 0;
  bp_object_release(tensor);
}

static int call_python(PyObject *callable, const BpValue *args, int32_t count, BpValue *result) {
  PyObject *tuple = PyTuple_New(count), *returned = NULL;
  BpTensor **lent = calloc((size_t)count + 1, sizeof(BpTensor *));
  int status = -1;
  if (!lent)
    PyErr_NoMemory();
  for (int32_t i = 0; tuple && lent && i < count; i++) {
    PyObject *argument = make_argument(&args[i], &lent[i]);
    if (!argument || PyTuple_SetItem(tuple, i, argument) < 0)
      Py_CLEAR(tuple);
  }
  if (tuple && lent)
    returned = PyObject_CallObject(callable, tuple);
  if (returned)
    status = bp_py_to_owned_value(returned, result);
  Py_XDECREF(returned);
  Py_XDECREF(tuple);
  for (int32_t i = 0; lent && i < count; i++)
    end_lending_tensor(lent[i]);
  free(lent);
  return status;
}

static int call_callable(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  PyObject *callable = ((BpClosure *)self)->context;
  if (!Py_IsInitialized())
    return bp_error_raise(BP_ERROR_RUNTIME, "Python has ended, and so has its function");
  PyGILState_STATE state = PyGILState_Ensure();
  int status = call_python(callable, args, num_args, result);
  if (status)
    status = bp_py_raise_in_library();
  PyGILState_Release(state);
  return status;
}

/* After Python has ended, its objects no longer exist. */
static void release_callable(void *context) {
  if (!Py_IsInitialized())
    return;
  PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF((PyObject *)context);
  PyGILState_Release(state);
}

BpFunction *bp_py_function_of(PyObject *callable) {
  BpFunction *function = bp_function_create(call_callable, Py_NewRef(callable), release_callable);
  if (!function)
    bp_py_raise();
  return function;
}

static PyObject *function_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  PyObject *callable;
  (void)type;
  (void)keywords;
  if (!PyArg_ParseTuple(args, "O", &callable))
    return NULL;
  if (!PyCallable_Check(callable)) {
    PyErr_Format(PyExc_TypeError, "a function is made of a callable, not of %.80R", callable);
    return NULL;
  }
  BpFunction *function = bp_py_function_of(callable);
  return function ? bp_py_hold(bp_py_function_type, function) : NULL;
}

/* A callable may refer to its own function. A function's Python object alone owns the callable
 * while there is no other reference, strong or weak, through which the library could use it. A
 * function in a cycle needs no tp_clear: another object in the cycle was changed after it was
 * made. */
static int function_traverse(PyObject *self, visitproc visit, void *arg) {
  const BpFunction *function = (const BpFunction *)((Holder *)self)->object;
  const uint64_t alone = (UINT64_C(1) << 32) + 1;
  Py_VISIT(Py_TYPE(self));
  if (function && function->call == call_callable &&
      __atomic_load_n(&function->header.combined_count, __ATOMIC_ACQUIRE) == alone)
    Py_VISIT((PyObject *)((const BpClosure *)function)->context);
  return 0;
}

static void function_dealloc(PyObject *self) {
  PyObject_GC_UnTrack(self);
  bp_py_dealloc_holder(self);
}

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"Function(callable, /)\n--\n\nA packed function, made of a callable."},
    {Py_tp_new, (void *)function_new},
    {Py_tp_call, (void *)function_call},
    {Py_tp_traverse, (void *)function_traverse},
    {Py_tp_dealloc, (void *)function_dealloc},
    {0, NULL},
};
static PyType_Spec spec = {"backplane.Function", sizeof(Holder), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

int bp_py_add_function(PyObject *module) {
  bp_py_function_type = bp_py_add_type(module, &spec);
  return bp_py_function_type ? 0 : -1;
}
