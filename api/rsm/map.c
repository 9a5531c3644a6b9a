/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mappings of import segments whose exporter is on the same data plane. Put and get through a mapping are
 * ordinary copies in the caller.
 *
 * The exporter withdraws a segment by moving its pages out of the file. The mapping stays, with a copy of the
 * last contents. So every access checks afterwards whether the segment is gone. An access before the
 * unpublish takes effect at the exporter; a later one accesses the copy, and fails.
 *
 * Quick accesses take no lock. rsm_map_refresh() publishes their state in the import, under the lock, and
 * `quick_handle` last. An application that unmaps a window in use faults, as with its own loads and stores.
 */
#include "rsm/transfer.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void
rsm_map_refresh(struct rsm_import *import)
{
	uint32_t rights = 0;

	if (import->mapped && !import->aborted && !import->swap &&
	    (import->explicit_mode || import->barrier != NULL))
		rights = import->permission & import->window_rights;
	/* Pairs with the acquire load in rsm_map_quick(). Publishes the rights and the window. */
	one_store_alone(&import->quick, rights);
	atomic_store_explicit(&import->quick_handle, rights != 0 ? rsm_slot_handle(import) : NULL,
			      memory_order_release);
}

/* An element is one store or load, so that it is never torn (attr_atomic_sizes). Releases and acquires pair
 * with each other in the processes that map the segment, and with the exporter's own loads and stores. */
static inline void
place_word(uint8_t *to, const uint8_t *from, uint64_t len)
{
	uint64_t w8;
	uint32_t w4;
	uint16_t w2;

	switch (len) {
	case 8:
		memcpy(&w8, from, 8);
		__atomic_store_n((uint64_t *)(void *)to, w8, __ATOMIC_RELEASE);
		break;
	case 4:
		memcpy(&w4, from, 4);
		__atomic_store_n((uint32_t *)(void *)to, w4, __ATOMIC_RELEASE);
		break;
	case 2:
		memcpy(&w2, from, 2);
		__atomic_store_n((uint16_t *)(void *)to, w2, __ATOMIC_RELEASE);
		break;
	default:
		__atomic_store_n(to, *from, __ATOMIC_RELEASE);
		break;
	}
}

static inline bool
is_word(const uint8_t *at, uint64_t len)
{
	return (len == 8 || len == 4 || len == 2 || len == 1) && ((uintptr_t)at & (len - 1)) == 0;
}

/* Stores the last word last: a reader that polls it then sees the others. */
static void
place_long(uint8_t *to, const uint8_t *from, uint64_t len)
{
	uint64_t last = 8;

	if (len == 0)
		return;
	while (last > len || !is_word(to + len - last, last))
		last /= 2;
	memcpy(to, from, len - last);
	place_word(to + len - last, from + len - last, last);
}

static inline void
place_bytes(uint8_t *to, const uint8_t *from, uint64_t len)
{
	if (is_word(to, len))
		place_word(to, from, len);
	else
		place_long(to, from, len);
}

static inline void
fetch_bytes(uint8_t *to, const uint8_t *from, uint64_t len)
{
	uint64_t w8;
	uint32_t w4;
	uint16_t w2;

	switch (is_word(from, len) ? len : 0) {
	case 8:
		w8 = __atomic_load_n((const uint64_t *)(const void *)from, __ATOMIC_ACQUIRE);
		memcpy(to, &w8, 8);
		break;
	case 4:
		w4 = __atomic_load_n((const uint32_t *)(const void *)from, __ATOMIC_ACQUIRE);
		memcpy(to, &w4, 4);
		break;
	case 2:
		w2 = __atomic_load_n((const uint16_t *)(const void *)from, __ATOMIC_ACQUIRE);
		memcpy(to, &w2, 2);
		break;
	default:
		memcpy(to, from, len);
		break;
	}
}

static inline bool
is_gone(const struct rsm_import *import)
{
	/* Pairs with the data plane's store when the segment is withdrawn. No fence: a store leaves its
	 * processor long before the messages that lead to the exporter's copy have passed. */
	return (atomic_load_explicit(&import->qp.shm->rsm_flags, memory_order_acquire) & ONE_RSM_GONE) != 0 ||
	       one_client_dead(import->link->client);
}

