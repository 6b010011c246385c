/* SPDX-License-Identifier: Apache-2.0 */
/* Objects, values and packed functions, for applications that make and call them. A NULL where none
 * is allowed is an error of kind BP_ERROR_VALUE; functions that only read give 0 or NULL for it. */
#ifndef BACKPLANE_OBJECT_H
#define BACKPLANE_OBJECT_H

#include <backplane/api.h>
#include <backplane/host_api.h>
#include <backplane/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Adds a strong reference; returns `object`. NULL is ignored. Any thread. */
BP_API void *bp_object_retain(void *object);
/* Drops a strong reference; dropping the last one destroys the object. NULL is ignored. Any
 * thread. */
BP_API void bp_object_release(void *object);
/* bp_object_retain and bp_object_release with a checked type. The functions for targets, modules
 * and tensors are in target.h, module.h and tensor.h. */
static inline void bp_function_release(BpFunction *function) {
  bp_object_release(function);
}
static inline void bp_shape_release(BpShape *shape) {
  bp_object_release(shape);
}
static inline void bp_array_release(BpArray *array) {
  bp_object_release(array);
}

/* Releases the object in an owned value, if the value has one, and sets the value to None. NULL is
 * ignored. */
BP_API void bp_value_clear(BpValue *value);

/* Makes an owned string or byte string value; copies. Strings of up to 7 bytes need no object. */
BP_API int bp_value_make_str(BpValue *value, const char *data, size_t size);
BP_API int bp_value_make_bytes(BpValue *value, const char *data, size_t size);
/* Borrows the characters of any string value, or the bytes of any byte string value. */
BP_API int bp_value_view_str(const BpValue *value, BpByteArray *view);
/* Returns the name of a BP_TYPE_* for messages: "int", "Tensor". Static. */
BP_API const char *bp_type_name(int32_t type_index);

/* Format a data type as text, "float32", "int8x4", "bool", and parse it. Formatting writes at most
 * `capacity` bytes with the NUL and returns the length of the whole text, as snprintf does. 32
 * bytes hold any data type. */
BP_API size_t bp_dtype_format(BpDataType dtype, char *text, size_t capacity);
BP_API int bp_dtype_parse(const char *text, BpDataType *dtype);
/* Returns the bytes of one element with all lanes, rounded up. Elements whose bits are not a
 * multiple of 8 are packed: bp_dtype_array_bytes and bp_view_num_bytes compute the bytes of several
 * elements. */
BP_API size_t bp_dtype_bytes(BpDataType dtype);
/* Reads element `index` of packed elements, as in a compact tensor, as a double into *value.
 * Supports every type whose element is one real number: integers, bool, and floats of 4 to 64 bits;
 * other types are BP_ERROR_TYPE. An integer beyond 2^53 is rounded. `elements` is host memory, of
 * any alignment. 0, or -1 with an error. Any thread. Since 1.0. */
BP_API int bp_dtype_decode(BpDataType dtype, const void *elements, uint64_t index, double *value);

/* Makes a shape (transfer full); copies the extents. */
BP_API BpShape *bp_shape_create(const int64_t *extents, size_t size);

/* Makes a list of values (transfer full), which takes references of its own. Values that are always
 * borrowed (views, raw strings) cannot be stored in a list: an error. */
BP_API BpArray *bp_array_create(const BpValue *values, size_t size);

/* Makes a function (transfer full). `call` gets the BpClosure as self; destroy (or NULL) gets the
 * context with the last reference, and at once if the creation fails. */
BP_API BpFunction *bp_function_create(BpPackedCall call, void *context, void (*destroy)(void *));

/* Calls a function. *result is set to None first; after success the caller owns the object in
 * it. */
BP_API int bp_function_call(BpFunction *function, const BpValue *args, int32_t num_args,
                            BpValue *result);

/* ---- The global registry: functions by name ---------------------------------------------- */

/* Registers a function; the registry takes its own reference. A name in use is an error unless
 * `override` is non-zero. In a thread that initialises a plugin linked into the program the name
 * belongs to the plugin, as with BpRegistryTable::set. */
BP_API int bp_registry_set(const char *name, BpFunction *function, int override);
/* Finds a function (transfer full in *function); NULL, without an error, if the name is unknown.
 * Activates the plugin that provides the name; a failure of the activation is an error. */
BP_API int bp_registry_get(const char *name, BpFunction **function);
/* Removes a name; an unknown name is an error. */
BP_API int bp_registry_remove(const char *name);
/* Returns all names in use, sorted; one allocation, freed with bp_names_free. *count may be
 * NULL. */
BP_API char **bp_registry_list(size_t *count);
/* Frees a NULL-terminated list that a function of this API returned. NULL is ignored. */
BP_API void bp_names_free(char **names);

#ifdef __cplusplus
}
#endif

#endif
