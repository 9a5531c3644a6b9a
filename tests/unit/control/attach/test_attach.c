/* SPDX-License-Identifier: BSD-3-Clause */
/* The control thread behind its socket: well-behaved applications, hostile ones, and those that die at any
 * moment. The engine is a fake that checks the order of commands. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "attach.h"
#include "control/base/loop.h"
#include "control/daemon/daemon.h"

pthread_t control_thread;
static char directory[64];

/* ---- messages ---- */

static void
test_welcome(void **state)
{
	struct app app;
	const struct one_arena *arena;

	app_hello(&app, ONE_KIND_DAT);
	arena = (const struct one_arena *)app.arena;
	assert_int_equal(app.welcome.version, ONE_ABI_VERSION);
	assert_int_equal(app.welcome.node_id, 1);
	assert_int_equal(app.welcome.family, AF_INET);
	assert_memory_equal(app.welcome.addr, "\xc0\x00\x02\x01", 4);
	assert_int_equal(app.welcome.mtu, 4096);
	assert_string_equal(app.welcome.port, "p0");
	assert_int_equal(app.welcome.limits.max_srq, config.limits.max_srq);
	assert_int_equal(arena->magic, ONE_ARENA_MAGIC);
	assert_int_equal(arena->size, ONE_ARENA_SIZE);
	assert_true(arena->doorbells >= sizeof(*arena));
	assert_true(arena->channels >= arena->doorbells + sizeof(struct one_doorbells));
	assert_true(app.welcome.async_cq_offset >=
		    arena->channels + ONE_CHANNELS * sizeof(struct one_channel));
	app_close(&app);
	assert_clean();
}

int
hello_error(uint32_t magic, uint32_t version, uint32_t kind, const char *port)
{
	struct app app;
	int error;

	app_connect(&app);
	app.msg.hello = (struct one_hello){.magic = magic, .version = version, .kind = kind};
	snprintf(app.msg.hello.port, sizeof(app.msg.hello.port), "%s", port);
	error = app_call(&app, ONE_MSG_HELLO);
	if (error != 0)
		assert_ended(&app);
	else
		app_close(&app);
	return error;
}

static void
test_hello_refusals(void **state)
{
	assert_int_equal(hello_error(ONE_MSG_MAGIC, ONE_ABI_VERSION, ONE_KIND_DAT, ""), 0);
	assert_int_equal(hello_error(ONE_MSG_MAGIC, ONE_ABI_VERSION, ONE_KIND_RSM, "p0"), 0);
	assert_int_equal(hello_error(ONE_MSG_MAGIC, ONE_ABI_VERSION, ONE_KIND_VERBS, "p0"), 0);
	assert_int_equal(hello_error(ONE_MSG_MAGIC + 1, ONE_ABI_VERSION, ONE_KIND_DAT, ""), -EPROTO);
	assert_int_equal(hello_error(ONE_MSG_MAGIC, ONE_ABI_VERSION + 1, ONE_KIND_DAT, ""), -EPROTO);
	assert_int_equal(hello_error(ONE_MSG_MAGIC, ONE_ABI_VERSION, 4, ""), -EINVAL);
	assert_int_equal(hello_error(ONE_MSG_MAGIC, ONE_ABI_VERSION, ONE_KIND_DAT, "p1"), -ENODEV);
	fake_refuse(ENGINE_CLIENT_ADD, -ENOMEM);
	assert_int_equal(hello_error(ONE_MSG_MAGIC, ONE_ABI_VERSION, ONE_KIND_DAT, ""), -ENOMEM);
	assert_clean();
}

/* The memory that an attachment takes before it has any object is charged to its user, and given back. */
static void
test_attachment_is_charged(void **state)
{
	const uint64_t bytes = control.quota.max_bytes_per_uid;

	control.quota.max_bytes_per_uid = 100000; /* less than the arena's populated pages */
	assert_int_equal(hello_error(ONE_MSG_MAGIC, ONE_ABI_VERSION, ONE_KIND_DAT, ""), -EDQUOT);
	assert_clean();
	control.quota.max_bytes_per_uid = 400000; /* room for two attachments at once, not three */
	for (int i = 0; i < 5; i++) {
		assert_int_equal(hello_error(ONE_MSG_MAGIC, ONE_ABI_VERSION, ONE_KIND_DAT, ""), 0);
		fake_refuse(ENGINE_CLIENT_ADD, -ENOMEM);
		assert_int_equal(hello_error(ONE_MSG_MAGIC, ONE_ABI_VERSION, ONE_KIND_DAT, ""), -ENOMEM);
	}
	assert_clean();
	control.quota.max_bytes_per_uid = bytes;
}

