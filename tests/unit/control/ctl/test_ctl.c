/* SPDX-License-Identifier: BSD-3-Clause */
/* The control socket of a whole control thread: its answers, and hostile callers. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <jansson.h>
#include <rte_log.h>

#include "attach.h"
#include "config/ctl_path.h"
#include "control/ctl/internal.h"

#define ROOM 70000u

static int
dial(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_true(ctl_path_beside(app_socket, address.sun_path, sizeof(address.sun_path)));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		fail_msg("%s: %s", address.sun_path, strerror(errno));
	return fd;
}

/* Returns NULL if the connection has ended. */
static json_t *
hear(int fd)
{
	static char text[ROOM];
	ssize_t n = recv(fd, text, sizeof(text), 0);
	json_t *answer = n > 0 ? json_loadb(text, (size_t)n, 0, NULL) : NULL;

	assert_true(n <= 0 || json_is_object(answer));
	return answer;
}

static json_t *
ask(int fd, const char *request)
{
	json_t *answer;

	assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
	answer = hear(fd);
	assert_non_null(answer);
	return answer;
}

static void
assert_refused(int fd, const char *request, const char *reason)
{
	json_t *answer = ask(fd, request);
	const char *error = json_string_value(json_object_get(answer, "error"));

	if (error == NULL || strstr(error, reason) == NULL)
		fail_msg("%s: \"%s\" is not \"%s\"", request, error != NULL ? error : "no error", reason);
	json_decref(answer);
}

/* Connects as a user that has only this group. Changes this thread only: the data plane's threads
 * stay root. */
static int
dial_as_member(gid_t gid)
{
	int fd;

	assert_int_equal(syscall(SYS_setresgid, -1, gid, -1), 0);
	assert_int_equal(syscall(SYS_setresuid, -1, 65534, -1), 0);
	fd = dial();
	assert_int_equal(syscall(SYS_setresuid, -1, 0, -1), 0);
	assert_int_equal(syscall(SYS_setresgid, -1, 0, -1), 0);
	return fd;
}

/* Checks that a request is answered with facts of this data plane. */
static void
assert_serves(void)
{
	int fd = dial();
	json_t *answer = ask(fd, "{\"command\": \"show\", \"what\": \"version\"}");
	json_t *facts = json_array_get(json_object_get(answer, "version"), 0);

	assert_int_equal(json_integer_value(json_object_get(facts, "pid")), getpid());
	assert_string_equal(json_string_value(json_object_get(facts, "socket")), app_socket);
	json_decref(answer);
	close(fd);
}

/* Appends all pages of a list to `all`; returns their number. */
static uint32_t
list(int fd, const char *what, const char *filters, json_t *all)
{
	json_int_t from = 0;
	uint32_t pages = 0;

	for (;;) {
		char request[256];
		json_t *answer, *next;

		snprintf(request, sizeof(request),
			 "{\"command\": \"show\", \"what\": \"%s\", \"from\": %" JSON_INTEGER_FORMAT "%s}",
			 what, from, filters);
		answer = ask(fd, request);
		assert_true(json_is_array(json_object_get(answer, what)));
		assert_in_range(json_array_size(json_object_get(answer, what)), 0, 32);
		json_array_extend(all, json_object_get(answer, what));
		next = json_object_get(answer, "next");
		pages++;
		if (next == NULL) {
			json_decref(answer);
			return pages;
		}
		assert_true(json_integer_value(next) > from);
		from = json_integer_value(next);
		json_decref(answer);
	}
}

static uint32_t
count(int fd, const char *what, const char *filters)
{
	json_t *all = json_array();
	uint32_t n;

	list(fd, what, filters, all);
	n = (uint32_t)json_array_size(all);
	json_decref(all);
	return n;
}

