/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ONESIDE_DEBUG=1 (client/tell.h): who refuses notes the reason, and the call that the application made
 * prints it.  All of it is on the way of a refusal only; posts that succeed do not come here.
 */
#ifndef VERBS_REFUSED_H
#define VERBS_REFUSED_H

#include <stdint.h>

/* `error`, an errno of either sign, which is noted: "ARGUMENT = VALUE: REASON; REMEDY". */
int refused_because(int error, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
/* 0, or EINVAL, which is noted. */
int refused_range(const char *argument, int64_t value, int64_t least, int64_t most);
/*
 * At the end of a call, whose first argument is this one: prints `error`, an errno, and forgets what was
 * noted, with 0 as well; `error`.
 */
int refused_tell(const char *function, int error, const char *argument, const void *value);
/* The same of a call that returns NULL and errno then. */
void *refused_null(const char *function, int error, const char *argument, const void *value);

#endif
