/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a file of [section] lines, "key = value" lines, and # comments. Refuses all other lines: a typing
 * error must not be silent. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/internal.h"

#define LINE_LEN 1023u /* without the newline */
#define NAME_LEN 63u   /* of a section */
#define BLANKS " \t\r\v\f"
/* Holds a section too many: setting its first key refuses it. */
#define SECTIONS_MAX (3 + CONFIG_PORTS_MAX + CONFIG_PEERS_MAX + CONFIG_IPSEC_MAX + CONFIG_USERS_MAX)

struct reading {
	struct config *config;
	const char *path;
	char *why;
	size_t why_len;
	unsigned int line;
	char text[LINE_LEN + 2]; /* longest line, its newline, and one byte to detect longer lines */
	size_t len;
	struct {
		char name[NAME_LEN + 1];
		const struct config_section *kind;
		const char *object;
	} section[SECTIONS_MAX]; /* the last one is the current section */
	uint32_t sections;
	uint64_t given;     /* keys given in the current section, as bits by index in its table */
	char value[64][48]; /* values given, truncated */
};

#define REFUSE(reading, error, format, ...)                                          \
	config_refuse((reading)->why, (reading)->why_len, error, "file %s: " format, \
		      (reading)->path __VA_OPT__(, ) __VA_ARGS__)
#define REFUSE_LINE(reading, error, format, ...) \
	REFUSE(reading, error, "line %u" format, (reading)->line __VA_OPT__(, ) __VA_ARGS__)

static bool
read_line(FILE *file, struct reading *reading)
{
	int c = 0;

	reading->line++;
	for (reading->len = 0;
	     reading->len < sizeof(reading->text) - 1 && c != '\n' && (c = getc(file)) != EOF;)
		reading->text[reading->len++] = (char)c;
	reading->text[reading->len] = '\0';
	return reading->len > 0;
}

/* Strips blanks at both ends. */
static char *
strip_blanks(char *text)
{
	size_t len;

	text += strspn(text, BLANKS);
	for (len = strlen(text); len > 0 && strchr(BLANKS, text[len - 1]) != NULL;)
		text[--len] = '\0';
	return text;
}

/* Cuts at the comment; \# is a literal #. */
static void
cut_comment(char *text)
{
	const char *from = text;

	for (; *from != '\0' && *from != '#' && *from != '\n'; from++) {
		from += from[0] == '\\' && from[1] == '#';
		*text++ = *from;
	}
	*text = '\0';
}

/* An object needs at least one key. */
static int
end_section(const struct reading *reading)
{
	uint32_t last = reading->sections - 1;

	if (reading->sections == 0 || reading->given != 0 || reading->section[last].kind->size == 0)
		return 0;
	return REFUSE_LINE(reading, -EINVAL, ": [%s]: the section before is empty; give it %s",
			   reading->section[last].name, reading->section[last].kind->needs);
}

/* Two sections of one user or node are duplicates, even if written differently. */
static int
check_other(const struct reading *reading, uint32_t new, uint32_t i)
{
	const char *name = reading->section[new].name, *other = reading->section[i].name;

	if (strcmp(name, other) == 0)
		return REFUSE_LINE(reading, -EEXIST, ": [%s] is there twice; join the two", name);
	if (reading->section[new].kind == reading->section[i].kind &&
	    reading->section[new].object == reading->section[i].object)
		return REFUSE_LINE(reading, -EEXIST, ": [%s] and [%s] are the same %s; join the two", other,
				   name, reading->section[i].kind->name);
	return 0;
}

static int
begin_section(struct reading *reading, const char *name)
{
	uint32_t new = reading->sections;
	char fault[512], *object;
	const struct config_value value = {.section = name, .why = fault, .why_len = sizeof(fault)};
	int error = end_section(reading);

	if (error != 0)
		return error;
	error = config_object(reading->config, &value, &reading->section[new].kind, &object);
	if (error != 0)
		return REFUSE_LINE(reading, error, ": %s", fault);
	strcpy(reading->section[new].name, name);
	reading->section[new].object = object;
	for (uint32_t i = 0; i < new &&error == 0; i++)
		error = check_other(reading, new, i);
	reading->sections++;
	reading->given = 0;
	return error;
}

