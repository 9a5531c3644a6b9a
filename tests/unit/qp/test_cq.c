/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion rings as the core writes them: phases, room, overflow, hostile indices, arms and waking,
 * resizing.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dataplane/qp/wake.h"
#include "fixture.h"
#include "tests/asleep.h"
#include "tests/unit/watchers.h"

static struct app app;
static struct ring ring, async;

static int
setup(void **state)
{
	app_start(&app);
	ring_new(&app, 4, &async, NULL);
	ring_new(&app, 3, &ring, async.cq); /* 8 entries, 7 usable */
	return 0;
}

static int
teardown(void **state)
{
	ring_end(&ring);
	ring_end(&async);
	app_end(&app);
	return 0;
}

static void
post(uint64_t cookie, uint8_t flags)
{
	assert_int_equal(command((struct engine_command){.type = ENGINE_CQ_POST,
							 .cq = ring.cq,
							 .event = {.cookie = cookie,
								   .object = 6,
								   .imm = 7,
								   .type = ONE_CQE_CONNECT,
								   .status = 2,
								   .flags = flags,
								   .op = 3,
								   .phase = 99}}),
			 0);
}

static void
post_done(struct engine_command *post)
{
	free(post);
}

static void
test_many_laps(void **state)
{
	for (uint64_t i = 0; i < 100; i++) {
		struct one_cqe cqe;

		post(i, ONE_CQE_NOTIFY);
		assert_true(ring_poll(&ring, &cqe));
		assert_int_equal(cqe.cookie, i);
		assert_int_equal(cqe.length, i + 1); /* number of the report */
		assert_int_equal(cqe.object, 6);
		assert_int_equal(cqe.imm, 7);
		assert_int_equal(cqe.type, ONE_CQE_CONNECT);
		assert_int_equal(cqe.status, 2);
		assert_int_equal(cqe.flags, ONE_CQE_NOTIFY);
		assert_int_equal(cqe.op, 3);
		assert_false(ring_poll(&ring, &cqe));
		turn(1);
		assert_int_equal(atomic_load(&ring.shm->tail), i + 1);
	}
}

/* The control thread asks for room as soon as its posts are answered: the tail counts them by then. */
static void
test_posts_are_counted(void **state)
{
	struct engine_command *post = calloc(1, sizeof(*post));

	assert_non_null(post);
	*post = (struct engine_command){.type = ENGINE_CQ_POST, .cq = ring.cq, .done = post_done};
	assert_int_equal(engine_command(post), 0);
	assert_int_equal(loop_commands(engine.core[0]), 1);
	assert_int_equal(atomic_load(&ring.shm->tail), 1);
	turn(1);
}

static void
test_overflow(void **state)
{
	struct one_cqe cqe;

	for (uint64_t i = 0; i < 10; i++)
		post(i, 0);
	/* Entries that fitted are intact, the rest is lost, and the overflow was reported once. */
	for (uint64_t i = 0; i < 7; i++) {
		assert_true(ring_poll(&ring, &cqe));
		assert_int_equal(cqe.cookie, i);
	}
	assert_false(ring_poll(&ring, &cqe));
	assert_true(ring_poll(&async, &cqe));
	assert_int_equal(cqe.type, ONE_CQE_ASYNC);
	assert_int_equal(cqe.status, ONE_ASYNC_CQ_OVERFLOW);
	assert_int_equal(cqe.object, 77);
	assert_false(ring_poll(&async, &cqe));
	assert_int_equal(engine.core[0]->stats.cq_overflow, 3);
	post(20, 0);
	assert_true(ring_poll(&ring, &cqe));
	assert_int_equal(cqe.cookie, 20);
	/* After the application has made room again, the next overflow is reported, too. */
	for (uint64_t i = 0; i < 10; i++)
		post(30 + i, 0);
	for (uint64_t i = 0; i < 7; i++) {
		assert_true(ring_poll(&ring, &cqe));
		assert_int_equal(cqe.cookie, 30 + i);
	}
	assert_false(ring_poll(&ring, &cqe));
	assert_true(ring_poll(&async, &cqe));
	assert_int_equal(cqe.status, ONE_ASYNC_CQ_OVERFLOW);
	assert_false(ring_poll(&async, &cqe));
	assert_int_equal(app.faults, 0);
}

