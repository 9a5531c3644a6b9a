/* SPDX-License-Identifier: BSD-3-Clause */
/* Attaching, calls, completion rings and waiting, against the mock data plane. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attachment.h"

static void
test_attach_detach(void **state)
{
	struct one_client *client = attach();
	const struct one_welcome *info = one_client_info(client);
	struct one_msg hello;

	assert_true(mock_last(mock, ONE_MSG_HELLO, &hello));
	assert_int_equal(hello.hello.magic, ONE_MSG_MAGIC);
	assert_int_equal(hello.hello.kind, ONE_KIND_DAT);
	assert_string_equal(hello.hello.program, "test_attach");
	assert_string_equal(info->port, "mock0");
	assert_false(one_client_dead(client));
	assert_int_equal(mock_attached(mock), 1);
	one_detach(client);
	EVENTUALLY(mock_attached(mock) == 0);
	assert_int_equal(lost_calls, 0);
}

/* The id of the eventfd behind a descriptor, or -1 if it is none. */
static int
eventfd_of(int fd)
{
	char path[64], line[128];
	int id = -1;
	FILE *info;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	info = fopen(path, "re");
	while (info != NULL && fgets(line, sizeof(line), info) != NULL)
		if (sscanf(line, "eventfd-id: %d", &id) == 1)
			break;
	if (info != NULL)
		fclose(info);
	return id;
}

#define DESCRIPTORS 256

/* After the program has closed the descriptor of the thread that watches attachments, that thread cannot be
 * woken. Detaching ends nevertheless. */
static void
test_detach_after_descriptor_was_closed(void **state)
{
	int before[DESCRIPTORS], closed = 0;
	struct one_client *client;

	for (int fd = 0; fd < DESCRIPTORS; fd++)
		before[fd] = eventfd_of(fd);
	client = attach();
	for (int fd = 0; fd < DESCRIPTORS; fd++) {
		int id = before[fd] < 0 ? eventfd_of(fd) : -1;

		if (id >= 0 && id != eventfd_of(client->wake_fd)) {
			syscall(SYS_close, fd); /* unseen by sanitizers */
			closed++;
		}
	}
	assert_int_equal(closed, 1);
	one_detach(client);
	assert_false(watcher_running());
}

static void
test_attach_many_times(void **state)
{
	struct one_client *a = attach();

	for (int i = 0; i < 50; i++) {
		struct one_client *b = attach();

		one_detach(b);
	}
	one_detach(a);
	/* The watcher starts again. */
	a = attach();
	mock_kill(mock);
	EVENTUALLY(one_client_dead(a));
	one_detach(a);
}

static void
test_attach_no_data_plane(void **state)
{
	const struct one_attach elsewhere = {.kind = ONE_KIND_DAT, .socket = "/nonexistent/socket"};
	const struct one_attach bad_port = {.kind = ONE_KIND_DAT, .port = "mock1"};
	const struct one_attach long_port = {.kind = ONE_KIND_DAT,
					     .port = "a port name of more than thirty-two bytes"};
	const struct one_attach good_port = {.kind = ONE_KIND_RSM, .port = "mock0"};
	struct one_client *client;

	assert_int_equal(one_attach(&elsewhere, &client), -ENOENT);
	assert_int_equal(one_attach(&bad_port, &client), -ENODEV);
	assert_int_equal(one_attach(&long_port, &client), -ENODEV);
	assert_int_equal(one_attach(&good_port, &client), 0);
	one_detach(client);
	mock_refuse(mock, ONE_MSG_HELLO, -EDQUOT, ONE_SUBJECT_QUOTA, 5, 1);
	assert_int_equal(try_attach(&client), -EDQUOT);
	mock_kill(mock);
	assert_int_equal(try_attach(&client), -ENOENT);
	mock_revive(mock);
	client = attach();
	one_detach(client);
}

/* Replies with a WELCOME that has a single error. */
static bool
bad_welcome(struct mock *m, const struct one_msg *msg, const int *fds, uint32_t num_fds,
	    struct one_reply *reply, void *user)
{
	reply->welcome = *(struct one_welcome *)user;
	return true;
}

