/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uDAPL 1.2 for applications.  Include only this header, and link with -ldat.
 *
 * Rules common to all calls:
 *   - Handles are checked before they are dereferenced: null, freed and wrong-kind handles give
 * DAT_INVALID_HANDLE.
 *   - Calls are safe from several threads, also on the same object.  Exception: freeing an object must not
 * race with another use of the object, except with a wait.
 *   - A call that fails has changed nothing, and its OUT arguments are undefined.
 *   - Any call may return DAT_INTERNAL_ERROR: the connection to the data plane is lost (an IA_CATASTROPHIC
 * event reports this), or the data plane broke its own rules.
 *   - Queries fill the whole structure, whatever the mask.
 *   - A child after fork has no part in its parent's IAs: calls on them fail or do nothing, and dat_ia_close
 * only invalidates the handle.  The child may open IAs of its own.
 *   - "Blocks" means: may sleep until the named condition holds.  Calls marked [message] exchange one message
 * with the data plane; other calls make no system call.
 */
#ifndef _UDAT_H_
#define _UDAT_H_

#include "udat_config.h"
#include "dat_platform_specific.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum dat_mem_type {
	DAT_MEM_TYPE_VIRTUAL = 0x00,
	DAT_MEM_TYPE_LMR = 0x01,
	DAT_MEM_TYPE_SHARED_VIRTUAL = 0x02
} DAT_MEM_TYPE;

typedef enum dat_handle_type {
	DAT_HANDLE_TYPE_CR,
	DAT_HANDLE_TYPE_EP,
	DAT_HANDLE_TYPE_EVD,
	DAT_HANDLE_TYPE_IA,
	DAT_HANDLE_TYPE_LMR,
	DAT_HANDLE_TYPE_PSP,
	DAT_HANDLE_TYPE_PZ,
	DAT_HANDLE_TYPE_RMR,
	DAT_HANDLE_TYPE_RSP,
	DAT_HANDLE_TYPE_CNO,
	DAT_HANDLE_TYPE_SRQ
} DAT_HANDLE_TYPE;

/* A state has one bit of each of three groups. */
typedef enum dat_evd_state {
	DAT_EVD_STATE_ENABLED = 0x01,
	DAT_EVD_STATE_DISABLED = 0x02,
	DAT_EVD_STATE_WAITABLE = 0x04,
	DAT_EVD_STATE_UNWAITABLE = 0x08,
	DAT_EVD_STATE_CONFIG_NOTIFY = 0x10,
	DAT_EVD_STATE_CONFIG_SOLICITED = 0x20,
	DAT_EVD_STATE_CONFIG_THRESHOLD = 0x30
} DAT_EVD_STATE;

typedef enum dat_evd_param_mask {
	DAT_EVD_FIELD_IA_HANDLE = 0x01,
	DAT_EVD_FIELD_EVD_QLEN = 0x02,
	DAT_EVD_FIELD_EVD_STATE = 0x04,
	DAT_EVD_FIELD_CNO = 0x08,
	DAT_EVD_FIELD_EVD_FLAGS = 0x10,
	DAT_EVD_FIELD_ALL = 0x1f
} DAT_EVD_PARAM_MASK;

