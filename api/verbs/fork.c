/* SPDX-License-Identifier: BSD-3-Clause */
/* Fork handlers of contexts: see context.h. */
#include "verbs/context.h"

#include "verbs/refused.h"
#include "verbs/cq.h"
#include "verbs/device.h"
#include "verbs/cm.h"
#include "verbs/qp.h"
#include "verbs/srq.h"

pthread_mutex_t verbs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct context *contexts;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int watch_error;

/* ---- calls that would lock, replaced in a child ---- */

static int
not_ours(const char *function, const char *argument, const void *object)
{
	refused_because(ECHILD, "%s = %p: it belongs to the parent process; create one in this process",
			argument, object);
	return refused_explain(function, ECHILD, argument, object);
}

static int
foreign_poll_cq(struct ibv_cq *cq, int num, struct ibv_wc *wc)
{
	errno = not_ours("ibv_poll_cq", "cq", cq);
	return -1;
}

static int
foreign_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return not_ours("ibv_req_notify_cq", "cq", cq);
}

static int
foreign_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	*bad = wr;
	return not_ours("ibv_post_send", "qp", qp);
}

static int
foreign_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	*bad = wr;
	return not_ours("ibv_post_recv", "qp", qp);
}

static int
foreign_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	*bad = wr;
	return not_ours("ibv_post_srq_recv", "srq", srq);
}

static int
foreign_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	return not_ours("ibv_bind_mw", "qp", qp);
}

/* ---- fork ---- */

/* Locks the lists, so that the child finds them consistent. */
static void
fork_prepare(void)
{
	pthread_mutex_lock(&verbs_lock);
	for (struct context *c = contexts; c != NULL; c = c->next)
		pthread_mutex_lock(&c->lock);
}

static void
fork_parent(void)
{
	for (struct context *c = contexts; c != NULL; c = c->next)
		pthread_mutex_unlock(&c->lock);
	pthread_mutex_unlock(&verbs_lock);
}

static void
disown_context(struct context *context)
{
	struct ibv_context_ops *ops = &context->verbs.context.ops;

	pthread_mutex_init(&context->lock, NULL);
	ops->poll_cq = foreign_poll_cq;
	ops->req_notify_cq = foreign_req_notify_cq;
	ops->post_send = foreign_post_send;
	ops->post_recv = foreign_post_recv;
	ops->post_srq_recv = foreign_post_srq_recv;
	ops->bind_mw = foreign_bind_mw;
	for (struct element *e = context->cqs; e != NULL; e = e->next)
		cq_fork_child(e->object);
	for (struct element *e = context->srqs; e != NULL; e = e->next)
		srq_fork_child(e->object);
	for (uint32_t i = 0; i < ONE_QPS_MAX; i++) {
		/* Relaxed: the child has a single thread. */
		struct qp_name *qp = atomic_load_explicit(&context->qps[i], memory_order_relaxed);

		if (qp != NULL)
			qp_fork_child(qp->element.object);
	}
}

static void
fork_child(void)
{
	for (struct context *c = contexts; c != NULL; c = c->next)
		disown_context(c);
	pthread_mutex_init(&verbs_lock, NULL);
}

static void
watch_forks(void)
{
	watch_error = one_at_fork(fork_prepare, fork_parent, fork_child);
}

int
verbs_watch_forks(void)
{
	pthread_once(&once, watch_forks);
	return watch_error;
}

int
verbs_cm_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
	int error = verbs_watch_forks();

	return error != 0 ? error : one_at_fork(before, in_parent, in_child);
}

void
verbs_fork_add(struct context *context)
{
	pthread_mutex_lock(&verbs_lock);
	context->next = contexts;
	contexts = context;
	pthread_mutex_unlock(&verbs_lock);
}

void
verbs_fork_remove(struct context *context)
{
	struct context **link = &contexts;

	pthread_mutex_lock(&verbs_lock);
	while (*link != context)
		link = &(*link)->next;
	*link = context->next;
	pthread_mutex_unlock(&verbs_lock);
}