static void
test_welcome_is_checked(void **state)
{
	struct one_client *client = attach();
	const struct one_welcome good = *one_client_info(client);
	struct one_welcome bad;

	one_detach(client);
	mock_on(mock, ONE_MSG_HELLO, bad_welcome, &bad);
	/* The handler creates no ring. Its offset is within the arena, so the WELCOME is accepted. */
	bad = good;
	client = attach();
	one_detach(client);

	bad = good;
	bad.version++;
	assert_int_equal(try_attach(&client), -EPROTO);
	bad = good;
	bad.arena_size += 4096;
	assert_int_equal(try_attach(&client), -EPROTO);
	bad = good;
	bad.arena_size -= 4096; /* differs from the size of the arena */
	assert_int_equal(try_attach(&client), -EPROTO);
	bad = good;
	bad.arena_size = 0;
	assert_int_equal(try_attach(&client), -EPROTO);
	bad = good;
	bad.async_cq_offset = bad.arena_size - 64;
	assert_int_equal(try_attach(&client), -EPROTO);
	bad = good;
	bad.async_cq_offset = UINT64_MAX - 63;
	assert_int_equal(try_attach(&client), -EPROTO);
	bad = good;
	bad.async_cq_offset += 8;
	assert_int_equal(try_attach(&client), -EPROTO);
	bad = good;
	bad.async_cq_log2 = ONE_RING_LOG2_MAX + 1;
	assert_int_equal(try_attach(&client), -EPROTO);
	mock_on(mock, ONE_MSG_HELLO, NULL, NULL);
	mock_withhold_fds(mock, true);
	assert_int_equal(try_attach(&client), -EPROTO);
	mock_withhold_fds(mock, false);
	/* No attachment is left by failed attempts. */
	EVENTUALLY(mock_attached(mock) == 0);
}

static bool
wrong_seq(struct mock *m, const struct one_msg *msg, const int *fds, uint32_t num_fds,
	  struct one_reply *reply, void *user)
{
	reply->seq++;
	return true;
}

static bool
wrong_type(struct mock *m, const struct one_msg *msg, const int *fds, uint32_t num_fds,
	   struct one_reply *reply, void *user)
{
	reply->type = ONE_MSG_PZ_FREE;
	return true;
}

static void
test_call(void **state)
{
	struct one_client *client = attach();
	struct one_msg msg = {.type = ONE_MSG_PZ_CREATE};
	struct one_reply reply;
	int fds[ONE_MSG_FDS + 1] = {0};

	assert_int_equal(one_call(client, &msg, NULL, 0, &reply), 0);
	assert_int_equal(reply.id.id, mock_newest(mock, ONE_MSG_PZ_CREATE));
	mock_refuse(mock, ONE_MSG_PZ_CREATE, -EDQUOT, ONE_SUBJECT_QUOTA, 77, 1);
	assert_int_equal(one_call(client, &msg, NULL, 0, &reply), -EDQUOT);
	assert_int_equal(reply.subject, ONE_SUBJECT_QUOTA);
	assert_int_equal(reply.value, 77);
	mock_refuse(mock, ONE_MSG_PZ_CREATE, 29, ONE_SUBJECT_SEGMENT, 0, 1);
	assert_int_equal(one_call(client, &msg, NULL, 0, NULL), 29);
	assert_int_equal(one_call(client, &msg, fds, ONE_MSG_FDS + 1, &reply), -EINVAL);
	/* An invalid descriptor is refused, and the attachment stays. */
	fds[0] = 9999;
	assert_int_equal(one_call(client, &msg, fds, 1, &reply), -EBADF);
	assert_int_equal(one_call(client, &msg, NULL, 0, &reply), 0);
	one_detach(client);
}

static void
test_call_nonsense_reply(void **state)
{
	const mock_handler wrong[] = {wrong_seq, wrong_type};

	for (int i = 0; i < 2; i++) {
		struct one_client *client = attach();
		struct one_msg msg = {.type = ONE_MSG_PZ_CREATE};

		mock_on(mock, ONE_MSG_PZ_CREATE, wrong[i], NULL);
		assert_int_equal(one_call(client, &msg, NULL, 0, NULL), -ECONNRESET);
		assert_true(one_client_dead(client));
		mock_on(mock, ONE_MSG_PZ_CREATE, NULL, NULL);
		EVENTUALLY(lost_calls == i + 1);
		assert_int_equal(one_call(client, &msg, NULL, 0, NULL), -ECONNRESET);
		one_detach(client);
	}
}

