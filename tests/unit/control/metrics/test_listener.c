/* SPDX-License-Identifier: BSD-3-Clause */
/* Metrics by HTTP from a control thread on a fake engine, and faulty requests. */
#include "attach.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "control/attach/client.h"
#include "control/daemon/daemon.h"
#include "control/metrics/render.h"

#define GET "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
#define MANY 40

static int
dial(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path, config.metrics.path, sizeof(address.sun_path));
	assert_true(fd >= 0);
	while (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		assert_int_equal(errno, EINTR);
	return fd;
}

static void
put(int fd, const char *bytes, size_t len)
{
	/* The listener may have refused the request already. */
	if (send(fd, bytes, len, MSG_NOSIGNAL) < 0)
		assert_true(errno == EPIPE || errno == ECONNRESET);
}

/* Returns the answer until the peer closes, "" if none. To be freed. */
static char *
take(int fd)
{
	size_t len = 0, room = 1 << 20;
	char *text = malloc(room);
	ssize_t n;

	assert_non_null(text);
	while ((n = recv(fd, text + len, room - 1 - len, 0)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	close(fd);
	return text;
}

static char *
ask(const char *request)
{
	int fd = dial();

	put(fd, request, strlen(request));
	return take(fd);
}

static void
assert_answer(const char *request, const char *first_line)
{
	char *text = ask(request);

	if (strncmp(text, first_line, strlen(first_line)) != 0)
		fail_msg("%.40s: %.60s", request, text);
	free(text);
}

/* Returns the value in the line that begins with `sample`. */
static uint64_t
value_of(const char *text, const char *sample)
{
	char line[128];
	const char *at;

	snprintf(line, sizeof(line), "\n%s", sample);
	at = strstr(text, line);
	if (at == NULL)
		fail_msg("there is no %s", sample);
	return strtoull(at + strlen(line), NULL, 10);
}

/* Objects of attachments and counters of the engine have metrics with labels. */
static void
test_scrape(void **state)
{
	struct app app;
	char *text, *program;
	uint32_t pz, cq;

	app_hello(&app, ONE_KIND_VERBS);
	pz = app_pz(&app);
	cq = app_cq(&app, 16);
	app_qp(&app, pz, cq);
	app_qp(&app, pz, cq);
	text = ask(GET);
	assert_int_equal(strncmp(text, "HTTP/1.1 200 OK\r\n", 17), 0);
	assert_int_equal(value_of(text, "oneside_objects{kind=\"queue_pair\"} "), 2);
	assert_int_equal(value_of(text, "oneside_resource_used{resource=\"attachments\"} "), 1);
	assert_int_equal(value_of(text, "oneside_resource_used{resource=\"queue_pairs\"} "), 2);
	assert_true(value_of(text, "oneside_request_seconds_count{request=\"qp_create\"} ") >= 2);
	program = strstr(text, "\noneside_client_queue_pairs{");
	assert_non_null(program);
	assert_non_null(strstr(program, "api=\"verbs\",port=\"p0\"} 2\n"));
	assert_int_equal(value_of(text, "oneside_port_tx_packets_total{port=\"p0\"} "), 12);
	assert_int_equal(value_of(text, "oneside_core_loops_total{core=\"1\"} "), 0);
	/* Drops that would reveal which QPNs exist are summed. The fake's counters are their indices. */
	assert_int_equal(value_of(text, "oneside_drops_total{core=\"1\",reason=\"no_queue_pair\"} "),
			 (offsetof(struct engine_stats, drop_no_qp) +
			  offsetof(struct engine_stats, ud_drop[ENGINE_UD_OPCODE]) +
			  offsetof(struct engine_stats, ud_drop[ENGINE_UD_ADDRESS]) +
			  offsetof(struct engine_stats, ud_drop[ENGINE_UD_QKEY]) +
			  offsetof(struct engine_stats, rc[RC_COUNT_DROP_STATE]) +
			  offsetof(struct engine_stats, rc[RC_COUNT_DROP_ADDRESS]) +
			  offsetof(struct engine_stats, rc[RC_COUNT_DROP_OPCODE]) +
			  offsetof(struct engine_stats, rc[RC_COUNT_DROP_RESPONSE]) +
			  offsetof(struct engine_stats, rc[RC_COUNT_DROP_REPLAY])) /
				 8);
	assert_null(strstr(text, "drop_response"));
	assert_null(strstr(text, "drop_address"));
	assert_null(strstr(text, "datagram_qkey"));
	free(text);
	app_close(&app);
	assert_clean();
}

/* A text is cached for a short time; a later one has the new values. */
static void
test_fresh(void **state)
{
	struct app app;
	char *text;
	uint64_t before;

	text = ask(GET);
	before = value_of(text, "oneside_attached_total ");
	free(text);
	app_hello(&app, ONE_KIND_DAT);
	for (;;) {
		uint64_t after;

		text = ask(GET);
		after = value_of(text, "oneside_attached_total ");
		free(text);
		if (after == before + 1)
			break;
		assert_int_equal(after, before);
		pause_ms(10);
	}
	app_close(&app);
	assert_clean();
}

static void
test_refusals(void **state)
{
	char *large = malloc(1 << 16);
	int fd;

	assert_answer("HEAD /metrics HTTP/1.0\r\n\r\n", "HTTP/1.1 200 ");
	assert_answer("GET /metrics?x=y HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 ");
	assert_answer("GET /secrets HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 404 ");
	assert_answer("GET /metricsx HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 404 ");
	assert_answer("DELETE /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 405 ");
	assert_answer("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 405 ");
	assert_answer("GET /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 400 "); /* no Host */
	assert_answer("GET /metrics HTTP/2.0\r\nHost: a\r\n\r\n", "HTTP/1.1 505 ");
	assert_non_null(large);
	memset(large, 'x', (1 << 16) - 1);
	large[(1 << 16) - 1] = '\0';
	assert_answer(large, "HTTP/1.1 414 ");
	free(large);
	large = ask(
		"HEAD /metrics HTTP/1.1\r\nHost: a\r\nAccept: Application/OpenMetrics-Text;q=0.5\r\n\r\n");
	assert_non_null(strstr(large, "application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"));
	assert_null(strstr(large, "oneside_"));
	free(large);
	/* The request arrives byte by byte. */
	fd = dial();
	for (const char *c = GET; *c != '\0'; c++)
		put(fd, c, 1);
	large = take(fd);
	assert_int_equal(strncmp(large, "HTTP/1.1 200 ", 13), 0);
	free(large);
	assert_clean();
}

/* Callers that stay silent, do not read, or leave at once, do not block others for long. */
static void
test_crowd(void **state)
{
	int fd[MANY];

	for (int i = 0; i < MANY; i++) {
		fd[i] = dial();
		if (i % 3 == 1)
			put(fd[i], GET, strlen(GET));
		else if (i % 3 == 2)
			put(fd[i], "GET ", 4);
		if (i % 5 == 0) {
			close(fd[i]);
			fd[i] = -1;
		}
	}
	assert_answer(GET, "HTTP/1.1 200 ");
	for (int i = 0; i < MANY; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	assert_answer(GET, "HTTP/1.1 200 ");
	assert_clean();
}

#define OTHERS 2u

/* Attachments beyond the labelled ones are summed, and stay in the sum after their end. */
static void
test_others(void **state)
{
	uint32_t per_uid = config.max_clients_per_uid;
	uint64_t bytes = config.max_bytes_per_uid, others;
	struct app app[CLIENT_LABELS + OTHERS];
	char *text;

	config.max_clients_per_uid = CLIENT_LABELS + OTHERS;
	config.max_bytes_per_uid = 1ull << 40;
	attach_restart();
	text = ask(GET);
	others = value_of(text, "oneside_client_requests_total{client=\"others\"} ");
	free(text);
	for (uint32_t i = 0; i < CLIENT_LABELS + OTHERS; i++) {
		app_hello(&app[i], ONE_KIND_DAT);
		app_pz(&app[i]);
	}
	pause_ms(200); /* longer than a text is cached */
	text = ask(GET);
	assert_int_equal(value_of(text, "oneside_client_requests_total{client=\"others\"} "),
			 others + 2 * OTHERS);
	assert_int_equal(value_of(text, "oneside_resource_used{resource=\"attachments\"} "),
			 CLIENT_LABELS + OTHERS);
	assert_int_equal(value_of(text, "oneside_objects{kind=\"protection_zone\"} "),
			 CLIENT_LABELS + OTHERS);
	free(text);
	for (uint32_t i = 0; i < CLIENT_LABELS + OTHERS; i++)
		app_close(&app[i]);
	assert_clean();
	pause_ms(200);
	text = ask(GET);
	assert_int_equal(value_of(text, "oneside_client_requests_total{client=\"others\"} "),
			 others + 2 * OTHERS);
	assert_null(strstr(text, "oneside_client_queue_pairs{client=\"0"));
	free(text);
	config.max_clients_per_uid = per_uid;
	config.max_bytes_per_uid = bytes;
	attach_restart();
}

/* Each request with a handler has a name. */
static void
test_request_names(void **state)
{
	for (uint32_t type = 0; type < ONE_MSG_MAX; type++)
		if ((calls_of_attach.request[type].handler != NULL) !=
		    (calls_of_attach.request[type].name != NULL))
			fail_msg("request %u has no name, or a name for nothing", type);
}

static void
test_mode(void **state)
{
	struct stat st;

	assert_int_equal(lstat(config.metrics.path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0660);
}

int
metrics_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scrape),   cmocka_unit_test(test_fresh),
		cmocka_unit_test(test_refusals), cmocka_unit_test(test_crowd),
		cmocka_unit_test(test_others),   cmocka_unit_test(test_request_names),
		cmocka_unit_test(test_mode),
	};

	return cmocka_run_group_tests_name("control: metrics", tests, NULL, NULL);
}
