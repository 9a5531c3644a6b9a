/* SPDX-License-Identifier: BSD-3-Clause */
/* Attachments that end at any moment. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach.h"

static void
send_step(struct app *app, enum one_msg_type type)
{
	int fd;

	if (type != ONE_MSG_REGION_ADD) {
		app_post(app, type);
		return;
	}
	fd = memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(fallocate(fd, 0, 0, SIZE), 0);
	app->msg.type = type;
	assert_true(app_send(app, &app->msg, sizeof(app->msg), &fd, 1));
	close(fd);
}

/* Makes one object of each kind; ends before request number `stop` is answered. */
static void
life(int stop)
{
	struct app app;
	uint32_t pz = 0, cq = 0, region = 0;
	struct one_qp_created qp = {0}, other = {0};
	struct one_mr_created mr = {0};

	app_hello(&app, ONE_KIND_DAT);
	for (int step = 0;; step++) {
		enum one_msg_type type = 0;

		memset(app.msg.bytes, 0, sizeof(app.msg.bytes));
		switch (step) {
		case 0:
			type = ONE_MSG_PZ_CREATE;
			break;
		case 1:
			type = ONE_MSG_CQ_CREATE;
			app.msg.cq_create.entries = 100;
			break;
		case 2:
			type = ONE_MSG_PZ_CREATE;
			break;
		case 3:
			type = ONE_MSG_CQ_RESIZE;
			app.msg.cq_resize = (struct one_cq_resize){.cq = cq, .entries = 300};
			break;
		case 4:
		case 5:
			type = ONE_MSG_QP_CREATE;
			app.msg.qp_create = (struct one_qp_create){
				.pz = pz, .send_cq = cq, .conn_cq = cq, .max_send_wr = 4, .max_send_sge = 1};
			break;
		case 6:
			type = ONE_MSG_REGION_ADD;
			app.msg.region_add = (struct one_region_add){.size = SIZE};
			break;
		case 7:
			type = ONE_MSG_MR_CREATE;
			app.msg.mr_create =
				(struct one_mr_create){.pz = pz,
						       .access = ONE_ACCESS_ALL,
						       .va = VA,
						       .length = 2 * SIZE,
						       .num_pieces = 2,
						       .piece = {{.region = region, .length = SIZE},
								 {.region = region, .length = SIZE}}};
			break;
		case 8:
			type = ONE_MSG_MW_CREATE;
			app.msg.mw_create.pz = pz;
			break;
		case 9:
			type = ONE_MSG_LISTEN;
			app.msg.listen = (struct one_listen){.service = 5000, .cq = cq};
			break;
		case 10:
			type = ONE_MSG_QP_CONNECT;
			app.msg.qp_connect = (struct one_qp_connect){.qp = qp.qp,
								     .family = AF_INET,
								     .addr = {192, 0, 2, 1},
								     .service = 5000,
								     .timeout_us = UINT64_MAX};
			break;
		case 11: {
			const struct fake_event event = await(ONE_CQE_REQUEST, 0);

			type = ONE_MSG_CR_ACCEPT;
			app.msg.cr_accept.cr = ((const struct one_cr_shm *)(app.arena + event.cookie))->cr;
			app.msg.cr_accept.qp = other.qp;
			break;
		}
		case 12:
			type = ONE_MSG_STAGING;
			app.msg.staging = (struct one_staging){.size = 10000, .pz = pz};
			break;
		case 13:
			type = ONE_MSG_COPIES;
			break;
		case 14:
			type = ONE_MSG_RSM_PUBLISH;
			app.msg.rsm_publish = (struct one_rsm_publish){
				.mr = mr.mr, .segment = 0x500000, .default_permission = 0600};
			break;
		case 15:
			type = ONE_MSG_RSM_CONNECT;
			app.msg.rsm_connect = (struct one_rsm_connect){.node = 1,
								       .segment = 0x500000,
								       .permission = 0600,
								       .cq = cq,
								       .max_send_wr = 4,
								       .pz = pz};
			break;
		case 16:
			type = ONE_MSG_RSM_UNPUBLISH;
			app.msg.rsm_publish.segment = 0x500000;
			break;
		case 17:
			type = ONE_MSG_QP_FREE;
			app.msg.id.id = qp.qp;
			break;
		case 18:
			type = ONE_MSG_MR_FREE;
			app.msg.id.id = mr.mr;
			break;
		default:
			app_close(&app);
			return;
		}
		if (step == stop) {
			/* The client dies while held commands and grace periods delay everything. */
			fake_hold(true, true);
			send_step(&app, type);
			pause_ms(5);
			app_close(&app);
			pause_ms(5);
			assert_true(fake_objects() > 0);
			fake_hold(false, true);
			pause_ms(5);
			fake_hold(false, false);
			return;
		}
		send_step(&app, type);
		assert_int_equal(app_receive(&app), 1);
		assert_int_equal(app.reply.error, 0);
		if (type == ONE_MSG_REGION_ADD)
			region = app.reply.id.id;
		else if (type == ONE_MSG_CQ_CREATE)
			cq = app.reply.cq.cq;
		else if (step == 4)
			qp = app.reply.qp;
		else if (step == 5)
			other = app.reply.qp;
		else if (type == ONE_MSG_MR_CREATE)
			mr = app.reply.mr;
		else if (type == ONE_MSG_PZ_CREATE)
			pz = app.reply.id.id;
	}
}

