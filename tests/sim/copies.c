/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory without mapping: each host has a copy thread, which answers in order, after a random delay. */
#include "sim.h"

static void
copies_fault(void *owner)
{
	struct host *host = owner;

	sim_fail(host->sim, NULL, "an answer of a copy thread was refused");
}

static void
wake(void *context, void *user)
{
	struct side *side = user;

	rc_resume(side->qp, host_now(side->host));
}

void
copies_open(struct host *host, struct host *first)
{
	host->copies = aligned_alloc(ONE_CACHE_LINE, sizeof(*host->copies));
	memset(host->copies, 0, sizeof(*host->copies));
	LIST_INIT(&host->reaching);
	host->bounce = bounce_new(host->copies, &host->reaching, copies_fault, host, host->lane,
				  first != NULL ? first->bounce : NULL);
	host->copy_at = NEVER;
}

void
copies_close(struct host *host)
{
	bounce_detach(host->bounce, wake, host);
	bounce_free(host->bounce);
	free(host->copies);
}

void
copies_unmap(struct host *host, struct area *area)
{
	area->region.shift = area->region.va - (uintptr_t)area->base;
	area->region.base = NULL;
	area->region.bounce = host->bounce;
}

static bool
is_asked(const struct host *host)
{
	/* A single thread plays both roles, so this load pairs with nothing. */
	return atomic_load(&host->copies->request[host->copied % ONE_COPIES].phase) ==
	       one_ring_phase(host->copied, ONE_COPY_LOG2);
}

void
copies_await(struct sim *sim, struct host *host)
{
	if (!LIST_EMPTY(&host->reaching) && bounce_due(&host->reaching))
		bounce_poll(&host->reaching, wake, host);
	if (host->copy_at == NEVER && is_asked(host))
		host->copy_at = sim->now + 1 + sim_below(sim, (uint32_t)sim->weather.copy_delay);
}

static uint64_t
change(const struct one_copy_request *request)
{
	uint64_t *word = (uint64_t *)(uintptr_t)request->span[0].addr, found = *word;

	if (request->op == ONE_COPY_FETCH_ADD)
		*word += request->operand;
	else if (found == request->compare)
		*word = request->operand;
	return found;
}

static void
move(const struct one_copy_request *request, uint8_t *slot)
{
	for (uint32_t i = 0; i < request->num_spans; i++) {
		const struct one_copy_span *span = &request->span[i];
		uint8_t *there = (uint8_t *)(uintptr_t)span->addr;

		if (request->op == ONE_COPY_IN)
			memcpy(there, slot + span->at, span->len);
		else
			memcpy(slot + span->at, there, span->len);
	}
}

void
copies_run(struct sim *sim, struct host *host)
{
	uint32_t n = host->copied++;
	const struct one_copy_request *request = &host->copies->request[n % ONE_COPIES];
	struct one_copy_answer *answer = &host->copies->answer[n % ONE_COPIES];

	host->copy_at = NEVER;
	if (!atomic_load(&request->cancelled)) {
		if (request->op == ONE_COPY_FETCH_ADD || request->op == ONE_COPY_CMP_SWAP)
			answer->value = change(request);
		else
			move(request, host->copies->slot[request->slot]);
		sim->totals->copied++;
	}
	sim_log(sim, NULL, "host %u: copy %u, op %u%s", (unsigned)(host - sim->host), n, request->op,
		atomic_load(&request->cancelled) ? ", cancelled" : "");
	answer->sequence = n;
	answer->error = 0;
	atomic_store(&answer->phase, one_ring_phase(n, ONE_COPY_LOG2));
	while (!LIST_EMPTY(&host->reaching) && bounce_due(&host->reaching))
		bounce_poll(&host->reaching, wake, host);
}
