/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks the lines that a call prints on standard error with ONESIDE_DEBUG=1. */
#ifndef TESTS_UNIT_SAID_H
#define TESTS_UNIT_SAID_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char said_text[2048];

/* Removes the lines that report a registration as copied: the memory in these tests is often a stack. */
static inline const char *
said_drop_copied(char *text)
{
	char *line = text, *end;

	while ((end = strchr(line, '\n')) != NULL) {
		const char *report = strstr(line, " are copied by a thread of this program");

		if (report != NULL && report < end)
			memmove(line, end + 1, strlen(end + 1) + 1);
		else
			line = end + 1;
	}
	return text;
}

/* Redirects standard error to a file until said_end(), which returns the text written. */
static inline int
said_begin(int *file)
{
	char name[] = "/tmp/oneside-said-XXXXXX";
	int before = dup(STDERR_FILENO);

	*file = mkstemp(name);
	unlink(name);
	dup2(*file, STDERR_FILENO);
	return before;
}

static inline char *
said_end(int before, int file)
{
	ssize_t len;

	dup2(before, STDERR_FILENO);
	close(before);
	len = pread(file, said_text, sizeof(said_text) - 1, 0);
	close(file);
	said_text[len > 0 ? len : 0] = '\0';
	return said_text;
}

/* True if `line` is a single line that has all `parts` in this order; NULL ends the list. */
static inline bool
said_in_order(const char *line, const char *const *parts)
{
	const char *at = line, *end = strchr(line, '\n');

	if (end == NULL || end[1] != '\0')
		return false;
	for (; *parts != NULL && at != NULL; parts++) {
		at = strstr(at, *parts);
		if (at != NULL)
			at += strlen(*parts);
	}
	return at != NULL;
}

/* `call` returns `code`, and prints one line with these parts in this order: function, argument and value,
 * reason, remedy, code. */
#define assert_says(call, code, ...)                                                                     \
	do {                                                                                             \
		const char *const parts_[] = {"oneside: ", __VA_ARGS__, NULL};                           \
		int file_, before_ = said_begin(&file_);                                                 \
		unsigned long ret_ = (unsigned long)(call);                                              \
		const char *line_ = said_drop_copied(said_end(before_, file_));                          \
                                                                                                         \
		if (ret_ != (unsigned long)(code) || !said_in_order(line_, parts_))                      \
			fail_msg("%s: %#lx, and said \"%s\" without (in order) \"%s\" ...", #call, ret_, \
				 line_, parts_[1]);                                                      \
	} while (0)

/* `call` returns `code` and prints nothing. */
#define assert_silent(call, code)                                                  \
	do {                                                                       \
		int file_, before_ = said_begin(&file_);                           \
		unsigned long ret_ = (unsigned long)(call);                        \
		const char *line_ = said_end(before_, file_);                      \
                                                                                   \
		if (ret_ != (unsigned long)(code) || line_[0] != '\0')             \
			fail_msg("%s: %#lx, and said \"%s\"", #call, ret_, line_); \
	} while (0)

#endif
