/* SPDX-License-Identifier: BSD-3-Clause */
/* Export segments: memory of this process, registered with local rights. For every import the data plane
 * makes a window with the granted rights only. */
#include "client/wait.h"
#include "rsm/link.h"
#include "rsm/segment_object.h"

#include <stdio.h>

#define NODE_MAX 64u

/* Returns 0777 & ~umask. umask() cannot read the mask without changing it, and other threads may be creating
 * files. */
static uint32_t
creation_mode(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	unsigned mask = 022;
	char line[256];

	while (status != NULL && fgets(line, sizeof(line), status) != NULL) {
		if (sscanf(line, "Umask: %o", &mask) == 1)
			break;
	}
	if (status != NULL)
		fclose(status);
	return 0777u & ~mask;
}

/* ---- the memory ---- */

static int
register_memory(struct rsm_export *export)
{
	int result = rsm_range_register(export->link, export->va, export->size, true, &export->mr);

	export->registered = result == RSM_SUCCESS;
	return result;
}

/* Importers may hold the file of a claimed export, so its pages leave the file first. If that fails for lack
 * of memory or descriptors, the export stays unchanged. */
static int
deregister_memory(struct rsm_export *export)
{
	if (!export->registered)
		return RSM_SUCCESS;
	rsm_range_remove(export->link, &export->mr);
	if (export->claimed && one_mem_recall(export->link->client, &export->mr) != 0)
		return RSMERR_INSUFFICIENT_MEM;
	export->registered = export->claimed = export->owed = false;
	one_mem_deregister(export->link->client, &export->mr);
	return RSM_SUCCESS;
}

static void
export_lost(const struct rsm_link *link)
{
	uint32_t used = rsm_table_used(&rsm_exports);

	for (uint32_t i = 0; i < used; i++) {
		struct rsm_export *export = rsm_slot_at(&rsm_exports, i);

		if (export == NULL)
			continue;
		if (export->link == link && export->claimed && deregister_memory(export) != RSM_SUCCESS)
			export->owed = true;
		rsm_slot_unlock(export);
	}
}

/* Registers the memory and makes the counter. On success the export owns the caller's reference to the
 * attachment. */
static int
bind_memory(struct rsm_export *export, struct rsm_link *link)
{
	int error = rsm_events_open(&export->events, link), result;

	if (error != 0)
		return rsm_error(error);
	export->link = link;
	/* Pairs with the acquire load in lost() of link.c, on the watcher's thread. */
	atomic_store_explicit(&link->lost, export_lost, memory_order_release);
	result = register_memory(export);
	if (result != RSM_SUCCESS) {
		rsm_events_close(&export->events);
		export->link = NULL;
	}
	return result;
}

static int
unbind_memory(struct rsm_export *export)
{
	int result;

	if (export->link == NULL)
		return RSM_SUCCESS;
	result = deregister_memory(export);
	if (result != RSM_SUCCESS)
		return result;
	rsm_events_close(&export->events);
	rsm_link_put(export->link);
	export->link = NULL;
	export->published = false;
	return RSM_SUCCESS;
}

/* A publication ends with its attachment. */
static bool
is_published(const struct rsm_export *export)
{
	return export->published && !rsm_link_lost(export->link);
}

int
rsm_do_memseg_export_create(rsmapi_controller_handle_t controller, rsm_memseg_export_handle_t *memseg,
			    void *vaddr, size_t size, uint_t flags)
{
	rsmapi_controller_attr_t attr;
	struct rsm_export *export;
	struct rsm_link *link;
	size_t page = rsm_page_size();
	int result;

	if (rsm_do_get_controller_attr(controller, &attr) != RSM_SUCCESS)
		return RSMERR_BAD_CTLR_HNDL;
	if (memseg == NULL)
		return RSMERR_BAD_SEG_HNDL;
	*memseg = NULL;
	if (vaddr == NULL)
		return RSMERR_BAD_ADDR;
	if (size == 0)
		return RSMERR_BAD_LENGTH;
	if ((uintptr_t)vaddr % page != 0 || size % page != 0)
		return ONE_BECAUSE(
			RSMERR_BAD_MEM_ALIGNMENT,
			"vaddr = %p: with size %zu it is not whole pages of %zu bytes; get it from mmap or aligned_alloc, and round the size up",
			vaddr, size, page);
	if (attr.attr_max_export_segment_size != 0 && size > attr.attr_max_export_segment_size)
		return ONE_BECAUSE(
			RSMERR_BAD_LENGTH,
			"size = %zu: a segment has at most %zu bytes; make several, or raise max_mr_bytes in oneside.conf(5)",
			size, (size_t)attr.attr_max_export_segment_size);
	export = rsm_slot_new(&rsm_exports);
	if (export == NULL)
		return RSMERR_INSUFFICIENT_RESOURCES;
	export->controller = controller;
	export->va = (uintptr_t)vaddr;
	export->size = size;
	export->mode = creation_mode();
	export->rebind = (flags & RSM_ALLOW_REBIND) != 0; /* DONTWAIT has no effect: publish never waits */
	result = rsm_memory_check(export->va, size);
	if (result == RSM_SUCCESS)
		result = rsm_controller_link(controller, &link);
	if (result == RSM_SUCCESS) {
		result = bind_memory(export, link);
		if (result != RSM_SUCCESS)
			rsm_link_put(link);
	}
	if (result != RSM_SUCCESS) {
		rsm_slot_drop(&rsm_exports, export);
		return result;
	}
	*memseg = rsm_slot_publish(export);
	return RSM_SUCCESS;
}

