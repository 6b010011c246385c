/* SPDX-License-Identifier: Apache-2.0 */
/* Error kinds. An error has a kind, by name, and a message that says what failed, where and what to
 * do about it. The names are those of tvm-ffi and Python where these have a name for the kind, so
 * that an error becomes the expected exception in either. A plugin may raise kinds of its own.
 *
 * Since: every declaration is there since ABI 1.0, unless its comment names a later version. */
#ifndef BACKPLANE_ERROR_KINDS_H
#define BACKPLANE_ERROR_KINDS_H

/* A value is outside what the function accepts. */
#define BP_ERROR_VALUE "ValueError"
/* A value has another type, or a call another number of arguments, than the function accepts. */
#define BP_ERROR_TYPE "TypeError"
/* An index is outside its range. */
#define BP_ERROR_INDEX "IndexError"
/* No function, device, target kind, attribute or input has the name. */
#define BP_ERROR_NOT_FOUND "KeyError"
/* Data from outside (a file, a blob, a note) is malformed. */
#define BP_ERROR_FORMAT "FormatError"
/* The operating system refused an operation on a file, a directory or a process. */
#define BP_ERROR_IO "OSError"
/* Host or device memory is exhausted. */
#define BP_ERROR_MEMORY "MemoryError"
/* A request is well formed, but this version or this device does not support it. */
#define BP_ERROR_NOT_IMPLEMENTED "NotImplementedError"
/* A plugin that provides the name exists but is still initialising. */
#define BP_ERROR_NOT_READY "NotReadyError"
/* A plugin cannot be used: its ABI is not supported, its vendor library is missing, or it failed to
 * initialise. */
#define BP_ERROR_PLUGIN "PluginError"
/* The code generator or the vendor's compiler rejected the code. */
#define BP_ERROR_COMPILE "CompileError"
/* A device failed; the results of the queued work are lost. */
#define BP_ERROR_DEVICE "DeviceError"
/* A device is lost. Every later call that needs the device fails with BP_ERROR_DEVICE_LOST. */
#define BP_ERROR_DEVICE_LOST "DeviceLostError"
/* An invariant was violated: a defect of Backplane or of a plugin, which should be reported. */
#define BP_ERROR_INTERNAL "InternalError"
/* A failure at run time that has no kind of its own. */
#define BP_ERROR_RUNTIME "RuntimeError"

#endif
