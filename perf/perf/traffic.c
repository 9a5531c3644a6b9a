/* SPDX-License-Identifier: BSD-3-Clause */
#include "traffic.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define DRAIN 64u
#define REAP 16u /* completions polled before the next posts, as in perftest */

/* ---- receives ---- */

bool
traffic_post_recv(struct traffic *t, DAT_EP_HANDLE ep)
{
	DAT_LMR_TRIPLET iov = {.lmr_context = t->memory.lmr_context,
			       .virtual_address = (DAT_VADDR)(uintptr_t)traffic_landing(t),
			       .segment_length = t->memory.size / 2};
	DAT_DTO_COOKIE cookie = {.as_ptr = ep};

	return dat_ok(dat_ep_post_recv(ep, 1, &iov, cookie, DAT_COMPLETION_DEFAULT_FLAG), "dat_ep_post_recv");
}

bool
traffic_received(struct traffic *t, const DAT_EVENT *event)
{
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event->event_data.dto_completion_event_data;

	if (dto->status != DAT_DTO_SUCCESS)
		return true; /* flushed: the endpoint ends */
	if (dto->user_cookie.as_64 == NOTE_COOKIE) {
		t->noted = true;
		return true;
	}
	return traffic_post_recv(t, dto->ep_handle);
}

bool
traffic_drain(struct traffic *t, bool *busy)
{
	DAT_EVENT event;

	*busy = false;
	for (uint32_t i = 0; i < DRAIN; i++) {
		DAT_RETURN ret = dat_evd_dequeue(t->adapter->recv_evd, &event);

		if (DAT_GET_TYPE(ret) == DAT_QUEUE_EMPTY)
			return true;
		if (!dat_ok(ret, "dat_evd_dequeue") || !traffic_received(t, &event))
			return false;
		*busy = true;
	}
	return true;
}

/* ---- requests ---- */

/* Returns the offset of an endpoint's message in the peer's memory. Endpoints have places of their own while
 * there is room, as in perftest: two cores that write to one place would wait for each other's cache lines.
 */
static inline uint64_t
place_of(const struct traffic *t, uint32_t index, uint64_t size)
{
	uint64_t places = t->target.length / size;

	return places > 1 ? (t->first + index) % places * size : 0;
}

static inline bool
post(const struct traffic *t, uint32_t index, uint64_t size, bool signal)
{
	DAT_LMR_TRIPLET local = {.lmr_context = t->memory.lmr_context,
				 .virtual_address = (DAT_VADDR)(uintptr_t)t->memory.base,
				 .segment_length = size};
	DAT_RMR_TRIPLET remote = {.rmr_context = t->target.rmr_context,
				  .target_address = t->target.address + place_of(t, index, size),
				  .segment_length = size};
	DAT_COMPLETION_FLAGS flags = signal ? DAT_COMPLETION_DEFAULT_FLAG : DAT_COMPLETION_SUPPRESS_FLAG;
	DAT_DTO_COOKIE cookie = {.as_64 = index};
	DAT_EP_HANDLE ep = t->busy[index].ep;

	switch (t->op) {
	case PERF_WRITE:
		return dat_ok(dat_ep_post_rdma_write(ep, 1, &local, cookie, &remote, flags),
			      "dat_ep_post_rdma_write");
	case PERF_READ:
		return dat_ok(dat_ep_post_rdma_read(ep, 1, &local, cookie, &remote, flags),
			      "dat_ep_post_rdma_read");
	default:
		return dat_ok(dat_ep_post_send(ep, 1, &local, cookie, flags), "dat_ep_post_send");
	}
}

/*
 * Takes one completion; `must`: waits for it. *opened is set to the endpoint whose window opened, or
 * unchanged if none completed.
 */
static inline bool
reap(struct traffic *t, bool must, uint64_t *done, struct endpoint **opened)
{
	DAT_EVENT event;
	const DAT_DTO_COMPLETION_EVENT_DATA *dto = &event.event_data.dto_completion_event_data;

	if (must) {
		if (!dat_dequeue_spin(t->adapter->request_evd, &event, EVENT_SECONDS))
			return false;
	} else {
		DAT_RETURN ret = dat_evd_dequeue(t->adapter->request_evd, &event);

		if (DAT_GET_TYPE(ret) == DAT_QUEUE_EMPTY)
			return true;
		if (!dat_ok(ret, "dat_evd_dequeue"))
			return false;
	}
	if (dto->status != DAT_DTO_SUCCESS) {
		fprintf(stderr, "oneside-perf: %s failed: %s\n", t->name, dat_dto_status_name(dto->status));
		return false;
	}
	*opened = &t->busy[dto->user_cookie.as_64];
	(*opened)->outstanding -= t->every;
	*done += t->every;
	return true;
}

