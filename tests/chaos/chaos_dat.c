/* SPDX-License-Identifier: BSD-3-Clause */
/* An application of uDAPL in a chaos run: it listens, connects with other applications, registers memory for
 * each connection, and goes through rounds on each connection (see dat_link.c). It disconnects, frees
 * objects, closes its interface adapter and opens it again. */
#include <malloc.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dat_link.h"

#define LISTEN_AT 7100u /* plus the slot */
#define CONNECT_US 60000000u
#define WAIT_US 2000u
#define PACE_US 500u
#define SCRATCH 2u
#define SCRATCH_SIZES 24u /* sizes up to 8 MiB */

static struct chaos_ia ia;
static struct link links[LINKS];

/* ---- memory that is only registered and freed ---- */

static struct {
	void *memory;
	DAT_LMR_HANDLE lmr;
} scratch[SCRATCH];

static void
scratch_step(void)
{
	uint32_t k = (uint32_t)chaos_number(SCRATCH);
	DAT_REGION_DESCRIPTION region;
	DAT_LMR_CONTEXT context;
	DAT_RMR_CONTEXT remote;
	DAT_VLEN registered;
	DAT_VADDR address;
	size_t size;

	if (scratch[k].memory != NULL) {
		chaos_dat_ok(dat_lmr_free(scratch[k].lmr), "dat_lmr_free");
		free(scratch[k].memory);
		scratch[k].memory = NULL;
		return;
	}
	size = 1 + (size_t)chaos_number(1ull << chaos_number(SCRATCH_SIZES));
	scratch[k].memory = malloc(size);
	memset(scratch[k].memory, (int)size, size);
	region.for_va = scratch[k].memory;
	chaos_enter(CHAOS_REGISTER);
	if (!chaos_dat_ok(dat_lmr_create(ia.ia, DAT_MEM_TYPE_VIRTUAL, region, size, ia.pz,
					 DAT_MEM_PRIV_ALL_FLAG, &scratch[k].lmr, &context, &remote,
					 &registered, &address),
			  "dat_lmr_create")) {
		free(scratch[k].memory);
		scratch[k].memory = NULL;
	}
}

/* ---- connections ---- */

static struct link *
free_link(void)
{
	for (uint32_t k = 0; k < LINKS; k++)
		if (links[k].state == LINK_FREE)
			return &links[k];
	return NULL;
}

static bool
is_linked(uint32_t slot)
{
	for (uint32_t k = 0; k < LINKS; k++)
		if (links[k].state != LINK_FREE && links[k].client && links[k].lives.slot == slot)
			return true;
	return false;
}

static void
connect_step(void)
{
	uint32_t slot = chaos_choose();
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(0xC0000201u + slot % CHAOS_PLANES)};
	struct link_offer offer;
	struct link *link;
	DAT_RETURN ret;

	if (is_linked(slot) || (chaos_control && slot < chaos_self) || (link = free_link()) == NULL)
		return;
	if (!chaos_lives_begin(&link->lives, slot) || !link_make(link, &ia, true))
		return;
	link->paused = atomic_load(&chaos_board->slot[slot].paused);
	link_offer(link, &offer);
	chaos_enter(CHAOS_CONNECT);
	ret = dat_ep_connect(link->ep, (DAT_IA_ADDRESS_PTR)&address, LISTEN_AT + slot, CONNECT_US,
			     sizeof(offer), &offer, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
	link->state = chaos_dat_ok(ret, "dat_ep_connect") ? LINK_CONNECTING : LINK_ENDED;
}

/* The requester has gone, or has given up. */
static bool
is_withdrawn(DAT_RETURN ret, const struct link_offer *offer)
{
	return DAT_GET_TYPE(ret) == DAT_INVALID_HANDLE &&
	       (offer->slot >= CHAOS_CONTROLS || !chaos_plane_lives());
}

static void
accept_step(DAT_CR_HANDLE cr)
{
	struct link *link = free_link();
	struct link_offer offer, own;
	DAT_CR_PARAM param;
	DAT_RETURN ret;

	ret = dat_cr_query(cr, DAT_CR_FIELD_ALL, &param);
	if (DAT_GET_TYPE(ret) == DAT_INVALID_HANDLE || !chaos_dat_ok(ret, "dat_cr_query"))
		return;
	CHAOS_CHECK(param.private_data_size == sizeof(offer), "private data of %d bytes",
		    param.private_data_size);
	memcpy(&offer, param.private_data, sizeof(offer));
	CHAOS_CHECK(offer.slot < CHAOS_SLOTS && offer.to == chaos_self, "a request of slot %u to slot %u",
		    offer.slot, offer.to);
	if (link == NULL || !link_make(link, &ia, false)) {
		ret = dat_cr_reject(cr);
		CHAOS_CHECK(ret == DAT_SUCCESS || is_withdrawn(ret, &offer) || !chaos_plane_lives(),
			    "dat_cr_reject: %#x", ret);
		return;
	}
	link_take(link, &offer);
	link_offer(link, &own);
	chaos_enter(CHAOS_ACCEPT);
	ret = dat_cr_accept(cr, link->ep, sizeof(own), &own);
	if (ret == DAT_SUCCESS) {
		link->state = LINK_ACCEPTING;
		return;
	}
	CHAOS_CHECK(is_withdrawn(ret, &offer) || chaos_excused(&link->lives), "dat_cr_accept: %#x", ret);
	link_free(link);
}