/* The core reads the application's index only when it needs room. */
static void
hostile_head(uint32_t head)
{
	for (uint64_t i = 0; i < 7; i++)
		post(i, 0);
	atomic_store(&ring.shm->head, head);
	post(7, 0);
	turn(2);
	assert_int_equal(app.faults, 1);
	assert_int_equal(app.fault, ONE_FAULT_RING);
	assert_int_equal(atomic_load(&app.header->fault), ONE_FAULT_RING);
	post(8, 0); /* is not written, and no second event is raised */
	turn(2);
	assert_int_equal(app.faults, 1);
	assert_int_equal(atomic_load(&ring.shm->tail), 7);
}

static void
test_head_beyond_tail(void **state)
{
	hostile_head(8);
}

static void
test_head_far_away(void **state)
{
	hostile_head(0x80000000u);
}

static void
test_head_behind_itself(void **state)
{
	struct one_cqe cqe;

	for (uint64_t i = 0; i < 4; i++)
		post(i, 0);
	for (uint64_t i = 0; i < 4; i++)
		assert_true(ring_poll(&ring, &cqe));
	for (uint64_t i = 0; i < 4; i++)
		post(i, 0); /* the last makes the core read head 4 */
	atomic_store(&ring.shm->head, 3);
	for (uint64_t i = 0; i < 4; i++)
		post(i, 0);
	turn(2);
	assert_int_equal(app.faults, 1);
}

static uint32_t
word(uint16_t channel)
{
	return atomic_load(&app.channels[channel].word);
}

#define DESCRIPTOR 0x00030007u

/* Wake-ups of the ring go to socket `fd`, or to none any more if it is -1. */
static void
channel_by(int fd)
{
	assert_true(engine_client_channels(app.client));
	assert_int_equal(command((struct engine_command){.type = ENGINE_CHANNEL_FD,
							 .client = app.client,
							 .channel = {.id = DESCRIPTOR, .fd = fd}}),
			 0);
	atomic_store(&ring.bundle->descriptor, DESCRIPTOR);
}

/* A channel with a socket is sent the ring's id, in place of the futex word. */
static void
test_arm_by_descriptor(void **state)
{
	struct one_cqe cqe;
	uint32_t id = 0;
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	channel_by(ends[0]);
	ring_arm(&ring, one_arm(1, 5, 0));
	post(0, ONE_CQE_NOTIFY);
	post(1, ONE_CQE_NOTIFY);
	turn(1);
	assert_int_equal(recv(ends[1], &id, sizeof(id), MSG_DONTWAIT), sizeof(id));
	assert_int_equal(id, ring.cq->id);
	assert_int_equal(recv(ends[1], &id, sizeof(id), MSG_DONTWAIT), -1); /* one message per arm */
	assert_int_equal(word(5), 1); /* for threads that sleep on the futex */
	assert_false(ring_armed(&ring));
	/*
	 * The socket is full: the arm stays, the core does not wait, and the wake-up follows once there is
	 * room.
	 */
	for (uint16_t i = 0; send(ends[0], &i, sizeof(i), MSG_DONTWAIT) > 0; i++)
		;
	while (ring_poll(&ring, &cqe))
		;
	ring_arm(&ring, one_arm(2, 5, ring.head));
	post(2, ONE_CQE_NOTIFY);
	turn(1);
	assert_int_equal(word(5), 1);
	assert_true(ring_armed(&ring));
	while (recv(ends[1], &id, sizeof(id), MSG_DONTWAIT) == 2)
		;
	post(3, ONE_CQE_NOTIFY);
	turn(1);
	assert_int_equal(recv(ends[1], &id, sizeof(id), MSG_DONTWAIT), sizeof(id));
	assert_false(ring_armed(&ring));
	/* A reader that has closed its socket causes no signal and no fault. */
	close(ends[1]);
	while (ring_poll(&ring, &cqe))
		;
	ring_arm(&ring, one_arm(3, 5, ring.head));
	post(4, ONE_CQE_NOTIFY);
	turn(1);
	assert_int_equal(app.faults, 0);
	/* Without a socket the futex word is used again. */
	channel_by(-1);
	close(ends[0]);
	while (ring_poll(&ring, &cqe))
		;
	ring_arm(&ring, one_arm(4, 5, ring.head));
	post(5, ONE_CQE_NOTIFY);
	turn(1);
	assert_int_equal(word(5), 4);
}

