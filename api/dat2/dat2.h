/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uDAPL 2.0 as its registry, libdat2, calls a provider: the differences from 1.2.
 *
 * The headers of both versions use the same names, so the layouts of 2.0 have other names here (DAT2_*).  A
 * test compares them with the headers of a 2.0 installation.  Everything else (handles, cookies, EVD, CR,
 * PSP, RSP and PZ parameters, flags, states of endpoints, event numbers, completion statuses) is equal in
 * both versions.
 *
 * Functions called dat2_* are the members of the provider table.  Each converts its arguments and calls the
 * provider of 1.2, which is linked in.
 */
#ifndef DAT2_H
#define DAT2_H

#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include "dat/ia.h"

typedef uint32_t DAT2_SEG_LENGTH;

typedef struct {
	DAT_VADDR virtual_address;
	DAT2_SEG_LENGTH segment_length;
	DAT_LMR_CONTEXT lmr_context;
} DAT2_LMR_TRIPLET;

typedef struct {
	DAT_VADDR virtual_address;
	DAT2_SEG_LENGTH segment_length;
	DAT_RMR_CONTEXT rmr_context;
} DAT2_RMR_TRIPLET;

typedef enum { DAT2_VA_TYPE_VA = 0, DAT2_VA_TYPE_ZB } DAT2_VA_TYPE;
typedef enum { DAT2_RMR_SCOPE_EP = 0, DAT2_RMR_SCOPE_PZ, DAT2_RMR_SCOPE_ANY } DAT2_RMR_SCOPE;
typedef enum { DAT2_EXTENSION_NONE = 0, DAT2_EXTENSION_IB, DAT2_EXTENSION_IW } DAT2_EXTENSION;
typedef enum { DAT2_PROXY_TYPE_NONE = 0, DAT2_PROXY_TYPE_AGENT, DAT2_PROXY_TYPE_FD } DAT2_PROXY_TYPE;

typedef struct {
	int domain;
	int type;
	int protocol;
} DAT2_COMM;

typedef struct {
	char adapter_name[DAT_NAME_MAX_LENGTH];
	char vendor_name[DAT_NAME_MAX_LENGTH];
	DAT_UINT32 hardware_version_major;
	DAT_UINT32 hardware_version_minor;
	DAT_UINT32 firmware_version_major;
	DAT_UINT32 firmware_version_minor;
	DAT_IA_ADDRESS_PTR ia_address_ptr;
	DAT_COUNT max_eps;
	DAT_COUNT max_dto_per_ep;
	DAT_COUNT max_rdma_read_per_ep_in;
	DAT_COUNT max_rdma_read_per_ep_out;
	DAT_COUNT max_evds;
	DAT_COUNT max_evd_qlen;
	DAT_COUNT max_iov_segments_per_dto;
	DAT_COUNT max_lmrs;
	DAT2_SEG_LENGTH max_lmr_block_size;
	DAT_VADDR max_lmr_virtual_address;
	DAT_COUNT max_pzs;
	DAT2_SEG_LENGTH max_message_size;
	DAT2_SEG_LENGTH max_rdma_size;
	DAT_COUNT max_rmrs;
	DAT_VADDR max_rmr_target_address;
	DAT_COUNT max_srqs;
	DAT_COUNT max_ep_per_srq;
	DAT_COUNT max_recv_per_srq;
	DAT_COUNT max_iov_segments_per_rdma_read;
	DAT_COUNT max_iov_segments_per_rdma_write;
	DAT_COUNT max_rdma_read_in;
	DAT_COUNT max_rdma_read_out;
	DAT_BOOLEAN max_rdma_read_per_ep_in_guaranteed;
	DAT_BOOLEAN max_rdma_read_per_ep_out_guaranteed;
	DAT_BOOLEAN zb_supported;
	DAT2_EXTENSION extension_supported;
	DAT_COUNT extension_version;
	DAT_COUNT num_transport_attr;
	DAT_NAMED_ATTR *transport_attr;
	DAT_COUNT num_vendor_attr;
	DAT_NAMED_ATTR *vendor_attr;
} DAT2_IA_ATTR;
#define DAT2_IA_FIELD_ALL UINT64_C(0x3fffffffff)

