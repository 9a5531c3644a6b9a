/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RSMAPI: remote shared memory. Link with -lrsm.
 *
 * An exporter makes a segment of its own page-aligned memory and publishes it under a 32-bit id. An importer
 * connects to (node, id) through a controller, and puts and gets. Controllers are the ports of the data plane
 * by name, and `loopback`, which connects only to this node.
 *
 * Every function returns RSM_SUCCESS or an RSMERR_* code, and leaves errno undefined. All functions are
 * thread-safe. A handle that is not live gives RSMERR_BAD_CTLR_HNDL, RSMERR_BAD_SEG_HNDL or
 * RSMERR_BAD_LOCALMEM_HNDL.
 *
 * After fork, the child cannot use its copies of handles: calls on exports return RSMERR_NOT_CREATOR, those
 * on imports RSMERR_CONN_ABORTED. Destroy, disconnect, free and release drop the child's copy. A child that
 * uses RSM gets a controller of its own.
 */
#ifndef _RSMAPI_H
#define _RSMAPI_H

#include <poll.h>
#include <sys/param.h>
#include <sys/rsm/rsm_common.h>
#include <sys/rsm/rsmapi_common.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef POLLRDNORM /* glibc hides it for strict ISO C */
#define POLLRDNORM 0x040
#endif

typedef enum { RSM_MAP_NONE = 0x0, RSM_MAP_FIXED = 0x1, RSM_MAP_RESERVED = 0x2 } rsm_attribute_t;

/* ---- topology ---- */

typedef struct rsm_topology_hdr {
	rsm_node_id_t local_nodeid;
	uint_t local_cntlr_count;
} rsm_topology_hdr_t;

typedef struct rsm_connections_hdr {
	char cntlr_name[MAXNAMELEN];
	rsm_addr_t local_hwaddr;
	int remote_cntlr_count;
} rsm_connections_hdr_t;

typedef struct rsm_remote_cntlr {
	rsm_node_id_t remote_nodeid;
	char remote_cntlrname[MAXNAMELEN];
	rsm_addr_t remote_hwaddr;
	uint_t connection_state; /* usable when RSM_CONNECTION_ACTIVE */
} rsm_remote_cntlr_t;

typedef struct rsm_connection {
	rsm_connections_hdr_t hdr;
	rsm_remote_cntlr_t remote_cntlr[1]; /* hdr.remote_cntlr_count entries */
} rsm_connections_t;

typedef struct rsm_topology {
	rsm_topology_hdr_t topology_hdr;
	rsm_connections_t *connections[1]; /* topology_hdr.local_cntlr_count entries */
} rsm_topology_t;

/*
 * Returns a snapshot: this node's id, its controllers, and the nodes that each connects to. `loopback` is not
 * listed. Free the snapshot with rsm_free_interconnect_topology(), which accepts NULL.
 *
 * BAD_TOPOLOGY_PTR; INSUFFICIENT_MEM; INSUFFICIENT_RESOURCES: no descriptor or thread is left;
 * CTLR_NOT_PRESENT: no data plane runs.
 */
int rsm_get_interconnect_topology(rsm_topology_t **topology_data);
void rsm_free_interconnect_topology(rsm_topology_t *topology_data);

/* ---- errors ---- */

/* Returns the symbol of a result, such as "RSMERR_BAD_ADDR" for 16: a constant string, never NULL. Solaris
 * has no such call. */
const char *rsm_strerror(int error);

/* ---- controllers ---- */

/*
 * Opens the controller `name`, a type and a unit ("oneside0"). The case of the type is ignored; the unit is 0
 * if there is none. NULL, and `loopback` with any unit, are the loopback controller. Handles are counted: the
 * same controller gives the same pointer, to be released as often as it was got.
 *
 * A handle outlives its data plane. When the data plane is back, new segments can be made, published and
 * connected; old imports stay RSMERR_CONN_ABORTED.
 *
 * BAD_CTLR_HNDL: `controller` is NULL; CTLR_NOT_PRESENT; INSUFFICIENT_MEM; INSUFFICIENT_RESOURCES;
 * BAD_LIBRARY_VERSION: the data plane is of another version.
 */
int rsm_get_controller(char *name, rsmapi_controller_handle_t *controller);

/* BAD_CTLR_HNDL, BAD_ADDR. Loopback's limits of segments are 0: none. */
int rsm_get_controller_attr(rsmapi_controller_handle_t chdl, rsmapi_controller_attr_t *attr);

/* BAD_CTLR_HNDL: also when released more often than got. */
int rsm_release_controller(rsmapi_controller_handle_t controller);

