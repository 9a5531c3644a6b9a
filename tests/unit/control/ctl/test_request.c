/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of the control socket: which are understood, and how all others are refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "control/ctl/request.h"

static struct ctl_request request;
static char why[512];

static int
parse(const char *text)
{
	memset(why, 0, sizeof(why));
	return ctl_parse(text, strlen(text), &request, why, sizeof(why));
}

static void
refused(const char *text, const char *reason)
{
	assert_int_not_equal(parse(text), 0);
	if (strstr(why, reason) == NULL)
		fail_msg("%s: \"%s\" is not \"%s\"", text, why, reason);
	assert_true(strlen(why) < sizeof(why) - 1);
}

static void
test_show(void **state)
{
	assert_int_equal(
		parse("{\"command\": \"show\", \"what\": \"endpoints\", \"pid\": 4294967295, \"uid\": 0, \"port\": \"p0\", \"peer\": \"2001:db8::1\", \"from\": 9007199254740991}"),
		0);
	assert_int_equal(request.command, CTL_SHOW);
	assert_int_equal(request.what, CTL_ENDPOINTS);
	assert_int_equal(request.given, CTL_M_PID | CTL_M_UID | CTL_M_PORT | CTL_M_PEER | CTL_M_FROM);
	assert_int_equal(request.pid, UINT32_MAX);
	assert_int_equal(request.uid, 0);
	assert_string_equal(request.port, "p0");
	assert_string_equal(request.peer, "2001:db8::1");
	assert_true(request.from == (1ull << 53) - 1);
	for (int what = 0; what < CTL_WHATS; what++) {
		char text[128];

		snprintf(text, sizeof(text), "{\"what\":\"%s\",\"command\":\"show\"}", ctl_whats[what].name);
		assert_int_equal(parse(text), 0);
		assert_int_equal(request.what, what);
		assert_int_equal(request.given, 0);
	}
}

static void
test_changes(void **state)
{
	assert_int_equal(parse("{\"command\": \"peer-add\", \"node\": 7, \"address\": \"192.0.2.7\"}"), 0);
	assert_int_equal(request.command, CTL_PEER_ADD);
	assert_int_equal(request.node, 7);
	assert_string_equal(request.address, "192.0.2.7");
	assert_int_equal(parse("{\"command\": \"client-kill\", \"client\": 3}"), 0);
	assert_int_equal(request.given, CTL_M_CLIENT);
	assert_int_equal(parse("{\"command\": \"reload\", \"check\": true}"), 0);
	assert_true(request.check);
	assert_int_equal(parse("{\"command\": \"reload\"}"), 0);
	assert_false(request.check);
	assert_int_equal(parse("{\"command\": \"log-level\", \"level\": \"debug\"}"), 0);
	assert_int_equal(parse("{\"command\": \"move\", \"qp\": 77, \"core\": 3}"), 0);
	assert_int_equal(request.qp, 77);
	assert_int_equal(request.core, 3);
	assert_int_equal(parse("{\"command\": \"upgrade\"}"), 0);
	assert_int_equal(request.given, 0);
	assert_int_equal(
		parse("{\"command\": \"upgrade\", \"reload\": true, \"binary\": \"/usr/local/lib/oneside/versions/0.2.1-of-a-long-name/bin/oneside-dataplane\"}"),
		0);
	assert_true(request.reload);
	assert_string_equal(request.binary,
			    "/usr/local/lib/oneside/versions/0.2.1-of-a-long-name/bin/oneside-dataplane");
	assert_int_equal(parse("{\"command\": \"trace\"}"), 0);
	assert_int_equal(ctl_commands[CTL_SHOW].needs, CTL_LOOK);
	assert_int_equal(ctl_commands[CTL_TRACE].needs, CTL_LOOK);
	for (int command = CTL_RELOAD; command < CTL_COMMANDS; command++)
		assert_int_equal(ctl_commands[command].needs, CTL_CHANGE);
}

