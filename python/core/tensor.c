/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors, and DLPack in both directions. */
#include "core.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/device.h>

PyTypeObject *bp_py_tensor_type;

static BpTensor *tensor_of(PyObject *self) {
  return (BpTensor *)((Holder *)self)->object;
}

/* ---- Facts ------------------------------------------------------------------------------- */

static PyObject *get_shape(PyObject *self, void *closure) {
  const BpTensorView *view = &tensor_of(self)->view;
  (void)closure;
  return bp_py_make_extents(view->shape, view->ndim);
}

static PyObject *get_dtype(PyObject *self, void *closure) {
  char text[32];
  (void)closure;
  bp_dtype_format(tensor_of(self)->view.dtype, text, sizeof text);
  return PyUnicode_FromString(text);
}

static PyObject *get_device(PyObject *self, void *closure) {
  (void)closure;
  return bp_py_make_device(tensor_of(self)->view.device);
}

static PyObject *get_nbytes(PyObject *self, void *closure) {
  (void)closure;
  int64_t size = bp_view_num_bytes(&tensor_of(self)->view);
  return size < 0 ? bp_py_raise() : PyLong_FromLongLong(size);
}

static PyGetSetDef getters[] = {
    {"nbytes", get_nbytes, NULL, "The number of bytes of the tensor's elements.", NULL},
    {"shape", get_shape, NULL, "Extents.", NULL},
    {"dtype", get_dtype, NULL, "Element type, \"float32\".", NULL},
    {"device", get_device, NULL, "Where the data are.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* ---- Copies ------------------------------------------------------------------------------ */

/* Part i of a tensor along its first dimension. */
static BpTensorView part_of(const BpTensorView *view, int64_t i) {
  BpTensorView part = *view;
  int64_t stride = view->strides ? view->strides[0] : 1;
  part.ndim--;
  part.shape++;
  for (int32_t k = 0; k < part.ndim && !view->strides; k++)
    stride *= part.shape[k];
  part.strides = view->strides ? view->strides + 1 : NULL;
  int64_t bytes = i * stride * bp_dtype_bytes(view->dtype);
  if (part.device.device_type == BP_DEVICE_CPU)
    part.data = (char *)part.data + bytes;
  else
    part.byte_offset += (uint64_t)bytes;
  return part;
}

/* Queues the copies of a tensor: a tensor with strides in parts without strides. */
static int queue_copies(const BpTensorView *from, const BpTensorView *to) {
  int is_whole = bp_view_is_compact(from) && bp_view_is_compact(to);
  int is_alike = from->ndim == to->ndim && from->ndim > 0 && from->shape[0] == to->shape[0];
  if (is_whole || !is_alike || from->dtype.bits % 8 || to->dtype.bits % 8)
    return bp_tensor_copy(from, to, NULL);
  for (int64_t i = 0; i < from->shape[0]; i++) {
    BpTensorView part_from = part_of(from, i), part_to = part_of(to, i);
    if (queue_copies(&part_from, &part_to))
      return -1;
  }
  return 0;
}

/* Copies a tensor, and returns when the elements have arrived. The source's device copies to the
 * host and to a device of its own kind. */
static int copy_and_wait(const BpTensorView *from, const BpTensorView *to) {
  int32_t type = to->device.device_type;
  const BpDevice *busy =
      type == BP_DEVICE_CPU || type == from->device.device_type ? &from->device : &to->device;
  return queue_copies(from, to) || bp_stream_sync(*busy, NULL) ? -1 : 0;
}

static PyObject *copy_to(PyObject *self, PyObject *target) {
  BpTensor *to = bp_py_held(target, bp_py_tensor_type);
  int status;
  if (!to)
    return NULL;
  if (bp_tensor_is_read_only(to)) {
    bp_error_raise(BP_ERROR_VALUE, "a copy into a tensor that is read-only");
    return bp_py_raise();
  }
  Py_BEGIN_ALLOW_THREADS status = copy_and_wait(&tensor_of(self)->view, &to->view);
  Py_END_ALLOW_THREADS return status ? bp_py_raise() : Py_NewRef(target);
}

/* Makes a complete, compact copy on a device (transfer full), or NULL with an exception. */
static BpTensor *copy_on(const BpTensor *tensor, BpDevice device) {
  const BpTensorView *from = &tensor->view;
  BpTensor *copy;
  Py_BEGIN_ALLOW_THREADS copy =
      bp_tensor_create(from->shape, from->ndim, from->dtype, device, NULL);
  if (copy && copy_and_wait(from, &copy->view)) {
    bp_object_release(copy);
    copy = NULL;
  }
  Py_END_ALLOW_THREADS if (!copy) bp_py_raise();
  return copy;
}

static PyObject *to_text(PyObject *self) {
  static const BpDevice host = {BP_DEVICE_CPU, 0};
  const BpTensor *tensor = tensor_of(self);
  BpTensor *compact = bp_view_is_compact(&tensor->view) ? NULL : copy_on(tensor, host);
  char *text = NULL;
  if (PyErr_Occurred())
    return NULL;
  Py_BEGIN_ALLOW_THREADS text = bp_tensor_format(compact ? &compact->view : &tensor->view, 0);
  Py_END_ALLOW_THREADS;
  PyObject *string = text ? PyUnicode_FromString(text) : bp_py_raise();
  bp_str_free(text);
  bp_object_release(compact);
  return string;
}

/* ---- Exporting through DLPack ------------------------------------------------------------ */

/* A managed tensor in a capsule. The deleter may be called twice: by a consumer that fails but
 * leaves the capsule unchanged (torch, for an unknown device), and then by the capsule. */
typedef struct Given {
  union {
    BpManagedTensor plain;
    BpManagedTensorVersioned versioned;
  } managed;
  void *own; /* the library's */
  atomic_int num_holders;
  atomic_int has_ended;
  int is_versioned;
} Given;

static void drop_given(Given *given) {
  if (atomic_fetch_sub(&given->num_holders, 1) == 1)
    free(given);
}

/* Ends the consumer's part at the first call of the deleter. */
static void end_given(Given *given) {
  if (atomic_exchange(&given->has_ended, 1))
    return;
  if (given->is_versioned)
    ((BpManagedTensorVersioned *)given->own)->deleter(given->own);
  else
    ((BpManagedTensor *)given->own)->deleter(given->own);
  drop_given(given);
}

static void delete_plain(BpManagedTensor *managed) {
  end_given(managed->manager_context);
}

static void delete_versioned(BpManagedTensorVersioned *managed) {
  end_given(managed->manager_context);
}

/* A capsule with another name was consumed: its consumer calls the deleter. */
static void free_capsule(PyObject *capsule) {
  Given *given = PyCapsule_GetContext(capsule);
  if (PyCapsule_IsValid(capsule, "dltensor") || PyCapsule_IsValid(capsule, "dltensor_versioned"))
    end_given(given);
  drop_given(given);
}

static int fill_given(Given *given, BpTensor *tensor, int is_copy) {
  if (given->is_versioned) {
    BpManagedTensorVersioned *managed = given->own = bp_tensor_to_dlpack_versioned(tensor);
    if (!managed)
      return -1;
    given->managed.versioned = *managed;
    given->managed.versioned.flags |= is_copy ? BP_DLPACK_COPIED : 0;
    given->managed.versioned.manager_context = given;
    given->managed.versioned.deleter = delete_versioned;
    return 0;
  }
  BpManagedTensor *managed = given->own = bp_tensor_to_dlpack(tensor);
  if (!managed)
    return -1;
  given->managed.plain = *managed;
  given->managed.plain.manager_context = given;
  given->managed.plain.deleter = delete_plain;
  return 0;
}

static PyObject *make_capsule(BpTensor *tensor, int is_versioned, int is_copy) {
  Given *given = calloc(1, sizeof(*given));
  if (!given)
    return PyErr_NoMemory();
  given->is_versioned = is_versioned;
  if (fill_given(given, tensor, is_copy) < 0) {
    free(given);
    return bp_py_raise();
  }
  given->num_holders = 2;
  PyObject *capsule = PyCapsule_New(&given->managed,
                                    is_versioned ? "dltensor_versioned" : "dltensor", free_capsule);
  if (capsule && PyCapsule_SetContext(capsule, given) == 0)
    return capsule;
  if (capsule)
    PyCapsule_SetDestructor(capsule, NULL);
  Py_XDECREF(capsule);
  end_given(given);
  drop_given(given);
  return NULL;
}

/* Waits for work that is queued on the tensor's device: the consumer knows none of its streams. */
static int wait_for_device(const BpTensor *tensor) {
  int status;
  Py_BEGIN_ALLOW_THREADS status = bp_stream_sync(tensor->view.device, NULL);
  Py_END_ALLOW_THREADS return status ? (bp_py_raise(), -1) : 0;
}

/* The request of a consumer. */
typedef struct Wish {
  int is_versioned;
  int waits;
  int copies;  /* 1 always, 0 never, -1 if necessary */
  BpDevice on; /* the requested device */
} Wish;

/* Parses a tuple of two numbers, which may be enumerators. */
static int parse_pair(PyObject *object, const char *name, int pair[2]) {
  if (PyTuple_Check(object) && PyTuple_Size(object) == 2)
    return PyArg_ParseTuple(object, "ii", &pair[0], &pair[1]) ? 0 : -1;
  PyErr_Format(PyExc_TypeError, "%s is a tuple of two integers or None, not %.80R", name, object);
  return -1;
}

static int parse_wish(PyObject *args, PyObject *keywords, Wish *wish) {
  static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
  int pair[2];
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO", names, &stream, &version, &device,
                                   &copy))
    return -1;
  if (version != Py_None) {
    if (parse_pair(version, "max_version", pair) < 0)
      return -1;
    wish->is_versioned = pair[0] >= 1;
  }
  if (device != Py_None) {
    if (parse_pair(device, "dl_device", pair) < 0)
      return -1;
    wish->on = (BpDevice){pair[0], pair[1]};
  }
  if (copy != Py_None && (wish->copies = PyObject_IsTrue(copy)) < 0)
    return -1;
  if (stream != Py_None) { /* for any stream but -1 the call waits for queued work */
    long number = PyLong_AsLong(stream);
    wish->waits = number != -1;
  }
  return PyErr_Occurred() ? -1 : 0;
}

