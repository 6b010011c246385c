/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: a header, then for each tensor its name and the bytes of a .npy file, each preceded by
 * its number of bytes. */
#include "tools/mpi/mpi.h"

#include <string.h>

#include <backplane/graph/npy.h>
#include <backplane/object.h>

GByteArray *message_create(int64_t item) {
  Message header = {.item = item};
  return g_byte_array_append(g_byte_array_new(), (const guint8 *)&header, sizeof header);
}

Message *message_header(const GByteArray *message) {
  return (Message *)(void *)message->data;
}

static void add_bytes(GByteArray *message, const void *bytes, uint64_t size) {
  g_byte_array_append(message, (const guint8 *)&size, sizeof size);
  g_byte_array_append(message, bytes, (guint)size);
}

int message_add_tensor(GByteArray *message, const char *name, const BpTensorView *tensor) {
  BpOwnedBytes bytes;
  if (bp_npy_encode(tensor, &bytes) < 0)
    return -1;
  size_t length = strlen(name);
  int status = 0;
  if (bytes.size + length > (uint64_t)G_MAXINT - message->len - 2 * sizeof(uint64_t)) {
    status = bp_error_raise(BP_ERROR_VALUE, "an item has more than the 2 GiB of tensors that a "
                                            "message of MPI takes");
  } else {
    add_bytes(message, name, length);
    add_bytes(message, bytes.data, bytes.size);
    message_header(message)->num_tensors++;
  }
  bp_owned_bytes_clear(&bytes);
  return status;
}

void message_fail(GByteArray *message, int64_t status, const char *text) {
  g_byte_array_set_size(message, sizeof(Message));
  message_header(message)->status = status;
  message_header(message)->num_tensors = 0;
  g_byte_array_append(message, (const guint8 *)text, (guint)strlen(text));
}

char *message_text(const GByteArray *message) {
  return g_strndup((const char *)message->data + sizeof(Message), message->len - sizeof(Message));
}

static void named_tensor_free(gpointer tensor) {
  NamedTensor *self = tensor;
  g_free(self->name);
  bp_object_release(self->tensor);
  g_free(self);
}

/* Returns the bytes at `*at`, and advances `*at` past them. -1 with an error. */
static int take_bytes(const guint8 **at, const guint8 *end, BpByteArray *bytes) {
  uint64_t size = 0;
  if ((size_t)(end - *at) < sizeof size)
    return bp_error_raise(BP_ERROR_FORMAT, "a message of another rank is cut short");
  memcpy(&size, *at, sizeof size);
  *at += sizeof size;
  if (size > (uint64_t)(end - *at))
    return bp_error_raise(BP_ERROR_FORMAT, "a message of another rank is cut short");
  *bytes = (BpByteArray){(const char *)*at, (size_t)size};
  *at += size;
  return 0;
}

GPtrArray *message_tensors(const GByteArray *message) {
  GPtrArray *tensors = g_ptr_array_new_with_free_func(named_tensor_free);
  const guint8 *at = message->data + sizeof(Message), *end = message->data + message->len;
  for (int64_t i = 0; i < message_header(message)->num_tensors; i++) {
    BpByteArray name, bytes;
    BpTensor *tensor = take_bytes(&at, end, &name) < 0 || take_bytes(&at, end, &bytes) < 0
                           ? NULL
                           : bp_npy_decode(&bytes, "a tensor of another rank");
    if (!tensor) {
      g_ptr_array_unref(tensors);
      return NULL;
    }
    NamedTensor *named = g_new0(NamedTensor, 1);
    named->name = g_strndup(name.data, name.size);
    named->tensor = tensor;
    g_ptr_array_add(tensors, named);
  }
  return tensors;
}

GByteArray *message_receive(const MPI_Status *found) {
  int size;
  MPI_Get_count(found, MPI_BYTE, &size);
  GByteArray *message = g_byte_array_set_size(g_byte_array_new(), (guint)size);
  MPI_Recv(message->data, size, MPI_BYTE, found->MPI_SOURCE, found->MPI_TAG, MPI_COMM_WORLD,
           MPI_STATUS_IGNORE);
  return message;
}
