/* SPDX-License-Identifier: BSD-3-Clause */
/* A uDAPL 2.0 program on a hostile data plane, by the table that the registry receives. Events, queries and
 * the extension differ from 1.2; the target `library` covers the rest. The copy thread receives arbitrary
 * requests here. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "abi/ring.h"
#include "dat2/dat2.h"
#include "dataplane/mem/channel.h"
#include "liar.h"

#define EVDS 4
#define EPS 3
#define MEMORY 4096u
#define SLOW 16384u /* bytes, of which this range is registered: */
#define SLOW_AT 5000u
#define SLOW_LEN 6001u
#define CANARY 0xa5
#define LOOKS 2000 /* polls for an answer of the copy thread */
#define LOOK_US 50

static const DAT2_PROVIDER *calls; /* of the provider */
static DAT_IA_HANDLE ia;
static DAT_PZ_HANDLE pz;
static DAT_EVD_HANDLE evd[EVDS]; /* asynchronous, DTO, CONNECTION, CR */
static DAT_EP_HANDLE ep[EPS];    /* the last with the SRQ */
static DAT_SRQ_HANDLE srq;
static DAT_PSP_HANDLE psp;
static DAT_LMR_HANDLE lmr;
static DAT_RMR_HANDLE rmr;
static DAT_CNO_HANDLE cno;
static DAT_LMR_CONTEXT lmr_context;
static uint8_t *memory;
static DAT_LMR_HANDLE slow_lmr;
static uint8_t *slow;
static uint32_t copies; /* requests to the copy thread so far */
static volatile uint8_t looked_at;

/* ---- the registry ---- */

DAT_RETURN dat_registry_add_provider2(const DAT2_PROVIDER *provider,
				      const DAT_PROVIDER_INFO *info) __asm__("dat_registry_add_provider");
DAT_RETURN
dat_registry_remove_provider2(const DAT2_PROVIDER *provider,
			      const DAT_PROVIDER_INFO *info) __asm__("dat_registry_remove_provider");
void dat_provider_init(const DAT_PROVIDER_INFO *info, const char *instance_data);

DAT_RETURN
dat_registry_add_provider2(const DAT2_PROVIDER *provider, const DAT_PROVIDER_INFO *info)
{
	(void)info;
	calls = provider;
	return DAT_SUCCESS;
}

DAT_RETURN
dat_registry_remove_provider2(const DAT2_PROVIDER *provider, const DAT_PROVIDER_INFO *info)
{
	(void)provider, (void)info;
	return DAT_SUCCESS;
}

static void
load(void)
{
	static const DAT_PROVIDER_INFO info = {
		.ia_name = "oneside", .dapl_version_major = 2, .is_thread_safe = DAT_FALSE};

	if (calls == NULL)
		dat_provider_init(&info, "");
	if (calls == NULL)
		fuzz_fail("no provider");
}

/* ---- objects ---- */

