/* SPDX-License-Identifier: BSD-3-Clause */
/* A segment is published and imported with the rights that the sender of the request has when it sends. A
 * single thread becomes other users, which needs root. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach.h"
#include "control/attach/identity.h"
#include "control/base/acl.h"

enum { OTHER = 1234, OTHER_GROUP = 4321, MANY = 100 };

struct pair_of_apps {
	struct app exporter, importer;
	uint32_t mr, pz, cq;
};

static void
open_apps(struct pair_of_apps *apps)
{
	app_hello(&apps->exporter, ONE_KIND_RSM);
	app_hello(&apps->importer, ONE_KIND_RSM);
	apps->mr =
		app_mr(&apps->exporter, app_pz(&apps->exporter), app_region(&apps->exporter, SIZE), VA, SIZE)
			.mr;
	apps->pz = app_pz(&apps->importer);
	apps->cq = app_cq(&apps->importer, 20);
}

static void
publish(struct pair_of_apps *apps, enum one_msg_type type, uint32_t mode)
{
	apps->exporter.msg.rsm_publish =
		(struct one_rsm_publish){.mr = apps->mr, .segment = 0x400000, .default_permission = mode};
	assert_int_equal(app_call(&apps->exporter, type), 0);
}

/* Changes this thread only, temporarily: the C library's calls would change the control thread, too. */
static void
become(uint32_t uid, uint32_t gid, uint32_t num_groups, const gid_t *group)
{
	assert_int_equal(syscall(SYS_setresuid, -1, 0, -1), 0);
	assert_int_equal(syscall(SYS_setgroups, num_groups, group), 0);
	assert_int_equal(syscall(SYS_setresgid, gid, gid, 0), 0);
	assert_int_equal(syscall(SYS_setresuid, uid, uid, 0), 0);
}

static void
become_root(void)
{
	assert_int_equal(syscall(SYS_setresuid, 0, 0, 0), 0);
	assert_int_equal(syscall(SYS_setresgid, 0, 0, 0), 0);
	assert_int_equal(syscall(SYS_setgroups, 0, NULL), 0);
}

/* Returns one socket of a pair, which carries the credentials of this thread. */
static int
proof(void)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	close(pair[1]);
	return pair[0];
}

/* Returns the outcome of an import. `fd` is the proof of groups, and is closed; -1: none. */
static int
import(struct pair_of_apps *apps, uint32_t permission, int fd)
{
	struct app *app = &apps->importer;
	int outcome;

	app->msg.rsm_connect = (struct one_rsm_connect){.node = 1,
							.segment = 0x400000,
							.permission = permission,
							.cq = apps->cq,
							.max_send_wr = 8,
							.pz = apps->pz};
	assert_int_equal(
		fd < 0 ? app_call(app, ONE_MSG_RSM_CONNECT) : app_call_fd(app, ONE_MSG_RSM_CONNECT, fd), 0);
	outcome = await(ONE_CQE_RSM, app->reply.qp.qp).status;
	assert_int_equal(app_call_id(app, ONE_MSG_RSM_DISCONNECT, app->reply.qp.qp), 0);
	if (fd >= 0)
		close(fd);
	return outcome;
}

static void
close_apps(struct pair_of_apps *apps)
{
	app_close(&apps->exporter);
	app_close(&apps->importer);
	assert_clean();
}

/* The kernel refuses credentials (SCM_CREDENTIALS) that the sender could not assume. */
static int claim_error;

static void *
claim_root(void *arg)
{
	struct app *app = arg;
	struct ucred root = {.pid = getpid()};

	if (syscall(SYS_setresuid, OTHER, OTHER, OTHER) != 0)
		return NULL;
	app->as = &root;
	claim_error = app_send(app, &app->msg, sizeof(app->msg), NULL, 0) ? 0 : errno;
	app->as = NULL;
	return NULL;
}

