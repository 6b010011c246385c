/* SPDX-License-Identifier: Apache-2.0 */
/* The indices of ONNX Runtime's slots in its published header: a slot stays at its index for
 * ever. */
#include <stddef.h>

#include <glib.h>

#include "bridges/onnxruntime/ort_abi.h"

/* A slot of a table that ONNX Runtime fills, and its index. */
#define SLOT(table, slot, index)                                                                   \
  { #table "." #slot, offsetof(table, slot), sizeof(void *) * (index) }
/* A slot of a table that the bridge fills, after the table's version, and its index. */
#define OWN(table, slot, index)                                                                    \
  { #table "." #slot, offsetof(table, slot), sizeof(void *) * ((index) + 1) }

static const struct {
  const char *name;
  size_t is, should_be;
} slots[] = {
    SLOT(OrtApiBase, GetVersionString, 1),
    SLOT(OrtApi, CreateStatus, 0),
    SLOT(OrtApi, GetErrorMessage, 2),
    SLOT(OrtApi, GetTensorMutableData, 51),
    SLOT(OrtApi, CastTypeInfoToTensorInfo, 55),
    SLOT(OrtApi, GetTensorElementType, 60),
    SLOT(OrtApi, GetDimensionsCount, 61),
    SLOT(OrtApi, GetDimensions, 62),
    SLOT(OrtApi, GetSymbolicDimensions, 63),
    SLOT(OrtApi, GetTensorTypeAndShape, 65),
    SLOT(OrtApi, KernelContext_GetInput, 90),
    SLOT(OrtApi, KernelContext_GetOutput, 91),
    SLOT(OrtApi, ReleaseStatus, 93),
    SLOT(OrtApi, ReleaseMemoryInfo, 94),
    SLOT(OrtApi, ReleaseValue, 96),
    SLOT(OrtApi, ReleaseTensorInfo, 99),
    SLOT(OrtApi, CreateOpAttr, 211),
    SLOT(OrtApi, ReleaseOpAttr, 212),
    SLOT(OrtApi, Logger_LogMessage, 247),
    SLOT(OrtApi, ReadOpAttr, 272),
    SLOT(OrtApi, GetValueInfoName, 289),
    SLOT(OrtApi, GetValueInfoTypeInfo, 290),
    SLOT(OrtApi, GetModelEditorApi, 291),
    SLOT(OrtApi, CreateKeyValuePairs, 295),
    SLOT(OrtApi, AddKeyValuePair, 296),
    SLOT(OrtApi, GetKeyValue, 297),
    SLOT(OrtApi, GetKeyValuePairs, 298),
    SLOT(OrtApi, ReleaseKeyValuePairs, 300),
    SLOT(OrtApi, HardwareDevice_Type, 307),
    SLOT(OrtApi, GetEpApi, 317),
    SLOT(OrtApi, GetTensorSizeInBytes, 318),
    SLOT(OrtApi, CreateMemoryInfo_V2, 320),
    SLOT(OrtApi, ValueInfo_GetInitializerValue, 326),
    SLOT(OrtApi, ValueInfo_IsConstantInitializer, 331),
    SLOT(OrtApi, Graph_GetName, 333),
    SLOT(OrtApi, Graph_GetOnnxIRVersion, 335),
    SLOT(OrtApi, Graph_GetNumOperatorSets, 336),
    SLOT(OrtApi, Graph_GetOperatorSets, 337),
    SLOT(OrtApi, Graph_GetNumInputs, 338),
    SLOT(OrtApi, Graph_GetInputs, 339),
    SLOT(OrtApi, Graph_GetNumOutputs, 340),
    SLOT(OrtApi, Graph_GetOutputs, 341),
    SLOT(OrtApi, Graph_GetNumNodes, 344),
    SLOT(OrtApi, Graph_GetNodes, 345),
    SLOT(OrtApi, Graph_GetParentNode, 346),
    SLOT(OrtApi, Node_GetName, 349),
    SLOT(OrtApi, Node_GetOperatorType, 350),
    SLOT(OrtApi, Node_GetDomain, 351),
    SLOT(OrtApi, Node_GetNumInputs, 353),
    SLOT(OrtApi, Node_GetInputs, 354),
    SLOT(OrtApi, Node_GetNumOutputs, 355),
    SLOT(OrtApi, Node_GetOutputs, 356),
    SLOT(OrtApi, Node_GetNumImplicitInputs, 357),
    SLOT(OrtApi, Node_GetImplicitInputs, 358),
    SLOT(OrtApi, Node_GetNumAttributes, 359),
    SLOT(OrtApi, Node_GetAttributes, 360),
    SLOT(OrtApi, Node_GetAttributeByName, 361),
    SLOT(OrtApi, OpAttr_GetTensorAttributeAsOrtValue, 362),
    SLOT(OrtApi, OpAttr_GetType, 363),
    SLOT(OrtApi, OpAttr_GetName, 364),
    SLOT(OrtApi, Node_GetNumSubgraphs, 365),
    SLOT(OrtApi, Node_GetSubgraphs, 366),
    SLOT(OrtApi, GetTensorData, 378),
    SLOT(OrtApi, GetSessionOptionsConfigEntries, 379),
    SLOT(OrtApi, TensorTypeAndShape_HasShape, 390),
    SLOT(OrtApi, GetTensorElementTypeAndShapeDataReference, 414),
    SLOT(OrtApi, KernelContext_GetSyncStream, 423),
    SLOT(OrtEpApi, CreateEpDevice, 0),
    SLOT(OrtEpApi, ReleaseEpDevice, 1),
    SLOT(OrtEpApi, AddNodesToFuse, 2),
    SLOT(OrtEpApi, EpDevice_AddAllocatorInfo, 5),
    SLOT(OrtEpApi, MemoryInfo_GetMemoryDevice, 6),
    SLOT(OrtEpApi, MemoryDevice_AreEqual, 8),
    SLOT(OrtEpApi, MemoryDevice_GetDeviceType, 9),
    SLOT(OrtEpApi, MemoryDevice_GetVendorId, 11),
    SLOT(OrtEpApi, SyncStream_GetImpl, 13),
    SLOT(OrtEpApi, CreateKernelRegistry, 18),
    SLOT(OrtEpApi, ReleaseKernelRegistry, 19),
    SLOT(OrtEpApi, KernelRegistry_AddKernel, 20),
    SLOT(OrtEpApi, CreateKernelDefBuilder, 21),
    SLOT(OrtEpApi, ReleaseKernelDefBuilder, 22),
    SLOT(OrtEpApi, KernelDefBuilder_SetOperatorType, 23),
    SLOT(OrtEpApi, KernelDefBuilder_SetDomain, 24),
    SLOT(OrtEpApi, KernelDefBuilder_SetSinceVersion, 25),
    SLOT(OrtEpApi, KernelDefBuilder_SetExecutionProvider, 26),
    SLOT(OrtEpApi, KernelDefBuilder_SetInputMemType, 27),
    SLOT(OrtEpApi, KernelDefBuilder_SetOutputMemType, 28),
    SLOT(OrtEpApi, KernelDefBuilder_AddTypeConstraint, 29),
    SLOT(OrtEpApi, KernelDefBuilder_Build, 32),
    SLOT(OrtEpApi, ReleaseKernelDef, 33),
    SLOT(OrtEpApi, GetTensorDataType, 40),
    SLOT(OrtModelEditorApi, CreateNode, 6),
    OWN(OrtNodeComputeInfo, CreateState, 0),
    OWN(OrtNodeComputeInfo, Compute, 1),
    OWN(OrtNodeComputeInfo, ReleaseState, 2),
    OWN(OrtEp, GetName, 0),
    OWN(OrtEp, GetCapability, 1),
    OWN(OrtEp, Compile, 2),
    OWN(OrtEp, ReleaseNodeComputeInfos, 3),
    OWN(OrtEp, GetKernelRegistry, 12),
    OWN(OrtEp, GetDefaultMemoryDevice, 22),
    OWN(OrtAllocator, Alloc, 0),
    OWN(OrtAllocator, Free, 1),
    OWN(OrtAllocator, Info, 2),
    OWN(OrtAllocator, Reserve, 3),
    OWN(OrtDataTransferImpl, Release, 0),
    OWN(OrtDataTransferImpl, CanCopy, 1),
    OWN(OrtDataTransferImpl, CopyTensors, 2),
    OWN(OrtSyncNotificationImpl, Release, 0),
    OWN(OrtSyncNotificationImpl, Activate, 1),
    OWN(OrtSyncNotificationImpl, WaitOnDevice, 2),
    OWN(OrtSyncNotificationImpl, WaitOnHost, 3),
    OWN(OrtSyncStreamImpl, Release, 0),
    OWN(OrtSyncStreamImpl, GetHandle, 1),
    OWN(OrtSyncStreamImpl, CreateNotification, 2),
    OWN(OrtSyncStreamImpl, Flush, 3),
    OWN(OrtSyncStreamImpl, OnSessionRunEnd, 4),
    OWN(OrtKernelImpl, Compute, 0),
    OWN(OrtKernelImpl, Release, 1),
    OWN(OrtEpFactory, GetName, 0),
    OWN(OrtEpFactory, GetVendor, 1),
    OWN(OrtEpFactory, GetSupportedDevices, 2),
    OWN(OrtEpFactory, CreateEp, 3),
    OWN(OrtEpFactory, ReleaseEp, 4),
    OWN(OrtEpFactory, GetVendorId, 5),
    OWN(OrtEpFactory, GetVersion, 6),
    OWN(OrtEpFactory, CreateAllocator, 8),
    OWN(OrtEpFactory, ReleaseAllocator, 9),
    OWN(OrtEpFactory, CreateDataTransfer, 10),
    OWN(OrtEpFactory, IsStreamAware, 11),
    OWN(OrtEpFactory, CreateSyncStreamForDevice, 12),
};

static void test_places(void) {
  for (size_t i = 0; i < G_N_ELEMENTS(slots); i++)
    if (slots[i].is != slots[i].should_be)
      g_error("%s is at %zu, and should be at %zu", slots[i].name, slots[i].is, slots[i].should_be);
  g_assert_cmpuint(offsetof(OrtFusionOptions, drop_constant_initializers), ==, 4);
  g_assert_cmpuint(sizeof(OrtFusionOptions), ==, 8);
  g_assert_cmpuint(sizeof(OrtEp), ==, 8 + 32 * sizeof(void *));
  g_assert_cmpuint(offsetof(OrtKernelImpl, flags), ==, 4);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/onnxruntime/slots_are_at_their_places", test_places);
  return g_test_run();
}
