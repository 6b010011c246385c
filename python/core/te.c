/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor expressions. A program owns its objects; a Python object holds a pointer to one, and keeps
 * the program alive. Calls hold Python's lock, so one thread at a time uses a program. */
#include "core.h"

#include <string.h>

#include <backplane/compiler/schedules.h>
#include <backplane/compiler/te.h>

#define MAX_ITEMS 64

typedef struct Program {
  PyObject_HEAD BpTe *te;
} Program;

/* The kind of object that a handle holds. */
typedef enum HandleKind { EXPRESSION, TENSOR, STAGE, AXIS } HandleKind;

typedef struct Handle {
  PyObject_HEAD PyObject *program;
  void *pointer;
  HandleKind kind;
} Handle;

static PyTypeObject *program_type, *handle_type;

static BpTe *te_of(PyObject *self) {
  return ((Program *)self)->te;
}

static BpIrModule *ir_of(PyObject *self) {
  return bp_te_ir(te_of(self));
}

/* ---- Handles ----------------------------------------------------------------------------- */

/* NULL: an exception is set for the raised error. */
static PyObject *give(PyObject *program, const void *pointer, HandleKind kind) {
  if (!pointer)
    return bp_py_raise();
  Handle *handle = (Handle *)PyType_GenericAlloc(handle_type, 0);
  if (!handle)
    return NULL;
  handle->program = Py_NewRef(program);
  handle->pointer = (void *)(uintptr_t)pointer;
  handle->kind = kind;
  return (PyObject *)handle;
}

static void *take(PyObject *program, PyObject *object, HandleKind kind) {
  static const char *const names[] = {"an expression", "a tensor", "a stage", "an axis"};
  Handle *handle = (Handle *)object;
  if (!PyObject_TypeCheck(object, handle_type) || handle->kind != kind) {
    PyErr_Format(PyExc_TypeError, "expected %s", names[kind]);
    return NULL;
  }
  if (handle->program == program)
    return handle->pointer;
  PyErr_Format(PyExc_ValueError, "%s of another program", names[kind]);
  return NULL;
}

/* Reads a sequence of handles; returns their number, or -1 with an exception. */
static int take_all(PyObject *program, PyObject *sequence, HandleKind kind, void **items) {
  PyObject *tuple = PySequence_Tuple(sequence);
  if (!tuple)
    return -1;
  int count = (int)PyTuple_Size(tuple), taken = 0;
  if (count > MAX_ITEMS)
    PyErr_Format(PyExc_ValueError, "%d are more than %d", count, MAX_ITEMS);
  while (!PyErr_Occurred() && taken < count &&
         (items[taken] = take(program, PyTuple_GetItem(tuple, taken), kind)))
    taken++;
  Py_DECREF(tuple);
  return taken == count ? count : -1;
}

static int parse_dtype(const char *text, BpDataType *dtype) {
  if (bp_dtype_parse(text, dtype) == 0)
    return 0;
  bp_py_raise();
  return -1;
}

static PyObject *done(int status) {
  return status ? bp_py_raise() : Py_NewRef(Py_None);
}

static void handle_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  Py_DECREF(((Handle *)self)->program);
  release(self);
  Py_DECREF(type);
}

static PyType_Slot handle_slots[] = {
    {Py_tp_doc, (void *)"An expression, a tensor, a stage or an axis of a program."},
    {Py_tp_dealloc, (void *)handle_dealloc},
    {0, NULL},
};
static PyType_Spec handle_spec = {"backplane._core.TeHandle", sizeof(Handle), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  handle_slots};

/* ---- Programs ---------------------------------------------------------------------------- */

static PyObject *program_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  (void)keywords;
  if (!PyArg_ParseTuple(args, ""))
    return NULL;
  Program *self = (Program *)PyType_GenericAlloc(type, 0);
  if (self && !(self->te = bp_te_create())) {
    Py_DECREF(self);
    return bp_py_raise();
  }
  return (PyObject *)self;
}

