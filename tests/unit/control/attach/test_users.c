/* SPDX-License-Identifier: BSD-3-Clause */
/* Concurrent requests of several users. The tests count and do not measure time. */
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach.h"
#include "control/attach/client.h"
#include "control/base/drr.h"
#include "control/path/path.h"
#include "tests/unit/watchers.h"

#define FLOOD 100
#define OTHER 54321 /* a uid */

/* Connects as another user: the kernel reports the credentials of the thread that connected. */
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

/* Forgives the debts of replies that took the kernel long, as on a busy machine. The control thread must be
 * stopped, or be the caller. */
static void
forget_debts(void)
{
	struct quota_account *account;

	LIST_FOREACH(account, &control.quota.accounts, link)
		account->drr.credit = 0;
}

/* While a hundred attachments of one user send requests, another user's request is served soon, though it
 * was sent last. */
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
	forget_debts();
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
	/* A loop receives 64 requests. So at most these precede the other user's: one turn before it is
	 * received, one in its round, and whatever the thread was busy with when it was stopped. */
	if (before > 3 * DRR_QUANTUM / 4)
		fail_msg("%u requests of the other user came first", before);
	for (uint32_t i = 0; i < FLOOD; i++)
		app_close(&flood[i]);
	app_close(&quiet);
	assert_clean();
	forget_events();
}

/* An attachment that ends while its request waits is released. */
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

#define PLACES 8u /* connection requests that may wait for an answer */

static struct one_qp_created qps[PLACES + 3];

static void
ask(struct app *app, uint32_t i, uint64_t service)
{
	assert_int_equal(app_connect_qp(app, qps[i].qp, service, UINT64_MAX), 0);
}

static uint32_t
await_cr(const struct app *app, uint32_t listener)
{
	return ((const struct one_cr_shm *)(app->arena + await(ONE_CQE_REQUEST, listener).cookie))->cr;
}

static void
refuse(struct app *app, uint32_t cr, uint32_t i)
{
	assert_int_equal(app_call_id(app, ONE_MSG_CR_REJECT, cr), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, qps[i].qp).status, ONE_CONN_PEER_REJECTED);
}

static uint32_t
listens(struct app *app, uint64_t service)
{
	app->msg.listen = (struct one_listen){.service = service, .cq = app_cq(app, 100)};
	assert_int_equal(app_call(app, ONE_MSG_LISTEN), 0);
	return app->reply.listening.listener;
}

/* A listener that answers no request, however many connect to it, does not block another user's listener. */
static void
test_unanswered(void **state)
{
	const enum quota_common what = QUOTA_REQUESTS;
	const uint32_t share = PLACES - PLACES / 4;
	struct app active, silent, other;
	struct one_qp_created own = {0};
	uint32_t cr[PLACES], unanswered, answered, cq, pz;

	if (geteuid() != 0)
		skip();
	control.quota.max_common[what] = path_port[0].env.max_half_open = PLACES;
	app_hello(&active, ONE_KIND_DAT);
	app_hello(&silent, ONE_KIND_DAT);
	hello_as(&other, OTHER);
	/* Ids of the two attachments must differ, because the fake distinguishes events by them. */
	pz = app_pz(&active);
	cq = app_cq(&active, 100);
	for (uint32_t i = 0; i < PLACES + 3; i++)
		qps[i] = app_qp(&active, pz, cq);
	unanswered = listens(&silent, 5000);
	listens(&other, 6001);
	answered = listens(&other, 6000);
	for (uint32_t i = 0; i < share; i++) {
		ask(&active, i, 5000);
		cr[i] = await_cr(&silent, unanswered);
	}
	ask(&active, share, 5000);
	assert_int_equal(await(ONE_CQE_CONNECT, qps[share].qp).status, ONE_CONN_NON_PEER_REJECTED);
	ask(&active, PLACES, 6000);
	refuse(&other, await_cr(&other, answered), PLACES);
	/* A place is free again after an answer, after the end of the requester, and after a connection. */
	refuse(&silent, cr[0], 0);
	ask(&active, PLACES + 1, 5000);
	await_cr(&silent, unanswered);
	assert_int_equal(app_call_id(&active, ONE_MSG_QP_FREE, qps[1].qp), 0);
	ask(&active, PLACES + 2, 5000);
	await_cr(&silent, unanswered);
	pz = app_pz(&silent);
	cq = app_cq(&silent, 100);
	for (uint32_t i = 0; i < PLACES + 4; i++)
		own = app_qp(&silent, pz, cq);
	silent.msg.cr_accept = (struct one_cr_accept){.cr = cr[2], .qp = own.qp};
	assert_int_equal(app_call(&silent, ONE_MSG_CR_ACCEPT), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, qps[2].qp).status, ONE_CONN_ESTABLISHED);
	assert_int_equal(await(ONE_CQE_CONNECT, own.qp).status, ONE_CONN_ESTABLISHED);
	assert_int_equal(app_call_id(&active, ONE_MSG_QP_RESET, qps[share].qp), 0);
	ask(&active, share, 5000);
	await_cr(&silent, unanswered);
	app_close(&silent);
	app_close(&active);
	app_close(&other);
	assert_clean();
	forget_events();
	assert_int_equal(control.quota.common[what], 0);
	control.quota.max_common[what] = path_port[0].env.max_half_open = PATH_REQUESTS_MAX;
}