/* ---- bandwidth ---- */

struct clockwork {
	uint64_t start, stop; /* stop: 0 if limited by iterations */
	uint64_t next;        /* number of completions at which the clock is read again */
	uint64_t step;
	struct peak peak;
	struct progress progress;
};

static void
clockwork_begin(struct clockwork *c, const struct traffic *t, const struct stint *stint)
{
	progress_begin(&c->progress, t->tty);
	c->start = now_ns();
	peak_begin(&c->peak, c->start);
	c->stop = stint->seconds > 0 ? c->start + (uint64_t)(stint->seconds * 1e9) : 0;
	c->step = stint->size >= 65536 ? 16 : 1024;
	c->next = c->step;
}

/* Reads the clock for the peak and the progress line. True: the time is over. */
static bool
clockwork_look(struct clockwork *c, const struct stint *stint, uint64_t posted, uint64_t done)
{
	uint64_t now = now_ns();
	double part = c->stop != 0 ? (double)(now - c->start) / (double)(c->stop - c->start)
				   : (double)done / (double)stint->iterations;

	c->next = done + c->step;
	peak_look(&c->peak, now, posted, done);
	progress_show(&c->progress, now, part, done, stint->size);
	return c->stop != 0 && now >= c->stop;
}

STAILQ_HEAD(open_list, endpoint);

/* Appends the endpoint if its window has space for `every` more requests. */
static inline void
list_open(const struct traffic *t, struct open_list *open, struct endpoint *e)
{
	if (e->listed || e->outstanding + t->every > t->depth)
		return;
	e->listed = true;
	STAILQ_INSERT_TAIL(open, e, link);
}

/*
 * Posts a run of `every` requests, the last with a completion, on each endpoint that was listed at the start.
 * So all endpoints are served in turn, however many runs fit a window.
 */
static bool
post_runs(struct traffic *t, struct open_list *open, uint64_t size, uint64_t want, uint64_t *posted)
{
	struct open_list turn = STAILQ_HEAD_INITIALIZER(turn);
	struct endpoint *e;

	STAILQ_CONCAT(&turn, open);
	while ((e = STAILQ_FIRST(&turn)) != NULL && *posted < want) {
		STAILQ_REMOVE_HEAD(&turn, link);
		e->listed = false;
		for (uint32_t k = 1; k <= t->every; k++)
			if (!post(t, (uint32_t)(e - t->busy), size, k == t->every))
				return false;
		e->outstanding += t->every;
		*posted += t->every;
		list_open(t, open, e);
	}
	return true;
}

/* Takes up to REAP completions; `must`: waits for the first. */
static bool
reap_some(struct traffic *t, struct open_list *open, bool must, uint64_t *done)
{
	for (uint32_t i = 0; i < REAP; i++) {
		struct endpoint *opened = NULL;

		if (!reap(t, must && i == 0, done, &opened))
			return false;
		if (opened == NULL)
			return true;
		list_open(t, open, opened);
	}
	return true;
}

bool
traffic_bandwidth(struct traffic *t, const struct stint *stint, struct result *r)
{
	struct open_list open = STAILQ_HEAD_INITIALIZER(open);
	uint64_t posted = 0, done = 0, want = stint->iterations;
	uint32_t every = t->every, looks = 0;
	struct clockwork clock;
	bool busy;

	want = (want + every - 1) / every * every;
	if (stint->seconds > 0)
		want = UINT64_MAX;
	for (uint32_t i = 0; i < t->endpoints; i++) {
		t->busy[i].listed = false;
		list_open(t, &open, &t->busy[i]);
	}
	clockwork_begin(&clock, t, stint);
	while (done < want) {
		uint64_t before = posted + done;

		if (!post_runs(t, &open, stint->size, want, &posted) ||
		    (t->receives && !traffic_drain(t, &busy)) ||
		    !reap_some(t, &open, !t->receives && (STAILQ_EMPTY(&open) || posted == want), &done))
			return false;
		/* With receives reap_some() never waits; spinning would keep the core off the processor. */
		looks = posted + done != before || (t->receives && busy) ? 0 : looks + 1;
		if (looks > 0)
			dat_idle(looks);
		if (done >= clock.next && clockwork_look(&clock, stint, posted, done) && want == UINT64_MAX)
			want = posted;
	}
	r->seconds = (double)(now_ns() - clock.start) / 1e9;
	r->iterations = done;
	progress_end(&clock.progress);
	r->peak = 0;
	if (t->peak)
		peak_end(&clock.peak, r);
	return true;
}

