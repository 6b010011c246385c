/* SPDX-License-Identifier: Apache-2.0 */
/* The part of ONNX Runtime's C ABI that this bridge uses, declared here since no package has its
 * headers. Names, indices and arguments are those that ONNX Runtime publishes; unused slots are
 * gaps.
 *
 * A table that ONNX Runtime fills is an array of pointers that only grows: a slot stays at its
 * index for ever, and the comment after the slot is that index. A slot exists from the version of
 * its section on; the bridge checks the runtime's `version` before it calls a later slot. A table
 * that this bridge fills starts with the version of its layout. A function that returns an
 * OrtStatus returns NULL for success; otherwise the caller releases the status. An object that an
 * argument `result` receives belongs to ONNX Runtime unless the slot says "released by". */
#ifndef BACKPLANE_BRIDGES_ONNXRUNTIME_ORT_ABI_H
#define BACKPLANE_BRIDGES_ONNXRUNTIME_ORT_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The oldest supported runtime, and the version of the layouts below unless a table's comment names
 * another version: version 1.N has number N. */
#define ORT_OLDEST_VERSION 23
/* The version of OrtEp's layout. Older runtimes do not read the later slots of OrtEp. */
#define ORT_EP_VERSION 27
/* The newest version of a slot that is declared here in a table that ONNX Runtime fills. */
#define ORT_NEWEST_VERSION 28

typedef struct OrtStatus OrtStatus;
typedef struct OrtValue OrtValue;
typedef struct OrtValueInfo OrtValueInfo;
typedef struct OrtTypeInfo OrtTypeInfo;
typedef struct OrtTensorInfo OrtTensorInfo;
typedef struct OrtKernelContext OrtKernelContext;
typedef struct OrtLogger OrtLogger;
typedef struct OrtOpAttr OrtOpAttr;
typedef struct OrtKeyValuePairs OrtKeyValuePairs;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtGraph OrtGraph;
typedef struct OrtNode OrtNode;
typedef struct OrtHardwareDevice OrtHardwareDevice;
typedef struct OrtEpDevice OrtEpDevice;
typedef struct OrtGraphSupportInfo OrtGraphSupportInfo;
typedef struct OrtNodeComputeContext OrtNodeComputeContext;
typedef struct OrtMemoryInfo OrtMemoryInfo;
typedef struct OrtMemoryDevice OrtMemoryDevice;
typedef struct OrtSyncStream OrtSyncStream;
typedef struct OrtKernelRegistry OrtKernelRegistry;
typedef struct OrtKernelDefBuilder OrtKernelDefBuilder;
typedef struct OrtKernelDef OrtKernelDef;
typedef struct OrtKernelInfo OrtKernelInfo;
typedef struct OrtDataType OrtDataType;

/* Codes of a status. */
#define ORT_FAIL             1
#define ORT_INVALID_ARGUMENT 2
#define ORT_NOT_IMPLEMENTED  9
#define ORT_EP_FAIL          11

/* Levels of a message. */
#define ORT_LEVEL_INFO    1
#define ORT_LEVEL_WARNING 2
#define ORT_LEVEL_ERROR   3

/* Types of an attribute. */
#define ORT_ATTR_INT     1
#define ORT_ATTR_INTS    2
#define ORT_ATTR_FLOAT   3
#define ORT_ATTR_FLOATS  4
#define ORT_ATTR_STRING  5
#define ORT_ATTR_STRINGS 6
#define ORT_ATTR_GRAPH   7
#define ORT_ATTR_TENSOR  8

/* Kinds of hardware. */
#define ORT_HARDWARE_CPU 0
#define ORT_HARDWARE_GPU 1

/* Kinds of memory. */
#define ORT_MEMORY_CPU            0
#define ORT_MEMORY_GPU            1
#define ORT_MEMORY_DEFAULT        0 /* memory of a device that the host does not access */
#define ORT_ALLOCATOR_DEVICE      0
#define ORT_KERNEL_INPUT_ON_HOST  (-2)
#define ORT_KERNEL_OUTPUT_ON_HOST (-1)

