/* SPDX-License-Identifier: Apache-2.0 */
/* Modules. */
#include "core.h"

PyTypeObject *bp_py_module_type;

static BpModule *module_of(PyObject *self) {
  return (BpModule *)(void *)((Holder *)self)->object;
}

static PyObject *get_kind(PyObject *self, void *closure) {
  (void)closure;
  return PyUnicode_FromString(bp_module_kind(module_of(self)));
}

static PyObject *get_imports(PyObject *self, void *closure) {
  BpModule *module = module_of(self);
  PyObject *list = PyList_New(0);
  (void)closure;
  for (size_t i = 0; list && i < bp_module_num_imports(module); i++) {
    PyObject *import =
        bp_py_hold(bp_py_module_type, bp_object_retain(bp_module_get_import(module, i)));
    if (!import || PyList_Append(list, import) < 0)
      Py_CLEAR(list);
    Py_XDECREF(import);
  }
  return list;
}

static PyGetSetDef getters[] = {
    {"kind", get_kind, NULL, "\"library\", \"opencl\", ...", NULL},
    {"imports", get_imports, NULL, "The modules that the module imports.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* Finds a function, or returns None. The look-up may compile code. */
static PyObject *find_function(PyObject *self, PyObject *args) {
  const char *name;
  int query_imports = 1, status;
  BpFunction *function = NULL;
  if (!PyArg_ParseTuple(args, "s|p", &name, &query_imports))
    return NULL;
  Py_BEGIN_ALLOW_THREADS status =
      bp_module_get_function(module_of(self), name, query_imports, &function);
  Py_END_ALLOW_THREADS if (status) return bp_py_raise();
  return function ? bp_py_hold(bp_py_function_type, function) : Py_NewRef(Py_None);
}

static PyObject *list_functions(PyObject *self, PyObject *ignored) {
  size_t count = 0;
  char **names = bp_module_list_functions(module_of(self), &count);
  (void)ignored;
  if (!names)
    return bp_py_raise();
  PyObject *list = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; list && i < count; i++)
    if (PyList_SetItem(list, (Py_ssize_t)i, PyUnicode_FromString(names[i])) < 0)
      Py_CLEAR(list);
  bp_names_free(names);
  return list;
}

static PyObject *take_bytes(int status, BpOwnedBytes *bytes) {
  if (status)
    return bp_py_raise();
  PyObject *object = PyBytes_FromStringAndSize(bytes->data, (Py_ssize_t)bytes->size);
  bp_owned_bytes_clear(bytes);
  return object;
}

static PyObject *save_to_bytes(PyObject *self, PyObject *ignored) {
  BpOwnedBytes bytes;
  int status;
  (void)ignored;
  Py_BEGIN_ALLOW_THREADS status = bp_module_save_to_bytes(module_of(self), &bytes);
  Py_END_ALLOW_THREADS return take_bytes(status, &bytes);
}

static PyObject *get_source(PyObject *self, PyObject *args) {
  const char *format = "";
  BpOwnedBytes bytes;
  int status;
  if (!PyArg_ParseTuple(args, "|s", &format))
    return NULL;
  Py_BEGIN_ALLOW_THREADS status = bp_module_get_source(module_of(self), format, &bytes);
  Py_END_ALLOW_THREADS return take_bytes(status, &bytes);
}

static PyObject *export_library(PyObject *self, PyObject *path) {
  PyObject *encoded;
  int status;
  if (!PyUnicode_FSConverter(path, &encoded))
    return NULL;
  Py_BEGIN_ALLOW_THREADS status =
      bp_module_export_library(module_of(self), PyBytes_AsString(encoded));
  Py_END_ALLOW_THREADS Py_DECREF(encoded);
  return status ? bp_py_raise() : Py_NewRef(Py_None);
}

static PyObject *import_module(PyObject *self, PyObject *other) {
  BpModule *imported = bp_py_held(other, bp_py_module_type);
  if (!imported)
    return NULL;
  return bp_module_import(module_of(self), imported) ? bp_py_raise() : Py_NewRef(Py_None);
}

static PyMethodDef methods[] = {
    {"find_function", find_function, METH_VARARGS,
     "find_function($self, name, query_imports=True, /)\n--\n\nA function by name, or None."},
    {"list_functions", list_functions, METH_NOARGS,
     "list_functions($self, /)\n--\n\nThe names of the module's own functions."},
    {"save_to_bytes", save_to_bytes, METH_NOARGS,
     "save_to_bytes($self, /)\n--\n\nWhat load_from_bytes reads."},
    {"get_source", get_source, METH_VARARGS,
     "get_source($self, format='', /)\n--\n\nThe source in a format, \"\" for the preferred one."},
    {"export_library", export_library, METH_O,
     "export_library($self, path, /)\n--\n\nLinks the module and its imports into a shared "
     "library."},
    {"import_module", import_module, METH_O,
     "import_module($self, module, /)\n--\n\nAdds an import."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"Loaded code, with imports."},
    {Py_tp_getset, getters},
    {Py_tp_methods, methods},
    {Py_tp_dealloc, (void *)bp_py_dealloc_holder},
    {0, NULL},
};
static PyType_Spec spec = {
    "backplane._core.Module", sizeof(Holder), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

int bp_py_add_module(PyObject *module) {
  bp_py_module_type = bp_py_add_type(module, &spec);
  return bp_py_module_type ? 0 : -1;
}
