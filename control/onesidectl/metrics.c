/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the data plane's metrics as text, whole or not at all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/onesidectl/onesidectl.h"

/* Appends the page at `from` to `text`; returns where the next page begins, or NULL after the last. */
static json_t *
take_page(FILE *text, const char *format, json_t *from)
{
	json_t *page =
		ask_one(json_pack("{s:s, s:s, s:O}", "command", "metrics", "format", format, "from", from));
	const char *part = json_string_value(json_object_get(page, "metrics"));
	json_t *next = ask_next(page, from);

	fputs(part != NULL ? part : "", text);
	json_decref(from);
	json_decref(page);
	return next;
}

int
onesidectl_metrics_run(int count, char **words)
{
	const char *format = count > 0 ? words[0] : "openmetrics";
	json_t *from = json_integer(0);
	char *whole = NULL;
	size_t len = 0;
	FILE *text = open_memstream(&whole, &len);

	if (count > 1 || (strcmp(format, "openmetrics") != 0 && strcmp(format, "prometheus") != 0))
		onesidectl_misused("metrics %s: write metrics, metrics openmetrics, or metrics prometheus",
				   words[count - 1]);
	if (onesidectl_options.json)
		onesidectl_misused("metrics: the output is text, not JSON; leave --json out");
	while (text != NULL && from != NULL)
		from = take_page(text, format, from);
	if (text == NULL || fclose(text) != 0)
		onesidectl_fail("out of memory");
	fwrite(whole, 1, len, stdout);
	free(whole);
	return EXIT_SUCCESS;
}
