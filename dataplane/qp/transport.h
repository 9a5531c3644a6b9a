/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transports of a queue pair: local copies or RC over a port for a connection, and datagrams.
 */
#ifndef DATAPLANE_QP_TRANSPORT_H
#define DATAPLANE_QP_TRANSPORT_H

#include "dataplane/qp/share.h"

/* Returns the completion of a request. */
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
		struct engine_qp *qp); /* a local peer may wait for what has changed in qp */
/* The queue pair has come to the core: its peer there goes on. */
void local_arrive(struct core *core, struct engine_qp *qp);
/* Cancel bounced accesses of the queue pair, and those of its peer. */
void local_leave(struct core *core, struct engine_qp *qp);
/* The queue pair leaves the core. -EAGAIN: memory without mapping is being written; nothing has changed. */
int local_freeze(struct core *core, struct engine_qp *qp);

/* ---- rcio.c ---- */
void rcio_init(struct core *core);
void rcio_after(struct core *core, struct engine_qp *qp); /* call after any call of the transport */
void rcio_poll(struct core *core, struct engine_qp *qp, uint32_t budget); /* takes new work */
/* Sets a connection's path. What a recognized peer asked for stays. */
void rcio_set_path(struct engine_qp *qp, const struct wire_path *path);
/* Send at once what the peer waits for: the next turn of a user with a ceiling may be late. See
 * share_reads(). */
void rcio_answer(struct core *core, struct engine_qp *qp);
/* Call rcio_answer() for each queue pair that has frames to make. */
void rcio_answer_run(struct core *core, struct qp_list *run);
/* Make frames for the queue pairs until the client's turn ends. Returns the number of frames. */
uint32_t rcio_run(struct core *core, struct qp_list *run);
uint32_t rcio_receive(struct core *core);
uint32_t rcio_inbound(struct core *core);
void rcio_take(struct core *core, struct rte_mbuf *m); /* input a frame that waited for a move */
/* Returns a buffer for a frame of `len` bytes, the core's tx_frame, to TX_TO() or (`loop`) to queue pair
 * `qpn` of this data plane. NULL: no buffer, or no room at the destination. */
uint8_t *rcio_frame_begin(struct core *core, uint16_t to, bool loop, uint32_t qpn, uint32_t len);
/* Send the frame begun last, as one of queue pair `from`. */
void rcio_frame_end(struct core *core, uint16_t to, bool loop, uint32_t from, uint32_t qpn, bool sealed);

/* ---- bind.c ---- */
/* Have the control thread carry out the bind `work`. */
void qp_bind_ask(struct core *core, struct engine_qp *qp, const struct work *work);
/* `copies`: the window included memory that the copy thread moves. Returns -EALREADY if the bind is not
 * awaited. */
int qp_bind_done(struct core *core, struct engine_qp *qp, bool ok, bool copies);
uint32_t qp_bind_poll(struct core *core); /* if core->quiescing is not empty; returns the number completed */
/* No bind is awaited any more. */
void qp_bind_leave(struct core *core, struct engine_qp *qp, const char *why);

/* ---- ud.c ---- */
void ud_poll(struct core *core, struct engine_qp *qp, uint32_t budget);
void ud_input(struct core *core, struct engine_qp *qp, const struct wire_packet *packet);
void ud_resume(struct core *core, struct engine_qp *qp); /* bounced accesses have ended */
void ud_leave(struct core *core, struct engine_qp *qp, bool flush);

/* ---- steer.c: flow rules for queue pairs ---- */
/* Control thread: call before the core gets the command. */
void steer_command(const struct engine_command *command);
/* Returns false if the port takes no flow rules, so that the frames stray on. */
bool steer_learn(struct engine_qp *qp, uint16_t udp_src_port);
/* Control thread: the rule leads to the core that the queue pair has left. */
void steer_moved(struct engine_qp *qp);
/* Owner's core: report where frames arrive. */
void steer_ask(struct core *core, struct engine_qp *qp, const struct frame_info *info);

/* Count a frame for the queue pair that another core received. */
static inline void
steer_strayed(struct core *core, struct engine_qp *qp, const struct frame_info *info)
{
	if (unlikely(++qp->strays % FLOW_STRAYS == 0))
		steer_ask(core, qp, info);
}

#endif
