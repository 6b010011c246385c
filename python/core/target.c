/* SPDX-License-Identifier: Apache-2.0 */
/* Targets. */
#include "core.h"

#include <backplane/device.h>
#include <backplane/target.h>

PyTypeObject *bp_py_target_type;

static BpTarget *target_of(PyObject *self) {
  return (BpTarget *)(void *)((Holder *)self)->object;
}

static PyObject *target_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  const char *text;
  BpTarget *target;
  (void)keywords;
  if (!PyArg_ParseTuple(args, "s", &text))
    return NULL;
  Py_BEGIN_ALLOW_THREADS target = bp_target_parse(text);
  Py_END_ALLOW_THREADS return bp_py_hold(type, target);
}

static PyObject *take_text(char *text) {
  PyObject *object = text ? PyUnicode_FromString(text) : bp_py_raise();
  bp_str_free(text);
  return object;
}

static PyObject *target_str(PyObject *self) {
  return take_text(bp_target_format(target_of(self)));
}

static PyObject *to_json(PyObject *self, PyObject *ignored) {
  (void)ignored;
  return take_text(bp_target_format_json(target_of(self)));
}

static PyObject *attribute(PyObject *self, PyObject *args) {
  const char *name;
  BpValue value;
  if (!PyArg_ParseTuple(args, "s", &name))
    return NULL;
  if (bp_target_get_attr(target_of(self), name, &value))
    return bp_py_raise();
  if (value.type_index >= BP_TYPE_OBJECT)
    bp_object_retain(value.v_obj);
  return bp_py_from_value(&value);
}

static PyObject *get_kind(PyObject *self, void *closure) {
  (void)closure;
  return PyUnicode_FromString(bp_target_kind(target_of(self)));
}

static PyObject *get_device_type(PyObject *self, void *closure) {
  (void)closure;
  return PyLong_FromLong(bp_target_device_type(target_of(self)));
}

static PyObject *get_has_thread_axes(PyObject *self, void *closure) {
  (void)closure;
  return PyBool_FromLong(bp_target_get_int(target_of(self), BP_TARGET_THREAD_AXES, 0) != 0);
}

PyObject *bp_py_target_text_of_device(PyObject *self, PyObject *object) {
  BpDevice device;
  BpTarget *target;
  (void)self;
  if (bp_py_get_device(object, &device) < 0)
    return NULL;
  Py_BEGIN_ALLOW_THREADS target = bp_target_from_device(device);
  Py_END_ALLOW_THREADS if (!target) return bp_py_raise();
  PyObject *text = take_text(bp_target_format(target));
  bp_object_release(target);
  return text;
}

static PyGetSetDef getters[] = {
    {"kind", get_kind, NULL, "\"c\", \"opencl\", ...", NULL},
    {"device_type", get_device_type, NULL,
     "DLPack's number of the type of device that the target is for.", NULL},
    {"has_thread_axes", get_has_thread_axes, NULL, "Whether the target's code is kernels.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"attribute", attribute, METH_VARARGS,
     "attribute($self, name, /)\n--\n\nAn attribute; None for one that is not set."},
    {"to_json", to_json, METH_NOARGS, "to_json($self, /)\n--\n\nThe target as a JSON object."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"A description of the machine that code is generated for."},
    {Py_tp_new, (void *)target_new},
    {Py_tp_str, (void *)target_str},
    {Py_tp_getset, getters},
    {Py_tp_methods, methods},
    {Py_tp_dealloc, (void *)bp_py_dealloc_holder},
    {0, NULL},
};
static PyType_Spec spec = {"backplane._core.Target", sizeof(Holder), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

int bp_py_add_target(PyObject *module) {
  bp_py_target_type = bp_py_add_type(module, &spec);
  return bp_py_target_type ? 0 : -1;
}