typedef void (*OrtUnused)(void);
/* Unused slots, from index `from` to the one before `to`. */
#define ORT_GAP(from, to) OrtUnused unused_##from[(to) - (from)]

/* ---- Tables that ONNX Runtime fills ------------------------------------------------------- */

typedef struct OrtModelEditorApi {
  ORT_GAP(0, 6);
  /* Takes the attributes over. The receiver of the node owns the node. */
  OrtStatus *(*CreateNode)(const char *op, const char *domain, const char *name, /* 6 */
                           const char *const *inputs, size_t num_inputs, const char *const *outputs,
                           size_t num_outputs, OrtOpAttr **attrs, size_t num_attrs,
                           OrtNode **result);
} OrtModelEditorApi;

typedef struct OrtFusionOptions {
  uint32_t version;
  bool drop_constant_initializers;
} OrtFusionOptions;

struct OrtEpFactory;
struct OrtKernelImpl;
struct OrtSyncStreamImpl;

/* Makes a kernel, which ONNX Runtime releases. `state` was passed with the function. */
typedef OrtStatus *(*OrtKernelCreate)(void *state, const OrtKernelInfo *info,
                                      struct OrtKernelImpl **result);

typedef struct OrtEpApi {
  /* ---- 1.23. The caller of GetSupportedDevices owns the device. */
  OrtStatus *(*CreateEpDevice)(struct OrtEpFactory *factory, /* 0 */
                               const OrtHardwareDevice *hardware, const OrtKeyValuePairs *metadata,
                               const OrtKeyValuePairs *options, OrtEpDevice **result);
  void (*ReleaseEpDevice)(OrtEpDevice *device);                                        /* 1 */
  OrtStatus *(*AddNodesToFuse)(OrtGraphSupportInfo *info, const OrtNode *const *nodes, /* 2 */
                               size_t num_nodes, const OrtFusionOptions *options);
  ORT_GAP(3, 5);
  /* The device keeps the pointer: the info must outlive the device. */
  OrtStatus *(*EpDevice_AddAllocatorInfo)(OrtEpDevice *device, const OrtMemoryInfo *info); /* 5 */
  const OrtMemoryDevice *(*MemoryInfo_GetMemoryDevice)(const OrtMemoryInfo *info);         /* 6 */
  ORT_GAP(7, 8);
  bool (*MemoryDevice_AreEqual)(const OrtMemoryDevice *a, const OrtMemoryDevice *b); /* 8 */
  int32_t (*MemoryDevice_GetDeviceType)(const OrtMemoryDevice *device);              /* 9 */
  ORT_GAP(10, 11);
  uint32_t (*MemoryDevice_GetVendorId)(const OrtMemoryDevice *device); /* 11 */
  ORT_GAP(12, 13);
  /* Returns the stream that CreateSyncStreamForDevice of any provider made. */
  const struct OrtSyncStreamImpl *(*SyncStream_GetImpl)(const OrtSyncStream *stream); /* 13 */
  ORT_GAP(14, 18);
  /* ---- 1.24. */
  OrtStatus *(*CreateKernelRegistry)(OrtKernelRegistry **result); /* 18, released by 19 */
  void (*ReleaseKernelRegistry)(OrtKernelRegistry *registry);     /* 19 */
  OrtStatus *(*KernelRegistry_AddKernel)(OrtKernelRegistry *registry, const OrtKernelDef *def,
                                         OrtKernelCreate create, void *state); /* 20 */
  OrtStatus *(*CreateKernelDefBuilder)(OrtKernelDefBuilder **result);          /* 21 */
  void (*ReleaseKernelDefBuilder)(OrtKernelDefBuilder *builder);               /* 22 */
  OrtStatus *(*KernelDefBuilder_SetOperatorType)(OrtKernelDefBuilder *builder, /* 23 */
                                                 const char *op);
  OrtStatus *(*KernelDefBuilder_SetDomain)(OrtKernelDefBuilder *builder, /* 24 */
                                           const char *domain);
  OrtStatus *(*KernelDefBuilder_SetSinceVersion)(OrtKernelDefBuilder *builder, /* 25 */
                                                 int32_t first, int32_t last);
  OrtStatus *(*KernelDefBuilder_SetExecutionProvider)(OrtKernelDefBuilder *builder, /* 26 */
                                                      const char *name);
  OrtStatus *(*KernelDefBuilder_SetInputMemType)(OrtKernelDefBuilder *builder, /* 27 */
                                                 size_t index, int32_t type);
  OrtStatus *(*KernelDefBuilder_SetOutputMemType)(OrtKernelDefBuilder *builder, /* 28 */
                                                  size_t index, int32_t type);
  OrtStatus *(*KernelDefBuilder_AddTypeConstraint)(OrtKernelDefBuilder *builder, /* 29 */
                                                   const char *name,
                                                   const OrtDataType *const *types, size_t count);
  ORT_GAP(30, 32);
  OrtStatus *(*KernelDefBuilder_Build)(OrtKernelDefBuilder *builder,
                                       OrtKernelDef **result); /* 32 */
  void (*ReleaseKernelDef)(OrtKernelDef *def);                 /* 33 */
  ORT_GAP(34, 40);
  OrtStatus *(*GetTensorDataType)(int32_t type, const OrtDataType **result); /* 40 */
} OrtEpApi;

