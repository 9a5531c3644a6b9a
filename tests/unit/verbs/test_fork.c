/* SPDX-License-Identifier: BSD-3-Clause */
/* libibverbs and librdmacm in a child after fork: the child cannot use the parent's objects, whatever locks
 * other threads held, and can use all objects that it creates itself. */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

#define CHILD_LIMIT_S 120 /* a child that hangs is killed then */

static struct mock *mock;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *completions;
static struct ibv_cq_ex *cq;
static struct ibv_qp *qp;
static struct ibv_srq *srq;
static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;
static struct rdma_cm_event *unacknowledged;
static uint32_t cq_id, qp_id; /* object ids in the mock */

static struct sockaddr *
peer(void)
{
	static struct sockaddr_in in = {.sin_family = AF_INET};

	in.sin_port = htons(7000);
	assert_int_equal(inet_pton(AF_INET, "192.0.2.2", &in.sin_addr), 1);
	return (struct sockaddr *)&in;
}

static int
setup(void **state)
{
	struct ibv_cq_init_attr_ex cq_init = {.cqe = 10, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_qp_init_attr_ex init = {.cap = {.max_send_wr = 4, .max_recv_wr = 4},
					   .qp_type = IBV_QPT_RC,
					   .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					   .send_ops_flags = IBV_QP_EX_WITH_SEND};
	struct ibv_device **list;

	mock = mock_start();
	mock_welcome(mock)->family = AF_INET;
	memcpy(mock_welcome(mock)->addr, "\xc0\x00\x02\x01", 4);
	list = ibv_get_device_list(NULL);
	context = ibv_open_device(list[0]);
	assert_non_null(context);
	ibv_free_device_list(list);
	init.pd = pd = ibv_alloc_pd(context);
	cq_init.channel = completions = ibv_create_comp_channel(context);
	cq = ibv_create_cq_ex(context, &cq_init);
	assert_non_null(cq);
	cq_id = mock_newest(mock, ONE_MSG_CQ_CREATE);
	init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
	qp = ibv_create_qp_ex(context, &init);
	srq = ibv_create_srq(pd, &srq_init);
	assert_non_null(qp);
	qp_id = mock_newest(mock, ONE_MSG_QP_CREATE);
	assert_non_null(srq);
	channel = rdma_create_event_channel();
	assert_non_null(channel);
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, peer(), 1000), 0);
	assert_int_equal(rdma_get_cm_event(channel, &unacknowledged), 0);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	return 0;
}

/* ---- in the child: no assertions, because their output would appear as the parent's ---- */

#define CHECK(condition)                           \
	do {                                       \
		if (!(condition))                  \
			_exit(__LINE__ % 251 + 1); \
	} while (0)

/* Calls locking functions whose locks another thread of the parent may have held. */
static void
use_verbs_of_parent(void)
{
	struct ibv_async_event event = {.event_type = IBV_EVENT_QP_ACCESS_ERR, .element.qp = qp};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_recv_wr recv = {0}, *bad_recv = NULL;
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send = NULL;
	struct ibv_poll_cq_attr poll_attr = {0};
	struct ibv_wc wc;

	CHECK(ibv_poll_cq(ibv_cq_ex_to_cq(cq), 1, &wc) == -1 && errno == ECHILD);
	CHECK(ibv_start_poll(cq, &poll_attr) == ECHILD);
	CHECK(ibv_req_notify_cq(ibv_cq_ex_to_cq(cq), 0) == ECHILD);
	CHECK(ibv_post_send(qp, &send, &bad_send) == ECHILD && bad_send == &send);
	CHECK(ibv_post_recv(qp, &recv, &bad_recv) == ECHILD && bad_recv == &recv);
	CHECK(ibv_post_srq_recv(srq, &recv, &bad_recv) == ECHILD && bad_recv == &recv);
	ibv_wr_start(ibv_qp_to_qp_ex(qp));
	ibv_wr_send(ibv_qp_to_qp_ex(qp));
	CHECK(ibv_wr_complete(ibv_qp_to_qp_ex(qp)) == ECHILD);
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == ECHILD);
	CHECK(ibv_resize_cq(ibv_cq_ex_to_cq(cq), 20) == ECHILD);
	ibv_ack_cq_events(ibv_cq_ex_to_cq(cq), 1);
	ibv_ack_async_event(&event);
	CHECK(ibv_destroy_qp(qp) == ECHILD);
	CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == EBUSY); /* used by the queue pair */
	CHECK(ibv_destroy_srq(srq) == ECHILD);
	CHECK(ibv_close_device(context) == 0);
}

