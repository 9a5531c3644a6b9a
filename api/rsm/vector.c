/* SPDX-License-Identifier: BSD-3-Clause */
/* putv and getv. Pieces are issued and complete in order, so one wait at the end determines how many are
 * done. */
#include "rsm/transfer.h"
#include "rsm/link.h"

/* Finds a piece's local memory, and the key of its handle, or 0. */
static int
locate_piece(struct rsm_import *import, const rsm_iovec_t *piece, void **local, uint32_t *lkey)
{
	*lkey = 0;
	switch (piece->io_type) {
	case RSM_HANDLE_TYPE:
		return rsm_localmem_find(piece->local.handle, import->link, piece->local_offset,
					 piece->transfer_length, local, lkey);
	case RSM_VA_TYPE:
		if (piece->local.vaddr == NULL)
			return RSMERR_BAD_ADDR;
		*local = piece->local.vaddr + piece->local_offset;
		return RSM_SUCCESS;
	default:
		return RSMERR_BAD_SGIO;
	}
}

static int
issue_piece(struct rsm_import *import, enum rsm_direction direction, const rsm_iovec_t *piece)
{
	uint64_t offset = piece->remote_offset, len = piece->transfer_length;
	void *local;
	uint32_t lkey;
	bool silent;
	int result = locate_piece(import, piece, &local, &lkey);

	if (result == RSM_SUCCESS)
		result = rsm_check(import, direction, offset, len, &silent);
	if (result != RSM_SUCCESS || silent || len == 0)
		return result;
	if (lkey == 0)
		result = rsm_local_check(import, local, len, direction);
	if (result != RSM_SUCCESS)
		return result;
	if (rsm_map_copy(import, direction, offset, local, len))
		return rsm_map_result(import);
	if (lkey == 0)
		return rsm_issue(import, direction, offset, local, len, 0);
	return rsm_issue_pieces(import, direction, offset, local, len, lkey, 0, !import->explicit_mode);
}

static int
transfer_pieces(struct rsm_import *import, enum rsm_direction direction, const rsm_iovec_t *iovec,
		uint32_t count, uint32_t *completed)
{
	uint64_t end[RSM_MAX_SGIOREQS];
	uint32_t issued = 0;
	int result = RSM_SUCCESS, wait;

	while (issued < count && result == RSM_SUCCESS) {
		rsm_iovec_t piece = iovec[issued]; /* copied once: another thread may change the vector */

		result = issue_piece(import, direction, &piece);
		if (result == RSM_SUCCESS)
			end[issued++] = import->cut ? UINT64_MAX : import->posted;
	}
	/* Also waits for chunks of a piece that stopped halfway. */
	wait = rsm_finish(import, direction);
	*completed = 0;
	if (wait == RSM_SUCCESS) {
		*completed = issued;
		return result;
	}
	while (*completed < issued && end[*completed] <= import->done)
		++*completed;
	return *completed < issued ? wait : result;
}

static int
transfer_vector(rsm_scat_gath_t *sg_io, enum rsm_direction direction)
{
	struct rsm_import *import;
	uint32_t count, completed;
	int result;

	if (sg_io == NULL)
		return RSMERR_BAD_SGIO;
	if (sg_io->remote_handle == NULL)
		return RSMERR_BAD_SEG_HNDL;
	if (sg_io->io_request_count == 0 || sg_io->io_request_count > RSM_MAX_SGIOREQS ||
	    sg_io->iovec == NULL)
		return RSMERR_BAD_SGIO;
	count = (uint32_t)sg_io->io_request_count;
	sg_io->io_residual_count = count;
	result = rsm_import_lock(sg_io->remote_handle, &import);
	if (result != RSM_SUCCESS)
		return result;
	result = transfer_pieces(import, direction, sg_io->iovec, count, &completed);
	if (result == RSM_SUCCESS && (sg_io->flags & RSM_IMPLICIT_SIGPOST) != 0)
		result = rsm_import_signal(import, (sg_io->flags & RSM_SIGPOST_NO_ACCUMULATE) != 0);
	rsm_slot_unlock(import);
	sg_io->io_residual_count = count - completed;
	return result;
}

int
rsm_do_memseg_import_putv(rsm_scat_gath_t *sg_io)
{
	return transfer_vector(sg_io, RSM_PUT);
}

int
rsm_do_memseg_import_getv(rsm_scat_gath_t *sg_io)
{
	return transfer_vector(sg_io, RSM_GET);
}
