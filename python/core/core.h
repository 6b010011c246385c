/* SPDX-License-Identifier: Apache-2.0 */
/* The extension backplane._core: objects of the C API as Python objects. Limited API of
 * Python 3.11; the interpreter's lock is released wherever a call may take time. */
#ifndef BACKPLANE_PYTHON_CORE_H
#define BACKPLANE_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <backplane/compiler/ir.h>
#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/tensor.h>

/* A Python object with a reference to an object of the library: a Tensor, a Function, a Module, a
 * Target, an IrModule. */
typedef struct Holder {
  PyObject_HEAD BpObject *object;
} Holder;

extern PyTypeObject *bp_py_tensor_type;
extern PyTypeObject *bp_py_function_type;
extern PyTypeObject *bp_py_module_type;
extern PyTypeObject *bp_py_target_type;

/* Makes a Python object (takes the reference to `object`; if `object` is NULL, sets the exception
 * for the raised error). */
PyObject *bp_py_hold(PyTypeObject *type, void *object);
/* Returns the object in an argument of that type; NULL with an exception. */
void *bp_py_held(PyObject *value, PyTypeObject *type);

/* ---- Errors: errors.c -------------------------------------------------------------------- */

/* Converts this thread's error to an exception of the class for its kind. Returns NULL. */
PyObject *bp_py_raise(void);
/* Converts the current exception to an error of the library, in callbacks. Returns -1. */
int bp_py_raise_in_library(void);
/* A dict of exception classes by error kind, and the class for other kinds. */
int bp_py_set_error_classes(PyObject *classes, PyObject *base);

/* ---- Values: value.c --------------------------------------------------------------------- */

#define BP_PY_MAX_NDIM 16

/* Memory of an argument while it is in use. */
typedef struct Lent {
  int owns_value; /* the value must be cleared */
  int has_buffer;
  Py_buffer buffer;
  BpTensorView view;
  BpByteArray bytes;
  int64_t extents[2 * BP_PY_MAX_NDIM];
} Lent;

/* Makes an argument from a Python object, which must outlive it: None, numbers, text, bytes,
 * objects of this module, Device, sequences, objects with the buffer protocol or __dlpack__
 * (without a copy), callables. */
int bp_py_to_value(PyObject *object, BpValue *value, Lent *lent);
/* Makes an argument that is only read: the object's memory may be read-only. */
int bp_py_to_value_for_reading(PyObject *object, BpValue *value, Lent *lent);
void bp_py_end_lending(BpValue *value, Lent *lent);
/* Makes a value that outlives the object: bytes and arrays become objects that own or share their
 * memory. */
int bp_py_to_owned_value(PyObject *object, BpValue *value);
/* Makes a Python object from a value, and takes over the object in the value. */
PyObject *bp_py_from_value(BpValue *value);

/* The class of devices: a tuple of type and index. */
extern PyObject *bp_py_device_class;
int bp_py_get_device(PyObject *object, BpDevice *device);
PyObject *bp_py_make_device(BpDevice device);
PyObject *bp_py_make_extents(const int64_t *extents, int64_t count);
/* Reads a sequence of integers into `extents`; returns their number, or -1 with an exception. */
int bp_py_get_extents(PyObject *sequence, int64_t *extents);

/* ---- Types ------------------------------------------------------------------------------- */

/* Makes a function from a callable (transfer full). */
BpFunction *bp_py_function_of(PyObject *callable);
/* Module function (tensor, function, arguments) -> the function's result. During the call the
 * tensor's device is the current device of its kind in this thread. */
PyObject *bp_py_call_on_device_of(PyObject *self, PyObject *args);
/* Makes a tensor from an object with __dlpack__ (transfer full); NULL with an exception. */
BpTensor *bp_py_tensor_from_dlpack(PyObject *object);
int bp_py_add_tensor(PyObject *module);
int bp_py_add_function(PyObject *module);
int bp_py_add_module(PyObject *module);
int bp_py_add_model(PyObject *module);
/* Returns the model in an object (borrowed); NULL with an exception. */
struct BpModel *bp_py_get_model(PyObject *object);
int bp_py_add_target(PyObject *module);
int bp_py_add_ir(PyObject *module);
int bp_py_add_te(PyObject *module);

/* Makes a Python object of an IrModule (takes the reference). */
PyObject *bp_py_hold_ir(BpIrModule *module);
/* Module function (device) -> the text of the target that fits the device. */
PyObject *bp_py_target_text_of_device(PyObject *self, PyObject *object);

/* Makes a type from a spec, and adds it to the module; NULL with an exception. */
PyTypeObject *bp_py_add_type(PyObject *module, PyType_Spec *spec);
void bp_py_dealloc_holder(PyObject *self);

#endif
