/* SPDX-License-Identifier: BSD-3-Clause */
/* Consumer notification objects on real data planes: waits, agents, and which events trigger a CNO. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dat_pair.h"
#include "tests/asleep.h"

#define SIZE 4096u

static DAT_EVENT event;

static void
post_software(struct dat_side *s, DAT_EVD_HANDLE evd)
{
	DAT_EVENT se = {.event_number = DAT_SOFTWARE_EVENT};

	DAT_CHECK(s, dat_evd_post_se(evd, &se));
}

static void
expect_trigger(struct dat_side *s, DAT_CNO_HANDLE cno, DAT_EVD_HANDLE evd)
{
	DAT_EVD_HANDLE got = DAT_HANDLE_NULL;

	DAT_CHECK(s, dat_cno_wait(cno, 10000000 * PAIR_SHARE, &got));
	CHECK(s->pair, got == evd, "the CNO was triggered by %p instead of %p", got, evd);
}

static void
expect_quiet(struct dat_side *s, DAT_CNO_HANDLE cno)
{
	DAT_EVD_HANDLE got = s->recv;

	CHECK(s->pair, dat_cno_wait(cno, 30000, &got) == DAT_QUEUE_EMPTY && got == DAT_HANDLE_NULL,
	      "a CNO was triggered by nothing");
}

/* ---- one CNO over EVDs that a peer feeds ---- */

struct waiter {
	pthread_t thread;
	_Atomic pid_t tid;
	DAT_CNO_HANDLE cno;
	DAT_EVD_HANDLE evd;
	DAT_RETURN ret;
};

static void *
wait_main(void *arg)
{
	struct waiter *w = arg;

	atomic_store(&w->tid, gettid());
	w->ret = dat_cno_wait(w->cno, DAT_TIMEOUT_INFINITE, &w->evd);
	return NULL;
}

static void
start_waiter(struct dat_side *s, struct waiter *w, DAT_CNO_HANDLE cno)
{
	*w = (struct waiter){.cno = cno, .evd = s->conn};
	CHECK(s->pair, pthread_create(&w->thread, NULL, wait_main, w) == 0, "pthread_create");
	await_asleep(&w->tid);
}

