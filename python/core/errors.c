/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of the library as exceptions, and exceptions of callbacks as errors. */
#include "core.h"

#include <string.h>

static PyObject *error_classes;
static PyObject *base_class;

/* The exception that a callback of this thread raised last, so that the same exception reaches the
 * caller. */
static _Thread_local PyObject *callback_exception;
static _Thread_local char *callback_message;

int bp_py_set_error_classes(PyObject *classes, PyObject *base) {
  Py_XDECREF(error_classes);
  Py_XDECREF(base_class);
  error_classes = Py_NewRef(classes);
  base_class = Py_NewRef(base);
  return 0;
}

static void forget_callback(void) {
  Py_CLEAR(callback_exception);
  PyMem_Free(callback_message);
  callback_message = NULL;
}

/* Functions that pass an error on add words only before its message, never after it. */
static int is_of_callback(const char *message) {
  if (!callback_exception || !callback_message)
    return 0;
  size_t whole = strlen(message), part = strlen(callback_message);
  return whole >= part && !strcmp(message + whole - part, callback_message);
}

static void set_exception(const char *kind, const char *message) {
  PyObject *class = error_classes ? PyDict_GetItemString(error_classes, kind) : NULL;
  PyObject *text = PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "replace");
  if (!class)
    class = base_class ? base_class : PyExc_RuntimeError;
  PyObject *exception = text ? PyObject_CallFunctionObjArgs(class, text, NULL) : NULL;
  PyObject *name = exception ? PyUnicode_FromString(kind) : NULL;
  if (name && PyObject_SetAttrString(exception, "kind", name) == 0)
    PyErr_SetObject(class, exception);
  Py_XDECREF(name);
  Py_XDECREF(exception);
  Py_XDECREF(text);
}

PyObject *bp_py_raise(void) {
  if (PyErr_Occurred())
    return NULL;
  if (!*bp_error_kind())
    PyErr_SetString(PyExc_SystemError, "the library failed and raised no error");
  else if (is_of_callback(bp_error_message()))
    PyErr_SetObject((PyObject *)Py_TYPE(callback_exception), callback_exception);
  else
    set_exception(bp_error_kind(), bp_error_message());
  bp_error_clear();
  forget_callback();
  return NULL;
}

int bp_py_raise_in_library(void) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback)
    PyException_SetTraceback(value, traceback);
  PyObject *text = PyObject_Str(value), *kind = NULL;
  PyObject *name = type ? PyObject_GetAttrString(type, "__name__") : NULL;
  if (PyObject_HasAttrString(value, "kind"))
    kind = PyObject_GetAttrString(value, "kind");
  const char *message = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
  const char *word = kind && PyUnicode_Check(kind) ? PyUnicode_AsUTF8AndSize(kind, NULL)
                     : name                        ? PyUnicode_AsUTF8AndSize(name, NULL)
                                                   : NULL;
  PyErr_Clear();
  bp_error_raise(word ? word : BP_ERROR_RUNTIME, "%s", message ? message : "");
  forget_callback();
  callback_exception = Py_XNewRef(value);
  size_t size = strlen(bp_error_message()) + 1;
  if ((callback_message = PyMem_Malloc(size)))
    memcpy(callback_message, bp_error_message(), size);
  Py_XDECREF(kind);
  Py_XDECREF(name);
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return -1;
}
