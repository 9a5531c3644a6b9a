/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The segment id file: ranges of ids that the administrator reserved.
 *
 *   # keyword  appid   baseid (hex)  length (decimal)
 *   reserved   MYAPP   0x600000      1000
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "rsm/calls.h"

#define FILE_DEFAULT "/etc/rsm/rsm.segmentid"
#define FILE_ENV "RSM_SEGMENTID_FILE"
#define LINE_MAX_LEN 255
#define BLANKS " \t\r\n"

static bool
parse_u32(const char *text, int base, uint32_t *out)
{
	char *end;
	unsigned long long value;

	if (text[0] == '-' || text[0] == '+')
		return false;
	errno = 0;
	value = strtoull(text, &end, base);
	if (errno != 0 || end == text || *end != '\0' || value > UINT32_MAX)
		return false;
	*out = (uint32_t)value;
	return true;
}

/* Parses a line that is not a comment. RSM_SUCCESS; RSMERR_BAD_APPID: another application's entry;
 * RSMERR_BAD_CONF: malformed. */
static int
parse_entry(char *line, const char *appid, rsm_memseg_id_t *baseid, uint32_t *length)
{
	char *field[4], *save = NULL;
	uint32_t base, count;

	for (int i = 0; i < 4; i++) {
		field[i] = strtok_r(i == 0 ? line : NULL, BLANKS, &save);
		if (field[i] == NULL)
			return RSMERR_BAD_CONF;
	}
	if (strcasecmp(field[1], appid) != 0)
		return RSMERR_BAD_APPID;
	/* The RSMAPI documents disagree: their text has "reserve", their example "reserved". */
	if (strcasecmp(field[0], "reserved") != 0 && strcasecmp(field[0], "reserve") != 0)
		return RSMERR_BAD_CONF;
	if (!parse_u32(field[2], 16, &base) || !parse_u32(field[3], 10, &count) || count == 0 ||
	    count - 1 > UINT32_MAX - base)
		return RSMERR_BAD_CONF;
	*baseid = base;
	*length = count;
	return RSM_SUCCESS;
}

static int
file_search(FILE *file, const char *appid, rsm_memseg_id_t *baseid, uint32_t *length)
{
	char line[LINE_MAX_LEN + 2]; /* newline and NUL */

	while (fgets(line, sizeof(line), file) != NULL) {
		size_t len = strlen(line);
		const char *text = line + strspn(line, BLANKS);
		bool comment = *text == '#';
		int result;

		if (len == sizeof(line) - 1 && line[len - 1] != '\n') {
			int c = 0;

			if (!comment)
				return RSMERR_BAD_CONF;
			while (c != '\n' && c != EOF)
				c = fgetc(file);
		}
		if (comment)
			continue;
		result = parse_entry(line, appid, baseid, length);
		if (result != RSMERR_BAD_APPID)
			return result;
	}
	return ferror(file) ? RSMERR_BAD_CONF : RSMERR_BAD_APPID;
}

int
rsm_do_get_segmentid_range(const char *appid, rsm_memseg_id_t *baseid, uint32_t *length)
{
	const char *path = secure_getenv(FILE_ENV);
	FILE *file;
	int result;

	if (appid == NULL || baseid == NULL || length == NULL)
		return RSMERR_BAD_ADDR;
	file = fopen(path != NULL ? path : FILE_DEFAULT, "re");
	if (file == NULL)
		return RSMERR_BAD_CONF;
	result = file_search(file, appid, baseid, length);
	fclose(file);
	return result;
}
