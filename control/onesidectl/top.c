/* SPDX-License-Identifier: BSD-3-Clause */
/* Rates: growth of counters between two samples. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "control/onesidectl/onesidectl.h"

/* Lists and the rates shown for each object. */
static const struct {
	const char *what, *name; /* member that identifies objects */
	const char *title, *rates;
	size_t part; /* 1/`part` of the screen's rows; 1: the rest */
} lists[] = {
	{"cores", "core", "CORE",
	 "work=REQUESTS/s completions=COMPLETIONS/s local_bytes=LOCAL-B/s:b rx_packets=RX-PKT/s rx_bytes=RX-B/s:b tx_packets=TX-PKT/s tx_bytes=TX-B/s:b handed_over=HANDED-OVER/s tx_handed_over=TX-HANDED-OVER/s wakes=WAKES/s",
	 3},
	{"ports", "port", "PORT",
	 "rx_packets=RX-PKT/s rx_bytes=RX-B/s:b tx_packets=TX-PKT/s tx_bytes=TX-B/s:b rx_missed=RX-MISSED/s rx_errors=RX-ERRORS/s",
	 4},
	{"clients", "client", "CLIENT",
	 "work=REQUESTS/s completions=COMPLETIONS/s copied_bytes=COPIED-B/s:b calls=CALLS/s", 1},
};
enum { LISTS = sizeof(lists) / sizeof(lists[0]) };

struct sample {
	double at; /* seconds */
	json_t *list[LISTS];
};

static struct sample
take_sample(void)
{
	struct timespec now;
	struct sample one;

	for (int i = 0; i < LISTS; i++) {
		json_t *answer = ask_list(lists[i].what, NULL);

		one.list[i] = json_incref(json_object_get(answer, lists[i].what));
		json_decref(answer);
	}
	clock_gettime(CLOCK_MONOTONIC, &now);
	one.at = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
	return one;
}

static void
free_sample(struct sample *one)
{
	for (int i = 0; i < LISTS; i++)
		json_decref(one->list[i]);
}

/* Object with the same name in the earlier list; NULL: new object. */
static const json_t *
earlier_object(const json_t *list, const json_t *object, const char *name)
{
	json_t *other;
	size_t i;

	json_array_foreach(list, i, other) {
		if (json_equal(json_object_get(other, name), json_object_get(object, name)))
			return other;
	}
	return NULL;
}

/* Growth per second since the earlier sample; a new object counts from 0. */
static double
rate_of(const json_t *now, const json_t *before, const char *key, double seconds)
{
	return ((double)columns_number(now, key) - (double)columns_number(before, key)) / seconds;
}

/* Busy share of the interval, in percent. */
static double
busy_percent(const json_t *now, const json_t *before)
{
	double busy = rate_of(now, before, "busy_cycles", 1), idle = rate_of(now, before, "idle_cycles", 1);

	return busy + idle > 0 ? 100 * busy / (busy + idle) : 0;
}

/* Objects of list `i`, with rates instead of counters. */
static json_t *
list_rates(const struct sample *now, const struct sample *before, int i)
{
	struct column column[COLUMNS_MAX];
	size_t columns = columns_parse(lists[i].rates, column), j;
	json_t *list = json_array(), *object;

	json_array_foreach(now->list[i], j, object) {
		const json_t *earlier = earlier_object(before->list[i], object, lists[i].name);
		json_t *one = json_object();

		json_object_update(one, object);
		for (size_t c = 0; c < columns; c++)
			json_object_set_new(
				one, column[c].key,
				json_real(rate_of(object, earlier, column[c].key, now->at - before->at)));
		if (json_object_get(object, "busy_cycles") != NULL)
			json_object_set_new(one, "busy_percent", json_real(busy_percent(object, earlier)));
		json_array_append_new(list, one);
	}
	return list;
}

static void
print_head(const json_t *object)
{
	const char *name = json_string_value(json_object_get(object, "program"));
	char head[64];

	if (name != NULL)
		snprintf(head, sizeof(head), "%" JSON_INTEGER_FORMAT " %s", columns_number(object, "pid"),
			 name);
	else if (json_object_get(object, "core") != NULL)
		snprintf(head, sizeof(head), "%" JSON_INTEGER_FORMAT " (%.0f%% busy)",
			 columns_number(object, "core"),
			 json_real_value(json_object_get(object, "busy_percent")));
	else
		snprintf(head, sizeof(head), "%s", columns_text(object, "port"));
	printf("%-24.24s", head);
}

