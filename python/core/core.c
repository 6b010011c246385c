/* SPDX-License-Identifier: Apache-2.0 */
/* The module backplane._core: its types and functions. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/graph/executor.h>
#include <backplane/graph/model.h>
#include <backplane/graph/relax.h>
#include <backplane/target.h>

/* ---- Holders ----------------------------------------------------------------------------- */

PyObject *bp_py_hold(PyTypeObject *type, void *object) {
  if (!object)
    return bp_py_raise();
  Holder *holder = (Holder *)PyType_GenericAlloc(type, 0);
  if (holder)
    holder->object = object;
  else
    bp_object_release(object);
  return (PyObject *)holder;
}

void *bp_py_held(PyObject *value, PyTypeObject *type) {
  if (PyObject_TypeCheck(value, type))
    return ((Holder *)value)->object;
  PyObject *name = PyType_GetName(type);
  if (name)
    PyErr_Format(PyExc_TypeError, "expected a %U, got %.80R", name, value);
  Py_XDECREF(name);
  return NULL;
}

/* Dropping the last reference may free device memory, a library or a callable, without Python's
 * lock. */
void bp_py_dealloc_holder(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  BpObject *object = ((Holder *)self)->object;
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  Py_BEGIN_ALLOW_THREADS bp_object_release(object);
  Py_END_ALLOW_THREADS release(self);
  Py_DECREF(type);
}

PyTypeObject *bp_py_add_type(PyObject *module, PyType_Spec *spec) {
  PyObject *type = PyType_FromSpec(spec);
  const char *name = strrchr(spec->name, '.') + 1;
  if (!type || PyModule_AddObjectRef(module, name, type) < 0)
    Py_CLEAR(type);
  return (PyTypeObject *)type;
}

/* The types, and the callables that they call, belong to the whole process. Returns 0, or -1 in
 * another interpreter. */
static int check_interpreter(void) {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0)
    return 0;
  PyErr_SetString(PyExc_ImportError,
                  "backplane works in the main interpreter, not in a subinterpreter; use threads");
  return -1;
}

/* (Device, Tensor, Module, error classes by kind, base class): sets the classes of results. */
static PyObject *setup(PyObject *self, PyObject *args) {
  PyObject *device, *tensor, *module, *classes, *base;
  (void)self;
  if (check_interpreter() < 0 ||
      !PyArg_ParseTuple(args, "OOOOO", &device, &tensor, &module, &classes, &base))
    return NULL;
  bp_py_device_class = Py_NewRef(device);
  bp_py_tensor_type = (PyTypeObject *)Py_NewRef(tensor);
  bp_py_module_type = (PyTypeObject *)Py_NewRef(module);
  return bp_py_set_error_classes(classes, base) < 0 ? NULL : Py_NewRef(Py_None);
}

/* ---- The registry ------------------------------------------------------------------------ */

static PyObject *register_function(PyObject *self, PyObject *args) {
  const char *name;
  PyObject *function;
  int override = 0;
  (void)self;
  if (!PyArg_ParseTuple(args, "sO|p", &name, &function, &override))
    return NULL;
  BpFunction *held = bp_py_held(function, bp_py_function_type);
  if (!held)
    return NULL;
  return bp_registry_set(name, held, override) ? bp_py_raise() : Py_NewRef(Py_None);
}

static PyObject *find_function(PyObject *self, PyObject *args) {
  const char *name;
  BpFunction *function;
  int status;
  (void)self;
  if (!PyArg_ParseTuple(args, "s", &name))
    return NULL;
  Py_BEGIN_ALLOW_THREADS status = bp_registry_get(name, &function);
  Py_END_ALLOW_THREADS if (status) return bp_py_raise();
  return function ? bp_py_hold(bp_py_function_type, function) : Py_NewRef(Py_None);
}

static PyObject *take_names(char **names, size_t count) {
  PyObject *list = names ? PyList_New((Py_ssize_t)count) : bp_py_raise();
  for (size_t i = 0; list && i < count; i++)
    if (PyList_SetItem(list, (Py_ssize_t)i, PyUnicode_FromString(names[i])) < 0)
      Py_CLEAR(list);
  bp_names_free(names);
  return list;
}

static PyObject *list_functions(PyObject *self, PyObject *ignored) {
  size_t count = 0;
  char **names = bp_registry_list(&count);
  (void)self;
  (void)ignored;
  return take_names(names, count);
}

