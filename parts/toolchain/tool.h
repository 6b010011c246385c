/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins' compilers: programs that make files from files. */
#ifndef BACKPLANE_PARTS_TOOLCHAIN_TOOL_H
#define BACKPLANE_PARTS_TOOLCHAIN_TOOL_H

#include <backplane/host_api.h>

/* The slot run_compiler of BpModuleTable; `outputs` and `log` are empty. */
int32_t bp__tool_run(const BpCompilerRun *run, BpOwnedBytes *outputs, BpOwnedBytes *log);

#endif