static void *
caller(void *arg)
{
	struct one_client *client = arg;

	for (int i = 0; i < 300; i++) {
		struct one_msg msg = {.type = ONE_MSG_MW_CREATE};
		struct one_reply reply;

		if (one_call(client, &msg, NULL, 0, &reply) != 0)
			return "call failed";
		msg.type = ONE_MSG_MW_FREE;
		msg.id.id = reply.mw.mw;
		if (one_call(client, &msg, NULL, 0, &reply) != 0)
			return "free failed: another thread's reply";
	}
	return NULL;
}

static void
on_signal(int signo)
{
}

static void
test_call_threads_and_signals(void **state)
{
	struct one_client *client = attach();
	struct sigaction action = {.sa_handler = on_signal}, old; /* without SA_RESTART */
	pthread_t thread[4];
	void *result;

	sigaction(SIGUSR1, &action, &old);
	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, caller, client);
	for (int i = 0; i < 200; i++) {
		kill(getpid(), SIGUSR1);
		usleep(100);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(thread[i], &result);
		assert_null(result);
	}
	sigaction(SIGUSR1, &old, NULL);
	one_detach(client);
}

static void
push(uint32_t cq, uint64_t cookie)
{
	struct one_cqe cqe = {.type = ONE_CQE_SEND, .flags = ONE_CQE_NOTIFY, .cookie = cookie};

	assert_true(mock_cqe(mock, cq, &cqe));
}

static void
expect(struct one_cq *cq, uint64_t from, uint64_t to)
{
	struct one_cqe cqe;

	for (uint64_t i = from; i < to; i++) {
		assert_int_equal(one_cq_poll(cq, &cqe), 1);
		assert_int_equal(cqe.cookie, i);
	}
}

static void
test_cq_full_and_room_again(void **state)
{
	struct one_client *client = attach();
	struct one_cqe cqe = {.type = ONE_CQE_SEND};
	struct one_cq cq;
	uint64_t n = 0;

	assert_int_equal(one_cq_create(client, 100, &cq), 0);
	while (mock_cqe(mock, cq.id, &cqe))
		cqe.cookie = ++n;
	assert_true(n >= 100);
	assert_int_equal(one_cq_pending(&cq, 1000), n);
	expect(&cq, 0, n);
	assert_int_equal(one_cq_poll(&cq, &cqe), 0);
	/* The ring is never wrongly full: all its room is available again. */
	for (uint64_t i = 0; i < n; i++)
		push(cq.id, i);
	expect(&cq, 0, n);
	assert_int_equal(one_cq_free(&cq), 0);
	one_detach(client);
}

static void
test_cq_resize_keeps_order(void **state)
{
	struct one_client *client = attach();
	struct one_cq_shm *old;
	struct one_cqe cqe;
	struct one_cq cq;
	uint64_t put = 0, got = 0;

	assert_int_equal(one_cq_create(client, 16, &cq), 0);
	/* Longer and shorter, empty and not, with several resizes outstanding. */
	for (int round = 0; round < 200; round++) {
		uint32_t left = (uint32_t)(put - got);

		if (round % 3 == 0 && left > 0) {
			expect(&cq, got, got + left / 2);
			got += left / 2;
		}
		if (round % 7 == 0) {
			expect(&cq, got, put);
			got = put;
			assert_int_equal(one_cq_poll(&cq, &cqe), 0);
		}
		old = cq.at.next_shm != NULL ? cq.at.next_shm : cq.at.shm;
		assert_int_equal(one_cq_resize(&cq, 16 + (uint32_t)(round * 37) % 200), 0);
		/* The data plane sees the old ring's head at its tail: the old ring is polled no more. */
		assert_int_equal(atomic_load(&old->head), atomic_load(&old->tail));
		assert_int_equal(one_cq_pending(&cq, 100000), put - got);
		for (int i = 0; i < round % 13; i++)
			push(cq.id, put++);
		assert_int_equal(one_cq_pending(&cq, 100000), put - got);
		assert_int_equal(one_cq_pending(&cq, 3), put - got < 3 ? put - got : 3);
	}
	expect(&cq, got, put);
	assert_int_equal(one_cq_poll(&cq, &cqe), 0);
	assert_int_equal(one_cq_free(&cq), 0);
	one_detach(client);
}