/* Prints a heading and at most `most` lines; returns the number of lines printed. */
static size_t
print_rates(int list, const json_t *objects, size_t most)
{
	struct column column[COLUMNS_MAX];
	size_t columns = columns_parse(lists[list].rates, column);
	size_t there = json_array_size(objects), shown = there <= most ? there : most > 0 ? most - 1 : 0;
	char bytes[32];

	printf("%-24s", lists[list].title);
	for (size_t c = 0; c < columns; c++)
		printf(" %13s", column[c].title);
	putchar('\n');
	for (size_t i = 0; i < shown; i++) {
		const json_t *object = json_array_get(objects, i);

		print_head(object);
		for (size_t c = 0; c < columns; c++) {
			double value = json_real_value(json_object_get(object, column[c].key));

			if (column[c].form == 'b')
				printf(" %13s", columns_bytes(value, bytes));
			else
				printf(" %13.0f", value);
		}
		putchar('\n');
	}
	if (shown < there)
		printf("and %zu more\n", there - shown);
	return 1 + shown + (shown < there);
}

static int
compare_work(const void *a, const void *b)
{
	double x = json_real_value(json_object_get(*(json_t *const *)a, "work"));
	double y = json_real_value(json_object_get(*(json_t *const *)b, "work"));

	return x < y ? 1 : x > y ? -1 : 0;
}

/* Sorts by work requests, the most first. */
static json_t *
busiest_first(const json_t *list)
{
	size_t n = json_array_size(list);
	json_t *sorted = json_array(), **object = calloc(n + 1, sizeof(json_t *));

	if (object == NULL)
		onesidectl_fail("out of memory");
	for (size_t i = 0; i < n; i++)
		object[i] = json_array_get(list, i);
	qsort(object, n, sizeof(json_t *), compare_work);
	for (size_t i = 0; i < n; i++)
		json_array_append(sorted, object[i]);
	free(object);
	return sorted;
}

static void
print_screen(json_t *const list[LISTS])
{
	size_t rows = top_screen_rows(), used = 2; /* last heading, and a line for the cursor */

	if (isatty(STDOUT_FILENO))
		fputs("\033[H\033[J", stdout);
	for (int i = 0; i < LISTS; i++) {
		bool last = i + 1 == LISTS;
		json_t *shown = last ? busiest_first(list[i]) : json_incref(list[i]);

		used += 1 +
			print_rates(i, shown, last ? (rows > used ? rows - used : 0) : rows / lists[i].part);
		if (!last)
			putchar('\n');
		json_decref(shown);
	}
}

static void
print_difference(const struct sample *now, const struct sample *before)
{
	json_t *all = json_pack("{s:f}", "seconds", now->at - before->at), *list[LISTS];

	for (int i = 0; i < LISTS; i++) {
		list[i] = list_rates(now, before, i);
		json_object_set_new(all, lists[i].what, list[i]);
	}
	if (!onesidectl_json(all, JSON_COMPACT))
		print_screen(list);
	onesidectl_flush();
	json_decref(all);
}

int
top_run(int count, char **words)
{
	json_t *given = json_object();
	json_int_t interval, rounds;
	struct sample before, now;

	for (int i = 0; i < count; i++)
		if (!word_filter(given, words[i], "interval count"))
			onesidectl_misused("top %s: write interval=SECONDS or count=N", words[i]);
	interval = columns_number(given, "interval");
	rounds = columns_number(given, "count");
	if (json_object_get(given, "interval") == NULL)
		interval = 1;
	if (interval < 1 || interval > 30)
		onesidectl_misused("top interval=%" JSON_INTEGER_FORMAT ": out of range; write 1 to 30",
				   interval);
	json_decref(given);
	before = take_sample();
	top_screen_open();
	for (json_int_t i = 0; (rounds == 0 || i < rounds) && top_screen_wait((unsigned int)interval); i++) {
		now = take_sample();
		print_difference(&now, &before);
		free_sample(&before);
		before = now;
	}
	free_sample(&before);
	return EXIT_SUCCESS;
}