typedef struct OrtApi {
  /* ---- Before 1.22. */
  OrtStatus *(*CreateStatus)(int32_t code, const char *message); /* 0 */
  ORT_GAP(1, 2);
  const char *(*GetErrorMessage)(const OrtStatus *status); /* 2 */
  ORT_GAP(3, 51);
  OrtStatus *(*GetTensorMutableData)(OrtValue *value, void **result); /* 51 */
  ORT_GAP(52, 55);
  /* NULL for a type other than a tensor. */
  OrtStatus *(*CastTypeInfoToTensorInfo)(const OrtTypeInfo *type, /* 55 */
                                         const OrtTensorInfo **result);
  ORT_GAP(56, 60);
  /* The type's number in ONNX. */
  OrtStatus *(*GetTensorElementType)(const OrtTensorInfo *info, int32_t *result); /* 60 */
  OrtStatus *(*GetDimensionsCount)(const OrtTensorInfo *info, size_t *result);    /* 61 */
  /* An unknown extent is -1. */
  OrtStatus *(*GetDimensions)(const OrtTensorInfo *info, int64_t *extents, size_t count); /* 62 */
  OrtStatus *(*GetSymbolicDimensions)(const OrtTensorInfo *info, const char **names,      /* 63 */
                                      size_t count);
  ORT_GAP(64, 65);
  /* Released by ReleaseTensorInfo. */
  OrtStatus *(*GetTensorTypeAndShape)(const OrtValue *value, OrtTensorInfo **result); /* 65 */
  ORT_GAP(66, 90);
  OrtStatus *(*KernelContext_GetInput)(const OrtKernelContext *context, size_t index, /* 90 */
                                       const OrtValue **result);
  OrtStatus *(*KernelContext_GetOutput)(OrtKernelContext *context, size_t index, /* 91 */
                                        const int64_t *extents, size_t num_extents,
                                        OrtValue **result);
  ORT_GAP(92, 93);
  void (*ReleaseStatus)(OrtStatus *status);       /* 93 */
  void (*ReleaseMemoryInfo)(OrtMemoryInfo *info); /* 94 */
  ORT_GAP(95, 96);
  void (*ReleaseValue)(OrtValue *value); /* 96 */
  ORT_GAP(97, 99);
  void (*ReleaseTensorInfo)(OrtTensorInfo *info); /* 99 */
  ORT_GAP(100, 211);
  OrtStatus *(*CreateOpAttr)(const char *name, const void *data, int32_t length, /* 211 */
                             int32_t type, OrtOpAttr **result);
  void (*ReleaseOpAttr)(OrtOpAttr *attr); /* 212 */
  ORT_GAP(213, 247);
  OrtStatus *(*Logger_LogMessage)(const OrtLogger *logger, int32_t level, /* 247 */
                                  const char *message, const char *file, int32_t line,
                                  const char *function);
  ORT_GAP(248, 272);
  /* Too little room is an error, and *size becomes the required size. */
  OrtStatus *(*ReadOpAttr)(const OrtOpAttr *attr, int32_t type, void *data, size_t room, /* 272 */
                           size_t *size);
  ORT_GAP(273, 289);
  /* ---- 1.22. */
  OrtStatus *(*GetValueInfoName)(const OrtValueInfo *value, const char **result); /* 289 */
  OrtStatus *(*GetValueInfoTypeInfo)(const OrtValueInfo *value,
                                     const OrtTypeInfo **result); /* 290 */
  const OrtModelEditorApi *(*GetModelEditorApi)(void);            /* 291 */
  ORT_GAP(292, 295);
  void (*CreateKeyValuePairs)(OrtKeyValuePairs **result); /* 295, released by 300 */
  void (*AddKeyValuePair)(OrtKeyValuePairs *pairs, const char *key, const char *value); /* 296 */
  const char *(*GetKeyValue)(const OrtKeyValuePairs *pairs, const char *key);           /* 297 */
  void (*GetKeyValuePairs)(const OrtKeyValuePairs *pairs, const char *const **keys,     /* 298 */
                           const char *const **values, size_t *count);
  ORT_GAP(299, 300);
  void (*ReleaseKeyValuePairs)(OrtKeyValuePairs *pairs); /* 300 */
  ORT_GAP(301, 307);
  int32_t (*HardwareDevice_Type)(const OrtHardwareDevice *device); /* 307 */
  ORT_GAP(308, 317);
  const OrtEpApi *(*GetEpApi)(void); /* 317 */
  /* ---- 1.23. */
  OrtStatus *(*GetTensorSizeInBytes)(const OrtValue *value, size_t *result); /* 318 */
  ORT_GAP(319, 320);
  OrtStatus *(*CreateMemoryInfo_V2)(const char *name, int32_t device_type,
                                    uint32_t vendor, /* 320 */
                                    int32_t device, int32_t memory_type, size_t alignment,
                                    int32_t allocator_type,
                                    OrtMemoryInfo **result); /* released by 94 */
  ORT_GAP(321, 326);
  OrtStatus *(*ValueInfo_GetInitializerValue)(const OrtValueInfo *value, /* 326 */
                                              const OrtValue **result);
  ORT_GAP(327, 331);
  OrtStatus *(*ValueInfo_IsConstantInitializer)(const OrtValueInfo *value, bool *result); /* 331 */
  ORT_GAP(332, 333);
  OrtStatus *(*Graph_GetName)(const OrtGraph *graph, const char **result); /* 333 */
  ORT_GAP(334, 335);
  OrtStatus *(*Graph_GetOnnxIRVersion)(const OrtGraph *graph, int64_t *result);    /* 335 */
  OrtStatus *(*Graph_GetNumOperatorSets)(const OrtGraph *graph, size_t *result);   /* 336 */
  OrtStatus *(*Graph_GetOperatorSets)(const OrtGraph *graph, const char **domains, /* 337 */
                                      int64_t *versions, size_t count);
  OrtStatus *(*Graph_GetNumInputs)(const OrtGraph *graph, size_t *result);          /* 338 */
  OrtStatus *(*Graph_GetInputs)(const OrtGraph *graph, const OrtValueInfo **values, /* 339 */
                                size_t count);
  OrtStatus *(*Graph_GetNumOutputs)(const OrtGraph *graph, size_t *result);          /* 340 */
  OrtStatus *(*Graph_GetOutputs)(const OrtGraph *graph, const OrtValueInfo **values, /* 341 */
                                 size_t count);
  ORT_GAP(342, 344);
  OrtStatus *(*Graph_GetNumNodes)(const OrtGraph *graph, size_t *result); /* 344 */
  OrtStatus *(*Graph_GetNodes)(const OrtGraph *graph, const OrtNode **nodes, size_t count);
  /* NULL for a graph that is not a body; in 1.23 also for bodies. */
  OrtStatus *(*Graph_GetParentNode)(const OrtGraph *graph, const OrtNode **result); /* 346 */
  ORT_GAP(347, 349);
  OrtStatus *(*Node_GetName)(const OrtNode *node, const char **result);         /* 349 */
  OrtStatus *(*Node_GetOperatorType)(const OrtNode *node, const char **result); /* 350 */
  OrtStatus *(*Node_GetDomain)(const OrtNode *node, const char **result);       /* 351 */
  ORT_GAP(352, 353);
  OrtStatus *(*Node_GetNumInputs)(const OrtNode *node, size_t *result); /* 353 */
  /* An omitted input is NULL. */
  OrtStatus *(*Node_GetInputs)(const OrtNode *node, const OrtValueInfo **values, size_t count);
  OrtStatus *(*Node_GetNumOutputs)(const OrtNode *node, size_t *result); /* 355 */
  OrtStatus *(*Node_GetOutputs)(const OrtNode *node, const OrtValueInfo **values, size_t count);
  /* The values of outer graphs that the node's subgraphs read. */
  OrtStatus *(*Node_GetNumImplicitInputs)(const OrtNode *node, size_t *result);          /* 357 */
  OrtStatus *(*Node_GetImplicitInputs)(const OrtNode *node, const OrtValueInfo **values, /* 358 */
                                       size_t count);
  OrtStatus *(*Node_GetNumAttributes)(const OrtNode *node, size_t *result); /* 359 */
  OrtStatus *(*Node_GetAttributes)(const OrtNode *node, const OrtOpAttr **attrs, size_t count);
  /* NULL if no attribute has the name. */
  OrtStatus *(*Node_GetAttributeByName)(const OrtNode *node, const char *name, /* 361 */
                                        const OrtOpAttr **result);
  OrtStatus *(*OpAttr_GetTensorAttributeAsOrtValue)(const OrtOpAttr *attr,  /* 362 */
                                                    OrtValue **result);     /* released by 96 */
  OrtStatus *(*OpAttr_GetType)(const OrtOpAttr *attr, int32_t *result);     /* 363 */
  OrtStatus *(*OpAttr_GetName)(const OrtOpAttr *attr, const char **result); /* 364 */
  OrtStatus *(*Node_GetNumSubgraphs)(const OrtNode *node, size_t *result);  /* 365 */
  OrtStatus *(*Node_GetSubgraphs)(const OrtNode *node, const OrtGraph **graphs, size_t count,
                                  const char **attr_names); /* 366 */
  ORT_GAP(367, 378);
  OrtStatus *(*GetTensorData)(const OrtValue *value, const void **result);       /* 378 */
  OrtStatus *(*GetSessionOptionsConfigEntries)(const OrtSessionOptions *options, /* 379 */
                                               OrtKeyValuePairs **result); /* released by 300 */
  ORT_GAP(380, 390);
  /* ---- 1.24. */
  bool (*TensorTypeAndShape_HasShape)(const OrtTensorInfo *info); /* 390 */
  ORT_GAP(391, 414);
  /* Extents that live as long as the value. */
  OrtStatus *(*GetTensorElementTypeAndShapeDataReference)(const OrtValue *value, /* 414 */
                                                          int32_t *type, const int64_t **extents,
                                                          size_t *num_extents);
  ORT_GAP(415, 423);
  /* ---- 1.28. */
  /* The stream of the node, or NULL, for the call. */
  OrtStatus *(*KernelContext_GetSyncStream)(const OrtKernelContext *context, /* 423 */
                                            OrtSyncStream **result);
} OrtApi;

