/* SPDX-License-Identifier: BSD-3-Clause */
/* Moves of queue pairs between cores (control/objects/qp_move.c). The test answers the commands, and has the
 * clock. */
#include <errno.h>
#include <stdlib.h>

#include "tests/unit/unit.h"
#include "control/objects/qp_move.h"
#include "control/objects/place.h"

#define ENDS 2u
#define CORES 2u
#define TRIES 50u
#define RETRY_NS (2 * NS_PER_MS)

struct control control;
int control_logtype;

struct engine_client {
	uint32_t core;
};

struct engine_move {
	struct engine_qp *qp;
	bool moved;
};

/* The command that qp_move.c has sent, and its answer's receiver. */
static struct engine_command sent;
static command_done *answer_to;
static void *answer_object;
static uint32_t num_sent, num_moves; /* num_moves: that exist */

static const struct qp_kind created = {.created = true}, imported = {.created = false};
static struct engine_client lane[CORES] = {{0}, {1}};
static struct client client[ENDS];
static struct qp end[ENDS];
static bool has_memory;

/* ---- functions of other rooms ---- */

struct engine_command *
command_new(struct client *owner, enum engine_command_type type, command_done *done, void *object)
{
	assert_true(client_alive(owner) || type != ENGINE_QP_FREEZE);
	sent = (struct engine_command){.type = type};
	answer_to = done;
	answer_object = object;
	return &sent;
}

void
command_send(struct engine_command *command)
{
	assert_ptr_equal(command, &sent);
	num_sent++;
}

struct engine_move *
engine_move_new(struct engine_qp *qp, struct engine_client *to, const struct engine_qp_config *config)
{
	struct engine_move *move = has_memory ? calloc(1, sizeof(*move)) : NULL;

	if (move == NULL)
		return NULL;
	num_moves++;
	move->qp = qp;
	return move;
}

bool
engine_move_over(struct engine_move *move)
{
	return move->moved;
}

void
engine_move_free(struct engine_move *move)
{
	num_moves--;
	free(move);
}

uint32_t
engine_lane_core(const struct engine_client *at)
{
	return at->core;
}

uint32_t
engine_core_lcore(uint32_t core)
{
	return core + 1;
}

struct engine_qp_config
qp_config_on(const struct qp *qp, const struct engine_client *at)
{
	return qp->config;
}

struct engine_client *
place_lane(struct qp *qp, uint32_t core)
{
	return has_memory ? &lane[core] : NULL;
}

void
place_moved(struct qp *qp, struct engine_client *to)
{
	qp->lane = to;
}

/* ---- the core ---- */

static int
begin(void **state)
{
	control.now = NS_PER_S;
	num_sent = 0;
	has_memory = true;
	for (uint32_t i = 0; i < ENDS; i++) {
		client[i] = (struct client){.state = CLIENT_ATTACHED};
		end[i] = (struct qp){.object.client = &client[i],
				     .kind = &created,
				     .state = ONE_QP_CONNECTED,
				     .placed = true,
				     .lane = &lane[0]};
	}
	return 0;
}

/* No move is left, and none waits. */
static int
finish(void **state)
{
	assert_int_equal(num_moves, 0);
	assert_true(qp_moves_deadline() == NEVER);
	for (uint32_t i = 0; i < ENDS; i++)
		assert_null(end[i].move);
	return 0;
}

/* Answers the command, which must be of that type. */
static void
answer(enum engine_command_type type, int status)
{
	struct engine_command command = sent;
	uint32_t before = num_sent;

	assert_int_equal(command.type, type);
	command.status = status;
	answer_to(&command, answer_object);
	assert_true(num_sent <= before + 1);
}

static void
move_at_once(void)
{
	answer(ENGINE_QP_FREEZE, 0);
	sent.move->moved = true;
	answer(ENGINE_QP_THAW, 0);
	answer(ENGINE_QP_MOVED, 0);
}

