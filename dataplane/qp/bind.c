/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion of binds that the control thread has carried out. A bound window no longer grants its former
 * range. If the copy thread of the application moves that memory (bounce.h), copies begun under the old
 * rights may still be under way. After the bind's completion only the application may access the memory, so
 * the bind completes when all copies handed over before it have ended.
 */
#include <errno.h>

#include "dataplane/mem/bounce.h"
#include "dataplane/qp/client.h"
#include "dataplane/qp/transport.h"
#include "dataplane/base/state.h"

#define AT_ONCE 16u /* binds of one client completed in one loop, at most */

static void
set_bind(struct engine_qp *qp, enum qp_bind to, const char *why)
{
	static const char *const names[] = {
		[QP_BIND_NONE] = "none",
		[QP_BIND_ASKED] = "asked",
		[QP_BIND_QUIESCING] = "quiescing",
	};
	static const uint16_t next[] = {
		[QP_BIND_NONE] = STATE_TO(QP_BIND_ASKED),
		[QP_BIND_ASKED] = STATE_TO(QP_BIND_NONE) | STATE_TO(QP_BIND_QUIESCING),
		[QP_BIND_QUIESCING] = STATE_TO(QP_BIND_NONE),
	};
	static const struct state_machine machine = {"bind of a queue pair", names, next};

	state_transition(&machine, qp->qpn, qp->bind, to, why);
	qp->bind = (uint8_t)to;
}

void
qp_bind_ask(struct core *core, struct engine_qp *qp, const struct work *work)
{
	qp->bind_asked = (struct engine_bind){.addr = work->sge[0].addr,
					      .length = (uint64_t)work->imm << 32 | work->sge[0].len,
					      .lkey = work->sge[0].lkey,
					      .key = work->rkey,
					      .flags = work->length};
	set_bind(qp, QP_BIND_ASKED, "the next request");
	qp_raise(core, qp, ENGINE_EVENT_BIND, 0);
}

static void
bind_complete(struct core *core, struct engine_qp *qp, bool ok)
{
	qp_bind_leave(core, qp, ok ? "bound" : "refused");
	if (qp->transport == QP_LOCAL) {
		local_bind_done(core, qp, ok);
		return;
	}
	rc_bind_done(qp->rc, ok, core->now);
	rcio_after(core, qp);
	if (qp->state == RC_RTS)
		qp_make_hot(core, qp);
}

static void
quiesce_begin(struct core *core, struct engine_qp *qp, uint32_t mark)
{
	struct engine_client *client = qp->client;

	set_bind(qp, QP_BIND_QUIESCING, "copies are under way");
	qp->quiesce_mark = mark;
	if (TAILQ_EMPTY(&client->quiescing))
		TAILQ_INSERT_TAIL(&core->quiescing, client, quiesce_link);
	TAILQ_INSERT_TAIL(&client->quiescing, qp, quiesce_link);
}

void
qp_bind_leave(struct core *core, struct engine_qp *qp, const char *why)
{
	struct engine_client *client = qp->client;
	bool quiescing = qp->bind == QP_BIND_QUIESCING;

	if (qp->bind != QP_BIND_NONE)
		set_bind(qp, QP_BIND_NONE, why);
	if (!quiescing)
		return;
	TAILQ_REMOVE(&client->quiescing, qp, quiesce_link);
	if (TAILQ_EMPTY(&client->quiescing))
		TAILQ_REMOVE(&core->quiescing, client, quiesce_link);
}

int
qp_bind_done(struct core *core, struct engine_qp *qp, bool ok, bool copies)
{
	const struct bounce *bounce = qp->client->bounce;
	uint32_t mark;

	if (qp->bind != QP_BIND_ASKED)
		return -EALREADY; /* flushed meanwhile, or waiting for copies already */
	mark = copies && ok ? bounce_mark(bounce) : 0;
	if (copies && ok && !bounce_passed(bounce, mark))
		quiesce_begin(core, qp, mark);
	else
		bind_complete(core, qp, ok);
	return 0;
}

uint32_t
qp_bind_poll(struct core *core)
{
	struct engine_client *client, *next;
	uint32_t done = 0;

	for (client = TAILQ_FIRST(&core->quiescing); client != NULL; client = next) {
		next = TAILQ_NEXT(client, quiesce_link);
		for (uint32_t i = 0; i < AT_ONCE && !TAILQ_EMPTY(&client->quiescing); i++) {
			struct engine_qp *qp = TAILQ_FIRST(&client->quiescing);

			if (!bounce_passed(client->bounce, qp->quiesce_mark))
				break;
			bind_complete(core, qp, true);
			done++;
		}
	}
	return done;
}