typedef struct OrtApiBase {
  /* NULL for a version that the runtime lacks. */
  const OrtApi *(*GetApi)(uint32_t version);
  const char *(*GetVersionString)(void);
} OrtApiBase;

/* ---- Tables that this bridge fills --------------------------------------------------------- */

struct OrtEp;

/* One part of a model, compiled. */
typedef struct OrtNodeComputeInfo {
  uint32_t version;
  OrtStatus *(*CreateState)(struct OrtNodeComputeInfo *self, OrtNodeComputeContext *context,
                            void **state);
  OrtStatus *(*Compute)(struct OrtNodeComputeInfo *self, void *state, OrtKernelContext *context);
  void (*ReleaseState)(struct OrtNodeComputeInfo *self, void *state);
} OrtNodeComputeInfo;

/* Memory of a device. Any thread. */
typedef struct OrtAllocator {
  uint32_t version;
  void *(*Alloc)(struct OrtAllocator *self, size_t size); /* 0 */
  void (*Free)(struct OrtAllocator *self, void *address);
  const OrtMemoryInfo *(*Info)(const struct OrtAllocator *self); /* 2 */
  void *(*Reserve)(struct OrtAllocator *self, size_t size);
  OrtUnused unused_4[12];
} OrtAllocator;

/* Copies between the provider's devices, and from and to the host. */
typedef struct OrtDataTransferImpl {
  uint32_t version;
  void (*Release)(struct OrtDataTransferImpl *self); /* 0 */
  bool (*CanCopy)(const struct OrtDataTransferImpl *self, const OrtMemoryDevice *from,
                  const OrtMemoryDevice *to);
  OrtStatus *(*CopyTensors)(struct OrtDataTransferImpl *self, const OrtValue **from, /* 2 */
                            OrtValue **to, OrtSyncStream **streams, size_t count);
  OrtUnused unused_3[13];
} OrtDataTransferImpl;