/*
 * Returns the ids reserved for application `appid` in rsm.segmentid (in $RSM_SEGMENTID_FILE, else /etc/rsm):
 * *baseid to *baseid + *length - 1.
 *
 * BAD_ADDR: a pointer is NULL; BAD_APPID: no entry; BAD_CONF: no file, or a malformed one.
 */
int rsm_get_segmentid_range(const char *appid, rsm_memseg_id_t *baseid, uint32_t *length);

/* ---- export ---- */

/*
 * Makes a segment of [vaddr, vaddr + size), both multiples of the page size. The memory keeps its address and
 * contents. Private anonymous memory and shared memory (System V, POSIX, memfd) are suitable; a shared
 * mapping of a regular file is not.
 *
 * Checked in this order: BAD_CTLR_HNDL, BAD_SEG_HNDL (memseg NULL), BAD_ADDR (NULL), BAD_LENGTH (0),
 * BAD_MEM_ALIGNMENT, BAD_LENGTH (above attr_max_export_segment_size; not for loopback),
 * INSUFFICIENT_RESOURCES, BAD_ADDR (not mapped, or unsuitable), PERM_DENIED (not readable and writable),
 * INSUFFICIENT_MEM, CTLR_NOT_PRESENT.
 */
int rsm_memseg_export_create(rsmapi_controller_handle_t controller, rsm_memseg_export_handle_t *memseg,
			     void *vaddr, size_t size, uint_t flags);

/* Unpublishes if necessary, and frees the segment, in any state. BAD_SEG_HNDL, POLLFD_IN_USE. */
int rsm_memseg_export_destroy(rsm_memseg_export_handle_t memseg);

/*
 * Replaces the segment's memory by other memory of the same size, with the contents that it has. Importers
 * access the new memory; the old memory keeps its contents.
 *
 * BAD_SEG_HNDL, BAD_ADDR, REBIND_NOT_ALLOWED, NOT_CREATOR, BAD_LENGTH, PERM_DENIED, INSUFFICIENT_MEM,
 * INSUFFICIENT_RESOURCES, INTERRUPTED.
 */
int rsm_memseg_export_rebind(rsm_memseg_export_handle_t memseg, void *vaddr, offset_t off, size_t size);

/*
 * Publishes the segment. *segment_id 0 requests an id, which is stored there (0x80000000 and up). Ids are
 * unique on a node. The first entry of `access_list` for a node counts; nodes without an entry are refused.
 * NULL and 0 admit every node (loopback: this node) with 0777 & ~umask at the time of create.
 *
 * Checked in this order: BAD_SEGID (NULL), BAD_SEG_HNDL, BAD_ACL (NULL list with a length),
 * SEG_ALREADY_PUBLISHED, RESERVED_SEGID, NOT_CREATOR, BAD_ACL (more than 64 entries, node above 64,
 * permission above 0666; loopback: more than one entry, or a foreign node), BAD_ADDR (list unreadable),
 * INSUFFICIENT_RESOURCES, SEGID_IN_USE, INSUFFICIENT_MEM, CTLR_NOT_PRESENT.
 */
int rsm_memseg_export_publish(rsm_memseg_export_handle_t memseg, rsm_memseg_id_t *segment_id,
			      rsmapi_access_entry_t access_list[], uint_t access_list_length);

/*
 * Withdraws the segment, and disconnects every importer (RSMERR_CONN_ABORTED).
 *
 * BAD_SEG_HNDL, SEG_NOT_PUBLISHED (also if the data plane ended, and the publication with it), NOT_CREATOR.
 */
int rsm_memseg_export_unpublish(rsm_memseg_export_handle_t memseg);

/*
 * Replaces the access list for later connects. Existing imports keep their rights.
 *
 * Checked in this order: BAD_SEG_HNDL, SEG_NOT_PUBLISHED, BAD_ACL (NULL), NOT_CREATOR, BAD_ACL, BAD_ADDR,
 * INSUFFICIENT_MEM, INSUFFICIENT_RESOURCES.
 */
int rsm_memseg_export_republish(rsm_memseg_export_handle_t memseg, rsmapi_access_entry_t access_list[],
				uint_t access_list_length);

/* ---- import: connection ---- */

/*
 * Connects to segment `segment_id` of node `node_id` with the rights `perm` (RSM_PERM_READ, _WRITE, _RDWR, or
 * 0 for none). The exporter's list must grant each right to the calling thread's current effective user or
 * groups. Blocks until the exporter's node answers. The new segment is in implicit barrier mode, without a
 * barrier.
 *
 * BAD_CTLR_HNDL, BAD_SEG_HNDL (NULL), PERM_DENIED, CTLR_NOT_PRESENT (ended, or loopback with a foreign node),
 * REMOTE_NODE_UNREACHABLE, SEG_NOT_PUBLISHED, SEG_NOT_PUBLISHED_TO_NODE, INTERRUPTED, CONN_ABORTED,
 * BAD_DRIVER_VERSION, INSUFFICIENT_MEM, INSUFFICIENT_RESOURCES.
 */
