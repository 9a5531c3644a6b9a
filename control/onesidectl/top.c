/* SPDX-License-Identifier: BSD-3-Clause */
/* Rates: what counters have grown by between two looks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "control/onesidectl/onesidectl.h"

struct sample {
	double at; /* s */
	json_t *cores, *ports, *clients;
};

/* What is told of each object of a list. */
struct rate {
	const char *key, *title;
	bool bytes;
};

static const struct rate core_rates[] = {
	{"work", "REQUESTS/s", false},
	{"completions", "COMPLETIONS/s", false},
	{"local_bytes", "LOCAL-B/s", true},
	{"rx_packets", "RX-PKT/s", false},
	{"rx_bytes", "RX-B/s", true},
	{"tx_packets", "TX-PKT/s", false},
	{"tx_bytes", "TX-B/s", true},
	{"wakes", "WAKES/s", false},
	{NULL, NULL, false},
};
static const struct rate port_rates[] = {
	{"rx_packets", "RX-PKT/s", false},
	{"rx_bytes", "RX-B/s", true},
	{"tx_packets", "TX-PKT/s", false},
	{"tx_bytes", "TX-B/s", true},
	{"rx_missed", "RX-MISSED/s", false},
	{"rx_errors", "RX-ERRORS/s", false},
	{NULL, NULL, false},
};
static const struct rate client_rates[] = {
	{"work", "REQUESTS/s", false},
	{"completions", "COMPLETIONS/s", false},
	{"copied_bytes", "COPIED-B/s", true},
	{"calls", "CALLS/s", false},
	{NULL, NULL, false},
};

static json_t *
list_of(const char *what)
{
	json_t *answer = ask_list(what, NULL), *list = json_incref(json_object_get(answer, what));

	json_decref(answer);
	return list;
}

static struct sample
sample(void)
{
	struct timespec now;
	struct sample one = {
		.cores = list_of("cores"), .ports = list_of("ports"), .clients = list_of("clients")};

	clock_gettime(CLOCK_MONOTONIC, &now);
	one.at = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
	return one;
}

static void
forget(struct sample *one)
{
	json_decref(one->cores);
	json_decref(one->ports);
	json_decref(one->clients);
}

/* The object of the earlier list that has the same name; NULL: it is new. */
static const json_t *
same(const json_t *list, const json_t *object, const char *name)
{
	json_t *other;
	size_t i;

	json_array_foreach(list, i, other)
	{
		if (json_equal(json_object_get(other, name), json_object_get(object, name)))
			return other;
	}
	return NULL;
}

/* Since the other look; since its beginning, for an object that was not there then. */
static double
rate_of(const json_t *now, const json_t *before, const char *key, double seconds)
{
	json_int_t a = before != NULL ? json_integer_value(json_object_get(before, key)) : 0;

	return ((double)json_integer_value(json_object_get(now, key)) - (double)a) / seconds;
}

/* The busy part of the time between, in percent. */
static double
busy(const json_t *now, const json_t *before)
{
	double busy = rate_of(now, before, "busy_cycles", 1), idle = rate_of(now, before, "idle_cycles", 1);

	return busy + idle > 0 ? 100 * busy / (busy + idle) : 0;
}

