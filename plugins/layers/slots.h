/* SPDX-License-Identifier: Apache-2.0 */
/* The slots that layers see, with the names that BACKPLANE_FAULT and the trace have. Made from
 * sdk/backplane-abi.json: make abi-baseline. */
#ifndef BP_LAYERS_SLOTS_H
#define BP_LAYERS_SLOTS_H

#define BP_LAYERS_SLOTS(X)                                                                         \
  X(GET_DEVICE_COUNT, "get_device_count")                                                          \
  X(GET_ATTR, "get_attr")                                                                          \
  X(SET_DEVICE, "set_device")                                                                      \
  X(ALLOC_DATA_SPACE, "alloc_data_space")                                                          \
  X(FREE_DATA_SPACE, "free_data_space")                                                            \
  X(ALLOC_WORKSPACE, "alloc_workspace")                                                            \
  X(FREE_WORKSPACE, "free_workspace")                                                              \
  X(COPY, "copy")                                                                                  \
  X(CREATE_STREAM, "create_stream")                                                                \
  X(FREE_STREAM, "free_stream")                                                                    \
  X(SYNC_STREAM_FROM_TO, "sync_stream_from_to")                                                    \
  X(STREAM_SYNC, "stream_sync")                                                                    \
  X(VISIT_PROPERTIES, "visit_properties")                                                          \
  X(GET_EXTENSION, "get_extension")                                                                \
  X(LAUNCH, "launch")                                                                              \
  X(TIMER_START, "timer.start")                                                                    \
  X(TIMER_STOP, "timer.stop")                                                                      \
  X(TIMER_READ, "timer.read")                                                                      \
  X(TIMER_FREE, "timer.free")                                                                      \
  X(RECORDING_BEGIN, "recording.begin")                                                            \
  X(RECORDING_END, "recording.end")                                                                \
  X(RECORDING_REPLAY, "recording.replay")                                                          \
  X(RECORDING_FREE, "recording.free")                                                              \
  X(EVENTS_CREATE, "events.create")                                                                \
  X(EVENTS_FREE, "events.free")                                                                    \
  X(EVENTS_RECORD, "events.record")                                                                \
  X(EVENTS_WAIT, "events.wait")                                                                    \
  X(EVENTS_QUERY, "events.query")                                                                  \
  X(EVENTS_SYNCHRONIZE, "events.synchronize")                                                      \
  X(EVENTS_NOTIFY, "events.notify")                                                                \
  X(EVENTS_HOLD, "events.hold")                                                                    \
  X(EVENTS_SIGNAL, "events.signal")                                                                \
  X(EXTERNAL_MEMORY_GET_FORMS, "external_memory.get_forms")                                        \
  X(EXTERNAL_MEMORY_IMPORT_MEMORY, "external_memory.import_memory")                                \
  X(EXTERNAL_MEMORY_EXPORT_MEMORY, "external_memory.export_memory")

#endif
