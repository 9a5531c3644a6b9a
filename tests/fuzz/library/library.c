/* SPDX-License-Identifier: BSD-3-Clause */
/* A uDAPL program on a hostile data plane: malformed replies, completions of requests never posted, and
 * anything in the arena. Results may be nonsense, but the program's memory stays intact. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <dat/udat.h>

#include "liar.h"

#define EVDS 5
#define EPS 3
#define REGISTRY "oneside u1.2 nonthreadsafe default libdat.so.1 oneside.1.0 \"\" \"\"\n"

static DAT_IA_HANDLE ia;
static DAT_PZ_HANDLE pz;
static DAT_EVD_HANDLE evd[EVDS]; /* asynchronous, DTO, DTO, CONNECTION, CR */
static DAT_EP_HANDLE ep[EPS];
static DAT_SRQ_HANDLE srq;
static DAT_PSP_HANDLE psp;
static DAT_CR_HANDLE cr;
static volatile uint8_t looked_at;

static void
name_registry(void)
{
	static char path[40];
	int fd;

	if (path[0] != '\0')
		return;
	fd = memfd_create("dat.conf", 0);
	if (fd < 0 || write(fd, REGISTRY, strlen(REGISTRY)) != (ssize_t)strlen(REGISTRY))
		fuzz_fail("no file in memory");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	setenv("DAT_OVERRIDE", path, 1);
}

static void
set_up(void)
{
	static const DAT_EVD_FLAGS flags[EVDS] = {0,
						  (DAT_EVD_FLAGS)(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG),
						  DAT_EVD_DTO_FLAG, DAT_EVD_CONNECTION_FLAG, DAT_EVD_CR_FLAG};
	DAT_SRQ_ATTR attr = {.max_recv_dtos = 8, .max_recv_iov = 2};

	ia = pz = srq = psp = cr = DAT_HANDLE_NULL;
	memset(evd, 0, sizeof(evd));
	memset(ep, 0, sizeof(ep));
	if (dat_ia_open((char *)(uintptr_t) "oneside", 8, &evd[0], &ia) != DAT_SUCCESS) {
		ia = DAT_HANDLE_NULL;
		return;
	}
	dat_pz_create(ia, &pz);
	for (int i = 1; i < EVDS; i++)
		dat_evd_create(ia, 6, DAT_HANDLE_NULL, flags[i], &evd[i]);
	dat_srq_create(ia, pz, &attr, &srq);
	dat_ep_create(ia, pz, evd[2], evd[1], evd[3], NULL, &ep[0]);
	dat_ep_create(ia, pz, evd[2], evd[1], evd[3], NULL, &ep[1]);
	dat_ep_create_with_srq(ia, pz, evd[2], evd[1], evd[3], srq, NULL, &ep[2]);
	dat_psp_create(ia, 1234, evd[4], DAT_PSP_CONSUMER_FLAG, &psp);
}

static void
look_at(DAT_EVENT *event, uint8_t what)
{
	DAT_CR_PARAM param;

	if (event->event_number == DAT_CONNECTION_REQUEST_EVENT) {
		cr = event->event_data.cr_arrival_event_data.cr_handle;
		dat_cr_query(cr, DAT_CR_FIELD_ALL, &param);
		if (what % 4 == 0)
			dat_cr_accept(cr, ep[what / 4 % EPS], 0, NULL);
		else if (what % 4 == 1)
			dat_cr_reject(cr);
		else if (what % 4 == 2)
			dat_cr_handoff(cr, 1234);
	} else if (event->event_number == DAT_CONNECTION_EVENT_ESTABLISHED) {
		const DAT_CONNECTION_EVENT_DATA *data = &event->event_data.connect_event_data;
		const uint8_t *bytes = data->private_data;

		for (int i = 0; i < (int)data->private_data_size; i++)
			looked_at ^= bytes[i];
	}
}

static void
take(struct bytes *record)
{
	uint8_t which = (uint8_t)record_number(record, 1), what = (uint8_t)record_number(record, 1);
	DAT_EVENT event;
	DAT_COUNT more;

	if ((what & 0x80) != 0
		    ? dat_evd_wait(evd[which % EVDS], 0, 1 + (what >> 4 & 3), &event, &more) == DAT_SUCCESS
		    : dat_evd_dequeue(evd[which % EVDS], &event) == DAT_SUCCESS)
		look_at(&event, what);
}