/* A thread that waits for several rings by one channel learns which of them had an entry first. */
static void
test_order_of_rings(void **state)
{
	static const struct one_cqe entry = {.type = ONE_CQE_SEND, .flags = ONE_CQE_NOTIFY};
	struct ring *const first[] = {&ring, &async}, *const second[] = {&async, &ring};
	struct core *core = engine.core[app.client->core->index];
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	channel_by(ends[0]);
	atomic_store(&async.bundle->descriptor, DESCRIPTOR);
	async.cq->id = ring.cq->id + 1;
	for (uint16_t i = 0; i < 2; i++) {
		uint32_t id[2];

		ring_arm(&ring, one_arm(i + 1, 5 | ONE_ARM_NEXT, i));
		ring_arm(&async, one_arm(i + 1, 5 | ONE_ARM_NEXT, i));
		cq_push(core, first[i]->cq, &entry);
		cq_push(core, second[i]->cq, &entry);
		cq_publish(core);
		for (int k = 0; k < 2; k++)
			assert_int_equal(recv(ends[1], &id[k], sizeof(id[k]), MSG_DONTWAIT), sizeof(id[k]));
		assert_int_equal(id[0], first[i]->cq->id);
		assert_int_equal(id[1], second[i]->cq->id);
	}
	close(ends[1]);
	channel_by(-1);
	close(ends[0]);
}

static bool
was_woken(int fd)
{
	uint32_t id;

	return recv(fd, &id, sizeof(id), MSG_DONTWAIT) == sizeof(id);
}

static void
arm_and_post(uint32_t i)
{
	struct one_cqe cqe;

	while (ring_poll(&ring, &cqe))
		;
	ring_arm(&ring, one_arm((uint16_t)(i + 1), 5, ring.head));
	post(i, ONE_CQE_NOTIFY);
	turn(1);
}

/* Slow wake-ups take a limited part of a core's time. Held ones are sent later. */
static void
test_slow_wakes(void **state)
{
	const uint64_t step = NS_PER_S / 1000;
	uint32_t woken = 0, steps = 0;
	int ends[2], watchers[WATCHERS];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	watch_socket(ends[1], watchers);
	channel_by(ends[0]);
	for (;; woken++) {
		arm_and_post(woken);
		if (!was_woken(ends[1]))
			break;
		assert_true(woken < 1000);
	}
	assert_true(woken >= 2); /* the first, whose cost was not yet measured, and one that was charged */
	assert_true(ring_armed(&ring));
	for (; !was_woken(ends[1]); steps++) {
		assert_true(steps < 1000);
		turn_for(step);
	}
	assert_true(steps > 0);
	assert_false(ring_armed(&ring));
	turn(10);
	assert_false(was_woken(ends[1]));
	/* A ring may end while its wake-up is held: nothing refers to it afterwards. */
	for (uint32_t i = woken + 1; !ring_armed(&ring); i++)
		arm_and_post(i);
	for (uint32_t i = 0; i < WATCHERS; i++)
		close(watchers[i]);
	close(ends[1]);
	channel_by(-1);
	close(ends[0]);
}

static void
test_arm_for_solicited(void **state)
{
	struct one_cqe cqe;

	ring_arm(&ring, one_arm(1, 5 | ONE_ARM_SOLICITED, 0));
	post(0, ONE_CQE_NOTIFY);
	turn(1);
	assert_int_equal(word(5), 0);
	post(1, ONE_CQE_NOTIFY | ONE_CQE_SOLICITED);
	turn(1);
	assert_int_equal(word(5), 1);
	/* An entry from before the arm does not count as one after it. */
	assert_true(ring_poll(&ring, &cqe));
	ring_arm(&ring, one_arm(2, 5 | ONE_ARM_SOLICITED, ring.head + 1));
	post(2, ONE_CQE_NOTIFY);
	turn(1);
	assert_int_equal(word(5), 1);
	/* An arm without the flag is for solicited entries and others alike. */
	ring_arm(&ring, one_arm(3, 5, ring.head + 2));
	post(3, ONE_CQE_NOTIFY);
	turn(1);
	assert_int_equal(word(5), 2);
	/* A channel beyond the limit is a fault, with the flag as without. */
	ring_arm(&ring, one_arm(4, ONE_CHANNELS | ONE_ARM_SOLICITED, ring.head + 3));
	post(4, ONE_CQE_NOTIFY | ONE_CQE_SOLICITED);
	turn(1);
	assert_int_equal(app.faults, 1);
}

