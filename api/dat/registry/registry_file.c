/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parser of dat.conf: one entry per line, eight fields separated by white space.
 *
 *   name  u1.2  threadsafe|nonthreadsafe  default|nondefault  library  id.1.2  "parameters"  "platform"
 *
 * # begins a comment.  A field in double quotes may contain blanks or be empty; a backslash there escapes the
 * next character.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conf.h"

#define FIELDS 8

/* Copies the next field to `out` and advances *at.  Returns 1; 0: end of the line; -EINVAL: bad quotes. */
static int
take_field(const char **at, char *out)
{
	const char *p = *at;

	while (isspace((unsigned char)*p))
		p++;
	if (*p == '\0' || *p == '#') {
		*at = p;
		return 0;
	}
	if (*p == '"') {
		for (p++; *p != '"'; p++) {
			if (*p == '\\' && p[1] != '\0')
				p++;
			if (*p == '\0')
				return -EINVAL;
			*out++ = *p;
		}
		p++;
		if (*p != '\0' && *p != '#' && !isspace((unsigned char)*p))
			return -EINVAL;
	} else {
		while (*p != '\0' && *p != '#' && !isspace((unsigned char)*p))
			*out++ = *p++;
	}
	*out = '\0';
	*at = p;
	return 1;
}

/* Parses a decimal number of at most 9 digits, which cannot overflow. */
static bool
take_number(const char **at, uint32_t *value)
{
	const char *p = *at;
	uint32_t v = 0;

	for (; isdigit((unsigned char)*p) && p - *at < 9; p++)
		v = v * 10 + (uint32_t)(*p - '0');
	if (p == *at || isdigit((unsigned char)*p))
		return false;
	*at = p;
	*value = v;
	return true;
}

/* Parses "major.minor" to the end of the text. */
static bool
take_version(const char *text, uint32_t *major, uint32_t *minor)
{
	return take_number(&text, major) && *text++ == '.' && take_number(&text, minor) && *text == '\0';
}

/* Checks the form id.major.minor; the id may contain dots. */
static bool
provider_version_ok(const char *text)
{
	uint32_t major, minor;
	const char *dot = strrchr(text, '.');

	if (dot == NULL || dot == text)
		return false;
	do {
		dot--;
	} while (dot > text && *dot != '.');
	return dot > text && take_version(dot + 1, &major, &minor);
}

static int
make_entry(char *const field[FIELDS], struct conf_entry **out)
{
	DAT_PROVIDER_INFO info = {0};
	struct conf_entry *entry;
	bool used;

	if (field[0][0] == '\0' || strlen(field[0]) >= DAT_NAME_MAX_LENGTH)
		return -EINVAL;
	memcpy(info.ia_name, field[0], strlen(field[0]));
	if ((field[1][0] != 'u' && field[1][0] != 'k') ||
	    !take_version(field[1] + 1, &info.dapl_version_major, &info.dapl_version_minor))
		return -EINVAL;
	info.is_thread_safe = strcmp(field[2], "threadsafe") == 0 ? DAT_TRUE : DAT_FALSE;
	if (!info.is_thread_safe && strcmp(field[2], "nonthreadsafe") != 0)
		return -EINVAL;
	used = strcmp(field[3], "default") == 0;
	if (!used && strcmp(field[3], "nondefault") != 0)
		return -EINVAL;
	if (field[4][0] == '\0' || !provider_version_ok(field[5]))
		return -EINVAL;
	if (!used || field[1][0] != 'u')
		return 0;
	entry = calloc(1, sizeof(*entry));
	if (entry == NULL)
		return -ENOMEM;
	entry->info = info;
	entry->library = strdup(field[4]);
	entry->params = strdup(field[6]);
	entry->platform = strdup(field[7]);
	if (entry->library == NULL || entry->params == NULL || entry->platform == NULL) {
		conf_free(entry);
		return -ENOMEM;
	}
	*out = entry;
	return 1;
}

int
conf_parse_line(const char *line, struct conf_entry **out)
{
	size_t room = strlen(line) + 1;
	char *field[FIELDS + 1];
	char *text = malloc(room * (FIELDS + 1));
	int n = 0, got;

	if (text == NULL)
		return -ENOMEM;
	do {
		field[n] = text + (size_t)n * room;
		got = take_field(&line, field[n]);
		n += got > 0;
	} while (got > 0 && n <= FIELDS);
	if (got == 0 && n == FIELDS)
		got = make_entry(field, out);
	else if (got != 0 || n != 0)
		got = -EINVAL;
	free(text);
	return got;
}

int
conf_parse(FILE *file, struct conf_entry **list, int *first_skipped)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t len;
	int number = 0, skipped = 0, got = 0;

	while (*list != NULL)
		list = &(*list)->next;
	while (got != -ENOMEM && (len = getline(&line, &room, file)) > 0) {
		if (line[len - 1] == '\n')
			line[len - 1] = '\0';
		got = conf_parse_line(line, list);
		number++;
		if (got == 1)
			list = &(*list)->next;
		else if (got == -EINVAL && skipped++ == 0)
			*first_skipped = number;
	}
	free(line);
	return got == -ENOMEM ? got : skipped;
}

void
conf_free(struct conf_entry *list)
{
	while (list != NULL) {
		struct conf_entry *next = list->next;

		free(list->library);
		free(list->params);
		free(list->platform);
		free(list);
		list = next;
	}
}

bool
conf_is_ours(const struct conf_entry *entry)
{
	const char *slash = strrchr(entry->library, '/');
	const char *base = slash != NULL ? slash + 1 : entry->library;

	return strcmp(entry->library, "builtin") == 0 || strcmp(base, "libdat.so") == 0 ||
	       strcmp(base, "libdat.so.1") == 0;
}
