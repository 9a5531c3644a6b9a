/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transports of a queue pair: local copies and RC over a port for a connection, and datagrams.
 */
#ifndef DATAPLANE_QP_TRANSPORT_H
#define DATAPLANE_QP_TRANSPORT_H

#include "dataplane/qp/share.h"

/* Of a request that ends. */
static inline struct completion
qp_completion(const struct work *work, uint8_t status)
{
	struct completion c = {.cookie = work->cookie,
			       .length = work->length,
			       .type = ONE_CQE_SEND,
			       .status = status,
			       .op = work->op,
			       .wqe_flags = work->flags};

	if (work->op == ONE_OP_BIND)
		completion_of_bind(&c, work);
	return c;
}

/* ---- local.c ---- */
void local_poll(struct core *core, struct engine_qp *qp, uint32_t budget);
void local_bind_done(struct core *core, struct engine_qp *qp, bool ok);
void local_kick(struct core *core,
		struct engine_qp *qp); /* something that others wait for has changed in qp */
/* Nothing is moved any more for it or by its peer to it. */
void local_leave(struct core *core, struct engine_qp *qp);

/* ---- rcio.c ---- */
void rcio_init(struct core *core);
void rcio_after(struct core *core, struct engine_qp *qp); /* after any call of the transport */
void rcio_poll(struct core *core, struct engine_qp *qp, uint32_t budget); /* new work */
/* What the peer waits for, at once, since its user has a ceiling and its next turn may be far: see
 * share_reads(). */
void rcio_answer(struct core *core, struct engine_qp *qp);
/* The same for those of these that are to make frames. */
void rcio_answer_run(struct core *core, struct qp_list *run);
/* Frames of these, until the client's turn is over; returns how many. */
uint32_t rcio_run(struct core *core, struct qp_list *run);
uint32_t rcio_receive(struct core *core);
uint32_t rcio_inbound(struct core *core);
/* A buffer for a frame of `len` bytes, the core's tx_frame, to TX_TO() or (`loop`) to queue pair `qpn` of
 * this data plane; NULL: none can be had now, or it could not go there. */
uint8_t *rcio_frame_begin(struct core *core, uint16_t to, bool loop, uint32_t qpn, uint32_t len);
/* Sends it there, as a frame of queue pair `from`. */
void rcio_frame_end(struct core *core, uint16_t to, bool loop, uint32_t from, uint32_t qpn, bool sealed);

/* ---- bind.c ---- */
/* `copies`: the window reached memory that the application's thread copies.  -EALREADY: none is waited for.
 */
int qp_bind_done(struct core *core, struct engine_qp *qp, bool ok, bool copies);
uint32_t qp_bind_poll(struct core *core); /* while core->settling is not empty; how many have completed */
void qp_bind_leave(struct core *core, struct engine_qp *qp); /* none is waited for any more */

/* ---- ud.c ---- */
void ud_poll(struct core *core, struct engine_qp *qp, uint32_t budget);
void ud_input(struct core *core, struct engine_qp *qp, const struct wire_packet *packet);
void ud_resume(struct core *core, struct engine_qp *qp); /* memory without mapping has been read or written */
void ud_leave(struct core *core, struct engine_qp *qp, bool flush);

/* ---- steer.c: flow rules for queue pairs ---- */
/* The control thread: before the core gets the command. */
void steer_command(const struct engine_command *command);
void steer_learn(struct engine_qp *qp, uint16_t udp_src_port);
/* The owner's core. */
void steer_ask(struct core *core, struct engine_qp *qp, const struct frame_info *info);

/* Another core received a frame for the queue pair. */
static inline void
steer_strayed(struct core *core, struct engine_qp *qp, const struct frame_info *info)
{
	if (unlikely(++qp->strays % FLOW_STRAYS == 0))
		steer_ask(core, qp, info);
}

#endif