/* Returns the tensor to export (transfer full): this one, or a copy if the caller requests a copy
 * or the tensor must move to another device. */
static BpTensor *tensor_for(BpTensor *tensor, const Wish *wish) {
  BpDevice own = tensor->view.device;
  if (wish->on.device_type == own.device_type && wish->on.device_id == own.device_id) {
    if (wish->copies == 1)
      return copy_on(tensor, own);
    return wish->waits && wait_for_device(tensor) < 0 ? NULL : bp_object_retain(tensor);
  }
  if (wish->on.device_type == BP_DEVICE_CPU && wish->copies != 0)
    return copy_on(tensor, wish->on);
  PyErr_SetString(PyExc_BufferError, "the tensor is on another device; use to_device");
  return NULL;
}

static PyObject *to_dlpack(PyObject *self, PyObject *args, PyObject *keywords) {
  BpTensor *tensor = tensor_of(self);
  Wish wish = {.waits = 1, .copies = -1, .on = tensor->view.device};
  if (parse_wish(args, keywords, &wish) < 0)
    return NULL;
  if (bp_tensor_is_read_only(tensor) && !wish.is_versioned && wish.copies != 1)
    PyErr_SetString(PyExc_BufferError,
                    "the tensor is read-only, which DLPack before 1.0 cannot say; ask for "
                    "max_version=(1, 0) or a copy");
  BpTensor *given = PyErr_Occurred() ? NULL : tensor_for(tensor, &wish);
  if (!given)
    return NULL;
  PyObject *capsule = make_capsule(given, wish.is_versioned, given != tensor);
  bp_object_release(given);
  return capsule;
}