/* Copies the access list into the message. Returns 0, RSMERR_BAD_ACL or RSMERR_BAD_ADDR. */
static int
copy_list(const struct rsm_export *export, const rsmapi_access_entry_t *list, uint32_t count,
	  struct one_rsm_publish *publish)
{
	rsmapi_access_entry_t copy[ONE_RSM_ACL_MAX];

	if (count > ONE_RSM_ACL_MAX)
		return RSMERR_BAD_ACL;
	if (rsm_copy_in(copy, list, count * sizeof(copy[0])) != 0)
		return RSMERR_BAD_ADDR;
	if (export->link->loopback &&
	    (count > 1 || (count == 1 && copy[0].ae_node != one_client_info(export->link->client)->node_id)))
		return RSMERR_BAD_ACL;
	for (uint32_t i = 0; i < count; i++) {
		if (copy[i].ae_node > NODE_MAX || copy[i].ae_permission > 0666)
			return RSMERR_BAD_ACL;
		publish->access[i].node = copy[i].ae_node;
		publish->access[i].permission = copy[i].ae_permission;
	}
	publish->num_access = count;
	publish->default_permission = export->mode;
	if (count == 0 && export->link->loopback) {
		/* No list admits all nodes, but loopback connects only to this one. */
		publish->num_access = 1;
		publish->access[0].node = one_client_info(export->link->client)->node_id;
		publish->access[0].permission = export->mode & 0666;
	}
	return RSM_SUCCESS;
}

static bool
is_reserved(rsm_memseg_id_t id)
{
	return id != 0 && (id <= RSM_DLPI_ID_END || id >= RSM_USER_APP_ID_BASE);
}

/* Registers the memory with the controller's new attachment if the old one was lost; also completes a
 * deregistration that had failed. */
static int
renew_memory(struct rsm_export *export)
{
	struct rsm_link *link;
	int result;

	if (export->link != NULL && !rsm_link_lost(export->link)) {
		result = export->owed ? deregister_memory(export) : RSM_SUCCESS;
		return result != RSM_SUCCESS || export->registered ? result : register_memory(export);
	}
	if (export->events.polled > 0)
		return RSMERR_POLLFD_IN_USE; /* the descriptor belongs to the lost attachment */
	result = rsm_controller_link(export->controller, &link);
	if (result != RSM_SUCCESS)
		return RSMERR_CTLR_NOT_PRESENT;
	result = unbind_memory(export);
	if (result == RSM_SUCCESS)
		result = bind_memory(export, link);
	if (result != RSM_SUCCESS)
		rsm_link_put(link);
	return result;
}

/* True if the access list lets any user of this node write. Only this node's processes can map the
 * segment. */
static bool
is_writable_here(const struct rsm_export *export, const struct one_rsm_publish *publish)
{
	uint32_t mode = publish->num_access == 0 ? publish->default_permission : 0;

	for (uint32_t i = 0; i < publish->num_access; i++) {
		if (publish->access[i].node == one_client_info(export->link->client)->node_id) {
			mode = publish->access[i].permission; /* the first entry counts */
			break;
		}
	}
	return (mode & 0222) != 0;
}

/* Lets importers map the memory, unless its pages could not be moved away from them later, as when it is
 * registered twice. */
static int
claim_memory(struct rsm_export *export, bool writable)
{
	int result = RSM_SUCCESS;

	/* The protection of mappings is fixed when the memory is claimed: to change it, register again. */
	if (export->claimed && export->writable != writable) {
		result = deregister_memory(export);
		if (result == RSM_SUCCESS)
			result = register_memory(export);
	}
	if (result == RSM_SUCCESS && !export->claimed) {
		export->claimed = one_mem_claim(export->link->client, &export->mr, writable) == 0;
		export->writable = writable;
		export->copy_at =
			export->claimed && !writable ? one_mem_copy_at(export->link->client, &export->mr) : 0;
	}
	return result;
}