static void
test_lists(void **state)
{
	static const char *const whats[] = {"clients", "endpoints", "connections", "listeners",  "segments",
					    "memory",  "ports",     "peers",       "neighbours", "cores",
					    "drops",   "transport", "quota",       "version"};
	struct app app, other;
	uint32_t pz, cq;
	json_t *all = json_array(), *qpns = json_object(), *one;
	char filter[64];
	size_t i;
	int fd = dial();

	app_hello(&app, ONE_KIND_DAT);
	app_hello(&other, ONE_KIND_RSM);
	pz = app_pz(&app);
	cq = app_cq(&app, 10);
	for (i = 0; i < 100; i++)
		app_qp(&app, pz, cq);
	app_qp(&other, app_pz(&other), app_cq(&other, 10));
	assert_true(list(fd, "endpoints", "", all) >= 4);
	json_array_foreach(all, i, one) {
		assert_int_equal(json_integer_value(json_object_get(one, "pid")), getpid());
		json_object_set(qpns, json_string_value(json_object_get(one, "qpn")), one);
	}
	assert_int_equal(json_array_size(all), 101);
	assert_int_equal(json_object_size(qpns), 101);
	assert_int_equal(count(fd, "clients", ""), 2);
	snprintf(filter, sizeof(filter), ", \"pid\": %d, \"uid\": %u", (int)getpid(),
		 (unsigned int)geteuid());
	assert_int_equal(count(fd, "endpoints", filter), 101);
	assert_int_equal(count(fd, "endpoints", ", \"pid\": 1"), 0);
	assert_int_equal(count(fd, "endpoints", ", \"uid\": 12345"), 0);
	assert_int_equal(count(fd, "endpoints", ", \"peer\": \"192.0.2.2\""), 0);
	assert_int_equal(count(fd, "ports", ", \"port\": \"p0\""), 1);
	for (i = 0; i < sizeof(whats) / sizeof(whats[0]); i++) {
		char request[128];

		count(fd, whats[i], "");
		/* A list from an index beyond its end is empty. */
		snprintf(request, sizeof(request),
			 "{\"command\": \"show\", \"what\": \"%s\", \"from\": 9007199254740991}", whats[i]);
		one = ask(fd, request);
		assert_null(json_object_get(one, "next"));
		if (strcmp(whats[i], "version") != 0)
			assert_int_equal(json_array_size(json_object_get(one, whats[i])), 0);
		json_decref(one);
	}
	assert_refused(fd, "{\"command\": \"show\", \"what\": \"ports\", \"port\": \"p9\"}", "no such port");
	assert_refused(fd, "{\"command\": \"show\", \"what\": \"endpoints\", \"peer\": \"here\"}",
		       "not an address");
	json_decref(all);
	json_decref(qpns);
	app_close(&app);
	app_close(&other);
	close(fd);
	assert_clean();
	forget_events();
}

/* Checks that quotes in a refused request cannot add fields to its line in the log. */
static void
assert_logs_one_text(int fd, const char *request, const char *reason)
{
	char line[2048], *text = NULL;
	FILE *log = tmpfile();

	assert_non_null(log);
	rte_openlog_stream(log);
	assert_refused(fd, request, reason);
	rte_openlog_stream(NULL);
	rewind(log);
	while (text == NULL && fgets(line, sizeof(line), log) != NULL)
		if (strstr(line, "event=change_refused") != NULL)
			text = strstr(line, " text=\"");
	fclose(log);
	assert_non_null(text);
	assert_string_equal(strchr(text + strlen(" text=\""), '"'), "\"\n");
}