static PyObject *dlpack_device(PyObject *self, PyObject *ignored) {
  BpDevice device = tensor_of(self)->view.device;
  (void)ignored;
  return Py_BuildValue("ii", (int)device.device_type, (int)device.device_id);
}

/* ---- Importing through DLPack ------------------------------------------------------------ */

static PyObject *ask_for_capsule(PyObject *object) {
  PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
  if (!method) {
    PyErr_Format(PyExc_TypeError, "%.80R is no array: it has no __dlpack__", object);
    return NULL;
  }
  PyObject *none = PyTuple_New(0), *keywords = Py_BuildValue("{s:(ii)}", "max_version", 1, 1);
  PyObject *capsule = none && keywords ? PyObject_Call(method, none, keywords) : NULL;
  if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    capsule = PyObject_CallNoArgs(method);
  }
  Py_XDECREF(keywords);
  Py_XDECREF(none);
  Py_DECREF(method);
  return capsule;
}

BpTensor *bp_py_tensor_from_dlpack(PyObject *object) {
  PyObject *capsule = ask_for_capsule(object);
  BpTensor *tensor = NULL;
  if (!capsule)
    return NULL;
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    tensor = bp_tensor_from_dlpack_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    if (tensor)
      PyCapsule_SetName(capsule, "used_dltensor_versioned");
  } else if (PyCapsule_IsValid(capsule, "dltensor")) {
    tensor = bp_tensor_from_dlpack(PyCapsule_GetPointer(capsule, "dltensor"));
    if (tensor)
      PyCapsule_SetName(capsule, "used_dltensor");
  } else {
    PyErr_SetString(PyExc_TypeError, "__dlpack__ gave no capsule of a tensor");
  }
  Py_DECREF(capsule);
  if (!tensor)
    bp_py_raise();
  return tensor;
}

