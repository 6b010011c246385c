/* SPDX-License-Identifier: Apache-2.0 */
/* BP_API marks a function that the shared libraries export. */
#ifndef BACKPLANE_API_H
#define BACKPLANE_API_H

#if defined(__GNUC__)
#define BP_API                         __attribute__((visibility("default")))
#define BP_PRINTF(format_index, first) __attribute__((format(printf, format_index, first)))
#else
#define BP_API
#define BP_PRINTF(format_index, first)
#endif

#endif