static PyObject *remove_function(PyObject *self, PyObject *args) {
  const char *name;
  (void)self;
  if (!PyArg_ParseTuple(args, "s", &name))
    return NULL;
  return bp_registry_remove(name) ? bp_py_raise() : Py_NewRef(Py_None);
}

/* ---- Devices ----------------------------------------------------------------------------- */

static PyObject *parse_device(PyObject *self, PyObject *args) {
  const char *text;
  BpDevice device;
  (void)self;
  if (!PyArg_ParseTuple(args, "s", &text))
    return NULL;
  return bp_device_parse(text, &device) ? bp_py_raise() : bp_py_make_device(device);
}

static PyObject *format_device(PyObject *self, PyObject *object) {
  BpDevice device;
  char text[256];
  (void)self;
  if (bp_py_get_device(object, &device) < 0)
    return NULL;
  bp_device_format(device, text, sizeof text);
  return PyUnicode_FromString(text);
}

static PyObject *select_device(PyObject *self, PyObject *args) {
  const char *preferences;
  BpDevice device;
  int status;
  (void)self;
  if (!PyArg_ParseTuple(args, "z", &preferences))
    return NULL;
  Py_BEGIN_ALLOW_THREADS status = bp_device_select(preferences, &device, NULL);
  Py_END_ALLOW_THREADS return status ? bp_py_raise() : bp_py_make_device(device);
}

/* The list of preferences of BACKPLANE_DEVICE and of the settings. */
static PyObject *default_preferences(PyObject *self, PyObject *ignored) {
  (void)self;
  (void)ignored;
  char *list = bp_device_preferences();
  PyObject *text = list ? PyUnicode_FromString(list) : bp_py_raise();
  bp_str_free(list);
  return text;
}

static PyObject *device_kinds(PyObject *self, PyObject *ignored) {
  size_t count = 0;
  char **names = bp_device_kinds(&count);
  (void)self;
  (void)ignored;
  return take_names(names, count);
}

static PyObject *target_kinds(PyObject *self, PyObject *ignored) {
  size_t count = 0;
  char **names = bp_target_kinds(&count);
  (void)self;
  (void)ignored;
  return take_names(names, count);
}

static PyObject *device_count(PyObject *self, PyObject *object) {
  BpDevice device;
  int32_t count = 0;
  int status;
  (void)self;
  if (bp_py_get_device(object, &device) < 0)
    return NULL;
  Py_BEGIN_ALLOW_THREADS status = bp_device_count(device.device_type, &count, NULL);
  Py_END_ALLOW_THREADS return status ? bp_py_raise() : PyLong_FromLong(count);
}

static PyObject *device_attribute(PyObject *self, PyObject *args) {
  PyObject *object;
  const char *name;
  BpDevice device;
  BpValue value = {.type_index = BP_TYPE_NONE};
  int status = 0;
  (void)self;
  if (!PyArg_ParseTuple(args, "Os", &object, &name) || bp_py_get_device(object, &device) < 0)
    return NULL;
  int32_t attr = bp_device_attr_by_name(name);
  if (attr < 0) {
    PyErr_Format(PyExc_AttributeError, "devices have no attribute \"%s\"", name);
    return NULL;
  }
  Py_BEGIN_ALLOW_THREADS status = bp_device_get_attr(device, attr, &value);
  Py_END_ALLOW_THREADS return status ? bp_py_raise() : bp_py_from_value(&value);
}

static PyObject *synchronize(PyObject *self, PyObject *object) {
  BpDevice device;
  int status;
  (void)self;
  if (bp_py_get_device(object, &device) < 0)
    return NULL;
  Py_BEGIN_ALLOW_THREADS status = bp_stream_sync(device, NULL);
  Py_END_ALLOW_THREADS return status ? bp_py_raise() : Py_NewRef(Py_None);
}

/* ---- Tensors and modules ----------------------------------------------------------------- */

static PyObject *empty(PyObject *self, PyObject *args) {
  PyObject *shape, *object;
  const char *name, *scope;
  int64_t extents[BP_PY_MAX_NDIM];
  BpDataType dtype;
  BpDevice device;
  BpTensor *tensor;
  (void)self;
  if (!PyArg_ParseTuple(args, "OsOz", &shape, &name, &object, &scope) ||
      bp_py_get_device(object, &device) < 0)
    return NULL;
  int count = bp_py_get_extents(shape, extents);
  if (count < 0 || bp_dtype_parse(name, &dtype))
    return bp_py_raise();
  Py_BEGIN_ALLOW_THREADS tensor = bp_tensor_create(extents, count, dtype, device, scope);
  Py_END_ALLOW_THREADS return bp_py_hold(bp_py_tensor_type, tensor);
}

