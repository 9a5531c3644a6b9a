/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion of binds that the control thread has carried out. A bound window no longer grants its former
 * range. If the copy thread of the application moves that memory (reach.h), copies begun under the old rights
 * may still be under way. After the bind's completion only the application may access the memory, so the bind
 * completes when all copies handed over before it have ended.
 */
#include <errno.h>

#include "dataplane/mem/reach.h"
#include "dataplane/qp/client.h"
#include "dataplane/qp/transport.h"

#define AT_ONCE 16u /* binds of one client completed in one loop, at most */

static void
bind_complete(struct core *core, struct engine_qp *qp, bool ok)
{
	qp_bind_leave(core, qp);
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
settle_begin(struct core *core, struct engine_qp *qp, uint32_t mark)
{
	struct engine_client *client = qp->client;

	qp->settling = true;
	qp->settle_mark = mark;
	if (TAILQ_EMPTY(&client->settling))
		TAILQ_INSERT_TAIL(&core->settling, client, settle_link);
	TAILQ_INSERT_TAIL(&client->settling, qp, settle_link);
}

void
qp_bind_leave(struct core *core, struct engine_qp *qp)
{
	struct engine_client *client = qp->client;

	qp->bind_pending = false;
	if (!qp->settling)
		return;
	qp->settling = false;
	TAILQ_REMOVE(&client->settling, qp, settle_link);
	if (TAILQ_EMPTY(&client->settling))
		TAILQ_REMOVE(&core->settling, client, settle_link);
}

int
qp_bind_done(struct core *core, struct engine_qp *qp, bool ok, bool copies)
{
	const struct reach *reach = qp->client->reach;
	uint32_t mark;

	if (!qp->bind_pending || qp->settling)
		return -EALREADY; /* flushed meanwhile, or waiting for copies already */
	mark = copies && ok ? reach_mark(reach) : 0;
	if (copies && ok && !reach_passed(reach, mark))
		settle_begin(core, qp, mark);
	else
		bind_complete(core, qp, ok);
	return 0;
}

uint32_t
qp_bind_poll(struct core *core)
{
	struct engine_client *client, *next;
	uint32_t done = 0;

	for (client = TAILQ_FIRST(&core->settling); client != NULL; client = next) {
		next = TAILQ_NEXT(client, settle_link);
		for (uint32_t i = 0; i < AT_ONCE && !TAILQ_EMPTY(&client->settling); i++) {
			struct engine_qp *qp = TAILQ_FIRST(&client->settling);

			if (!reach_passed(client->reach, qp->settle_mark))
				break;
			bind_complete(core, qp, true);
			done++;
		}
	}
	return done;
}