static void
test_refusals(void **state)
{
	static const struct {
		const char *text, *reason;
	} wrong[] = {
		{"", "has to be JSON"},
		{"{", "has to be JSON"},
		{"show clients", "has to be JSON"},
		{"{\"command\": \"show\", \"what\": \"cores\"} {}", "has to be JSON"},
		{"{\"command\": \"drain\", \"command\": \"show\"}", "duplicate"},
		{"{\"command\": \"sh\\u0000ow\"}", "has to be JSON"},
		{"{\"command\": \"\xff\"}", "has to be JSON"},
		{"[]", "one JSON object"},
		{"7", "has to be JSON"},
		{"{}", "no such command"},
		{"{\"command\": 7}", "no such command"},
		{"{\"command\": \"shutdown\"}", "write one of show, trace, metrics, reload"},
		{"{\"command\": \"show\"}", "write one of clients, endpoints"},
		{"{\"command\": \"show\", \"what\": [\"clients\"]}", "no such list"},
		{"{\"command\": \"show\", \"what\": \"passwords\"}", "\"passwords\""},
		{"{\"command\": \"show\", \"what\": \"clients\", \"peer\": \"192.0.2.1\"}", "unknown word"},
		{"{\"command\": \"show\", \"what\": \"cores\", \"pid\": 1}", "unknown word"},
		{"{\"command\": \"show\", \"what\": \"clients\", \"user\": \"root\"}", "user: "},
		{"{\"command\": \"show\", \"what\": \"clients\", \"pid\": \"1\"}", "pid: "},
		{"{\"command\": \"show\", \"what\": \"clients\", \"pid\": -1}", "pid: "},
		{"{\"command\": \"show\", \"what\": \"clients\", \"pid\": 1.5}", "pid: "},
		{"{\"command\": \"show\", \"what\": \"clients\", \"pid\": 4294967296}", "0 to 4294967295"},
		{"{\"command\": \"show\", \"what\": \"clients\", \"pid\": 99999999999999999999}",
		 "has to be JSON"},
		{"{\"command\": \"show\", \"what\": \"clients\", \"from\": 9007199254740992}", "from: "},
		{"{\"command\": \"show\", \"what\": \"clients\", \"port\": \"\"}", "port: "},
		{"{\"command\": \"show\", \"what\": \"clients\", \"port\": \"0123456789012345678901234567890123456789012345678901234567890123\"}",
		 "1 to 63 bytes"},
		{"{\"command\": \"reload\", \"check\": 1}", "true or false"},
		{"{\"command\": \"peer-add\", \"node\": 7}", "address is missing"},
		{"{\"command\": \"peer-add\", \"address\": \"192.0.2.7\"}", "node is missing"},
		{"{\"command\": \"peer-remove\"}", "node is missing"},
		{"{\"command\": \"client-kill\"}", "no attachment is named"},
		{"{\"command\": \"client-kill\", \"pid\": 0}", "give client=NUMBER"},
		{"{\"command\": \"client-kill\", \"pid\": 1, \"client\": 1}", "one of pid, client and qp"},
		{"{\"command\": \"trace\", \"qp\": 1, \"client\": 1}", "one of pid, client and qp"},
		{"{\"command\": \"drain\", \"uid\": 0}", "uid: "},
		{"{\"command\": \"log-level\"}", "level is missing"},
		{"{\"command\": \"move\", \"qp\": 77}", "core is missing"},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		refused(wrong[i].text, wrong[i].reason);
}

/* Reasons are printed to terminals, so that they have printable characters only. */
static void
test_printable(void **state)
{
	assert_int_not_equal(parse("{\"command\": \"\\u001b[2J\\u00e4\"}"), 0);
	for (const char *c = why; *c != '\0'; c++)
		assert_in_range((unsigned char)*c, ' ', '~');
}

static void
test_long_and_deep(void **state)
{
	char text[CTL_REQUEST_MAX + 2];

	memset(text, ' ', sizeof(text));
	memcpy(text, "{\"command\": \"drain\"}", 20);
	assert_int_equal(ctl_parse(text, CTL_REQUEST_MAX, &request, why, sizeof(why)), 0);
	assert_int_not_equal(ctl_parse(text, CTL_REQUEST_MAX + 1, &request, why, sizeof(why)), 0);
	assert_non_null(strstr(why, "too long"));
	memset(text, '[', CTL_REQUEST_MAX);
	assert_int_not_equal(ctl_parse(text, CTL_REQUEST_MAX, &request, why, sizeof(why)), 0);
	memset(text + 2000, ']', 2000);
	assert_int_not_equal(ctl_parse(text, 4000, &request, why, sizeof(why)), 0);
	for (size_t i = 0; i + 5 <= CTL_REQUEST_MAX; i += 5)
		memcpy(text + i, "{\"a\":", 5);
	assert_int_not_equal(ctl_parse(text, CTL_REQUEST_MAX, &request, why, sizeof(why)), 0);
}

/* Each request with random bytes is understood, or refused with a reason. */
static void
test_mutations(void **state)
{
	static const char *const seeds[] = {
		"{\"command\":\"show\",\"what\":\"endpoints\",\"pid\":12,\"peer\":\"192.0.2.1\",\"from\":3}",
		"{\"command\":\"peer-add\",\"node\":7,\"address\":\"192.0.2.7\",\"port\":\"p0\"}",
		"{\"command\":\"client-kill\",\"pid\":4711}",
	};
	uint32_t understood = 0;

	srand(1);
	for (int round = 0; round < 30000; round++) {
		const char *seed = seeds[round % 3];
		size_t len = strlen(seed);
		char *text = malloc(len); /* exact, so that AddressSanitizer sees reads beyond the end */

		memcpy(text, seed, len);
		for (int i = rand() % 4; i >= 0; i--)
			text[(size_t)rand() % len] = (char)(rand() % 256);
		why[0] = '\0';
		if (ctl_parse(text, len - (size_t)(rand() % 3), &request, why, sizeof(why)) == 0)
			understood++;
		else
			assert_int_not_equal(why[0], 0);
		free(text);
	}
	assert_in_range(understood, 1, 29999);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_show),          cmocka_unit_test(test_changes),
		cmocka_unit_test(test_refusals),      cmocka_unit_test(test_printable),
		cmocka_unit_test(test_long_and_deep), cmocka_unit_test(test_mutations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
