/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts on which other languages, other builds and tvm-ffi rely. The layouts of tier 1 never
 * change: a failure here is an ABI break, not a number to be updated. */

#include <backplane/compiler/kernels.h>
#include <backplane/compiler/schedules.h>
#include <backplane/compiler/te.h>
#include <backplane/device_api.h>
#include <backplane/device_extensions.h>
#include <backplane/device_layer.h>
#include <backplane/emitter_api.h>
#include <backplane/graph/model.h>
#include <backplane/graph_compiler.h>
#include <backplane/host_api.h>
#include <backplane/ir_api.h>
#include <backplane/module_api.h>
#include <backplane/operator_call.h>
#include <backplane/plugin.h>
#include <backplane/plugins.h>
#include <backplane/target_api.h>
#include <backplane/tensor.h>
#include <backplane/value.h>
#include <glib.h>

#define AT(type, member, offset)                                                                   \
  _Static_assert(offsetof(type, member) == (offset), #type "." #member " has moved")
#define SIZE(type, size) _Static_assert(sizeof(type) == (size), #type " has another size")

SIZE(BpDataType, 4);
AT(BpDataType, code, 0);
AT(BpDataType, bits, 1);
AT(BpDataType, lanes, 2);
SIZE(BpDevice, 8);
AT(BpDevice, device_type, 0);
AT(BpDevice, device_id, 4);

SIZE(BpTensorView, 48);
AT(BpTensorView, data, 0);
AT(BpTensorView, device, 8);
AT(BpTensorView, ndim, 16);
AT(BpTensorView, dtype, 20);
AT(BpTensorView, shape, 24);
AT(BpTensorView, strides, 32);
AT(BpTensorView, byte_offset, 40);

SIZE(BpValue, 16);
AT(BpValue, type_index, 0);
AT(BpValue, zero_padding, 4);
AT(BpValue, small_len, 4);
AT(BpValue, v_int64, 8);
AT(BpValue, v_float64, 8);
AT(BpValue, v_ptr, 8);
AT(BpValue, v_bytes, 8);
SIZE(BpByteArray, 16);
AT(BpByteArray, size, 8);

SIZE(BpObject, 24);
AT(BpObject, combined_count, 0);
AT(BpObject, type_index, 8);
AT(BpObject, deleter, 16);
SIZE(BpStr, 40);
AT(BpStr, data, 24);
AT(BpStr, size, 32);
SIZE(BpShape, 40);
AT(BpShape, data, 24);
AT(BpShape, size, 32);
SIZE(BpArray, 56);
AT(BpArray, data, 24);
AT(BpArray, size, 32);
AT(BpArray, capacity, 40);
AT(BpArray, free_data, 48);
SIZE(BpTensor, 72);
AT(BpTensor, view, 24);
SIZE(BpFunction, 40);
AT(BpFunction, call, 24);
AT(BpFunction, cpp_call, 32);
AT(BpError, kind, 24);
AT(BpError, message, 40);
AT(BpError, backtrace, 56);
AT(BpError, update_backtrace, 72);

/* DLPack's managed tensors. */
SIZE(BpManagedTensor, 64);
AT(BpManagedTensor, manager_context, 48);
AT(BpManagedTensor, deleter, 56);
SIZE(BpManagedTensorVersioned, 80);
AT(BpManagedTensorVersioned, version_minor, 4);
AT(BpManagedTensorVersioned, manager_context, 8);
AT(BpManagedTensorVersioned, deleter, 16);
AT(BpManagedTensorVersioned, flags, 24);
AT(BpManagedTensorVersioned, view, 32);

/* The structures below may grow at their end, and their SIZE with them (a table that begins with
 * struct_size states its own size); no offset ever changes. */

/* <backplane/device_api.h> */
SIZE(BpCopy, 72);
AT(BpCopy, struct_size, 0);
AT(BpCopy, from, 8);
AT(BpCopy, from_offset, 16);
AT(BpCopy, from_device, 24);
AT(BpCopy, to, 32);
AT(BpCopy, to_offset, 40);
AT(BpCopy, to_device, 48);
AT(BpCopy, size, 56);
AT(BpCopy, flags, 64);
SIZE(BpAllocation, 40);
AT(BpAllocation, struct_size, 0);
AT(BpAllocation, size, 8);
AT(BpAllocation, alignment, 16);
AT(BpAllocation, dtype, 24);
AT(BpAllocation, flags, 28);
AT(BpAllocation, scope, 32);
SIZE(BpDeviceApi, 144);
AT(BpDeviceApi, struct_size, 0);
AT(BpDeviceApi, device_type, 8);
AT(BpDeviceApi, reserved, 12);
AT(BpDeviceApi, name, 16);
AT(BpDeviceApi, context, 24);
AT(BpDeviceApi, get_device_count, 32);
AT(BpDeviceApi, get_attr, 40);
AT(BpDeviceApi, set_device, 48);
AT(BpDeviceApi, alloc_data_space, 56);
AT(BpDeviceApi, free_data_space, 64);
AT(BpDeviceApi, alloc_workspace, 72);
AT(BpDeviceApi, free_workspace, 80);
AT(BpDeviceApi, copy, 88);
AT(BpDeviceApi, create_stream, 96);
AT(BpDeviceApi, free_stream, 104);
AT(BpDeviceApi, sync_stream_from_to, 112);
AT(BpDeviceApi, stream_sync, 120);
AT(BpDeviceApi, visit_properties, 128);
AT(BpDeviceApi, get_extension, 136);

/* <backplane/device_extensions.h> */
SIZE(BpTimerApi, 40);
AT(BpTimerApi, struct_size, 0);
AT(BpTimerApi, start, 8);
AT(BpTimerApi, stop, 16);
AT(BpTimerApi, read, 24);
AT(BpTimerApi, free, 32);
SIZE(BpRecordingApi, 40);
AT(BpRecordingApi, struct_size, 0);
AT(BpRecordingApi, begin, 8);
AT(BpRecordingApi, end, 16);
AT(BpRecordingApi, replay, 24);
AT(BpRecordingApi, free, 32);
SIZE(BpEventsApi, 80);
AT(BpEventsApi, struct_size, 0);
AT(BpEventsApi, create, 8);
AT(BpEventsApi, free, 16);
AT(BpEventsApi, record, 24);
AT(BpEventsApi, wait, 32);
AT(BpEventsApi, query, 40);
AT(BpEventsApi, synchronize, 48);
AT(BpEventsApi, notify, 56);
AT(BpEventsApi, hold, 64);
AT(BpEventsApi, signal, 72);
SIZE(BpExternalMemory, 40);
AT(BpExternalMemory, struct_size, 0);
AT(BpExternalMemory, size, 8);
AT(BpExternalMemory, address, 16);
AT(BpExternalMemory, fd, 24);
AT(BpExternalMemory, form, 28);
AT(BpExternalMemory, flags, 32);
SIZE(BpExternalMemoryApi, 32);
AT(BpExternalMemoryApi, struct_size, 0);
AT(BpExternalMemoryApi, get_forms, 8);
AT(BpExternalMemoryApi, import_memory, 16);
AT(BpExternalMemoryApi, export_memory, 24);
SIZE(BpLaunch, 48);
AT(BpLaunch, struct_size, 0);
AT(BpLaunch, kernel, 8);
AT(BpLaunch, invocation, 16);
AT(BpLaunch, args, 24);
AT(BpLaunch, num_args, 32);
AT(BpLaunch, reserved, 36);
AT(BpLaunch, proceed, 40);
SIZE(BpLayered, 40);
AT(BpLayered, struct_size, 0);
AT(BpLayered, api, 8);
AT(BpLayered, context, 16);
AT(BpLayered, launch, 24);
AT(BpLayered, finish, 32);
SIZE(BpDeviceLayer, 40);
AT(BpDeviceLayer, struct_size, 0);
AT(BpDeviceLayer, version, 8);
AT(BpDeviceLayer, reserved, 12);
AT(BpDeviceLayer, name, 16);
AT(BpDeviceLayer, context, 24);
AT(BpDeviceLayer, wrap, 32);

/* <backplane/emitter_api.h> */
SIZE(BpDialectType, 64);
AT(BpDialectType, dtype, 0);
AT(BpDialectType, compute_bits, 4);
AT(BpDialectType, name, 8);
AT(BpDialectType, suffix, 16);
AT(BpDialectType, infinity, 24);
AT(BpDialectType, not_number, 32);
AT(BpDialectType, widen, 40);
AT(BpDialectType, narrow, 48);
AT(BpDialectType, support, 56);
SIZE(BpDialectIntrinsic, 32);
AT(BpDialectIntrinsic, name, 0);
AT(BpDialectIntrinsic, code, 8);
AT(BpDialectIntrinsic, bits, 12);
AT(BpDialectIntrinsic, vectors, 16);
AT(BpDialectIntrinsic, text, 24);
SIZE(BpDialectAxis, 16);
AT(BpDialectAxis, tag, 0);
AT(BpDialectAxis, text, 8);
SIZE(BpDialect, 464);
AT(BpDialect, struct_size, 0);
AT(BpDialect, name, 8);
AT(BpDialect, flags, 16);
AT(BpDialect, num_types, 20);
AT(BpDialect, types, 24);
AT(BpDialect, type_size, 32);
AT(BpDialect, num_intrinsics, 40);
AT(BpDialect, num_axes, 44);
AT(BpDialect, intrinsics, 48);
AT(BpDialect, intrinsic_size, 56);
AT(BpDialect, axes, 64);
AT(BpDialect, axis_size, 72);
AT(BpDialect, prologue, 80);
AT(BpDialect, support, 88);
AT(BpDialect, kernel, 96);
AT(BpDialect, function, 104);
AT(BpDialect, entry, 112);
AT(BpDialect, buffer_param, 120);
AT(BpDialect, scalar_param, 128);
AT(BpDialect, no_alias, 136);
AT(BpDialect, local_array, 144);
AT(BpDialect, shared_array, 152);
AT(BpDialect, unroll, 160);
AT(BpDialect, no_unroll, 168);
AT(BpDialect, barrier_shared, 176);
AT(BpDialect, barrier_global, 184);
AT(BpDialect, cast, 192);
AT(BpDialect, reinterpret, 200);
AT(BpDialect, max_lanes, 208);
AT(BpDialect, reserved, 212);
AT(BpDialect, vector_type, 216);
AT(BpDialect, vector_typedef, 224);
AT(BpDialect, vector_make, 232);
AT(BpDialect, vector_lane, 240);
AT(BpDialect, vector_splat, 248);
AT(BpDialect, vector_load, 256);
AT(BpDialect, vector_store, 264);
AT(BpDialect, vector_select, 272);
AT(BpDialect, vector_convert, 280);
AT(BpDialect, vector_bits, 288);
AT(BpDialect, vector_shuffle, 296);
AT(BpDialect, vector_load_bits, 304);
AT(BpDialect, vector_store_bits, 312);
AT(BpDialect, first_bits, 320);
AT(BpDialect, scalar_block, 328);
AT(BpDialect, remainder, 336);
AT(BpDialect, contract, 344);
AT(BpDialect, index_type, 352);
AT(BpDialect, vector_stream, 360);
AT(BpDialect, stream_end, 368);
AT(BpDialect, vector_support, 376);
AT(BpDialect, vector_load_aligned, 384);
AT(BpDialect, vector_store_aligned, 392);
AT(BpDialect, vector_alignment, 400);
AT(BpDialect, reserved_end, 404);
AT(BpDialect, texel_param, 408);
AT(BpDialect, texel_type, 416);
AT(BpDialect, texel_load, 424);
AT(BpDialect, texel_lane, 432);
AT(BpDialect, vector_widen, 440);
AT(BpDialect, vector_narrow, 448);
AT(BpDialect, hidden_zero, 456);
SIZE(BpEmitterTable, 32);
AT(BpEmitterTable, struct_size, 0);
AT(BpEmitterTable, get_dialect, 8);
AT(BpEmitterTable, emit, 16);
AT(BpEmitterTable, emit_function, 24);

/* <backplane/host_api.h> */
SIZE(BpErrorTable, 48);
AT(BpErrorTable, struct_size, 0);
AT(BpErrorTable, raise, 8);
AT(BpErrorTable, add_context, 16);
AT(BpErrorTable, take, 24);
AT(BpErrorTable, put, 32);
AT(BpErrorTable, log, 40);
SIZE(BpClosure, 56);
AT(BpClosure, function, 0);
AT(BpClosure, context, 40);
AT(BpClosure, destroy, 48);
SIZE(BpObjectTable, 64);
AT(BpObjectTable, struct_size, 0);
AT(BpObjectTable, retain, 8);
AT(BpObjectTable, release, 16);
AT(BpObjectTable, make_str, 24);
AT(BpObjectTable, make_bytes, 32);
AT(BpObjectTable, view_str, 40);
AT(BpObjectTable, shape_create, 48);
AT(BpObjectTable, function_create, 56);
SIZE(BpRegistryTable, 24);
AT(BpRegistryTable, struct_size, 0);
AT(BpRegistryTable, set, 8);
AT(BpRegistryTable, get, 16);
SIZE(BpCompilerRun, 56);
AT(BpCompilerRun, struct_size, 0);
AT(BpCompilerRun, subject, 8);
AT(BpCompilerRun, command, 16);
AT(BpCompilerRun, input_names, 24);
AT(BpCompilerRun, inputs, 32);
AT(BpCompilerRun, output_names, 40);
AT(BpCompilerRun, num_inputs, 48);
AT(BpCompilerRun, num_outputs, 52);
SIZE(BpModuleTable, 96);
AT(BpModuleTable, struct_size, 0);
AT(BpModuleTable, create, 8);
AT(BpModuleTable, get_context, 16);
AT(BpModuleTable, function_create, 24);
AT(BpModuleTable, kernel_create, 32);
AT(BpModuleTable, import, 40);
AT(BpModuleTable, encode_device_code, 48);
AT(BpModuleTable, decode_device_code, 56);
AT(BpModuleTable, load_from_c, 64);
AT(BpModuleTable, load_from_object, 72);
AT(BpModuleTable, get_function, 80);
AT(BpModuleTable, run_compiler, 88);
SIZE(BpTargetTable, 40);
AT(BpTargetTable, struct_size, 0);
AT(BpTargetTable, register_kind, 8);
AT(BpTargetTable, get_kind, 16);
AT(BpTargetTable, get_attr, 24);
AT(BpTargetTable, set_attr, 32);
SIZE(BpParallelGroup, 16);
AT(BpParallelGroup, sync_handle, 0);
AT(BpParallelGroup, num_task, 8);
SIZE(BpRuntimeTable, 88);
AT(BpRuntimeTable, struct_size, 0);
AT(BpRuntimeTable, host_alloc, 8);
AT(BpRuntimeTable, host_free, 16);
AT(BpRuntimeTable, parallel_launch, 24);
AT(BpRuntimeTable, parallel_barrier, 32);
AT(BpRuntimeTable, num_threads, 40);
AT(BpRuntimeTable, get_current, 48);
AT(BpRuntimeTable, get_cache_dir, 56);
AT(BpRuntimeTable, get_option, 64);
AT(BpRuntimeTable, cache_read, 72);
AT(BpRuntimeTable, cache_write, 80);
SIZE(BpHost, 24);
AT(BpHost, struct_size, 0);
AT(BpHost, abi_version, 8);
AT(BpHost, reserved, 12);
AT(BpHost, get_table, 16);

/* <backplane/ir_api.h> */
SIZE(BpIrVisitor, 32);
AT(BpIrVisitor, struct_size, 0);
AT(BpIrVisitor, context, 8);
AT(BpIrVisitor, enter, 16);
AT(BpIrVisitor, leave, 24);
SIZE(BpIrTable, 112);
AT(BpIrTable, struct_size, 0);
AT(BpIrTable, num_functions, 8);
AT(BpIrTable, get_function, 16);
AT(BpIrTable, kind, 24);
AT(BpIrTable, kind_name, 32);
AT(BpIrTable, dtype, 40);
AT(BpIrTable, num_operands, 48);
AT(BpIrTable, operand, 56);
AT(BpIrTable, int_value, 64);
AT(BpIrTable, float_value, 72);
AT(BpIrTable, str_value, 80);
AT(BpIrTable, find_attr, 88);
AT(BpIrTable, visit, 96);
AT(BpIrTable, print, 104);

/* <backplane/module_api.h> */
SIZE(BpOwnedBytes, 24);
AT(BpOwnedBytes, data, 0);
AT(BpOwnedBytes, size, 8);
AT(BpOwnedBytes, free_data, 16);
SIZE(BpModuleApi, 64);
AT(BpModuleApi, struct_size, 0);
AT(BpModuleApi, kind, 8);
AT(BpModuleApi, get_function, 16);
AT(BpModuleApi, get_property, 24);
AT(BpModuleApi, save_to_bytes, 32);
AT(BpModuleApi, get_source, 40);
AT(BpModuleApi, visit_functions, 48);
AT(BpModuleApi, destroy, 56);
SIZE(BpInvocation, 32);
AT(BpInvocation, struct_size, 0);
AT(BpInvocation, device, 8);
AT(BpInvocation, stream, 16);
AT(BpInvocation, flags, 24);
SIZE(BpKernelInfo, 40);
AT(BpKernelInfo, struct_size, 0);
AT(BpKernelInfo, name, 8);
AT(BpKernelInfo, arg_dtypes, 16);
AT(BpKernelInfo, num_args, 24);
AT(BpKernelInfo, num_launch_tags, 28);
AT(BpKernelInfo, launch_tags, 32);

/* <backplane/plugin.h> */
SIZE(BpPlugin, 32);
AT(BpPlugin, struct_size, 0);
AT(BpPlugin, abi_version, 8);
AT(BpPlugin, reserved, 12);
AT(BpPlugin, context, 16);
AT(BpPlugin, initialize, 24);

/* <backplane/graph_compiler.h> */
SIZE(BpOnnxValue, 56);
AT(BpOnnxValue, struct_size, 0);
AT(BpOnnxValue, name, 8);
AT(BpOnnxValue, dtype, 16);
AT(BpOnnxValue, ndim, 20);
AT(BpOnnxValue, producer, 24);
AT(BpOnnxValue, shape, 32);
AT(BpOnnxValue, symbols, 40);
AT(BpOnnxValue, data, 48);
SIZE(BpOnnxAttr, 48);
AT(BpOnnxAttr, name, 0);
AT(BpOnnxAttr, type, 8);
AT(BpOnnxAttr, count, 12);
AT(BpOnnxAttr, ints, 16);
AT(BpOnnxAttr, floats, 24);
AT(BpOnnxAttr, strs, 32);
AT(BpOnnxAttr, value, 40);
SIZE(BpOnnxNode, 80);
AT(BpOnnxNode, struct_size, 0);
AT(BpOnnxNode, name, 8);
AT(BpOnnxNode, op, 16);
AT(BpOnnxNode, domain, 24);
AT(BpOnnxNode, opset, 32);
AT(BpOnnxNode, num_inputs, 36);
AT(BpOnnxNode, num_outputs, 40);
AT(BpOnnxNode, num_attrs, 44);
AT(BpOnnxNode, inputs, 48);
AT(BpOnnxNode, outputs, 56);
AT(BpOnnxNode, attrs, 64);
AT(BpOnnxNode, attr_size, 72);
SIZE(BpGraphTable, 72);
AT(BpGraphTable, struct_size, 0);
AT(BpGraphTable, num_nodes, 8);
AT(BpGraphTable, get_node, 16);
AT(BpGraphTable, num_values, 24);
AT(BpGraphTable, get_value, 32);
AT(BpGraphTable, get_inputs, 40);
AT(BpGraphTable, get_outputs, 48);
AT(BpGraphTable, take, 56);
AT(BpGraphTable, decline, 64);
SIZE(BpGraphCompilerApi, 56);
AT(BpGraphCompilerApi, struct_size, 0);
AT(BpGraphCompilerApi, name, 8);
AT(BpGraphCompilerApi, context, 16);
AT(BpGraphCompilerApi, device_type, 24);
AT(BpGraphCompilerApi, reserved, 28);
AT(BpGraphCompilerApi, claim, 32);
AT(BpGraphCompilerApi, compile, 40);
AT(BpGraphCompilerApi, flags, 48);

/* <backplane/operator_call.h> */
SIZE(BpOperatorCall, 4512);
AT(BpOperatorCall, node, 0);
AT(BpOperatorCall, num_values, 80);
AT(BpOperatorCall, num_inputs, 84);
AT(BpOperatorCall, num_outputs, 88);
AT(BpOperatorCall, values, 96);
AT(BpOperatorCall, tensors, 992);
AT(BpOperatorCall, numbers, 1248);
AT(BpOperatorCall, of_node, 1312);
AT(BpOperatorCall, attrs, 1376);
AT(BpOperatorCall, names, 2144);
AT(BpOperatorCall, texts, 3168);
AT(BpOperatorCall, strs, 4192);
AT(BpOperatorCall, floats, 4320);
AT(BpOperatorCall, ints, 4384);

/* <backplane/target_api.h> */
SIZE(BpTargetAttr, 32);
AT(BpTargetAttr, name, 0);
AT(BpTargetAttr, type, 8);
AT(BpTargetAttr, reserved, 12);
AT(BpTargetAttr, default_value, 16);
AT(BpTargetAttr, description, 24);
SIZE(BpTargetKind, 72);
AT(BpTargetKind, struct_size, 0);
AT(BpTargetKind, name, 8);
AT(BpTargetKind, device_type, 16);
AT(BpTargetKind, ir_level, 20);
AT(BpTargetKind, attrs, 24);
AT(BpTargetKind, attr_size, 32);
AT(BpTargetKind, num_attrs, 40);
AT(BpTargetKind, reserved, 44);
AT(BpTargetKind, description, 48);
AT(BpTargetKind, context, 56);
AT(BpTargetKind, complete, 64);

/* <backplane/value.h> */
AT(BpByteArray, data, 0);
AT(BpStr, header, 0);
AT(BpShape, header, 0);
AT(BpArray, header, 0);
AT(BpTensor, header, 0);
AT(BpFunction, header, 0);
AT(BpObject, padding, 12);
SIZE(BpError, 80);
AT(BpError, header, 0);

/* <backplane/compiler/kernels.h> */
SIZE(BpKernelLaunch, 88);
AT(BpKernelLaunch, name, 0);
AT(BpKernelLaunch, args, 8);
AT(BpKernelLaunch, num_args, 16);
AT(BpKernelLaunch, num_outputs, 20);
AT(BpKernelLaunch, num_scalars, 24);
AT(BpKernelLaunch, num_launch, 28);
AT(BpKernelLaunch, launch, 32);
AT(BpKernelLaunch, iterations, 80);
SIZE(BpKernelList, 64);
AT(BpKernelList, struct_size, 0);
AT(BpKernelList, kernels, 8);
AT(BpKernelList, kernel_size, 16);
AT(BpKernelList, num_kernels, 24);
AT(BpKernelList, num_buffers, 28);
AT(BpKernelList, buffer_dtypes, 32);
AT(BpKernelList, buffer_elements, 40);
AT(BpKernelList, scalars, 48);
AT(BpKernelList, num_scalars, 56);

/* <backplane/compiler/schedules.h> */
SIZE(BpTransformStages, 56);
AT(BpTransformStages, tile, 0);
AT(BpTransformStages, padded, 16);
AT(BpTransformStages, input_rows, 24);
AT(BpTransformStages, input, 32);
AT(BpTransformStages, product, 40);
AT(BpTransformStages, output_rows, 48);

/* <backplane/compiler/te.h> */
SIZE(BpTeReducer, 24);
AT(BpTeReducer, combine, 0);
AT(BpTeReducer, context, 8);
AT(BpTeReducer, identities, 16);
SIZE(BpTeResult, 24);
AT(BpTeResult, dtype, 0);
AT(BpTeResult, shape, 8);
AT(BpTeResult, ndim, 16);
SIZE(BpTeOpenResult, 24);
AT(BpTeOpenResult, dtype, 0);
AT(BpTeOpenResult, extents, 8);
AT(BpTeOpenResult, ndim, 16);
SIZE(BpLowerOptions, 40);
AT(BpLowerOptions, struct_size, 0);
AT(BpLowerOptions, target, 8);
AT(BpLowerOptions, dump, 16);
AT(BpLowerOptions, dump_context, 24);
AT(BpLowerOptions, without, 32);

/* <backplane/graph/model.h> */
SIZE(BpInputShape, 24);
AT(BpInputShape, name, 0);
AT(BpInputShape, shape, 8);
AT(BpInputShape, ndim, 16);
SIZE(BpCompileLimits, 40);
AT(BpCompileLimits, struct_size, 0);
AT(BpCompileLimits, nodes, 8);
AT(BpCompileLimits, constant_bytes, 16);
AT(BpCompileLimits, fold_work, 24);
AT(BpCompileLimits, functions, 32);
SIZE(BpCompileOptions, 192);
AT(BpCompileOptions, struct_size, 0);
AT(BpCompileOptions, targets, 8);
AT(BpCompileOptions, num_targets, 16);
AT(BpCompileOptions, num_shapes, 20);
AT(BpCompileOptions, shapes, 24);
AT(BpCompileOptions, shape_size, 32);
AT(BpCompileOptions, progress, 40);
AT(BpCompileOptions, progress_context, 48);
AT(BpCompileOptions, dump_dir, 56);
AT(BpCompileOptions, fallback, 64);
AT(BpCompileOptions, placed, 72);
AT(BpCompileOptions, placed_context, 80);
AT(BpCompileOptions, limits, 88);
AT(BpCompileOptions, is_reference, 96);
AT(BpCompileOptions, graph_compilers, 104);
AT(BpCompileOptions, num_graph_compilers, 112);
AT(BpCompileOptions, least_claimed, 120);
AT(BpCompileOptions, claimed, 128);
AT(BpCompileOptions, claimed_context, 136);
AT(BpCompileOptions, measures_claims, 144);
AT(BpCompileOptions, reserved, 148);
AT(BpCompileOptions, measured, 152);
AT(BpCompileOptions, measured_context, 160);
AT(BpCompileOptions, num_stages, 168);
AT(BpCompileOptions, stage, 172);
AT(BpCompileOptions, fallbacks, 176);
AT(BpCompileOptions, num_fallbacks, 184);
AT(BpCompileOptions, reserved_fallbacks, 188);
SIZE(BpOnnxTensor, 24);
AT(BpOnnxTensor, name, 0);
AT(BpOnnxTensor, data, 8);
AT(BpOnnxTensor, size, 16);

SIZE(BpOnnxBytes, 56);
AT(BpOnnxBytes, struct_size, 0);
AT(BpOnnxBytes, name, 8);
AT(BpOnnxBytes, data, 16);
AT(BpOnnxBytes, size, 24);
AT(BpOnnxBytes, tensors, 32);
AT(BpOnnxBytes, tensor_size, 40);
AT(BpOnnxBytes, num_tensors, 48);

SIZE(BpOnnxQueried, 24);
AT(BpOnnxQueried, struct_size, 0);
AT(BpOnnxQueried, index, 8);
AT(BpOnnxQueried, why, 16);

SIZE(BpMeasuredClaims, 48);
AT(BpMeasuredClaims, struct_size, 0);
AT(BpMeasuredClaims, claimed_ns, 8);
AT(BpMeasuredClaims, generated_ns, 16);
AT(BpMeasuredClaims, keeps_claimed, 24);
AT(BpMeasuredClaims, is_recalled, 28);
AT(BpMeasuredClaims, mixed_ns, 32);
AT(BpMeasuredClaims, num_parts, 40);
AT(BpMeasuredClaims, kept_parts, 44);

SIZE(BpClaimedNode, 56);
AT(BpClaimedNode, struct_size, 0);
AT(BpClaimedNode, node, 8);
AT(BpClaimedNode, op, 16);
AT(BpClaimedNode, compiler, 24);
AT(BpClaimedNode, function, 32);
AT(BpClaimedNode, why, 40);
AT(BpClaimedNode, cost, 48);

SIZE(BpModelTensorInfo, 40);
AT(BpModelTensorInfo, struct_size, 0);
AT(BpModelTensorInfo, name, 8);
AT(BpModelTensorInfo, dtype, 16);
AT(BpModelTensorInfo, ndim, 20);
AT(BpModelTensorInfo, shape, 24);
AT(BpModelTensorInfo, kind, 32);
AT(BpModelTensorInfo, reserved, 36);

SIZE(BpSpecializedModel, 56);
AT(BpSpecializedModel, struct_size, 0);
AT(BpSpecializedModel, inputs, 8);
AT(BpSpecializedModel, input_size, 16);
AT(BpSpecializedModel, num_inputs, 24);
AT(BpSpecializedModel, reserved, 28);
AT(BpSpecializedModel, runs, 32);
AT(BpSpecializedModel, parameter_bytes, 40);
AT(BpSpecializedModel, shared_bytes, 48);

/* <backplane/plugins.h> */
SIZE(BpPluginInfo, 184);
AT(BpPluginInfo, struct_size, 0);
AT(BpPluginInfo, state, 8);
AT(BpPluginInfo, is_static, 12);
AT(BpPluginInfo, path, 16);
AT(BpPluginInfo, reason, 24);
AT(BpPluginInfo, abi, 32);
AT(BpPluginInfo, name, 40);
AT(BpPluginInfo, version, 48);
AT(BpPluginInfo, license, 56);
AT(BpPluginInfo, description, 64);
AT(BpPluginInfo, provides, 72);
AT(BpPluginInfo, devices, 80);
AT(BpPluginInfo, targets, 88);
AT(BpPluginInfo, libraries, 96);
AT(BpPluginInfo, package, 104);
AT(BpPluginInfo, code, 112);
AT(BpPluginInfo, warning, 120);
AT(BpPluginInfo, nodes, 128);
AT(BpPluginInfo, files, 136);
AT(BpPluginInfo, variables, 144);
AT(BpPluginInfo, isa, 152);
AT(BpPluginInfo, sanitizer, 160);
AT(BpPluginInfo, priority, 168);
AT(BpPluginInfo, is_isolated, 176);
SIZE(BpPluginReason, 40);
AT(BpPluginReason, struct_size, 0);
AT(BpPluginReason, stage, 8);
AT(BpPluginReason, severity, 12);
AT(BpPluginReason, code, 16);
AT(BpPluginReason, meaning, 24);
AT(BpPluginReason, remedy, 32);
SIZE(BpPluginFinding, 56);
AT(BpPluginFinding, struct_size, 0);
AT(BpPluginFinding, stage, 8);
AT(BpPluginFinding, severity, 12);
AT(BpPluginFinding, plugin, 16);
AT(BpPluginFinding, path, 24);
AT(BpPluginFinding, code, 32);
AT(BpPluginFinding, text, 40);
AT(BpPluginFinding, remedy, 48);

/* <backplane/tensor.h> */
AT(BpManagedTensor, view, 0);
AT(BpManagedTensorVersioned, version_major, 0);

/* The compiler has checked the layouts; only the byte order needs a running program. */
static void test_machine_is_little_endian(void) {
  BpValue value = {.type_index = BP_TYPE_INT, .v_int64 = 0x0102030405060708};
  g_assert_cmpint(value.v_bytes[0], ==, 8);
  g_assert_cmpint(value.v_bytes[7], ==, 1);
}

/* The arguments are the ABI that the plugin needs, the oldest ABI that the host loads, and the
 * host's ABI. */
static void test_which_versions_fit(void) {
  enum { V0_1 = 1, V0_2, V0_3, V1_0 = 0x10000, V1_1, V2_0 = 0x20000 };
  g_assert_true(bp_abi_fits(V0_1, V0_1, V0_1));
  g_assert_true(bp_abi_fits(V0_2, V0_2, V0_3));
  g_assert_false(bp_abi_fits(V0_1, V0_2, V0_3));
  g_assert_false(bp_abi_fits(V0_3, V0_2, V0_2));
  g_assert_false(bp_abi_fits(V0_2, V1_0, V1_0));
  g_assert_true(bp_abi_fits(V1_0, V1_0, V1_0));
  g_assert_true(bp_abi_fits(V1_0, V1_0, V1_1));
  g_assert_false(bp_abi_fits(V1_1, V1_0, V1_0));
  g_assert_false(bp_abi_fits(V1_1, V2_0, V2_0));
  g_assert_false(bp_abi_fits(V2_0, V1_0, V1_1));
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/abi/layout/little-endian", test_machine_is_little_endian);
  g_test_add_func("/abi/versions/host-loads-plugins-of-versions-that-fit", test_which_versions_fit);
  return g_test_run();
}
