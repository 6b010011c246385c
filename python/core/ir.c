/* SPDX-License-Identifier: Apache-2.0 */
/* IR modules: lowered functions, before code generation. */
#include "core.h"

#include <string.h>

#include <backplane/compiler/ir.h>
#include <backplane/compiler/kernels.h>
#include <backplane/device.h>
#include <backplane/target.h>

#define MAX_ARGS 64

static PyTypeObject *ir_type;

static BpIrModule *ir_of(PyObject *self) {
  return (BpIrModule *)(void *)((Holder *)self)->object;
}

PyObject *bp_py_hold_ir(BpIrModule *module) {
  return bp_py_hold(ir_type, module);
}

static PyObject *ir_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  const char *text;
  Py_ssize_t size;
  (void)keywords;
  if (!PyArg_ParseTuple(args, "s#", &text, &size))
    return NULL;
  return bp_py_hold(type, bp_ir_parse(text, (size_t)size));
}

static PyObject *ir_str(PyObject *self) {
  char *text = bp_ir_print(ir_of(self));
  PyObject *object = text ? PyUnicode_FromString(text) : bp_py_raise();
  bp_str_free(text);
  return object;
}

static PyObject *verify(PyObject *self, PyObject *ignored) {
  (void)ignored;
  return bp_ir_verify(ir_of(self)) ? bp_py_raise() : Py_NewRef(Py_None);
}

/* (target, or the text of a target) */
static PyObject *build(PyObject *self, PyObject *given) {
  PyObject *target = PyUnicode_Check(given)
                         ? PyObject_CallFunctionObjArgs((PyObject *)bp_py_target_type, given, NULL)
                         : Py_NewRef(given);
  BpTarget *held = target ? bp_py_held(target, bp_py_target_type) : NULL;
  PyObject *built = NULL;
  if (held) {
    BpModule *module;
    Py_BEGIN_ALLOW_THREADS module = bp_target_build(ir_of(self), held);
    Py_END_ALLOW_THREADS built = bp_py_hold(bp_py_module_type, module);
  }
  Py_XDECREF(target);
  return built;
}

/* (function, arguments): interprets the function */
static PyObject *interpret(PyObject *self, PyObject *args) {
  const char *name;
  PyObject *sequence;
  BpValue values[MAX_ARGS];
  Lent lents[MAX_ARGS];
  int made = 0, status = -1;
  if (!PyArg_ParseTuple(args, "sO", &name, &sequence))
    return NULL;
  PyObject *objects = PySequence_Tuple(sequence);
  if (!objects)
    return NULL;
  int count = (int)PyTuple_Size(objects);
  if (count > MAX_ARGS) {
    Py_DECREF(objects);
    return PyErr_Format(PyExc_ValueError, "at most %d arguments are possible", MAX_ARGS);
  }
  while (made < count &&
         bp_py_to_value(PyTuple_GetItem(objects, made), &values[made], &lents[made]) == 0)
    made++;
  if (made == count) {
    Py_BEGIN_ALLOW_THREADS status = bp_ir_interpret(ir_of(self), name, values, count);
    Py_END_ALLOW_THREADS if (status) bp_py_raise();
  }
  for (int i = 0; i < made; i++)
    bp_py_end_lending(&values[i], &lents[i]);
  Py_DECREF(objects);
  return status ? NULL : Py_NewRef(Py_None);
}

/* ---- Parameters -------------------------------------------------------------------------- */

/* Returns the extents of a buffer, -1 for an extent that is not a constant; None for a scalar. */
static PyObject *describe_shape(const BpIrTable *ir, const BpIrNode *param) {
  int64_t extents[MAX_ARGS];
  int32_t ndim = ir->num_operands(param);
  if (ir->kind(param) != BP_IR_BUFFER)
    return Py_NewRef(Py_None);
  if (ndim > MAX_ARGS)
    return PyErr_Format(PyExc_ValueError, "at most %d dimensions are possible", MAX_ARGS);
  for (int32_t k = 0; k < ndim; k++) {
    const BpIrNode *extent = ir->operand(param, k);
    extents[k] = ir->kind(extent) == BP_IR_INT_IMM ? ir->int_value(extent) : -1;
  }
  return bp_py_make_extents(extents, ndim);
}

/* (function) -> [(name, dtype, shape)] */
static PyObject *describe_params(PyObject *self, PyObject *args) {
  const BpIrTable *ir = bp_ir_table();
  const char *name;
  if (!PyArg_ParseTuple(args, "s", &name))
    return NULL;
  const BpIrNode *function = bp_ir_module_find(ir_of(self), name);
  if (!function) {
    bp_error_raise(BP_ERROR_NOT_FOUND, "the module has no function '%s'", name);
    return bp_py_raise();
  }
  int32_t count = (int32_t)ir->int_value(function);
  PyObject *list = PyList_New(count);
  for (int32_t i = 0; list && i < count; i++) {
    const BpIrNode *param = ir->operand(function, i);
    char dtype[32];
    bp_dtype_format(ir->dtype(param), dtype, sizeof dtype);
    PyObject *shape = describe_shape(ir, param);
    PyObject *item = shape ? Py_BuildValue("ssN", ir->str_value(param), dtype, shape) : NULL;
    if (!item || PyList_SetItem(list, i, item) < 0)
      Py_CLEAR(list);
  }
  return list;
}