/* A point that a stream reaches. ONNX Runtime only logs errors of WaitOnDevice and WaitOnHost. */
typedef struct OrtSyncNotificationImpl {
  uint32_t version;
  void (*Release)(struct OrtSyncNotificationImpl *self);        /* 0 */
  OrtStatus *(*Activate)(struct OrtSyncNotificationImpl *self); /* queues the point */
  OrtStatus *(*WaitOnDevice)(struct OrtSyncNotificationImpl *self, OrtSyncStream *stream); /* 2 */
  OrtStatus *(*WaitOnHost)(struct OrtSyncNotificationImpl *self);
  OrtUnused unused_4[12];
} OrtSyncNotificationImpl;

/* A stream of a device, which one run uses at a time. */
typedef struct OrtSyncStreamImpl {
  uint32_t version;
  void (*Release)(struct OrtSyncStreamImpl *self); /* 0 */
  void *(*GetHandle)(struct OrtSyncStreamImpl *self);
  OrtStatus *(*CreateNotification)(struct OrtSyncStreamImpl *self, /* 2 */
                                   OrtSyncNotificationImpl **result);
  OrtStatus *(*Flush)(struct OrtSyncStreamImpl *self); /* waits; ONNX Runtime only logs the error */
  OrtStatus *(*OnSessionRunEnd)(
      struct OrtSyncStreamImpl *self); /* called before Flush; an error fails the run */
  OrtUnused unused_5[11];
} OrtSyncStreamImpl;