static void
test_cq_resize_refused(void **state)
{
	struct one_client *client = attach();
	struct one_cq cq;

	assert_int_equal(one_cq_create(client, 16, &cq), 0);
	push(cq.id, 0);
	mock_refuse(mock, ONE_MSG_CQ_RESIZE, -EDQUOT, ONE_SUBJECT_QUOTA, 0, 1);
	assert_int_equal(one_cq_resize(&cq, 1000), -EDQUOT);
	push(cq.id, 1);
	expect(&cq, 0, 2);
	assert_int_equal(one_cq_free(&cq), 0);
	one_detach(client);
}

/* ---- waiting ---- */

struct sleeper {
	struct one_client *client;
	struct one_cq *cq;
	uint16_t channel;
	uint32_t need;
	uint64_t deadline;
	int result;
	_Atomic bool sleeping;
};

static void *
sleeper(void *arg)
{
	struct sleeper *s = arg;

	for (;;) {
		uint32_t ticket = one_wait_begin(s->client, s->channel);

		one_wait_arm(s->cq, s->channel, s->need);
		if (one_cq_pending(s->cq, s->need) >= s->need) {
			s->result = 0;
			return NULL;
		}
		s->sleeping = true;
		s->result = one_wait_sleep(s->client, s->channel, ticket, s->deadline);
		if (s->result != 0)
			return NULL;
	}
}

static void
start_sleeper(struct sleeper *s, pthread_t *thread, struct one_client *client, struct one_cq *cq,
	      uint32_t need)
{
	*s = (struct sleeper){.client = client, .cq = cq, .need = need, .deadline = UINT64_MAX};
	assert_int_equal(one_channel_alloc(client, &s->channel), 0);
	assert_int_not_equal(s->channel, 0);
	pthread_create(thread, NULL, sleeper, s);
	EVENTUALLY(s->sleeping);
	usleep(20000); /* long after the polling phase */
}

static void
test_wait_for_enough(void **state)
{
	struct one_client *client = attach();
	struct sleeper s;
	struct one_cq cq;
	pthread_t thread;

	assert_int_equal(one_cq_create(client, 64, &cq), 0);
	start_sleeper(&s, &thread, client, &cq, 3);
	push(cq.id, 0);
	push(cq.id, 1);
	usleep(20000);
	assert_int_equal(pthread_tryjoin_np(thread, NULL), EBUSY);
	push(cq.id, 2);
	pthread_join(thread, NULL);
	assert_int_equal(s.result, 0);
	assert_int_equal(one_cq_pending(&cq, 10), 3);
	one_channel_free(client, s.channel);
	one_cq_free(&cq);
	one_detach(client);
}

static void
test_wait_across_resize(void **state)
{
	struct one_client *client = attach();
	struct sleeper s;
	struct one_cq cq;
	pthread_t thread;

	assert_int_equal(one_cq_create(client, 64, &cq), 0);
	push(cq.id, 0);
	start_sleeper(&s, &thread, client, &cq, 3);
	/* The sleeper holds no lock while it sleeps. */
	assert_int_equal(one_cq_resize(&cq, 200), 0);
	push(cq.id, 1);
	usleep(20000);
	assert_int_equal(pthread_tryjoin_np(thread, NULL), EBUSY);
	push(cq.id, 2);
	pthread_join(thread, NULL);
	assert_int_equal(s.result, 0);
	expect(&cq, 0, 3);
	one_cq_free(&cq);
	one_detach(client);
}

static void
test_wait_timeout(void **state)
{
	struct one_client *client = attach();
	uint64_t start, ms[] = {0, 1, 30};
	uint16_t channel;

	assert_int_equal(one_channel_alloc(client, &channel), 0);
	for (int i = 0; i < 3; i++) {
		start = one_now_ns();
		assert_int_equal(one_wait_sleep(client, channel, one_wait_begin(client, channel),
						start + ms[i] * 1000000),
				 -ETIMEDOUT);
		assert_true(one_now_ns() - start >= ms[i] * 1000000);
	}
	/* The deadline has passed long ago. */
	assert_int_equal(one_wait_sleep(client, channel, one_wait_begin(client, channel), 1), -ETIMEDOUT);
	/* A wake-up between begin and sleep prevents the sleep. */
	uint32_t ticket = one_wait_begin(client, channel);

	one_channel_wake(client, channel);
	assert_int_equal(one_wait_sleep(client, channel, ticket, UINT64_MAX), 0);
	one_channel_free(client, channel);
	one_detach(client);
}

