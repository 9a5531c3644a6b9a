/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A minimal foreign libdat.so.1: a registry of one provider library (REGISTRY_LIBRARY in the environment)
 * that offers every IA name. Like the reference implementation, the registry dispatches by the table at the
 * start of a handle, gives programs small numbers for IA handles, and finds an IA's entry at its close by
 * the provider's attributes.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dat/udat.h>
#include <dat/dat_registry.h>

#define IAS_MAX 16u
#define FAILURE(type) ((DAT_RETURN)(DAT_CLASS_ERROR | (DAT_UINT32)(type)))

static struct {
	DAT_PROVIDER_INFO info;
	const DAT_PROVIDER *table;
	unsigned opens;
	void *library;
} entry;
static DAT_IA_HANDLE ias[IAS_MAX];

/*
 * Returns the provider's handle of an IA. Any other handle is returned as is, so that the provider judges
 * it.
 */
static DAT_IA_HANDLE
real(DAT_IA_HANDLE handle)
{
	return (uintptr_t)handle - 1 < IAS_MAX ? ias[(uintptr_t)handle - 1] : handle;
}

DAT_RETURN
dat_registry_add_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info)
{
	if (entry.table != NULL)
		return FAILURE(DAT_PROVIDER_ALREADY_REGISTERED);
	entry.info = *info;
	entry.table = provider;
	return DAT_SUCCESS;
}

DAT_RETURN
dat_registry_remove_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info)
{
	if (entry.table != provider || strcmp(entry.info.ia_name, info->ia_name) != 0)
		return FAILURE(DAT_INVALID_PARAMETER);
	entry.table = NULL;
	return DAT_SUCCESS;
}

/* Calls the function of the given name in the provider library. */
static void
report(const char *function, const DAT_PROVIDER_INFO *info)
{
	void *symbol = dlsym(entry.library, function);
	DAT_PROVIDER_INIT_FUNC init;
	DAT_PROVIDER_FINI_FUNC fini;

	if (symbol == NULL) {
		fprintf(stderr, "registry: no %s: %s\n", function, dlerror());
		abort();
	}
	memcpy(&init, &symbol, sizeof(init));
	memcpy(&fini, &symbol, sizeof(fini));
	if (strcmp(function, DAT_PROVIDER_INIT_FUNC_STR) == 0)
		init(info, "");
	else
		fini(info);
}