static PyObject *from_dlpack(PyObject *self, PyObject *object) {
  (void)self;
  BpTensor *tensor = bp_py_tensor_from_dlpack(object);
  return tensor ? bp_py_hold(bp_py_tensor_type, tensor) : NULL;
}

static PyObject *load_module(PyObject *self, PyObject *path) {
  PyObject *encoded;
  BpModule *module;
  (void)self;
  if (!PyUnicode_FSConverter(path, &encoded))
    return NULL;
  Py_BEGIN_ALLOW_THREADS module = bp_model_open(PyBytes_AsString(encoded));
  Py_END_ALLOW_THREADS Py_DECREF(encoded);
  return bp_py_hold(bp_py_module_type, module);
}

/* PyUnicode_FSConverter for an optional path; None leaves *path unchanged. */
static int convert_path(PyObject *object, void *path) {
  return object == Py_None ? 1 : PyUnicode_FSConverter(object, path);
}

/* (graph, library, parameters or None) */
static PyObject *load_parts(PyObject *self, PyObject *args) {
  PyObject *paths[3] = {NULL, NULL, NULL};
  const char *texts[3];
  BpModule *module;
  (void)self;
  if (!PyArg_ParseTuple(args, "O&O&O&", PyUnicode_FSConverter, &paths[0], PyUnicode_FSConverter,
                        &paths[1], convert_path, &paths[2]))
    return NULL;
  for (int i = 0; i < 3; i++)
    texts[i] = paths[i] ? PyBytes_AsString(paths[i]) : NULL;
  Py_BEGIN_ALLOW_THREADS module = bp_model_open_parts(texts[0], texts[1], texts[2]);
  Py_END_ALLOW_THREADS for (int i = 0; i < 3; i++) Py_XDECREF(paths[i]);
  return bp_py_hold(bp_py_module_type, module);
}

static PyObject *load_module_from_bytes(PyObject *self, PyObject *args) {
  const char *kind, *data;
  Py_ssize_t size;
  BpModule *module;
  (void)self;
  if (!PyArg_ParseTuple(args, "sy#", &kind, &data, &size))
    return NULL;
  const BpByteArray bytes = {data, (size_t)size};
  Py_BEGIN_ALLOW_THREADS module = bp_module_load_from_bytes(kind, &bytes);
  Py_END_ALLOW_THREADS return bp_py_hold(bp_py_module_type, module);
}

static PyObject *relax_machine(PyObject *self, PyObject *args) {
  PyObject *module, *object;
  BpDevice device;
  BpModule *machine, *held;
  (void)self;
  if (!PyArg_ParseTuple(args, "OO", &module, &object) ||
      !(held = bp_py_held(module, bp_py_module_type)) || bp_py_get_device(object, &device) < 0)
    return NULL;
  Py_BEGIN_ALLOW_THREADS machine = bp_relax_machine_create(held, device);
  Py_END_ALLOW_THREADS return bp_py_hold(bp_py_module_type, machine);
}

/* (module, preferences) -> the devices that fit best, one or two, among the kinds that the model
 * has code for */
static PyObject *select_model_devices(PyObject *self, PyObject *args) {
  PyObject *module;
  const char *preferences;
  BpDevice devices[BP_MODEL_MAX_DEVICES];
  size_t count;
  BpModule *held;
  int status;
  (void)self;
  if (!PyArg_ParseTuple(args, "Oz", &module, &preferences) ||
      !(held = bp_py_held(module, bp_py_module_type)))
    return NULL;
  Py_BEGIN_ALLOW_THREADS status =
      bp_model_select_devices(held, preferences, devices, BP_MODEL_MAX_DEVICES, &count, NULL);
  Py_END_ALLOW_THREADS if (status) return bp_py_raise();
  PyObject *tuple = PyTuple_New((Py_ssize_t)count);
  for (size_t i = 0; tuple && i < count; i++) {
    PyObject *device = bp_py_make_device(devices[i]);
    if (!device || PyTuple_SetItem(tuple, (Py_ssize_t)i, device) < 0)
      Py_CLEAR(tuple);
  }
  return tuple;
}

/* ---- Compiling --------------------------------------------------------------------------- */