/* An importer that gave up its rights after attaching has only those of its new user. */
static void
test_dropped(void **state)
{
	struct pair_of_apps apps;
	pthread_t thread;

	if (geteuid() != 0)
		skip();
	open_apps(&apps);
	publish(&apps, ONE_MSG_RSM_PUBLISH, 0600);
	assert_int_equal(import(&apps, 0600, proof()), RSM_OK);
	become(OTHER, OTHER_GROUP, 0, NULL);
	assert_int_equal(import(&apps, 0400, proof()), RSM_PERM_DENIED);
	become_root();
	assert_int_equal(pthread_create(&thread, NULL, claim_root, &apps.importer), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(claim_error, EPERM);
	publish(&apps, ONE_MSG_RSM_REPUBLISH, 0006);
	assert_int_equal(import(&apps, 0400, proof()), RSM_PERM_DENIED);
	become(OTHER, OTHER_GROUP, 0, NULL);
	assert_int_equal(import(&apps, 0600, proof()), RSM_OK);
	become_root();
	close_apps(&apps);
}

/* The owner of a segment is the user that registered its memory. */
static void
test_exporter_dropped(void **state)
{
	struct pair_of_apps apps;

	if (geteuid() != 0)
		skip();
	open_apps(&apps);
	become(OTHER, OTHER_GROUP, 0, NULL);
	apps.mr =
		app_mr(&apps.exporter, app_pz(&apps.exporter), app_region(&apps.exporter, SIZE), VA, SIZE).mr;
	become_root();
	publish(&apps, ONE_MSG_RSM_PUBLISH, 0600);
	assert_int_equal(import(&apps, 0400, proof()), RSM_PERM_DENIED);
	become(OTHER, OTHER_GROUP, 0, NULL);
	assert_int_equal(import(&apps, 0600, proof()), RSM_OK);
	become_root();
	close_apps(&apps);
}

/* Every supplementary group counts, the last of many too, whether that grants or denies. */
static void
test_many_groups(void **state)
{
	struct pair_of_apps apps;
	gid_t group[MANY];

	if (geteuid() != 0)
		skip();
	for (uint32_t i = 0; i < MANY; i++)
		group[i] = 1000 - i; /* group 0, the exporter's, is the last one below */
	group[MANY - 1] = 0;
	open_apps(&apps);
	publish(&apps, ONE_MSG_RSM_PUBLISH, 0060);
	become(OTHER, OTHER_GROUP, MANY, group);
	assert_int_equal(import(&apps, 0600, proof()), RSM_OK);
	publish(&apps, ONE_MSG_RSM_REPUBLISH, 0606);
	assert_int_equal(import(&apps, 0400, proof()), RSM_PERM_DENIED);
	become(OTHER, OTHER_GROUP, MANY - 1, group);
	assert_int_equal(import(&apps, 0600, proof()), RSM_OK);
	publish(&apps, ONE_MSG_RSM_REPUBLISH, 0660);
	assert_int_equal(import(&apps, 0400, proof()), RSM_PERM_DENIED);
	become_root();
	close_apps(&apps);
}

/* A proof that is not the sender's is ignored: the sender's groups are then unknown. */
static void
test_false_proof(void **state)
{
	const gid_t member = 0;
	struct pair_of_apps apps;
	struct app stranger;
	int files[2];

	if (geteuid() != 0)
		skip();
	open_apps(&apps);
	app_connect(&stranger);
	publish(&apps, ONE_MSG_RSM_PUBLISH, 0660);
	become(OTHER, OTHER_GROUP + 1, 1, &member);
	files[0] = proof(); /* made with another group */
	become_root();
	files[1] = proof(); /* made as another user */
	become(OTHER, OTHER_GROUP, 0, NULL);
	assert_int_equal(import(&apps, 0400, files[0]), RSM_PERM_DENIED);
	assert_int_equal(import(&apps, 0400, files[1]), RSM_PERM_DENIED);
	/* A socket whose peer the control thread has (not one of an attachment in use: a descriptor that is
	 * sent is closed with all that it holds); no socket at all; no descriptor. */
	publish(&apps, ONE_MSG_RSM_REPUBLISH, 0606);
	assert_int_equal(import(&apps, 0400, stranger.fd), RSM_PERM_DENIED);
	assert_int_equal(import(&apps, 0400, dup(STDIN_FILENO)), RSM_PERM_DENIED);
	assert_int_equal(import(&apps, 0400, -1), RSM_PERM_DENIED);
	assert_int_equal(import(&apps, 0400, proof()), RSM_OK);
	become_root();
	close_apps(&apps);
}

int
identity_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dropped),
		cmocka_unit_test(test_exporter_dropped),
		cmocka_unit_test(test_many_groups),
		cmocka_unit_test(test_false_proof),
	};

	return cmocka_run_group_tests_name("control: identity", tests, NULL, NULL);
}
