/* SPDX-License-Identifier: BSD-3-Clause */
/* Why something failed, when DAT_DBG_TYPE is set. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "dat/base/object.h"

void
base_complain(const char *format, ...)
{
	const char *wanted = secure_getenv("DAT_DBG_TYPE");
	va_list args;

	if (wanted == NULL || strtoul(wanted, NULL, 0) == 0)
		return;
	fputs("oneside: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}