#define MAX_TARGETS   16
#define MAX_SHAPES    64
#define MAX_COMPILERS 16

/* The elements of initializers that are omitted from a model's bytes, as arrays. */
typedef struct Elsewhere {
  BpOnnxTensor *tensors;
  BpValue *values;
  Lent *lents;
  Py_ssize_t count;
} Elsewhere;

typedef struct Compilation {
  const BpTarget *targets[MAX_TARGETS];
  const BpTarget *fallbacks[MAX_TARGETS];
  BpInputShape shapes[MAX_SHAPES];
  int64_t extents[MAX_SHAPES][BP_PY_MAX_NDIM];
  int32_t num_targets;
  int32_t num_fallbacks;
  int32_t num_shapes;
  const char *compilers[MAX_COMPILERS];
  int32_t num_compilers;
} Compilation;

static int add_targets(const BpTarget **list, int32_t *count, PyObject *texts) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(texts); i++) {
    const char *text = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(texts, i), NULL);
    BpTarget *target = text && i < MAX_TARGETS ? bp_target_parse(text) : NULL;
    if (!target) {
      if (i >= MAX_TARGETS)
        PyErr_SetString(PyExc_ValueError, "too many targets");
      return -1;
    }
    list[(*count)++] = target;
  }
  return 0;
}

static int add_shapes(Compilation *compilation, PyObject *shapes) {
  PyObject *name, *extents;
  Py_ssize_t at = 0;
  while (PyDict_Next(shapes, &at, &name, &extents)) {
    int32_t i = compilation->num_shapes;
    if (i == MAX_SHAPES) {
      PyErr_SetString(PyExc_ValueError, "too many shapes");
      return -1;
    }
    if (!PyUnicode_Check(name)) {
      PyErr_Format(PyExc_TypeError, "shapes are given by the name of an input, not by %.80R", name);
      return -1;
    }
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    int count = text ? bp_py_get_extents(extents, compilation->extents[i]) : -1;
    if (count < 0)
      return -1;
    compilation->shapes[i] = (BpInputShape){text, compilation->extents[i], count};
    compilation->num_shapes++;
  }
  return 0;
}

/* names, which the tuple owns */
static int add_compilers(Compilation *compilation, PyObject *names) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(names); i++) {
    if (i == MAX_COMPILERS) {
      PyErr_Format(PyExc_ValueError, "at most %d graph compilers can be named", MAX_COMPILERS);
      return -1;
    }
    const char *name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i), NULL);
    if (!name)
      return -1;
    compilation->compilers[compilation->num_compilers++] = name;
  }
  return 0;
}

static int lend_elements(Elsewhere *elsewhere, PyObject *name, PyObject *array) {
  Py_ssize_t i = elsewhere->count;
  BpOnnxTensor *tensor = &elsewhere->tensors[i];
  if (!PyUnicode_Check(name)) {
    PyErr_Format(PyExc_TypeError, "tensors are given by the name of an initializer, not by %.80R",
                 name);
    return -1;
  }
  tensor->name = PyUnicode_AsUTF8AndSize(name, NULL);
  if (!tensor->name ||
      bp_py_to_value_for_reading(array, &elsewhere->values[i], &elsewhere->lents[i]) < 0)
    return -1;
  elsewhere->count++;
  const BpTensorView *view = bp_value_view_tensor(&elsewhere->values[i]);
  if (!view || view->device.device_type != BP_DEVICE_CPU || !bp_view_is_compact(view)) {
    PyErr_Format(PyExc_ValueError, "tensor '%s' has to be a compact array on the CPU",
                 tensor->name);
    return -1;
  }
  int64_t bytes = bp_view_num_bytes(view);
  tensor->data = (const char *)view->data + view->byte_offset;
  tensor->size = (uint64_t)bytes;
  return bytes < 0 ? -1 : 0;
}

static void end_elsewhere(Elsewhere *elsewhere) {
  for (Py_ssize_t i = 0; i < elsewhere->count; i++)
    bp_py_end_lending(&elsewhere->values[i], &elsewhere->lents[i]);
  free(elsewhere->tensors);
  free(elsewhere->values);
  free(elsewhere->lents);
}

/* Borrows the arrays of a dict, which must outlive `elsewhere`. The caller ends it with
 * end_elsewhere, also after a failure. */