/* Maps pages that cannot be shared, with unregistered bytes around the registered range. */
static void
set_up_slow(void)
{
	int fd = memfd_create("slow", MFD_CLOEXEC);

	slow_lmr = DAT_HANDLE_NULL;
	copies = 0;
	if (fd < 0 || ftruncate(fd, SLOW) != 0)
		fuzz_fail("no file in memory");
	slow = mmap(NULL, SLOW, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	close(fd);
	if (slow == MAP_FAILED)
		fuzz_fail("no memory");
	memset(slow, CANARY, SLOW);
}

static void
set_up(void)
{
	static const uint32_t flags[EVDS] = {0, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG,
					     DAT_EVD_CONNECTION_FLAG, DAT_EVD_CR_FLAG};
	DAT_SRQ_ATTR attr = {.max_recv_dtos = 8, .max_recv_iov = 2};

	ia = pz = srq = psp = lmr = rmr = cno = DAT_HANDLE_NULL;
	lmr_context = 1;
	memset(evd, 0, sizeof(evd));
	memset(ep, 0, sizeof(ep));
	memory = aligned_alloc(MEMORY, MEMORY);
	if (memory == NULL)
		fuzz_fail("no memory");
	set_up_slow();
	if (calls->ia_open_func((char *)(uintptr_t) "oneside", 8, &evd[0], &ia) != DAT_SUCCESS) {
		ia = DAT_HANDLE_NULL;
		return;
	}
	calls->pz_create_func(ia, &pz);
	for (int i = 1; i < EVDS; i++)
		calls->evd_create_func(ia, 6, DAT_HANDLE_NULL, flags[i], &evd[i]);
	calls->srq_create_func(ia, pz, &attr, &srq);
	calls->ep_create_func(ia, pz, evd[1], evd[1], evd[2], NULL, &ep[0]);
	calls->ep_create_func(ia, pz, evd[1], evd[1], evd[2], NULL, &ep[1]);
	calls->ep_create_with_srq_func(ia, pz, evd[1], evd[1], evd[2], srq, NULL, &ep[2]);
	calls->psp_create_func(ia, 1234, evd[3], DAT_PSP_CONSUMER_FLAG, &psp);
}

static void
tear_down(void)
{
	if (ia != DAT_HANDLE_NULL)
		calls->ia_close_func(ia, DAT_CLOSE_ABRUPT_FLAG);
	munmap(slow, SLOW);
	free(memory);
}

/* ---- the copy thread ---- */

static void
check_slow(void)
{
	for (uint32_t i = 0; i < SLOW; i++)
		if (slow[i] != CANARY && (i < SLOW_AT || i >= SLOW_AT + SLOW_LEN))
			fuzz_fail("the data plane writes to memory that is not registered");
}

static void
register_slow(void)
{
	DAT_REGION_DESCRIPTION region = {.for_va = slow + SLOW_AT};
	DAT_LMR_CONTEXT local;
	DAT_RMR_CONTEXT remote;
	DAT_VADDR address;
	DAT_VLEN size;

	if (slow_lmr == DAT_HANDLE_NULL &&
	    calls->lmr_create_func(ia, DAT_MEM_TYPE_VIRTUAL, region, SLOW_LEN, pz, DAT_MEM_PRIV_ALL_FLAG,
				   DAT2_VA_TYPE_VA, &slow_lmr, &local, &remote, &size,
				   &address) != DAT_SUCCESS)
		slow_lmr = DAT_HANDLE_NULL;
}

/* Sends a request to the copy thread, and checks that it was answered. */
static void
copy(struct bytes *record)
{
	uint32_t n = copies;
	struct one_copy_request *request;
	const struct one_copy_answer *answer;

	register_slow();
	if (slow_lmr == DAT_HANDLE_NULL || liar.copies == NULL)
		return;
	request = &liar.copies->request[n % ONE_COPIES];
	answer = &liar.copies->answer[n % ONE_COPIES];
	request->op = (uint8_t)record_number(record, 1);
	request->num_spans = (uint8_t)record_number(record, 1);
	request->slot = (uint32_t)record_number(record, 1);
	request->compare = record_number(record, 1);
	request->operand = record_number(record, 1);
	for (uint32_t i = 0; i < ONE_MAX_SGE; i++) {
		uint32_t at = (uint32_t)record_number(record, 2), len = (uint32_t)record_number(record, 2);

		request->span[i].addr = (uintptr_t)slow + at % SLOW;
		request->span[i].len = len == 0xffff ? (uint32_t)record_number(record, 4) : len % SLOW;
		request->span[i].at = (uint32_t)record_number(record, 2);
	}
	request->sequence = n;
	atomic_store(&request->phase, one_ring_phase(n, ONE_COPY_LOG2));
	channel_signal(&liar.copies->wake, 1);
	/* The answer never arrives if the rings were overwritten. */
	for (uint32_t i = 0; atomic_load(&answer->phase) != one_ring_phase(n, ONE_COPY_LOG2); i++) {
		if (i == LOOKS) {
			liar.copies = NULL;
			return;
		}
		usleep(LOOK_US);
	}
	copies++;
	check_slow();
}

/* ---- events ---- */

static void
query_request(DAT_CR_HANDLE cr, uint8_t what)
{
	DAT_CR_PARAM param;

	calls->cr_query_func(cr, DAT_CR_FIELD_ALL, &param);
	if (what % 4 == 0)
		calls->cr_accept_func(cr, ep[what / 4 % EPS], 0, NULL);
	else if (what % 4 == 1)
		calls->cr_reject_func(cr, 3, (uint8_t[]){1, 2, 3});
	else if (what % 4 == 2)
		calls->cr_handoff_func(cr, 1234);
}

static void
look_at(const DAT2_EVENT *event, uint8_t what)
{
	const DAT_CONNECTION_EVENT_DATA *connection = &event->event_data.alike.connect_event_data;
	const uint8_t *data = connection->private_data;

	switch (event->event_number) {
	case DAT_CONNECTION_REQUEST_EVENT:
		query_request(event->event_data.cr_arrival_event_data.cr_handle, what);
		break;
	case DAT_CONNECTION_EVENT_ESTABLISHED:
	case DAT_CONNECTION_EVENT_PEER_REJECTED:
		for (int i = 0; i < (int)connection->private_data_size; i++)
			looked_at ^= data[i];
		break;
	case DAT_DTO_COMPLETION_EVENT:
		if (event->event_data.dto_completion_event_data.ep_handle == DAT_HANDLE_NULL)
			fuzz_fail("a transfer of no endpoint");
		break;
	default:
		break;
	}
}

static void
take(struct bytes *record)
{
	uint8_t which = (uint8_t)record_number(record, 1), what = (uint8_t)record_number(record, 1);
	DAT2_EVENT *event = calloc(1, sizeof(*event)); /* of exact size, for AddressSanitizer */
	DAT_COUNT more;

	if (event == NULL)
		return;
	if ((what & 0x80) != 0 ? calls->evd_wait_func(evd[which % EVDS], 0, 1, event, &more) == DAT_SUCCESS
			       : calls->evd_dequeue_func(evd[which % EVDS], event) == DAT_SUCCESS)
		look_at(event, what);
	free(event);
}

/* ---- requests ---- */

static DAT_RETURN
extended(DAT_EP_HANDLE to, int op, ...)
{
	DAT_RETURN ret;
	va_list args;

	va_start(args, op);
	ret = calls->handle_extendedop_func(to, op, args);
	va_end(args);
	return ret;
}

static void
post(struct bytes *record)
{
	DAT_EP_HANDLE to = ep[record_number(record, 1) % EPS];
	uint8_t what = (uint8_t)record_number(record, 1);
	DAT2_RMR_TRIPLET remote = {.rmr_context = 77, .virtual_address = 4096, .segment_length = 8};
	DAT2_LMR_TRIPLET local = {
		.lmr_context = lmr_context, .virtual_address = (uintptr_t)memory, .segment_length = 8};
	DAT_DTO_COOKIE cookie = {.as_64 = what};
	DAT_COUNT count = what >> 7;

	switch (what % 9) {
	case 0:
		calls->ep_post_send_func(to, count, &local, cookie, (DAT_COMPLETION_FLAGS)(what >> 5 & 3));
		break;
	case 1:
		calls->ep_post_recv_func(to, count, &local, cookie, DAT_COMPLETION_DEFAULT_FLAG);
		break;
	case 2:
		calls->ep_post_rdma_write_func(to, count, &local, cookie, &remote,
					       DAT_COMPLETION_DEFAULT_FLAG);
		break;
	case 3:
		calls->ep_post_rdma_read_func(to, count, &local, cookie, &remote,
					      DAT_COMPLETION_DEFAULT_FLAG);
		break;
	case 4:
		calls->srq_post_recv_func(srq, count, &local, cookie);
		break;
	case 5:
		extended(to, DAT2_IB_FETCH_AND_ADD_OP, (DAT_UINT64)1, &local, cookie, &remote, 0);
		break;
	case 6:
		extended(to, DAT2_IB_CMP_AND_SWAP_OP, (DAT_UINT64)1, (DAT_UINT64)2, &local, cookie, &remote,
			 0);
		break;
	case 7:
		extended(to, DAT2_IB_RDMA_WRITE_IMMED_OP, count, &local, cookie, &remote, 7u, 0);
		break;
	default:
		calls->ep_post_send_with_invalidate_func(to, count, &local, cookie,
							 DAT_COMPLETION_DEFAULT_FLAG, DAT_TRUE, 77);
		break;
	}
}

/* ---- queries and changes ---- */

static void
query(uint8_t what, uint32_t which)
{
	DAT2_PROVIDER_ATTR provider;
	DAT_EVD_PARAM of_evd;
	DAT2_LMR_PARAM of_lmr;
	DAT2_SRQ_PARAM of_srq;
	DAT2_EP_PARAM of_ep;
	DAT2_IA_ATTR of_ia;
	DAT_EVD_HANDLE async;
	DAT_EP_STATE state;
	DAT_BOOLEAN idle[2];

	switch (what % 6) {
	case 0:
		if (calls->ia_query_func(ia, &async, DAT2_IA_FIELD_ALL, &of_ia, DAT_PROVIDER_FIELD_ALL,
					 &provider) == DAT_SUCCESS &&
		    (memchr(of_ia.adapter_name, 0, DAT_NAME_MAX_LENGTH) == NULL ||
		     memchr(of_ia.vendor_name, 0, DAT_NAME_MAX_LENGTH) == NULL))
			fuzz_fail("a name without an end");
		break;
	case 1:
		calls->ep_query_func(ep[which % EPS], DAT_EP_FIELD_ALL, &of_ep);
		break;
	case 2:
		calls->ep_get_status_func(ep[which % EPS], &state, &idle[0], &idle[1]);
		break;
	case 3:
		calls->evd_query_func(evd[which % EVDS], DAT_EVD_FIELD_ALL, &of_evd);
		break;
	case 4:
		calls->srq_query_func(srq, DAT_SRQ_FIELD_ALL, &of_srq);
		break;
	default:
		calls->lmr_query_func(lmr, DAT_LMR_FIELD_ALL, &of_lmr);
		break;
	}
}

static void
register_memory(void)
{
	DAT_REGION_DESCRIPTION region = {.for_va = memory};
	DAT_RMR_CONTEXT remote;
	DAT_VADDR address;
	DAT_VLEN size;

	if (lmr != DAT_HANDLE_NULL) {
		if (calls->lmr_free_func(lmr) == DAT_SUCCESS)
			lmr = DAT_HANDLE_NULL;
		return;
	}
	if (calls->lmr_create_func(ia, DAT_MEM_TYPE_VIRTUAL, region, MEMORY, pz, DAT_MEM_PRIV_ALL_FLAG,
				   DAT2_VA_TYPE_VA, &lmr, &lmr_context, &remote, &size,
				   &address) != DAT_SUCCESS)
		lmr = DAT_HANDLE_NULL;
}

static void
manage(struct bytes *record)
{
	uint32_t which = (uint32_t)record_number(record, 1);
	uint8_t what = (uint8_t)record_number(record, 1), how = (uint8_t)record_number(record, 1);
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(0xc0000202)}};
	DAT_EP_HANDLE *of = &ep[which % EPS];

	switch (what % 8) {
	case 0:
		calls->ep_connect_func(*of, (DAT_IA_ADDRESS_PTR)&to, how + 1, 1000, 0, NULL,
				       DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
		break;
	case 1:
		calls->ep_disconnect_func(*of,
					  how % 2 == 0 ? DAT_CLOSE_ABRUPT_FLAG : DAT_CLOSE_GRACEFUL_FLAG);
		break;
	case 2:
		calls->ep_reset_func(*of);
		break;
	case 3:
		if (calls->ep_free_func(*of) == DAT_SUCCESS)
			calls->ep_create_func(ia, pz, evd[1], evd[1], evd[2], NULL, of);
		break;
	case 4:
		calls->evd_resize_func(evd[which % EVDS], 1 + (how >> 3));
		break;
	case 5:
		calls->srq_set_lw_func(srq, how % 8);
		break;
	case 6:
		register_memory();
		break;
	default:
		query(how, which);
		break;
	}
}