/* ---- Buffers ----------------------------------------------------------------------------- */

/* The format, shape and strides of a buffer while it is exported. */
typedef struct Exported {
  char format[3];
  Py_ssize_t extents[];
} Exported;

/* Returns the format of an element type, "" if the buffer protocol has none. */
static const char *format_of(BpDataType dtype) {
  static const struct {
    BpDataType dtype;
    const char *format;
  } formats[] = {
      {{BP_DTYPE_INT, 8, 1}, "b"},    {{BP_DTYPE_INT, 16, 1}, "h"},
      {{BP_DTYPE_INT, 32, 1}, "i"},   {{BP_DTYPE_INT, 64, 1}, "q"},
      {{BP_DTYPE_UINT, 8, 1}, "B"},   {{BP_DTYPE_UINT, 16, 1}, "H"},
      {{BP_DTYPE_UINT, 32, 1}, "I"},  {{BP_DTYPE_UINT, 64, 1}, "Q"},
      {{BP_DTYPE_FLOAT, 16, 1}, "e"}, {{BP_DTYPE_FLOAT, 32, 1}, "f"},
      {{BP_DTYPE_FLOAT, 64, 1}, "d"}, {{BP_DTYPE_COMPLEX, 64, 1}, "Zf"},
      {{BP_DTYPE_BOOL, 8, 1}, "?"},   {{BP_DTYPE_COMPLEX, 128, 1}, "Zd"},
  };
  for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
    if (!memcmp(&formats[i].dtype, &dtype, sizeof(dtype)))
      return formats[i].format;
  return "";
}

static int refuse_buffer(Py_buffer *buffer, const char *why) {
  buffer->obj = NULL;
  PyErr_SetString(PyExc_BufferError, why);
  return -1;
}