/* ---- one user's objects, another's requests ---- */

#define OWNED 600u
#define BEFORE 256u /* objects of four loops: so long may requests wait while cores have many events */

static struct app asker;
static uint32_t removed, services;

static void
count_at_ring(void)
{
	removed = fake_sent(ENGINE_QP_REMOVE) - removed;
	services = control.quota.common[QUOTA_SERVICES];
}

static void
ask_for_ring(void)
{
	forget_debts();
	fake_on(ENGINE_CQ_ADD, count_at_ring);
	asker.msg.cq_create.entries = 16;
	app_post(&asker, ONE_MSG_CQ_CREATE);
}

/* Makes a queue pair that a core has: a datagram queue pair that receives. */
static void
give_to_core(struct app *app, uint32_t pz, uint32_t cq)
{
	app->msg.qp_create = (struct one_qp_create){.pz = pz,
						    .send_cq = cq,
						    .recv_cq = cq,
						    .max_send_wr = 1,
						    .max_recv_wr = 1,
						    .flags = ONE_QP_UD};
	assert_int_equal(app_call(app, ONE_MSG_QP_CREATE), 0);
	app->msg.qp_datagram = (struct one_qp_datagram){.qp = app->reply.qp.qp, .state = ONE_DATAGRAM_RTR};
	assert_int_equal(app_call(app, ONE_MSG_QP_DATAGRAM), 0);
}

/* A request of one user does not wait until all objects of another user's ending attachment are removed. */
static void
test_end_in_slices(void **state)
{
	struct app app;
	uint32_t pz, cq;

	if (geteuid() != 0)
		skip();
	app_hello(&app, ONE_KIND_DAT);
	hello_as(&asker, OTHER);
	pz = app_pz(&app);
	cq = app_cq(&app, 10);
	for (uint32_t i = 0; i < OWNED; i++)
		give_to_core(&app, pz, cq);
	removed = fake_sent(ENGINE_QP_REMOVE);
	fake_on(ENGINE_QP_REMOVE, ask_for_ring);
	app_close(&app);
	/* The first removal was sent before the request. */
	assert_int_equal(app_receive(&asker), 1);
	if (removed > BEFORE)
		fail_msg("%u of %u queue pairs came first", removed, OWNED);
	app_close(&asker);
	assert_clean();
	forget_events();
}