/* ---- windows, services, waiting ---- */

static void
windows(uint8_t how)
{
	DAT2_LMR_TRIPLET target = {
		.lmr_context = lmr_context, .virtual_address = (uintptr_t)memory, .segment_length = how % 65};
	DAT_RMR_COOKIE cookie = {.as_64 = how};
	DAT_RMR_CONTEXT context;
	DAT2_RMR_PARAM param;

	if (rmr == DAT_HANDLE_NULL && calls->rmr_create_func(pz, &rmr) != DAT_SUCCESS)
		rmr = DAT_HANDLE_NULL;
	if (rmr == DAT_HANDLE_NULL)
		return;
	calls->rmr_bind_func(rmr, lmr, &target, DAT_MEM_PRIV_REMOTE_READ_FLAG, DAT2_VA_TYPE_VA,
			     ep[how >> 6 & 1], cookie, DAT_COMPLETION_DEFAULT_FLAG, &context);
	calls->rmr_query_func(rmr, DAT_RMR_FIELD_ALL, &param);
	if (how >= 0x80 && calls->rmr_free_func(rmr) == DAT_SUCCESS)
		rmr = DAT_HANDLE_NULL;
}

static void
services(uint8_t how)
{
	DAT_CONN_QUAL chosen;
	DAT_PSP_PARAM param;
	DAT_RSP_HANDLE rsp;

	if (how % 2 != 0) {
		if (calls->rsp_create_func(ia, 77, ep[how >> 1 & 1], evd[3], &rsp) == DAT_SUCCESS &&
		    how >= 0x80)
			calls->rsp_free_func(rsp);
		return;
	}
	calls->psp_query_func(psp, DAT_PSP_FIELD_ALL, &param);
	if (calls->psp_free_func(psp) == DAT_SUCCESS)
		calls->psp_create_any_func(ia, &chosen, evd[3],
					   how >= 0x80 ? DAT_PSP_PROVIDER_FLAG : DAT_PSP_CONSUMER_FLAG, &psp);
}