static void program_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  if (te_of(self))
    bp_te_free(te_of(self));
  release(self);
  Py_DECREF(type);
}

/* ---- Expressions ------------------------------------------------------------------------- */

static PyObject *get_dtype(PyObject *self, PyObject *object) {
  const BpIrNode *node = take(self, object, EXPRESSION);
  char text[32];
  if (!node)
    return NULL;
  bp_dtype_format(bp_ir_table()->dtype(node), text, sizeof text);
  return PyUnicode_FromString(text);
}

static PyObject *print_expression(PyObject *self, PyObject *object) {
  const BpIrNode *node = take(self, object, EXPRESSION);
  BpValue text;
  if (!node)
    return NULL;
  return bp_ir_table()->print(node, &text) ? bp_py_raise() : bp_py_from_value(&text);
}

/* Reads an integer for a type, as the bits of that type; -1 with an exception if it does not
 * fit. */
static int get_integer(PyObject *number, BpDataType dtype, int64_t *value) {
  int is_wide = dtype.bits >= 64, is_unsigned = dtype.code == BP_DTYPE_UINT;
  if (is_unsigned && is_wide) {
    PyObject *index = PyNumber_Index(number);
    *value = index ? (int64_t)PyLong_AsUnsignedLongLong(index) : 0;
    Py_XDECREF(index);
    return PyErr_Occurred() ? -1 : 0;
  }
  *value = PyLong_AsLongLong(number);
  if (PyErr_Occurred())
    return -1;
  int64_t most = is_wide                       ? INT64_MAX
                 : dtype.code == BP_DTYPE_BOOL ? 1
                                               : (INT64_C(1) << (dtype.bits - !is_unsigned)) - 1;
  int64_t least = is_unsigned || dtype.code == BP_DTYPE_BOOL ? 0 : -most - 1;
  if (*value >= least && *value <= most)
    return 0;
  char text[32];
  bp_dtype_format(dtype, text, sizeof text);
  PyErr_Format(PyExc_OverflowError, "%R is no value of %s", number, text);
  return -1;
}

/* (dtype, number) */
static PyObject *constant(PyObject *self, PyObject *args) {
  const char *name;
  PyObject *number;
  BpDataType dtype;
  if (!PyArg_ParseTuple(args, "sO", &name, &number) || parse_dtype(name, &dtype) < 0)
    return NULL;
  if (dtype.code == BP_DTYPE_FLOAT || dtype.code == BP_DTYPE_BFLOAT) {
    double value = PyFloat_AsDouble(number);
    return PyErr_Occurred() ? NULL : give(self, bp_ir_float(ir_of(self), dtype, value), EXPRESSION);
  }
  int64_t value;
  if (get_integer(number, dtype, &value) < 0)
    return NULL;
  return give(self, bp_ir_int(ir_of(self), dtype, value), EXPRESSION);
}

/* (BP_IR_* kind, a, b) */
static PyObject *binary(PyObject *self, PyObject *args) {
  int kind;
  PyObject *a, *b;
  const BpIrNode *left, *right;
  if (!PyArg_ParseTuple(args, "iOO", &kind, &a, &b) || !(left = take(self, a, EXPRESSION)) ||
      !(right = take(self, b, EXPRESSION)))
    return NULL;
  return give(self, bp_ir_binary(ir_of(self), kind, left, right), EXPRESSION);
}

static PyObject *logical_not(PyObject *self, PyObject *object) {
  const BpIrNode *operand = take(self, object, EXPRESSION);
  return operand ? give(self, bp_ir_not(ir_of(self), operand), EXPRESSION) : NULL;
}

/* (condition, a, b) */
static PyObject *choose(PyObject *self, PyObject *args) {
  void *operands[MAX_ITEMS];
  if (PyTuple_Size(args) != 3) {
    PyErr_SetString(PyExc_TypeError, "select takes a condition and two values");
    return NULL;
  }
  if (take_all(self, args, EXPRESSION, operands) < 0)
    return NULL;
  return give(self, bp_ir_select(ir_of(self), operands[0], operands[1], operands[2]), EXPRESSION);
}

