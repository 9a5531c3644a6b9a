/* SPDX-License-Identifier: BSD-3-Clause */
#include "args.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 40
#define LONG_ONLY 256 /* plus the row: getopt_long's result for an option without a letter */

int
args_number(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 0);
	if (*text != '\0' && *text != '-' && *end == '\0' && errno == 0 && *out >= min && *out <= max)
		return 0;
	fprintf(stderr, "%s: --%s: \"%s\" is not a number from %" PRIu64 " to %" PRIu64 "\n",
		program_invocation_short_name, name, text, min, max);
	return -1;
}

static int
take(const struct args_row *row, void *options, const char *text)
{
	void *field = (char *)options + row->offset;
	uint64_t value;

	switch (row->kind) {
	case ARGS_TEXT:
		memcpy(field, &text, sizeof(text));
		return 0;
	case ARGS_NUMBER:
		if (args_number(row->name, text, row->min, row->max, &value) != 0)
			return -1;
		memcpy(field, &value, row->size); /* little-endian, like every target of oneside */
		return 0;
	case ARGS_ON:
	case ARGS_OFF:
		*(bool *)field = row->kind == ARGS_ON;
		return 0;
	case ARGS_TAKE:
		break;
	}
	return row->take(options, text);
}

int
args_parse(const struct args_row *rows, const char *usage, void *options, int argc, char **argv)
{
	struct option longopts[ROWS_MAX + 2] = {{"help", no_argument, NULL, 'h'}};
	char letters[2 * ROWS_MAX + 2] = "h";
	int c, i;

	for (i = 0; rows[i].name != NULL; i++) {
		bool flag = rows[i].kind == ARGS_ON || rows[i].kind == ARGS_OFF;

		assert(i < ROWS_MAX);
		longopts[i + 1] = (struct option){rows[i].name, flag ? no_argument : required_argument, NULL,
						  rows[i].letter != 0 ? rows[i].letter : LONG_ONLY + i};
		if (rows[i].letter != 0)
			strcat(letters, (char[]){rows[i].letter, flag ? '\0' : ':', '\0'});
	}
	optind = 0; /* restarts the scan, also after another use of getopt */
	while ((c = getopt_long(argc, argv, letters, longopts, NULL)) != -1) {
		if (c == 'h' || c == '?') {
			fputs(usage, c == 'h' ? stdout : stderr);
			return c == 'h' ? 1 : -1;
		}
		i = c - LONG_ONLY;
		if (i < 0)
			for (i = 0; rows[i].letter != c; i++)
				;
		if (take(&rows[i], options, optarg) != 0)
			return -1;
	}
	/* Reject the subcommand of other programs: a host with this name is unlikely. */
	if (optind < argc && strcmp(argv[optind], "serve") == 0) {
		fprintf(stderr, "%s: \"serve\" would be a host; the server is started without one\n",
			program_invocation_short_name);
		return -1;
	}
	return 0;
}