static void fill_buffer(Py_buffer *buffer, const BpTensorView *view, Exported *exported) {
  Py_ssize_t size = (Py_ssize_t)bp_dtype_bytes(view->dtype);
  buffer->buf = (char *)view->data + view->byte_offset;
  buffer->len = (Py_ssize_t)bp_view_num_bytes(view);
  buffer->itemsize = size;
  buffer->ndim = view->ndim;
  buffer->format = exported->format;
  buffer->shape = exported->extents;
  buffer->strides = exported->extents + view->ndim;
  buffer->suboffsets = NULL;
  buffer->internal = exported;
  for (int32_t i = 0; i < view->ndim; i++) {
    buffer->shape[i] = (Py_ssize_t)view->shape[i];
    buffer->strides[i] = (Py_ssize_t)view->strides[i] * size;
  }
}

static int get_buffer(PyObject *self, Py_buffer *buffer, int flags) {
  BpTensor *tensor = tensor_of(self);
  const BpTensorView *view = &tensor->view;
  const char *format = format_of(view->dtype);
  if (view->device.device_type != BP_DEVICE_CPU)
    return refuse_buffer(buffer, "the tensor is on a device; use to_device(\"cpu\")");
  if (!*format)
    return refuse_buffer(buffer, "elements of this type have no format");
  if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !bp_view_is_compact(view))
    return refuse_buffer(buffer, "the tensor has strides");
  int read_only = bp_tensor_is_read_only(tensor);
  if (read_only && (flags & PyBUF_WRITABLE))
    return refuse_buffer(buffer, "the tensor is read-only");
  Exported *exported =
      PyMem_Malloc(sizeof(*exported) + 2 * (size_t)view->ndim * sizeof(Py_ssize_t));
  if (!exported)
    return (PyErr_NoMemory(), -1);
  memcpy(exported->format, format, strlen(format) + 1);
  fill_buffer(buffer, view, exported);
  buffer->readonly = read_only;
  buffer->obj = Py_NewRef(self);
  return 0;
}

static void release_buffer(PyObject *self, Py_buffer *buffer) {
  (void)self;
  PyMem_Free(buffer->internal);
}

static PyObject *view_as(PyObject *self, PyObject *args) {
  int64_t extents[BP_PY_MAX_NDIM];
  PyObject *shape;
  const char *name;
  BpDataType dtype;
  if (!PyArg_ParseTuple(args, "Os", &shape, &name))
    return NULL;
  int count = bp_py_get_extents(shape, extents);
  if (count < 0 || bp_dtype_parse(name, &dtype))
    return bp_py_raise();
  return bp_py_hold(bp_py_tensor_type,
                    bp_tensor_create_view(tensor_of(self), extents, count, dtype, 0));
}

static PyMethodDef methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))to_dlpack, METH_VARARGS | METH_KEYWORDS,
     "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nA "
     "capsule that shares the memory."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS,
     "__dlpack_device__($self, /)\n--\n\nDevice type and index."},
    {"copy_to", copy_to, METH_O,
     "copy_to($self, target, /)\n--\n\nCopies into another tensor, on any device; returns the "
     "other tensor."},
    {"view_as", view_as, METH_VARARGS,
     "view_as($self, shape, dtype, /)\n--\n\nThe same memory with another shape and type."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"An array on a device."},
    {Py_tp_getset, getters},
    {Py_tp_methods, methods},
    {Py_tp_str, (void *)to_text},
    {Py_bf_getbuffer, (void *)get_buffer},
    {Py_bf_releasebuffer, (void *)release_buffer},
    {Py_tp_dealloc, (void *)bp_py_dealloc_holder},
    {0, NULL},
};
static PyType_Spec spec = {
    "backplane._core.Tensor", sizeof(Holder), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

int bp_py_add_tensor(PyObject *module) {
  bp_py_tensor_type = bp_py_add_type(module, &spec);
  return bp_py_tensor_type ? 0 : -1;
}
