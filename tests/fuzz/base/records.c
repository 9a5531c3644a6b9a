/* SPDX-License-Identifier: BSD-3-Clause */
#include "records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define HEAD 2u /* bytes of a record's length */

bool
record_next(struct bytes *input, struct bytes *record)
{
	size_t len;

	if (input->left <= HEAD)
		return false;
	len = (size_t)(input->at[0] | input->at[1] << 8);
	input->at += HEAD;
	input->left -= HEAD;
	*record = (struct bytes){input->at, len < input->left ? len : input->left};
	input->at += record->left;
	input->left -= record->left;
	return true;
}

uint64_t
record_number(struct bytes *record, unsigned int bytes)
{
	uint64_t value = 0;
	uint8_t raw[8];

	record_fill(record, raw, bytes);
	while (bytes-- > 0)
		value = value << 8 | raw[bytes];
	return value;
}

void
record_fill(struct bytes *record, void *to, size_t len)
{
	size_t n = record->left < len ? record->left : len;

	memcpy(to, record->at, n);
	memset((uint8_t *)to + n, 0, len - n);
	record->at += n;
	record->left -= n;
}

void
fuzz_fail(const char *what)
{
	fprintf(stderr, "fuzz: %s\n", what);
	abort();
}

/* ---- random numbers ---- */

static uint64_t random_state;

void
fuzz_random_begin(void)
{
	random_state = 0x9e3779b97f4a7c15ull;
}

ssize_t __wrap_getrandom(void *buffer, size_t len, unsigned int flags);

ssize_t
__wrap_getrandom(void *buffer, size_t len, unsigned int flags)
{
	uint8_t *at = buffer;

	(void)flags;
	for (size_t i = 0; i < len; i++) {
		random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
		at[i] = (uint8_t)(random_state >> 56);
	}
	return (ssize_t)len;
}
