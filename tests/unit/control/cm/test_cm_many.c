/* SPDX-License-Identifier: BSD-3-Clause */
/* Many listeners of a service, and many connections at once: limits, lossy networks, cost. */
#include "tests/unit/unit.h"
#include "net.h"

#define PORT CM_SERVICE_TCP(5000)

/* A service has at most one listener at each address. */
static void
test_scopes(void **state)
{
	struct net *net = *state;
	struct cm *cm = net->host[0].cm;
	const uint64_t service = CM_SERVICE_TCP(6000);
	const struct wire_addr first = wire_addr_of(true, (const uint8_t[]){192, 0, 2, 1}),
			       second = wire_addr_of(true, (const uint8_t[]){192, 0, 2, 2}),
			       v6 = {{0x20, 1, 0xd, 0xb8, [15] = 1}};
	const struct cm_scope one = {.only_addr = true, .addr = first}, ip4 = {.only_v4 = true},
			      ip6 = {.only_v6 = true};
	struct cm_listener *at_first, *at_v6;

	at_first = cm_listen(cm, service, &one, NULL);
	assert_non_null(at_first);
	assert_null(cm_listen(cm, service, &one, NULL));
	assert_null(cm_listen(cm, service, &ip4, NULL));
	assert_null(cm_listen(cm, service, NULL, NULL));
	at_v6 = cm_listen(cm, service, &ip6, NULL);
	assert_non_null(at_v6);
	assert_ptr_equal(cm_listener_at(cm, service, &first), at_first);
	assert_null(cm_listener_at(cm, service, &second));
	assert_ptr_equal(cm_listener_at(cm, service, &v6), at_v6);
	cm_unlisten(cm, at_first);
	assert_null(cm_listener_at(cm, service, &first));
	at_first = cm_listen(cm, service, &ip4, NULL);
	assert_ptr_equal(cm_listener_at(cm, service, &second), at_first);
	cm_unlisten(cm, at_first);
	cm_unlisten(cm, at_v6);
	assert_true(net_is_clean(net));
}

static void
test_half_open_limit(void **state)
{
	struct net *net = *state;
	struct end *end;
	int count = 0;

	net->host[1].answer = ANSWER_LATER;
	for (int i = 0; i < 100; i++)
		net_connect(net, i % 2 ? 0 : 2, 1, PORT);
	net_run(net, net->now + 100 * MS);
	for (end = net->host[1].ends; end != NULL; end = end->next)
		count++;
	assert_int_equal(count, 64);
	assert_int_equal(net->host[1].cm->half_open, 64);
	/* Accepting makes places free, so that all 100 requests get through. */
	for (end = net->host[1].ends; end != NULL; end = end->next) {
		struct cm_local local = net_local(&net->host[1]);

		assert_int_equal(cm_accept(end->conn, &local, NULL, 0, net->now), 0);
	}
	net->host[1].answer = ANSWER_ACCEPT;
	net_run(net, net->now + 10 * SECOND);
	count = 0;
	for (end = net->host[1].ends; end != NULL; end = end->next)
		count += end_reported(end, CM_REQUEST, CM_ESTABLISHED, 0);
	assert_int_equal(count, 100);
	assert_int_equal(net->host[1].cm->half_open, 0);

	/* Refused requests in a flood do not accumulate. */
	net->host[1].answer = ANSWER_REJECT;
	for (int i = 0; i < 100; i++)
		net_connect(net, 0, 1, PORT);
	net_run(net, net->now + 10 * MS);
	assert_true(net->host[1].cm->half_open <= 33);
	assert_true(net->host[1].cm->count <= 133);
	net_run(net, net->now + 10 * SECOND);
	assert_int_equal(net->host[1].cm->count, 100);
}

/* Loses, doubles or delays messages at random. The events of each end must still be legal and end with
 * CM_GONE. */
static enum fate
storm(struct net *net, const struct host *from, const struct cm_mad *mad, int number)
{
	uint64_t r = net_random(net) % 100;

	return r < (uint64_t)net->fate_arg ? LOSE : r < 50 ? (enum fate)(r % 3) : r < 60 ? TWICE : SLOW;
}