/* (dtype, a) */
static PyObject *cast(PyObject *self, PyObject *args) {
  const char *name;
  PyObject *object;
  const BpIrNode *operand;
  BpDataType dtype;
  if (!PyArg_ParseTuple(args, "sO", &name, &object) || parse_dtype(name, &dtype) < 0 ||
      !(operand = take(self, object, EXPRESSION)))
    return NULL;
  return give(self, bp_ir_cast(ir_of(self), dtype, operand), EXPRESSION);
}

/* (name, operands): an intrinsic of the type of its first operand */
static PyObject *intrinsic(PyObject *self, PyObject *args) {
  const char *name;
  PyObject *sequence;
  void *operands[MAX_ITEMS];
  int count;
  if (!PyArg_ParseTuple(args, "sO", &name, &sequence) ||
      (count = take_all(self, sequence, EXPRESSION, operands)) < 0)
    return NULL;
  if (count == 0) {
    PyErr_SetString(PyExc_TypeError, "an intrinsic has operands");
    return NULL;
  }
  return give(self,
              bp_ir_call(ir_of(self), bp_ir_table()->dtype(operands[0]), BP_IR_CALL_INTRINSIC, name,
                         (const BpIrNode *const *)(void *)operands, count),
              EXPRESSION);
}

/* (tensor, indices, condition or None) */
static PyObject *read_element(PyObject *self, PyObject *args) {
  PyObject *object, *sequence, *condition;
  void *indices[MAX_ITEMS];
  BpTeTensor *tensor;
  int count;
  if (!PyArg_ParseTuple(args, "OOO", &object, &sequence, &condition) ||
      !(tensor = take(self, object, TENSOR)) ||
      (count = take_all(self, sequence, EXPRESSION, indices)) < 0)
    return NULL;
  if (count != bp_te_tensor_ndim(tensor))
    return PyErr_Format(PyExc_IndexError, "%d indices for a tensor of %d dimensions", count,
                        bp_te_tensor_ndim(tensor));
  const BpIrNode *const *nodes = (const BpIrNode *const *)(void *)indices;
  if (condition == Py_None)
    return give(self, bp_te_read(te_of(self), tensor, nodes), EXPRESSION);
  const BpIrNode *where = take(self, condition, EXPRESSION);
  return where ? give(self, bp_te_read_if(te_of(self), tensor, nodes, where), EXPRESSION) : NULL;
}

/* (name, extent) */
static PyObject *reduce_axis(PyObject *self, PyObject *args) {
  const char *name;
  long long extent;
  if (!PyArg_ParseTuple(args, "sL", &name, &extent))
    return NULL;
  return give(self, bp_te_reduce_axis(te_of(self), name, extent), EXPRESSION);
}

/* (BP_TE_* operation, value, axes) */
static PyObject *reduce(PyObject *self, PyObject *args) {
  int operation, count;
  PyObject *object, *sequence;
  const BpIrNode *value;
  void *axes[MAX_ITEMS];
  if (!PyArg_ParseTuple(args, "iOO", &operation, &object, &sequence) ||
      !(value = take(self, object, EXPRESSION)) ||
      (count = take_all(self, sequence, EXPRESSION, axes)) < 0)
    return NULL;
  return give(
      self,
      bp_te_reduce(te_of(self), operation, value, (const BpIrNode *const *)(void *)axes, count),
      EXPRESSION);
}

/* ---- Tensors ----------------------------------------------------------------------------- */

/* (name, dtype, shape) */
static PyObject *placeholder(PyObject *self, PyObject *args) {
  const char *name, *type;
  PyObject *sequence;
  BpDataType dtype;
  int64_t shape[BP_PY_MAX_NDIM];
  int ndim;
  if (!PyArg_ParseTuple(args, "ssO", &name, &type, &sequence) || parse_dtype(type, &dtype) < 0 ||
      (ndim = bp_py_get_extents(sequence, shape)) < 0)
    return NULL;
  return give(self, bp_te_placeholder(te_of(self), name, dtype, shape, ndim), TENSOR);
}