typedef struct {
	char provider_name[DAT_NAME_MAX_LENGTH];
	DAT_UINT32 provider_version_major;
	DAT_UINT32 provider_version_minor;
	DAT_UINT32 dapl_version_major;
	DAT_UINT32 dapl_version_minor;
	DAT_MEM_TYPE lmr_mem_types_supported;
	DAT_IOV_OWNERSHIP iov_ownership_on_return;
	DAT_QOS dat_qos_supported;
	DAT_COMPLETION_FLAGS completion_flags_supported;
	DAT_BOOLEAN is_thread_safe;
	DAT_COUNT max_private_data_size;
	DAT_BOOLEAN supports_multipath;
	DAT_EP_CREATOR_FOR_PSP ep_creator;
	DAT_PZ_SUPPORT pz_support;
	DAT_UINT32 optimal_buffer_alignment;
	DAT_BOOLEAN evd_stream_merging_supported[6][6];
	DAT_BOOLEAN srq_supported;
	DAT_COUNT srq_watermarks_supported;
	DAT_BOOLEAN srq_ep_pz_difference_supported;
	DAT_COUNT srq_info_supported;
	DAT_COUNT ep_recv_info_supported;
	DAT_BOOLEAN lmr_sync_req;
	DAT_BOOLEAN dto_async_return_guaranteed;
	DAT_BOOLEAN rdma_write_for_rdma_read_req;
	DAT_BOOLEAN rdma_read_lmr_rmr_context_exposure;
	DAT2_RMR_SCOPE rmr_scope_supported;
	DAT_BOOLEAN is_signal_safe;
	DAT_BOOLEAN ha_supported;
	DAT_UINT32 ha_loadbalancing;
	DAT_COUNT num_provider_specific_attr;
	DAT_NAMED_ATTR *provider_specific_attr;
} DAT2_PROVIDER_ATTR;

typedef struct {
	DAT_SERVICE_TYPE service_type;
	DAT2_SEG_LENGTH max_message_size;
	DAT2_SEG_LENGTH max_rdma_size;
	DAT_QOS qos;
	DAT_COMPLETION_FLAGS recv_completion_flags;
	DAT_COMPLETION_FLAGS request_completion_flags;
	DAT_COUNT max_recv_dtos;
	DAT_COUNT max_request_dtos;
	DAT_COUNT max_recv_iov;
	DAT_COUNT max_request_iov;
	DAT_COUNT max_rdma_read_in;
	DAT_COUNT max_rdma_read_out;
	DAT_COUNT srq_soft_hw;
	DAT_COUNT max_rdma_read_iov;
	DAT_COUNT max_rdma_write_iov;
	DAT_COUNT ep_transport_specific_count;
	DAT_NAMED_ATTR *ep_transport_specific;
	DAT_COUNT ep_provider_specific_count;
	DAT_NAMED_ATTR *ep_provider_specific;
} DAT2_EP_ATTR;

typedef struct {
	DAT_IA_HANDLE ia_handle;
	DAT_EP_STATE ep_state;
	DAT2_COMM comm;
	DAT_IA_ADDRESS_PTR local_ia_address_ptr;
	DAT_PORT_QUAL local_port_qual;
	DAT_IA_ADDRESS_PTR remote_ia_address_ptr;
	DAT_PORT_QUAL remote_port_qual;
	DAT_PZ_HANDLE pz_handle;
	DAT_EVD_HANDLE recv_evd_handle;
	DAT_EVD_HANDLE request_evd_handle;
	DAT_EVD_HANDLE connect_evd_handle;
	DAT_SRQ_HANDLE srq_handle;
	DAT2_EP_ATTR ep_attr;
} DAT2_EP_PARAM;

typedef struct {
	DAT_IA_HANDLE ia_handle;
	DAT_MEM_TYPE mem_type;
	DAT_REGION_DESCRIPTION region_desc;
	DAT_VLEN length;
	DAT_PZ_HANDLE pz_handle;
	DAT_MEM_PRIV_FLAGS mem_priv;
	DAT2_VA_TYPE va_type;
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
	DAT_VLEN registered_size;
	DAT_VADDR registered_address;
} DAT2_LMR_PARAM;
#define DAT2_MEM_PRIV_REMOTE_ATOMIC 0x40u

