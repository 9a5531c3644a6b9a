/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that return a result: the library's only list of them.
 *
 * CALL(name, parameters...)
 *   name        rsmapi.c exports rsm_NAME, which calls rsm_do_NAME.
 *   parameters  (TYPE) NAME, for client/parameters.h. Names are those of the header and the manual pages,
 *               since a refusal prints them.
 *
 * QUICK() takes the same arguments, for calls of nanoseconds: the file that implements rsm_NAME exports it.
 */
#ifndef RSM_CALLS_H
#define RSM_CALLS_H

#include <rsmapi.h>

#include "client/parameters.h"

/* clang-format off */
#define RSM_CALLS(CALL, QUICK)                                                                               \
	CALL(get_interconnect_topology, (rsm_topology_t **) topology_data)                                   \
	CALL(get_controller, (char *) name, (rsmapi_controller_handle_t *) controller)                       \
	CALL(get_controller_attr, (rsmapi_controller_handle_t) chdl, (rsmapi_controller_attr_t *) attr)      \
	CALL(release_controller, (rsmapi_controller_handle_t) controller)                                    \
	CALL(get_segmentid_range, (const char *) appid, (rsm_memseg_id_t *) baseid, (uint32_t *) length)     \
	CALL(memseg_export_create, (rsmapi_controller_handle_t) controller,                                  \
	     (rsm_memseg_export_handle_t *) memseg, (void *) vaddr, (size_t) size, (uint_t) flags)           \
	CALL(memseg_export_destroy, (rsm_memseg_export_handle_t) memseg)                                     \
	CALL(memseg_export_rebind, (rsm_memseg_export_handle_t) memseg, (void *) vaddr, (offset_t) off,      \
	     (size_t) size)                                                                                  \
	CALL(memseg_export_publish, (rsm_memseg_export_handle_t) memseg, (rsm_memseg_id_t *) segment_id,     \
	     (rsmapi_access_entry_t *) access_list, (uint_t) access_list_length)                             \
	CALL(memseg_export_unpublish, (rsm_memseg_export_handle_t) memseg)                                   \
	CALL(memseg_export_republish, (rsm_memseg_export_handle_t) memseg,                                   \
	     (rsmapi_access_entry_t *) access_list, (uint_t) access_list_length)                             \
	CALL(memseg_import_connect, (rsmapi_controller_handle_t) controller, (rsm_node_id_t) node_id,        \
	     (rsm_memseg_id_t) segment_id, (rsm_permission_t) perm,                                          \
	     (rsm_memseg_import_handle_t *) im_memseg)                                                       \
	CALL(memseg_import_disconnect, (rsm_memseg_import_handle_t) im_memseg)                               \
	QUICK(memseg_import_get8, (rsm_memseg_import_handle_t) im_memseg, (off_t) offset, (uint8_t *) datap, \
	     (ulong_t) rep_cnt)                                                                              \
	QUICK(memseg_import_get16, (rsm_memseg_import_handle_t) im_memseg, (off_t) offset,                   \
	     (uint16_t *) datap, (ulong_t) rep_cnt)                                                          \
	QUICK(memseg_import_get32, (rsm_memseg_import_handle_t) im_memseg, (off_t) offset,                   \
	     (uint32_t *) datap, (ulong_t) rep_cnt)                                                          \
	QUICK(memseg_import_get64, (rsm_memseg_import_handle_t) im_memseg, (off_t) offset,                   \
	     (uint64_t *) datap, (ulong_t) rep_cnt)                                                          \
	QUICK(memseg_import_get, (rsm_memseg_import_handle_t) im_memseg, (off_t) offset, (void *) dst_addr,  \
	     (size_t) length)                                                                                \
	QUICK(memseg_import_put8, (rsm_memseg_import_handle_t) im_memseg, (off_t) offset, (uint8_t *) datap, \
	     (ulong_t) rep_cnt)                                                                              \
	QUICK(memseg_import_put16, (rsm_memseg_import_handle_t) im_memseg, (off_t) offset,                   \
	     (uint16_t *) datap, (ulong_t) rep_cnt)                                                          \
	QUICK(memseg_import_put32, (rsm_memseg_import_handle_t) im_memseg, (off_t) offset,                   \
	     (uint32_t *) datap, (ulong_t) rep_cnt)                                                          \
	QUICK(memseg_import_put64, (rsm_memseg_import_handle_t) im_memseg, (off_t) offset,                   \
	     (uint64_t *) datap, (ulong_t) rep_cnt)                                                          \
	QUICK(memseg_import_put, (rsm_memseg_import_handle_t) im_memseg, (off_t) offset, (void *) src_addr,  \
	     (size_t) length)                                                                                \
	CALL(memseg_import_putv, (rsm_scat_gath_t *) sg_io)                                                  \
	CALL(memseg_import_getv, (rsm_scat_gath_t *) sg_io)                                                  \
	CALL(memseg_import_map, (rsm_memseg_import_handle_t) im_memseg, (void **) address,                   \
	     (rsm_attribute_t) attr, (rsm_permission_t) perm, (off_t) offset, (size_t) length)               \
	CALL(memseg_import_unmap, (rsm_memseg_import_handle_t) im_memseg)                                    \
	CALL(memseg_import_init_barrier, (rsm_memseg_import_handle_t) im_memseg, (rsm_barrier_type_t) type,  \
	     (rsmapi_barrier_t *) barrier)                                                                   \
	QUICK(memseg_import_open_barrier, (rsmapi_barrier_t *) barrier)                                      \
	QUICK(memseg_import_order_barrier, (rsmapi_barrier_t *) barrier)                                     \
	QUICK(memseg_import_close_barrier, (rsmapi_barrier_t *) barrier)                                     \
	CALL(memseg_import_destroy_barrier, (rsmapi_barrier_t *) barrier)                                    \
	CALL(memseg_import_get_mode, (rsm_memseg_import_handle_t) im_memseg, (rsm_barrier_mode_t *) mode)    \
	CALL(memseg_import_set_mode, (rsm_memseg_import_handle_t) im_memseg, (rsm_barrier_mode_t) mode)      \
	CALL(create_localmemory_handle, (rsmapi_controller_handle_t) cntrl_handle,                           \
	     (rsm_localmemory_handle_t *) local_hndl_p, (caddr_t) local_vaddr, (size_t) length)              \
	CALL(free_localmemory_handle, (rsmapi_controller_handle_t) cntrl_handle,                             \
	     (rsm_localmemory_handle_t) handle)                                                              \
	CALL(intr_signal_post, (void *) memseg, (uint_t) flags)                                              \
	CALL(intr_signal_wait, (void *) memseg, (int) timeout)                                               \
	CALL(memseg_get_pollfd, (void *) memseg, (struct pollfd *) fd)                                       \
	CALL(memseg_release_pollfd, (void *) memseg)                                                         \
	CALL(intr_signal_wait_pollfd, (struct pollfd *) fds, (nfds_t) nfds, (int) timeout, (int *) numfdsp)
/* clang-format on */

/* explain.c: if `result` is a refusal and ONESIDE_DEBUG is set, prints the call and the reason
 * (client/explain.h). Returns `result`. */
#define RSM_REFUSED_PROTOTYPE(name, ...) int rsm_refused_##name(int result, ONE_PARAMETERS(__VA_ARGS__));
RSM_CALLS(RSM_REFUSED_PROTOTYPE, RSM_REFUSED_PROTOTYPE)

#define RSM_DO_PROTOTYPE(name, ...) int rsm_do_##name(ONE_PARAMETERS(__VA_ARGS__));
#define RSM_NO_PROTOTYPE(name, ...)
RSM_CALLS(RSM_DO_PROTOTYPE, RSM_NO_PROTOTYPE)

#endif
