/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of oneside-run on standard error. */
#include <stdarg.h>
#include <stdio.h>

#include "run/run.h"

void
run_say(const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "oneside-run: %s\n", text);
}