static void
test_protocol_faults(void **state)
{
	int fds[32];
	struct app app;

	for (int i = 0; i < 32; i++)
		fds[i] = memfd_create("x", MFD_CLOEXEC);
	base_fds += 32;
	/* messages of wrong sizes, before and after HELLO */
	for (int attached = 0; attached < 2; attached++) {
		const size_t sizes[] = {1, sizeof(struct one_msg) - 1, sizeof(struct one_msg) + 1};

		for (int i = 0; i < 3; i++) {
			if (attached)
				app_hello(&app, ONE_KIND_DAT);
			else
				app_connect(&app);
			app.msg.type = ONE_MSG_PZ_CREATE;
			assert_true(app_send(&app, &app.msg, sizes[i], NULL, 0));
			if (attached) {
				assert_int_equal(app_receive(&app), 0);
				assert_int_equal(atomic_load(&((struct one_arena *)app.arena)->fault),
						 ONE_FAULT_PROTOCOL);
				app_close(&app);
			} else {
				assert_ended(&app);
			}
		}
	}
	/* a request before HELLO, and a second HELLO */
	app_connect(&app);
	app_post(&app, ONE_MSG_PZ_CREATE);
	assert_ended(&app);
	app_hello(&app, ONE_KIND_DAT);
	app_post(&app, ONE_MSG_HELLO);
	assert_ended(&app);
	/* unknown message types */
	for (uint32_t type = ONE_MSG_MAX; type != 0; type = type == ONE_MSG_MAX ? UINT32_MAX : 0) {
		app_hello(&app, ONE_KIND_DAT);
		app_post(&app, type);
		assert_ended(&app);
	}
	/* unwanted descriptors up to the limit are closed; more end the attachment */
	app_hello(&app, ONE_KIND_DAT);
	app.msg.type = ONE_MSG_PZ_CREATE;
	assert_true(app_send(&app, &app.msg, sizeof(app.msg), fds, ONE_MSG_FDS));
	assert_int_equal(app_receive(&app), 1);
	assert_int_equal(app.reply.error, 0);
	for (uint32_t n = ONE_MSG_FDS + 1; n <= 32; n += 23) {
		struct app other;

		app_hello(&other, ONE_KIND_DAT);
		other.msg.type = ONE_MSG_PZ_CREATE;
		assert_true(app_send(&other, &other.msg, sizeof(other.msg), fds, n));
		assert_ended(&other);
	}
	app_close(&app);
	assert_clean();
	for (int i = 0; i < 32; i++)
		close(fds[i]);
	base_fds -= 32;
	assert_clean();
}

/* Requests may be sent before the first one, which a core delays, is answered. */
static void
test_impatience(void **state)
{
	struct app app;

	app_hello(&app, ONE_KIND_DAT);
	fake_hold(true, false);
	app.msg.cq_create.entries = 10;
	app_post(&app, ONE_MSG_CQ_CREATE);
	app_post(&app, ONE_MSG_PZ_CREATE);
	fake_hold(false, false);
	assert_int_equal(app_receive(&app), 1);
	assert_int_equal(app.reply.type, ONE_MSG_CQ_CREATE);
	assert_int_equal(app_receive(&app), 1);
	assert_int_equal(app.reply.type, ONE_MSG_PZ_CREATE);
	/* The application detaches while both requests wait. */
	fake_hold(true, false);
	app_post(&app, ONE_MSG_CQ_CREATE);
	app_post(&app, ONE_MSG_PZ_CREATE);
	app_close(&app);
	fake_hold(false, false);
	assert_clean();
}

/* Requests with ids of no object, then with random bytes, do no harm. */
static void
test_rubbish(void **state)
{
	struct app app;
	unsigned int seed = 7;

	app_hello(&app, ONE_KIND_DAT);
	for (uint32_t type = ONE_MSG_PZ_CREATE; type < ONE_MSG_MAX; type++) {
		if (type == ONE_MSG_PZ_CREATE || type == ONE_MSG_RSM_TOPOLOGY || type == ONE_MSG_COPIES ||
		    type == ONE_MSG_CHANNEL_OPEN)
			continue;
		memset(app.msg.bytes, type == ONE_MSG_CQ_CREATE ? 0 : 0xff, sizeof(app.msg.bytes));
		assert_int_not_equal(app_call(&app, type), 0);
	}
	for (int i = 0; i < 20000; i++) {
		uint32_t type =
			ONE_MSG_PZ_CREATE + (uint32_t)rand_r(&seed) % (ONE_MSG_MAX - ONE_MSG_PZ_CREATE);

		for (size_t n = 0; n < sizeof(app.msg.bytes); n++)
			app.msg.bytes[n] = (uint8_t)(rand_r(&seed) >> 8);
		/* Small numbers often are valid ids, and so lead further than random ones. */
		for (uint32_t n = 0; n < 12; n++)
			if (rand_r(&seed) % 3 != 0)
				memcpy(&app.msg.bytes[4 * n],
				       &(uint32_t){(uint32_t)rand_r(&seed) % 4 == 0
							   ? 0x10000 + (uint32_t)rand_r(&seed) % 3
							   : (uint32_t)rand_r(&seed) % 20},
				       4);
		app_call(&app, type);
	}
	app_close(&app);
	assert_clean();
	forget_events();
}