static void
test_death_at_each_step(void **state)
{
	for (int stop = 0; stop <= 19; stop++) {
		life(stop);
		assert_clean();
		forget_events();
	}
}

/* A command that the core refuses undoes the request. */
static void
test_core_refuses(void **state)
{
	struct app app;
	uint32_t pz, cq;

	app_hello(&app, ONE_KIND_DAT);
	pz = app_pz(&app);
	cq = app_cq(&app, 10);
	fake_refuse(ENGINE_CQ_ADD, -ENOMEM);
	app.msg.cq_create.entries = 10;
	assert_int_equal(app_call(&app, ONE_MSG_CQ_CREATE), -ENOMEM);
	fake_refuse(ENGINE_CQ_RESIZE, -EINVAL);
	app.msg.cq_resize = (struct one_cq_resize){.cq = cq, .entries = 100};
	assert_int_equal(app_call(&app, ONE_MSG_CQ_RESIZE), -EINVAL);
	app.msg.cq_resize = (struct one_cq_resize){.cq = cq, .entries = 100};
	assert_int_equal(app_call(&app, ONE_MSG_CQ_RESIZE), 0);
	fake_refuse(ENGINE_QP_ADD, -EEXIST);
	app.msg.qp_create = (struct one_qp_create){.pz = pz, .send_cq = cq};
	/* QP_CREATE is answered before the core has the queue pair. If the core then refuses it, the
	 * attachment ends. */
	assert_int_equal(app_call(&app, ONE_MSG_QP_CREATE), 0);
	app.msg.id.id = app.reply.qp.qp;
	app_post(&app, ONE_MSG_QP_FREE);
	assert_ended(&app);
	assert_clean();
}

static void
test_faults(void **state)
{
	struct app app;

	app_hello(&app, ONE_KIND_DAT);
	fake_fault_first_client();
	assert_ended(&app);
	assert_clean();
	app_hello(&app, ONE_KIND_DAT);
	fake_guard_first_region();
	assert_int_equal(app_receive(&app), 0);
	assert_int_equal(atomic_load(&((struct one_arena *)app.arena)->fault), ONE_FAULT_MEMORY);
	app_close(&app);
	assert_clean();
}

/* A live application is notified of the end after its core let go of it, so all that the core still carries
 * out precedes the notification. */
static void
test_notified_last(void **state)
{
	struct app app;

	app_hello(&app, ONE_KIND_DAT);
	fake_hold(true, false);
	fake_fault_first_client();
	while (fake_waiting() == 0) /* until its removal is sent */
		pause_ms(1);
	assert_int_equal(poll(&(struct pollfd){.fd = app.fd, .events = POLLIN}, 1, 50), 0);
	fake_hold(false, false);
	assert_ended(&app);
	assert_clean();
}

/* A child that inherited the socket does not keep a dead parent's attachment alive. */
static void
test_death_with_heirs(void **state)
{
	int ready[2], status;
	pid_t pid, heir = 0;
	char byte;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		struct app app;

		app_connect(&app);
		app.msg.hello = (struct one_hello){
			.magic = ONE_MSG_MAGIC, .version = ONE_ABI_VERSION, .kind = ONE_KIND_DAT};
		app.msg.type = ONE_MSG_HELLO;
		if (!app_send(&app, &app.msg, sizeof(app.msg), NULL, 0) ||
		    recv(app.fd, &app.reply, sizeof(app.reply), 0) != (ssize_t)sizeof(app.reply))
			_exit(1);
		heir = fork();
		if (heir == 0) {
			pause();
			_exit(0);
		}
		if (write(ready[1], &heir, sizeof(heir)) != (ssize_t)sizeof(heir))
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(ready[0], &heir, sizeof(heir)), sizeof(heir));
	assert_true(fake_objects() > 0);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	while (fake_objects() != 0)
		pause_ms(1);
	kill(heir, SIGKILL);
	assert_int_equal(read(ready[0], &byte, 0), 0);
	close(ready[0]);
	close(ready[1]);
	assert_clean();
}

/* Each transition of an attachment is traced, in order and with its reason, and is a legal one. */
static void
test_edges(void **state)
{
	struct app app;

	attach_transitions_clear();
	app_hello(&app, ONE_KIND_DAT);
	app_close(&app);
	assert_clean();
	assert_string_equal(attach_transitions(), "connected -> attached: HELLO\n"
						  "attached -> leaving: its process or its socket has gone\n"
						  "leaving -> removing: nothing is under way\n"
						  "removing -> quiescing: the core has removed its objects\n"
						  "quiescing -> gone: the grace period has ended\n");
}

int
end_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_death_at_each_step),
		cmocka_unit_test(test_core_refuses),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_notified_last),
		cmocka_unit_test(test_death_with_heirs),
		cmocka_unit_test(test_edges),
	};

	return cmocka_run_group_tests_name("control: ends", tests, NULL, NULL);
}
