/* SPDX-License-Identifier: BSD-3-Clause */
/* Records: a form writes and reads a structure, and refuses what it did not write. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dataplane/base/record.h"
#include "tests/unit/unit.h"

struct thing {
	uint32_t number;
	bool flag;
	uint64_t at, never;
	const char *word;
};

static char word[] = "word";

static uint64_t
name_word(const void *pointer, const struct record_context *context)
{
	return pointer == word ? 7 : 8;
}

static void *
find_word(uint64_t name, const struct record_context *context)
{
	return name == 7 ? context->owner : NULL;
}

static const struct record_naming words = {name_word, find_word};

static const struct record_field fields[] = {
	RECORD_FIELD(thing, number, RECORD_VALUE, 100, NULL),
	RECORD_FIELD(thing, flag, RECORD_VALUE, 2, NULL),
	RECORD_FIELD(thing, at, RECORD_TIME, 0, NULL),
	RECORD_FIELD(thing, never, RECORD_TIME, 0, NULL),
	RECORD_FIELD(thing, word, RECORD_NAME, 0, &words),
};
static RECORD_FORM(form, 3, 1, fields);
static const struct thing thing = {
	.number = 99, .flag = true, .at = 1500, .never = RECORD_NEVER, .word = word};
#define WRITTEN_AT 1000u

/* Writes two things; returns the stream. */
static struct record_out
write_things(void)
{
	const struct record_context context = {.now = WRITTEN_AT};
	struct record_out out = {.bytes = NULL};

	record_put(&out, &form, 1, &thing, &context);
	record_put(&out, &form, 2, &(struct thing){.never = RECORD_NEVER}, &context);
	assert_false(out.failed);
	return out;
}

static void
test_read_what_was_written(void **state)
{
	struct record_out out = write_things();
	struct record_in in = {.bytes = out.bytes, .length = out.length};
	const struct record_context context = {.now = 50, .owner = word};
	struct record record;
	struct thing read = {0};

	assert_int_equal(record_take(&in, &record), 1);
	assert_int_equal(record.head.id, 1);
	assert_int_equal(record_get(&record, &form, &read, &context), 0);
	assert_int_equal(read.number, 99);
	assert_true(read.flag);
	assert_int_equal(read.at, 550); /* as far in the future by the other clock */
	assert_true(read.never == RECORD_NEVER);
	assert_ptr_equal(read.word, word);
	assert_int_equal(record_take(&in, &record), 1);
	assert_int_equal(record_get(&record, &form, &read, &context), 0);
	assert_int_equal(read.at, 0); /* before the other clock began */
	assert_null(read.word);
	assert_int_equal(record_take(&in, &record), 0);
	record_out_free(&out);
}

/* Each byte of the numbers' fields is checked, and the name must lead somewhere. */
static void
test_refuse_values(void **state)
{
	static const struct {
		uint32_t offset;
		uint8_t byte;
	} wrong[] = {{0, 100}, {3, 1}, {4, 2}, {21, 9}, {28, 1}};
	struct record_out out = write_things();
	const struct record_context context = {.owner = word};

	for (uint32_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct record_in in = {.bytes = out.bytes, .length = out.length};
		uint8_t *byte = out.bytes + sizeof(struct record_head) + wrong[i].offset;
		uint8_t before = *byte;
		struct record record;
		struct thing read;

		*byte = wrong[i].byte;
		assert_int_equal(record_take(&in, &record), 1);
		assert_int_equal(record_get(&record, &form, &read, &context), -EINVAL);
		*byte = before;
	}
	record_out_free(&out);
}

static void
test_refuse_forms(void **state)
{
	struct record_out out = write_things();
	struct record_head *head = (struct record_head *)(void *)out.bytes;
	const struct record_head before = *head;
	struct record record;
	struct thing read;

	for (uint32_t i = 0; i < 3; i++) {
		struct record_in in = {.bytes = out.bytes, .length = out.length};

		*head = before;
		head->type += i == 0;
		head->version += i == 1;
		head->length -= i == 2;
		assert_int_equal(record_take(&in, &record), 1);
		assert_int_equal(record_get(&record, &form, &read, &(struct record_context){.owner = word}),
				 -EINVAL);
	}
	record_out_free(&out);
}

/* Before anything is read: a record of a type that has a form must have one of its forms. */
static void
test_know_forms(void **state)
{
	struct record_out out = write_things();
	struct record_in in = {.bytes = out.bytes, .length = out.length};
	struct record record, other;

	assert_int_equal(record_take(&in, &record), 1);
	assert_true(record_is_known(&record));
	other = record;
	other.head.version++;
	assert_false(record_is_known(&other));
	other = record;
	other.head.length++;
	assert_false(record_is_known(&other));
	other = record;
	other.head.type++; /* has no form, so its reader decides */
	assert_true(record_is_known(&other));
	record_out_free(&out);
}

/* A stream that ends within a record, wherever, is refused. */
static void
test_refuse_cut_streams(void **state)
{
	struct record_out out = write_things();

	for (size_t length = 1; length < out.length; length++) {
		/* A copy of exactly this size, so that AddressSanitizer sees a read beyond it. */
		uint8_t *copy = malloc(length);
		struct record_in in = {.bytes = copy, .length = length};
		struct record record;
		int more;

		memcpy(copy, out.bytes, length);
		while ((more = record_take(&in, &record)) > 0)
			;
		assert_int_equal(more, length == out.length / 2 ? 0 : -EINVAL);
		free(copy);
	}
	record_out_free(&out);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_what_was_written), cmocka_unit_test(test_refuse_values),
		cmocka_unit_test(test_refuse_forms),          cmocka_unit_test(test_know_forms),
		cmocka_unit_test(test_refuse_cut_streams),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