static void
test_changes(void **state)
{
	struct app app;
	char request[128];
	int fd = dial();
	json_t *answer;

	/* The arguments of this data plane name no port, so that a reload must fail. */
	assert_refused(fd, "{\"command\": \"reload\"}", "there is no port");
	assert_int_equal(config.num_ports, 1);
	assert_refused(fd, "{\"command\": \"peer-remove\", \"node\": 40}", "no such peer");
	assert_refused(fd, "{\"command\": \"peer-add\", \"node\": 2, \"address\": \"192.0.2.9\"}",
		       "remove it first");
	assert_refused(fd, "{\"command\": \"peer-add\", \"node\": 9, \"address\": \"10.9.9.9\"}",
		       "no port reaches");
	/* Characters of a caller reach neither a terminal nor the log unescaped. */
	assert_refused(fd, "{\"command\": \"peer-add\", \"node\": 9, \"address\": \"\\u001b[2J\\u00e4\"}",
		       "?[2J??");
	assert_logs_one_text(
		fd,
		"{\"command\": \"peer-add\", \"node\": 9, \"address\": \"x\\\" event=command pid=1 text=\\\"\"}",
		"x\" event=command");
	assert_int_equal(config.num_peers, 1);
	json_decref(ask(fd, "{\"command\": \"peer-add\", \"node\": 9, \"address\": \"192.0.2.9\"}"));
	assert_int_equal(count(fd, "peers", ""), 2);
	answer = ask(fd, "{\"command\": \"peer-remove\", \"node\": 9}");
	assert_string_equal(json_string_value(json_object_get(answer, "done")), "changed: peers");
	json_decref(answer);
	assert_int_equal(count(fd, "peers", ""), 1);
	assert_refused(fd, "{\"command\": \"log-level\", \"level\": \"loud\"}", "no such level");
	assert_refused(fd, "{\"command\": \"client-kill\", \"pid\": 1}", "no such attachment");
	assert_refused(fd, "{\"command\": \"move\", \"qp\": 77, \"core\": 4711}", "no such polling core");
	snprintf(request, sizeof(request), "{\"command\": \"move\", \"qp\": 77, \"core\": %u}",
		 engine_core_lcore(0));
	assert_refused(fd, request, "no such queue pair");
	app_hello(&app, ONE_KIND_DAT);
	snprintf(request, sizeof(request), "{\"command\": \"client-kill\", \"pid\": %d}", (int)getpid());
	answer = ask(fd, request);
	assert_string_equal(json_string_value(json_object_get(answer, "done")), "1 attachment is ended");
	json_decref(answer);
	assert_ended(&app);
	app_close(&app);
	close(fd);
	assert_clean();
}

static int gate[2];

static void
wait_at_gate(const struct config *next)
{
	char byte;

	(void)next;
	while (read(gate[0], &byte, 1) < 0 && errno == EINTR)
		;
}

static void
open_gate(void)
{
	assert_int_equal(write(gate[1], "", 1), 1);
}

/* While a change is in progress, other changes are refused and all else is served, even if the caller has
 * gone. */
static void
test_one_change_at_a_time(void **state)
{
	const char reload[] = "{\"command\": \"reload\"}", busy[] = "another change is being made";
	int first = dial(), second = dial();
	json_t *answer;
	bool ended = false;

	assert_int_equal(pipe(gate), 0);
	ctl_source.examine = wait_at_gate;
	for (int gone = 0; gone < 2; gone++) {
		assert_int_equal(send(first, reload, strlen(reload), MSG_NOSIGNAL), (ssize_t)strlen(reload));
		/* The second request is read after the first, whose answer waits at the gate. */
		assert_serves();
		assert_refused(second, reload, busy);
		assert_refused(second, "{\"command\": \"peer-remove\", \"node\": 2}", busy);
		assert_serves();
		if (gone)
			close(first);
		open_gate();
		if (gone)
			continue;
		answer = hear(first);
		assert_non_null(strstr(json_string_value(json_object_get(answer, "error")), "no port"));
		json_decref(answer);
	}
	while (!ended) {
		answer = ask(second, "{\"command\": \"peer-remove\", \"node\": 40}");
		ended = strstr(json_string_value(json_object_get(answer, "error")), busy) == NULL;
		json_decref(answer);
	}
	ctl_source.examine = NULL;
	close(second);
	close(gate[0]);
	close(gate[1]);
	assert_clean();
}

