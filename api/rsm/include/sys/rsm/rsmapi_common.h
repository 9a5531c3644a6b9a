/* SPDX-License-Identifier: BSD-3-Clause */
/* RSMAPI: handles, controller attributes, access lists, barriers, scatter and
 * gather lists.  Included by <rsmapi.h>. */
#ifndef _SYS_RSM_RSMAPI_COMMON_H
#define _SYS_RSM_RSMAPI_COMMON_H

#include <sys/rsm/rsm_common.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct __rsmapi_controller_handle *rsmapi_controller_handle_t;
typedef struct __rsm_memseg_export_handle *rsm_memseg_export_handle_t;
typedef struct __rsm_memseg_import_handle *rsm_memseg_import_handle_t;
typedef struct __rsm_localmemory_handle *rsm_localmemory_handle_t;

/* rsm_memseg_export_create flags; bits without a meaning are ignored */
#define RSM_ALLOW_REBIND 0x01
#define RSM_CREATE_SEG_DONTWAIT 0x02
#define RSM_LOCK_OPS 0x04 /* in a manual page; no effect, since locks were never implemented */

/* rsm_scat_gath_t flags, and rsm_intr_signal_post flags */
#define RSM_IMPLICIT_SIGPOST 0x01
#define RSM_SIGPOST_NO_ACCUMULATE 0x02
#define RSM_SIG_POST_NO_ACCUMULATE RSM_SIGPOST_NO_ACCUMULATE

/* rsm_iovec_t io_type */
#define RSM_HANDLE_TYPE 0x01 /* local.handle */
#define RSM_VA_TYPE 0x02     /* local.vaddr */

#define RSM_MAX_SGIOREQS 16

/* rsm_remote_cntlr_t connection_state: the only state in which a path may be used */
#define RSM_CONNECTION_ACTIVE 3

/* Capabilities of a controller. Bit n of the two access masks means accesses of 2^n bytes, bit n of
 * attr_page_size pages of 2^n KiB. */
typedef struct {
	uint_t attr_direct_access_sizes; /* loads and stores that are possible on a mapping; 0: no mappings */
	uint_t attr_atomic_sizes;        /* aligned accesses that are never torn */
	size_t attr_page_size;
	size_t attr_max_export_segment_size;
	size_t attr_tot_export_segment_size;
	ulong_t attr_max_export_segments;
	size_t attr_max_import_map_size;
	size_t attr_tot_import_map_size;
	ulong_t attr_max_import_segments;
} rsmapi_controller_attr_t;

/* Rights of one node: three octal digits for owner, group and others; 4 is read, 2 is write. */
typedef struct {
	rsm_node_id_t ae_node;
	rsm_permission_t ae_permission;
} rsmapi_access_entry_t;

/* The library owns the contents. Zero a barrier before rsm_memseg_import_init_barrier(). */
typedef struct {
	void *seg;
	uint16_t gnum;
	void *privdata;
} rsmapi_barrier_t;

typedef struct {
	int io_type; /* RSM_HANDLE_TYPE or RSM_VA_TYPE */
	union {
		rsm_localmemory_handle_t handle;
		caddr_t vaddr;
	} local;
	size_t local_offset;  /* from the base of the handle's memory, or from vaddr */
	size_t remote_offset; /* from the base of the import segment */
	size_t transfer_length;
} rsm_iovec_t;

typedef struct {
	rsm_node_id_t local_nodeid; /* ignored */
	ulong_t io_request_count;   /* 1 to RSM_MAX_SGIOREQS */
	ulong_t io_residual_count;  /* out: entries that were not completed */
	uint_t flags;               /* RSM_IMPLICIT_SIGPOST, RSM_SIGPOST_NO_ACCUMULATE */
	rsm_memseg_import_handle_t remote_handle;
	rsm_iovec_t *iovec;
} rsm_scat_gath_t;

#ifdef __cplusplus
}
#endif

#endif /* _SYS_RSM_RSMAPI_COMMON_H */