static void
test_arm(void **state)
{
	struct one_cqe cqe;

	ring_arm(&ring, one_arm(1, 5, 0));
	turn(5);
	assert_int_equal(word(5), 0);
	post(0, ONE_CQE_NOTIFY);
	turn(1);
	assert_int_equal(word(5), 1);
	post(1, ONE_CQE_NOTIFY); /* no second event for the same arm */
	turn(1);
	assert_int_equal(word(5), 1);
	/* An arm with a threshold. */
	while (ring_poll(&ring, &cqe))
		;
	ring_arm(&ring, one_arm(2, 6, ring.head + 2));
	post(2, ONE_CQE_NOTIFY);
	post(3, ONE_CQE_NOTIFY);
	turn(1);
	assert_int_equal(word(6), 0);
	post(4, ONE_CQE_NOTIFY);
	turn(1);
	assert_int_equal(word(6), 1);
	assert_int_equal(word(5), 1);
	/* An arm with the sequence number of a served one, but for another channel, is a new arm. */
	while (ring_poll(&ring, &cqe))
		;
	ring_arm(&ring, one_arm(2, 7, ring.head));
	post(5, ONE_CQE_NOTIFY);
	turn(1);
	assert_int_equal(word(7), 1);
	/* An arm with sequence number 0 is none. */
	while (ring_poll(&ring, &cqe))
		;
	ring_arm(&ring, one_arm(0, 7, ring.head));
	post(6, ONE_CQE_NOTIFY);
	turn(1);
	assert_int_equal(word(7), 1);
}

/* The arm is for the next entry added, whether polled by then or not, and not for one from before. */
static void
test_arm_for_next(void **state)
{
	struct one_cqe cqe;

	post(0, ONE_CQE_NOTIFY);
	turn(1);
	ring_arm(&ring, one_arm(1, 5 | ONE_ARM_NEXT, ring.head));
	turn(5);
	assert_int_equal(word(5), 0);
	assert_true(ring_poll(&ring, &cqe));
	/*
	 * Simulate that the entry was polled between the store of its phase and the core's check of the arm.
	 */
	atomic_store(&ring.shm->head, ring.head + 1);
	post(1, ONE_CQE_NOTIFY);
	turn(1);
	assert_int_equal(word(5), 1);
	post(2, ONE_CQE_NOTIFY);
	turn(1);
	assert_int_equal(word(5), 1);
}

static void
test_arm_and_unsignaled(void **state)
{
	ring_arm(&ring, one_arm(1, 5, 0));
	post(0, 0);
	turn(1);
	assert_int_equal(word(5), 0);
	/* A single notifying entry suffices for a wake-up, and need not be the last one. */
	post(1, ONE_CQE_NOTIFY);
	turn(1);
	assert_int_equal(word(5), 1);
	ring_arm(&ring, one_arm(2, 5, 2));
	post(2, 0);
	turn(1);
	assert_int_equal(word(5), 2);
}

static void
test_arm_of_no_channel(void **state)
{
	ring_arm(&ring, one_arm(1, ONE_CHANNELS, 0));
	post(0, ONE_CQE_NOTIFY);
	turn(2);
	assert_int_equal(app.faults, 1);
}

static void *
sleeper(void *argument)
{
	struct one_channel *channel = argument;
	struct timespec limit = {.tv_sec = 5};

	atomic_fetch_add(&channel->sleepers, 1);
	while (atomic_load(&channel->word) == 0)
		if (syscall(SYS_futex, &channel->word, FUTEX_WAIT, 0, &limit, NULL, 0) != 0 &&
		    atomic_load(&channel->word) == 0)
			return argument;
	return NULL;
}