static void
post(struct bytes *record)
{
	DAT_EP_HANDLE to = ep[record_number(record, 1) % EPS];
	uint8_t what = (uint8_t)record_number(record, 1);
	DAT_RMR_TRIPLET remote = {.rmr_context = 77, .target_address = 4096, .segment_length = 0};
	DAT_DTO_COOKIE cookie = {.as_64 = what};

	switch (what % 5) {
	case 0:
		dat_ep_post_send(to, 0, NULL, cookie, (DAT_COMPLETION_FLAGS)(what >> 4));
		break;
	case 1:
		dat_ep_post_recv(to, 0, NULL, cookie, DAT_COMPLETION_DEFAULT_FLAG);
		break;
	case 2:
		dat_ep_post_rdma_write(to, 0, NULL, cookie, &remote, DAT_COMPLETION_DEFAULT_FLAG);
		break;
	case 3:
		dat_srq_post_recv(srq, 0, NULL, cookie);
		break;
	default:
		dat_ep_post_rdma_read(to, 0, NULL, cookie, &remote, DAT_COMPLETION_DEFAULT_FLAG);
		break;
	}
}

static void
connect_ep(DAT_EP_HANDLE of, uint8_t what)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(0xc0000202)}};

	dat_ep_connect(of, (DAT_IA_ADDRESS_PTR)&to, what + 1, 1000, 0, NULL, DAT_QOS_BEST_EFFORT,
		       DAT_CONNECT_DEFAULT_FLAG);
}

static void
manage(struct bytes *record)
{
	uint32_t which = (uint32_t)record_number(record, 1) % EPS;
	uint8_t what = (uint8_t)record_number(record, 1), how = (uint8_t)record_number(record, 1);
	DAT_SRQ_PARAM srq_param;
	DAT_EVD_PARAM evd_param;
	DAT_EP_PARAM ep_param;
	DAT_EP_STATE state;
	DAT_BOOLEAN idle[2];

	switch (what % 12) {
	case 0:
		connect_ep(ep[which], how);
		break;
	case 1:
		dat_ep_disconnect(ep[which], how % 2 == 0 ? DAT_CLOSE_ABRUPT_FLAG : DAT_CLOSE_GRACEFUL_FLAG);
		break;
	case 2:
		dat_ep_get_status(ep[which], &state, &idle[0], &idle[1]);
		break;
	case 3:
		dat_ep_query(ep[which], DAT_EP_FIELD_ALL, &ep_param);
		break;
	case 4:
		dat_ep_reset(ep[which]);
		break;
	case 5:
		if (dat_ep_free(ep[which]) == DAT_SUCCESS)
			dat_ep_create(ia, pz, evd[2], evd[1], evd[3], NULL, &ep[which]);
		break;
	case 6:
		dat_evd_resize(evd[how % EVDS], 1 + (how >> 3));
		break;
	case 7:
		dat_evd_query(evd[how % EVDS], DAT_EVD_FIELD_ALL, &evd_param);
		break;
	case 8:
		dat_srq_query(srq, DAT_SRQ_FIELD_ALL, &srq_param);
		break;
	case 9:
		dat_srq_set_lw(srq, how % 8);
		break;
	case 10:
		if (dat_psp_free(psp) == DAT_SUCCESS)
			dat_psp_create(ia, 1234, evd[4],
				       how % 2 == 0 ? DAT_PSP_CONSUMER_FLAG : DAT_PSP_PROVIDER_FLAG, &psp);
		break;
	default:
		dat_cr_reject(cr);
		break;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const kinds[])(struct bytes *) = {
		liar_complete, liar_complete, liar_progress, liar_poke, liar_lie, take, take, post, manage};
	struct bytes input = {data, size}, record;

	name_registry();
	liar_begin();
	if (record_next(&input, &record))
		liar_lie(&record);
	set_up();
	while (record_next(&input, &record))
		kinds[record_number(&record, 1) % (sizeof(kinds) / sizeof(kinds[0]))](&record);
	if (ia != DAT_HANDLE_NULL)
		dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
	liar_end();
	return 0;
}
