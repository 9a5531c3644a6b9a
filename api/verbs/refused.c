/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages about refused calls: see refused.h. */
#include "verbs/refused.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/explain.h"

#define TEXT_MAX 512

int
refused_because(int error, const char *format, ...)
{
	char text[TEXT_MAX];
	va_list args;

	if (!one_explaining)
		return error;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	one_note((uint32_t)(error < 0 ? -error : error), "%s", text);
	return error;
}

int
refused_range(const char *argument, int64_t value, int64_t least, int64_t most)
{
	if (value >= least && value <= most)
		return 0;
	if (least == most)
		return refused_because(EINVAL, "%s = %" PRId64 ": only %" PRId64 " is allowed; give that",
				       argument, value, least);
	return refused_because(EINVAL,
			       "%s = %" PRId64 ": it may be %" PRId64 " to %" PRId64 "; give one of these",
			       argument, value, least, most);
}

/* The reason if none was noted. */
static const char *
reason_of(int error)
{
	switch (error) {
	case EBUSY:
		return "objects that were created with it, or waiters, are left; destroy those first";
	case ENOMEM:
		return "out of memory; free some";
	case EOPNOTSUPP:
	case ENOSYS:
		return "unsupported by this implementation; see oneside-run(1)";
	default:
		return "the call is not possible now; see its manual page";
	}
}

static void
print_refusal(const char *function, int error, const char *argument, const void *value)
{
	const char *note = one_noted((uint32_t)error), *cause = one_noted_cause(),
		   *name = strerrorname_np(error);
	char text[TEXT_MAX];

	if (note != NULL)
		snprintf(text, sizeof(text), "%s", note);
	else if (cause != NULL)
		snprintf(text, sizeof(text), "%s = %#" PRIxPTR ", %s", argument, (uintptr_t)value, cause);
	else
		snprintf(text, sizeof(text), "%s = %#" PRIxPTR ": %s", argument, (uintptr_t)value,
			 reason_of(error));
	one_explain(function, text, name != NULL ? name : "an unknown error");
}

int
refused_explain(const char *function, int error, const char *argument, const void *value)
{
	if (__builtin_expect(!one_explaining, 1))
		return error;
	/* EAGAIN and EINTR are outcomes, not refusals. */
	if (error != 0 && error != EAGAIN && error != EINTR)
		print_refusal(function, error, argument, value);
	else
		one_explain_nothing();
	return error;
}

void *
refused_null(const char *function, int error, const char *argument, const void *value)
{
	errno = refused_explain(function, error, argument, value);
	return NULL;
}
