/* SPDX-License-Identifier: Apache-2.0 */
/* The extension backplane._core: objects of the C API as Python objects. Limited API of
 * Python 3.11; the interpreter's lock is let go wherever the library may take time. */
#ifndef BACKPLANE_PYTHON_CORE_H
#define BACKPLANE_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <backplane/compiler/ir.h>
#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/tensor.h>

/* A reference to an object of the library: a Tensor, a Function, a Module, a Target, an IrModule.
 */
typedef struct Holder {
  PyObject_HEAD BpObject *object;
} Holder;

extern PyTypeObject *bp_py_tensor_type;
extern PyTypeObject *bp_py_function_type;
extern PyTypeObject *bp_py_module_type;
extern PyTypeObject *bp_py_target_type;

/* Makes one (takes the reference to `object`; NULL: the error that was raised is set). */
PyObject *bp_py_hold(PyTypeObject *type, void *object);
/* The object of an argument of that type, or NULL with an exception. */
void *bp_py_held(PyObject *value, PyTypeObject *type);

/* ---- Errors: errors.c -------------------------------------------------------------------- */

/* Sets this thread's error as an exception of the class that fits its kind. Returns NULL. */
PyObject *bp_py_raise(void);
/* Raises the exception that is set as an error of the library: the way back, in callbacks. -1. */
int bp_py_raise_in_library(void);
/* Classes by error kind, a dict; and the one for other kinds. */
int bp_py_set_error_classes(PyObject *classes, PyObject *base);

/* ---- Values: value.c --------------------------------------------------------------------- */

#define BP_PY_MAX_NDIM 16

/* What an argument needs while it is in use. */
typedef struct Lent {
  int owns_value; /* the value is to be cleared */
  int has_buffer;
  Py_buffer buffer;
  BpTensorView view;
  BpByteArray bytes;
  int64_t extents[2 * BP_PY_MAX_NDIM];
} Lent;

/* Makes an argument of a Python object, which must stay: None, numbers, text, bytes, our objects,
 * Device, sequences, whatever has the buffer protocol or __dlpack__ (without a copy), callables. */
int bp_py_to_value(PyObject *object, BpValue *value, Lent *lent);
/* The same for what is only read: memory that may not be written will do. */
int bp_py_to_value_for_reading(PyObject *object, BpValue *value, Lent *lent);
void bp_py_end_lending(BpValue *value, Lent *lent);
/* The same for who keeps it: bytes and arrays become objects that own or share their memory. */
int bp_py_to_owned_value(PyObject *object, BpValue *value);
/* A Python object of a value: takes what the value owns. */
PyObject *bp_py_from_value(BpValue *value);

/* The class of devices, a tuple of type and index. */
extern PyObject *bp_py_device_class;
int bp_py_get_device(PyObject *object, BpDevice *device);
PyObject *bp_py_make_device(BpDevice device);
PyObject *bp_py_make_extents(const int64_t *extents, int64_t count);
/* Reads a sequence of integers into `extents`; the count, or -1 with an exception. */
int bp_py_get_extents(PyObject *sequence, int64_t *extents);

/* ---- Types ------------------------------------------------------------------------------- */

/* Makes a function of a callable (transfer full). */
BpFunction *bp_py_function_of(PyObject *callable);
/* Of a function table: (tensor, function, arguments) -> its result. While it runs the tensor's device
 * is the one of its kind that is current in this thread. */
PyObject *bp_py_call_on_device_of(PyObject *self, PyObject *args);
/* A tensor of an object with __dlpack__ (transfer full), or NULL with an exception. */
BpTensor *bp_py_tensor_from_dlpack(PyObject *object);
int bp_py_add_tensor(PyObject *module);
int bp_py_add_function(PyObject *module);
int bp_py_add_module(PyObject *module);
int bp_py_add_model(PyObject *module);
/* The model of an object of that type (borrowed); NULL with an exception. */
struct BpModel *bp_py_get_model(PyObject *object);
int bp_py_add_target(PyObject *module);
int bp_py_add_ir(PyObject *module);
int bp_py_add_te(PyObject *module);

/* An IrModule (takes the reference). */
PyObject *bp_py_hold_ir(BpIrModule *module);
/* Of a function table: (device) -> the text of the target that fits it. */
PyObject *bp_py_target_text_of_device(PyObject *self, PyObject *object);

/* A type made of a spec, added to the module; NULL with an exception. */
PyTypeObject *bp_py_add_type(PyObject *module, PyType_Spec *spec);
void bp_py_dealloc_holder(PyObject *self);

#endif