/* ---- latency ---- */

bool
traffic_latency(struct traffic *t, const struct stint *stint, struct result *r)
{
	struct progress progress;
	uint64_t start, stop, before, done = 0;

	progress_begin(&progress, t->tty);
	histogram_clear(t->latency);
	start = before = now_ns();
	stop = start + (uint64_t)(stint->seconds * 1e9);
	while (stint->seconds > 0 ? before < stop : done < stint->iterations) {
		uint64_t after, completed = 0;
		struct endpoint *opened;

		t->busy[0].outstanding = t->every;
		if (!post(t, 0, stint->size, true) || !reap(t, true, &completed, &opened))
			return false;
		after = now_ns();
		histogram_add(t->latency, after - before);
		before = after;
		done++;
		if (done % 1024 == 0) {
			progress_show(&progress, after,
				      stint->seconds > 0 ? (double)(after - start) / (double)(stop - start)
							 : (double)done / (double)stint->iterations,
				      done, stint->size);
			before = now_ns();
		}
	}
	progress_end(&progress);
	r->seconds = (double)(before - start) / 1e9;
	r->iterations = done;
	r->latency = t->latency;
	return true;
}

/* ---- ping-pong ---- */

/* Waits until the peer has written `want` to the last byte, or for a message if PERF_SEND. */
static bool
await_ball(struct traffic *t, uint64_t size, uint8_t want)
{
	const _Atomic uint8_t *last = (const _Atomic uint8_t *)(traffic_landing(t) + size - 1);
	uint64_t deadline = 0;
	DAT_EVENT event;

	if (t->op == PERF_SEND) {
		if (!dat_dequeue_spin(t->adapter->recv_evd, &event, EVENT_SECONDS))
			return false;
		if (event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS) {
			fprintf(stderr, "oneside-perf: the peer has gone\n");
			return false;
		}
		return traffic_post_recv(t, event.event_data.dto_completion_event_data.ep_handle);
	}
	/* Pairs with the data plane's release store of the last byte of a write. */
	for (uint32_t looks = 1; atomic_load_explicit(last, memory_order_acquire) != want; looks++) {
		dat_idle(looks);
		if (looks % 1024 != 0)
			continue;
		if (deadline == 0)
			deadline = now_ns() + EVENT_SECONDS * 1000000000ull;
		if (now_ns() > deadline) {
			fprintf(stderr, "oneside-perf: nothing was written in %u seconds\n", EVENT_SECONDS);
			return false;
		}
	}
	return true;
}

bool
traffic_pingpong(struct traffic *t, const struct stint *stint, bool leads, struct result *r)
{
	uint64_t start = now_ns(), before = start, completed = 0;
	uint8_t *last = (uint8_t *)t->memory.base + stint->size - 1;
	struct endpoint *opened;
	struct progress progress;

	progress_begin(&progress, t->tty && leads);
	histogram_clear(t->latency);
	t->busy[0].outstanding = 0;
	for (uint64_t k = 1; k <= stint->iterations; k++) {
		uint64_t after;

		if (!leads && !await_ball(t, stint->size, (uint8_t)k))
			return false;
		*last = (uint8_t)k;
		t->busy[0].outstanding += t->every;
		if (!post(t, 0, stint->size, true))
			return false;
		if (leads && !await_ball(t, stint->size, (uint8_t)k))
			return false;
		after = now_ns();
		histogram_add(t->latency, (after - before) / 2);
		before = after;
		/* The peer's answer implies the completion, so this seldom waits. */
		if (!reap(t, t->busy[0].outstanding / t->every >= t->depth / 2 + 1, &completed, &opened))
			return false;
		if (k % 1024 == 0)
			progress_show(&progress, after, (double)k / (double)stint->iterations, k,
				      stint->size);
	}
	while (t->busy[0].outstanding > 0)
		if (!reap(t, true, &completed, &opened))
			return false;
	progress_end(&progress);
	r->seconds = (double)(before - start) / 1e9;
	r->iterations = stint->iterations;
	r->latency = t->latency;
	return true;
}
