/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs of targets with state: records, each preceded by its length (two bytes, little-endian). Any bytes
 * form such a sequence, and missing fields are zero, so that no input is refused. The mutator changes single
 * records, or their order. */
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

/* Takes the next record off the front; false: there is none. */
bool record_next(struct bytes *input, struct bytes *record);
/* Takes a number of `bytes` bytes, little-endian. */
uint64_t record_number(struct bytes *record, unsigned int bytes);
/* Fills `to` with bytes of the record, and then with zeros. */
void record_fill(struct bytes *record, void *to, size_t len);

/* Prints what is wrong, and aborts, which makes the input a finding. */
void fuzz_fail(const char *what) __attribute__((noreturn));

/* Restarts the random numbers of getrandom(): the same for each input, where a target wraps the call. */
void fuzz_random_begin(void);

#endif