/* A changed share reaches the cores while its user is attached. */
static void
test_share(void **state)
{
	const uint64_t bytes = config.max_bytes_per_uid;
	struct app app;
	json_t *answer, *quota;
	char why[256];
	int fd = dial();

	app_hello(&app, ONE_KIND_DAT);
	assert_int_equal(fake_share().weight, 1);
	assert_int_equal(fake_share().max_ops, 0);
	/* Each change puts the whole configuration in force. */
	assert_int_equal(config_set(&config, "user 0", "weight", "7", why, sizeof(why)), 0);
	assert_int_equal(config_set(&config, "user 0", "max_ops", "12345", why, sizeof(why)), 0);
	config.user[0].uid = geteuid();
	config.max_bytes_per_uid = UINT64_MAX;
	json_decref(ask(fd, "{\"command\": \"peer-add\", \"node\": 9, \"address\": \"192.0.2.9\"}"));
	assert_int_equal(fake_share().weight, 7);
	assert_int_equal(fake_share().max_ops, 12345);
	config.max_bytes_per_uid = bytes;
	answer = ask(fd, "{\"command\": \"show\", \"what\": \"quota\"}");
	quota = json_array_get(json_object_get(answer, "quota"), 0);
	assert_int_equal(json_integer_value(json_object_get(quota, "bytes_max")), INT64_MAX);
	json_decref(answer);
	config.num_users = 0;
	json_decref(ask(fd, "{\"command\": \"peer-remove\", \"node\": 9}"));
	assert_int_equal(fake_share().weight, 1);
	assert_int_equal(fake_share().max_ops, 0);
	app_close(&app);
	close(fd);
	assert_clean();
	forget_events();
}

/* ---- hostile callers ---- */

static void
test_rubbish(void **state)
{
	char text[CTL_REQUEST_MAX * 2];
	int fd = dial();

	memset(text, '[', sizeof(text));
	assert_int_equal(send(fd, text, sizeof(text), 0), (ssize_t)sizeof(text));
	json_decref(hear(fd));
	assert_refused(fd, "\n", "has to be JSON");
	assert_refused(fd, "{\"command\": \"stop\"}", "no such command");
	/* The connection is still served. */
	assert_int_equal(count(fd, "cores", ""), 1);
	close(fd);
	assert_serves();
}

/* Descriptors are closed, and end the connection. */
static void
test_descriptors(void **state)
{
	const char request[] = "{\"command\": \"show\", \"what\": \"cores\"}";
	union {
		char bytes[CMSG_SPACE(sizeof(int) * 100)];
		struct cmsghdr align;
	} ancillary = {.bytes = {0}};
	struct iovec iov = {(void *)(uintptr_t)request, sizeof(request) - 1};
	struct msghdr header = {.msg_iov = &iov,
				.msg_iovlen = 1,
				.msg_control = &ancillary,
				.msg_controllen = sizeof(ancillary.bytes)};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&header);
	int fd = dial(), fds[100];

	for (int i = 0; i < 100; i++)
		fds[i] = STDOUT_FILENO;
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(cmsg), fds, sizeof(fds));
	assert_int_equal(sendmsg(fd, &header, 0), (ssize_t)iov.iov_len);
	assert_null(hear(fd));
	close(fd);
	assert_clean();
	assert_serves();
}

/* From a caller that reads no answers, no more requests are read; others are served. */
static void
test_deaf(void **state)
{
	const char request[] = "{\"command\": \"show\", \"what\": \"ports\"}";
	struct app app;
	int fd = dial();
	uint32_t sent = 0;

	fcntl(fd, F_SETFL, O_NONBLOCK);
	for (int idle = 0; idle < 200;) {
		if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) > 0) {
			sent++;
			idle = 0;
		} else {
			assert_int_equal(errno, EAGAIN);
			pause_ms(1);
			idle++;
		}
		assert_in_range(sent, 0, 100000);
	}
	assert_serves();
	app_hello(&app, ONE_KIND_DAT);
	app_close(&app);
	close(fd);
	assert_clean();
}

