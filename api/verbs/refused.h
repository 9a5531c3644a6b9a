/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of ONESIDE_DEBUG=1 (client/explain.h).  The function that refuses notes the reason; the call that
 * the application made prints the note.  Only refusals run this code: successful posts do not. */
#ifndef VERBS_REFUSED_H
#define VERBS_REFUSED_H

#include <stdint.h>

/* Notes "ARGUMENT = VALUE: REASON; REMEDY" for `error`, an errno of either sign.  Returns `error`. */
int refused_because(int error, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
/* Returns 0, or EINVAL with a note. */
int refused_range(const char *argument, int64_t value, int64_t least, int64_t most);
/* Called at the end of a call with its first argument: prints `error`, an errno, with the note.  Clears the
 * note, even if `error` is 0.  Returns `error`. */
int refused_explain(const char *function, int error, const char *argument, const void *value);
/* Like refused_explain(), for calls that return NULL: sets errno and returns NULL. */
void *refused_null(const char *function, int error, const char *argument, const void *value);

#endif