static void
wait_for_retry(void)
{
	uint32_t before = num_sent;

	assert_true(qp_moves_deadline() == control.now + RETRY_NS);
	control.now += RETRY_NS - 1;
	qp_moves_poll();
	assert_int_equal(num_sent, before);
	control.now++;
	qp_moves_poll();
	assert_int_equal(num_sent, before + 1);
}

/* ---- tests ---- */

static void
test_one_end(void **state)
{
	assert_null(qp_move_begin(&end[0], NULL, 1));
	assert_string_equal(qp_move_begin(&end[0], NULL, 1), "it is moving already");
	move_at_once();
	assert_ptr_equal(end[0].lane, &lane[1]);
	assert_int_equal(num_sent, 3);
}

static void
test_both_ends(void **state)
{
	assert_null(qp_move_begin(&end[0], &end[1], 1));
	move_at_once();
	assert_ptr_equal(end[0].lane, &lane[1]);
	assert_ptr_equal(end[1].lane, &lane[0]);
	move_at_once();
	assert_ptr_equal(end[1].lane, &lane[1]);
}

/* A busy queue pair is tried again later, not at once, and not for ever. */
static void
test_busy(void **state)
{
	assert_null(qp_move_begin(&end[0], NULL, 1));
	for (uint32_t i = 1; i < TRIES; i++) {
		answer(ENGINE_QP_FREEZE, -EAGAIN);
		wait_for_retry();
	}
	answer(ENGINE_QP_FREEZE, -EAGAIN);
	assert_int_equal(num_sent, TRIES);
	assert_ptr_equal(end[0].lane, &lane[0]);
}

/* The new core has no room: the old core has the queue pair again. */
static void
test_no_room(void **state)
{
	assert_null(qp_move_begin(&end[0], NULL, 1));
	answer(ENGINE_QP_FREEZE, 0);
	answer(ENGINE_QP_THAW, -ENOBUFS);
	answer(ENGINE_QP_THAW, 0);
	answer(ENGINE_QP_MOVED, 0);
	assert_ptr_equal(end[0].lane, &lane[0]);
}

/* If the second end has to stay, the first returns, however often it is busy. */
static void
test_second_stays(void **state)
{
	assert_null(qp_move_begin(&end[0], &end[1], 1));
	move_at_once();
	answer(ENGINE_QP_FREEZE, -EOPNOTSUPP);
	for (uint32_t i = 0; i < 2 * TRIES; i++) {
		answer(ENGINE_QP_FREEZE, -EAGAIN);
		wait_for_retry();
	}
	move_at_once();
	assert_ptr_equal(end[0].lane, &lane[0]);
	assert_ptr_equal(end[1].lane, &lane[0]);
}

/* The first end returns even if there is no room for it at first: its peer waits for it there. */
static void
test_return_without_room(void **state)
{
	assert_null(qp_move_begin(&end[0], &end[1], 1));
	move_at_once();
	answer(ENGINE_QP_FREEZE, -EOPNOTSUPP);
	for (uint32_t i = 0; i < 2 * TRIES; i++) {
		answer(ENGINE_QP_FREEZE, 0);
		answer(ENGINE_QP_THAW, -ENOBUFS);
		answer(ENGINE_QP_THAW, 0);
		answer(ENGINE_QP_MOVED, 0);
		wait_for_retry();
	}
	has_memory = false;
	answer(ENGINE_QP_FREEZE, -EAGAIN);
	control.now += RETRY_NS;
	qp_moves_poll();
	has_memory = true;
	wait_for_retry();
	move_at_once();
	assert_ptr_equal(end[0].lane, &lane[0]);
	/* The peer has ended, so nobody waits. */
	assert_null(qp_move_begin(&end[0], &end[1], 1));
	move_at_once();
	answer(ENGINE_QP_FREEZE, -EOPNOTSUPP);
	answer(ENGINE_QP_FREEZE, -EAGAIN);
	qp_move_forget(&end[1]);
	control.now += RETRY_NS;
	num_sent = 0;
	qp_moves_poll();
	assert_int_equal(num_sent, 0);
	end[0].lane = &lane[0];
	/* An end that breaks meanwhile stays. */
	assert_null(qp_move_begin(&end[0], &end[1], 1));
	move_at_once();
	answer(ENGINE_QP_FREEZE, -EOPNOTSUPP);
	answer(ENGINE_QP_FREEZE, -ENOTCONN);
}