static void
test_wait_interrupted(void **state)
{
	struct one_client *client = attach();
	struct sigaction action = {.sa_handler = on_signal}, old;
	struct sleeper s;
	struct one_cq cq;
	pthread_t thread;

	sigaction(SIGUSR1, &action, &old);
	assert_int_equal(one_cq_create(client, 64, &cq), 0);
	start_sleeper(&s, &thread, client, &cq, 1);
	pthread_kill(thread, SIGUSR1);
	pthread_join(thread, NULL);
	assert_int_equal(s.result, -EINTR);
	sigaction(SIGUSR1, &old, NULL);
	one_cq_free(&cq);
	one_detach(client);
}

static void
test_death_wakes_all(void **state)
{
	struct one_client *client[2] = {attach(), attach()};
	struct one_msg msg = {.type = ONE_MSG_PZ_CREATE};
	struct sleeper s[4];
	struct one_cq cq[4];
	pthread_t thread[4];

	for (int i = 0; i < 4; i++) {
		assert_int_equal(one_cq_create(client[i % 2], 64, &cq[i]), 0);
		start_sleeper(&s[i], &thread[i], client[i % 2], &cq[i], 1);
	}
	mock_kill(mock);
	for (int i = 0; i < 4; i++) {
		pthread_join(thread[i], NULL);
		assert_int_equal(s[i].result, -ECONNRESET);
	}
	EVENTUALLY(lost_calls == 2);
	for (int i = 0; i < 2; i++) {
		assert_true(one_client_dead(client[i]));
		assert_int_equal(one_call(client[i], &msg, NULL, 0, NULL), -ECONNRESET);
		assert_int_equal(one_wait_sleep(client[i], 1, one_wait_begin(client[i], 1), UINT64_MAX),
				 -ECONNRESET);
	}
	for (int i = 0; i < 4; i++)
		assert_int_equal(one_cq_free(&cq[i]), -ECONNRESET);
	one_detach(client[0]);
	one_detach(client[1]);
	assert_int_equal(lost_calls, 2);
}

static void
test_fault_is_death(void **state)
{
	struct one_client *client = attach();

	mock_fault(mock, ONE_FAULT_RING);
	assert_true(one_client_dead(client));
	EVENTUALLY(lost_calls == 1);
	one_detach(client);
}

static void
detach_in_lost(void *user)
{
	one_detach(*(struct one_client **)user);
	lost_calls++;
}

static void
test_detach_from_lost(void **state)
{
	static struct one_client *client;
	const struct one_attach args = {.kind = ONE_KIND_DAT, .lost = detach_in_lost, .user = &client};

	assert_int_equal(one_attach(&args, &client), 0);
	mock_kill(mock);
	EVENTUALLY(lost_calls == 1);
	assert_false(watcher_running()); /* no watcher is left for tests that count threads */
	mock_revive(mock);
	client = attach();
	assert_true(watcher_running());
	one_detach(client);
	assert_false(watcher_running());
}

static void
test_channels_run_out(void **state)
{
	struct one_client *client = attach();
	uint16_t channel, last = 0;
	uint32_t n = 0;

	while (one_channel_alloc(client, &channel) == 0) {
		assert_in_range(channel, 1, ONE_CHANNELS - 1);
		last = channel;
		n++;
	}
	assert_int_equal(n, ONE_CHANNELS - 1);
	assert_int_equal(one_channel_alloc(client, &channel), -ENOSPC);
	one_channel_free(client, last);
	assert_int_equal(one_channel_alloc(client, &channel), 0);
	assert_int_equal(channel, last);
	one_detach(client);
}

/* ---- queue pairs ---- */

static void
make_qp(struct one_client *client, struct one_qp *qp)
{
	const struct one_qp_create args = {
		.max_send_wr = 10, .max_recv_wr = 10, .max_send_sge = 8, .max_recv_sge = 8};

	assert_int_equal(one_qp_create(client, &args, qp), 0);
}

static void
post(struct one_qp *qp, uint64_t cookie)
{
	struct one_wqe *wqe = one_send_reserve(qp, 8);

	assert_non_null(wqe);
	wqe->op = ONE_OP_WRITE;
	wqe->cookie = cookie;
	for (uint32_t i = 0; i < 8; i++)
		one_post_sge(qp, wqe, i, cookie + i, i, 0);
	one_send_commit(qp, wqe);
}