bool
rsm_map_quick(const void *handle, enum rsm_direction direction, uint64_t offset, void *local, uint64_t len)
{
	uint8_t *base = rsm_table_base(&rsm_imports);
	uint32_t used = rsm_table_used(&rsm_imports);
	uint64_t at = (uintptr_t)handle - (uintptr_t)base, window_offset, window_len;
	struct rsm_import *import;
	uint8_t *memory;

	if (base == NULL || at / RSM_SLOT_SIZE >= used)
		return false;
	import = (struct rsm_import *)(void *)(base + at / RSM_SLOT_SIZE * RSM_SLOT_SIZE);
	/* Pairs with the release store in rsm_map_refresh(), which publishes the values loaded relaxed below.
	 * Changing the mapping meanwhile is the application's race. */
	if (atomic_load_explicit(&import->quick_handle, memory_order_acquire) != handle ||
	    (one_load_alone(&import->quick) & (direction == RSM_PUT ? RSM_PERM_WRITE : RSM_PERM_READ)) == 0 ||
	    rsm_slot_foreign(&import->slot))
		return false;
	window_offset = one_load_alone(&import->window_offset);
	window_len = one_load_alone(&import->window_len);
	if (offset < window_offset || len > window_len || offset - window_offset > window_len - len ||
	    !rsm_local_known(local, len, direction))
		return false;
	memory = one_load_alone(&import->window) + (offset - window_offset);
	if (direction == RSM_PUT)
		place_bytes(memory, local, len);
	else
		fetch_bytes(local, memory, len);
	return !is_gone(import);
}

bool
rsm_map_covers(const struct rsm_import *import, uint64_t offset, uint64_t len)
{
	uint64_t start = one_load_locked(&import->window_offset);
	uint64_t size = one_load_locked(&import->window_len);

	return offset >= start && len <= size && offset - start <= size - len;
}

bool
rsm_map_copy(struct rsm_import *import, enum rsm_direction direction, uint64_t offset, void *local,
	     uint64_t len)
{
	uint8_t *memory;

	if (!import->mapped || import->swap ||
	    (import->window_rights & (direction == RSM_PUT ? RSM_PERM_WRITE : RSM_PERM_READ)) == 0)
		return false;
	memory = one_load_locked(&import->window) + (offset - one_load_locked(&import->window_offset));
	/* Keeps order with transfers issued before the segment was mapped. */
	rsm_wait_done(import, import->posted);
	if (!import->aborted) {
		if (direction == RSM_PUT)
			place_bytes(memory, local, len);
		else
			fetch_bytes(local, memory, len);
	}
	rsm_drain(import);
	return true;
}

int
rsm_map_result(struct rsm_import *import)
{
	if (!import->aborted || (import->explicit_mode && import->spans > 0))
		return RSM_SUCCESS;
	return rsm_report_abort(import);
}

void
rsm_map_check_gone(struct rsm_import *import)
{
	if (import->answered && is_gone(import))
		rsm_abort(import, RSMERR_CONN_ABORTED);
}

/* ---- map and unmap ---- */

static int
check_map(struct rsm_import *import, void *const *address, bool fixed, uint32_t perm, uint64_t offset,
	  uint64_t length)
{
	size_t page = rsm_page_size();

	if (import->mapped)
		return RSMERR_SEG_ALREADY_MAPPED;
	rsm_drain(import);
	if (import->aborted)
		return rsm_report_abort(import);
	if (perm == 0 || (perm & ~import->permission) != 0)
		return RSMERR_BAD_PERMS;
	if (length == 0 || offset > import->size || length > import->size - offset)
		return RSMERR_BAD_LENGTH;
	if (offset % page != 0 || (fixed && (uintptr_t)*address % page != 0))
		return RSMERR_BAD_MEM_ALIGNMENT;
	return RSM_SUCCESS;
}

/* Finds the reason of a failed mmap: RSMERR_BAD_ADDR if the fixed address is at fault, because another would
 * do. */
