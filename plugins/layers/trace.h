/* SPDX-License-Identifier: Apache-2.0 */
/* The trace file, shared by all kinds of device of the process. */
#ifndef BP_LAYERS_TRACE_H
#define BP_LAYERS_TRACE_H

#include "layers.h"

/* Opens the file that BACKPLANE_TRACE_FILE names, once. 0, or -1 with an error. Any thread. */
int32_t bp_layers_trace_open(void);
/* Adds an event to the trace, the text of a JSON object. A failed write ends the trace. Any
 * thread. */
void bp_layers_trace_write(const char *event);
/* Warns once that the trace has ended. The caller holds no lock, since the log callback may use a
 * device. */
void bp_layers_trace_log(void);

#endif
