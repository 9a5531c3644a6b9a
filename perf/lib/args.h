/* SPDX-License-Identifier: BSD-3-Clause */
/* Command line parser driven by a table. */
#ifndef PERF_ARGS_H
#define PERF_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum args_kind { ARGS_TEXT, ARGS_NUMBER, ARGS_ON, ARGS_OFF, ARGS_TAKE };

struct args_row {
	const char *name; /* without "--"; NULL ends the table */
	char letter;      /* 0: none */
	enum args_kind kind;
	size_t offset, size; /* offset and size of the field: const char *, uint16_t to uint64_t, bool */
	uint64_t min, max;
	int (*take)(void *options, const char *text); /* 0, or -1 after printing the reason */
};

/* Rows of a table. Define ARGS as the struct with the fields. */
/* clang-format off */
#define ROW(name_, letter_, kind_, ...) {.name = name_, .letter = letter_, .kind = kind_, __VA_ARGS__}
#define FIELD(field) .offset = offsetof(ARGS, field), .size = sizeof(((ARGS *)0)->field)
#define TEXT(name, letter, field) ROW(name, letter, ARGS_TEXT, FIELD(field))
#define ON(name, letter, field) ROW(name, letter, ARGS_ON, FIELD(field))
#define OFF(name, letter, field) ROW(name, letter, ARGS_OFF, FIELD(field))
#define NUMBER(name, letter, field, min_, max_) \
	ROW(name, letter, ARGS_NUMBER, FIELD(field), .min = min_, .max = max_)
#define TAKE(name, letter, function) ROW(name, letter, ARGS_TAKE, .take = function)
/* clang-format on */

/*
 * Returns 0 to continue, with optind after the options; 1 after --help; -1 on a wrong option (printed on
 * stderr).
 */
int args_parse(const struct args_row *rows, const char *usage, void *options, int argc, char **argv);
/* Parses a number. Returns 0, or -1 after printing the range of `name`. */
int args_number(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *out);

#endif