static struct link *
link_of(DAT_EP_HANDLE ep)
{
	for (uint32_t k = 0; k < LINKS; k++)
		if (links[k].state != LINK_FREE && links[k].ep == ep)
			return &links[k];
	CHAOS_CHECK(false, "an event of no endpoint");
	return NULL;
}

/* ---- events ---- */

/* Events that end connections, put aside until all earlier completions have been taken. */
static struct {
	struct link *link;
	DAT_EVENT event;
} ends[LINKS];
static uint32_t num_ends;

static bool
take_connection(void)
{
	struct link *link;
	DAT_EVENT event;

	if (dat_evd_dequeue(ia.conn, &event) != DAT_SUCCESS)
		return false;
	link = link_of(event.event_data.connect_event_data.ep_handle);
	if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED) {
		link_event(link, &event);
		return true;
	}
	CHAOS_CHECK(num_ends < LINKS, "event %#x, and each connection has had one that ends it",
		    event.event_number);
	ends[num_ends].link = link;
	ends[num_ends++].event = event;
	return true;
}

static void
completed(const DAT_EVENT *event)
{
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event->event_data.dto_completion_event_data;
	struct link *link = &links[LINK_COOKIE_INDEX(dto->user_cookie.as_64)];

	/* ESTABLISHED comes before the first receive, but on another EVD. */
	while (dto->status == DAT_DTO_SUCCESS &&
	       (link->state == LINK_CONNECTING || link->state == LINK_ACCEPTING))
		CHAOS_CHECK(take_connection(), "a completion before the connection is established");
	link_completed(link, dto);
}

static void
drain_completions(void)
{
	DAT_EVENT event;

	while (dat_evd_dequeue(ia.recv, &event) == DAT_SUCCESS ||
	       dat_evd_dequeue(ia.request, &event) == DAT_SUCCESS)
		completed(&event);
}

static void
wait_some(void)
{
	DAT_EVENT event;
	DAT_COUNT more;

	if (dat_evd_wait(ia.recv, WAIT_US, 1, &event, &more) == DAT_SUCCESS)
		completed(&event);
}

static void
drain(void)
{
	DAT_EVENT event;

	while (dat_evd_dequeue(ia.cr, &event) == DAT_SUCCESS)
		accept_step(event.event_data.cr_arrival_event_data.cr_handle);
	while (take_connection())
		;
	drain_completions();
	for (uint32_t i = 0; i < num_ends; i++)
		link_event(ends[i].link, &ends[i].event);
	num_ends = 0;
	while (dat_evd_dequeue(ia.async, &event) == DAT_SUCCESS) {
		CHAOS_CHECK(event.event_number == DAT_ASYNC_ERROR_IA_CATASTROPHIC ||
				    event.event_number == DAT_ASYNC_ERROR_EP_BROKEN,
			    "asynchronous event %#x", event.event_number);
		CHAOS_CHECK(event.event_number != DAT_ASYNC_ERROR_IA_CATASTROPHIC || !chaos_plane_lives(),
			    "its data plane is said to be gone, and lives");
		ia.lost |= event.event_number == DAT_ASYNC_ERROR_IA_CATASTROPHIC;
	}
}

/* ---- the interface adapter ---- */

static void
create_evd(DAT_EVD_HANDLE *evd, DAT_EVD_FLAGS flags)
{
	chaos_dat_ok(dat_evd_create(ia.ia, 128, DAT_HANDLE_NULL, flags, evd), "dat_evd_create");
}

static void
open_ia(void)
{
	static char name[] = "oneside";
	uint32_t life;
	DAT_RETURN ret;

	memset(&ia, 0, sizeof(ia));
	do {
		life = chaos_attached();
		chaos_enter(CHAOS_ATTACH);
		ia.async = DAT_HANDLE_NULL;
		ret = dat_ia_open(name, 8, &ia.async, &ia.ia);
		CHAOS_CHECK(ret == DAT_SUCCESS || chaos_attach_excused(life), "dat_ia_open: %#x", ret);
	} while (ret != DAT_SUCCESS);
	chaos_attach_done(life);
	chaos_dat_ok(dat_pz_create(ia.ia, &ia.pz), "dat_pz_create");
	create_evd(&ia.cr, DAT_EVD_CR_FLAG);
	create_evd(&ia.conn, DAT_EVD_CONNECTION_FLAG);
	create_evd(&ia.recv, DAT_EVD_DTO_FLAG);
	create_evd(&ia.request, DAT_EVD_DTO_FLAG);
}

