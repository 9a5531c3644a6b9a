/* SPDX-License-Identifier: BSD-3-Clause */
/* Two applications of one data plane, one of which listens. */
#ifndef TEST_CONTROL_ENDS_H
#define TEST_CONTROL_ENDS_H

#include <sys/socket.h>

#include "attach.h"

struct ends {
	struct app active, passive;
	struct one_qp_created a, p;
	uint32_t listener;
	uint32_t cq_a, cq_p, pz_a, pz_p;
};

static inline void
ends_open_as(struct ends *ends, enum one_kind kind, uint64_t service)
{
	app_hello(&ends->active, kind);
	app_hello(&ends->passive, kind);
	ends->pz_a = app_pz(&ends->active);
	ends->pz_p = app_pz(&ends->passive);
	/* Ids of the two attachments must differ, because the fake distinguishes events by them. */
	app_cq(&ends->passive, 10);
	ends->cq_a = app_cq(&ends->active, 10);
	ends->cq_p = app_cq(&ends->passive, 10);
	app_qp(&ends->passive, ends->pz_p, ends->cq_p);
	ends->a = app_qp(&ends->active, ends->pz_a, ends->cq_a);
	ends->p = app_qp(&ends->passive, ends->pz_p, ends->cq_p);
	ends->passive.msg.listen = (struct one_listen){.service = service, .cq = ends->cq_p};
	assert_int_equal(app_call(&ends->passive, ONE_MSG_LISTEN), 0);
	ends->listener = ends->passive.reply.listening.listener;
}

static inline void
ends_open(struct ends *ends, uint64_t service)
{
	ends_open_as(ends, ONE_KIND_DAT, service);
}

static inline void
ends_close(struct ends *ends)
{
	app_close(&ends->active);
	app_close(&ends->passive);
	assert_clean();
	forget_events();
}

static inline const struct one_cr_shm *
await_request(struct ends *ends)
{
	struct fake_event event = await(ONE_CQE_REQUEST, ends->listener);

	assert_true(event.cookie < ONE_ARENA_SIZE - sizeof(struct one_cr_shm));
	return (const struct one_cr_shm *)(ends->passive.arena + event.cookie);
}

static inline int
accept_request(struct ends *ends, uint32_t cr)
{
	ends->passive.msg.cr_accept =
		(struct one_cr_accept){.cr = cr, .qp = ends->p.qp, .private_len = 2, .private_data = {4, 5}};
	return app_call(&ends->passive, ONE_MSG_CR_ACCEPT);
}

static inline void
establish(struct ends *ends, uint64_t service)
{
	assert_int_equal(app_connect_qp(&ends->active, ends->a.qp, service, UINT64_MAX), 0);
	assert_int_equal(accept_request(ends, await_request(ends)->cr), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends->a.qp).status, ONE_CONN_ESTABLISHED);
	assert_int_equal(await(ONE_CQE_CONNECT, ends->p.qp).status, ONE_CONN_ESTABLISHED);
}

static inline int
disconnect(struct app *app, uint32_t qp, bool graceful)
{
	app->msg.qp_disconnect = (struct one_qp_disconnect){.qp = qp, .graceful = graceful};
	return app_call(app, ONE_MSG_QP_DISCONNECT);
}

#endif