static void
check_grammar(const struct end *end)
{
	bool good = end->count >= 2 && end->reported[end->count - 1] == CM_GONE;

	for (int i = 0; good && i < end->count; i++) {
		switch (end->reported[i]) {
		case CM_REQUEST:
			good = i == 0 && !end->active;
			break;
		case CM_REPLY:
			good = i == 0 && end->active;
			break;
		case CM_ESTABLISHED:
			good = i == 1 && end->reported[0] == CM_REQUEST;
			break;
		case CM_DISCONNECTED:
			good = i == end->count - 2 && (end->active || end->reported[i - 1] == CM_ESTABLISHED);
			break;
		case CM_REJECTED:
			good = i == end->count - 2 && (end->active || end->reported[i - 1] == CM_REQUEST);
			break;
		case CM_UNREACHABLE:
		case CM_TIMED_OUT:
			good = i == 0 && end->active;
			break;
		case CM_ACCEPT_FAILED:
			good = i == 1 && !end->active;
			break;
		case CM_GONE:
			good = i == end->count - 1;
			break;
		}
	}
	if (!good)
		end_show(end);
	assert_true(good);
}

static void
test_storm(void **state)
{
	int established = 0;

	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct net *net = net_new();

		net->seed = seed * 0x9e3779b97f4a7c15ull;
		net->fate = storm;
		net->fate_arg = (int)(seed % 5) * 10;
		for (int i = 0; i < 40; i++) {
			int from = (int)(net_random(net) % 3), to = (int)(net_random(net) % 3);
			struct cm_connect params = net_params(net, from, to, PORT);

			if (net_random(net) % 4 == 0)
				params.timeout = net_random(net) % (3 * SECOND);
			net->host[to].answer = net_random(net) % 8 == 0 ? ANSWER_REJECT : ANSWER_ACCEPT;
			net_connect_params(net, from, &params);
			net_run(net, net->now + net_random(net) % (20 * MS));
		}
		net_run(net, net->now + 60 * SECOND);
		for (int h = 0; h < HOSTS; h++)
			for (struct end *end = net->host[h].ends; end != NULL; end = end->next)
				if (end->conn != NULL && net_random(net) % 2)
					cm_disconnect(end->conn, net->now);
		net_run(net, net->now + 60 * SECOND);
		/* An end that no message of the disconnect reached disconnects itself. */
		for (int h = 0; h < HOSTS; h++)
			for (struct end *end = net->host[h].ends; end != NULL; end = end->next)
				if (end->conn != NULL)
					cm_disconnect(end->conn, net->now);
		assert_true(net_ends_clean(net));
		for (int h = 0; h < HOSTS; h++) {
			for (struct end *end = net->host[h].ends; end != NULL; end = end->next) {
				check_grammar(end);
				established += end_has(end, CM_ESTABLISHED);
			}
		}
		net_free(net);
	}
	assert_true(established > 60 * 10);
}

static uint64_t blocks;

/* Called from each basic block of the code under test: see meson.build. */
void __sanitizer_cov_trace_pc(void);

void
__sanitizer_cov_trace_pc(void)
{
	blocks++;
}

/* Runs `count` connections at once, from request to end; returns the basic blocks executed. */
static uint64_t
connect_many(int count)
{
	struct net *net = net_new();
	uint64_t start = blocks, took;
	int done = 0;

	net->host[1].env.max_half_open = 20000;
	for (int i = 0; i < count; i++) {
		net_connect(net, 0, 1, PORT);
		net_run(net, net->now + 10000);
	}
	net_run(net, net->now + SECOND);
	assert_int_equal(net->host[0].cm->count, count);
	for (struct end *e = net->host[0].ends; e != NULL; e = e->next) {
		cm_disconnect(e->conn, net->now);
		net_run(net, net->now + 10000);
	}
	assert_true(net_ends_clean(net));
	took = blocks - start;
	for (struct end *e = net->host[1].ends; e != NULL; e = e->next)
		done += end_reported(e, CM_REQUEST, CM_ESTABLISHED, CM_DISCONNECTED, CM_GONE, 0);
	assert_int_equal(done, count);
	net_free(net);
	return took;
}

/* Ten thousand connections at once cost little more than ten times a thousand: the timers' heap has 14
 * levels instead of 10. Quadratic work would cost ten times as much. */
static void
test_ten_thousand(void **state)
{
	uint64_t thousands = 0, at_once;

	for (int i = 0; i < 10; i++)
		thousands += connect_many(1000);
	at_once = connect_many(10000);
	print_message("ten times 1000 connections: %lu blocks, 10000: %lu\n", thousands, at_once);
	assert_true(thousands > 0);
	assert_true(at_once * 10 < thousands * 14);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, net_setup, net_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_scopes),
		TEST(test_half_open_limit),
		TEST(test_storm),
		TEST(test_ten_thousand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