/* A kernel of a registry. Since 1.24. */
typedef struct OrtKernelImpl {
  uint32_t version, flags;
  OrtStatus *(*Compute)(struct OrtKernelImpl *self, OrtKernelContext *context); /* 0 */
  void (*Release)(struct OrtKernelImpl *self);
  OrtUnused unused_2[14];
} OrtKernelImpl;

/* The execution provider of one session. A NULL slot has the runtime's default. */
typedef struct OrtEp {
  uint32_t version;
  const char *(*GetName)(const struct OrtEp *self); /* 0 */
  OrtStatus *(*GetCapability)(struct OrtEp *self, const OrtGraph *graph, OrtGraphSupportInfo *info);
  OrtStatus *(*Compile)(struct OrtEp *self, const OrtGraph **graphs, const OrtNode **fused, /* 2 */
                        size_t count, OrtNodeComputeInfo **infos, OrtNode **contexts);
  void (*ReleaseNodeComputeInfos)(struct OrtEp *self, OrtNodeComputeInfo **infos, size_t count);
  OrtUnused unused_4[8];
  /* The registry outlives the provider. Since 1.24. */
  OrtStatus *(*GetKernelRegistry)(struct OrtEp *self, const OrtKernelRegistry **result); /* 12 */
  OrtUnused unused_13[9];
  /* The memory in which nodes of this provider have inputs and outputs. Since 1.27. */
  OrtStatus *(*GetDefaultMemoryDevice)(const struct OrtEp *self,
                                       const OrtMemoryDevice **result); /* 22 */
  OrtUnused unused_23[9];                                               /* room for later slots */
} OrtEp;

