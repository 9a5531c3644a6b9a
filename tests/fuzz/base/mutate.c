/* SPDX-License-Identifier: BSD-3-Clause */
/* Mutator of inputs that are records, for each target that links this file. */
#include "records.h"

#include <stdlib.h>
#include <string.h>

#define RECORDS_MAX 64u
#define HEAD 2u /* bytes of a record's length */

struct records {
	uint32_t count;
	struct bytes at[RECORDS_MAX];
};

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1, const uint8_t *data2, size_t size2,
				 uint8_t *out, size_t max_out, unsigned int seed);

static void
split(const uint8_t *data, size_t size, struct records *out)
{
	struct bytes input = {data, size};

	out->count = 0;
	while (out->count < RECORDS_MAX && record_next(&input, &out->at[out->count]))
		out->count++;
}

/* Writes as many records as fit. */
static size_t
join(const struct records *records, uint8_t *out, size_t max)
{
	size_t len = 0;

	for (uint32_t i = 0; i < records->count; i++) {
		const struct bytes *one = &records->at[i];

		if (max - len < HEAD + one->left)
			break;
		out[len] = (uint8_t)one->left;
		out[len + 1] = (uint8_t)(one->left >> 8);
		memcpy(out + len + HEAD, one->at, one->left);
		len += HEAD + one->left;
	}
	return len;
}

static void
insert(struct records *records, uint32_t at, struct bytes one)
{
	if (records->count == RECORDS_MAX)
		return;
	memmove(&records->at[at + 1], &records->at[at], (records->count - at) * sizeof(one));
	records->at[at] = one;
	records->count++;
}

static void
leave_out(struct records *records, uint32_t at)
{
	records->count--;
	memmove(&records->at[at], &records->at[at + 1], (records->count - at) * sizeof(records->at[0]));
}

/* Mutates one record into `room`. */
static void
change(struct bytes *one, uint8_t *room, size_t max)
{
	size_t len = one->left < max ? one->left : max;

	memcpy(room, one->at, len);
	*one = (struct bytes){room, LLVMFuzzerMutate(room, len, max)};
}

size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	static uint8_t room[4096], joined[1 << 20];
	unsigned int state = seed;
	struct records records;
	struct bytes one;
	uint32_t at, to;
	size_t len;

	split(data, size, &records);
	if (records.count == 0 || max_size > sizeof(joined))
		return LLVMFuzzerMutate(data, size, max_size);
	at = (uint32_t)rand_r(&state) % records.count;
	to = (uint32_t)rand_r(&state) % records.count;
	one = records.at[at];
	switch (rand_r(&state) % 12) {
	case 0:
		leave_out(&records, at);
		break;
	case 1:
		insert(&records, to, one);
		break;
	case 2:
		records.at[at] = records.at[to];
		records.at[to] = one;
		break;
	case 3: /* insert a slightly changed copy of a record */
		change(&one, room, sizeof(room));
		insert(&records, to, one);
		break;
	case 4:
		one = (struct bytes){room, LLVMFuzzerMutate(room, 0, 64)};
		insert(&records, to, one);
		break;
	default:
		change(&records.at[at], room, sizeof(room));
		break;
	}
	len = join(&records, joined, max_size);
	memcpy(data, joined, len);
	return len;
}

/* Joins the first records of one input and the last of another. */
size_t
LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1, const uint8_t *data2, size_t size2,
			  uint8_t *out, size_t max_out, unsigned int seed)
{
	struct records begin, end;
	unsigned int state = seed;

	split(data1, size1, &begin);
	split(data2, size2, &end);
	if (begin.count > 0)
		begin.count = (uint32_t)rand_r(&state) % begin.count + 1;
	for (uint32_t i = end.count > 0 ? (uint32_t)rand_r(&state) % end.count : 0; i < end.count; i++)
		insert(&begin, begin.count, end.at[i]);
	return join(&begin, out, max_out);
}
