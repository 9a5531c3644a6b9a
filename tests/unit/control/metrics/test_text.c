/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of metrics, and the table of counters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "control/metrics/text.h"
#include "dataplane/engine/counters.h"

/* ---- text ---- */

static void
assert_text(struct metrics_text *text, const char *wanted)
{
	char *string;

	assert_false(text->failed);
	string = strndup(text->at, text->len);
	assert_string_equal(string, wanted);
	free(string);
	metrics_text_free(text);
}

static void
some_families(struct metrics_text *text)
{
	char label[METRICS_LABEL(16)];

	metrics_family(text, "one_a", METRICS_COUNTER, "bytes", "A.");
	metrics_sample(text, UINT64_MAX, "who=\"%s\"", metrics_label("a\"b\\c\n\x80", label, sizeof(label)));
	metrics_family(text, "one_b", METRICS_GAUGE, "", "B.");
	metrics_value(text, 7);
	metrics_family(text, "one_c", METRICS_COUNTER, "seconds", "C.");
	metrics_seconds(text, 1000000001, "x=\"1\"");
	metrics_family(text, "one_d", METRICS_INFO, "", "D.");
	metrics_sample(text, 1, "v=\"2\"");
	metrics_end(text);
}

static void
test_openmetrics(void **state)
{
	struct metrics_text text;

	metrics_text_init(&text, true);
	some_families(&text);
	assert_text(&text,
		    "# TYPE one_a_bytes counter\n# UNIT one_a_bytes bytes\n# HELP one_a_bytes A.\n"
		    "one_a_bytes_total{who=\"a\\\"b\\\\c\?\?\"} 18446744073709551615\n"
		    "# TYPE one_b gauge\n# HELP one_b B.\none_b 7\n"
		    "# TYPE one_c_seconds counter\n# UNIT one_c_seconds seconds\n# HELP one_c_seconds C.\n"
		    "one_c_seconds_total{x=\"1\"} 1.000000001\n"
		    "# TYPE one_d info\n# HELP one_d D.\none_d_info{v=\"2\"} 1\n# EOF\n");
}

/* Before OpenMetrics, families are named like their samples, and there is neither a unit nor an end mark. */
static void
test_before_openmetrics(void **state)
{
	struct metrics_text text;

	metrics_text_init(&text, false);
	some_families(&text);
	assert_text(&text, "# TYPE one_a_bytes_total counter\n# HELP one_a_bytes_total A.\n"
			   "one_a_bytes_total{who=\"a\\\"b\\\\c\?\?\"} 18446744073709551615\n"
			   "# TYPE one_b gauge\n# HELP one_b B.\none_b 7\n"
			   "# TYPE one_c_seconds_total counter\n# HELP one_c_seconds_total C.\n"
			   "one_c_seconds_total{x=\"1\"} 1.000000001\n"
			   "# TYPE one_d_info gauge\n# HELP one_d_info D.\none_d_info{v=\"2\"} 1\n");
}

/* A label ends inside its buffer, and never in the middle of an escape. */
static void
test_label_room(void **state)
{
	char label[6];

	for (size_t room = 1; room <= sizeof(label); room++) {
		size_t len = strlen(metrics_label("\"\"\"\"\"\"\"\"", label, room));

		assert_true(len < room);
		assert_int_equal(len % 2, 0);
	}
}

/* A text that is too long fails as a whole. */
static void
test_too_long(void **state)
{
	struct metrics_text text;
	char labels[700];

	metrics_text_init(&text, true);
	metrics_family(&text, "one", METRICS_GAUGE, "", "Long.");
	for (uint32_t i = 0; i < METRICS_TEXT_MAX && !text.failed; i++)
		metrics_sample(&text, i, "a=\"%0100u\"", i);
	assert_true(text.failed);
	assert_true(text.len <= METRICS_TEXT_MAX);
	metrics_text_free(&text);
	memset(labels, 'x', sizeof(labels) - 1);
	labels[sizeof(labels) - 1] = '\0';
	metrics_sample(&text, 1, "%s", labels);
	assert_true(text.failed);
	metrics_text_free(&text);
}