static int
publish_segment(struct rsm_export *export, rsm_memseg_id_t *segment_id, const rsmapi_access_entry_t *list,
		uint32_t count)
{
	struct one_msg msg = {.type = ONE_MSG_RSM_PUBLISH};
	struct one_reply reply;
	int result = renew_memory(export);

	if (result == RSM_SUCCESS)
		result = copy_list(export, list, count, &msg.rsm_publish);
	if (result == RSM_SUCCESS)
		result = claim_memory(export, is_writable_here(export, &msg.rsm_publish));
	if (result != RSM_SUCCESS)
		return result;
	msg.rsm_publish.mr = export->mr.id;
	msg.rsm_publish.segment = *segment_id;
	msg.rsm_publish.signal_cq = export->events.counter.id;
	msg.rsm_publish.flags = export->claimed ? ONE_RSM_MAPPABLE : 0;
	msg.rsm_publish.copy_at = export->copy_at;
	result = rsm_error(one_call(export->link->client, &msg, NULL, 0, &reply));
	if (result != RSM_SUCCESS)
		return result;
	export->published = true;
	export->segment = reply.rsm.segment;
	if (*segment_id == 0)
		*segment_id = reply.rsm.segment;
	return RSM_SUCCESS;
}

int
rsm_do_memseg_export_publish(rsm_memseg_export_handle_t memseg, rsm_memseg_id_t *segment_id,
			     rsmapi_access_entry_t access_list[], uint_t access_list_length)
{
	struct rsm_export *export;
	struct rsm_link *held = NULL;
	enum rsm_found found;
	int result;

	if (segment_id == NULL)
		return RSMERR_BAD_SEGID;
	found = rsm_slot_lock(&rsm_exports, memseg, (void **)&export);
	if (found == RSM_NONE)
		return RSMERR_BAD_SEG_HNDL;
	/* Keeps a lost attachment until the lock is released: detaching waits for its `lost` callback, which
	 * takes the lock. */
	if (found == RSM_LIVE && export->link != NULL)
		held = rsm_link_get(export->link);
	if (access_list == NULL && access_list_length > 0)
		result = RSMERR_BAD_ACL;
	else if (found == RSM_FOREIGN ? export->published : is_published(export))
		result = RSMERR_SEG_ALREADY_PUBLISHED;
	else if (is_reserved(*segment_id))
		result = ONE_BECAUSE(
			RSMERR_RESERVED_SEGID,
			"segment_id = %#x: it is reserved; publish under 0x400000 to 0x7fffffff, or give 0 to let the data plane choose",
			*segment_id);
	else if (found == RSM_FOREIGN)
		result = RSMERR_NOT_CREATOR;
	else
		result = publish_segment(export, segment_id, access_list, access_list_length);
	rsm_slot_unlock(export);
	rsm_link_put(held);
	return result;
}

static int
republish_segment(struct rsm_export *export, const rsmapi_access_entry_t *list, uint32_t count)
{
	struct one_msg msg = {.type = ONE_MSG_RSM_REPUBLISH};
	struct one_reply reply;
	int result = copy_list(export, list, count, &msg.rsm_publish);

	if (result != RSM_SUCCESS)
		return result;
	msg.rsm_publish.mr = export->mr.id;
	msg.rsm_publish.segment = export->segment;
	return rsm_error(one_call(export->link->client, &msg, NULL, 0, &reply));
}

int
rsm_do_memseg_export_republish(rsm_memseg_export_handle_t memseg, rsmapi_access_entry_t access_list[],
			       uint_t access_list_length)
{
	struct rsm_export *export;
	enum rsm_found found = rsm_slot_lock(&rsm_exports, memseg, (void **)&export);
	int result;

	if (found == RSM_NONE)
		return RSMERR_BAD_SEG_HNDL;
	if (found == RSM_FOREIGN ? !export->published : !is_published(export))
		result = RSMERR_SEG_NOT_PUBLISHED;
	else if (access_list == NULL && access_list_length > 0)
		result = RSMERR_BAD_ACL;
	else if (found == RSM_FOREIGN)
		result = RSMERR_NOT_CREATOR;
	else
		result = republish_segment(export, access_list, access_list_length);
	rsm_slot_unlock(export);
	return result;
}