static int lend_elsewhere(Elsewhere *elsewhere, PyObject *arrays) {
  size_t room = (size_t)PyDict_Size(arrays) + 1;
  PyObject *name, *array;
  Py_ssize_t at = 0;
  elsewhere->tensors = calloc(room, sizeof(*elsewhere->tensors));
  elsewhere->values = calloc(room, sizeof(*elsewhere->values));
  elsewhere->lents = calloc(room, sizeof(*elsewhere->lents));
  if (!elsewhere->tensors || !elsewhere->values || !elsewhere->lents) {
    PyErr_NoMemory();
    return -1;
  }
  while (PyDict_Next(arrays, &at, &name, &array))
    if (lend_elements(elsewhere, name, array) < 0)
      return -1;
  return 0;
}

/* Compiles the file `path` (bytes, in the file system's encoding) or, if `path` is NULL, the model
 * in `bytes`. NULL with an error. */
static BpModule *compile_source(PyObject *path, PyObject *bytes, PyObject *arrays,
                                const BpCompileOptions *options) {
  BpModule *module = NULL;
  if (path) {
    Py_BEGIN_ALLOW_THREADS module = bp_model_compile(PyBytes_AsString(path), options);
    Py_END_ALLOW_THREADS return module;
  }
  Elsewhere elsewhere = {0};
  if (lend_elsewhere(&elsewhere, arrays) == 0) {
    const BpOnnxBytes model = {.struct_size = sizeof(model),
                               .name = "a model in memory",
                               .data = PyBytes_AsString(bytes),
                               .size = (uint64_t)PyBytes_Size(bytes),
                               .tensors = elsewhere.tensors,
                               .tensor_size = sizeof(*elsewhere.tensors),
                               .num_tensors = (uint64_t)elsewhere.count};
    Py_BEGIN_ALLOW_THREADS module = bp_model_compile_bytes(&model, options);
    Py_END_ALLOW_THREADS
  }
  end_elsewhere(&elsewhere);
  return module;
}

static void release_targets(const BpTarget *const *list, int32_t count) {
  for (int32_t i = 0; i < count; i++)
    bp_object_release((void *)(uintptr_t)list[i]);
}

/* (path of an ONNX file or its bytes, targets, shapes by input, a tuple of the fallbacks' targets,
 * whether it is a reference, a tuple of graph compilers, whether to measure them, the
 * least share of nodes that they claim, a dict of arrays for the initializers that the bytes leave
 * out) */
static PyObject *compile_model(PyObject *self, PyObject *args) {
  PyObject *source, *path = NULL, *targets, *shapes, *fallbacks, *compilers, *arrays;
  BpModule *module = NULL;
  int is_reference, measures;
  double least_claimed;
  (void)self;
  if (!PyArg_ParseTuple(args, "OO!O!O!pO!pdO!", &source, &PyTuple_Type, &targets, &PyDict_Type,
                        &shapes, &PyTuple_Type, &fallbacks, &is_reference, &PyTuple_Type,
                        &compilers, &measures, &least_claimed, &PyDict_Type, &arrays) ||
      (!PyBytes_Check(source) && !PyUnicode_FSConverter(source, &path)))
    return NULL;
  Compilation *compilation = calloc(1, sizeof(*compilation));
  if (!compilation) {
    PyErr_NoMemory();
  } else if (add_targets(compilation->targets, &compilation->num_targets, targets) == 0 &&
             add_targets(compilation->fallbacks, &compilation->num_fallbacks, fallbacks) == 0 &&
             add_shapes(compilation, shapes) == 0 && add_compilers(compilation, compilers) == 0) {
    const BpCompileOptions options = {.struct_size = sizeof(options),
                                      .targets = compilation->targets,
                                      .num_targets = compilation->num_targets,
                                      .shapes = compilation->shapes,
                                      .num_shapes = compilation->num_shapes,
                                      .shape_size = sizeof(BpInputShape),
                                      .fallbacks = compilation->fallbacks,
                                      .num_fallbacks = compilation->num_fallbacks,
                                      .is_reference = is_reference,
                                      .graph_compilers = compilation->compilers,
                                      .num_graph_compilers = compilation->num_compilers,
                                      .least_claimed = least_claimed,
                                      .measures_claims = measures};
    module = compile_source(path, source, arrays, &options);
  }
  if (compilation) {
    release_targets(compilation->targets, compilation->num_targets);
    release_targets(compilation->fallbacks, compilation->num_fallbacks);
  }
  free(compilation);
  Py_XDECREF(path);
  return module ? bp_py_hold(bp_py_module_type, module) : bp_py_raise();
}

