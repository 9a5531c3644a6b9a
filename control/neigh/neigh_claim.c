/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Claims the addresses of our ports when the link comes up, and detects other hosts that use them (RFC 5227,
 * RFC 4862).
 *
 * An address is probed first, and announced if no host objects.  The address is in use meanwhile, as in
 * optimistic DAD (RFC 4429), since peers may resolve us at any time.  An address that another host had first
 * is neither announced nor defended until the link comes up again.  An address that was ours first is
 * defended at most every 10 s.
 */
#include "neigh_internal.h"

#define MS 1000000ull
#define DEFEND_NS (10000 * MS)
#define REPORT_NS (10000 * MS)

enum claim_act { CLAIM_PROBE, CLAIM_ANNOUNCE };

/* Times since the link came up.  The first announcement is early: peers may have our previous MAC cached. */
static const struct {
	uint64_t at;
	enum claim_act act;
} steps[] = {
	{0, CLAIM_PROBE},         {200 * MS, CLAIM_ANNOUNCE},  {1000 * MS, CLAIM_PROBE},
	{2000 * MS, CLAIM_PROBE}, {4000 * MS, CLAIM_ANNOUNCE},
};
#define STEPS (sizeof(steps) / sizeof(steps[0]))

static void
claim_step(struct neigh *neigh, uint16_t port, enum claim_act act)
{
	if (act == CLAIM_PROBE)
		neigh_send_probe(neigh, port);
	else if (!neigh->port[port].claim.taken)
		neigh_send_announcement(neigh, port);
}

/* Executes all steps that are due. */
static void
claim_go_on(struct neigh *neigh, uint16_t port, uint64_t now)
{
	struct neigh_claim *claim = &neigh->port[port].claim;

	if (now < claim->next)
		return;
	while (claim->step < STEPS && claim->begun + steps[claim->step].at <= now)
		claim_step(neigh, port, steps[claim->step++].act);
	claim->next = claim->step < STEPS ? claim->begun + steps[claim->step].at : NEIGH_NEVER;
}

static void
claim_begin(struct neigh *neigh, uint16_t port, uint64_t now)
{
	struct neigh_claim *claim = &neigh->port[port].claim;

	claim->begun = claim->next = now;
	claim->step = 0;
	claim->taken = false;
	claim_go_on(neigh, port, now);
}

void
neigh_announce(struct neigh *neigh, uint16_t port, uint64_t now)
{
	for (uint16_t i = 0; i < neigh->num_ports; i++)
		if (neigh->port[i].config.port == port)
			claim_begin(neigh, i, now);
}

bool
neigh_is_probing(const struct neigh_iface *iface)
{
	return iface->claim.next != NEIGH_NEVER;
}

uint64_t
neigh_claim_deadline(const struct neigh *neigh)
{
	uint64_t deadline = NEIGH_NEVER;

	for (uint16_t i = 0; i < neigh->num_ports; i++)
		if (neigh->port[i].claim.next < deadline)
			deadline = neigh->port[i].claim.next;
	return deadline;
}

void
neigh_claim_timeout(struct neigh *neigh, uint64_t now)
{
	for (uint16_t i = 0; i < neigh->num_ports; i++)
		claim_go_on(neigh, i, now);
}

/* Returns the port's first interface, which keeps the port's conflicts. */
static uint16_t
first_of_port(const struct neigh *neigh, uint16_t port)
{
	uint16_t i = 0;

	while (i + 1 < neigh->num_ports && neigh->port[i].config.port != port)
		i++;
	return i;
}

void
neigh_conflict(struct neigh *neigh, uint16_t port, const uint8_t mac[6], uint64_t now)
{
	struct neigh_iface *iface = &neigh->port[port];
	struct neigh_claim *claim = &iface->claim;
	struct neigh_conflicts *seen = &neigh->port[first_of_port(neigh, iface->config.port)].claim.seen;

	seen->count++;
	memcpy(seen->mac, mac, 6);
	if (neigh_is_probing(iface)) {
		claim->taken = true;
	} else if (!claim->taken && now >= claim->defend_at) {
		claim->defend_at = now + DEFEND_NS;
		neigh_send_announcement(neigh, port);
	}
	if (now < claim->report_at || neigh->env->conflict == NULL)
		return;
	claim->report_at = now + REPORT_NS;
	neigh->env->conflict(neigh->env, iface->config.port, &iface->config.addr, mac);
}

const struct neigh_conflicts *
neigh_conflicts(const struct neigh *neigh, uint16_t port)
{
	return &neigh->port[first_of_port(neigh, port)].claim.seen;
}

void
neigh_conflicts_inherit(struct neigh *neigh, uint16_t port, const struct neigh_conflicts *before)
{
	neigh->port[first_of_port(neigh, port)].claim.seen = *before;
}
