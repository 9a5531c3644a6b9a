/* SPDX-License-Identifier: BSD-3-Clause */
/* Local memory handles: memory registered once, so that transfers to and from it are not copied. */
#include "rsm/link.h"

int
rsm_do_create_localmemory_handle(rsmapi_controller_handle_t cntrl_handle,
				 rsm_localmemory_handle_t *local_hndl_p, caddr_t local_vaddr, size_t length)
{
	struct rsm_localmem *memory;
	size_t page = rsm_page_size();
	int result;

	if ((uintptr_t)local_vaddr % page != 0)
		return RSMERR_BAD_ADDR;
	if (!rsm_controller_valid(cntrl_handle))
		return RSMERR_BAD_CTLR_HNDL;
	if (local_hndl_p == NULL)
		return RSMERR_BAD_LOCALMEM_HNDL;
	if (length == 0 || length > SIZE_MAX - page)
		return RSMERR_BAD_LENGTH;
	if (local_vaddr == NULL)
		return RSMERR_BAD_ADDR;
	memory = rsm_slot_new(&rsm_localmems);
	if (memory == NULL)
		return RSMERR_INSUFFICIENT_RESOURCES;
	length = (length + page - 1) / page * page;
	result = rsm_memory_check((uintptr_t)local_vaddr, length) == RSM_SUCCESS ? RSM_SUCCESS
										 : RSMERR_BAD_ADDR;
	if (result == RSM_SUCCESS)
		result = rsm_controller_link(cntrl_handle, &memory->link);
	if (result == RSM_SUCCESS) {
		result = rsm_range_register(memory->link, (uintptr_t)local_vaddr, length, false, &memory->mr);
		if (result != RSM_SUCCESS)
			rsm_link_put(memory->link);
	}
	if (result != RSM_SUCCESS) {
		rsm_slot_drop(&rsm_localmems, memory);
		return result;
	}
	memory->controller = cntrl_handle;
	*local_hndl_p = rsm_slot_publish(memory);
	return RSM_SUCCESS;
}

int
rsm_do_free_localmemory_handle(rsmapi_controller_handle_t cntrl_handle, rsm_localmemory_handle_t handle)
{
	struct rsm_localmem *memory;
	struct rsm_link *link;
	struct one_mr mr;
	enum rsm_found found;

	if (cntrl_handle == NULL)
		return RSMERR_BAD_CTLR_HNDL;
	found = rsm_slot_lock(&rsm_localmems, handle, (void **)&memory);
	if (found == RSM_NONE)
		return RSMERR_BAD_LOCALMEM_HNDL;
	if (memory->controller != cntrl_handle) {
		rsm_slot_unlock(memory);
		return RSMERR_BAD_CTLR_HNDL;
	}
	link = memory->link;
	mr = memory->mr;
	rsm_slot_retire(&rsm_localmems, memory);
	if (found == RSM_FOREIGN)
		return RSM_SUCCESS;
	/* Without the slot's lock: transfers take that lock while they hold their import's. */
	rsm_range_remove(link, &mr);
	one_mem_deregister(link->client, &mr);
	rsm_link_put(link);
	return RSM_SUCCESS;
}

int
rsm_localmem_find(rsm_localmemory_handle_t handle, const struct rsm_link *link, uint64_t offset, uint64_t len,
		  void **va, uint32_t *lkey)
{
	struct rsm_localmem *memory;
	int result = RSM_SUCCESS;

	if (rsm_slot_lock(&rsm_localmems, handle, (void **)&memory) != RSM_LIVE)
		return RSMERR_BAD_SGIO;
	if (len > memory->mr.length || offset > memory->mr.length - len)
		result = RSMERR_BAD_LENGTH;
	*va = (void *)(uintptr_t)(memory->mr.va + offset);
	*lkey = memory->link == link ? memory->mr.lkey : 0;
	rsm_slot_unlock(memory);
	return result;
}