/* A queue pair that is freed, or whose attachment ends, while a try is due: nothing is sent. */
static void
test_ends_while_waiting(void **state)
{
	assert_null(qp_move_begin(&end[0], &end[1], 1));
	answer(ENGINE_QP_FREEZE, -EAGAIN);
	qp_move_forget(&end[0]);
	assert_false(qp_moves_deadline() == NEVER);
	qp_move_forget(&end[1]);
	assert_true(qp_moves_deadline() == NEVER);

	assert_null(qp_move_begin(&end[0], NULL, 1));
	answer(ENGINE_QP_FREEZE, -EAGAIN);
	client[0].state = CLIENT_LEAVING;
	control.now += RETRY_NS;
	num_sent = 0;
	qp_moves_poll();
	assert_int_equal(num_sent, 0);
	client[0].state = CLIENT_ATTACHED;

	assert_null(qp_move_begin(&end[0], NULL, 1));
	answer(ENGINE_QP_FREEZE, -EAGAIN);
	end[0].removing = true;
	control.now += RETRY_NS;
	num_sent = 0;
	qp_moves_poll();
	assert_int_equal(num_sent, 0);
}

/* The second end is freed after the first has moved. */
static void
test_second_is_freed(void **state)
{
	assert_null(qp_move_begin(&end[0], &end[1], 1));
	answer(ENGINE_QP_FREEZE, 0);
	qp_move_forget(&end[1]);
	sent.move->moved = true;
	answer(ENGINE_QP_THAW, 0);
	answer(ENGINE_QP_MOVED, 0);
	assert_ptr_equal(end[0].lane, &lane[1]);
}

/* A queue pair is reset while it is asked to move, which then fails. */
static void
test_is_reset(void **state)
{
	assert_null(qp_move_begin(&end[0], NULL, 1));
	qp_move_forget(&end[0]);
	answer(ENGINE_QP_FREEZE, -ENOTCONN);
	assert_null(qp_move_begin(&end[0], &end[1], 1));
	move_at_once();
	qp_move_forget(&end[1]);
	answer(ENGINE_QP_FREEZE, -ENOTCONN);
	assert_null(end[0].move);
	assert_int_equal(num_sent, 5);
}

static void
test_refusals(void **state)
{
	assert_string_equal(qp_move_begin(&end[0], NULL, 0), "it is on that core already");
	end[0].kind = &imported;
	assert_non_null(qp_move_begin(&end[0], NULL, 1));
	end[0].kind = &created;
	end[0].config.ud = true;
	assert_non_null(qp_move_begin(&end[0], NULL, 1));
	end[0].config.ud = false;
	end[0].state = ONE_QP_CONNECTING;
	assert_string_equal(qp_move_begin(&end[0], NULL, 1), "it is not connected");
	end[0].state = ONE_QP_CONNECTED;
	has_memory = false;
	assert_non_null(qp_move_begin(&end[0], NULL, 1));
	has_memory = true;
	/* Neither end moves unless both can. */
	end[1].state = ONE_QP_ERROR;
	assert_non_null(qp_move_begin(&end[0], &end[1], 1));
	assert_int_equal(num_sent, 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, begin, finish)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_one_end),
		T(test_both_ends),
		T(test_busy),
		T(test_no_room),
		T(test_second_stays),
		T(test_return_without_room),
		T(test_ends_while_waiting),
		T(test_second_is_freed),
		T(test_is_reset),
		T(test_refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
