/* SPDX-License-Identifier: BSD-3-Clause */
/* Local memory regions (LMR) and memory windows (RMR). */
#ifndef DAT_BASE_MEMORY_OBJECT_H_INTERNAL
#define DAT_BASE_MEMORY_OBJECT_H_INTERNAL

#include "client/mem.h"
#include "dat/object.h"

struct lmr {
	struct object o; /* key: lkey */
	struct one_mr mr;
	struct pz *pz;
	DAT_MEM_TYPE mem_type;
	DAT_MEM_PRIV_FLAGS priv;
	DAT_REGION_DESCRIPTION desc;
	char cookie[DAT_LMR_COOKIE_SIZE]; /* SHARED_VIRTUAL */
	bool freeing;                     /* guarded by ia.lock */
};

static inline bool
lmr_covers(const struct lmr *lmr, const DAT_LMR_TRIPLET *segment)
{
	return segment->segment_length <= lmr->mr.length && segment->virtual_address >= lmr->mr.va &&
	       segment->virtual_address - lmr->mr.va <= lmr->mr.length - segment->segment_length;
}

struct rmr {
	struct object o; /* key: rkey with all variant bits 1 */
	uint32_t id;
	DAT_RMR_CONTEXT key; /* rkey of the last bind */
	struct pz *pz;
	/* guarded by ia.lock */
	struct lmr *lmr; /* NULL: not bound */
	DAT_LMR_TRIPLET triplet;
	DAT_MEM_PRIV_FLAGS priv;
};

/* Checks a local segment of nonzero length against region `lmr`.  Errors: the region is unknown (NULL), lacks
 * the right to write where data arrives (`write`; reading needs no right), is of another zone than `pz`
 * (NULL: any zone), or does not cover the segment.  Segments are argument 3 of every post. */
static inline DAT_RETURN
judge_segment(const struct lmr *lmr, const struct pz *pz, const DAT_LMR_TRIPLET *segment, bool write)
{
	if (lmr == NULL || (write && ((uint32_t)lmr->priv & DAT_MEM_PRIV_LOCAL_WRITE_FLAG) == 0))
		return DAT_ERROR(DAT_PRIVILEGES_VIOLATION,
				 write ? DAT_PRIVILEGES_WRITE : DAT_PRIVILEGES_READ);
	if (pz != NULL && lmr->pz != pz)
		return DAT_ERROR(DAT_PROTECTION_VIOLATION,
				 write ? DAT_PROTECTION_WRITE : DAT_PROTECTION_READ);
	return lmr_covers(lmr, segment) ? DAT_SUCCESS : BAD_ARG(3);
}

static inline DAT_RETURN
check_segment(const struct ia *ia, const struct pz *pz, const DAT_LMR_TRIPLET *segment, bool write)
{
	return judge_segment(object_find(ia, DAT_HANDLE_TYPE_LMR, segment->lmr_context), pz, segment, write);
}

#endif
