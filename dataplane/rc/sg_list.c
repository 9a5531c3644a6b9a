/* SPDX-License-Identifier: BSD-3-Clause */
/* Local scatter/gather lists: keys are looked up for every packet, never cached. */
#include "sg_list.h"

RC_COLD enum one_status
rc_resolve_list(const struct rc_qp *qp, const struct one_sge *sge, uint32_t num_sge, uint32_t offset,
		uint32_t len, uint32_t access, struct rc_sg_list *out)
{
	out->num = 0;
	out->bounce = false;
	for (uint32_t i = 0; i < num_sge && len > 0; i++) {
		struct mem_sge *local;
		uint32_t take;

		if (offset >= sge[i].len) {
			offset -= sge[i].len;
			continue;
		}
		take = sge[i].len - offset < len ? sge[i].len - offset : len;
		local = &out->sge[out->num];
		local->region = access == ONE_ACCESS_LOCAL_WRITE
					? mem_check(qp->env->mem, sge[i].lkey, qp->pz, qp->qpn, access,
						    sge[i].addr + offset, take)
					: mem_check(qp->env->mem, sge[i].lkey, qp->pz, qp->qpn, access,
						    sge[i].addr, sge[i].len);
		if (local->region == NULL)
			return ONE_STATUS_LOCAL_PROTECTION;
		out->bounce |= local->region->base == NULL;
		local->va = sge[i].addr + offset;
		local->len = take;
		out->num++;
		len -= take;
		offset = 0;
	}
	return len == 0 ? ONE_STATUS_SUCCESS : ONE_STATUS_LOCAL_LENGTH;
}

void
rc_gather(const struct rc_sg_list *list, uint8_t *dst)
{
	for (uint32_t i = 0; i < list->num; i++) {
		const struct mem_sge *local = &list->sge[i];

		mem_read(local->region, local->va, dst, local->len);
		dst += local->len;
	}
}

void
rc_scatter(const struct rc_sg_list *list, const uint8_t *src)
{
	for (uint32_t i = 0; i < list->num; i++) {
		const struct mem_sge *local = &list->sge[i];

		mem_write(local->region, local->va, src, local->len);
		src += local->len;
	}
}