/* `start` points at a [. */
static int
take_heading(struct reading *reading, char *start)
{
	char *end = strchr(start, ']');

	if (end == NULL || end[1] != '\0')
		return REFUSE_LINE(reading, -EINVAL, ", \"%.40s\": %s; write [section] on a line by itself",
				   start, end == NULL ? "its ] is missing" : "something is behind the ]");
	if ((size_t)(end - start) > NAME_LEN + 1)
		return REFUSE_LINE(reading, -E2BIG,
				   ", \"%.40s...\": the name is too long; write at most %u bytes", start,
				   NAME_LEN);
	*end = '\0';
	return begin_section(reading, strip_blanks(start + 1));
}

static int
take_value(struct reading *reading, char *start, char *equals)
{
	const char *section = reading->section[reading->sections - 1].name, *name, *value;
	const struct config_section *kind = reading->section[reading->sections - 1].kind;
	const struct config_key *key;
	char fault[512];
	uint64_t bit;
	int error;

	*equals = '\0';
	name = strip_blanks(start);
	value = strip_blanks(equals + 1);
	key = config_key_find(kind, name);
	bit = key != NULL ? 1ull << (key - kind->keys) : 0;
	if ((reading->given & bit) != 0)
		return REFUSE_LINE(reading, -EEXIST,
				   ": %s: %s is given twice, as %s and as %.47s; keep one of the lines",
				   section, key->name, reading->value[key - kind->keys], value);
	reading->given |= bit;
	if (key != NULL)
		snprintf(reading->value[key - kind->keys], sizeof(reading->value[0]), "%s", value);
	error = config_set(reading->config, section, name, value, fault, sizeof(fault));
	return error == 0 ? 0 : REFUSE_LINE(reading, error, ": %s", fault);
}

static int
take_line(struct reading *reading)
{
	char *start, *equals;

	if (reading->len > LINE_LEN && reading->text[LINE_LEN] != '\n')
		return REFUSE_LINE(reading, -E2BIG, " is too long; write at most %u bytes", LINE_LEN);
	if (strlen(reading->text) != reading->len)
		return REFUSE_LINE(reading, -EINVAL, " has a byte 0; write text");
	cut_comment(reading->text);
	start = strip_blanks(reading->text);
	equals = strchr(start, '=');
	if (*start == '\0')
		return 0;
	if (*start == '[')
		return take_heading(reading, start);
	if (equals == NULL)
		return REFUSE_LINE(
			reading, -EINVAL,
			", \"%.40s\": this is neither [section] nor key = value; correct it, or put # before it",
			start);
	if (reading->sections == 0)
		return REFUSE_LINE(
			reading, -EINVAL,
			", \"%.40s\": it is in no section; write [dataplane], or another, before it", start);
	return take_value(reading, start, equals);
}

static int
refuse_file(const struct reading *reading, int error, const char *fault)
{
	return REFUSE(reading, -error, "%s; name a readable file with --config", fault);
}

/* O_NONBLOCK: opening a FIFO must not wait for a writer. */
int
config_read(struct config *config, const char *path, char *why, size_t why_len)
{
	struct reading reading = {.config = config, .path = path, .why = why, .why_len = why_len};
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), error = 0;
	struct stat st = {.st_mode = 0};
	FILE *file;

	if (fd < 0)
		return refuse_file(&reading, errno, strerror(errno));
	file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? fdopen(fd, "r") : NULL;
	if (file == NULL) {
		close(fd);
		return refuse_file(&reading, S_ISDIR(st.st_mode) ? EISDIR : EINVAL,
				   "it is not a regular file");
	}
	while (error == 0 && read_line(file, &reading))
		error = take_line(&reading);
	if (error == 0 && ferror(file))
		error = refuse_file(&reading, EIO, "it cannot be read to its end");
	fclose(file);
	return error != 0 ? error : end_section(&reading);
}
