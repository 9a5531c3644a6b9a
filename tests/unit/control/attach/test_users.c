/* SPDX-License-Identifier: BSD-3-Clause */
/* Users whose requests come at the same time: counted, not timed. */
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach.h"
#include "control/base/turns.h"

#define FLOOD 100
#define OTHER 54321 /* a uid */

/* Connects as another user: what the kernel says of a socket is of the thread that connected. */
static void
hello_as(struct app *app, uid_t uid)
{
	char directory[sizeof(app_socket)];

	strcpy(directory, app_socket);
	*strrchr(directory, '/') = '\0';
	assert_int_equal(chmod(directory, 0711), 0);
	assert_int_equal(chmod(app_socket, 0666), 0);
	assert_int_equal(syscall(SYS_setresuid, -1, uid, -1), 0);
	app_connect(app);
	assert_int_equal(syscall(SYS_setresuid, -1, 0, -1), 0);
	app->msg.hello =
		(struct one_hello){.magic = ONE_MSG_MAGIC, .version = ONE_ABI_VERSION, .kind = ONE_KIND_DAT};
	assert_int_equal(app_call(app, ONE_MSG_HELLO), 0);
}

/* With a hundred attachments that ask at once there is room for one of another user, that asks last. */
static void
test_flood(void **state)
{
	static struct app flood[FLOOD];
	struct app quiet;
	uint8_t made[FLOOD + 1];
	uint32_t before = 0, n;

	if (geteuid() != 0)
		skip();
	for (uint32_t i = 0; i < FLOOD; i++)
		app_hello(&flood[i], ONE_KIND_DAT);
	hello_as(&quiet, OTHER);
	while (fake_made(made, sizeof(made)) != 0)
		;
	fake_stop(true);
	for (uint32_t i = 0; i < FLOOD; i++) {
		flood[i].msg.cq_create.entries = 16;
		app_post(&flood[i], ONE_MSG_CQ_CREATE);
	}
	quiet.msg.cq_create.entries = 16;
	app_post(&quiet, ONE_MSG_CQ_CREATE);
	fake_stop(false);
	for (uint32_t i = 0; i < FLOOD; i++)
		assert_int_equal(app_receive(&flood[i]), 1);
	assert_int_equal(app_receive(&quiet), 1);
	n = fake_made(made, sizeof(made));
	assert_int_equal(n, FLOOD + 1);
	while (before < n && made[before] == 0)
		before++;
	assert_int_not_equal(before, n);
	/* A loop hears 64 of them: so a turn of that user before it is heard, and one in its round; and
	 * whatever the thread was at when it was stopped. */
	if (before > 3 * TURNS_QUANTUM / 4)
		fail_msg("%u requests of the other user came first", before);
	for (uint32_t i = 0; i < FLOOD; i++)
		app_close(&flood[i]);
	app_close(&quiet);
	assert_clean();
	forget_events();
}

/* Who goes while its request waits is gone. */
static void
test_gone(void **state)
{
	static struct app flood[FLOOD];

	for (uint32_t i = 0; i < FLOOD; i++)
		app_hello(&flood[i], ONE_KIND_DAT);
	fake_stop(true);
	for (uint32_t i = 0; i < FLOOD; i++) {
		flood[i].msg.cq_create.entries = 16;
		app_post(&flood[i], ONE_MSG_CQ_CREATE);
		if (i % 3 == 0) {
			close(flood[i].fd);
			flood[i].fd = -1;
		}
	}
	fake_stop(false);
	for (uint32_t i = 0; i < FLOOD; i++)
		if (i % 3 != 0)
			assert_int_equal(app_receive(&flood[i]), 1);
	for (uint32_t i = 0; i < FLOOD; i++)
		app_close(&flood[i]);
	assert_clean();
	forget_events();
}

static uint32_t per_uid;

static int
setup(void **state)
{
	per_uid = config.max_clients_per_uid;
	config.max_clients_per_uid = FLOOD;
	attach_restart();
	return 0;
}

static int
teardown(void **state)
{
	config.max_clients_per_uid = per_uid;
	attach_restart();
	return 0;
}

int
user_tests(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_flood), cmocka_unit_test(test_gone)};

	return cmocka_run_group_tests_name("control: users", tests, setup, teardown);
}
