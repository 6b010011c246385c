/* SPDX-License-Identifier: Apache-2.0 */
/* The function that libbackplane-onnxruntime.so exports besides the two functions of ONNX Runtime,
 * for programs that look it up with dlsym or ctypes. */
#ifndef BACKPLANE_BRIDGES_ONNXRUNTIME_ONNXRUNTIME_H
#define BACKPLANE_BRIDGES_ONNXRUNTIME_ONNXRUNTIME_H

#include <backplane/api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes the provider's claims in all open sessions, the newest last, as JSON: a list of {"graph",
 * "device", "target", "nodes", "claimed", "parts", "left": [{"node", "operator", "why"}]}. Later
 * versions may add members. Writes at most `capacity` bytes with the NUL; returns the length of the
 * whole text, as snprintf does. Never fails; if memory is exhausted, the text is "". Any thread. */
BP_API size_t bp_onnxruntime_report(char *text, size_t capacity);

#ifdef __cplusplus
}
#endif

#endif