/* ---- Kernels ----------------------------------------------------------------------------- */

static PyObject *describe_kernel(const BpKernelLaunch *kernel) {
  int64_t args[MAX_ARGS], extents[BP_KERNEL_MAX_LAUNCH];
  if (kernel->num_args > MAX_ARGS)
    return PyErr_Format(PyExc_ValueError, "at most %d arguments are possible", MAX_ARGS);
  for (int32_t i = 0; i < kernel->num_launch; i++)
    extents[i] = bp_ir_table()->int_value(kernel->launch[i]);
  for (int32_t i = 0; i < kernel->num_args; i++)
    args[i] = kernel->args[i];
  PyObject *numbers = bp_py_make_extents(args, kernel->num_args);
  PyObject *launch = numbers ? bp_py_make_extents(extents, kernel->num_launch) : NULL;
  if (launch)
    return Py_BuildValue("sNN", kernel->name, numbers, launch);
  Py_XDECREF(numbers);
  return NULL;
}

static PyObject *describe_buffer(const BpKernelList *list, int32_t index) {
  char dtype[32];
  bp_dtype_format(list->buffer_dtypes[index], dtype, sizeof dtype);
  return Py_BuildValue("sL", dtype,
                       (long long)bp_ir_table()->int_value(list->buffer_elements[index]));
}

static PyObject *describe_all(const BpKernelList *list) {
  PyObject *kernels = PyList_New(list->num_kernels), *buffers = PyList_New(list->num_buffers);
  for (int32_t i = 0; kernels && i < list->num_kernels; i++) {
    PyObject *kernel = describe_kernel(bp_kernel_list_get(list, i));
    if (!kernel || PyList_SetItem(kernels, i, kernel) < 0)
      Py_CLEAR(kernels);
  }
  for (int32_t i = 0; buffers && i < list->num_buffers; i++) {
    PyObject *buffer = describe_buffer(list, i);
    if (!buffer || PyList_SetItem(buffers, i, buffer) < 0)
      Py_CLEAR(buffers);
  }
  if (kernels && buffers)
    return Py_BuildValue("NN", kernels, buffers);
  Py_XDECREF(kernels);
  Py_XDECREF(buffers);
  return NULL;
}

/* (function) -> (IR of its kernels, [(name, arguments, launch)], [(dtype, elements)]) */
static PyObject *split_kernels(PyObject *self, PyObject *args) {
  const char *name;
  if (!PyArg_ParseTuple(args, "s", &name))
    return NULL;
  BpIrModule *kernels = bp_ir_module_create();
  const BpKernelList *list = kernels ? bp_ir_split_kernels(ir_of(self), name, 1, kernels) : NULL;
  if (!list) {
    bp_object_release(kernels);
    return bp_py_raise();
  }
  if (list->num_scalars > 0) {
    bp_object_release(kernels);
    return PyErr_Format(PyExc_NotImplementedError,
                        "function '%s' takes scalars; its kernels have no fixed launch", name);
  }
  PyObject *lists = describe_all(list), *held = bp_py_hold(ir_type, kernels);
  if (lists && held)
    return Py_BuildValue("NN", held, lists);
  Py_XDECREF(held);
  Py_XDECREF(lists);
  return NULL;
}

static PyMethodDef methods[] = {
    {"verify", verify, METH_NOARGS, "verify($self, /)\n--\n\nChecks types, operands and scopes."},
    {"build", build, METH_O, "build($self, target, /)\n--\n\nGenerates code for a target."},
    {"interpret", interpret, METH_VARARGS,
     "interpret($self, function, args, /)\n--\n\nRuns a function on the reference interpreter."},
    {"params", describe_params, METH_VARARGS,
     "params($self, function, /)\n--\n\n(name, dtype, shape) of a function's parameters."},
    {"split_kernels", split_kernels, METH_VARARGS,
     "split_kernels($self, function, /)\n--\n\nThe kernels of a function, whose last parameter is "
     "its result."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"Lowered functions; made of their text form."},
    {Py_tp_new, (void *)ir_new},
    {Py_tp_str, (void *)ir_str},
    {Py_tp_methods, methods},
    {Py_tp_dealloc, (void *)bp_py_dealloc_holder},
    {0, NULL},
};
static PyType_Spec spec = {"backplane.IrModule", sizeof(Holder), 0, Py_TPFLAGS_DEFAULT, slots};

int bp_py_add_ir(PyObject *module) {
  ir_type = bp_py_add_type(module, &spec);
  return ir_type ? 0 : -1;
}
