/* SPDX-License-Identifier: BSD-3-Clause */
/* A file's lines, before rte_cfgfile reads them: it passes over what it does not understand, and cuts off
 * what is too long; a typing error shall not be silent. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rte_cfgfile.h>

#include "config/internal.h"

#define LINE_LEN 255u /* without its end */
#define BLANKS " \t\r\v\f"

/* A line of a file, for messages. */
struct line {
	const char *path;
	unsigned int number;
	char text[LINE_LEN + 2]; /* as far as it may be long, its end, and one byte more that tells */
	size_t len;
	char *why;
	size_t why_len;
};

#define REFUSE_LINE(at, error, format, ...)                                                   \
	config_refuse((at)->why, (at)->why_len, error, "file %s: line %u" format, (at)->path, \
		      (at)->number __VA_OPT__(, ) __VA_ARGS__)

static bool
read_line(FILE *file, struct line *line)
{
	int c = 0;

	line->number++;
	for (line->len = 0; line->len < sizeof(line->text) - 1 && c != '\n' && (c = getc(file)) != EOF;)
		line->text[line->len++] = (char)c;
	line->text[line->len] = '\0';
	return line->len > 0;
}

/* `start` is a [, and what follows it. */
static int
check_heading(const struct line *line, const char *start)
{
	const char *end = strchr(start, ']');

	if (end == NULL || end[1 + strspn(end + 1, BLANKS)] != '\0')
		return REFUSE_LINE(line, -EINVAL, ", \"%.40s\": %s; write [section] on a line by itself",
				   start, end == NULL ? "its ] is missing" : "something stands behind the ]");
	if ((size_t)(end - start) > CFG_NAME_LEN)
		return REFUSE_LINE(line, -E2BIG,
				   ", \"%.40s...\": the name is too long; write at most %u bytes", start,
				   CFG_NAME_LEN - 1);
	return 0;
}

static int
check_line(struct line *line, bool *begun)
{
	const char *start;

	if (line->len > LINE_LEN && line->text[LINE_LEN] != '\n')
		return REFUSE_LINE(line, -E2BIG, " is too long; write at most %u bytes", LINE_LEN);
	if (strlen(line->text) != line->len)
		return REFUSE_LINE(line, -EINVAL, " has a byte 0; write text");
	line->text[strcspn(line->text, "#\n")] = '\0';
	start = line->text + strspn(line->text, BLANKS);
	if (*start == '[') {
		*begun = true;
		return check_heading(line, start);
	}
	if (*start != '\0' && strchr(start, '=') == NULL)
		return REFUSE_LINE(
			line, -EINVAL,
			", \"%.40s\": this is neither [section] nor key = value; correct it, or put # "
			"before it",
			start);
	if (*start != '\0' && !*begun)
		return REFUSE_LINE(
			line, -EINVAL,
			", \"%.40s\": it is in no section; write [dataplane], or another, before it", start);
	return 0;
}

static int
refuse_file(const struct line *line, int error, const char *fault)
{
	return config_refuse(line->why, line->why_len, -error,
			     "file %s: %s; name a readable file with --config", line->path, fault);
}

/* It is read more than once, which only a regular file can be, and opening it must not wait for a writer. */
int
config_lines_check(const char *path, char *why, size_t why_len)
{
	struct line line = {.path = path, .why = why, .why_len = why_len};
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), ret = 0;
	bool begun = false;
	struct stat st = {.st_mode = 0};
	FILE *file;

	if (fd < 0)
		return refuse_file(&line, errno, strerror(errno));
	file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? fdopen(fd, "r") : NULL;
	if (file == NULL) {
		close(fd);
		return refuse_file(&line, S_ISDIR(st.st_mode) ? EISDIR : EINVAL, "it is not a regular file");
	}
	while (ret == 0 && read_line(file, &line))
		ret = check_line(&line, &begun);
	if (ret == 0 && ferror(file))
		ret = refuse_file(&line, EIO, "it cannot be read to its end");
	fclose(file);
	return ret;
}