static void
test_qp(void **state)
{
	struct one_client *client = attach();
	struct one_sge sge[ONE_MAX_SGE];
	struct one_wqe wqe;
	struct one_qp qp;

	make_qp(client, &qp);
	assert_false(mock_doorbell(mock, qp.id));
	for (uint64_t i = 0; i < 100; i++) {
		post(&qp, i);
		assert_true(mock_doorbell(mock, qp.id));
		assert_true(mock_take(mock, qp.id, false, &wqe, sge));
		assert_int_equal(wqe.cookie, i);
		assert_int_equal(sge[7].addr, i + 7);
		mock_done(mock, qp.id, false);
	}
	for (uint64_t i = 0; i < 10; i++)
		post(&qp, i);
	assert_null(one_send_reserve(&qp, 0));
	assert_int_equal(mock_posted(mock, qp.id, false), 10);
	assert_int_equal(one_qp_reset(&qp), 0);
	assert_int_equal(one_send_outstanding(&qp), 0);
	post(&qp, 5);
	assert_int_equal(mock_posted(mock, qp.id, false), 1);
	assert_int_equal(one_qp_free(&qp), 0);
	one_detach(client);
}

static bool
bad_qp(struct mock *m, const struct one_msg *msg, const int *fds, uint32_t num_fds, struct one_reply *reply,
       void *user)
{
	reply->qp = *(struct one_qp_created *)user;
	return true;
}

static void
test_qp_reply_is_checked(void **state)
{
	const struct one_qp_create args = {.max_send_wr = 1, .max_recv_wr = 1};
	struct one_qp_created bad[5];
	struct one_qp qp;

	for (int i = 0; i < 5; i++)
		bad[i] = (struct one_qp_created){.qp = 1, .shm = 65536, .sq = 70016, .rq = 75008};
	bad[0].sq_log2 = ONE_RING_LOG2_MAX + 1;
	bad[1].doorbell = ONE_QPS_MAX;
	bad[2].shm = ONE_ARENA_SIZE - 64;
	bad[3].sq = UINT64_MAX - 63;
	bad[4].rq += 1;
	mock_on(mock, ONE_MSG_QP_CREATE, bad_qp, NULL);
	for (int i = 0; i < 5; i++) {
		struct one_client *client = attach();

		mock_on(mock, ONE_MSG_QP_CREATE, bad_qp, &bad[i]);
		assert_int_equal(one_qp_create(client, &args, &qp), -EPROTO);
		EVENTUALLY(one_client_dead(client));
		one_detach(client);
	}
}

static void
test_sleeping_engine_is_woken(void **state)
{
	struct one_client *client;
	struct one_qp qp;

	mock_welcome(mock)->idle = ONE_IDLE_SLEEP;
	client = attach();
	make_qp(client, &qp);
	post(&qp, 0);
	assert_int_equal(mock_woken(mock), 0);
	mock_sleep(mock, true);
	post(&qp, 1);
	assert_int_equal(mock_woken(mock), 1);
	one_detach(client);
	mock_welcome(mock)->idle = ONE_IDLE_SPIN;
	client = attach();
	make_qp(client, &qp);
	mock_sleep(mock, true);
	post(&qp, 0);
	assert_int_equal(mock_woken(mock), 0);
	one_detach(client);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_attach_detach),
		TEST(test_attach_many_times),
		TEST(test_detach_after_descriptor_was_closed),
		TEST(test_attach_no_data_plane),
		TEST(test_welcome_is_checked),
		TEST(test_call),
		TEST(test_call_nonsense_reply),
		TEST(test_call_threads_and_signals),
		TEST(test_cq_full_and_room_again),
		TEST(test_cq_resize_keeps_order),
		TEST(test_cq_resize_refused),
		TEST(test_wait_for_enough),
		TEST(test_wait_across_resize),
		TEST(test_wait_timeout),
		TEST(test_wait_interrupted),
		TEST(test_death_wakes_all),
		TEST(test_fault_is_death),
		TEST(test_detach_from_lost),
		TEST(test_channels_run_out),
		TEST(test_qp),
		TEST(test_qp_reply_is_checked),
		TEST(test_sleeping_engine_is_woken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
