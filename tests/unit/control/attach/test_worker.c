/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers of users: none waits for another user's, and attachments of a user take turns on its worker. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "control/attach/client.h"
#include "tests.h"

struct counted {
	struct job job; /* first */
	sem_t *begun, *wait;
	int steps, total;
	char name;
	bool is_done;
	int result;
	pthread_t thread;
};

static char order[64]; /* names of steps, by the one thread that takes them */
static size_t num_steps;

static int
count_step(struct job *job)
{
	struct counted *counted = (struct counted *)job;

	if (counted->begun != NULL)
		sem_post(counted->begun);
	if (counted->wait != NULL)
		sem_wait(counted->wait);
	counted->thread = pthread_self();
	if (counted->name != 0 && num_steps < sizeof(order) - 1)
		order[num_steps++] = counted->name;
	return ++counted->steps < counted->total;
}

static void
count_done(struct job *job, int result)
{
	struct counted *counted = (struct counted *)job;

	counted->is_done = true;
	counted->result = result;
}

static struct counted
job_of(struct client *client, int total)
{
	return (struct counted){.job = {.step = count_step, .done = count_done, .client = client},
				.total = total};
}

/* Waits as the control thread does: for the descriptor that reports finished jobs. */
static void
until_done(const struct counted *counted)
{
	struct epoll_event event;

	while (!counted->is_done) {
		assert_int_equal(epoll_wait(control.epoll, &event, 1, -1), 1);
		workers_poll();
	}
}

static int
setup(void **state)
{
	control.epoll = epoll_create1(EPOLL_CLOEXEC);
	return workers_init();
}

static int
teardown(void **state)
{
	close(control.epoll);
	control.epoll = -1;
	return 0;
}

static void
test_users(void **state)
{
	static struct client many[32], other;
	static struct counted hers[32], his;
	sem_t begun, go;

	sem_init(&begun, 0, 0);
	sem_init(&go, 0, 0);
	for (int i = 0; i < 32; i++) {
		assert_int_equal(lane_open(&many[i].lane, 10), 0);
		hers[i] = job_of(&many[i], 3);
		hers[i].begun = &begun;
		hers[i].wait = &go;
		job_start(&hers[i].job);
	}
	sem_wait(&begun);
	/* Her jobs are blocked. His, another user's, must not wait for them. */
	assert_int_equal(lane_open(&other.lane, 11), 0);
	his = job_of(&other, 5);
	job_start(&his.job);
	until_done(&his);
	assert_int_equal(his.steps, 5);
	assert_int_equal(his.result, 0);
	assert_int_equal(other.jobs, 0);
	assert_false(pthread_equal(his.thread, pthread_self()));
	for (int i = 0; i < 32; i++)
		assert_false(hers[i].is_done);
	for (int i = 0; i < 32 * 3; i++)
		sem_post(&go);
	for (int i = 0; i < 32; i++) {
		until_done(&hers[i]);
		assert_int_equal(hers[i].steps, 3);
		assert_true(pthread_equal(hers[i].thread, hers[0].thread) != 0);
		lane_close(&many[i].lane);
	}
	lane_close(&other.lane);
}

/* Two attachments take steps in turn, however many jobs one of them has. */
static void
test_attachments(void **state)
{
	static struct client a, b;
	struct counted first = job_of(&a, 1), more[3], one;
	sem_t begun, go;

	sem_init(&begun, 0, 0);
	sem_init(&go, 0, 0);
	num_steps = 0;
	memset(order, 0, sizeof(order));
	assert_int_equal(lane_open(&a.lane, 10), 0);
	assert_int_equal(lane_open(&b.lane, 10), 0);
	first.begun = &begun;
	first.wait = &go;
	job_start(&first.job);
	sem_wait(&begun);
	for (int i = 0; i < 3; i++) {
		more[i] = job_of(&a, 2);
		more[i].name = (char)('1' + i);
		job_start(&more[i].job);
	}
	one = job_of(&b, 3);
	one.name = 'b';
	job_start(&one.job);
	sem_post(&go);
	until_done(&more[2]);
	assert_true(one.is_done);
	assert_string_equal(order, "1b1b2b233");
	assert_int_equal(a.jobs + b.jobs, 0);
	lane_close(&a.lane);
	lane_close(&b.lane);
}

static void
test_cancel(void **state)
{
	static struct client client;
	struct counted populating = job_of(&client, 1000000), freeing = job_of(&client, 3);
	sem_t begun, go;

	sem_init(&begun, 0, 0);
	sem_init(&go, 0, 0);
	assert_int_equal(lane_open(&client.lane, 10), 0);
	populating.job.cancelable = true;
	populating.begun = &begun;
	populating.wait = &go;
	job_start(&populating.job);
	sem_wait(&begun);
	lane_cancel(&client.lane);
	job_start(&freeing.job);
	sem_post(&go);
	until_done(&freeing);
	assert_true(populating.is_done);
	assert_int_equal(populating.result, -ECANCELED);
	assert_int_equal(populating.steps, 1);
	assert_int_equal(freeing.result, 0);
	assert_int_equal(freeing.steps, 3);
	lane_close(&client.lane);
}

int
worker_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_users),
		cmocka_unit_test(test_attachments),
		cmocka_unit_test(test_cancel),
	};

	return cmocka_run_group_tests_name("control: workers", tests, setup, teardown);
}
