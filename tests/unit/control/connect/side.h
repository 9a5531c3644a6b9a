/* SPDX-License-Identifier: BSD-3-Clause */
/* An attachment of libibverbs with one queue pair. */
#ifndef TEST_CONTROL_SIDE_H
#define TEST_CONTROL_SIDE_H

#include "attach.h"

struct side {
	struct app app;
	uint32_t pz, cq;
	struct one_qp_created qp;
};

/* Attaches and makes a queue pair: a datagram queue pair, or one for connections. */
static inline void
side_open(struct side *side, bool datagrams)
{
	app_hello(&side->app, ONE_KIND_VERBS);
	side->pz = app_pz(&side->app);
	side->cq = app_cq(&side->app, 10);
	if (!datagrams) {
		side->qp = app_qp(&side->app, side->pz, side->cq);
		return;
	}
	side->app.msg.qp_create = (struct one_qp_create){.pz = side->pz,
							 .send_cq = side->cq,
							 .recv_cq = side->cq,
							 .max_send_wr = 10,
							 .max_recv_wr = 10,
							 .max_send_sge = 1,
							 .max_recv_sge = 1,
							 .flags = ONE_QP_UD};
	assert_int_equal(app_call(&side->app, ONE_MSG_QP_CREATE), 0);
	side->qp = side->app.reply.qp;
}

static inline void
side_close(struct side *side)
{
	app_close(&side->app);
	assert_clean();
	forget_events();
}

#endif
