/* SPDX-License-Identifier: Apache-2.0 */
/* A growing buffer of bytes, for text, JSON and protocol buffers. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridges/onnxruntime/bridge.h"

static bool make_room(Bytes *bytes, size_t size) {
  if (bytes->is_out_of_memory)
    return false;
  if (size < bytes->room - bytes->size)
    return true;
  size_t room = bytes->room ? bytes->room : 256;
  while (room - bytes->size <= size)
    room *= 2;
  char *data = realloc(bytes->data, room);
  if (!data) {
    bytes->is_out_of_memory = true;
    return false;
  }
  bytes->data = data;
  bytes->room = room;
  return true;
}

void bytes_put(Bytes *bytes, const void *data, size_t size) {
  if (size == 0 || !make_room(bytes, size))
    return;
  memcpy(bytes->data + bytes->size, data, size);
  bytes->size += size;
}

void bytes_print(Bytes *bytes, const char *format, ...) {
  va_list args;
  char text[512];
  va_start(args, format);
  int size = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (size < 0)
    return;
  if ((size_t)size < sizeof text) {
    bytes_put(bytes, text, (size_t)size);
    return;
  }
  if (!make_room(bytes, (size_t)size + 1))
    return;
  va_start(args, format);
  vsnprintf(bytes->data + bytes->size, (size_t)size + 1, format, args);
  va_end(args);
  bytes->size += (size_t)size;
}

/* Returns the number of bytes of the UTF-8 character at the start of a text; 0 if there is none. */
static size_t character_size(const unsigned char *text) {
  static const struct {
    unsigned char first, last, second_first, second_last, size;
  } forms[] = {
      {0x01, 0x7f, 0x00, 0xff, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
      {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
      {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    if (text[0] < forms[i].first || text[0] > forms[i].last || text[1] < forms[i].second_first ||
        text[1] > forms[i].second_last)
      continue;
    for (size_t k = 2; k < forms[i].size; k++)
      if (text[k] < 0x80 || text[k] > 0xbf)
        return 0;
    return forms[i].size;
  }
  return 0;
}

/* A model may contain names that are not UTF-8, which JSON does not allow. */
void bytes_put_json(Bytes *bytes, const char *text) {
  const unsigned char *at = (const unsigned char *)text;
  bytes_put(bytes, "\"", 1);
  while (*at) {
    size_t size = character_size(at);
    if (size == 0)
      bytes_print(bytes, "\\ufffd");
    else if (*at == '"' || *at == '\\')
      bytes_print(bytes, "\\%c", *at);
    else if (*at < 0x20)
      bytes_print(bytes, "\\u%04x", *at);
    else
      bytes_put(bytes, at, size);
    at += size ? size : 1;
  }
  bytes_put(bytes, "\"", 1);
}

int bytes_end(Bytes *bytes) {
  if (make_room(bytes, 1))
    bytes->data[bytes->size] = '\0';
  return bytes->is_out_of_memory
             ? bp_error_raise(BP_ERROR_MEMORY, "no memory for more than %zu bytes", bytes->size)
             : 0;
}

void bytes_free(Bytes *bytes) {
  free(bytes->data);
  *bytes = (Bytes){0};
}

/* ---- Protocol buffers ------------------------------------------------------------------------ */

enum { WIRE_VARINT = 0, WIRE_LENGTH = 2, WIRE_32 = 5 };

static void put_varint(Bytes *bytes, uint64_t value) {
  char text[10];
  size_t size = 0;
  do {
    text[size++] = (char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
    value >>= 7;
  } while (value);
  bytes_put(bytes, text, size);
}

static void put_tag(Bytes *bytes, uint32_t field, uint32_t wire) {
  put_varint(bytes, (uint64_t)field << 3 | wire);
}

void bytes_put_int(Bytes *bytes, uint32_t field, int64_t value) {
  put_tag(bytes, field, WIRE_VARINT);
  put_varint(bytes, (uint64_t)value);
}

void bytes_put_float(Bytes *bytes, uint32_t field, float value) {
  put_tag(bytes, field, WIRE_32);
  bytes_put(bytes, &value, sizeof value);
}

void bytes_put_data(Bytes *bytes, uint32_t field, const void *data, size_t size) {
  put_tag(bytes, field, WIRE_LENGTH);
  put_varint(bytes, size);
  bytes_put(bytes, data, size);
}

void bytes_put_text(Bytes *bytes, uint32_t field, const char *text) {
  bytes_put_data(bytes, field, text, strlen(text));
}

void bytes_put_message(Bytes *bytes, uint32_t field, Bytes *message) {
  bytes_put_data(bytes, field, message->data, message->size);
  bytes->is_out_of_memory |= message->is_out_of_memory;
  bytes_free(message);
}