int rsm_memseg_import_connect(rsmapi_controller_handle_t controller, rsm_node_id_t node_id,
			      rsm_memseg_id_t segment_id, rsm_permission_t perm,
			      rsm_memseg_import_handle_t *im_memseg);

/* Breaks the connection and frees the handle; also required after RSMERR_CONN_ABORTED. Transfers of an open
 * span may be lost. BAD_SEG_HNDL, SEG_STILL_MAPPED, POLLFD_IN_USE. */
int rsm_memseg_import_disconnect(rsm_memseg_import_handle_t im_memseg);

/* ---- import: access ---- */

/*
 * Transfer rep_cnt elements of 8 to 64 bits between `offset` (bytes, from the segment's base) and datap, both
 * aligned to the element; or `length` bytes without any alignment. Elements are swapped between nodes of
 * different byte order, bytes are not. A transfer of nothing succeeds.
 *
 * In implicit mode the call returns when the transfer is complete. In explicit mode success means that the
 * transfer was issued; only rsm_memseg_import_close_barrier() returns its errors. Memory to put may be
 * changed when the call returns. Data to get is in place after the close, or, if no span is open, when the
 * call returns.
 *
 * Checked in this order: BAD_SEG_HNDL, BAD_ADDR (NULL), BAD_MEM_ALIGNMENT, PERM_DENIED (the right was not
 * requested at connect), BAD_LENGTH (beyond the segment) or BAD_OFFSET (beyond the mapping),
 * BARRIER_UNINITIALIZED (implicit mode), CONN_ABORTED, BAD_ADDR (memory not mapped, or not readable or
 * writable), INSUFFICIENT_RESOURCES, BARRIER_FAILURE.
 *
 * A failed transfer breaks the import's connection, because the transport has already repeated lost packets.
 * RSMERR_BARRIER_FAILURE is returned once if the fault was local, and RSMERR_CONN_ABORTED from then on.
 */
int rsm_memseg_import_get8(rsm_memseg_import_handle_t im_memseg, off_t offset, uint8_t *datap,
			   ulong_t rep_cnt);
int rsm_memseg_import_get16(rsm_memseg_import_handle_t im_memseg, off_t offset, uint16_t *datap,
			    ulong_t rep_cnt);
int rsm_memseg_import_get32(rsm_memseg_import_handle_t im_memseg, off_t offset, uint32_t *datap,
			    ulong_t rep_cnt);
int rsm_memseg_import_get64(rsm_memseg_import_handle_t im_memseg, off_t offset, uint64_t *datap,
			    ulong_t rep_cnt);
int rsm_memseg_import_get(rsm_memseg_import_handle_t im_memseg, off_t offset, void *dst_addr, size_t length);
int rsm_memseg_import_put8(rsm_memseg_import_handle_t im_memseg, off_t offset, uint8_t *datap,
			   ulong_t rep_cnt);
int rsm_memseg_import_put16(rsm_memseg_import_handle_t im_memseg, off_t offset, uint16_t *datap,
			    ulong_t rep_cnt);
int rsm_memseg_import_put32(rsm_memseg_import_handle_t im_memseg, off_t offset, uint32_t *datap,
			    ulong_t rep_cnt);
int rsm_memseg_import_put64(rsm_memseg_import_handle_t im_memseg, off_t offset, uint64_t *datap,
			    ulong_t rep_cnt);
int rsm_memseg_import_put(rsm_memseg_import_handle_t im_memseg, off_t offset, void *src_addr, size_t length);

/*
 * Transfer 1 to RSM_MAX_SGIOREQS pieces between local memory and one import segment. In implicit mode pieces
 * complete in order, the first error ends the call, and io_residual_count is the number of pieces not done,
 * including the failed one. In explicit mode the pieces are issued; memory behind a local memory handle is
 * not copied, so it must not change until the close.
 *
 * Checked in this order: BAD_SGIO (NULL), BAD_SEG_HNDL, BAD_SGIO (count, iovec NULL); then, piece by piece,
 * BAD_SGIO (type, handle), BAD_ADDR, BAD_LENGTH (beyond the handle's memory), and as for put and get. With
 * RSM_IMPLICIT_SIGPOST a signal follows a vector that succeeds, and the call returns the signal's result.
 */
int rsm_memseg_import_putv(rsm_scat_gath_t *sg_io);
int rsm_memseg_import_getv(rsm_scat_gath_t *sg_io);