typedef struct Body {
  PyObject *program;
  PyObject *callable;
  int ndim;
} Body;

/* Calls the callable with a list of axes; returns the element's value. */
static const BpIrNode *call_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const Body *body = context;
  PyObject *list = PyList_New(body->ndim), *value = NULL;
  const BpIrNode *node = NULL;
  (void)te;
  for (int i = 0; list && i < body->ndim; i++) {
    PyObject *axis = give(body->program, axes[i], EXPRESSION);
    if (!axis || PyList_SetItem(list, i, axis) < 0)
      Py_CLEAR(list);
  }
  if (list && (value = PyObject_CallFunctionObjArgs(body->callable, list, NULL)))
    node = take(body->program, value, EXPRESSION);
  if (!node)
    bp_py_raise_in_library();
  Py_XDECREF(list);
  Py_XDECREF(value); /* the node stays: the program owns it */
  return node;
}

/* (name, shape, callable) */
static PyObject *compute(PyObject *self, PyObject *args) {
  const char *name;
  PyObject *sequence;
  Body body = {.program = self};
  int64_t shape[BP_PY_MAX_NDIM];
  if (!PyArg_ParseTuple(args, "sOO", &name, &sequence, &body.callable) ||
      (body.ndim = bp_py_get_extents(sequence, shape)) < 0)
    return NULL;
  return give(self, bp_te_compute(te_of(self), name, shape, body.ndim, call_body, &body), TENSOR);
}

/* tensor -> (shape, dtype) */
static PyObject *describe(PyObject *self, PyObject *object) {
  BpTeTensor *tensor = take(self, object, TENSOR);
  char dtype[32];
  if (!tensor)
    return NULL;
  bp_dtype_format(bp_te_tensor_dtype(tensor), dtype, sizeof dtype);
  PyObject *shape = bp_py_make_extents(bp_te_tensor_shape(tensor), bp_te_tensor_ndim(tensor));
  return shape ? Py_BuildValue("Ns", shape, dtype) : NULL;
}

/* (tensor, scope, readers) */
static PyObject *cache_read(PyObject *self, PyObject *args) {
  PyObject *object, *sequence;
  BpTeTensor *tensor;
  void *readers[MAX_ITEMS];
  int scope, count;
  if (!PyArg_ParseTuple(args, "OiO", &object, &scope, &sequence) ||
      !(tensor = take(self, object, TENSOR)) ||
      (count = take_all(self, sequence, TENSOR, readers)) < 0)
    return NULL;
  return give(
      self,
      bp_te_cache_read(te_of(self), tensor, scope, (BpTeTensor *const *)(void *)readers, count),
      TENSOR);
}

/* (tensor, scope) */
static PyObject *cache_write(PyObject *self, PyObject *args) {
  PyObject *object;
  BpTeTensor *tensor;
  int scope;
  if (!PyArg_ParseTuple(args, "Oi", &object, &scope) || !(tensor = take(self, object, TENSOR)))
    return NULL;
  return give(self, bp_te_cache_write(te_of(self), tensor, scope), TENSOR);
}

/* (tensor, axis) */
static PyObject *rfactor(PyObject *self, PyObject *args) {
  PyObject *object, *leaf;
  BpTeTensor *tensor;
  BpTeAxis *axis;
  if (!PyArg_ParseTuple(args, "OO", &object, &leaf) || !(tensor = take(self, object, TENSOR)) ||
      !(axis = take(self, leaf, AXIS)))
    return NULL;
  return give(self, bp_te_rfactor(te_of(self), tensor, axis), TENSOR);
}

/* ---- Schedules --------------------------------------------------------------------------- */

static PyObject *get_stage(PyObject *self, PyObject *object) {
  BpTeTensor *tensor = take(self, object, TENSOR);
  return tensor ? give(self, bp_te_stage(te_of(self), tensor), STAGE) : NULL;
}