typedef struct {
	DAT_IA_HANDLE ia_handle;
	DAT_PZ_HANDLE pz_handle;
	DAT2_LMR_TRIPLET lmr_triplet;
	DAT_MEM_PRIV_FLAGS mem_priv;
	DAT_RMR_CONTEXT rmr_context;
	DAT2_RMR_SCOPE rmr_scope;
	DAT2_VA_TYPE va_type;
} DAT2_RMR_PARAM;

typedef struct {
	DAT_IA_HANDLE ia_handle;
	DAT2_PROXY_TYPE proxy_type;
	union {
		DAT_OS_WAIT_PROXY_AGENT agent;
		int fd;
		DAT_PVOID none;
	} proxy;
} DAT2_CNO_PARAM;

typedef enum { DAT2_SRQ_STATE_ERROR = 0, DAT2_SRQ_STATE_OPERATIONAL } DAT2_SRQ_STATE;

typedef DAT_SRQ_PARAM DAT2_SRQ_PARAM; /* only the values of srq_state differ */

/* ---- events ---- */

typedef enum {
	DAT2_DTO_SEND = 0,
	DAT2_DTO_RDMA_WRITE,
	DAT2_DTO_RDMA_READ,
	DAT2_DTO_RECEIVE,
	DAT2_DTO_RECEIVE_WITH_INVALIDATE,
	DAT2_DTO_BIND_MW,
	/* InfiniBand extension */
	DAT2_IB_DTO_RDMA_WRITE_IMMED = 8,
	DAT2_IB_DTO_RECV_IMMED,
	DAT2_IB_DTO_FETCH_ADD,
	DAT2_IB_DTO_CMP_SWAP,
	DAT2_IB_DTO_RECV_MSG_IMMED
} DAT2_DTOS;

#define DAT2_IB_DTO_EVENT 0x40000u

typedef enum {
	DAT2_IB_FETCH_AND_ADD = 0,
	DAT2_IB_CMP_AND_SWAP,
	DAT2_IB_RDMA_WRITE_IMMED,
	DAT2_IB_RDMA_WRITE_IMMED_DATA,
	DAT2_IB_RECV_IMMED_DATA
} DAT2_IB_EXT_TYPE;

/* First fields of the 64 bytes of extension data. */
typedef struct {
	DAT2_IB_EXT_TYPE type;
	uint32_t status; /* 0, or DAT_IB_OP_ERR */
	uint32_t immediate;
} DAT2_IB_EXTENSION;
#define DAT2_IB_OP_ERR 1u
#define DAT2_IB_SERVICE_TYPE_UD 1u

typedef struct {
	DAT_EP_HANDLE ep_handle;
	DAT_DTO_COOKIE user_cookie;
	DAT_DTO_COMPLETION_STATUS status;
	DAT2_SEG_LENGTH transfered_length;
	DAT2_DTOS operation;
	DAT_RMR_CONTEXT rmr_context;
} DAT2_DTO_COMPLETION_EVENT_DATA;

typedef struct {
	DAT_SP_HANDLE sp_handle;
	DAT_IA_ADDRESS_PTR local_ia_address_ptr;
	DAT_CONN_QUAL conn_qual;
	DAT_CR_HANDLE cr_handle;
	DAT_BOOLEAN truncate_flag;
} DAT2_CR_ARRIVAL_EVENT_DATA;

/* Event.  Event data other than the first two members have the layout of 1.2. */
typedef struct {
	uint32_t event_number;
	DAT_EVD_HANDLE evd_handle;
	union {
		DAT2_DTO_COMPLETION_EVENT_DATA dto_completion_event_data;
		DAT2_CR_ARRIVAL_EVENT_DATA cr_arrival_event_data;
		DAT_EVENT_DATA alike;
	} event_data;
	union {
		DAT2_IB_EXTENSION ib;
		DAT_UINT64 words[8];
	} extension;
} DAT2_EVENT;
_Static_assert(offsetof(DAT2_EVENT, evd_handle) == offsetof(DAT_EVENT, evd_handle), "events begin alike");
_Static_assert(offsetof(DAT2_EVENT, event_data) == offsetof(DAT_EVENT, event_data), "events begin alike");