/*
 * Maps a part of a segment whose exporter is on the same data plane. While the part is mapped, put and get
 * copy through the mapping, and only inside it. When the exporter withdraws the segment, the mapping becomes
 * a copy of the last contents.
 *
 * BAD_SEG_HNDL, BAD_ADDR, SEG_ALREADY_MAPPED, CONN_ABORTED, BAD_PERMS, BAD_LENGTH, BAD_MEM_ALIGNMENT,
 * MAP_FAILED, INSUFFICIENT_RESOURCES.
 */
int rsm_memseg_import_map(rsm_memseg_import_handle_t im_memseg, void **address, rsm_attribute_t attr,
			  rsm_permission_t perm, off_t offset, size_t length);
/* BAD_SEG_HNDL, SEG_NOT_MAPPED */
int rsm_memseg_import_unmap(rsm_memseg_import_handle_t im_memseg);

/* ---- import: barriers ---- */

/*
 * init attaches a barrier to an import segment. In implicit mode it is needed once before any access. Every
 * type is accepted, and means a span of time on this segment. open begins a span. order waits until all
 * issued transfers are complete, so that later writes come later. close also waits, ends the span, and
 * returns RSMERR_BARRIER_FAILURE or RSMERR_CONN_ABORTED if a transfer in the span failed. destroy detaches
 * the barrier.
 *
 * init: BAD_SEG_HNDL, BAD_BARRIER_PTR. The others: BAD_BARRIER_PTR, BARRIER_UNINITIALIZED, BAD_SEG_HNDL (the
 * segment was disconnected); order and close then CONN_ABORTED, BARRIER_NOT_OPENED, BARRIER_FAILURE.
 */
int rsm_memseg_import_init_barrier(rsm_memseg_import_handle_t im_memseg, rsm_barrier_type_t type,
				   rsmapi_barrier_t *barrier);
int rsm_memseg_import_open_barrier(rsmapi_barrier_t *barrier);
int rsm_memseg_import_order_barrier(rsmapi_barrier_t *barrier);
int rsm_memseg_import_close_barrier(rsmapi_barrier_t *barrier);
int rsm_memseg_import_destroy_barrier(rsmapi_barrier_t *barrier);

/* BAD_SEG_HNDL, BAD_ADDR (NULL); BAD_MODE */
int rsm_memseg_import_get_mode(rsm_memseg_import_handle_t im_memseg, rsm_barrier_mode_t *mode);
int rsm_memseg_import_set_mode(rsm_memseg_import_handle_t im_memseg, rsm_barrier_mode_t mode);

/* ---- local memory handles ---- */

/*
 * Prepares [local_vaddr, local_vaddr + length), page-aligned and rounded up to pages, for repeated transfers
 * without copying.
 *
 * Checked in this order: BAD_ADDR (misaligned), BAD_CTLR_HNDL, BAD_LOCALMEM_HNDL (NULL), BAD_LENGTH (0),
 * BAD_ADDR (NULL or not mapped), INSUFFICIENT_MEM, INSUFFICIENT_RESOURCES, CTLR_NOT_PRESENT.
 */
int rsm_create_localmemory_handle(rsmapi_controller_handle_t cntrl_handle,
				  rsm_localmemory_handle_t *local_hndl_p, caddr_t local_vaddr, size_t length);
/* Waits for transfers that use the memory. BAD_CTLR_HNDL, BAD_LOCALMEM_HNDL. */
int rsm_free_localmemory_handle(rsmapi_controller_handle_t cntrl_handle, rsm_localmemory_handle_t handle);

/* ---- events ---- */

/*
 * `memseg` is an import or an export handle. A post on an import counts an event at the exporter; on an
 * export, at every importer. A wait takes one event, or returns CONN_ABORTED if no event can come any more.
 * timeout: milliseconds; 0 does not wait, -1 waits without limit.
 *
 * post: BAD_SEG_HNDL, REMOTE_NODE_UNREACHABLE, CONN_ABORTED. wait: BAD_SEG_HNDL, TIMEOUT, INTERRUPTED,
 * CONN_ABORTED.
 */
int rsm_intr_signal_post(void *memseg, uint_t flags);
int rsm_intr_signal_wait(void *memseg, int timeout);

/* Returns a descriptor to poll for events (POLLRDNORM; POLLHUP at the end). Descriptors are counted: destroy
 * and disconnect are refused (POLLFD_IN_USE) until the last is released. */
int rsm_memseg_get_pollfd(void *memseg, struct pollfd *fd);
int rsm_memseg_release_pollfd(void *memseg);
/* Like poll(2), and takes one event of each ready segment. TIMEOUT, BAD_ARGS_ERRORS, INTERRUPTED. */
int rsm_intr_signal_wait_pollfd(struct pollfd fds[], nfds_t nfds, int timeout, int *numfdsp);

#ifdef __cplusplus
}
#endif

#endif /* _RSMAPI_H */