/* Connections over the limit are refused with a reason; once connections have ended, others are served. */
static void
test_crowd(void **state)
{
	int fd[1000];
	uint32_t turned_away = 0;

	for (int i = 0; i < 1000; i++) {
		fd[i] = dial();
		fcntl(fd[i], F_SETFL, O_NONBLOCK);
	}
	/* After the answer to the last connection all have been answered. */
	fcntl(fd[999], F_SETFL, 0);
	json_decref(hear(fd[999]));
	for (int i = 0; i < 999; i++) {
		json_t *answer = hear(fd[i]);

		if (answer == NULL)
			continue;
		assert_non_null(
			strstr(json_string_value(json_object_get(answer, "error")), "all connections"));
		json_decref(answer);
		turned_away++;
	}
	assert_int_equal(turned_away, 1000 - 32 - 1);
	for (int i = 0; i < 1000; i++)
		close(fd[i]);
	assert_clean();
	assert_serves();
}

/* A caller that loses its group loses its rights, though it is connected. */
static void
test_group_taken_away(void **state)
{
	const char show[] = "{\"command\": \"show\", \"what\": \"version\"}";
	const char change[] = "{\"command\": \"log-level\", \"level\": \"loud\"}";
	enum { READERS = 4711, ADMINS };
	char folder[256];
	int root, reader, admin;

	if (geteuid() != 0)
		skip();
	snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(app_socket, '/') - app_socket), app_socket);
	assert_int_equal(chmod(folder, 0711), 0);
	config.ctl_group = READERS;
	config.ctl_admin_group = ADMINS;
	attach_restart();
	root = dial();
	reader = dial_as_member(READERS);
	admin = dial_as_member(ADMINS);
	json_decref(ask(reader, show));
	assert_refused(reader, change, "may only show");
	assert_refused(admin, change, "no such level");
	/* The groups change as by a reload; the next change of a peer puts them in force. */
	config.ctl_group = ADMINS;
	config.ctl_admin_group = CONFIG_NO_GROUP;
	json_decref(ask(root, "{\"command\": \"peer-add\", \"node\": 9, \"address\": \"192.0.2.9\"}"));
	assert_null(hear(reader));
	assert_refused(admin, change, "may only show");
	json_decref(ask(admin, show));
	json_decref(ask(root, "{\"command\": \"peer-remove\", \"node\": 9}"));
	json_decref(ask(root, show));
	close(reader);
	close(admin);
	close(root);
	config.ctl_group = CONFIG_NO_GROUP;
	attach_restart();
	assert_clean();
}

/* ---- metrics ---- */

static json_t *
metrics_page(int fd, const char *format, json_int_t from)
{
	char request[128];
	json_t *page;

	snprintf(request, sizeof(request),
		 "{\"command\": \"metrics\", \"format\": \"%s\", \"from\": %" JSON_INTEGER_FORMAT "}", format,
		 from);
	page = ask(fd, request);
	assert_true(json_is_string(json_object_get(page, "metrics")));
	return page;
}

/* Appends the rest of the text after `page`, and frees `page`; returns the number of pages. */
static uint32_t
metrics_rest(int fd, const char *format, json_t *page, char *text, size_t room)
{
	const json_t *part, *next;
	uint32_t pages = 0;
	size_t len = 0;

	for (;; page = metrics_page(fd, format, (json_int_t)len)) {
		part = json_object_get(page, "metrics");
		next = json_object_get(page, "next");
		assert_true(len + json_string_length(part) < room);
		memcpy(text + len, json_string_value(part), json_string_length(part));
		len += json_string_length(part);
		text[len] = '\0';
		pages++;
		if (next == NULL)
			break;
		assert_int_equal(json_integer_value(next), len);
		json_decref(page);
	}
	json_decref(page);
	return pages;
}

