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

/* What may be under way at once in memory without mapping. */
enum { RC_REACH_SEND, RC_REACH_RESPOND, RC_REACH_REQUEST, RC_REACH_RESPONSE };
_Static_assert(RC_REACH_RESPONSE < REACH_SLOTS, "a slot for each");
_Static_assert(sizeof(struct wire_packet) <= REACH_NOTE, "a packet is kept as a note");

/* The packet is given to the same function again when the access of the slot is carried out; false: none was
 * begun, all jobs are taken, and the packet is lost. */
bool rc_keep(struct rc_qp *qp, uint32_t slot, const struct wire_packet *packet);
/* A request, or a response, that comes while another waits; true: it is dropped. */
bool rc_request_missed(struct rc_qp *qp, int32_t distance);
bool rc_response_missed(struct rc_qp *qp);
/* Payload of the slot is on its way between this end's memory without mapping and a packet. */
static inline bool
rc_is_moving(const struct rc_qp *qp, uint32_t slot)
{
	return qp->party.job[slot] != NULL && !reach_done(&qp->party, slot);
}

/* The expected request waits for its memory. */
void rc_request_parked(struct rc_qp *qp, const struct wire_packet *packet);

#endif