static PyObject *list_axes(PyObject *self, BpTeStage *stage, int32_t count,
                           BpTeAxis *(*get)(BpTeStage *, int32_t)) {
  PyObject *list = PyList_New(count);
  for (int32_t i = 0; list && i < count; i++) {
    PyObject *axis = give(self, get(stage, i), AXIS);
    if (!axis || PyList_SetItem(list, i, axis) < 0)
      Py_CLEAR(list);
  }
  return list;
}

/* (tensor) -> (data axes, reduction axes): the original axes of its stage */
static PyObject *get_axes(PyObject *self, PyObject *object) {
  BpTeTensor *tensor = take(self, object, TENSOR);
  BpTeStage *stage = tensor ? bp_te_stage(te_of(self), tensor) : NULL;
  if (!stage)
    return tensor ? bp_py_raise() : NULL;
  PyObject *data = list_axes(self, stage, bp_te_tensor_ndim(tensor), bp_te_stage_axis);
  PyObject *reduction =
      list_axes(self, stage, bp_te_stage_num_reduce_axes(stage), bp_te_stage_reduce_axis);
  if (data && reduction)
    return Py_BuildValue("NN", data, reduction);
  Py_XDECREF(data);
  Py_XDECREF(reduction);
  return NULL;
}

static PyObject *get_extent(PyObject *self, PyObject *object) {
  const BpTeAxis *axis = take(self, object, AXIS);
  return axis ? PyLong_FromLongLong(bp_te_axis_extent(axis)) : NULL;
}

/* (stage, axis, factor, BP_TE_TAIL_*) */
static PyObject *split(PyObject *self, PyObject *args) {
  PyObject *object, *whole;
  BpTeStage *stage;
  BpTeAxis *axis, *outer, *inner;
  long long factor;
  int tail;
  if (!PyArg_ParseTuple(args, "OOLi", &object, &whole, &factor, &tail) ||
      !(stage = take(self, object, STAGE)) || !(axis = take(self, whole, AXIS)))
    return NULL;
  if (bp_te_split(stage, axis, factor, tail, &outer, &inner))
    return bp_py_raise();
  return Py_BuildValue("NN", give(self, outer, AXIS), give(self, inner, AXIS));
}

/* (stage, outer, inner) */
static PyObject *fuse(PyObject *self, PyObject *args) {
  PyObject *object, *first, *second;
  BpTeStage *stage;
  BpTeAxis *outer, *inner, *fused;
  if (!PyArg_ParseTuple(args, "OOO", &object, &first, &second) ||
      !(stage = take(self, object, STAGE)) || !(outer = take(self, first, AXIS)) ||
      !(inner = take(self, second, AXIS)))
    return NULL;
  return bp_te_fuse(stage, outer, inner, &fused) ? bp_py_raise() : give(self, fused, AXIS);
}

/* (stage, axes) */
static PyObject *reorder(PyObject *self, PyObject *args) {
  PyObject *object, *sequence;
  BpTeStage *stage;
  void *axes[MAX_ITEMS];
  int count;
  if (!PyArg_ParseTuple(args, "OO", &object, &sequence) || !(stage = take(self, object, STAGE)) ||
      (count = take_all(self, sequence, AXIS, axes)) < 0)
    return NULL;
  return done(bp_te_reorder(stage, (BpTeAxis *const *)(void *)axes, count));
}

/* (stage, axis), for operations on one axis. */
static PyObject *with_axis(PyObject *self, PyObject *args, int (*call)(BpTeStage *, BpTeAxis *)) {
  PyObject *object, *leaf;
  BpTeStage *stage;
  BpTeAxis *axis;
  if (!PyArg_ParseTuple(args, "OO", &object, &leaf) || !(stage = take(self, object, STAGE)) ||
      !(axis = take(self, leaf, AXIS)))
    return NULL;
  return done(call(stage, axis));
}

