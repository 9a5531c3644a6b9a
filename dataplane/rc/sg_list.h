/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the application: scatter/gather lists, and placing of payloads. */
#ifndef DATAPLANE_RC_SG_LIST_H
#define DATAPLANE_RC_SG_LIST_H

#include "dataplane/mem/place.h"
#include "rc_internal.h"

struct rc_sg_list {
	uint32_t num;
	bool bounce; /* an sge is in memory without mapping: see bounce_scatter, bounce_gather */
	struct mem_sge sge[ONE_MAX_SGE];
};

/* Resolve bytes [offset, offset+len) of a list. An sge to be read is checked over its whole length, since all
 * of it is sent. An sge to be written is checked only where the bytes go, since a message may be shorter than
 * its receive. Returns enum one_status; LOCAL_LENGTH: the list is shorter. */
enum one_status rc_resolve_list(const struct rc_qp *qp, const struct one_sge *sge, uint32_t num_sge,
				uint32_t offset, uint32_t len, uint32_t access, struct rc_sg_list *out);

static inline enum one_status
rc_resolve(const struct rc_qp *qp, const struct one_sge *sge, uint32_t num_sge, uint32_t offset, uint32_t len,
	   uint32_t access, struct rc_sg_list *out)
{
	struct mem_sge *local = &out->sge[0];

	if (unlikely(num_sge != 1 || len == 0))
		return rc_resolve_list(qp, sge, num_sge, offset, len, access, out);
	if (unlikely((uint64_t)offset + len > sge->len))
		return ONE_STATUS_LOCAL_LENGTH;
	local->region =
		access == ONE_ACCESS_LOCAL_WRITE
			? mem_check(qp->env->mem, sge->lkey, qp->pz, qp->qpn, access, sge->addr + offset, len)
			: mem_check(qp->env->mem, sge->lkey, qp->pz, qp->qpn, access, sge->addr, sge->len);
	if (unlikely(local->region == NULL))
		return ONE_STATUS_LOCAL_PROTECTION;
	local->va = sge->addr + offset;
	local->len = len;
	out->num = 1;
	out->bounce = local->region->base == NULL;
	return ONE_STATUS_SUCCESS;
}

/* Place whole units of a payload that completes nothing, or leave the copy to env->move. */
static inline void
rc_place_later(struct rc_env *env, uint8_t *to, const uint8_t *src, uint32_t len)
{
	if (len < RC_MOVE_MIN || env->move == NULL)
		mem_place(to, src, len);
	else
		*env->move = (struct wire_move){to, src, len};
}

/* Place the payload of the packet being input, or leave the copy to env->move. `last`: the message ends, so
 * it is placed at once. Packets held on a scoreboard are placed at once, too: they are gone when rc_input()
 * returns. */
static inline void
rc_place(struct rc_qp *qp, const struct mem_region *region, uint64_t va, const uint8_t *src, uint32_t len,
	 bool last, const struct rc_scoreboard *scoreboard)
{
	if (last || scoreboard != NULL || len % WIRE_MOVE_UNIT != 0)
		mem_write(region, va, src, len);
	else
		rc_place_later(qp->env, mem_at(region, va), src, len);
}

/* Callers have handled `bounce`. */
void rc_gather(const struct rc_sg_list *list, uint8_t *dst);
void rc_scatter(const struct rc_sg_list *list, const uint8_t *src);

/* ---- resume.c ---- */

/* Single accesses to memory without mapping: a request or response that is sent again, and an atomic. */
enum { RC_BOUNCE_AGAIN, RC_BOUNCE_RESPOND_AGAIN, RC_BOUNCE_ATOMIC };
_Static_assert(RC_BOUNCE_ATOMIC < BOUNCE_SLOTS, "a slot for each");
_Static_assert(sizeof(struct wire_packet) <= BOUNCE_NOTE, "a packet is kept as a note");

/* True if the queue pair waits until memory of this end is copied. */
bool rc_is_copying(const struct rc_qp *qp);
/* Drop the expected request; ask for it again when there is room for it. */
void rc_request_lost(struct rc_qp *qp);
/* Input of a request while an earlier one waits for memory; true: the request must not be executed now. */
bool rc_request_waits(struct rc_qp *qp, const struct wire_packet *packet, int32_t distance, uint64_t now);
/* Wait: the expected atomic needs its memory first. */
void rc_atomic_deferred(struct rc_qp *qp, const struct wire_packet *packet);

/* ---- landing.c ---- */

/* Send the expected SEND or WRITE to memory through staging memory: `list` is the destination of its payload,
 * `access` the right that its keys have to grant. */
void rc_land(struct rc_qp *qp, const struct wire_packet *packet, uint8_t kind, const struct rc_sg_list *list,
	     uint32_t access);
/* Execute requests whose payload is in place now. */
void rc_land_done(struct rc_qp *qp);
/* Complete receives of requests whose payload is not in place: the first with `status`, the others as
 * FLUSHED. */
void rc_land_flush(struct rc_qp *qp, enum one_status *status);
/* True if payload of a request before this PSN is not in place. */
bool rc_lands_before(const struct rc_qp *qp, uint32_t psn);
/* Acknowledge the newest request when its payload is in place. */
void rc_land_ask(struct rc_qp *qp);

/* Place the expected response; `last`: the READ or atomic ends with it. False: it was not taken. */
bool rc_land_response(struct rc_qp *qp, struct rc_node *node, const struct rc_sg_list *list,
		      const uint8_t *src, bool last);
void rc_land_response_done(struct rc_qp *qp, uint64_t now);
/* True if no READ to memory without mapping may begin until more of the requested data is in place. */
bool rc_landing_is_full(const struct rc_qp *qp);

/* ---- ahead.c ---- */

/*
 * Payload of request packet `snd`, and in *count the number of packets from there on, at most its initial
 * value.
 *
 * 0: *data is set
 * -EAGAIN: not read yet; rc_resume() will be called
 * -EFAULT: the memory is not accessible
 * -ENOENT: it cannot be read ahead
 */
int rc_ahead_request(struct rc_qp *qp, uint32_t *count, const uint8_t **data);
/* Like rc_ahead_request(), for response `next` of a READ. */
int rc_ahead_response(struct rc_qp *qp, const struct rc_resource *resource, uint32_t *count,
		      const uint8_t **data);
/* The next packet of the queue has this PSN: release chunks read for packets before it. */
void rc_ahead_used(struct rc_qp *qp, enum bounce_queue queue, uint32_t psn);

#endif