typedef DAT_UINT64 DAT_PROVIDER_ATTR_MASK;
#define DAT_PROVIDER_FIELD_NONE UINT64_C(0x0)
#define DAT_PROVIDER_FIELD_PROVIDER_NAME UINT64_C(0x0000001)
#define DAT_PROVIDER_FIELD_PROVIDER_VERSION_MAJOR UINT64_C(0x0000002)
#define DAT_PROVIDER_FIELD_PROVIDER_VERSION_MINOR UINT64_C(0x0000004)
#define DAT_PROVIDER_FIELD_DAPL_VERSION_MAJOR UINT64_C(0x0000008)
#define DAT_PROVIDER_FIELD_DAPL_VERSION_MINOR UINT64_C(0x0000010)
#define DAT_PROVIDER_FIELD_LMR_MEM_TYPE_SUPPORTED UINT64_C(0x0000020)
#define DAT_PROVIDER_FIELD_IOV_OWNERSHIP UINT64_C(0x0000040)
#define DAT_PROVIDER_FIELD_DAT_QOS_SUPPORTED UINT64_C(0x0000080)
#define DAT_PROVIDER_FIELD_COMPLETION_FLAGS_SUPPORTED UINT64_C(0x0000100)
#define DAT_PROVIDER_FIELD_IS_THREAD_SAFE UINT64_C(0x0000200)
#define DAT_PROVIDER_FIELD_MAX_PRIVATE_DATA_SIZE UINT64_C(0x0000400)
#define DAT_PROVIDER_FIELD_SUPPORTS_MULTIPATH UINT64_C(0x0000800)
#define DAT_PROVIDER_FIELD_EP_CREATOR UINT64_C(0x0001000)
#define DAT_PROVIDER_FIELD_PZ_SUPPORT UINT64_C(0x0002000)
#define DAT_PROVIDER_FIELD_OPTIMAL_BUFFER_ALIGNMENT UINT64_C(0x0004000)
#define DAT_PROVIDER_FIELD_EVD_STREAM_MERGING_SUPPORTED UINT64_C(0x0008000)
#define DAT_PROVIDER_FIELD_SRQ_SUPPORTED UINT64_C(0x0010000)
#define DAT_PROVIDER_FIELD_SRQ_WATERMARKS_SUPPORTED UINT64_C(0x0020000)
#define DAT_PROVIDER_FIELD_SRQ_EP_PZ_DIFFERENCE_SUPPORTED UINT64_C(0x0040000)
#define DAT_PROVIDER_FIELD_SRQ_INFO_SUPPORTED UINT64_C(0x0080000)
#define DAT_PROVIDER_FIELD_EP_RECV_INFO_SUPPORTED UINT64_C(0x0100000)
#define DAT_PROVIDER_FIELD_LMR_SYNC_REQ UINT64_C(0x0200000)
#define DAT_PROVIDER_FIELD_DTO_ASYNC_RETURN_GUARANTEED UINT64_C(0x0400000)
#define DAT_PROVIDER_FIELD_RDMA_WRITE_FOR_RDMA_READ_REQ UINT64_C(0x0800000)
#define DAT_PROVIDER_FIELD_NUM_PROVIDER_SPECIFIC_ATTR UINT64_C(0x1000000)
#define DAT_PROVIDER_FIELD_PROVIDER_SPECIFIC_ATTR UINT64_C(0x2000000)
#define DAT_PROVIDER_FIELD_ALL UINT64_C(0x3ffffff)

#ifdef __cplusplus
}
#endif

#include "dat.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef DAT_HANDLE DAT_CNO_HANDLE;

struct dat_evd_param {
	DAT_IA_HANDLE ia_handle;
	DAT_COUNT evd_qlen; /* events that the EVD can hold; at least the requested number */
	DAT_EVD_STATE evd_state;
	DAT_CNO_HANDLE cno_handle;
	DAT_EVD_FLAGS evd_flags;
};

typedef enum dat_lmr_param_mask {
	DAT_LMR_FIELD_IA_HANDLE = 0x001,
	DAT_LMR_FIELD_MEM_TYPE = 0x002,
	DAT_LMR_FIELD_REGION_DESC = 0x004,
	DAT_LMR_FIELD_LENGTH = 0x008,
	DAT_LMR_FIELD_PZ_HANDLE = 0x010,
	DAT_LMR_FIELD_MEM_PRIV = 0x020,
	DAT_LMR_FIELD_LMR_CONTEXT = 0x040,
	DAT_LMR_FIELD_RMR_CONTEXT = 0x080,
	DAT_LMR_FIELD_REGISTERED_SIZE = 0x100,
	DAT_LMR_FIELD_REGISTERED_ADDRESS = 0x200,
	DAT_LMR_FIELD_ALL = 0x3ff
} DAT_LMR_PARAM_MASK;

struct dat_lmr_param {
	DAT_IA_HANDLE ia_handle;
	DAT_MEM_TYPE mem_type;
	DAT_REGION_DESCRIPTION region_desc;
	DAT_VLEN length;
	DAT_PZ_HANDLE pz_handle;
	DAT_MEM_PRIV_FLAGS mem_priv;
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
	DAT_VLEN registered_size;
	DAT_VADDR registered_address;
};

