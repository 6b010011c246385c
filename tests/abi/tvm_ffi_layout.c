/* SPDX-License-Identifier: Apache-2.0 */
/* Backplane's layouts compared with those in tvm-ffi's and DLPack's own headers. Compiled, never
 * run: the assertions are the test. */

#include <backplane/tensor.h>
#include <backplane/value.h>
#include <tvm/ffi/c_api.h>

#define SAME_SIZE(ours, theirs)                                                                    \
  _Static_assert(sizeof(ours) == sizeof(theirs), #ours " and " #theirs " differ in size")
#define SAME_AT(ours, our_member, theirs, their_member)                                            \
  _Static_assert(offsetof(ours, our_member) == offsetof(theirs, their_member) &&                   \
                     sizeof(((ours *)0)->our_member) == sizeof(((theirs *)0)->their_member),       \
                 #ours "." #our_member " and " #theirs "." #their_member " differ")
/* Compares a member of an object with a member of the cell that follows tvm-ffi's header. */
#define SAME_IN_CELL(ours, our_member, theirs, their_member)                                       \
  _Static_assert(offsetof(ours, our_member) ==                                                     \
                     sizeof(TVMFFIObject) + offsetof(theirs, their_member),                        \
                 #ours "." #our_member " and " #theirs "." #their_member " differ")
#define SAME_NUMBER(ours, theirs)                                                                  \
  _Static_assert((int)(ours) == (int)(theirs), #ours " and " #theirs " differ")

SAME_SIZE(BpDataType, DLDataType);
SAME_AT(BpDataType, code, DLDataType, code);
SAME_AT(BpDataType, bits, DLDataType, bits);
SAME_AT(BpDataType, lanes, DLDataType, lanes);
SAME_SIZE(BpDevice, DLDevice);
SAME_AT(BpDevice, device_type, DLDevice, device_type);
SAME_AT(BpDevice, device_id, DLDevice, device_id);
SAME_SIZE(BpTensorView, DLTensor);
SAME_AT(BpTensorView, data, DLTensor, data);
SAME_AT(BpTensorView, device, DLTensor, device);
SAME_AT(BpTensorView, ndim, DLTensor, ndim);
SAME_AT(BpTensorView, dtype, DLTensor, dtype);
SAME_AT(BpTensorView, shape, DLTensor, shape);
SAME_AT(BpTensorView, strides, DLTensor, strides);
SAME_AT(BpTensorView, byte_offset, DLTensor, byte_offset);
SAME_SIZE(BpManagedTensor, DLManagedTensor);
SAME_AT(BpManagedTensor, manager_context, DLManagedTensor, manager_ctx);
SAME_AT(BpManagedTensor, deleter, DLManagedTensor, deleter);
SAME_SIZE(BpManagedTensorVersioned, DLManagedTensorVersioned);
SAME_AT(BpManagedTensorVersioned, manager_context, DLManagedTensorVersioned, manager_ctx);
SAME_AT(BpManagedTensorVersioned, deleter, DLManagedTensorVersioned, deleter);
SAME_AT(BpManagedTensorVersioned, flags, DLManagedTensorVersioned, flags);
SAME_AT(BpManagedTensorVersioned, view, DLManagedTensorVersioned, dl_tensor);
SAME_NUMBER(BP_DLPACK_READ_ONLY, DLPACK_FLAG_BITMASK_READ_ONLY);
SAME_NUMBER(BP_DLPACK_COPIED, DLPACK_FLAG_BITMASK_IS_COPIED);
SAME_NUMBER(BP_DLPACK_SUBBYTE_PADDED, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);

SAME_NUMBER(BP_DTYPE_INT, kDLInt);
SAME_NUMBER(BP_DTYPE_UINT, kDLUInt);
SAME_NUMBER(BP_DTYPE_FLOAT, kDLFloat);
SAME_NUMBER(BP_DTYPE_HANDLE, kDLOpaqueHandle);
SAME_NUMBER(BP_DTYPE_BFLOAT, kDLBfloat);
SAME_NUMBER(BP_DTYPE_COMPLEX, kDLComplex);
SAME_NUMBER(BP_DTYPE_BOOL, kDLBool);
SAME_NUMBER(BP_DTYPE_FLOAT8_E3M4, kDLFloat8_e3m4);
SAME_NUMBER(BP_DTYPE_FLOAT8_E4M3, kDLFloat8_e4m3);
SAME_NUMBER(BP_DTYPE_FLOAT8_E4M3B11FNUZ, kDLFloat8_e4m3b11fnuz);
SAME_NUMBER(BP_DTYPE_FLOAT8_E4M3FN, kDLFloat8_e4m3fn);
SAME_NUMBER(BP_DTYPE_FLOAT8_E4M3FNUZ, kDLFloat8_e4m3fnuz);
SAME_NUMBER(BP_DTYPE_FLOAT8_E5M2, kDLFloat8_e5m2);
SAME_NUMBER(BP_DTYPE_FLOAT8_E5M2FNUZ, kDLFloat8_e5m2fnuz);
SAME_NUMBER(BP_DTYPE_FLOAT8_E8M0FNU, kDLFloat8_e8m0fnu);
SAME_NUMBER(BP_DTYPE_FLOAT6_E2M3FN, kDLFloat6_e2m3fn);
SAME_NUMBER(BP_DTYPE_FLOAT6_E3M2FN, kDLFloat6_e3m2fn);
SAME_NUMBER(BP_DTYPE_FLOAT4_E2M1FN, kDLFloat4_e2m1fn);
SAME_NUMBER(BP_DEVICE_CPU, kDLCPU);
SAME_NUMBER(BP_DEVICE_CUDA, kDLCUDA);
SAME_NUMBER(BP_DEVICE_CUDA_HOST, kDLCUDAHost);
SAME_NUMBER(BP_DEVICE_OPENCL, kDLOpenCL);
SAME_NUMBER(BP_DEVICE_VULKAN, kDLVulkan);
SAME_NUMBER(BP_DEVICE_METAL, kDLMetal);
SAME_NUMBER(BP_DEVICE_ROCM, kDLROCM);
SAME_NUMBER(BP_DEVICE_EXT, kDLExtDev);
SAME_NUMBER(BP_DEVICE_HEXAGON, kDLHexagon);

SAME_SIZE(BpValue, TVMFFIAny);
SAME_AT(BpValue, type_index, TVMFFIAny, type_index);
SAME_AT(BpValue, small_len, TVMFFIAny, small_str_len);
SAME_AT(BpValue, v_int64, TVMFFIAny, v_int64);
SAME_AT(BpValue, v_bytes, TVMFFIAny, v_bytes);
SAME_NUMBER(BP_TYPE_NONE, kTVMFFINone);
SAME_NUMBER(BP_TYPE_INT, kTVMFFIInt);
SAME_NUMBER(BP_TYPE_BOOL, kTVMFFIBool);
SAME_NUMBER(BP_TYPE_FLOAT, kTVMFFIFloat);
SAME_NUMBER(BP_TYPE_POINTER, kTVMFFIOpaquePtr);
SAME_NUMBER(BP_TYPE_DTYPE, kTVMFFIDataType);
SAME_NUMBER(BP_TYPE_DEVICE, kTVMFFIDevice);
SAME_NUMBER(BP_TYPE_TENSOR_VIEW, kTVMFFIDLTensorPtr);
SAME_NUMBER(BP_TYPE_RAW_STR, kTVMFFIRawStr);
SAME_NUMBER(BP_TYPE_BYTE_ARRAY, kTVMFFIByteArrayPtr);
SAME_NUMBER(BP_TYPE_RVALUE, kTVMFFIObjectRValueRef);
SAME_NUMBER(BP_TYPE_SMALL_STR, kTVMFFISmallStr);
SAME_NUMBER(BP_TYPE_SMALL_BYTES, kTVMFFISmallBytes);
SAME_NUMBER(BP_TYPE_OBJECT, kTVMFFIObject);
SAME_NUMBER(BP_TYPE_STR, kTVMFFIStr);
SAME_NUMBER(BP_TYPE_BYTES, kTVMFFIBytes);
SAME_NUMBER(BP_TYPE_ERROR, kTVMFFIError);
SAME_NUMBER(BP_TYPE_FUNCTION, kTVMFFIFunction);
SAME_NUMBER(BP_TYPE_SHAPE, kTVMFFIShape);
SAME_NUMBER(BP_TYPE_TENSOR, kTVMFFITensor);

SAME_SIZE(BpByteArray, TVMFFIByteArray);
SAME_AT(BpByteArray, data, TVMFFIByteArray, data);
SAME_AT(BpByteArray, size, TVMFFIByteArray, size);
SAME_SIZE(BpObject, TVMFFIObject);
SAME_AT(BpObject, combined_count, TVMFFIObject, combined_ref_count);
SAME_AT(BpObject, type_index, TVMFFIObject, type_index);
SAME_AT(BpObject, deleter, TVMFFIObject, deleter);
SAME_NUMBER(BP_DELETER_STRONG, kTVMFFIObjectDeleterFlagBitMaskStrong);
SAME_NUMBER(BP_DELETER_WEAK, kTVMFFIObjectDeleterFlagBitMaskWeak);
SAME_IN_CELL(BpStr, data, TVMFFIByteArray, data);
SAME_IN_CELL(BpStr, size, TVMFFIByteArray, size);
SAME_IN_CELL(BpShape, data, TVMFFIShapeCell, data);
SAME_IN_CELL(BpShape, size, TVMFFIShapeCell, size);
SAME_IN_CELL(BpArray, data, TVMFFISeqCell, data);
SAME_IN_CELL(BpArray, size, TVMFFISeqCell, size);
SAME_IN_CELL(BpArray, capacity, TVMFFISeqCell, capacity);
SAME_IN_CELL(BpArray, free_data, TVMFFISeqCell, data_deleter);
SAME_IN_CELL(BpFunction, call, TVMFFIFunctionCell, safe_call);
SAME_IN_CELL(BpFunction, cpp_call, TVMFFIFunctionCell, cpp_call);
SAME_IN_CELL(BpError, kind, TVMFFIErrorCell, kind);
SAME_IN_CELL(BpError, message, TVMFFIErrorCell, message);
SAME_IN_CELL(BpError, backtrace, TVMFFIErrorCell, backtrace);
SAME_IN_CELL(BpError, update_backtrace, TVMFFIErrorCell, update_backtrace);
_Static_assert(offsetof(BpTensor, view) == sizeof(TVMFFIObject), "BpTensor.view has moved");