static void
use_rdmacm_of_parent(void)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *other;

	CHECK(rdma_get_cm_event(channel, &event) == -1 && errno == ECHILD);
	CHECK(rdma_create_id(channel, &other, NULL, RDMA_PS_TCP) == -1 && errno == ECHILD);
	CHECK(rdma_migrate_id(id, NULL) == -1 && errno == ECHILD);
	CHECK(rdma_destroy_id(id) == 0); /* does not wait for an acknowledgement in the child */
	rdma_destroy_event_channel(channel);
}

/* Uses a new channel and its thread. Not with ThreadSanitizer, which has no threads after fork. */
static void
use_own(void)
{
#ifndef __SANITIZE_THREAD__
	struct rdma_event_channel *own = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *mine;

	CHECK(own != NULL);
	CHECK(rdma_create_id(own, &mine, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_resolve_addr(mine, NULL, peer(), 1000) == 0);
	CHECK(rdma_get_cm_event(own, &event) == 0);
	CHECK(event->event == RDMA_CM_EVENT_ADDR_RESOLVED && event->id == mine);
	CHECK(rdma_ack_cm_event(event) == 0);
	CHECK(rdma_bind_addr(mine, peer()) == -1 && errno == EINVAL);
	CHECK(ibv_alloc_pd(mine->verbs) != NULL);
	CHECK(rdma_destroy_id(mine) == 0);
	rdma_destroy_event_channel(own);
#endif
}

static void
run_child(void)
{
	alarm(CHILD_LIMIT_S);
	use_verbs_of_parent();
	use_rdmacm_of_parent();
	use_own();
	_exit(0);
}

/* ---- in the parent ---- */

static _Atomic bool asked, forking;

/* Delays the reply, so that rdma_listen() holds the lock of librdmacm until a fork is under way. */
static bool
answer_late(struct mock *m, const struct one_msg *msg, const int *fds, uint32_t num_fds,
	    struct one_reply *reply, void *user)
{
	asked = true;
	while (!forking)
		usleep(1000);
	usleep(100000);
	return false;
}

static void *
listen_on_thread(void *arg)
{
	assert_int_equal(rdma_listen(arg, 1), 0);
	return NULL;
}

/* Holds the locks of a CQ, of a queue pair's send ring and of the queue pair's events during the fork. */
static void *
hold_locks(void *arg)
{
	struct ibv_poll_cq_attr attr = {0};
	const struct one_cqe cqe = {
		.object = qp_id, .type = ONE_CQE_RECV, .flags = ONE_CQE_NOTIFY, .op = ONE_OP_RECV};

	assert_true(mock_cqe(mock, cq_id, &cqe));
	assert_int_equal(ibv_start_poll(cq, &attr), 0);
	ibv_wr_start(ibv_qp_to_qp_ex(qp));
	pthread_mutex_lock(&qp->mutex);
	asked = true;
	while (forking)
		usleep(1000);
	pthread_mutex_unlock(&qp->mutex);
	ibv_wr_abort(ibv_qp_to_qp_ex(qp));
	ibv_end_poll(cq);
	return NULL;
}

static void
expect_good_child(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status)); /* not killed by its alarm */
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void
test_locks_of_objects(void **state)
{
	pthread_t thread;
	pid_t pid;

	asked = false;
	forking = true;
	assert_int_equal(pthread_create(&thread, NULL, hold_locks, NULL), 0);
	while (!asked)
		sched_yield();
	pid = fork();
	if (pid == 0)
		run_child();
	forking = false;
	assert_int_equal(pthread_join(thread, NULL), 0);
	expect_good_child(pid);
}

/* A fork while a thread holds the lock of librdmacm changes nothing in the parent. */
static void
test_lock_of_librdmacm(void **state)
{
	struct pollfd look = {.fd = channel->fd, .events = POLLIN};
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(5000)};
	struct rdma_cm_event *event;
	struct rdma_cm_id *listen;
	pthread_t thread;
	pid_t pid;

	asked = forking = false;
	assert_int_equal(rdma_create_id(channel, &listen, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(listen, (struct sockaddr *)&any), 0);
	mock_on(mock, ONE_MSG_LISTEN, answer_late, NULL);
	assert_int_equal(pthread_create(&thread, NULL, listen_on_thread, listen), 0);
	while (!asked)
		sched_yield();
	forking = true;
	pid = fork();
	if (pid == 0)
		run_child();
	assert_int_equal(pthread_join(thread, NULL), 0);
	mock_on(mock, ONE_MSG_LISTEN, NULL, NULL);
	expect_good_child(pid);
	assert_int_equal(rdma_destroy_id(listen), 0);
	assert_int_equal(poll(&look, 1, 0), 1); /* the child has not read the event */
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_int_equal(event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(rdma_ack_cm_event(unacknowledged), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	assert_int_equal(ibv_destroy_comp_channel(completions), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(context), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_locks_of_objects),
		cmocka_unit_test(test_lock_of_librdmacm),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
