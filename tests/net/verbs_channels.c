/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program opens as many completion channels as a server with that many clients has:
 *
 *   net-verbs-channels COUNT
 *
 * The program prints "open" when the channels exist, and "closed" when none is left. It reads a line of
 * standard input before each next step, so that its starter can count descriptors on both sides. Every
 * channel must deliver the event of its own completion queue: the last, the middle and the first channel each
 * get one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <infiniband/verbs.h>

struct loop {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static void
check_step(int fine, const char *what, int number)
{
	if (fine)
		return;
	fprintf(stderr, "%s, number %d: %s\n", what, number, strerror(errno));
	exit(1);
}

static void
await_starter(const char *done)
{
	puts(done);
	fflush(stdout);
	check_step(getchar() == '\n', "read from the starter", 0);
}

/* Connects a queue pair to itself: its completions need no second program. */
static struct loop
connect_to_self(struct ibv_pd *pd, struct ibv_comp_channel *channel)
{
	struct loop loop = {.cq = ibv_create_cq(pd->context, 4, NULL, channel, 0)};
	struct ibv_qp_init_attr init = {
		.send_cq = loop.cq, .recv_cq = loop.cq, .qp_type = IBV_QPT_RC, .cap = {2, 2, 1, 1, 0}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	check_step(loop.cq != NULL, "create a completion queue", 0);
	loop.qp = ibv_create_qp(pd, &init);
	check_step(loop.qp != NULL, "create a queue pair", 0);
	check_step(ibv_modify_qp(loop.qp, &attr,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
		   "go to INIT", 0);
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_1024;
	attr.dest_qp_num = loop.qp->qp_num;
	attr.min_rnr_timer = 12;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.port_num = 1;
	check_step(ibv_query_gid(pd->context, 1, 0, &attr.ah_attr.grh.dgid) == 0, "query the GID", 0);
	check_step(ibv_modify_qp(loop.qp, &attr,
				 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ==
			   0,
		   "go to RTR", 0);
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = attr.rnr_retry = 7;
	check_step(ibv_modify_qp(loop.qp, &attr,
				 IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
		   "go to RTS", 0);
	return loop;
}

/* The receive is solicited by an empty message, whose arrival is the channel's event. */
static void
deliver_event(struct ibv_pd *pd, struct ibv_comp_channel *channel, int number)
{
	struct loop loop = connect_to_self(pd, channel);
	struct ibv_recv_wr receive = {.wr_id = 1}, *bad_receive;
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send;
	struct ibv_cq *reported;
	void *context;
	struct ibv_wc wc;

	check_step(ibv_req_notify_cq(loop.cq, 0) == 0, "arm", number);
	check_step(ibv_post_recv(loop.qp, &receive, &bad_receive) == 0, "post a receive", number);
	check_step(ibv_post_send(loop.qp, &send, &bad_send) == 0, "post a send", number);
	check_step(ibv_get_cq_event(channel, &reported, &context) == 0 && reported == loop.cq,
		   "await the event", number);
	check_step(ibv_poll_cq(loop.cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "poll", number);
	ibv_ack_cq_events(loop.cq, 1);
	check_step(ibv_destroy_qp(loop.qp) == 0, "destroy the queue pair", number);
	check_step(ibv_destroy_cq(loop.cq) == 0, "destroy the completion queue", number);
}

int
main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 0;
	struct ibv_comp_channel **channels = calloc((size_t)count + 1, sizeof(*channels));
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct rlimit files;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	check_step(count > 0 && channels != NULL && devices != NULL && devices[0] != NULL, "begin", count);
	context = ibv_open_device(devices[0]);
	check_step(context != NULL, "open the device", 0);
	pd = ibv_alloc_pd(context);
	check_step(pd != NULL, "allocate a protection domain", 0);
	await_starter("ready");
	for (int i = 0; i < count; i++) {
		channels[i] = ibv_create_comp_channel(context);
		check_step(channels[i] != NULL, "create a completion channel", i);
	}
	for (int i = count - 1; i >= 0; i -= count / 2)
		deliver_event(pd, channels[i], i);
	await_starter("open");
	for (int i = 0; i < count; i++)
		check_step(ibv_destroy_comp_channel(channels[i]) == 0, "destroy a completion channel", i);
	await_starter("closed");
	free(channels);
	return 0;
}
