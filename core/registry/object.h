/* SPDX-License-Identifier: Apache-2.0 */
/* Making objects, for the other parts of the core. */
#ifndef BACKPLANE_CORE_REGISTRY_OBJECT_H
#define BACKPLANE_CORE_REGISTRY_OBJECT_H

#include "core/system/shared.h"

#include <backplane/object.h>

/* Fills the header of an object; the caller then holds one strong reference. */
BP__SHARED void bp__object_init(BpObject *header, int32_t type_index,
                                void (*deleter)(void *self, int flags));

/* Like bp_function_create, but the function also keeps `owner` (an object or NULL) alive; the owner
 * is released after `destroy` has run. */
BpFunction *bp__function_create_owned(BpPackedCall call, void *context, void (*destroy)(void *),
                                      void *owner);

/* Make values; they cannot fail, and borrow their arguments. */
static inline BpValue bp__value_int(int64_t number) {
  return (BpValue){.type_index = BP_TYPE_INT, .v_int64 = number};
}
static inline BpValue bp__value_raw_str(const char *text) {
  return (BpValue){.type_index = BP_TYPE_RAW_STR, .v_cstr = text};
}
static inline BpValue bp__value_object(void *object) {
  BpObject *header = object;
  return (BpValue){.type_index = header ? header->type_index : BP_TYPE_NONE, .v_obj = header};
}
static inline BpValue bp__value_byte_array(const BpByteArray *bytes) {
  return (BpValue){.type_index = BP_TYPE_BYTE_ARRAY, .v_ptr = (void *)(uintptr_t)bytes};
}

#endif