/* Order of the streams in evd_stream_merging_supported: software, CR, DTO, connection, RMR bind, async. */
struct dat_provider_attr {
	char provider_name[DAT_NAME_MAX_LENGTH];
	DAT_UINT32 provider_version_major;
	DAT_UINT32 provider_version_minor;
	DAT_UINT32 dapl_version_major;
	DAT_UINT32 dapl_version_minor;
	DAT_MEM_TYPE lmr_mem_types_supported; /* bits */
	DAT_IOV_OWNERSHIP iov_ownership_on_return;
	DAT_QOS dat_qos_supported;                       /* bits */
	DAT_COMPLETION_FLAGS completion_flags_supported; /* bits */
	DAT_BOOLEAN is_thread_safe;
	DAT_COUNT max_private_data_size;
	DAT_BOOLEAN supports_multipath;
	DAT_EP_CREATOR_FOR_PSP ep_creator;
	DAT_PZ_SUPPORT pz_support;
	DAT_UINT32 optimal_buffer_alignment;
	const DAT_BOOLEAN evd_stream_merging_supported[6][6];
	DAT_BOOLEAN srq_supported;
	DAT_COUNT srq_watermarks_supported; /* 0x001 low, 0x010 soft high, 0x100 hard high */
	DAT_BOOLEAN srq_ep_pz_difference_supported;
	DAT_COUNT srq_info_supported;     /* 0x01 available, 0x10 outstanding */
	DAT_COUNT ep_recv_info_supported; /* 0x01 nbufs_allocated, 0x10 bufs_alloc_span */
	DAT_BOOLEAN lmr_sync_req;
	DAT_BOOLEAN dto_async_return_guaranteed;
	DAT_BOOLEAN rdma_write_for_rdma_read_req;
	DAT_COUNT num_provider_specific_attr;
	DAT_NAMED_ATTR *provider_specific_attr;
};

/* Agent of a CNO: a thread of the library calls it once, when the CNO is triggered; null EVD: the CNO ends.
 */
typedef void (*DAT_AGENT_FUNC)(DAT_PVOID instance_data, DAT_EVD_HANDLE evd_handle);

typedef struct dat_os_wait_proxy_agent {
	DAT_PVOID instance_data;
	DAT_AGENT_FUNC proxy_agent_func;
} DAT_OS_WAIT_PROXY_AGENT;

#ifdef __cplusplus
#define DAT_OS_WAIT_PROXY_AGENT_NULL (DAT_OS_WAIT_PROXY_AGENT())
#else
#define DAT_OS_WAIT_PROXY_AGENT_NULL ((DAT_OS_WAIT_PROXY_AGENT){(DAT_PVOID)NULL, (DAT_AGENT_FUNC)NULL})
#endif

typedef enum dat_cno_param_mask {
	DAT_CNO_FIELD_IA_HANDLE = 0x1,
	DAT_CNO_FIELD_AGENT = 0x2,
	DAT_CNO_FIELD_ALL = 0x3
} DAT_CNO_PARAM_MASK;

typedef struct dat_cno_param {
	DAT_IA_HANDLE ia_handle;
	DAT_OS_WAIT_PROXY_AGENT agent;
} DAT_CNO_PARAM;

/* ---- interface adapter (uDAPL: IA) ---- */

/* Opens an IA by its name in the registry (dat.conf, or "oneside").  *async_evd_handle chooses the EVD for
 * asynchronous errors: DAT_HANDLE_NULL creates an EVD of at least async_evd_min_qlen entries, which
 * dat_ia_close frees; an existing asynchronous EVD is used unchanged; DAT_EVD_ASYNC_EXISTS requests none, and
 * DAT_EVD_OUT_OF_SCOPE is returned.  Blocks while the attachment is made.
 * Errors: INVALID_PARAMETER (name: ARG1; length: ARG2; null EVD pointer: ARG3); INVALID_HANDLE (null
 * ia_handle: IA; EVD: EVD_ASYNC); PROVIDER_NOT_FOUND (NAME_NOT_REGISTERED, MAJOR_NOT_FOUND, MINOR_NOT_FOUND,
 * THREAD_SAFETY_NOT_FOUND); INSUFFICIENT_RESOURCES (DEVICE: no data plane answers; else a limit);
 * INVALID_STATE (the file named by DAT_OVERRIDE cannot be read). */
extern DAT_RETURN dat_ia_openv(IN const DAT_NAME_PTR ia_name_ptr, IN DAT_COUNT async_evd_min_qlen,
			       INOUT DAT_EVD_HANDLE *async_evd_handle, OUT DAT_IA_HANDLE *ia_handle,
			       IN DAT_UINT32 dat_version_major, IN DAT_UINT32 dat_version_minor,
			       IN DAT_BOOLEAN thread_safety);
