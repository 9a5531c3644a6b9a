/* SPDX-License-Identifier: BSD-3-Clause */
/* Local scatter/gather lists: keys are looked up for every packet, never kept. */
#include "rc_internal.h"

#include <errno.h>

RC_COLD enum one_status
rc_resolve_list(const struct rc_qp *qp, const struct one_sge *sge, uint32_t num_sge, uint32_t offset,
		uint32_t len, uint32_t access, struct rc_pieces *out)
{
	out->num = 0;
	out->bounce = false;
	for (uint32_t i = 0; i < num_sge && len > 0; i++) {
		struct mem_piece *piece;
		uint32_t take;

		if (offset >= sge[i].len) {
			offset -= sge[i].len;
			continue;
		}
		take = sge[i].len - offset < len ? sge[i].len - offset : len;
		piece = &out->piece[out->num];
		piece->region = mem_check(qp->env->mem, sge[i].lkey, qp->pz, qp->qpn, access, sge[i].addr,
					  sge[i].len);
		if (piece->region == NULL)
			return ONE_STATUS_LOCAL_PROTECTION;
		out->bounce |= piece->region->base == NULL;
		piece->va = sge[i].addr + offset;
		piece->len = take;
		out->num++;
		len -= take;
		offset = 0;
	}
	return len == 0 ? ONE_STATUS_SUCCESS : ONE_STATUS_LOCAL_LENGTH;
}

void
rc_gather(const struct rc_pieces *pieces, uint8_t *dst)
{
	for (uint32_t i = 0; i < pieces->num; i++) {
		const struct mem_piece *piece = &pieces->piece[i];

		mem_read(piece->region, piece->va, dst, piece->len);
		dst += piece->len;
	}
}

void
rc_scatter(const struct rc_pieces *pieces, const uint8_t *src)
{
	for (uint32_t i = 0; i < pieces->num; i++) {
		const struct mem_piece *piece = &pieces->piece[i];

		mem_write(piece->region, piece->va, src, piece->len);
		src += piece->len;
	}
}

RC_COLD int
rc_scatter_slowly(struct rc_qp *qp, uint32_t slot, const struct rc_pieces *pieces,
		  const struct wire_packet *packet, const uint8_t *src, uint32_t tag, bool *kept)
{
	int error = reach_scatter(&qp->party, slot, pieces->piece, pieces->num, src, tag);

	*kept = error == -EAGAIN && qp->party.job[slot] != NULL;
	if (*kept)
		rc_keep(qp, slot, packet);
	return error;
}