/* ---- the socket itself ---- */

static const struct ctl_source source = {.config = &config, .version = "0"};

static void *
serve(void *arg)
{
	return daemon_run() == 0 ? NULL : (void *)&config;
}

static void
start(void)
{
	char why[256] = "";

	if (daemon_init(&source, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	assert_int_equal(pthread_create(&control_thread, NULL, serve, NULL), 0);
}

static void
stop(void)
{
	void *result = NULL;

	daemon_stop();
	pthread_join(control_thread, &result);
	assert_null(result);
	daemon_fini();
}

static void
test_restart(void **state)
{
	struct app app;
	struct stat st;
	char why[256] = "";
	int fd;

	/* Stopping ends a live attachment: its application is notified, and no object is left. */
	app_hello(&app, ONE_KIND_DAT);
	app_qp(&app, app_pz(&app), app_cq(&app, 10));
	stop();
	assert_ended(&app);
	assert_int_equal(fake_objects(), 0);
	assert_int_equal(stat(app_socket, &st), -1);
	/* The socket of a dead data plane is replaced; another file, or a live one's socket, is not. */
	fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	{
		struct sockaddr_un address = {.sun_family = AF_UNIX};

		memcpy(address.sun_path, app_socket, sizeof(address.sun_path));
		assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
		assert_int_equal(listen(fd, 1), 0);
		assert_int_equal(daemon_init(&source, why, sizeof(why)), -EADDRINUSE);
		assert_non_null(strstr(why, app_socket));
		close(fd);
	}
	start();
	stop();
	fd = open(app_socket, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(daemon_init(&source, why, sizeof(why)), -EEXIST);
	assert_int_equal(unlink(app_socket), 0);
	start();
	app_hello(&app, ONE_KIND_DAT);
	app_close(&app);
	assert_clean();
}

void
attach_restart(void)
{
	stop();
	start();
}

static int
setup(void)
{
	snprintf(directory, sizeof(directory), "/tmp/test-attach.XXXXXX");
	if (mkdtemp(directory) == NULL)
		return -1;
	config_defaults(&config);
	config.node = 1;
	config.num_ports = 1;
	snprintf(config.port[0].name, sizeof(config.port[0].name), "p0");
	config.port[0].addr[0] = (struct config_addr){AF_INET, 24, {192, 0, 2, 1}};
	config.port[0].rnr_retry = 6;
	config.port[0].ack_timeout = 18;
	config.num_peers = 1;
	config.peer[0] = (struct config_peer){.node = 2, .addr = {AF_INET, 24, {192, 0, 2, 2}}};
	snprintf(config.socket, sizeof(config.socket), "%s/one.sock", directory);
	memcpy(app_socket, config.socket, sizeof(app_socket));
	config.socket_mode = 0600;
	config.metrics.family = AF_UNIX;
	snprintf(config.metrics.path, sizeof(config.metrics.path), "%s/metrics.sock", directory);
	config.limits.max_pz = 20;
	config.limits.max_cq = 30;
	config.limits.max_srq = 20;
	config.limits.max_ah = 20;
	config.limits.max_mr_total = 16 << 20;
	config.limits.max_listen = 60000;
	config.limits.max_segments = 4000;
	config.max_clients_per_uid = 3;
	config.max_bytes_per_uid = 24 << 20;
	attach_transitions_trace();
	start();
	/* Descriptors opened here stay open: no attachment may open one that is never closed. */
	base_fds = count_fds();
	return 0;
}

static void
teardown(void)
{
	stop();
	rmdir(directory);
	mem_table_free(engine_mem_table());
}

int
main(void)
{
	const struct CMUnitTest messages[] = {
		cmocka_unit_test(test_welcome),         cmocka_unit_test(test_hello_refusals),
		cmocka_unit_test(test_protocol_faults), cmocka_unit_test(test_impatience),
		cmocka_unit_test(test_rubbish),         cmocka_unit_test(test_attachment_is_charged),
	};
	const struct CMUnitTest socket_tests[] = {
		cmocka_unit_test(test_restart),
	};
	int failed;

	if (setup() != 0)
		return 1;
	failed = cmocka_run_group_tests_name("control: messages", messages, NULL, NULL);
	failed += user_tests() + object_tests() + renewable_tests() + joined_tests() + mapping_tests() +
		  connection_tests() + step_tests() + number_tests() + datagram_tests() + rsm_tests() +
		  identity_tests() + end_tests() + metrics_tests() + ctl_tests();
	failed += cmocka_run_group_tests_name("control: socket", socket_tests, NULL, NULL);
	teardown();
	return failed;
}
