/* SPDX-License-Identifier: BSD-3-Clause */
/* Put and get of elements and of blocks. */
#include <inttypes.h>

#include "rsm/transfer.h"
#include "rsm/link.h"

int
rsm_check(struct rsm_import *import, enum rsm_direction direction, uint64_t offset, uint64_t len,
	  bool *silent)
{
	uint32_t right = direction == RSM_PUT ? RSM_PERM_WRITE : RSM_PERM_READ;

	if ((import->permission & right) == 0)
		return ONE_BECAUSE(
			RSMERR_PERM_DENIED,
			"im_memseg, rights = %#x: it was connected without %s; give that to rsm_memseg_import_connect",
			import->permission, direction == RSM_PUT ? "RSM_PERM_WRITE" : "RSM_PERM_READ");
	if (import->mapped ? !rsm_map_covers(import, offset, len)
			   : offset > import->size || len > import->size - offset)
		return ONE_BECAUSE(import->mapped ? RSMERR_BAD_OFFSET : RSMERR_BAD_LENGTH,
				   "offset = %" PRIu64 ": with length %" PRIu64 " it is beyond %s %" PRIu64
				   " bytes; stay inside%s",
				   offset, len,
				   import->mapped ? "the mapped part of the segment's" : "the segment's",
				   import->size, import->mapped ? ", or map more" : "");
	if (!import->explicit_mode && import->barrier == NULL)
		return RSMERR_BARRIER_UNINITIALIZED;
	rsm_drain(import);
	*silent = import->aborted;
	return rsm_map_result(import);
}

int
rsm_finish(struct rsm_import *import, enum rsm_direction direction)
{
	uint64_t target = import->posted;

	if (import->explicit_mode && import->spans > 0)
		return RSM_SUCCESS;
	/* Data of a get must be in place on return: no close will wait for it. */
	if (!import->explicit_mode || direction == RSM_GET) {
		rsm_wait_done(import, target);
		if (import->done >= target && !import->cut)
			return RSM_SUCCESS;
	}
	return import->aborted ? rsm_report_abort(import) : RSM_SUCCESS;
}

/* In explicit mode a put must not read the memory after it returns. A get may write until the close. */
int
rsm_issue(struct rsm_import *import, enum rsm_direction direction, uint64_t offset, void *local, uint64_t len,
	  uint32_t element)
{
	bool back = direction == RSM_PUT && import->explicit_mode;
	uint32_t lkey = 0;

	if (element == 0 && len >= (back ? RSM_BACK_MIN : RSM_DIRECT_MIN))
		lkey = rsm_range_find(import->link, (uintptr_t)local, len);
	if (back && lkey != 0)
		return rsm_issue_put_back(import, offset, local, len, lkey);
	return rsm_issue_pieces(import, direction, offset, local, len, lkey, element, !import->explicit_mode);
}

static int
transfer_block(struct rsm_import *import, enum rsm_direction direction, uint64_t offset, void *local,
	       uint64_t len, uint32_t element)
{
	bool silent;
	int result = rsm_check(import, direction, offset, len, &silent);

	if (result != RSM_SUCCESS || silent || len == 0)
		return result;
	result = rsm_local_check(import, local, len, direction);
	if (result != RSM_SUCCESS)
		return result;
	if (rsm_map_copy(import, direction, offset, local, len))
		return rsm_map_result(import);
	result = rsm_issue(import, direction, offset, local, len, import->swap && element > 1 ? element : 0);
	if (result != RSM_SUCCESS) {
		rsm_wait_done(import, import->posted); /* earlier chunks still write to the caller's memory */
		return result;
	}
	return rsm_finish(import, direction);
}

/* UINT64_MAX on overflow: longer than any segment, so the range check fails. */
static inline uint64_t
length_of(uint64_t count, uint32_t element)
{
	uint64_t len;

	return __builtin_mul_overflow(count, element == 0 ? 1u : element, &len) ? UINT64_MAX : len;
}

static inline bool
is_aligned(uint64_t offset, const void *local, uint32_t element)
{
	return element <= 1 || ((uintptr_t)local % element == 0 && offset % element == 0);
}

/* `element` 1, 2, 4, 8: size of aligned elements; 0: bytes. As uint64_t a negative offset is beyond the end
 * of any segment. */
static __attribute__((noinline)) int
access_segment(rsm_memseg_import_handle_t handle, enum rsm_direction direction, uint64_t offset, void *local,
	       uint64_t count, uint32_t element)
{
	struct rsm_import *import;
	int result;

	if (handle == NULL)
		return RSMERR_BAD_SEG_HNDL;
	if (local == NULL)
		return RSMERR_BAD_ADDR;
	if (!is_aligned(offset, local, element))
		return ONE_BECAUSE(
			RSMERR_BAD_MEM_ALIGNMENT,
			"datap = %p, offset = %#" PRIx64
			": elements of %u bytes begin at multiples of %u, locally and in the segment; align them, or use the call without a number in its name, which moves bytes",
			local, offset, element, element);
	result = rsm_import_lock(handle, &import);
	if (result != RSM_SUCCESS)
		return result;
	result = transfer_block(import, direction, offset, local, length_of(count, element), element);
	rsm_slot_unlock(import);
	return result;
}

/* The fast path keeps no arguments for a refusal: slow_NAME() is out of line, so that a transfer through a
 * mapping saves no registers. */
#define ACCESS(name, direction, type, number, element)                                                       \
	static __attribute__((noinline)) int slow_##name(rsm_memseg_import_handle_t im_memseg, off_t offset, \
							 type *local, number count)                          \
	{                                                                                                    \
		int result = access_segment(im_memseg, direction, (uint64_t)offset, local, count, element);  \
                                                                                                             \
		return result == RSM_SUCCESS                                                                 \
			       ? RSM_SUCCESS                                                                 \
			       : rsm_refused_memseg_import_##name(result, im_memseg, offset, local, count);  \
	}                                                                                                    \
                                                                                                             \
	int rsm_memseg_import_##name(rsm_memseg_import_handle_t im_memseg, off_t offset, type *local,        \
				     number count)                                                           \
	{                                                                                                    \
		if (local != NULL && is_aligned((uint64_t)offset, local, element) &&                         \
		    rsm_map_quick(im_memseg, direction, (uint64_t)offset, local, length_of(count, element))) \
			return RSM_SUCCESS;                                                                  \
		return slow_##name(im_memseg, offset, local, count);                                         \
	}
ACCESS(get8, RSM_GET, uint8_t, ulong_t, 1)
ACCESS(get16, RSM_GET, uint16_t, ulong_t, 2)
ACCESS(get32, RSM_GET, uint32_t, ulong_t, 4)
ACCESS(get64, RSM_GET, uint64_t, ulong_t, 8)
ACCESS(get, RSM_GET, void, size_t, 0)
ACCESS(put8, RSM_PUT, uint8_t, ulong_t, 1)
ACCESS(put16, RSM_PUT, uint16_t, ulong_t, 2)
ACCESS(put32, RSM_PUT, uint32_t, ulong_t, 4)
ACCESS(put64, RSM_PUT, uint64_t, ulong_t, 8)
ACCESS(put, RSM_PUT, void, size_t, 0)