/* ---- extension operations ---- */

typedef enum {
	DAT2_IB_FETCH_AND_ADD_OP = 0,
	DAT2_IB_CMP_AND_SWAP_OP,
	DAT2_IB_RDMA_WRITE_IMMED_OP
} DAT2_IB_OP;

/* ---- the provider table ---- */

#define DAT2_OF(type) DAT2_##type

/* clang-format off */
/* Parameters of the calls that differ from 1.2 (DIFFERS), with the names that 1.2 uses. */
#define DAT2_PARAMETERS_cr_reject                                                                            \
	(DAT_CR_HANDLE) cr_handle, (DAT_COUNT) private_data_size, (const DAT_PVOID) private_data
#define DAT2_PARAMETERS_lmr_create                                                                           \
	(DAT_IA_HANDLE) ia_handle, (DAT_MEM_TYPE) mem_type, (DAT_REGION_DESCRIPTION) region_description,     \
	(DAT_VLEN) length, (DAT_PZ_HANDLE) pz_handle, (uint32_t) mem_privileges, (DAT2_VA_TYPE) va_type,     \
	(DAT_LMR_HANDLE *) lmr_handle, (DAT_LMR_CONTEXT *) lmr_context, (DAT_RMR_CONTEXT *) rmr_context,     \
	(DAT_VLEN *) registered_size, (DAT_VADDR *) registered_address
#define DAT2_PARAMETERS_rmr_bind                                                                             \
	(DAT_RMR_HANDLE) rmr_handle, (DAT_LMR_HANDLE) lmr_handle, (const DAT2_LMR_TRIPLET *) lmr_triplet,    \
	(DAT_MEM_PRIV_FLAGS) mem_privileges, (DAT2_VA_TYPE) va_type, (DAT_EP_HANDLE) ep_handle,              \
	(DAT_RMR_COOKIE) user_cookie, (DAT_COMPLETION_FLAGS) completion_flags, (DAT_RMR_CONTEXT *) rmr_context

/* The calls of 1.2 (dat/calls.h), followed by the calls that 2.0 adds, in the order of the table. */
#define DAT2_CALLS(CALL)                                                                                     \
	DAT_CALLS(CALL, CALL, DAT2_OF)                                                                       \
	CALL(csp_create, , UNSUPPORTED, (DAT_IA_HANDLE) ia, (DAT2_COMM *) comm,                              \
	     (DAT_IA_ADDRESS_PTR) address, (DAT_EVD_HANDLE) evd, (DAT_HANDLE *) csp)                         \
	CALL(csp_query, , UNSUPPORTED, (DAT_HANDLE) csp, (uint32_t) mask, (void *) param)                    \
	CALL(csp_free, , UNSUPPORTED, (DAT_HANDLE) csp)                                                      \
	CALL(ep_common_connect, , UNSUPPORTED, (DAT_EP_HANDLE) ep, (DAT_IA_ADDRESS_PTR) address,             \
	     (DAT_TIMEOUT) timeout, (DAT_COUNT) size, (const DAT_PVOID) data)                                \
	CALL(rmr_create_for_ep, , UNSUPPORTED, (DAT_PZ_HANDLE) pz, (DAT_RMR_HANDLE *) rmr)                   \
	CALL(ep_post_send_with_invalidate, , LAYOUTS, (DAT_EP_HANDLE) ep_handle, (DAT_COUNT) num_segments,   \
	     (DAT2_LMR_TRIPLET *) local_iov, (DAT_DTO_COOKIE) user_cookie,                                   \
	     (DAT_COMPLETION_FLAGS) completion_flags, (DAT_BOOLEAN) invalidate,                              \
	     (DAT_RMR_CONTEXT) rmr_context)                                                                  \
	CALL(ep_post_rdma_read_to_rmr, , UNSUPPORTED, (DAT_EP_HANDLE) ep,                                    \
	     (const DAT2_RMR_TRIPLET *) local, (DAT_DTO_COOKIE) cookie, (const DAT2_RMR_TRIPLET *) remote,   \
	     (DAT_COMPLETION_FLAGS) flags)                                                                   \
	CALL(cno_fd_create, , UNSUPPORTED, (DAT_IA_HANDLE) ia, (int *) fd, (DAT_CNO_HANDLE *) cno)           \
	CALL(cno_trigger, , UNSUPPORTED, (DAT_CNO_HANDLE) cno, (DAT_EVD_HANDLE *) evd)                       \
	CALL(ia_ha_related, , UNSUPPORTED, (DAT_IA_HANDLE) ia, (const DAT_NAME_PTR) name,                    \
	     (DAT_BOOLEAN *) answer)                                                                         \
	CALL(handle_extendedop, , EXTENDED, (DAT_HANDLE) dat_handle, (int) extended_op, (va_list) args)
