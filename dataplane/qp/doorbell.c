/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Doorbells: one byte per queue pair, and one per group of 64. Polling 10,000 silent queue pairs reads three
 * cache lines. Bytes are only read until one is set. The core then exchanges that byte for 0 before it polls
 * the ring, so that a later post rings again.
 */
#include "dataplane/qp/doorbell.h"
#include "dataplane/qp/transport.h"

#define WORD 8u

/* Each byte is an atomic of its own; reading eight of them at once is only a hint. */
static inline uint64_t
peek_word(const _Atomic uint8_t *bytes)
{
	return __atomic_load_n((const uint64_t *)(uintptr_t)bytes, __ATOMIC_RELAXED);
}

/* The application rang before it noticed that the queue pair has moved. */
static __rte_noinline void
forward_ring(struct core *core, struct engine_client *lane, uint32_t doorbell)
{
	one_doorbell_ring(lane->doorbells, doorbell);
	core->wake_mask |= 1ull << lane->core->index;
}

static uint32_t
scan_group(struct core *core, struct engine_client *client, uint32_t group)
{
	uint32_t rung = 0;

	for (uint32_t i = group * ONE_DOORBELL_GROUP; i < (group + 1) * ONE_DOORBELL_GROUP; i += WORD) {
		if (peek_word(&client->doorbells->qp[i]) == 0)
			continue;
		for (uint32_t j = i; j < i + WORD; j++) {
			struct engine_qp *qp = client->qps[j];

			if (atomic_load_explicit(&client->doorbells->qp[j], memory_order_relaxed) == 0)
				continue;
			/* Pairs with the store in one_doorbell_ring(). */
			atomic_exchange_explicit(&client->doorbells->qp[j], 0, memory_order_acquire);
			if (qp == NULL)
				continue;
			rung++;
			if (unlikely(doorbell_lane(qp) != NULL)) {
				forward_ring(core, doorbell_lane(qp), j);
				continue;
			}
			/* A program also rings after arming a ring that already had entries. */
			cq_mark_used(core, qp->send_cq);
			cq_mark_used(core, qp->recv_cq);
			/* The application may have posted a receive that a local peer waits for. */
			if (qp->transport == QP_LOCAL)
				local_kick(core, qp);
			if (qp->state == RC_RTS || qp->state == RC_ERROR)
				qp_make_hot(core, qp);
		}
	}
	return rung;
}

/* Scan eight groups from `first` on, at most `*left` of those that were rung. */
static uint32_t
scan_groups(struct core *core, struct engine_client *client, uint32_t first, uint32_t *left)
{
	_Atomic uint8_t *group = &client->doorbells->group[first];
	uint32_t rung = 0;

	for (uint32_t i = 0; i < WORD && *left != 0; i++) {
		/* Only a hint; the exchange pairs with the store in one_doorbell_ring(). */
		if (atomic_load_explicit(&group[i], memory_order_relaxed) == 0)
			continue;
		atomic_exchange_explicit(&group[i], 0, memory_order_acquire);
		rung += scan_group(core, client, first + i);
		(*left)--;
	}
	return rung;
}

/* Scan at most CORE_SCAN_GROUPS groups that were rung, so that a client that rings all doorbells does not
 * delay others. The next scan continues where this one ended. *whole: all doorbells were scanned. */
static uint32_t
scan_client(struct core *core, struct engine_client *client, bool *whole)
{
	uint32_t words = (client->groups + WORD - 1) / WORD, left = CORE_SCAN_GROUPS, rung = 0;

	for (uint32_t i = 0; i < words; i++) {
		uint32_t word = client->scan_next < words ? client->scan_next : 0;

		if (unlikely(peek_word(&client->doorbells->group[word * WORD]) != 0))
			rung += scan_groups(core, client, word * WORD, &left);
		if (left == 0) {
			core->scan_at = 0; /* scan in the next loop */
			break;
		}
		client->scan_next = word + 1;
	}
	*whole = left != 0;
	return rung;
}

uint32_t
doorbell_scan(struct core *core)
{
	struct engine_client *client;
	uint32_t rung = 0;
	bool whole;

	TAILQ_FOREACH(client, &core->clients, link) {
		if (client->faulty)
			continue;
		rung += keys_scan(core, client);
		rung += scan_client(core, client, &whole);
		keys_go_on(core, client, whole);
	}
	return rung;
}
