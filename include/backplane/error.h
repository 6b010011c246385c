/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: one idiom for the whole API. A function returns 0 or a pointer on success; -1 or NULL on
 * failure with an error raised in the calling thread. The error stays until it is taken, cleared or
 * replaced. All functions of this header are thread-safe: each thread has its own error. */
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
 * exhausted an error is raised (a static error of kind BP_ERROR_MEMORY; docs/trust.md says when
 * GLib ends the process instead). The message is UTF-8: other bytes become '?'. */
BP_API int bp_error_raise(const char *kind, const char *format, ...) BP_PRINTF(2, 3);

/* Puts "text: " before the message of this thread's error; does nothing if there is no error.
 * Returns -1. */
BP_API int bp_error_add_context(const char *format, ...) BP_PRINTF(1, 2);

/* Returns the message of this thread's error, "" if there is no error. The text is valid until the
 * thread's next error call. */
BP_API const char *bp_error_message(void);

/* Returns the kind of this thread's error, "" if there is no error. The text is valid until the
 * thread's next error call. */
BP_API const char *bp_error_kind(void);

/* Whether this thread has an error of the given kind. */
BP_API int bp_error_is(const char *kind);

/* Drops this thread's error, if any. */
BP_API void bp_error_clear(void);

/* bp_error_take takes this thread's error (transfer full), or returns NULL; bp_error_put raises a
 * taken error (transfer full). An error taken in one thread may be put into another: this is how a
 * worker's failure reaches its caller. */
BP_API BpError *bp_error_take(void);
BP_API void bp_error_put(BpError *error);

/* Receives the library's messages other than errors: a skipped plugin, an unusable cache. Called
 * from any thread, also at once from several. level: BP_LOG_*. */
typedef void (*BpLogCallback)(void *context, int32_t level, const char *message);

/* Sets the log callback of the process; NULL (the initial value): messages are dropped. When the
 * call returns, the previous callback may still be running in another thread, so its context has to
 * outlive such calls. */
BP_API void bp_log_set_callback(BpLogCallback callback, void *context);

#ifdef __cplusplus
}
#endif

#endif