static json_t *
rates(const json_t *now, const json_t *before, const char *name, const struct rate *rate, double seconds)
{
	json_t *list = json_array(), *object;
	size_t i;

	json_array_foreach(now, i, object)
	{
		const json_t *earlier = same(before, object, name);
		json_t *one = json_object();

		json_object_update(one, object);
		for (const struct rate *r = rate; r->key != NULL; r++)
			json_object_set_new(one, r->key,
					    json_real(rate_of(object, earlier, r->key, seconds)));
		if (json_object_get(object, "busy_cycles") != NULL)
			json_object_set_new(one, "busy_percent", json_real(busy(object, earlier)));
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
		snprintf(head, sizeof(head), "%" JSON_INTEGER_FORMAT " %s",
			 json_integer_value(json_object_get(object, "pid")), name);
	else if (json_object_get(object, "core") != NULL)
		snprintf(head, sizeof(head), "%" JSON_INTEGER_FORMAT " (%.0f%% busy)",
			 json_integer_value(json_object_get(object, "core")),
			 json_real_value(json_object_get(object, "busy_percent")));
	else
		snprintf(head, sizeof(head), "%s", columns_text(object, "port"));
	printf("%-24.24s", head);
}

/* A heading and at most so many lines; how many lines there were. */
static size_t
print_rates(const char *title, const json_t *list, const struct rate *rate, size_t most)
{
	size_t i, there = json_array_size(list), shown = there <= most ? there : most > 0 ? most - 1 : 0;
	char bytes[32];

	printf("%-24s", title);
	for (const struct rate *r = rate; r->key != NULL; r++)
		printf(" %13s", r->title);
	putchar('\n');
	for (i = 0; i < shown; i++) {
		const json_t *object = json_array_get(list, i);

		print_head(object);
		for (const struct rate *r = rate; r->key != NULL; r++) {
			double value = json_real_value(json_object_get(object, r->key));

			if (r->bytes)
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
	double x = json_real_value(json_object_get(*(json_t *const *)a, client_rates[0].key));
	double y = json_real_value(json_object_get(*(json_t *const *)b, client_rates[0].key));

	return x < y ? 1 : x > y ? -1 : 0;
}

/* Those that ask for most come first. */
static json_t *
busiest_first(const json_t *list)
{
	size_t n = json_array_size(list);
	json_t *sorted = json_array(), **object = calloc(n + 1, sizeof(json_t *));

	for (size_t i = 0; object != NULL && i < n; i++)
		object[i] = json_array_get(list, i);
	if (object != NULL)
		qsort(object, n, sizeof(json_t *), compare_work);
	for (size_t i = 0; object != NULL && i < n; i++)
		json_array_append(sorted, object[i]);
	free(object);
	return sorted;
}

static void
print_screen(const json_t *cores, const json_t *ports, const json_t *clients)
{
	json_t *sorted = busiest_first(clients);
	size_t rows = top_screen_rows(), used;

	if (isatty(STDOUT_FILENO))
		fputs("\033[H\033[J", stdout);
	used = print_rates("CORE", cores, core_rates, rows / 3) + 1;
	putchar('\n');
	used += print_rates("PORT", ports, port_rates, rows / 4) + 1;
	putchar('\n');
	/* The heading, and a line for the cursor. */
	print_rates("CLIENT", sorted, client_rates, rows > used + 2 ? rows - used - 2 : 0);
	json_decref(sorted);
}

static void
print_difference(const struct sample *now, const struct sample *before)
{
	double seconds = now->at - before->at;
	json_t *cores = rates(now->cores, before->cores, "core", core_rates, seconds);
	json_t *ports = rates(now->ports, before->ports, "port", port_rates, seconds);
	json_t *clients = rates(now->clients, before->clients, "client", client_rates, seconds);

	if (onesidectl_options.json) {
		json_t *all = json_pack("{s:f, s:O, s:O, s:O}", "seconds", seconds, "cores", cores, "ports",
					ports, "clients", clients);

		json_dumpf(all, stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(all);
	} else {
		print_screen(cores, ports, clients);
	}
	onesidectl_flush();
	json_decref(cores);
	json_decref(ports);
	json_decref(clients);
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
	interval = json_integer_value(json_object_get(given, "interval"));
	rounds = json_integer_value(json_object_get(given, "count"));
	if (json_object_get(given, "interval") == NULL)
		interval = 1;
	if (interval < 1 || interval > 30)
		onesidectl_misused("top interval=%" JSON_INTEGER_FORMAT ": out of range; write 1 to 30",
				   interval);
	json_decref(given);
	before = sample();
	top_screen_open();
	for (json_int_t i = 0; (rounds == 0 || i < rounds) && top_screen_wait((unsigned int)interval); i++) {
		now = sample();
		print_difference(&now, &before);
		forget(&before);
		before = now;
	}
	forget(&before);
	return EXIT_SUCCESS;
}
