/* SPDX-License-Identifier: BSD-3-Clause */
/* The anti-replay window against a model that remembers every number. */
#include <stdlib.h>

#include "tests/unit/unit.h"
#include "dataplane/esp/sa.h"
#include "dataplane/esp/window.h"

#define SPAN 65536u

/* Draws numbers from `base` on: some far ahead, some long past, many twice. */
static void
against_model(uint64_t base)
{
	static uint8_t taken[SPAN];
	struct esp_window window = {.highest = base};
	uint64_t highest = base;
	uint32_t at = 0, accepted = 0;

	memset(taken, 0, sizeof(taken));
	for (uint32_t i = 0; i < 200000 && at < SPAN - 20000; i++) {
		uint32_t ahead = rand() % 10000 == 0 ? rand() % 10000u : rand() % 3u;
		uint32_t back = rand() % 4 == 0 ? rand() % 10000u : 0;
		uint64_t number;
		bool expected;

		at += ahead;
		if (at < back)
			continue;
		number = base + at - back;
		expected = number > highest || (number != 0 && highest - number < ESP_WINDOW &&
						number > base && taken[at - back] == 0);
		if (number <= base)
			continue; /* the model has no numbers before `base` */
		assert_int_equal(esp_window_allows(&window, number), expected);
		assert_int_equal(esp_window_take(&window, number), expected);
		accepted += expected;
		taken[at - back] = 1;
		highest = number > highest ? number : highest;
		assert_true(window.highest == highest);
	}
	assert_true(accepted > 10000);
}

static void
test_window(void **state)
{
	srand(1);
	against_model(0);
	against_model(63);
	against_model((1ull << 32) - 30000);
	against_model(5ull << 32);
}

/* The lower half determines a number as far back as the window reaches, and forward over the rest of the
 * range. */
static void
test_number(void **state)
{
	static const uint64_t highests[] = {
		0,          1,          ESP_WINDOW - 1,   ESP_WINDOW, 1ull << 31,
		UINT32_MAX, 1ull << 32, (1ull << 32) + 5, 7ull << 32, (7ull << 32) + ESP_WINDOW - 2};

	for (size_t i = 0; i < sizeof(highests) / sizeof(highests[0]); i++) {
		uint64_t highest = highests[i];

		for (uint64_t back = 0; back < ESP_WINDOW && back <= highest; back++)
			assert_true(esp_window_number(highest, (uint32_t)(highest - back)) == highest - back);
		for (uint64_t ahead = 1; ahead < 1ull << 32; ahead = ahead * 3 + 1)
			if (ahead + ESP_WINDOW <= 1ull << 32)
				assert_true(esp_window_number(highest, (uint32_t)(highest + ahead)) ==
					    highest + ahead);
	}
	/* A number before the first: none. */
	assert_true(esp_window_number(10, UINT32_MAX) == 0);
	assert_false(esp_window_allows(&(struct esp_window){.highest = 10}, 0));
}

/* Numbers up to the saved one count as seen, later ones do not, in whichever order they arrive. */
static void
test_begun(void **state)
{
	static struct esp_sa sa;

	for (uint64_t highest = 1; highest < 300; highest++) {
		memset(&sa, 0, sizeof(sa));
		esp_sa_begin(&sa, &(struct esp_saved){.number = highest}, 0);
		for (uint64_t number = 1; number <= highest; number++)
			assert_false(esp_window_allows(&sa.window, number));
		for (uint64_t number = highest + 100; number > highest; number--)
			assert_true(esp_window_take(&sa.window, number));
		for (uint64_t number = highest + 100; number > highest; number--)
			assert_false(esp_window_take(&sa.window, number));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_number),
		cmocka_unit_test(test_begun),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