typedef struct OrtEpFactory {
  uint32_t version;
  const char *(*GetName)(const struct OrtEpFactory *self);     /* 0 */
  const char *(*GetVendor)(const struct OrtEpFactory *self);   /* 1 */
  OrtStatus *(*GetSupportedDevices)(struct OrtEpFactory *self, /* 2 */
                                    const OrtHardwareDevice *const *hardware, size_t num_hardware,
                                    OrtEpDevice **devices, size_t room, size_t *count);
  OrtStatus *(*CreateEp)(struct OrtEpFactory *self, const OrtHardwareDevice *const *hardware,
                         const OrtKeyValuePairs *const *metadata, size_t count,
                         const OrtSessionOptions *options, const OrtLogger *logger,
                         OrtEp **result);                     /* 3 */
  void (*ReleaseEp)(struct OrtEpFactory *self, OrtEp *ep);    /* 4 */
  uint32_t (*GetVendorId)(const struct OrtEpFactory *self);   /* 5 */
  const char *(*GetVersion)(const struct OrtEpFactory *self); /* 6 */
  OrtUnused unused_7[1];
  /* `info` is a memory information that was added to a device. */
  OrtStatus *(*CreateAllocator)(struct OrtEpFactory *self, const OrtMemoryInfo *info,
                                const OrtKeyValuePairs *options, OrtAllocator **result); /* 8 */
  void (*ReleaseAllocator)(struct OrtEpFactory *self, OrtAllocator *allocator);          /* 9 */
  /* *result: NULL if all memory is the host's. */
  OrtStatus *(*CreateDataTransfer)(struct OrtEpFactory *self,
                                   OrtDataTransferImpl **result); /* 10 */
  bool (*IsStreamAware)(const struct OrtEpFactory *self);         /* 11 */
  /* For a memory of this factory; *result is released by its own Release. */
  OrtStatus *(*CreateSyncStreamForDevice)(struct OrtEpFactory *self, const OrtMemoryDevice *device,
                                          const OrtKeyValuePairs *options,
                                          OrtSyncStreamImpl **result); /* 12 */
  OrtUnused unused_13[19];
} OrtEpFactory;

/* ---- Functions that the library exports ------------------------------------------------------ */

OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base, const OrtLogger *logger,
                             OrtEpFactory **factories, size_t room, size_t *count);
OrtStatus *ReleaseEpFactory(OrtEpFactory *factory);

#endif