/* clang-format on */

#define DAT2_ALIKE(name, ...) __VA_ARGS__
#define DAT2_LAYOUTS(name, ...) __VA_ARGS__
#define DAT2_UNSUPPORTED(name, ...) __VA_ARGS__
#define DAT2_EXTENDED(name, ...) __VA_ARGS__
#define DAT2_DIFFERS(name, ...) DAT2_PARAMETERS_##name

#define DAT2_PROTOTYPE(name, handle, version2, ...) \
	DAT_RETURN dat2_##name(ONE_PARAMETERS(DAT2_##version2(name, __VA_ARGS__)));
DAT2_CALLS(DAT2_PROTOTYPE)

#define DAT2_MEMBER(name, handle, version2, ...) \
	DAT_RETURN (*name##_func)(ONE_PARAMETERS(DAT2_##version2(name, __VA_ARGS__)));
typedef struct {
	const char *device_name; /* name of the IA */
	DAT_PVOID extension;
	DAT2_CALLS(DAT2_MEMBER)
} DAT2_PROVIDER;
_Static_assert(sizeof(DAT2_PROVIDER) == 81 * sizeof(void *), "the table is an ABI");

/* Table for ONESIDE_DEBUG (client/explain.h), whose calls print their refusals. */
extern const DAT2_PROVIDER dat2_explaining;
/* Code of 1.2 of this thread's last refusal, for printing.  Set only if `one_explaining`. */
extern __thread DAT_RETURN dat2_refused;

/* ---- conversions ---- */

/* Converts an error code: 2.0 inserted two subtypes and moved NOT_IMPLEMENTED. */
DAT_RETURN dat2_error(DAT_RETURN ret);

static inline DAT_RETURN
dat2_return(DAT_RETURN ret)
{
	return __builtin_expect(ret == DAT_SUCCESS, 1) ? DAT_SUCCESS : dat2_error(ret);
}

/* Converts an error code of a call whose arguments have other positions in 2.0: `from[n]` is the position
 * in 2.0 of argument n + 1 in 1.2. */
DAT_RETURN dat2_return_moved(DAT_RETURN ret, const uint8_t *from, uint32_t count);

/* Copies the members from `first` to `last`, whose layout is equal in both versions. */
#define DAT2_COPY(type, to, from, first, last)                                                           \
	do {                                                                                             \
		_Static_assert(offsetof(DAT_##type, last) - offsetof(DAT_##type, first) ==               \
				       offsetof(DAT2_##type, last) - offsetof(DAT2_##type, first),       \
			       "alike");                                                                 \
		memcpy((char *)(to) + offsetof(DAT2_##type, first),                                      \
		       (const char *)(from) + offsetof(DAT_##type, first),                               \
		       offsetof(DAT_##type, last) + sizeof((from)->last) - offsetof(DAT_##type, first)); \
	} while (0)

static inline DAT_LMR_TRIPLET
dat2_local(const DAT2_LMR_TRIPLET *from)
{
	return (DAT_LMR_TRIPLET){
		.lmr_context = from->lmr_context,
		.virtual_address = from->virtual_address,
		.segment_length = from->segment_length,
	};
}

#endif