static void
trigger_server(struct pair *pair)
{
	DAT_CNO_HANDLE cno, other;
	struct dat_buffer b;
	struct waiter w;
	struct dat_side s;
	DAT_COUNT more;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	s.ep = dat_side_ep(&s);
	for (uint64_t i = 0; i < 32; i++)
		DAT_CHECK(&s, dat_recv(s.ep, &b, 0, 64, i));
	dat_side_connect(&s, true);
	DAT_CHECK(&s, dat_cno_create(s.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	DAT_CHECK(&s, dat_evd_modify_cno(s.recv, cno));
	DAT_CHECK(&s, dat_evd_modify_cno(s.request, cno));
	expect_quiet(&s, cno);
	/* A thread that sleeps in its wait is woken. */
	start_waiter(&s, &w, cno);
	pair_barrier(pair); /* 0 */
	pthread_join(w.thread, NULL);
	DAT_CHECK_CODE(&s, w.ret, DAT_SUCCESS);
	CHECK(pair, w.evd == s.recv, "another EVD triggered");
	dat_side_complete(&s, s.recv, 0, DAT_DTO_SUCCESS, 64);
	expect_quiet(&s, cno);
	/* Without a waiter, triggers are remembered: one for each event that is taken. */
	pair_barrier(pair); /* 1, 2, 3 */
	pair_barrier(pair);
	for (uint64_t i = 1; i < 4; i++) {
		expect_trigger(&s, cno, s.recv);
		dat_side_complete(&s, s.recv, i, DAT_DTO_SUCCESS, 64);
	}
	expect_quiet(&s, cno);
	/* Draining the EVD without the CNO leaves no stale trigger. */
	pair_barrier(pair); /* 4 */
	dat_side_complete(&s, s.recv, 4, DAT_DTO_SUCCESS, 64);
	expect_quiet(&s, cno);
	/* From two EVDs, the one with the earlier event triggers first. */
	DAT_CHECK(&s, dat_send(s.ep, &b, 0, 64, 50, DAT_COMPLETION_DEFAULT_FLAG));
	expect_trigger(&s, cno, s.request);
	dat_side_complete(&s, s.request, 50, DAT_DTO_SUCCESS, 64);
	pair_barrier(pair); /* 5 */
	expect_trigger(&s, cno, s.recv);
	dat_side_complete(&s, s.recv, 5, DAT_DTO_SUCCESS, 64);
	/* A disabled EVD triggers nothing; an enabled one triggers only for later events. */
	DAT_CHECK(&s, dat_evd_disable(s.recv));
	pair_barrier(pair); /* 6 */
	pair_barrier(pair);
	expect_quiet(&s, cno);
	DAT_CHECK(&s, dat_evd_enable(s.recv));
	expect_quiet(&s, cno);
	dat_side_complete(&s, s.recv, 6, DAT_DTO_SUCCESS, 64);
	pair_barrier(pair); /* 7 */
	expect_trigger(&s, cno, s.recv);
	DAT_CHECK(&s, dat_evd_wait(s.recv, 0, 1, &event, &more));
	/* An unwaitable EVD still triggers its CNO. */
	DAT_CHECK(&s, dat_evd_set_unwaitable(s.recv));
	pair_barrier(pair); /* 8 */
	expect_trigger(&s, cno, s.recv);
	DAT_CHECK(&s, dat_evd_dequeue(s.recv, &event));
	DAT_CHECK(&s, dat_evd_clear_unwaitable(s.recv));
	/* After a move to another CNO, only the new one is triggered. */
	DAT_CHECK(&s, dat_cno_create(s.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &other));
	DAT_CHECK(&s, dat_evd_modify_cno(s.recv, other));
	pair_barrier(pair); /* 9 */
	expect_trigger(&s, other, s.recv);
	expect_quiet(&s, cno);
	dat_side_complete(&s, s.recv, 9, DAT_DTO_SUCCESS, 64);
	/* A thread that waits on the EVD itself gets the event; the CNO is not triggered. */
	pair_barrier(pair); /* 10, in a while */
	dat_side_complete(&s, s.recv, 10, DAT_DTO_SUCCESS, 64);
	expect_quiet(&s, other);
	DAT_CHECK(&s, dat_evd_modify_cno(s.recv, DAT_HANDLE_NULL));
	DAT_CHECK(&s, dat_cno_free(other));
	/* A CNO with a waiter cannot be freed. Closing the IA releases the waiter with a null EVD. */
	start_waiter(&s, &w, cno);
	DAT_CHECK_CODE(&s, dat_cno_free(cno), DAT_BAD_STATE(CNO_IN_USE));
	pair_barrier(pair);
	dat_side_close(&s);
	pthread_join(w.thread, NULL);
	DAT_CHECK_CODE(&s, w.ret, DAT_SUCCESS);
	CHECK(pair, w.evd == DAT_HANDLE_NULL, "a waiter was not let go with a null EVD");
}

static void
trigger_client(struct pair *pair)
{
	static const uint32_t sends[] = {1, 3, 1, 1, 1, 1, 1, 1};
	struct dat_buffer b;
	struct dat_side s;
	uint64_t number = 0;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &b, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	s.ep = dat_side_ep(&s);
	DAT_CHECK(&s, dat_recv(s.ep, &b, 0, 64, 50));
	dat_side_connect(&s, false);
	for (size_t i = 0; i < sizeof(sends) / sizeof(sends[0]); i++) {
		pair_barrier(pair);
		for (uint32_t k = 0; k < sends[i]; k++, number++) {
			DAT_CHECK(&s, dat_send(s.ep, &b, 0, 64, number, DAT_COMPLETION_DEFAULT_FLAG));
			dat_side_complete(&s, s.request, number, DAT_DTO_SUCCESS, 64);
		}
		/* The server needs to know that these messages have arrived. */
		if (i == 1 || i == 4)
			pair_barrier(pair);
	}
	pair_barrier(pair);
	usleep(100000);
	DAT_CHECK(&s, dat_send(s.ep, &b, 0, 64, number, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, number, DAT_DTO_SUCCESS, 64);
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- agents ---- */

struct agent {
	pthread_mutex_t lock;
	pthread_cond_t called;
	uint32_t calls;
	DAT_EVD_HANDLE evd;
	DAT_CNO_HANDLE again; /* CNO whose agent the agent sets again during its call; null: none */
};

static void
agent_call(DAT_PVOID data, DAT_EVD_HANDLE evd)
{
	struct agent *a = data;
	DAT_OS_WAIT_PROXY_AGENT self = {.instance_data = a, .proxy_agent_func = agent_call};

	pthread_mutex_lock(&a->lock);
	a->calls++;
	a->evd = evd;
	if (a->again != DAT_HANDLE_NULL && evd != DAT_HANDLE_NULL)
		dat_cno_modify_agent(a->again, self);
	pthread_cond_broadcast(&a->called);
	pthread_mutex_unlock(&a->lock);
}

static void
expect_calls(struct dat_side *s, struct agent *a, uint32_t calls, DAT_EVD_HANDLE evd)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 10 * PAIR_SHARE;
	pthread_mutex_lock(&a->lock);
	while (a->calls < calls)
		CHECK(s->pair, pthread_cond_timedwait(&a->called, &a->lock, &until) == 0,
		      "the agent is not called");
	CHECK(s->pair, a->calls == calls && a->evd == evd, "%u calls of the agent, EVD %p instead of %p",
	      a->calls, a->evd, evd);
	pthread_mutex_unlock(&a->lock);
}

static void
agents_client(struct pair *pair)
{
	struct agent a = {.lock = PTHREAD_MUTEX_INITIALIZER, .called = PTHREAD_COND_INITIALIZER};
	const DAT_OS_WAIT_PROXY_AGENT agent = {.instance_data = &a, .proxy_agent_func = agent_call};
	struct dat_buffer b;
	DAT_CNO_PARAM param;
	DAT_EVD_HANDLE evd, got;
	DAT_CNO_HANDLE cno;
	struct dat_remote r;
	struct dat_side s;

	dat_side_start(&s, pair, false, &b, SIZE);
	dat_remote_take(&s, &r);
	DAT_CHECK(&s, dat_cno_create(s.ia, agent, &cno));
	DAT_CHECK(&s, dat_cno_query(cno, DAT_CNO_FIELD_ALL, &param));
	CHECK(pair, param.agent.proxy_agent_func == agent_call && param.agent.instance_data == &a,
	      "dat_cno_query does not return the agent");
	DAT_CHECK(&s, dat_evd_modify_cno(s.request, cno));
	DAT_CHECK(&s, dat_write(s.ep, &b, 0, 64, 1, &r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	expect_calls(&s, &a, 1, s.request);
	dat_side_complete(&s, s.request, 1, DAT_DTO_SUCCESS, 64);
	/* An agent is called once: it must be set again. */
	DAT_CHECK(&s, dat_cno_query(cno, DAT_CNO_FIELD_ALL, &param));
	CHECK(pair, param.agent.proxy_agent_func == NULL, "the agent is still set after its call");
	DAT_CHECK(&s, dat_write(s.ep, &b, 0, 64, 2, &r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 2, DAT_DTO_SUCCESS, 64);
	usleep(50000);
	expect_calls(&s, &a, 1, s.request);
	/* The agent may set itself again during its call. */
	a.again = cno;
	DAT_CHECK(&s, dat_cno_modify_agent(cno, agent));
	for (uint32_t i = 0; i < 5; i++) {
		DAT_CHECK(&s, dat_write(s.ep, &b, 0, 64, 3 + i, &r, 0, DAT_COMPLETION_DEFAULT_FLAG));
		expect_calls(&s, &a, 2 + i, s.request);
		dat_side_complete(&s, s.request, 3 + i, DAT_DTO_SUCCESS, 64);
	}
	/* Both an agent and a waiter are triggered. */
	DAT_CHECK(&s, dat_evd_create(s.ia, 8, cno, DAT_EVD_SOFTWARE_FLAG, &evd));
	while (dat_cno_wait(cno, 0, &got) == DAT_SUCCESS) {
	}
	post_software(&s, evd);
	expect_calls(&s, &a, 7, evd);
	expect_trigger(&s, cno, evd);
	/* A removed agent is not called. */
	a.again = DAT_HANDLE_NULL;
	DAT_CHECK(&s, dat_cno_modify_agent(cno, DAT_OS_WAIT_PROXY_AGENT_NULL));
	post_software(&s, evd);
	expect_trigger(&s, cno, evd);
	expect_calls(&s, &a, 7, evd);
	/* Freeing the last EVD calls the agent with a null EVD. */
	DAT_CHECK(&s, dat_cno_modify_agent(cno, agent));
	DAT_CHECK(&s, dat_evd_modify_cno(s.request, DAT_HANDLE_NULL));
	expect_calls(&s, &a, 7, evd);
	DAT_CHECK(&s, dat_evd_free(evd));
	expect_calls(&s, &a, 8, DAT_HANDLE_NULL);
	/* Closing the IA does so, too. */
	DAT_CHECK(&s, dat_cno_modify_agent(cno, agent));
	pair_barrier(pair);
	dat_side_close(&s);
	expect_calls(&s, &a, 9, DAT_HANDLE_NULL);
}

static void
agents_server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_start(&s, pair, true, &b, SIZE);
	dat_buffer_offer(&s, &b);
	pair_barrier(pair);
	dat_side_close(&s);
}

/*
 * The asynchronous EVD triggers a CNO: the SRQ's low watermark, already passed when set, is reported there.
 */
static void
asynchronous_client(struct pair *pair)
{
	struct agent a = {.lock = PTHREAD_MUTEX_INITIALIZER, .called = PTHREAD_COND_INITIALIZER};
	const DAT_OS_WAIT_PROXY_AGENT agent = {.instance_data = &a, .proxy_agent_func = agent_call};
	DAT_SRQ_ATTR attr = {.max_recv_dtos = 8, .max_recv_iov = 1};
	DAT_SRQ_HANDLE srq;
	DAT_CNO_HANDLE cno;
	struct dat_side s;
	struct waiter w;

	dat_side_open(&s, pair, false);
	DAT_CHECK(&s, dat_srq_create(s.ia, s.pz, &attr, &srq));
	DAT_CHECK(&s, dat_cno_create(s.ia, agent, &cno));
	start_waiter(&s, &w, cno);
	DAT_CHECK(&s, dat_evd_modify_cno(s.async, cno));
	DAT_CHECK(&s, dat_srq_set_lw(srq, 4));
	pthread_join(w.thread, NULL);
	CHECK(pair, w.ret == DAT_SUCCESS && w.evd == s.async, "not the asynchronous EVD");
	expect_calls(&s, &a, 1, s.async);
	dat_side_expect(&s, s.async, DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR, 1000, &event);
	CHECK(pair, event.event_data.asynch_error_event_data.dat_handle == srq, "not the queue");
	pair_barrier(pair);
	dat_side_close(&s);
}

static const struct pair_case cases[] = {
	{"cno_asynchronous", dat_bystander, asynchronous_client, false},
	{"cno_trigger", trigger_server, trigger_client, false},
	{"cno_agents", agents_server, agents_client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
