/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a trace. One for all kinds of device of the process. */
#ifndef BP_LAYERS_TRACE_H
#define BP_LAYERS_TRACE_H

#include "layers.h"

/* Opens BACKPLANE_TRACE_FILE, once. 0, or -1 with an error. Any thread. */
int32_t bp_layers_trace_open(void);
/* Adds an event, the text of a JSON object. A failed write ends the trace. Any thread. */
void bp_layers_trace_write(const char *event);
/* Warns that the trace has ended, once. The caller holds no lock, since whoever reads the log may
 * use a device. */
void bp_layers_trace_log(void);

#endif
