/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports why an IA does not open: as the refusal of the call with ONESIDE_DEBUG, else on stderr with
 * DAT_DBG_TYPE. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "dat/object.h"

void
base_complain(const char *what, const char *about, const char *format, ...)
{
	const char *wanted = secure_getenv("DAT_DBG_TYPE");
	char text[320];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (one_explaining)
		one_note_reason("%s = \"%s\": %s", what, about, text);
	else if (wanted != NULL && strtoul(wanted, NULL, 0) != 0)
		fprintf(stderr, "oneside: %s: %s\n", about, text);
}