static bool
ends_with(const char *text, const char *tail)
{
	return strlen(text) >= strlen(tail) && strcmp(text + strlen(text) - strlen(tail), tail) == 0;
}

/* A text is complete and of one moment, whoever else asks, stops reading or disconnects meanwhile. */
static void
test_metrics(void **state)
{
	static char text[1 << 20], other[1 << 20];
	enum { APPS = 60, HOLDERS = 20 };
	static struct app app[APPS];
	uint32_t per_uid = config.max_clients_per_uid;
	uint64_t bytes = config.max_bytes_per_uid;
	int fd, second, holder[HOLDERS];
	json_t *page;

	config.max_clients_per_uid = APPS;
	config.max_bytes_per_uid = 1ull << 40;
	attach_restart();
	fd = dial();
	second = dial();
	for (int i = 0; i < APPS; i++)
		app_hello(&app[i], ONE_KIND_DAT);
	for (int i = 0; i < HOLDERS; i++) {
		holder[i] = dial();
		json_decref(metrics_page(holder[i], i % 2 == 0 ? "openmetrics" : "prometheus", 0));
	}
	page = metrics_page(fd, "openmetrics", 0);
	pause_ms(150); /* later requests of others get a new text */
	app_close(&app[0]);
	while (count(second, "clients", "") != APPS - 1)
		pause_ms(1);
	assert_true(metrics_rest(second, "openmetrics", metrics_page(second, "openmetrics", 0), other,
				 sizeof(other)) >= 2);
	assert_true(metrics_rest(fd, "openmetrics", page, text, sizeof(text)) >= 2);
	assert_non_null(strstr(text, "\noneside_resource_used{resource=\"attachments\"} 60\n"));
	assert_non_null(strstr(other, "\noneside_resource_used{resource=\"attachments\"} 59\n"));
	assert_true(ends_with(text, "\n# EOF\n"));
	assert_true(ends_with(other, "\n# EOF\n"));
	metrics_rest(fd, "prometheus", metrics_page(fd, "prometheus", 0), text, sizeof(text));
	assert_null(strstr(text, "# EOF"));
	assert_non_null(strstr(text, "# TYPE oneside_attached_total counter\n"));
	/* A text is freed once read to its end. */
	assert_refused(fd, "{\"command\": \"metrics\", \"from\": 100}", "ask from its beginning");
	assert_refused(holder[0], "{\"command\": \"metrics\", \"from\": 9007199254740991}",
		       "ask from its beginning");
	assert_refused(holder[0], "{\"command\": \"metrics\", \"from\": 30000}", "ask from its beginning");
	/* Any other request of the connection frees its text. */
	json_decref(metrics_page(fd, "prometheus", 0));
	count(fd, "cores", "");
	assert_refused(fd, "{\"command\": \"metrics\", \"from\": 30000}", "ask from its beginning");
	assert_refused(fd, "{\"command\": \"metrics\", \"format\": \"xml\"}", "no such format");
	for (int i = 1; i < APPS; i++)
		app_close(&app[i]);
	for (int i = 0; i < HOLDERS; i++)
		close(holder[i]);
	close(second);
	close(fd);
	assert_clean();
	config.max_clients_per_uid = per_uid;
	config.max_bytes_per_uid = bytes;
	attach_restart();
	assert_serves();
	forget_events();
}

int
ctl_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_changes),
		cmocka_unit_test(test_one_change_at_a_time),
		cmocka_unit_test(test_share),
		cmocka_unit_test(test_rubbish),
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_deaf),
		cmocka_unit_test(test_crowd),
		cmocka_unit_test(test_group_taken_away),
		cmocka_unit_test(test_metrics),
	};

	return cmocka_run_group_tests_name("control: its own socket", tests, NULL, NULL);
}