static void
test_wakes_a_sleeper(void **state)
{
	pthread_t thread;
	void *result;

	assert_int_equal(pthread_create(&thread, NULL, sleeper, &app.channels[9]), 0);
	while (atomic_load(&app.channels[9].sleepers) == 0)
		usleep(100);
	usleep(20000);
	ring_arm(&ring, one_arm(1, 9, 0));
	post(0, ONE_CQE_NOTIFY);
	turn(1);
	pthread_join(thread, &result);
	assert_null(result);
}

struct member {
	pthread_t thread;
	_Atomic pid_t tid;
};

static void *
sleep_in_crowd(void *argument)
{
	struct member *member = argument;

	atomic_store(&member->tid, (pid_t)syscall(SYS_gettid));
	syscall(SYS_futex, &app.channels[9].word, FUTEX_WAIT, 0, NULL, NULL, 0);
	return NULL;
}

/* However many threads sleep on a channel, the core wakes a few of them, since each takes time. */
static void
test_wakes_few(void **state)
{
	struct member crowd[3 * ONE_CHANNEL_WAKES] = {0};

	atomic_store(&app.channels[9].sleepers, RTE_DIM(crowd));
	for (size_t i = 0; i < RTE_DIM(crowd); i++)
		assert_int_equal(pthread_create(&crowd[i].thread, NULL, sleep_in_crowd, &crowd[i]), 0);
	for (size_t i = 0; i < RTE_DIM(crowd); i++)
		await_asleep(&crowd[i].tid);
	ring_arm(&ring, one_arm(1, 9, 0));
	post(0, ONE_CQE_NOTIFY);
	turn(1);
	assert_int_equal(syscall(SYS_futex, &app.channels[9].word, FUTEX_WAKE, RTE_DIM(crowd), NULL, NULL, 0),
			 RTE_DIM(crowd) - ONE_CHANNEL_WAKES);
	for (size_t i = 0; i < RTE_DIM(crowd); i++)
		pthread_join(crowd[i].thread, NULL);
}

/* While clients compete for a core, each wake-up costs its client credit. */
static void
test_wakes_are_charged(void **state)
{
	struct core *core = engine.core[0];
	int64_t own = app.client->share.credit, users = app.client->share.group->credit;

	core->drr.contended = true;
	assert_true(wake_channel(core, app.client, 5, 0, ring.cq->id));
	core->drr.contended = false;
	assert_int_equal(own - app.client->share.credit, SHARE_WAKE);
	assert_int_equal(users - app.client->share.group->credit, SHARE_WAKE);
}

static void
test_resize(void **state)
{
	struct engine_cq_config config = {.log2 = 5};
	struct ring bigger = {.log2 = 5};
	struct one_cqe cqe;

	config.offset = app_alloc(&app, sizeof(struct one_cq_shm) + (sizeof(struct one_cqe) << 5));
	bigger.shm = (struct one_cq_shm *)(app.arena + config.offset);
	bigger.entries = (struct one_cqe *)(bigger.shm + 1);
	for (uint64_t i = 0; i < 7; i++)
		post(i, 0); /* the ring is full */
	ring_arm(&ring, one_arm(1, 4, 20));
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_CQ_RESIZE, .cq = ring.cq, .cq_config = config}),
			 0);
	assert_int_equal(word(4), 1); /* sleepers must arm the new ring */
	for (uint64_t i = 10; i < 30; i++)
		post(i, 0);
	for (uint64_t i = 0; i < 7; i++) {
		assert_true(ring_poll(&ring, &cqe));
		assert_int_equal(cqe.cookie, i);
	}
	assert_true(ring_poll(&ring, &cqe));
	assert_int_equal(cqe.type, ONE_CQE_SWITCHED);
	assert_false(ring_poll(&ring, &cqe));
	for (uint64_t i = 10; i < 30; i++) {
		assert_true(ring_poll(&bigger, &cqe));
		assert_int_equal(cqe.cookie, i);
	}
	assert_false(ring_poll(&async, &cqe));
	/* An offset outside the arena is refused, and the ring stays as it is. */
	config.offset = ONE_ARENA_SIZE - 64;
	assert_true(command((struct engine_command){
			    .type = ENGINE_CQ_RESIZE, .cq = ring.cq, .cq_config = config}) < 0);
	post(31, 0);
	assert_true(ring_poll(&bigger, &cqe));
	assert_int_equal(cqe.cookie, 31);
}