static void
test_unhook_in_slices(void **state)
{
	struct app app;
	uint32_t cq;

	if (geteuid() != 0)
		skip();
	app_hello(&app, ONE_KIND_DAT);
	hello_as(&asker, OTHER);
	cq = app_cq(&app, 10);
	for (uint32_t i = 0; i < OWNED; i++) {
		app.msg.listen = (struct one_listen){.service = 7000 + i, .cq = cq};
		assert_int_equal(app_call(&app, ONE_MSG_LISTEN), 0);
	}
	fake_stop(true);
	close(app.fd);
	app.fd = -1;
	ask_for_ring();
	fake_stop(false);
	assert_int_equal(app_receive(&asker), 1);
	if (services < OWNED - BEFORE)
		fail_msg("%u of %u listeners were closed before", OWNED - services, OWNED);
	/* A service of a listener that is still being closed can be taken by another user. */
	cq = asker.reply.cq.cq;
	for (uint32_t i = OWNED; i-- > 0;) {
		asker.msg.listen = (struct one_listen){.service = 7000 + i, .cq = cq};
		assert_int_equal(app_call(&asker, ONE_MSG_LISTEN), 0);
	}
	app_close(&app);
	app_close(&asker);
	assert_clean();
	forget_events();
	assert_int_equal(control.quota.common[QUOTA_SERVICES], 0);
}

/* ---- debts ---- */

/* Waits until no attachment, and no account of a user, is left. */
static void
await_nobody(void)
{
	bool empty = false;

	while (!empty) {
		fake_stop(true);
		empty = LIST_EMPTY(&control.quota.accounts);
		fake_stop(false);
		pause_ms(1);
	}
}

static void
come_and_go(uid_t uid)
{
	struct app app;

	hello_as(&app, uid);
	app_close(&app);
	await_nobody();
}

/* The debt of a user above its ceilings outlives its last attachment. */
static void
test_debt(void **state)
{
	uint32_t made;

	if (geteuid() != 0)
		skip();
	await_nobody();
	made = fake_users_made();
	fake_debt(1);
	come_and_go(OTHER);
	come_and_go(OTHER);
	come_and_go(OTHER + 1);
	come_and_go(OTHER);
	assert_int_equal(fake_users_made() - made, 2);
	assert_int_equal(fake_users(), 2);
	/* The debt is paid. */
	fake_debt(0);
	come_and_go(OTHER);
	assert_int_equal(fake_users_made() - made, 2);
	come_and_go(OTHER);
	assert_int_equal(fake_users_made() - made, 3);
	/* At most USERS_DEBTORS users are remembered. */
	fake_debt(1);
	for (uint32_t i = 0; i <= USERS_DEBTORS; i++)
		come_and_go(OTHER + i);
	assert_int_equal(fake_users(), USERS_DEBTORS);
	fake_debt(0);
	attach_restart();
	assert_int_equal(fake_users(), 0);
}

/* ---- slow replies ---- */

/* True if the reply to a request left its user in debt, as requests alone never do. */
static bool
reply_is_charged(struct app *app)
{
	bool debt;

	fake_stop(true);
	forget_debts();
	fake_stop(false);
	app_pz(app);
	fake_stop(true);
	debt = LIST_FIRST(&control.quota.accounts)->drr.credit < 0;
	fake_stop(false);
	return debt;
}

/* The time that the kernel spends on a reply, as the application's socket demands, is charged to its user. */
static void
test_slow_replies(void **state)
{
	int watchers[WATCHERS];
	uint32_t replies = 0;
	struct app app;

	await_nobody();
	app_hello(&app, ONE_KIND_DAT);
	watch_socket(app.fd, watchers);
	while (!reply_is_charged(&app))
		assert_true(++replies < 1000);
	for (uint32_t i = 0; i < WATCHERS; i++)
		close(watchers[i]);
	app_close(&app);
	await_nobody();
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
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_flood),
					   cmocka_unit_test(test_gone),
					   cmocka_unit_test(test_unanswered),
					   cmocka_unit_test(test_end_in_slices),
					   cmocka_unit_test(test_unhook_in_slices),
					   cmocka_unit_test(test_debt),
					   cmocka_unit_test(test_slow_replies)};

	return cmocka_run_group_tests_name("control: users", tests, setup, teardown);
}
