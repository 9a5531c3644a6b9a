/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the application: its scatter/gather lists, and where payloads are placed. */
#ifndef DATAPLANE_RC_SG_LIST_H
#define DATAPLANE_RC_SG_LIST_H

#include "dataplane/mem/place.h"
#include "rc_internal.h"

struct rc_sg_list {
	uint32_t num;
	bool bounce; /* an sge lies in memory without mapping: see reach_scatter, reach_gather */
	struct mem_sge sge[ONE_MAX_SGE];
};

/*
 * Bytes [offset, offset+len) of a list.  An sge that is read is checked over its whole length, since all of
 * it is sent; an sge that is written only where the bytes go, since a message may be shorter than its
 * receive. enum one_status; LOCAL_LENGTH: the list is shorter.
 */
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

/* Whole units of a payload that completes nothing to its place, or to env->move. */
static inline void
rc_place_later(struct rc_env *env, uint8_t *to, const uint8_t *src, uint32_t len)
{
	if (len < RC_MOVE_MIN || env->move == NULL)
		mem_place(to, src, len);
	else
		*env->move = (struct wire_move){to, src, len};
}

/*
 * Payload of the packet that is being input to its place, or to env->move.  `last`: the message ends,
 * so it is placed at once.  Packets held on a scoreboard are gone when rc_input() is left.
 */
static inline void
rc_place(struct rc_qp *qp, const struct mem_region *region, uint64_t va, const uint8_t *src, uint32_t len,
	 bool last, const struct rc_scoreboard *scoreboard)
{
	if (last || scoreboard != NULL || len % WIRE_MOVE_UNIT != 0)
		mem_write(region, va, src, len);
	else
		rc_place_later(qp->env, mem_at(region, va), src, len);
}

/* Without `bounce`. */
void rc_gather(const struct rc_sg_list *list, uint8_t *dst);
void rc_scatter(const struct rc_sg_list *list, const uint8_t *src);

/* ---- resume.c ---- */

/* Single accesses to memory without mapping: a request or response that is sent again, and an atomic. */
enum { RC_REACH_AGAIN, RC_REACH_RESPOND_AGAIN, RC_REACH_ATOMIC };
_Static_assert(RC_REACH_ATOMIC < REACH_SLOTS, "a slot for each");
_Static_assert(sizeof(struct wire_packet) <= REACH_NOTE, "a packet is kept as a note");

/* Memory of this end is being copied, and what the queue pair does next waits for it. */
bool rc_is_copying(const struct rc_qp *qp);
/* The expected request is dropped, and asked for again when there is room for it. */
void rc_request_lost(struct rc_qp *qp);
/* A request that comes while an earlier one waits for memory; true: it is not to be executed now. */
bool rc_request_waits(struct rc_qp *qp, const struct wire_packet *packet, int32_t distance, uint64_t now);
/* The expected atomic waits for its memory. */
void rc_atomic_parked(struct rc_qp *qp, const struct wire_packet *packet);

/* ---- landing.c ---- */

/*
 * The expected SEND or WRITE goes to memory by way of staging memory: `list` is what its payload goes to,
 * `access` the right that its keys have to grant.
 */
void rc_land(struct rc_qp *qp, const struct wire_packet *packet, uint8_t kind, const struct rc_sg_list *list,
	     uint32_t access);
/* Requests whose payload is in place now. */
void rc_land_done(struct rc_qp *qp);
/* Receives of requests whose payload is not in place: the first completes with `status`, the others FLUSHED.
 */
void rc_land_flush(struct rc_qp *qp, enum one_status *status);
/* Payload of an earlier request than the one with this PSN is not in place. */
bool rc_lands_before(const struct rc_qp *qp, uint32_t psn);
/* The newest request is to be acknowledged when its payload is in place. */
void rc_land_ask(struct rc_qp *qp);

/* The expected response; `last`: the READ or atomic ends with it.  False: it is not in place. */
bool rc_land_response(struct rc_qp *qp, struct rc_node *node, const struct rc_sg_list *list,
		      const uint8_t *src, bool last);
void rc_land_response_done(struct rc_qp *qp, uint64_t now);
/* No READ to memory without mapping is to be begun before some of what was asked for is in place. */
bool rc_landing_is_full(const struct rc_qp *qp);

/* ---- ahead.c ---- */

/*
 * Payload of request packet `snd`, and in *count of how many packets from there on, at most as many as it
 * says. 0; -EAGAIN: not yet, rc_resume() will be called; -EFAULT; -ENOENT: it cannot be read ahead.
 */
int rc_ahead_request(struct rc_qp *qp, uint32_t *count, const uint8_t **data);
/* The same for response `next` of a READ. */
int rc_ahead_response(struct rc_qp *qp, const struct rc_resource *resource, uint32_t *count,
		      const uint8_t **data);
/* The next packet of the queue is the one with this PSN: what was read for those before is not needed. */
void rc_ahead_used(struct rc_qp *qp, enum reach_queue queue, uint32_t psn);

#endif