#define dat_ia_open(name, qlen, async_evd, ia) \
	dat_ia_openv((name), (qlen), (async_evd), (ia), DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_THREADSAFE)

/* Returns the kind of an object.  Errors: INVALID_HANDLE; INVALID_PARAMETER (null: ARG2). */
extern DAT_RETURN dat_get_handle_type(IN DAT_HANDLE dat_handle, OUT DAT_HANDLE_TYPE *handle_type);

/* ---- event dispatcher (uDAPL: EVD) ---- */

/* Creates an EVD for at least evd_min_qlen events of the streams in evd_flags (not ASYNC), enabled and
 * waitable. The queue is longer than requested, and grows with the EPs that feed the EVD.  [message] Errors:
 * INVALID_HANDLE (IA, CNO); INVALID_PARAMETER (length: ARG2; flags: ARG4; null result: ARG5);
 * INSUFFICIENT_RESOURCES (TEVD: above max_evd_qlen, or too many). */
extern DAT_RETURN dat_evd_create(IN DAT_IA_HANDLE ia_handle, IN DAT_COUNT evd_min_qlen,
				 IN DAT_CNO_HANDLE cno_handle, IN DAT_EVD_FLAGS evd_flags,
				 OUT DAT_EVD_HANDLE *evd_handle);
/* Works on every EVD, also while a thread waits.  Errors: INVALID_HANDLE; INVALID_PARAMETER (null: ARG3). */
extern DAT_RETURN dat_evd_query(IN DAT_EVD_HANDLE evd_handle, IN DAT_EVD_PARAM_MASK evd_param_mask,
				OUT DAT_EVD_PARAM *evd_param);
/* Changes the CNO; null: none.  Events queued already do not trigger the new CNO: poll for them.
 * Errors: INVALID_HANDLE (EVD, CNO). */
extern DAT_RETURN dat_evd_modify_cno(IN DAT_EVD_HANDLE evd_handle, IN DAT_CNO_HANDLE cno_handle);
/* Only set whether events trigger the CNO.  Errors: INVALID_HANDLE. */
extern DAT_RETURN dat_evd_enable(IN DAT_EVD_HANDLE evd_handle);
extern DAT_RETURN dat_evd_disable(IN DAT_EVD_HANDLE evd_handle);
/* Set whether dat_evd_wait is allowed; if not, a thread blocked there returns INVALID_STATE.
 * Errors: INVALID_HANDLE. */
extern DAT_RETURN dat_evd_set_unwaitable(IN DAT_EVD_HANDLE evd_handle);
extern DAT_RETURN dat_evd_clear_unwaitable(IN DAT_EVD_HANDLE evd_handle);

/* Blocks until `threshold` events are queued, or `timeout` microseconds are over (0: polls once;
 * DAT_TIMEOUT_INFINITE: no limit).  Dequeues one event; *nmore is the number left.  Events without
 * notification (UNSIGNALLED, not solicited) do not end the wait; the next event with notification does.
 * Returns TIMEOUT_EXPIRED (exactly this value) without dequeuing; *nmore is then the number queued. Errors:
 * INVALID_HANDLE; INVALID_PARAMETER (threshold <= 0 or above the length: ARG3; null event: ARG4; null nmore:
 * ARG5); INVALID_STATE (another waiter: EVD_WAITER; EVD_UNWAITABLE; threshold above 1 with UNSIGNALLED or
 * SOLICITED_WAIT endpoints: EVD_CONFIG_NOTIFY, EVD_CONFIG_SOLICITED); ABORT (the IA was closed, or its data
 * plane is lost); INTERRUPTED_CALL (a signal handler without SA_RESTART ran; *nmore is set). */
extern DAT_RETURN dat_evd_wait(IN DAT_EVD_HANDLE evd_handle, IN DAT_TIMEOUT timeout, IN DAT_COUNT threshold,
			       OUT DAT_EVENT *event, OUT DAT_COUNT *nmore);

/* ---- consumer notification object (uDAPL: CNO) ---- */

/* Creates a CNO, which serves to wait for many EVDs.  An agent with a function is called once, at the next
 * trigger, by a thread of the library. Errors: INVALID_HANDLE (IA, CNO); INVALID_PARAMETER (instance data
 * without a function: ARG2; null result: ARG3); INSUFFICIENT_RESOURCES. */