static int
map_error(bool fixed, uint64_t size, int prot, int fd, off_t at)
{
	void *elsewhere = fixed ? mmap(NULL, size, prot, MAP_SHARED, fd, at) : MAP_FAILED;

	if (elsewhere == MAP_FAILED)
		return errno == ENOMEM ? RSMERR_INSUFFICIENT_RESOURCES : RSMERR_MAP_FAILED;
	munmap(elsewhere, size);
	return RSMERR_BAD_ADDR;
}

/* True if the file contains all of the segment and cannot shrink: otherwise loads could fault. */
static bool
is_whole(const struct rsm_import *import, const struct one_rsm_mapped *mapped, int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	return mapped->length >= import->size && seals >= 0 && (seals & F_SEAL_SHRINK) != 0 &&
	       fstat(fd, &st) == 0 && mapped->length <= (uint64_t)st.st_size &&
	       mapped->offset <= (uint64_t)st.st_size - mapped->length;
}

static int
map_segment(struct rsm_import *import, void **address, bool fixed, uint32_t perm, uint64_t offset,
	    uint64_t length)
{
	struct one_msg msg = {.type = ONE_MSG_RSM_MAP};
	uint64_t page = rsm_page_size(), size = (length + page - 1) / page * page;
	struct one_reply reply;
	void *memory = MAP_FAILED;
	int error, fd, prot;
	off_t at;

	msg.rsm_map.qp = import->qp.id;
	msg.rsm_map.permission = perm;
	error = one_call_fd(import->link->client, &msg, &reply, &fd);
	if (error != 0)
		return error == -ECONNRESET ? RSMERR_CONN_ABORTED : rsm_error(error);
	if (fd < 0)
		return RSMERR_MAP_FAILED;
	/* Hardware has no write-only pages. */
	prot = perm == RSM_PERM_READ ? PROT_READ : PROT_READ | PROT_WRITE;
	at = (off_t)(reply.rsm_mapped.offset + offset);
	error = RSMERR_MAP_FAILED;
	if (is_whole(import, &reply.rsm_mapped, fd)) {
		memory = mmap(fixed ? *address : NULL, size, prot, MAP_SHARED | (fixed ? MAP_FIXED : 0), fd,
			      at);
		if (memory == MAP_FAILED)
			error = map_error(fixed, size, prot, fd, at);
	}
	close(fd);
	if (memory == MAP_FAILED)
		return error;
	import->mapped = true;
	import->window_size = size;
	import->window_rights = perm == RSM_PERM_READ ? RSM_PERM_READ : RSM_PERM_RDWR;
	/* rsm_map_refresh() publishes the three stores. */
	one_store_alone(&import->window, memory);
	one_store_alone(&import->window_offset, offset);
	one_store_alone(&import->window_len, length);
	rsm_map_refresh(import);
	*address = memory;
	return RSM_SUCCESS;
}

int
rsm_do_memseg_import_map(rsm_memseg_import_handle_t im_memseg, void **address, rsm_attribute_t attr,
			 rsm_permission_t perm, off_t offset, size_t length)
{
	bool fixed = ((uint32_t)attr & RSM_MAP_FIXED) != 0;
	struct rsm_import *import;
	int result;

	if (im_memseg == NULL)
		return RSMERR_BAD_SEG_HNDL;
	if (address == NULL)
		return RSMERR_BAD_ADDR;
	result = rsm_import_lock(im_memseg, &import);
	if (result != RSM_SUCCESS)
		return result;
	result = check_map(import, address, fixed, perm, (uint64_t)offset, length);
	if (result == RSM_SUCCESS)
		result = map_segment(import, address, fixed, perm, (uint64_t)offset, length);
	rsm_slot_unlock(import);
	return result;
}

int
rsm_do_memseg_import_unmap(rsm_memseg_import_handle_t im_memseg)
{
	struct rsm_import *import;
	int result = RSMERR_SEG_NOT_MAPPED;

	if (rsm_slot_lock(&rsm_imports, im_memseg, (void **)&import) == RSM_NONE)
		return RSMERR_BAD_SEG_HNDL;
	/* Also in a child of fork, which has its own copy of the mapping and of `mapped`. */
	if (import->mapped) {
		import->mapped = false;
		rsm_map_refresh(import);
		munmap(one_load_locked(&import->window), import->window_size);
		result = RSM_SUCCESS;
	}
	rsm_slot_unlock(import);
	return result;
}
