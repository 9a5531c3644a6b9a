/* SPDX-License-Identifier: BSD-3-Clause */
/* The cost of tracing for the control thread (control/ctl/trace.c), by a clock that advances only while it
 * sends. */
#include <string.h>
#include <time.h>

#include "tests/unit/unit.h"
#include <rte_lcore.h>

#include "control/ctl/internal.h"
#include "dataplane/engine.h"

#define CALLERS 24u
#define SEND_NS 20000u
#define LOOP_NS (NS_PER_MS / 10)

struct control control;
struct ctl_callers ctl_callers = TAILQ_HEAD_INITIALIZER(ctl_callers);

static uint64_t clock_ns = NS_PER_S, sending_ns, sent, reported_lost, refusals;
static struct ctl_caller callers[CALLERS];

/* ---- functions of other rooms ---- */

int __wrap_clock_gettime(clockid_t id, struct timespec *ts);
unsigned int __wrap_rte_get_next_lcore(unsigned int i, int skip_main, int wrap);
unsigned int __wrap_rte_get_main_lcore(void);

int
__wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	ts->tv_sec = (time_t)(clock_ns / NS_PER_S);
	ts->tv_nsec = (long)(clock_ns % NS_PER_S);
	return 0;
}

unsigned int
__wrap_rte_get_next_lcore(unsigned int i, int skip_main, int wrap)
{
	return i == UINT32_MAX ? 0 : RTE_MAX_LCORE;
}

unsigned int
__wrap_rte_get_main_lcore(void)
{
	return 1;
}

void *
engine_qp_owner(uint32_t qpn)
{
	return NULL;
}

bool
ctl_push(struct ctl_caller *caller, json_t *packet)
{
	const json_t *lost = json_object_get(packet, "lost");

	if (caller == &callers[0] && lost != NULL)
		reported_lost += (uint64_t)json_integer_value(lost);
	sent += lost == NULL && caller == &callers[0];
	json_decref(packet);
	clock_ns += SEND_NS;
	sending_ns += SEND_NS;
	return true;
}

void
ctl_refuse(struct ctl_caller *caller, const char *format, ...)
{
	refusals++;
}

void
ctl_done(struct ctl_caller *caller, const char *format, ...)
{
}

/* ---- tests ---- */

/* With endless transitions and the most tracing callers, tracing takes at most a tenth of the time. */
static void
test_share(void **state)
{
	static const char *const names[] = {"one", "other"};
	static const struct state_machine machine = {.object = "connection", .name = names};
	const struct ctl_request all = {.command = CTL_TRACE};
	uint64_t transitions = 0, begin = clock_ns;

	RTE_PER_LCORE(_lcore_id) = 0;
	control.now = clock_ns;
	TAILQ_INIT(&control.clients);
	for (uint32_t i = 0; i < CALLERS; i++) {
		TAILQ_INSERT_TAIL(&ctl_callers, &callers[i], link);
		ctl_trace_start(&callers[i], &all);
		assert_true(callers[i].traces);
	}
	while (clock_ns < begin + 10 * NS_PER_S) {
		uint64_t before = sending_ns;

		for (int i = 0; i < 64; i++, transitions++)
			ctl_transition(&machine, 7, 0, 1, "a test", true);
		ctl_trace_poll();
		/* A single call is short, too. */
		assert_in_range(sending_ns - before, 0, 3 * NS_PER_MS);
		clock_ns += LOOP_NS;
		control.now = clock_ns;
	}
	assert_in_range(sending_ns, (clock_ns - begin) / 20, (clock_ns - begin) * 11 / 100);
	/* Transitions that there was no time to send are counted as lost. */
	for (uint32_t i = 0; i < 1000000 && sent + reported_lost < transitions; i++) {
		ctl_trace_poll();
		clock_ns += LOOP_NS;
		control.now = clock_ns;
	}
	assert_int_equal(sent + reported_lost, transitions);
	assert_in_range(sent, 100, transitions / 2);
}

/* A trace of an object that does not exist is refused: it would never end. */
static void
test_nobody(void **state)
{
	static const struct ctl_request nobody[] = {
		{.command = CTL_TRACE, .given = CTL_M_CLIENT, .client = 77},
		{.command = CTL_TRACE, .given = CTL_M_QP, .qp = 77},
		{.command = CTL_TRACE, .given = CTL_M_PID, .pid = INT32_MAX},
	};
	struct ctl_caller caller = {.traces = false};

	for (size_t i = 0; i < sizeof(nobody) / sizeof(nobody[0]); i++) {
		refusals = 0;
		ctl_trace_start(&caller, &nobody[i]);
		assert_int_equal(refusals, 1);
		assert_false(caller.traces);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody),
		cmocka_unit_test(test_share),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
