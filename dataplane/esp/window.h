/* SPDX-License-Identifier: BSD-3-Clause */
/* Anti-replay window of an inbound security association (RFC 4303 section 3.4.3 and appendix A, RFC 6479):
 * sequence numbers have 64 bits, of which a packet carries the lower half. */
#ifndef DATAPLANE_ESP_WINDOW_H
#define DATAPLANE_ESP_WINDOW_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define ESP_WINDOW_WORDS 128u
/* A word less than the bitmap: the word of the highest number also has later numbers. */
#define ESP_WINDOW ((ESP_WINDOW_WORDS - 1) * 64)

/* Zeroed: nothing was received. */
struct esp_window {
	uint64_t highest; /* highest number received */
	uint64_t seen[ESP_WINDOW_WORDS];
};

/* Extend the lower half of a number to the nearest number in or above the window that ends at `highest`; 0:
 * there is none. */
static inline uint64_t
esp_window_number(uint64_t highest, uint32_t low)
{
	uint32_t high = (uint32_t)(highest >> 32), top = (uint32_t)highest;
	uint32_t bottom = top - (ESP_WINDOW - 1);

	if (top >= ESP_WINDOW - 1) {
		if (low < bottom)
			high++;
	} else if (low >= bottom) {
		if (high == 0)
			return 0;
		high--;
	}
	return (uint64_t)high << 32 | low;
}

static inline bool
esp_window_allows(const struct esp_window *window, uint64_t number)
{
	if (number > window->highest)
		return true;
	return number != 0 && window->highest - number < ESP_WINDOW &&
	       (window->seen[number / 64 % ESP_WINDOW_WORDS] >> number % 64 & 1) == 0;
}

/* Record the number of an authenticated packet; false: a replay. */
static inline bool
esp_window_take(struct esp_window *window, uint64_t number)
{
	uint64_t word = window->highest / 64, last = number / 64;

	if (!esp_window_allows(window, number))
		return false;
	if (number > window->highest) {
		if (last - word > ESP_WINDOW_WORDS)
			word = last - ESP_WINDOW_WORDS;
		while (word < last)
			window->seen[++word % ESP_WINDOW_WORDS] = 0;
		window->highest = number;
	}
	window->seen[last % ESP_WINDOW_WORDS] |= 1ull << number % 64;
	return true;
}

#endif