static void
test_buckets(void **state)
{
	static const struct {
		uint64_t ns;
		uint32_t bucket;
	} cases[] = {
		{0, 0},    {1, 0},    {250, 0},         {251, 1},         {500, 1},    {501, 2},
		{1000, 2}, {1001, 3}, {8388608000, 25}, {8388608001, 26}, {~0ull, 26},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct latency latency = {0};

		latency_add(&latency, cases[i].ns);
		assert_int_equal(latency.sum_ns, cases[i].ns);
		assert_int_equal(latency.bucket[cases[i].bucket], 1);
	}
}

static void
test_histogram(void **state)
{
	struct latency latency = {.sum_ns = 5};
	struct metrics_text text;
	char *string;

	latency.bucket[0] = 2;
	latency.bucket[22] = 3;
	latency.bucket[LATENCY_BUCKETS - 1] = 4;
	metrics_text_init(&text, true);
	metrics_family(&text, "one", METRICS_HISTOGRAM, "seconds", "H.");
	metrics_histogram(&text, &latency, "c=\"1\"");
	string = strndup(text.at, text.len);
	assert_non_null(strstr(string, "\none_seconds_bucket{c=\"1\",le=\"2.5e-07\"} 2\n"
				       "one_seconds_bucket{c=\"1\",le=\"5e-07\"} 2\n"));
	assert_non_null(
		strstr(string, "le=\"0.524288\"} 2\none_seconds_bucket{c=\"1\",le=\"1.048576\"} 5\n"));
	assert_non_null(strstr(string,
			       "le=\"8.388608\"} 5\none_seconds_bucket{c=\"1\",le=\"+Inf\"} 9\n"
			       "one_seconds_sum{c=\"1\"} 0.000000005\none_seconds_count{c=\"1\"} 9\n"));
	free(string);
	metrics_text_free(&text);
}

/* ---- counters ---- */

/* Each counter of a core is in the table once, except cycles of stages and latencies, which have other
 * commands and families. */
static void
test_all_counters(void **state)
{
	uint32_t reported[offsetof(struct engine_stats, stage_loops) / sizeof(uint64_t)] = {0};

	for (const struct counter *counter = counters; counter->name != NULL; counter++) {
		assert_true(counter->offset / sizeof(uint64_t) < sizeof(reported) / sizeof(reported[0]));
		assert_int_equal(reported[counter->offset / sizeof(uint64_t)]++, 0);
		assert_int_equal(counter->help != NULL, counter->group == COUNTER_CORE);
		for (const struct counter *other = counters; other != counter; other++)
			assert_false(other->group == counter->group && other->unit == counter->unit &&
				     strcmp(other->name, counter->name) == 0);
	}
	for (uint32_t i = 0; i < sizeof(reported) / sizeof(reported[0]); i++) {
		uint32_t at = i * (uint32_t)sizeof(uint64_t);
		uint32_t drops = (uint32_t)offsetof(struct engine_stats, drop);
		uint32_t events = (uint32_t)offsetof(struct engine_stats, rc);
		bool no_reason = at >= drops && at < drops + WIRE_DROP_MAX * sizeof(uint64_t) &&
				 ((at - drops) / sizeof(uint64_t) == WIRE_OK ||
				  (at - drops) / sizeof(uint64_t) == WIRE_NOT_ROCE);
		bool no_esp_reason =
			at == offsetof(struct engine_stats, esp_drop) + ENGINE_ESP_OK * sizeof(uint64_t);
		bool no_event = at >= events + RC_COUNT_MAX * sizeof(uint64_t);

		if (reported[i] != 1 && !no_reason && !no_esp_reason && !no_event)
			fail_msg("the counter at %u of struct engine_stats is not exported", at);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_openmetrics),  cmocka_unit_test(test_before_openmetrics),
		cmocka_unit_test(test_label_room),   cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_buckets),      cmocka_unit_test(test_histogram),
		cmocka_unit_test(test_all_counters),
	};

	return cmocka_run_group_tests_name("metrics: text", tests, NULL, NULL);
}
