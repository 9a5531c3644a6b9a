/* SPDX-License-Identifier: BSD-3-Clause */
/* The public headers must be usable from C++ and from strict C alike. */
#include <dat/udat.h>
#include <dat/dat_registry.h>

int use_headers(DAT_IA_HANDLE ia, DAT_EP_HANDLE ep, DAT_CNO_HANDLE *cno);

int
use_headers(DAT_IA_HANDLE ia, DAT_EP_HANDLE ep, DAT_CNO_HANDLE *cno)
{
	DAT_IA_ATTR attr;
	DAT_EVENT event;
	DAT_LMR_TRIPLET triplet;
	DAT_DTO_COOKIE cookie;
	DAT_LMR_COOKIE shared;
	char name[] = "oneside";
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;

	cookie.as_64 = 1;
	triplet.segment_length = 0;
	attr.max_mtu_size = 0;
	attr.max_rdma_read_per_ep = 0;
	event.event_data.dto_completion_event_data.transfered_length = 0;
	shared = (DAT_LMR_COOKIE)0;
	(void)attr;
	(void)event;
	(void)shared;
	return (int)(dat_ia_open(name, 8, &evd, &ia) | dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, cno) |
		     dat_ep_post_send(ep, 1, &triplet, cookie, DAT_COMPLETION_DEFAULT_FLAG) |
		     DAT_EP_POST_SEND(ep, 1, &triplet, cookie, DAT_COMPLETION_SUPPRESS_FLAG));
}