static PyObject *parallel(PyObject *self, PyObject *args) {
  return with_axis(self, args, bp_te_parallel);
}

static PyObject *vectorize(PyObject *self, PyObject *args) {
  return with_axis(self, args, bp_te_vectorize);
}

static PyObject *unroll(PyObject *self, PyObject *args) {
  return with_axis(self, args, bp_te_unroll);
}

/* (stage, axis, name) */
static PyObject *bind(PyObject *self, PyObject *args) {
  PyObject *object, *leaf;
  const char *name;
  BpTeStage *stage;
  BpTeAxis *axis;
  if (!PyArg_ParseTuple(args, "OOs", &object, &leaf, &name) ||
      !(stage = take(self, object, STAGE)) || !(axis = take(self, leaf, AXIS)))
    return NULL;
  return done(bp_te_bind(stage, axis, name));
}

/* (stage, consumer, axis) */
static PyObject *compute_at(PyObject *self, PyObject *args) {
  PyObject *object, *reader, *leaf;
  BpTeStage *stage, *consumer;
  BpTeAxis *axis;
  if (!PyArg_ParseTuple(args, "OOO", &object, &reader, &leaf) ||
      !(stage = take(self, object, STAGE)) || !(consumer = take(self, reader, STAGE)) ||
      !(axis = take(self, leaf, AXIS)))
    return NULL;
  return done(bp_te_compute_at(stage, consumer, axis));
}

static PyObject *compute_inline(PyObject *self, PyObject *object) {
  BpTeStage *stage = take(self, object, STAGE);
  return stage ? done(bp_te_compute_inline(stage)) : NULL;
}

static PyObject *store_first(PyObject *self, PyObject *object) {
  BpTeStage *stage = take(self, object, STAGE);
  return stage ? done(bp_te_store_first(stage)) : NULL;
}

static PyObject *stream(PyObject *self, PyObject *object) {
  BpTeStage *stage = take(self, object, STAGE);
  return stage ? done(bp_te_stream(stage)) : NULL;
}

/* (stage, scope) */
static PyObject *set_scope(PyObject *self, PyObject *args) {
  PyObject *object;
  BpTeStage *stage;
  int scope;
  if (!PyArg_ParseTuple(args, "Oi", &object, &scope) || !(stage = take(self, object, STAGE)))
    return NULL;
  return done(bp_te_set_scope(stage, scope));
}

/* (stage, tensor, axis, distance) */
static PyObject *prefetch(PyObject *self, PyObject *args) {
  PyObject *object, *source, *leaf;
  BpTeStage *stage;
  BpTeTensor *tensor;
  BpTeAxis *axis;
  long long distance;
  if (!PyArg_ParseTuple(args, "OOOL", &object, &source, &leaf, &distance) ||
      !(stage = take(self, object, STAGE)) || !(tensor = take(self, source, TENSOR)) ||
      !(axis = take(self, leaf, AXIS)))
    return NULL;
  return done(bp_te_prefetch(stage, tensor, axis, distance));
}

/* (output, target) */
static PyObject *schedule(PyObject *self, PyObject *args) {
  PyObject *object, *target;
  BpTeTensor *output;
  BpTarget *held;
  if (!PyArg_ParseTuple(args, "OO", &object, &target) || !(output = take(self, object, TENSOR)) ||
      !(held = bp_py_held(target, bp_py_target_type)))
    return NULL;
  return done(bp_schedule_auto(te_of(self), &output, 1, held));
}

/* (name, arguments, target or None) */
static PyObject *lower(PyObject *self, PyObject *args) {
  const char *name;
  PyObject *sequence, *target;
  void *tensors[MAX_ITEMS];
  BpLowerOptions options = {.struct_size = sizeof(options)};
  int count;
  if (!PyArg_ParseTuple(args, "sOO", &name, &sequence, &target) ||
      (count = take_all(self, sequence, TENSOR, tensors)) < 0 ||
      (target != Py_None && !(options.target = bp_py_held(target, bp_py_target_type))))
    return NULL;
  BpIrModule *module = bp_ir_module_create();
  if (module && bp_te_lower(te_of(self), name, (BpTeTensor *const *)(void *)tensors, count,
                            &options, module) == 0)
    return bp_py_hold_ir(module);
  bp_object_release(module);
  return bp_py_raise();
}

