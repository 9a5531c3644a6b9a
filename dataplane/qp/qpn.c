/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pair numbers of the whole data plane. The low 18 of a number's 24 bits are its slot in the table, so
 * a look-up is one load. All bits come from a CSPRNG. The core that owns a queue pair publishes and withdraws
 * it. Other cores read the table to hand frames over, so a queue pair is freed only after a grace period.
 * Only the control thread reserves numbers.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "dataplane/base/clock.h"
#include "dataplane/base/pages.h"
#include "dataplane/qp/qp.h"

#define SLOTS (1u << QPN_LOG2)
_Static_assert(SLOTS == ENGINE_QPNS_MAX, "the table has a slot for each number of the quota");
#define QPN_MASK 0xffffffu
#define ATTEMPTS 64u
#define RANDOMS 4u /* numbers drawn at once */
/* A released number rests for longer than any connection is in time-wait, so that frames still under way do
 * not reach a successor. With 10,000 new queue pairs a second more than half of the numbers remain free. */
#define REST_SECONDS 10
#define RESERVED UINT32_MAX

static _Atomic(struct engine_qp *) *table;
static uint32_t *free_since; /* by slot, seconds; 0: never used; RESERVED: in use */
/* By slot, for numbers in use: the number, and its owner. Control thread only. */
static struct reservation {
	uint32_t qpn;
	void *owner;
} * reserved;

int
qpn_init(void)
{
	table = calloc(SLOTS, sizeof(*table));
	free_since = calloc(SLOTS, sizeof(*free_since));
	reserved = calloc(SLOTS, sizeof(*reserved));
	return table != NULL && free_since != NULL && reserved != NULL ? 0 : -ENOMEM;
}

void
qpn_populate(void)
{
	pages_touch(table, SLOTS * sizeof(*table));
	pages_touch(free_since, SLOTS * sizeof(*free_since));
	pages_touch(reserved, SLOTS * sizeof(*reserved));
}

void
qpn_fini(void)
{
	free(table);
	free(free_since);
	free(reserved);
	table = NULL;
	free_since = NULL;
	reserved = NULL;
}

static uint32_t
seconds_now(void)
{
	return (uint32_t)(clock_now() / 1000000000u) + REST_SECONDS;
}

uint32_t
engine_qpn_new(void)
{
	uint32_t random[RANDOMS], now = seconds_now();

	for (uint32_t i = 0; i < ATTEMPTS; i++) {
		uint32_t qpn, since;

		if (i % RANDOMS == 0 && getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
			return 0;
		qpn = random[i % RANDOMS] & QPN_MASK;
		since = free_since[qpn % SLOTS];

		/* 0 and 1 are for management, all ones is multicast. */
		if (qpn <= 1 || qpn == QPN_MASK || since == RESERVED)
			continue;
		if (since == 0 || now - since >= REST_SECONDS)
			return qpn;
	}
	return 0;
}

int
qpn_reserve(uint32_t qpn, void *owner)
{
	if (qpn <= 1 || qpn >= QPN_MASK || free_since[qpn % SLOTS] == RESERVED)
		return -EADDRINUSE;
	free_since[qpn % SLOTS] = RESERVED;
	reserved[qpn % SLOTS] = (struct reservation){qpn, owner};
	return 0;
}

void
qpn_release(uint32_t qpn)
{
	free_since[qpn % SLOTS] = seconds_now();
	reserved[qpn % SLOTS] = (struct reservation){0, NULL};
}

void
qpn_publish(struct engine_qp *qp)
{
	/* Pairs with the acquire load in engine_qp_find(). */
	atomic_store_explicit(&table[qp->qpn % SLOTS], qp, memory_order_release);
}

void
qpn_withdraw(struct engine_qp *qp)
{
	atomic_store_explicit(&table[qp->qpn % SLOTS], NULL, memory_order_release); /* see qpn_publish() */
}

struct engine_qp *
engine_qp_find(uint32_t qpn)
{
	/* Pairs with the release stores in qpn_publish() and qpn_withdraw(). */
	struct engine_qp *qp = atomic_load_explicit(&table[qpn % SLOTS], memory_order_acquire);

	return qp != NULL && qp->qpn == qpn ? qp : NULL;
}

void *
engine_qp_owner(uint32_t qpn)
{
	const struct reservation *found = &reserved[qpn % SLOTS];

	return found->qpn == qpn ? found->owner : NULL;
}