extern DAT_RETURN dat_cno_create(IN DAT_IA_HANDLE ia_handle, IN DAT_OS_WAIT_PROXY_AGENT agent,
				 OUT DAT_CNO_HANDLE *cno_handle);
extern DAT_RETURN dat_cno_modify_agent(IN DAT_CNO_HANDLE cno_handle, IN DAT_OS_WAIT_PROXY_AGENT agent);
/* Errors: INVALID_HANDLE (CNO); INVALID_PARAMETER (null: ARG3). */
extern DAT_RETURN dat_cno_query(IN DAT_CNO_HANDLE cno_handle, IN DAT_CNO_PARAM_MASK cno_param_mask,
				OUT DAT_CNO_PARAM *cno_param);
/* Errors: INVALID_HANDLE (CNO); INVALID_STATE (an EVD refers to it, or a thread waits: CNO_IN_USE). */
extern DAT_RETURN dat_cno_free(IN DAT_CNO_HANDLE cno_handle);
/* Blocks until an event arrives, or has arrived since the last call, on an enabled EVD of this CNO on which
 * no thread waits.  *evd_handle is that EVD, as a hint: poll all.  Null with SUCCESS: the last EVD was freed,
 * or the IA closed.  After `timeout` microseconds: null and QUEUE_EMPTY (exactly this value). Errors:
 * INVALID_HANDLE (CNO); INVALID_PARAMETER (null: ARG3); INTERRUPTED_CALL; INVALID_STATE (the data plane is
 * lost: CNO_DEAD). */
extern DAT_RETURN dat_cno_wait(IN DAT_CNO_HANDLE cno_handle, IN DAT_TIMEOUT timeout,
			       OUT DAT_EVD_HANDLE *evd_handle);

/* ---- local memory region (uDAPL: LMR) ---- */

/* Registers `length` bytes (1 to max_lmr_block_size) of the caller's memory, or with DAT_MEM_TYPE_LMR the
 * range of another LMR, with a zone and rights of its own.  Exactly this range is registered.  Local read is
 * always granted. rmr_context is 0 without remote rights.  lmr_handle must not be null; other results may be
 * null.  Blocks while the pages are made shared.  [message] Errors: INVALID_HANDLE (IA, PZ, LMR);
 * INVALID_PARAMETER (type: ARG2; region: ARG3; rights: ARG6; null: ARG7); LENGTH_ERROR (0);
 * INSUFFICIENT_RESOURCES (MEMORY_REGION, MEMORY). */
extern DAT_RETURN dat_lmr_create(IN DAT_IA_HANDLE ia_handle, IN DAT_MEM_TYPE mem_type,
				 IN DAT_REGION_DESCRIPTION region_description, IN DAT_VLEN length,
				 IN DAT_PZ_HANDLE pz_handle, IN DAT_MEM_PRIV_FLAGS mem_privileges,
				 OUT DAT_LMR_HANDLE *lmr_handle, OUT DAT_LMR_CONTEXT *lmr_context,
				 OUT DAT_RMR_CONTEXT *rmr_context, OUT DAT_VLEN *registered_size,
				 OUT DAT_VADDR *registered_address);
/* Errors: INVALID_HANDLE (LMR); INVALID_PARAMETER (null: ARG3). */
extern DAT_RETURN dat_lmr_query(IN DAT_LMR_HANDLE lmr_handle, IN DAT_LMR_PARAM_MASK lmr_param_mask,
				OUT DAT_LMR_PARAM *lmr_param);

/* ---- registry ---- */

/* Lists the IAs of API version 1 that can be opened: fills at most max_to_return of the structures that the
 * list points to. Errors: INVALID_PARAMETER (max 0: ARG1, null count: ARG2, null list or element: ARG3; with
 * ARG1 and ARG3 *entries_returned is the number of all IAs); INTERNAL_ERROR (the file named by DAT_OVERRIDE
 * cannot be read). */
extern DAT_RETURN dat_registry_list_providers(IN DAT_COUNT max_to_return, OUT DAT_COUNT *entries_returned,
					      OUT DAT_PROVIDER_INFO *(dat_provider_list[]));

#ifdef __cplusplus
}
#endif

#include "udat_vendor_specific.h"

#endif