static PyMethodDef methods[] = {
    {"binary", binary, METH_VARARGS, NULL},
    {"bind", bind, METH_VARARGS, NULL},
    {"cache_read", cache_read, METH_VARARGS, NULL},
    {"cache_write", cache_write, METH_VARARGS, NULL},
    {"cast", cast, METH_VARARGS, NULL},
    {"compute", compute, METH_VARARGS, NULL},
    {"compute_at", compute_at, METH_VARARGS, NULL},
    {"compute_inline", compute_inline, METH_O, NULL},
    {"constant", constant, METH_VARARGS, NULL},
    {"describe", describe, METH_O, NULL},
    {"fuse", fuse, METH_VARARGS, NULL},
    {"get_axes", get_axes, METH_O, NULL},
    {"get_dtype", get_dtype, METH_O, NULL},
    {"get_extent", get_extent, METH_O, NULL},
    {"get_stage", get_stage, METH_O, NULL},
    {"intrinsic", intrinsic, METH_VARARGS, NULL},
    {"logical_not", logical_not, METH_O, NULL},
    {"lower", lower, METH_VARARGS, NULL},
    {"parallel", parallel, METH_VARARGS, NULL},
    {"placeholder", placeholder, METH_VARARGS, NULL},
    {"prefetch", prefetch, METH_VARARGS, NULL},
    {"print_expression", print_expression, METH_O, NULL},
    {"read", read_element, METH_VARARGS, NULL},
    {"reduce", reduce, METH_VARARGS, NULL},
    {"reduce_axis", reduce_axis, METH_VARARGS, NULL},
    {"reorder", reorder, METH_VARARGS, NULL},
    {"rfactor", rfactor, METH_VARARGS, NULL},
    {"schedule", schedule, METH_VARARGS, NULL},
    {"select", choose, METH_VARARGS, NULL},
    {"set_scope", set_scope, METH_VARARGS, NULL},
    {"split", split, METH_VARARGS, NULL},
    {"store_first", store_first, METH_O, NULL},
    {"stream", stream, METH_O, NULL},
    {"unroll", unroll, METH_VARARGS, NULL},
    {"vectorize", vectorize, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot program_slots[] = {
    {Py_tp_doc, (void *)"Tensor expressions and their schedule; see backplane.te."},
    {Py_tp_new, (void *)program_new},
    {Py_tp_methods, methods},
    {Py_tp_dealloc, (void *)program_dealloc},
    {0, NULL},
};
static PyType_Spec program_spec = {"backplane._core.TeProgram", sizeof(Program), 0,
                                   Py_TPFLAGS_DEFAULT, program_slots};

/* Adds the numbers of the IR's kinds by their texts. */
static int add_kinds(PyObject *module) {
  static const struct {
    const char *text;
    int number;
  } kinds[] = {
#define KIND(name, number, text, meaning) {text, number},
      BP_IR_KINDS(KIND)
#undef KIND
  };
  PyObject *dict = PyDict_New();
  for (size_t i = 0; dict && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    PyObject *number = PyLong_FromLong(kinds[i].number);
    if (!number || PyDict_SetItemString(dict, kinds[i].text, number) < 0)
      Py_CLEAR(dict);
    Py_XDECREF(number);
  }
  int status = dict ? PyModule_AddObjectRef(module, "IR_KINDS", dict) : -1;
  Py_XDECREF(dict);
  return status;
}

int bp_py_add_te(PyObject *module) {
  handle_type = bp_py_add_type(module, &handle_spec);
  program_type = bp_py_add_type(module, &program_spec);
  return handle_type && program_type && add_kinds(module) == 0 ? 0 : -1;
}