/* An armed ring is resized. */
static void
resize_armed(uint16_t flag, uint8_t before, uint32_t wakes, bool answered)
{
	struct engine_cq_config config = {.log2 = 5};

	config.offset = app_alloc(&app, sizeof(struct one_cq_shm) + (sizeof(struct one_cqe) << 5));
	ring_arm(&ring, one_arm(1, 4 | flag, 0));
	if (before != 0) /* pushed in the same loop */
		cq_push(engine.core[0], ring.cq, &(struct one_cqe){.type = ONE_CQE_SEND, .flags = before});
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_CQ_RESIZE, .cq = ring.cq, .cq_config = config}),
			 0);
	assert_int_equal(word(4), wakes);
	assert_int_equal(ring_armed(&ring), !answered);
}

/* Without an entry the arm moves to the new ring, and the old ring gives no event. */
static void
test_resize_armed(void **state)
{
	resize_armed(ONE_ARM_NEXT, 0, 0, false);
}

static void
test_resize_solicited(void **state)
{
	resize_armed(ONE_ARM_SOLICITED, ONE_CQE_NOTIFY, 0, false);
}

/* The awaited entry is there, and its event has been given: no arm is left to move. */
static void
test_resize_answered(void **state)
{
	resize_armed(ONE_ARM_NEXT, ONE_CQE_NOTIFY, 1, true);
}

/* An arm for an entry stored earlier is answered when a doorbell of one of the ring's queue pairs is rung. */
static void
test_arm_for_what_is_there(void **state)
{
	struct pair pair;

	pair_new(&app, &ring, NULL, NULL, NULL, &pair);
	post(0, ONE_CQE_NOTIFY);
	turn(1);
	ring_arm(&ring, one_arm(1, 5 | ONE_ARM_NEXT, ring.head));
	turn(50);
	assert_int_equal(word(5), 0);
	one_doorbell_ring(app.doorbells, pair.doorbell);
	turn(50);
	assert_int_equal(word(5), 1);
	one_doorbell_ring(app.doorbells, pair.doorbell);
	turn(50);
	assert_int_equal(word(5), 1); /* one event for each arm */
	pair_end(&pair);
}

static void
test_places_refused(void **state)
{
	static const uint64_t offsets[] = {0, 32, ONE_ARENA_SIZE, ONE_ARENA_SIZE - 64, UINT64_MAX - 63};
	static const uint32_t log2s[] = {0, ONE_RING_LOG2_MAX + 1, 34};

	for (size_t i = 0; i < RTE_DIM(offsets); i++) {
		const struct engine_cq_config config = {.bundle = 4096, .offset = offsets[i], .log2 = 4};
		const struct engine_cq_config bundle = {.bundle = offsets[i], .offset = 8192, .log2 = 4};

		assert_null(engine_cq_new(app.client, &config));
		assert_null(engine_cq_new(app.client, &bundle));
	}
	for (size_t i = 0; i < RTE_DIM(log2s); i++) {
		const struct engine_cq_config config = {.bundle = 4096, .offset = 8192, .log2 = log2s[i]};

		assert_null(engine_cq_new(app.client, &config));
	}
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_many_laps),
		T(test_posts_are_counted),
		T(test_overflow),
		T(test_head_beyond_tail),
		T(test_head_far_away),
		T(test_head_behind_itself),
		T(test_arm),
		T(test_arm_and_unsignaled),
		T(test_arm_of_no_channel),
		T(test_wakes_a_sleeper),
		T(test_resize),
		T(test_places_refused),
		T(test_arm_by_descriptor),
		T(test_arm_for_solicited),
		T(test_arm_for_next),
		T(test_order_of_rings),
		T(test_slow_wakes),
		T(test_resize_armed),
		T(test_resize_solicited),
		T(test_resize_answered),
		T(test_arm_for_what_is_there),
		T(test_wakes_few),
		T(test_wakes_are_charged),
	};

	return cmocka_run_group_tests(tests, group_start, group_stop);
}