DAT_RETURN
dat_ia_openv(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async, DAT_IA_HANDLE *ia,
	     DAT_UINT32 major, DAT_UINT32 minor, DAT_BOOLEAN safe)
{
	DAT_PROVIDER_INFO info = {
		.dapl_version_major = major, .dapl_version_minor = minor, .is_thread_safe = safe};
	uintptr_t i = 0;
	DAT_RETURN ret;

	while (i < IAS_MAX && ias[i] != NULL)
		i++;
	if (i == IAS_MAX)
		return FAILURE(DAT_INSUFFICIENT_RESOURCES);
	if (entry.opens == 0) {
		snprintf(info.ia_name, sizeof(info.ia_name), "%s", name);
		entry.library = dlopen(getenv("REGISTRY_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
		if (entry.library == NULL) {
			fprintf(stderr, "registry: %s\n", dlerror());
			abort();
		}
		report(DAT_PROVIDER_INIT_FUNC_STR, &info);
	}
	if (entry.table == NULL)
		return FAILURE(DAT_PROVIDER_NOT_FOUND);
	ret = entry.table->ia_open_func(name, qlen, async, &ias[i]);
	if (ret == DAT_SUCCESS) {
		*ia = (DAT_IA_HANDLE)(i + 1);
		entry.opens++;
	}
	return ret;
}

DAT_RETURN
dat_ia_query(DAT_IA_HANDLE ia, DAT_EVD_HANDLE *async, DAT_IA_ATTR_MASK mask, DAT_IA_ATTR *attr,
	     DAT_PROVIDER_ATTR_MASK provider_mask, DAT_PROVIDER_ATTR *provider)
{
	return DAT_IA_QUERY(real(ia), async, mask, attr, provider_mask, provider);
}

DAT_RETURN
dat_ia_close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS flags)
{
	DAT_PROVIDER_INFO info = entry.info;
	DAT_PROVIDER_ATTR provider;
	DAT_IA_ATTR attr;
	DAT_RETURN ret;

	if ((uintptr_t)ia - 1 >= IAS_MAX || real(ia) == NULL)
		return FAILURE(DAT_INVALID_HANDLE);
	ret = dat_ia_query(ia, NULL, DAT_IA_ALL, &attr, DAT_PROVIDER_FIELD_ALL, &provider);
	if (ret != DAT_SUCCESS)
		return ret;
	if (strcmp(info.ia_name, attr.adapter_name) != 0 ||
	    info.dapl_version_major != provider.dapl_version_major ||
	    info.dapl_version_minor != provider.dapl_version_minor ||
	    info.is_thread_safe != provider.is_thread_safe) {
		fprintf(stderr, "registry: %s is not what was registered\n", attr.adapter_name);
		return FAILURE(DAT_INTERNAL_ERROR);
	}
	ret = DAT_IA_CLOSE(real(ia), flags);
	if (ret != DAT_SUCCESS)
		return ret;
	ias[(uintptr_t)ia - 1] = NULL;
	if (--entry.opens == 0) {
		report(DAT_PROVIDER_FINI_FUNC_STR, &info);
		dlclose(entry.library);
		if (entry.table != NULL)
			return FAILURE(DAT_PROVIDER_IN_USE);
	}
	return DAT_SUCCESS;
}

DAT_RETURN
dat_registry_list_providers(DAT_COUNT max, DAT_COUNT *count, DAT_PROVIDER_INFO *(list[]))
{
	*count = 0;
	return max > 0 ? DAT_SUCCESS : FAILURE(DAT_INVALID_PARAMETER);
}

DAT_RETURN
dat_strerror(DAT_RETURN value, const char **major, const char **minor)
{
	static _Thread_local char text[16];

	snprintf(text, sizeof(text), "0x%x", value);
	*major = text;
	*minor = "";
	return DAT_SUCCESS;
}

#define CALL(name, MACRO, parameters, arguments)                                             \
	DAT_RETURN name parameters                                                           \
	{                                                                                    \
		return a == DAT_HANDLE_NULL ? FAILURE(DAT_INVALID_HANDLE) : MACRO arguments; \
	}

/* clang-format off */
CALL(dat_set_consumer_context, DAT_SET_CONSUMER_CONTEXT, (DAT_HANDLE a, DAT_CONTEXT b), (a, b))
CALL(dat_get_consumer_context, DAT_GET_CONSUMER_CONTEXT, (DAT_HANDLE a, DAT_CONTEXT *b), (a, b))
CALL(dat_get_handle_type, DAT_GET_HANDLE_TYPE, (DAT_HANDLE a, DAT_HANDLE_TYPE *b), (a, b))
CALL(dat_cno_create, DAT_CNO_CREATE, (DAT_IA_HANDLE a, DAT_OS_WAIT_PROXY_AGENT b, DAT_CNO_HANDLE *c), (real(a), b, c))
CALL(dat_cno_modify_agent, DAT_CNO_MODIFY_AGENT, (DAT_CNO_HANDLE a, DAT_OS_WAIT_PROXY_AGENT b), (a, b))
CALL(dat_cno_query, DAT_CNO_QUERY, (DAT_CNO_HANDLE a, DAT_CNO_PARAM_MASK b, DAT_CNO_PARAM *c), (a, b, c))
CALL(dat_cno_free, DAT_CNO_FREE, (DAT_CNO_HANDLE a), (a))
CALL(dat_cno_wait, DAT_CNO_WAIT, (DAT_CNO_HANDLE a, DAT_TIMEOUT b, DAT_EVD_HANDLE *c), (a, b, c))
CALL(dat_cr_query, DAT_CR_QUERY, (DAT_CR_HANDLE a, DAT_CR_PARAM_MASK b, DAT_CR_PARAM *c), (a, b, c))
CALL(dat_cr_accept, DAT_CR_ACCEPT, (DAT_CR_HANDLE a, DAT_EP_HANDLE b, DAT_COUNT c, const DAT_PVOID d), (a, b, c, d))
CALL(dat_cr_reject, DAT_CR_REJECT, (DAT_CR_HANDLE a), (a))
CALL(dat_cr_handoff, DAT_CR_HANDOFF, (DAT_CR_HANDLE a, DAT_CONN_QUAL b), (a, b))
CALL(dat_evd_create, DAT_EVD_CREATE, (DAT_IA_HANDLE a, DAT_COUNT b, DAT_CNO_HANDLE c, DAT_EVD_FLAGS d, DAT_EVD_HANDLE *e), (real(a), b, c, d, e))
CALL(dat_evd_query, DAT_EVD_QUERY, (DAT_EVD_HANDLE a, DAT_EVD_PARAM_MASK b, DAT_EVD_PARAM *c), (a, b, c))
CALL(dat_evd_modify_cno, DAT_EVD_MODIFY_CNO, (DAT_EVD_HANDLE a, DAT_CNO_HANDLE b), (a, b))
CALL(dat_evd_enable, DAT_EVD_ENABLE, (DAT_EVD_HANDLE a), (a))
CALL(dat_evd_disable, DAT_EVD_DISABLE, (DAT_EVD_HANDLE a), (a))
CALL(dat_evd_wait, DAT_EVD_WAIT, (DAT_EVD_HANDLE a, DAT_TIMEOUT b, DAT_COUNT c, DAT_EVENT *d, DAT_COUNT *e), (a, b, c, d, e))
CALL(dat_evd_resize, DAT_EVD_RESIZE, (DAT_EVD_HANDLE a, DAT_COUNT b), (a, b))
CALL(dat_evd_post_se, DAT_EVD_POST_SE, (DAT_EVD_HANDLE a, const DAT_EVENT *b), (a, b))
CALL(dat_evd_dequeue, DAT_EVD_DEQUEUE, (DAT_EVD_HANDLE a, DAT_EVENT *b), (a, b))
CALL(dat_evd_free, DAT_EVD_FREE, (DAT_EVD_HANDLE a), (a))
CALL(dat_ep_create, DAT_EP_CREATE, (DAT_IA_HANDLE a, DAT_PZ_HANDLE b, DAT_EVD_HANDLE c, DAT_EVD_HANDLE d, DAT_EVD_HANDLE e, const DAT_EP_ATTR *f, DAT_EP_HANDLE *g), (real(a), b, c, d, e, f, g))
CALL(dat_ep_query, DAT_EP_QUERY, (DAT_EP_HANDLE a, DAT_EP_PARAM_MASK b, DAT_EP_PARAM *c), (a, b, c))
CALL(dat_ep_modify, DAT_EP_MODIFY, (DAT_EP_HANDLE a, DAT_EP_PARAM_MASK b, const DAT_EP_PARAM *c), (a, b, c))
CALL(dat_ep_connect, DAT_EP_CONNECT, (DAT_EP_HANDLE a, DAT_IA_ADDRESS_PTR b, DAT_CONN_QUAL c, DAT_TIMEOUT d, DAT_COUNT e, const DAT_PVOID f, DAT_QOS g, DAT_CONNECT_FLAGS h), (a, b, c, d, e, f, g, h))
CALL(dat_ep_dup_connect, DAT_EP_DUP_CONNECT, (DAT_EP_HANDLE a, DAT_EP_HANDLE b, DAT_TIMEOUT c, DAT_COUNT d, const DAT_PVOID e, DAT_QOS f), (a, b, c, d, e, f))
CALL(dat_ep_disconnect, DAT_EP_DISCONNECT, (DAT_EP_HANDLE a, DAT_CLOSE_FLAGS b), (a, b))
CALL(dat_ep_post_send, DAT_EP_POST_SEND, (DAT_EP_HANDLE a, DAT_COUNT b, DAT_LMR_TRIPLET *c, DAT_DTO_COOKIE d, DAT_COMPLETION_FLAGS e), (a, b, c, d, e))
CALL(dat_ep_post_recv, DAT_EP_POST_RECV, (DAT_EP_HANDLE a, DAT_COUNT b, DAT_LMR_TRIPLET *c, DAT_DTO_COOKIE d, DAT_COMPLETION_FLAGS e), (a, b, c, d, e))
CALL(dat_ep_post_rdma_read, DAT_EP_POST_RDMA_READ, (DAT_EP_HANDLE a, DAT_COUNT b, DAT_LMR_TRIPLET *c, DAT_DTO_COOKIE d, const DAT_RMR_TRIPLET *e, DAT_COMPLETION_FLAGS f), (a, b, c, d, e, f))
CALL(dat_ep_post_rdma_write, DAT_EP_POST_RDMA_WRITE, (DAT_EP_HANDLE a, DAT_COUNT b, DAT_LMR_TRIPLET *c, DAT_DTO_COOKIE d, const DAT_RMR_TRIPLET *e, DAT_COMPLETION_FLAGS f), (a, b, c, d, e, f))
CALL(dat_ep_get_status, DAT_EP_GET_STATUS, (DAT_EP_HANDLE a, DAT_EP_STATE *b, DAT_BOOLEAN *c, DAT_BOOLEAN *d), (a, b, c, d))
CALL(dat_ep_free, DAT_EP_FREE, (DAT_EP_HANDLE a), (a))
CALL(dat_lmr_create, DAT_LMR_CREATE, (DAT_IA_HANDLE a, DAT_MEM_TYPE b, DAT_REGION_DESCRIPTION c, DAT_VLEN d, DAT_PZ_HANDLE e, DAT_MEM_PRIV_FLAGS f, DAT_LMR_HANDLE *g, DAT_LMR_CONTEXT *h, DAT_RMR_CONTEXT *i, DAT_VLEN *j, DAT_VADDR *k), (real(a), b, c, d, e, f, g, h, i, j, k))
CALL(dat_lmr_query, DAT_LMR_QUERY, (DAT_LMR_HANDLE a, DAT_LMR_PARAM_MASK b, DAT_LMR_PARAM *c), (a, b, c))
CALL(dat_lmr_free, DAT_LMR_FREE, (DAT_LMR_HANDLE a), (a))
CALL(dat_rmr_create, DAT_RMR_CREATE, (DAT_PZ_HANDLE a, DAT_RMR_HANDLE *b), (a, b))
CALL(dat_rmr_query, DAT_RMR_QUERY, (DAT_RMR_HANDLE a, DAT_RMR_PARAM_MASK b, DAT_RMR_PARAM *c), (a, b, c))
CALL(dat_rmr_bind, DAT_RMR_BIND, (DAT_RMR_HANDLE a, const DAT_LMR_TRIPLET *b, DAT_MEM_PRIV_FLAGS c, DAT_EP_HANDLE d, DAT_RMR_COOKIE e, DAT_COMPLETION_FLAGS f, DAT_RMR_CONTEXT *g), (a, b, c, d, e, f, g))
CALL(dat_rmr_free, DAT_RMR_FREE, (DAT_RMR_HANDLE a), (a))
CALL(dat_psp_create, DAT_PSP_CREATE, (DAT_IA_HANDLE a, DAT_CONN_QUAL b, DAT_EVD_HANDLE c, DAT_PSP_FLAGS d, DAT_PSP_HANDLE *e), (real(a), b, c, d, e))
CALL(dat_psp_query, DAT_PSP_QUERY, (DAT_PSP_HANDLE a, DAT_PSP_PARAM_MASK b, DAT_PSP_PARAM *c), (a, b, c))
CALL(dat_psp_free, DAT_PSP_FREE, (DAT_PSP_HANDLE a), (a))
CALL(dat_rsp_create, DAT_RSP_CREATE, (DAT_IA_HANDLE a, DAT_CONN_QUAL b, DAT_EP_HANDLE c, DAT_EVD_HANDLE d, DAT_RSP_HANDLE *e), (real(a), b, c, d, e))
CALL(dat_rsp_query, DAT_RSP_QUERY, (DAT_RSP_HANDLE a, DAT_RSP_PARAM_MASK b, DAT_RSP_PARAM *c), (a, b, c))
CALL(dat_rsp_free, DAT_RSP_FREE, (DAT_RSP_HANDLE a), (a))
CALL(dat_pz_create, DAT_PZ_CREATE, (DAT_IA_HANDLE a, DAT_PZ_HANDLE *b), (real(a), b))
CALL(dat_pz_query, DAT_PZ_QUERY, (DAT_PZ_HANDLE a, DAT_PZ_PARAM_MASK b, DAT_PZ_PARAM *c), (a, b, c))
CALL(dat_pz_free, DAT_PZ_FREE, (DAT_PZ_HANDLE a), (a))
CALL(dat_psp_create_any, DAT_PSP_CREATE_ANY, (DAT_IA_HANDLE a, DAT_CONN_QUAL *b, DAT_EVD_HANDLE c, DAT_PSP_FLAGS d, DAT_PSP_HANDLE *e), (real(a), b, c, d, e))
CALL(dat_ep_reset, DAT_EP_RESET, (DAT_EP_HANDLE a), (a))
CALL(dat_evd_set_unwaitable, DAT_EVD_SET_UNWAITABLE, (DAT_EVD_HANDLE a), (a))
CALL(dat_evd_clear_unwaitable, DAT_EVD_CLEAR_UNWAITABLE, (DAT_EVD_HANDLE a), (a))
CALL(dat_lmr_sync_rdma_read, DAT_LMR_SYNC_RDMA_READ, (DAT_IA_HANDLE a, const DAT_LMR_TRIPLET *b, DAT_VLEN c), (real(a), b, c))
CALL(dat_lmr_sync_rdma_write, DAT_LMR_SYNC_RDMA_WRITE, (DAT_IA_HANDLE a, const DAT_LMR_TRIPLET *b, DAT_VLEN c), (real(a), b, c))
CALL(dat_ep_create_with_srq, DAT_EP_CREATE_WITH_SRQ, (DAT_IA_HANDLE a, DAT_PZ_HANDLE b, DAT_EVD_HANDLE c, DAT_EVD_HANDLE d, DAT_EVD_HANDLE e, DAT_SRQ_HANDLE f, const DAT_EP_ATTR *g, DAT_EP_HANDLE *h), (real(a), b, c, d, e, f, g, h))
CALL(dat_ep_recv_query, DAT_EP_RECV_QUERY, (DAT_EP_HANDLE a, DAT_COUNT *b, DAT_COUNT *c), (a, b, c))
CALL(dat_ep_set_watermark, DAT_EP_SET_WATERMARK, (DAT_EP_HANDLE a, DAT_COUNT b, DAT_COUNT c), (a, b, c))
CALL(dat_srq_create, DAT_SRQ_CREATE, (DAT_IA_HANDLE a, DAT_PZ_HANDLE b, DAT_SRQ_ATTR *c, DAT_SRQ_HANDLE *d), (real(a), b, c, d))
CALL(dat_srq_free, DAT_SRQ_FREE, (DAT_SRQ_HANDLE a), (a))
CALL(dat_srq_post_recv, DAT_SRQ_POST_RECV, (DAT_SRQ_HANDLE a, DAT_COUNT b, DAT_LMR_TRIPLET *c, DAT_DTO_COOKIE d), (a, b, c, d))
CALL(dat_srq_query, DAT_SRQ_QUERY, (DAT_SRQ_HANDLE a, DAT_SRQ_PARAM_MASK b, DAT_SRQ_PARAM *c), (a, b, c))
CALL(dat_srq_resize, DAT_SRQ_RESIZE, (DAT_SRQ_HANDLE a, DAT_COUNT b), (a, b))
CALL(dat_srq_set_lw, DAT_SRQ_SET_LW, (DAT_SRQ_HANDLE a, DAT_COUNT b), (a, b))
