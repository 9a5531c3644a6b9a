/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls that return a result: the one list of them inside the library.
 *
 * CALL(name, parameters, arguments)
 *   name        rsm_NAME is exported (face/face.c), rsm_do_NAME does it.
 *   arguments   as the header and the manual pages call them: a refusal names them.
 * QUICK() has the same arguments: calls of nanoseconds, which are exported where they are done.
 */
#ifndef RSM_CALLS_H
#define RSM_CALLS_H

#include <rsmapi.h>

/* clang-format off */
#define RSM_CALLS(CALL, QUICK)                                                                               \
	CALL(get_interconnect_topology, (rsm_topology_t **topology_data), (topology_data))                   \
	CALL(get_controller, (char *name, rsmapi_controller_handle_t *controller), (name, controller))       \
	CALL(get_controller_attr,                                                                            \
	     (rsmapi_controller_handle_t chdl, rsmapi_controller_attr_t *attr),                              \
	     (chdl, attr))                                                                                   \
	CALL(release_controller, (rsmapi_controller_handle_t controller), (controller))                      \
	CALL(get_segmentid_range,                                                                            \
	     (const char *appid, rsm_memseg_id_t *baseid, uint32_t *length),                                 \
	     (appid, baseid, length))                                                                        \
	CALL(memseg_export_create,                                                                           \
	     (rsmapi_controller_handle_t controller, rsm_memseg_export_handle_t *memseg, void *vaddr,        \
	      size_t size, uint_t flags),                                                                    \
	     (controller, memseg, vaddr, size, flags))                                                       \
	CALL(memseg_export_destroy, (rsm_memseg_export_handle_t memseg), (memseg))                           \
	CALL(memseg_export_rebind,                                                                           \
	     (rsm_memseg_export_handle_t memseg, void *vaddr, offset_t off, size_t size),                    \
	     (memseg, vaddr, off, size))                                                                     \
	CALL(memseg_export_publish,                                                                          \
	     (rsm_memseg_export_handle_t memseg, rsm_memseg_id_t *segment_id,                                \
	      rsmapi_access_entry_t *access_list, uint_t access_list_length),                                \
	     (memseg, segment_id, access_list, access_list_length))                                          \
	CALL(memseg_export_unpublish, (rsm_memseg_export_handle_t memseg), (memseg))                         \
	CALL(memseg_export_republish,                                                                        \
	     (rsm_memseg_export_handle_t memseg, rsmapi_access_entry_t *access_list,                         \
	      uint_t access_list_length),                                                                    \
	     (memseg, access_list, access_list_length))                                                      \
	CALL(memseg_import_connect,                                                                          \
	     (rsmapi_controller_handle_t controller, rsm_node_id_t node_id, rsm_memseg_id_t segment_id,      \
	      rsm_permission_t perm, rsm_memseg_import_handle_t *im_memseg),                                 \
	     (controller, node_id, segment_id, perm, im_memseg))                                             \
	CALL(memseg_import_disconnect, (rsm_memseg_import_handle_t im_memseg), (im_memseg))                  \
	QUICK(memseg_import_get8,                                                                            \
	      (rsm_memseg_import_handle_t im_memseg, off_t offset, uint8_t *datap, ulong_t rep_cnt),         \
	      (im_memseg, offset, datap, rep_cnt))                                                           \
	QUICK(memseg_import_get16,                                                                           \
	      (rsm_memseg_import_handle_t im_memseg, off_t offset, uint16_t *datap, ulong_t rep_cnt),        \
	      (im_memseg, offset, datap, rep_cnt))                                                           \
	QUICK(memseg_import_get32,                                                                           \
	      (rsm_memseg_import_handle_t im_memseg, off_t offset, uint32_t *datap, ulong_t rep_cnt),        \
	      (im_memseg, offset, datap, rep_cnt))                                                           \
	QUICK(memseg_import_get64,                                                                           \
	      (rsm_memseg_import_handle_t im_memseg, off_t offset, uint64_t *datap, ulong_t rep_cnt),        \
	      (im_memseg, offset, datap, rep_cnt))                                                           \
	QUICK(memseg_import_get,                                                                             \
	      (rsm_memseg_import_handle_t im_memseg, off_t offset, void *dst_addr, size_t length),           \
	      (im_memseg, offset, dst_addr, length))                                                         \
	QUICK(memseg_import_put8,                                                                            \
	      (rsm_memseg_import_handle_t im_memseg, off_t offset, uint8_t *datap, ulong_t rep_cnt),         \
	      (im_memseg, offset, datap, rep_cnt))                                                           \
	QUICK(memseg_import_put16,                                                                           \
	      (rsm_memseg_import_handle_t im_memseg, off_t offset, uint16_t *datap, ulong_t rep_cnt),        \
	      (im_memseg, offset, datap, rep_cnt))                                                           \
	QUICK(memseg_import_put32,                                                                           \
	      (rsm_memseg_import_handle_t im_memseg, off_t offset, uint32_t *datap, ulong_t rep_cnt),        \
	      (im_memseg, offset, datap, rep_cnt))                                                           \
	QUICK(memseg_import_put64,                                                                           \
	      (rsm_memseg_import_handle_t im_memseg, off_t offset, uint64_t *datap, ulong_t rep_cnt),        \
	      (im_memseg, offset, datap, rep_cnt))                                                           \
	QUICK(memseg_import_put,                                                                             \
	      (rsm_memseg_import_handle_t im_memseg, off_t offset, void *src_addr, size_t length),           \
	      (im_memseg, offset, src_addr, length))                                                         \
	CALL(memseg_import_putv, (rsm_scat_gath_t *sg_io), (sg_io))                                          \
	CALL(memseg_import_getv, (rsm_scat_gath_t *sg_io), (sg_io))                                          \
	CALL(memseg_import_map,                                                                              \
	     (rsm_memseg_import_handle_t im_memseg, void **address, rsm_attribute_t attr,                    \
	      rsm_permission_t perm, off_t offset, size_t length),                                           \
	     (im_memseg, address, attr, perm, offset, length))                                               \
	CALL(memseg_import_unmap, (rsm_memseg_import_handle_t im_memseg), (im_memseg))                       \
	CALL(memseg_import_init_barrier,                                                                     \
	     (rsm_memseg_import_handle_t im_memseg, rsm_barrier_type_t type, rsmapi_barrier_t *barrier),     \
	     (im_memseg, type, barrier))                                                                     \
	QUICK(memseg_import_open_barrier, (rsmapi_barrier_t *barrier), (barrier))                            \
	QUICK(memseg_import_order_barrier, (rsmapi_barrier_t *barrier), (barrier))                           \
	QUICK(memseg_import_close_barrier, (rsmapi_barrier_t *barrier), (barrier))                           \
	CALL(memseg_import_destroy_barrier, (rsmapi_barrier_t *barrier), (barrier))                          \
	CALL(memseg_import_get_mode,                                                                         \
	     (rsm_memseg_import_handle_t im_memseg, rsm_barrier_mode_t *mode),                               \
	     (im_memseg, mode))                                                                              \
	CALL(memseg_import_set_mode,                                                                         \
	     (rsm_memseg_import_handle_t im_memseg, rsm_barrier_mode_t mode),                                \
	     (im_memseg, mode))                                                                              \
	CALL(create_localmemory_handle,                                                                      \
	     (rsmapi_controller_handle_t cntrl_handle, rsm_localmemory_handle_t *local_hndl_p,               \
	      caddr_t local_vaddr, size_t length),                                                           \
	     (cntrl_handle, local_hndl_p, local_vaddr, length))                                              \
	CALL(free_localmemory_handle,                                                                        \
	     (rsmapi_controller_handle_t cntrl_handle, rsm_localmemory_handle_t handle),                     \
	     (cntrl_handle, handle))                                                                         \
	CALL(intr_signal_post, (void *memseg, uint_t flags), (memseg, flags))                                \
	CALL(intr_signal_wait, (void *memseg, int timeout), (memseg, timeout))                               \
	CALL(memseg_get_pollfd, (void *memseg, struct pollfd *fd), (memseg, fd))                             \
	CALL(memseg_release_pollfd, (void *memseg), (memseg))                                                \
	CALL(intr_signal_wait_pollfd,                                                                        \
	     (struct pollfd *fds, nfds_t nfds, int timeout, int *numfdsp),                                   \
	     (fds, nfds, timeout, numfdsp))
/* clang-format on */

#define RSM_SPREAD(...) __VA_ARGS__

/*
 * tell.c: prints that the call returns `result`, when that is a refusal and ONESIDE_DEBUG is set
 * (client/tell.h); `result`.
 */
#define RSM_REFUSED_PROTOTYPE(name, parameters, arguments) \
	int rsm_refused_##name(int result, RSM_SPREAD parameters);
RSM_CALLS(RSM_REFUSED_PROTOTYPE, RSM_REFUSED_PROTOTYPE)

#define RSM_DO_PROTOTYPE(name, parameters, arguments) int rsm_do_##name parameters;
#define RSM_NO_PROTOTYPE(name, parameters, arguments)
RSM_CALLS(RSM_DO_PROTOTYPE, RSM_NO_PROTOTYPE)

#endif
