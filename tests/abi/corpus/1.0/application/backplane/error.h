/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: one idiom for the whole API. A function returns 0 or a pointer on success; -1 or NULL on
 * failure with an error raised in the calling thread, where it stays until it is taken, cleared or
 * replaced. Everything here is thread-safe: each thread has its own error. */
#ifndef BACKPLANE_ERROR_H
#define BACKPLANE_ERROR_H

#include <backplane/api.h>
#include <backplane/error_kinds.h>
#include <backplane/host_api.h>
#include <backplane/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raises an error. kind: BP_ERROR_*, or any name, copied. Always returns -1. Even when memory is
 * exhausted an error is raised (a static one of kind BP_ERROR_MEMORY; docs/trust.md says when GLib
 * ends the process instead). Whatever is quoted in it, the message is UTF-8: bytes that are not
 * become '?'. */
BP_API int bp_error_raise(const char *kind, const char *format, ...) BP_PRINTF(2, 3);

/* Puts "text: " before the message of this thread's error; nothing if there is none. Returns -1. */
BP_API int bp_error_add_context(const char *format, ...) BP_PRINTF(1, 2);

/* Message of this thread's error, "" if there is none. Valid until the thread's next error call. */
BP_API const char *bp_error_message(void);

/* Kind of this thread's error, "" if there is none. Valid as bp_error_message's. */
BP_API const char *bp_error_kind(void);

/* Whether this thread has an error of this kind. */
BP_API int bp_error_is(const char *kind);

/* Drops this thread's error, if any. */
BP_API void bp_error_clear(void);

/* Takes this thread's error (transfer full), or NULL; puts one back (transfer full). An error taken
 * in one thread may be put into another: this is how a worker's failure reaches its caller. */
BP_API BpError *bp_error_take(void);
BP_API void bp_error_put(BpError *error);

/* Receives what the library has to say besides errors: a skipped plugin, an unusable cache. Called
 * from any thread, also at once from several. level: BP_LOG_*. */
typedef void (*BpLogCallback)(void *context, int32_t level, const char *message);

/* Sets the log callback of the process; NULL (as at the start): messages are dropped. The callback
 * before may still be running in another thread when this returns, so its context has to outlive
 * such calls. */
BP_API void bp_log_set_callback(BpLogCallback callback, void *context);

#ifdef __cplusplus
}
#endif

#endif