static void
wait_for_any(uint8_t how)
{
	DAT_EVD_HANDLE of = evd[how % EVDS], woken;

	if (cno == DAT_HANDLE_NULL &&
	    calls->cno_create_func(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno) != DAT_SUCCESS)
		cno = DAT_HANDLE_NULL;
	if (cno == DAT_HANDLE_NULL)
		return;
	calls->evd_modify_cno_func(of, (how & 0x10) != 0 ? DAT_HANDLE_NULL : cno);
	calls->cno_wait_func(cno, 0, &woken);
	if ((how & 0x20) != 0)
		calls->evd_disable_func(of);
	if ((how & 0x40) != 0)
		calls->evd_enable_func(of);
}

static void
change(uint8_t how)
{
	DAT2_EP_PARAM param = {.ep_attr = {.max_recv_dtos = how % 16, .max_request_dtos = how >> 4}};
	DAT_COUNT buffers, span;

	if (how % 2 == 0)
		calls->srq_resize_func(srq, 1 + how / 2 % 32);
	else
		calls->ep_modify_func(
			ep[how / 2 % EPS],
			DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, &param);
	calls->ep_recv_query_func(ep[how % EPS], &buffers, &span);
}

static void
more(struct bytes *record)
{
	static void (*const what[])(uint8_t) = {windows, windows, services, wait_for_any, change};
	uint8_t which = (uint8_t)record_number(record, 1);

	what[which % (sizeof(what) / sizeof(what[0]))]((uint8_t)record_number(record, 1));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static liar_kind *const kinds[] = {liar_complete, liar_complete, liar_progress, liar_poke,
					   liar_lie,      take,          take,          post,
					   manage,        copy,          more};
	struct bytes input = {data, size};

	load();
	liar_begin();
	liar.serves = true;
	liar_start(&input);
	set_up();
	while (ia != DAT_HANDLE_NULL && liar_step(&input, kinds, sizeof(kinds) / sizeof(kinds[0])))
		;
	liar_be_patient();
	tear_down();
	liar_end();
	return 0;
}
