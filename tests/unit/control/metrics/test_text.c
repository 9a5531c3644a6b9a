/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of metrics, the heads of HTTP requests, and the table of counters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "control/metrics/http.h"
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

/* ---- requests ---- */

static unsigned int
parse(const char *head, struct metrics_request *request)
{
	/* The copy is on the heap and without a NUL, so that AddressSanitizer sees reads beyond the end. */
	size_t len = strlen(head);
	char *copy = malloc(len);
	unsigned int status;

	assert_non_null(copy);
	memcpy(copy, head, len);
	status = metrics_http_parse(copy, len, request);
	free(copy);
	return status;
}

static void
test_requests(void **state)
{
	static const struct {
		unsigned int status;
		const char *head;
	} cases[] = {
		{200, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"},
		{200, "GET /metrics?x=y HTTP/1.1\r\nHost:\r\nAccept: */*\r\n\r\n"},
		{200, "GET http://a:1/metrics HTTP/1.1\nHost: a\n\n"},
		{200, "GET /metrics HTTP/1.0\r\n\r\n"},
		{200, "HEAD /metrics HTTP/1.1\r\nhost: a\r\nContent-Length: 0\r\n\r\n"},
		{404, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
		{404, "GET /metricsx HTTP/1.1\r\nHost: a\r\n\r\n"},
		{404, "GET /../metrics HTTP/1.1\r\nHost: a\r\n\r\n"},
		{404, "GET http://metrics HTTP/1.1\r\nHost: a\r\n\r\n"},
		{404, "GET ?/metrics HTTP/1.1\r\nHost: a\r\n\r\n"},
		{405, "POST /metrics HTTP/1.1\r\nHost: a\r\n\r\n"},
		{405, "get /metrics HTTP/1.1\r\nHost: a\r\n\r\n"},
		{505, "GET /metrics HTTP/2.0\r\nHost: a\r\n\r\n"},
		{400, "GET /metrics HTTP/1.1\r\n\r\n"},
		{400, "GET /metrics HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"},
		{400, "GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n"},
		{400, "GET /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{400, "GET /metrics HTTP/1.1\r\nHost : a\r\n\r\n"},
		{400, "GET /metrics HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n"},
		{400, "GET /metrics HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n"},
		{400, "GET /metrics HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n"},
		{400, "GET /metrics HTTP/1.1\r\nHost: a\rb\r\n\r\n"},
		{400, "GET /metrics HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n"},
		{400, "GET  /metrics HTTP/1.1\r\nHost: a\r\n\r\n"},
		{400, "GET /metrics  HTTP/1.1\r\nHost: a\r\n\r\n"},
		{400, "GET /metrics HTTP/1.1 \r\nHost: a\r\n\r\n"},
		{400, "GET /metrics HTTP/1.\r\n\r\n"},
		{400, "GET /metrics HTTP/x.1\r\n\r\n"},
		{400, "GET /metrics\r\n\r\n"},
		{400, "GET\r\n\r\n"},
		{400, "G(T /metrics HTTP/1.1\r\nHost: a\r\n\r\n"},
		{400, "GET /met\x80rics HTTP/1.1\r\nHost: a\r\n\r\n"},
		{400, " GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"},
		{400, "\r\n\r\n"},
		{400, "\x16\x03\x01\x02\n\n"},
	};
	struct metrics_request request;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned int status = parse(cases[i].head, &request);

		if (status != cases[i].status)
			fail_msg("%s: %u instead of %u", cases[i].head, status, cases[i].status);
	}
}

static void
test_asked_for(void **state)
{
	struct metrics_request request;

	assert_int_equal(
		parse("GET /metrics HTTP/1.1\nHost: a\nAccept: Application/OpenMetrics-Text;version=1.0.0,text/plain;q=0.5\n\n",
		      &request),
		200);
	assert_true(request.openmetrics);
	assert_false(request.head);
	assert_int_equal(parse("HEAD /metrics HTTP/1.1\nHost: a\nX-Accept: application/openmetrics-text\n\n",
			       &request),
			 200);
	assert_false(request.openmetrics);
	assert_true(request.head);
}

/* The end of a head is found wherever reads cut the head, and not before. */
static void
test_whole(void **state)
{
	static const char *const heads[] = {"a\r\n\r\n", "a\n\n", "a\r\n\n", "a\n\r\n"};
	static const char *const others[] = {"a\r\n", "a\n\r", "\r\r\r\r", "a\nb\n", "\n\rb\n", ""};

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		for (size_t seen = 0; seen < strlen(heads[i]); seen++) {
			assert_true(metrics_http_whole(heads[i], strlen(heads[i]), seen));
			assert_false(metrics_http_whole(heads[i], seen, 0));
		}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(metrics_http_whole(others[i], strlen(others[i]), 0));
}

/* Random bytes, and requests with random changes, cause no reads outside the head. */
static void
test_rubbish(void **state)
{
	static const char good[] =
		"GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: application/openmetrics-text\r\n\r\n";
	struct metrics_request request;
	uint32_t seed = 1;

	for (int i = 0; i < 20000; i++) {
		size_t len = sizeof(good) - 1;
		char *copy;

		seed = seed * 1103515245 + 12345;
		len -= (seed >> 8) % len;
		copy = malloc(len);
		assert_non_null(copy);
		memcpy(copy, good, len);
		for (uint32_t n = seed >> 28; n > 0; n--) {
			seed = seed * 1103515245 + 12345;
			copy[(seed >> 8) % len] = (char)(seed >> 20);
		}
		metrics_http_whole(copy, len, len / 2);
		metrics_http_parse(copy, len, &request);
		free(copy);
	}
}

static void
test_answers(void **state)
{
	static const unsigned int statuses[] = {400, 404, 405, 408, 431, 503, 505};
	struct metrics_request request = {.openmetrics = true};
	char head[METRICS_ANSWER_HEAD], line[64];

	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		size_t len = metrics_http_refuse(head, statuses[i]);
		const char *body = strstr(head, "\r\n\r\n");

		assert_true(len < sizeof(head));
		assert_non_null(body);
		snprintf(line, sizeof(line), "HTTP/1.1 %u ", statuses[i]);
		assert_memory_equal(head, line, strlen(line));
		snprintf(line, sizeof(line), "Content-Length: %zu\r\n", strlen(body + 4));
		assert_non_null(strstr(head, line));
	}
	assert_true(metrics_http_head(head, &request, SIZE_MAX) < sizeof(head));
	assert_non_null(strstr(head, "application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_openmetrics),  cmocka_unit_test(test_before_openmetrics),
		cmocka_unit_test(test_label_room),   cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_buckets),      cmocka_unit_test(test_histogram),
		cmocka_unit_test(test_all_counters), cmocka_unit_test(test_requests),
		cmocka_unit_test(test_asked_for),    cmocka_unit_test(test_whole),
		cmocka_unit_test(test_rubbish),      cmocka_unit_test(test_answers),
	};

	return cmocka_run_group_tests_name("metrics: text and requests", tests, NULL, NULL);
}