/* (model, path of its ONNX file, targets, shapes by input, a tuple of the fallbacks' targets) */
static PyObject *specialize_model(PyObject *self, PyObject *args) {
  PyObject *object, *path = NULL, *targets, *shapes, *fallbacks;
  int status = -1;
  (void)self;
  if (!PyArg_ParseTuple(args, "OO&O!O!O!", &object, PyUnicode_FSConverter, &path, &PyTuple_Type,
                        &targets, &PyDict_Type, &shapes, &PyTuple_Type, &fallbacks))
    return NULL;
  BpModel *model = bp_py_get_model(object);
  Compilation *compilation = model ? calloc(1, sizeof(*compilation)) : NULL;
  if (model && !compilation)
    PyErr_NoMemory();
  if (compilation && add_targets(compilation->targets, &compilation->num_targets, targets) == 0 &&
      add_targets(compilation->fallbacks, &compilation->num_fallbacks, fallbacks) == 0 &&
      add_shapes(compilation, shapes) == 0) {
    const BpCompileOptions options = {.struct_size = sizeof(options),
                                      .targets = compilation->targets,
                                      .num_targets = compilation->num_targets,
                                      .shapes = compilation->shapes,
                                      .num_shapes = compilation->num_shapes,
                                      .shape_size = sizeof(BpInputShape),
                                      .fallbacks = compilation->fallbacks,
                                      .num_fallbacks = compilation->num_fallbacks};
    Py_BEGIN_ALLOW_THREADS status = bp_model_specialize(model, PyBytes_AsString(path), &options);
    Py_END_ALLOW_THREADS
  }
  if (compilation) {
    release_targets(compilation->targets, compilation->num_targets);
    release_targets(compilation->fallbacks, compilation->num_fallbacks);
  }
  free(compilation);
  Py_DECREF(path);
  return status ? bp_py_raise() : Py_NewRef(Py_None);
}

/* ---- The module -------------------------------------------------------------------------- */

static PyMethodDef functions[] = {
    {"_setup", setup, METH_VARARGS, NULL},
    {"call_on_device_of", bp_py_call_on_device_of, METH_VARARGS, NULL},
    {"compile_model", compile_model, METH_VARARGS, NULL},
    {"device_attribute", device_attribute, METH_VARARGS, NULL},
    {"device_count", device_count, METH_O, NULL},
    {"device_kinds", device_kinds, METH_NOARGS, NULL},
    {"empty", empty, METH_VARARGS, NULL},
    {"find_function", find_function, METH_VARARGS, NULL},
    {"format_device", format_device, METH_O, NULL},
    {"from_dlpack", from_dlpack, METH_O, NULL},
    {"list_functions", list_functions, METH_NOARGS, NULL},
    {"load_module", load_module, METH_O, NULL},
    {"load_parts", load_parts, METH_VARARGS, NULL},
    {"load_module_from_bytes", load_module_from_bytes, METH_VARARGS, NULL},
    {"parse_device", parse_device, METH_VARARGS, NULL},
    {"register_function", register_function, METH_VARARGS, NULL},
    {"relax_machine", relax_machine, METH_VARARGS, NULL},
    {"remove_function", remove_function, METH_VARARGS, NULL},
    {"select_device", select_device, METH_VARARGS, NULL},
    {"default_preferences", default_preferences, METH_NOARGS, NULL},
    {"select_model_devices", select_model_devices, METH_VARARGS, NULL},
    {"specialize_model", specialize_model, METH_VARARGS, NULL},
    {"synchronize", synchronize, METH_O, NULL},
    {"target_kinds", target_kinds, METH_NOARGS, NULL},
    {"target_of_device", bp_py_target_text_of_device, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "backplane._core",
    .m_doc = "The C API of Backplane; use the package backplane.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__core(void) {
  if (check_interpreter() < 0)
    return NULL;
  PyObject *module = PyModule_Create(&definition);
  if (module && bp_graph_initialize() == 0 && bp_py_add_tensor(module) == 0 &&
      bp_py_add_function(module) == 0 && bp_py_add_module(module) == 0 &&
      bp_py_add_model(module) == 0 && bp_py_add_target(module) == 0 && bp_py_add_ir(module) == 0 &&
      bp_py_add_te(module) == 0)
    return module;
  if (!PyErr_Occurred())
    bp_py_raise();
  Py_XDECREF(module);
  return NULL;
}