/* The data plane disconnects the importers before it answers. On success, no importer shares the memory. If
 * moving the pages fails, the segment is withdrawn but `owed` is set, and the application repeats the
 * call. */
static int
unpublish_segment(struct rsm_export *export)
{
	struct one_msg msg = {.type = ONE_MSG_RSM_UNPUBLISH};
	struct one_reply reply;
	int error;

	if (is_published(export)) {
		msg.rsm_publish.segment = export->segment;
		error = one_call(export->link->client, &msg, NULL, 0, &reply);
		if (error != 0 && !rsm_link_lost(export->link))
			return rsm_error(error);
		export->published = false;
		export->withdrawn++;
		export->owed = export->claimed && (error != 0 || reply.rsm.given != 0);
		one_channel_wake(export->link->client, export->link->channel); /* waiters for signals */
	} else if (!export->owed) {
		return RSMERR_SEG_NOT_PUBLISHED;
	}
	return export->owed ? deregister_memory(export) : RSM_SUCCESS;
}

int
rsm_do_memseg_export_unpublish(rsm_memseg_export_handle_t memseg)
{
	struct rsm_export *export;
	enum rsm_found found = rsm_slot_lock(&rsm_exports, memseg, (void **)&export);
	int result;

	if (found == RSM_NONE)
		return RSMERR_BAD_SEG_HNDL;
	if (found == RSM_FOREIGN)
		return export->published ? RSMERR_NOT_CREATOR : RSMERR_SEG_NOT_PUBLISHED;
	result = unpublish_segment(export);
	rsm_slot_unlock(export);
	return result;
}

int
rsm_do_memseg_export_destroy(rsm_memseg_export_handle_t memseg)
{
	struct rsm_export *export;
	enum rsm_found found = rsm_slot_lock(&rsm_exports, memseg, (void **)&export);
	struct rsm_link *link = NULL;

	if (found == RSM_NONE)
		return RSMERR_BAD_SEG_HNDL;
	if (found == RSM_LIVE && export->events.polled > 0) {
		rsm_slot_unlock(export);
		return RSMERR_POLLFD_IN_USE;
	}
	if (found == RSM_LIVE && export->link != NULL) {
		int result;

		link = rsm_link_get(export->link);
		unpublish_segment(export);
		result = unbind_memory(export);
		if (result != RSM_SUCCESS) {
			rsm_slot_unlock(export);
			rsm_link_put(link);
			return result;
		}
	}
	rsm_slot_retire(&rsm_exports, export);
	if (link != NULL)
		one_channel_wake(link->client, link->channel);
	rsm_link_put(link);
	return RSM_SUCCESS;
}

/* ---- rebind ---- */

static int
rebind_memory(struct rsm_export *export, uint64_t va)
{
	int result = rsm_memory_check(va, export->size), error;

	if (result != RSM_SUCCESS)
		return result;
	if (!is_published(export)) {
		result = deregister_memory(export);
		if (result == RSM_SUCCESS)
			export->va = va; /* publish registers it */
		return result;
	}
	/* The data plane still addresses the memory by its old address. */
	rsm_range_remove(export->link, &export->mr);
	error = one_mem_move(export->link->client, &export->mr, va);
	if (error != 0) {
		rsm_range_add(export->link,
			      &export->mr); /* on failure: transfers are copied, correct but slow */
		return error == -EBUSY ? RSMERR_INSUFFICIENT_RESOURCES : rsm_error(error);
	}
	export->va = va;
	return RSM_SUCCESS;
}

int
rsm_do_memseg_export_rebind(rsm_memseg_export_handle_t memseg, void *vaddr, offset_t off, size_t size)
{
	struct rsm_export *export;
	enum rsm_found found;
	int result;

	(void)off; /* unused: the whole memory is replaced */
	found = rsm_slot_lock(&rsm_exports, memseg, (void **)&export);
	if (found == RSM_NONE)
		return RSMERR_BAD_SEG_HNDL;
	if (vaddr == NULL)
		result = RSMERR_BAD_ADDR;
	else if (!export->rebind)
		result = RSMERR_REBIND_NOT_ALLOWED;
	else if (found == RSM_FOREIGN)
		result = RSMERR_NOT_CREATOR;
	else if (size != export->size)
		result = RSMERR_BAD_LENGTH;
	else if ((uintptr_t)vaddr == export->va)
		result = RSM_SUCCESS;
	else if ((uintptr_t)vaddr % rsm_page_size() != 0)
		result = RSMERR_BAD_ADDR;
	else
		result = rebind_memory(export, (uintptr_t)vaddr);
	rsm_slot_unlock(export);
	return result;
}
