/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inputs of the targets that keep state: records, each behind its length (two bytes, little-endian).  Any
 * bytes are such a sequence, and a field that is not there is zero, so no input is refused.  The mutator
 * changes records one by one, or their order.
 */
#ifndef TESTS_FUZZ_RECORDS_H
#define TESTS_FUZZ_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

struct bytes {
	const uint8_t *at;
	size_t left;
};

/* The next one, off the front; false: there is none. */
bool record_next(struct bytes *input, struct bytes *record);
/* A number of so many bytes, little-endian. */
uint64_t record_number(struct bytes *record, unsigned int bytes);
/* Fills `to` with what there is, and then with zeros. */
void record_fill(struct bytes *record, void *to, size_t len);

/* Says what is wrong, and makes it a finding. */
void fuzz_fail(const char *what) __attribute__((noreturn));

/* What getrandom() gives from now on: the same for each input, where a target wraps it. */
void fuzz_random_begin(void);

#endif