static void
listen_step(void)
{
	DAT_RETURN ret;

	chaos_enter(CHAOS_LISTEN);
	ret = dat_psp_create(ia.ia, LISTEN_AT + chaos_self, ia.cr, DAT_PSP_CONSUMER_FLAG, &ia.psp);
	/* The slot's previous process has not completely gone. */
	if (DAT_GET_TYPE(ret) == DAT_CONN_QUAL_IN_USE && !chaos_control)
		return;
	ia.listens = chaos_dat_ok(ret, "dat_psp_create");
	chaos_listening(ia.listens);
}

static bool
are_links_over(void)
{
	for (uint32_t k = 0; k < LINKS; k++)
		if (links[k].state != LINK_FREE && !link_is_over(&links[k]))
			return false;
	return true;
}

static void
free_memory(void)
{
	for (uint32_t k = 0; k < LINKS; k++)
		if (links[k].memory != NULL)
			link_forget(&links[k]);
	for (uint32_t k = 0; k < SCRATCH; k++) {
		free(scratch[k].memory);
		scratch[k].memory = NULL;
	}
}

static bool
are_ends_reported(void)
{
	for (uint32_t k = 0; k < LINKS; k++)
		if (links[k].state != LINK_FREE && links[k].state != LINK_ENDED)
			return false;
	return true;
}

/* After the loss of the data plane: expects the end of each connection, and an asynchronous error.
 * Completions that a killed core had not stored yet may be missing; connections with such work are
 * counted. */
static void
lose_plane(void)
{
	chaos_listening(false);
	while (!ia.lost || !are_ends_reported()) {
		drain();
		wait_some();
		usleep(200);
	}
	drain();
	for (uint32_t k = 0; k < LINKS; k++)
		if (links[k].state != LINK_FREE && !link_is_over(&links[k]))
			atomic_fetch_add(&chaos_slot()->unended, 1);
	chaos_reported();
	dat_ia_close(ia.ia, DAT_CLOSE_ABRUPT_FLAG);
	free_memory();
	open_ia();
}

/* Frees everything in order, one by one. No call may fail. */
static void
close_ia(void)
{
	chaos_listening(false);
	chaos_enter(CHAOS_END);
	for (uint32_t k = 0; k < LINKS; k++)
		link_leave(&links[k]);
	while (!are_links_over() && chaos_plane_lives()) {
		drain();
		usleep(200);
	}
	for (uint32_t k = 0; k < LINKS && chaos_plane_lives(); k++)
		link_free(&links[k]);
	for (uint32_t k = 0; k < SCRATCH && chaos_plane_lives(); k++)
		if (scratch[k].memory != NULL)
			chaos_dat_ok(dat_lmr_free(scratch[k].lmr), "dat_lmr_free");
	if (ia.listens)
		chaos_dat_ok(dat_psp_free(ia.psp), "dat_psp_free");
	drain();
	chaos_dat_ok(dat_evd_free(ia.cr), "dat_evd_free");
	chaos_dat_ok(dat_evd_free(ia.conn), "dat_evd_free");
	chaos_dat_ok(dat_evd_free(ia.recv), "dat_evd_free");
	chaos_dat_ok(dat_evd_free(ia.request), "dat_evd_free");
	chaos_dat_ok(dat_pz_free(ia.pz), "dat_pz_free");
	chaos_dat_ok(
		dat_ia_close(ia.ia, chaos_plane_lives() ? DAT_CLOSE_GRACEFUL_FLAG : DAT_CLOSE_ABRUPT_FLAG),
		"dat_ia_close");
	chaos_attach_done(0);
	free_memory();
}

static void
step(void)
{
	uint32_t ready = 0;

	drain();
	if (!ia.listens)
		listen_step();
	else if (chaos_number(8) == 0)
		connect_step();
	else if (!chaos_control && chaos_number(40) == 0)
		scratch_step();
	for (uint32_t k = 0; k < LINKS; k++) {
		link_step(&links[k]);
		ready += links[k].state == LINK_OPEN && !chaos_excused(&links[k].lives);
	}
	atomic_store(&chaos_slot()->ready, ready);
	wait_some();
	usleep(chaos_control ? 4 * PACE_US : PACE_US);
}

int
main(int argc, char **argv)
{
	chaos_start(argc, argv);
	/* Each connection of a control application gets its own mapping, so that the data plane's resources
	 * for the application return to the same amount after it has reconnected. */
	if (chaos_control)
		mallopt(M_MMAP_THRESHOLD, 4096);
	for (uint32_t k = 0; k < LINKS; k++)
		links[k].index = k;
	open_ia();
	while (!chaos_stops()) {
		step();
		if (!chaos_plane_lives()) {
			lose_plane();
		} else if (!chaos_control && chaos_number(2000) == 0) {
			close_ia();
			open_ia();
		}
	}
	if (!chaos_plane_lives())
		return 0;
	close_ia();
	return 0;
}
