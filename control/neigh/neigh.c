/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of neighbours and its query timers.
 *
 *   INCOMPLETE  queried, no answer yet; resolutions wait
 *   REACHABLE   known; shown as STALE after 30 s without confirmation
 *   PROBE       known and in use, being queried again
 *   FAILED      no answer; waiters are being notified
 *
 * INCOMPLETE and PROBE entries are on `pending` until their next query is due, then on an interface's `first`
 * or `again` list until the rate limit allows the query.  Entries with waiters to notify are on `answering`,
 * the rest on `idle`.  A full table evicts from the head of `idle`.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "config/address.h"
#include "dataplane/base/pages.h"
#include "neigh_internal.h"

#define MS 1000000ull
#define REACHABLE_NS (30000 * MS)
#define QUERIES_PER_SECOND 1000u

/* Wait after each query; after the last wait the entry fails.  The first two queries of a PROBE are unicast
 * to the known MAC, but only the first one if the neighbour is suspected: an attacker may have redirected the
 * neighbour's frames in a switch, which learns the right port from the answer to a broadcast.  Until two
 * queries are unanswered only an answer from the known MAC counts. */
static const uint64_t query_wait[] = {200 * MS, 500 * MS, 1000 * MS, 1000 * MS, 1000 * MS};
#define QUERIES (sizeof(query_wait) / sizeof(query_wait[0]))
#define PROBES_UNICAST 2u
#define PROBES_SUSPECTED 1u
#define SUSPECT_NS (1000 * MS) /* minimum interval between queries of a suspected neighbour */
#define ANSWERS 64u            /* waiters notified per call; the number of waiters has no limit */

/* ---- addresses ---- */

/* Converts to the configuration's type, with this interface's prefix length. */
static struct config_addr
addr_of(const struct neigh_iface *iface, const struct wire_addr *addr)
{
	struct config_addr out = {.family = wire_addr_is_v4(addr) ? AF_INET : AF_INET6,
				  .prefix = iface->config.prefix};

	memcpy(out.bytes, out.family == AF_INET ? addr->gid + 12 : addr->gid,
	       out.family == AF_INET ? 4 : sizeof(addr->gid));
	return out;
}

static bool
is_router(const struct neigh_iface *iface, const struct wire_addr *addr)
{
	for (uint32_t i = 0; i < iface->config.num_routes; i++)
		if (wire_addr_equal(&iface->config.route[i].via, addr))
			return true;
	return iface->config.has_gateway && wire_addr_equal(&iface->config.gateway, addr);
}

/* A router is on the link whatever the prefix is: 169.254.0.1 of a host with a /32 address. */
static bool
in_prefix(const struct neigh_iface *iface, const struct wire_addr *addr)
{
	struct config_addr own = addr_of(iface, &iface->config.addr), other = addr_of(iface, addr);

	return config_on_link(&own, &other) || is_router(iface, addr) ||
	       (!iface->v4 && neigh_addr_link_local(addr));
}

/* Tests the address alone, without this link's prefix. */
static bool
is_unicast(const struct neigh_iface *iface, const struct wire_addr *addr)
{
	struct config_addr other = addr_of(iface, addr);

	return config_addr_unicast(&other);
}

/* True for the network address and the directed broadcast address. */
static bool
is_network(const struct neigh_iface *iface, const struct wire_addr *addr)
{
	struct config_addr own = addr_of(iface, &iface->config.addr), other = addr_of(iface, addr);

	return iface->v4 && config_on_link(&own, &other) && !config_addr_is_host(&other);
}

bool
neigh_may_ask(const struct neigh_iface *iface, const struct wire_addr *addr)
{
	return wire_addr_is_v4(addr) == iface->v4 && is_unicast(iface, addr) && !is_network(iface, addr) &&
	       !neigh_is_ours(iface, addr);
}

bool
neigh_is_ours(const struct neigh_iface *iface, const struct wire_addr *addr)
{
	return wire_addr_equal(&iface->config.addr, addr) ||
	       (!iface->v4 && iface->first_of_family && wire_addr_equal(&iface->link_local, addr));
}

/* True for the address of any interface; `index` is then that interface. */
static bool
is_any_of_ours(const struct neigh *neigh, const struct wire_addr *addr, uint16_t *index)
{
	for (*index = 0; *index < neigh->num_ports; ++*index)
		if (neigh_is_ours(&neigh->port[*index], addr))
			return true;
	return false;
}

bool
neigh_is_on_link(const struct neigh_iface *iface, const struct wire_addr *addr)
{
	return is_unicast(iface, addr) && in_prefix(iface, addr) && !is_network(iface, addr) &&
	       !neigh_is_ours(iface, addr);
}

/* The bucket holds 0.1 s worth of frames. */
static bool
take_credit(struct neigh_rate *rate, uint32_t per_second, uint64_t now)
{
	uint64_t cost = 1000 * MS / per_second, full = 100 * MS;
	uint64_t gone = now > rate->last ? now - rate->last : 0;

	rate->credit = gone >= full || rate->credit + gone >= full ? full : rate->credit + gone;
	rate->last = now;
	if (rate->credit < cost)
		return false;
	rate->credit -= cost;
	return true;
}

bool
neigh_rate_ok(struct neigh *neigh, struct neigh_rate *rate, uint32_t per_second, uint64_t now)
{
	bool ok = take_credit(rate, per_second, now);

	neigh->stats.rate_limited += !ok;
	return ok;
}

/* ---- table ---- */

static struct neigh_bucket *
bucket_of(struct neigh *neigh, uint16_t port, const struct wire_addr *addr)
{
	uint32_t hash = neigh->seed ^ port;
	for (unsigned int i = 0; i < 16; i++)
		hash = (hash ^ addr->gid[i]) * 16777619u;
	hash ^= hash >> 15;
	return &neigh->bucket[hash & (NEIGH_BUCKETS - 1)];
}

static struct neigh_entry *
entry_find(struct neigh *neigh, uint16_t port, const struct wire_addr *addr)
{
	struct neigh_entry *entry;
	LIST_FOREACH(entry, bucket_of(neigh, port, addr), hash) {
		if (entry->port == port && wire_addr_equal(&entry->addr, addr))
			return entry;
	}
	return NULL;
}

static bool
is_pending(const struct neigh_entry *entry)
{
	return entry->state == NEIGH_INCOMPLETE || entry->state == NEIGH_PROBE;
}

static bool
is_stale(const struct neigh_entry *entry, uint64_t now)
{
	return entry->state == NEIGH_REACHABLE && now - entry->confirmed > REACHABLE_NS;
}

static void
entry_move(struct neigh_entry *entry, struct neigh_entries *to)
{
	TAILQ_REMOVE(entry->list, entry, order);
	TAILQ_INSERT_TAIL(to, entry, order);
	entry->list = to;
}

static void
set_state(struct neigh *neigh, struct neigh_entry *entry, enum neigh_state to)
{
	neigh->incomplete -= entry->state == NEIGH_INCOMPLETE;
	neigh->incomplete += to == NEIGH_INCOMPLETE;
	entry->state = to;
}

static void
entry_free(struct neigh *neigh, struct neigh_entry *entry)
{
	LIST_REMOVE(entry, hash);
	set_state(neigh, entry, NEIGH_NONE);
	entry_move(entry, &neigh->free);
}

/* Returns a new entry on `idle`.  An entry for a received request replaces stale entries only. */
static struct neigh_entry *
entry_new(struct neigh *neigh, uint16_t port, const struct wire_addr *addr, bool asked_by_us, uint64_t now)
{
	if (TAILQ_EMPTY(&neigh->free)) {
		struct neigh_entry *oldest = TAILQ_FIRST(&neigh->idle);
		if (oldest == NULL || !(asked_by_us || is_stale(oldest, now)))
			return NULL;
		entry_free(neigh, oldest);
	}
	struct neigh_entry *entry = TAILQ_FIRST(&neigh->free);
	LIST_INIT(&entry->waiters);
	entry->addr = *addr;
	entry->port = port;
	set_state(neigh, entry, NEIGH_REACHABLE);
	entry->confirmed = now;
	entry->asked = 0;
	LIST_INSERT_HEAD(bucket_of(neigh, port, addr), entry, hash);
	entry_move(entry, &neigh->idle);
	return entry;
}

static void
send_query(struct neigh *neigh, struct neigh_entry *entry, uint64_t now)
{
	bool unicast = entry->state == NEIGH_PROBE &&
		       entry->queries < (entry->suspected ? PROBES_SUSPECTED : PROBES_UNICAST);

	neigh_send_query(neigh, entry->port, &entry->addr, unicast ? entry->mac : NULL);
	neigh->stats.queries++;
	entry->next = now + query_wait[entry->queries++];
	if (entry->next < neigh->deadline)
		neigh->deadline = entry->next;
	entry_move(entry, &neigh->pending);
}

/* A neighbour that was never queried goes first: its first query is the most likely to be answered. */
static struct neigh_entry *
next_query(const struct neigh_iface *iface)
{
	return !TAILQ_EMPTY(&iface->first) ? TAILQ_FIRST(&iface->first) : TAILQ_FIRST(&iface->again);
}

/* Sends due queries up to the rate limit.  The rest stay queued. */
static void
send_due(struct neigh *neigh, struct neigh_iface *iface, uint64_t now)
{
	struct neigh_entry *entry;

	while ((entry = next_query(iface)) != NULL) {
		if (!take_credit(&iface->queries, QUERIES_PER_SECOND, now)) {
			uint64_t allowed = now + 1000 * MS / QUERIES_PER_SECOND;

			if (allowed < neigh->rate_deadline)
				neigh->rate_deadline = allowed;
			return;
		}
		send_query(neigh, entry, now);
	}
}

static void
entry_query(struct neigh *neigh, struct neigh_entry *entry, uint64_t now)
{
	struct neigh_iface *iface = &neigh->port[entry->port];

	entry_move(entry, entry->queries == 0 ? &iface->first : &iface->again);
	send_due(neigh, iface, now);
}

static uint32_t
frames_lost(const struct neigh *neigh)
{
	return neigh->env->lost != NULL ? neigh->env->lost(neigh->env) : 0;
}

/* True if the transport received from the known MAC since the query. */
static bool
is_heard(const struct neigh *neigh, const struct neigh_entry *entry, uint64_t now)
{
	return neigh->env->heard != NULL &&
	       neigh->env->heard(neigh->env, neigh->port[entry->port].config.port, &entry->addr,
				 now - entry->asked);
}

/* True if frames were lost since the query: the answer may be among the lost frames. */
static bool
may_have_answered(const struct neigh *neigh, const struct neigh_entry *entry)
{
	return frames_lost(neigh) != entry->lost;
}

static void
entry_ask(struct neigh *neigh, struct neigh_entry *entry, enum neigh_state state, uint64_t now)
{
	set_state(neigh, entry, state);
	entry->queries = 0;
	entry->suspected = false;
	entry->asked = now;
	entry->lost = frames_lost(neigh);
	entry_query(neigh, entry, now);
}

/* Schedules the notification of the entry's waiters, if any. */
static void
schedule_notify(struct neigh *neigh, struct neigh_entry *entry, enum neigh_state state)
{
	set_state(neigh, entry, state);
	entry_move(entry, &neigh->answering);
}

static void
waiters_notified(struct neigh *neigh, struct neigh_entry *entry)
{
	if (entry->state == NEIGH_FAILED)
		entry_free(neigh, entry);
	else
		entry_move(entry, &neigh->idle);
}

/* A waiter's callback may resolve and cancel, so each iteration starts from the lists' heads. */
static void
notify_waiters(struct neigh *neigh, uint64_t now)
{
	struct neigh_entry *entry;

	for (uint32_t reported = 0; reported < ANSWERS && (entry = TAILQ_FIRST(&neigh->answering)) != NULL;
	     reported++) {
		struct neigh_waiter *waiter = LIST_FIRST(&entry->waiters);
		uint8_t mac[6];

		if (waiter == NULL) {
			waiters_notified(neigh, entry);
			continue;
		}
		memcpy(mac, entry->mac, sizeof(mac));
		neigh_cancel(waiter);
		waiter->done(waiter->user, entry->state == NEIGH_FAILED ? -EHOSTUNREACH : 0,
			     mac); /* may free the waiter */
	}
	neigh->answer_deadline = TAILQ_EMPTY(&neigh->answering) ? NEIGH_NEVER : now;
}

/* ---- received answers and queries ---- */

static void
entry_confirm(struct neigh *neigh, struct neigh_entry *entry, const uint8_t mac[6], uint64_t now)
{
	bool moved = entry->state != NEIGH_INCOMPLETE && memcmp(entry->mac, mac, 6) != 0;

	memcpy(entry->mac, mac, 6);
	entry->confirmed = now;
	if (is_pending(entry))
		schedule_notify(neigh, entry, NEIGH_REACHABLE);
	if (moved && neigh->env->changed != NULL)
		neigh->env->changed(neigh->env, neigh->port[entry->port].config.port, &entry->addr,
				    entry->mac);
	notify_waiters(neigh, now);
}

/* The MAC of a known neighbour changes only if that neighbour is silent: two queries are unanswered, no
 * answer can have been lost, and the transport receives nothing from the known MAC.  Otherwise a single
 * forged frame could redirect the neighbour's connections. */
static bool
may_be_at(const struct neigh *neigh, const struct neigh_entry *entry, const uint8_t mac[6], uint64_t now)
{
	if (entry->state == NEIGH_FAILED)
		return false;
	if (entry->state == NEIGH_INCOMPLETE || memcmp(entry->mac, mac, 6) == 0)
		return true;
	return entry->state == NEIGH_PROBE && entry->queries > PROBES_UNICAST &&
	       !may_have_answered(neigh, entry) && !is_heard(neigh, entry, now);
}

void
neigh_answered(struct neigh *neigh, uint16_t port, const struct wire_addr *addr, const uint8_t mac[6],
	       bool solicited, uint64_t now)
{
	struct neigh_entry *entry = entry_find(neigh, port, addr);
	uint16_t ours;

	if (entry == NULL || is_any_of_ours(neigh, addr, &ours))
		return;
	if (is_pending(entry) && solicited && may_be_at(neigh, entry, mac, now))
		entry_confirm(neigh, entry, mac, now);
	else if (entry->state == NEIGH_REACHABLE && memcmp(entry->mac, mac, 6) != 0)
		/* The frame claims a new MAC: verify by a query. */
		entry_ask(neigh, entry, NEIGH_PROBE, now);
}

void
neigh_asked(struct neigh *neigh, uint16_t port, const struct wire_addr *addr, const uint8_t mac[6],
	    uint64_t now)
{
	struct neigh_entry *entry = entry_find(neigh, port, addr);
	uint16_t ours;

	if (is_any_of_ours(neigh, addr, &ours))
		return;
	if (entry == NULL) {
		entry = entry_new(neigh, port, addr, false, now);
		if (entry == NULL)
			return;
		memcpy(entry->mac, mac, 6);
	}
	if (!may_be_at(neigh, entry, mac, now)) {
		neigh_answered(neigh, port, addr, mac, false, now);
		return;
	}
	entry_confirm(neigh, entry, mac, now);
}

/* ---- for the control thread ---- */

struct neigh *
neigh_new(struct neigh_env *env, const struct neigh_port *ports, uint16_t num_ports)
{
	if (num_ports > NEIGH_ADDRS_MAX)
		return NULL;
	struct neigh *neigh = calloc(1, sizeof(*neigh));
	if (neigh == NULL)
		return NULL;
	pages_populate(neigh, sizeof(*neigh));
	/* The seed only spreads chains, which are bounded: without randomness it works too. */
	if (getrandom(&neigh->seed, sizeof(neigh->seed), GRND_NONBLOCK) < 0)
		neigh->seed = 2166136261u;
	neigh->env = env;
	neigh->num_ports = num_ports;
	neigh->deadline = neigh->rate_deadline = neigh->answer_deadline = NEIGH_NEVER;
	for (uint16_t i = 0; i < num_ports; i++) {
		struct neigh_iface *iface = &neigh->port[i];
		const uint8_t *mac = ports[i].mac;
		iface->config = ports[i];
		iface->v4 = wire_addr_is_v4(&ports[i].addr);
		iface->first_of_family = true;
		for (uint16_t j = 0; j < i; j++)
			if (ports[j].port == ports[i].port && neigh->port[j].v4 == iface->v4)
				iface->first_of_family = false;
		iface->link_local = (struct wire_addr){{0xfe, 0x80, 0, 0, 0, 0, 0, 0, mac[0] ^ 2, mac[1],
							mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]}};
		iface->claim.next = NEIGH_NEVER;
		TAILQ_INIT(&iface->first);
		TAILQ_INIT(&iface->again);
	}
	TAILQ_INIT(&neigh->free);
	TAILQ_INIT(&neigh->idle);
	TAILQ_INIT(&neigh->pending);
	TAILQ_INIT(&neigh->answering);
	for (uint32_t i = 0; i < NEIGH_ENTRIES; i++) {
		TAILQ_INSERT_TAIL(&neigh->free, &neigh->entry[i], order);
		neigh->entry[i].list = &neigh->free;
	}
	return neigh;
}

void
neigh_free(struct neigh *neigh)
{
	free(neigh);
}

void
neigh_set_mac(struct neigh *neigh, uint16_t port, const uint8_t mac[6])
{
	for (uint16_t i = 0; i < neigh->num_ports; i++)
		if (neigh->port[i].config.port == port)
			memcpy(neigh->port[i].config.mac, mac, sizeof(neigh->port[i].config.mac));
}

/* ---- routes ---- */

static bool
route_has(const struct neigh_route *route, const struct wire_addr *dst)
{
	bool v4 = wire_addr_is_v4(&route->net);
	const uint8_t *net = route->net.gid + (v4 ? 12 : 0), *addr = dst->gid + (v4 ? 12 : 0);
	unsigned int bytes = route->prefix / 8u, rest = route->prefix % 8u;

	return wire_addr_is_v4(dst) == v4 && memcmp(net, addr, bytes) == 0 &&
	       (rest == 0 || ((net[bytes] ^ addr[bytes]) & (0xff00u >> rest) & 0xff) == 0);
}

/* Returns the length of the interface's longest prefix that contains `dst`, and the next hop; 0 for the
 * default gateway; -1 if `dst` is not reachable from this interface. */
static int
prefix_towards(const struct neigh_iface *iface, const struct wire_addr *dst, struct wire_addr *hop)
{
	/* Only the interface that owns our link-local address can reach link-local neighbours. */
	bool others = neigh_addr_link_local(dst) && !iface->v4 && !iface->first_of_family &&
		      !neigh_addr_link_local(&iface->config.addr);
	int bits = -1;

	if (in_prefix(iface, dst) && !others) {
		*hop = *dst;
		bits = iface->config.prefix;
	}
	for (uint32_t i = 0; i < iface->config.num_routes; i++) {
		const struct neigh_route *route = &iface->config.route[i];

		if (route->prefix > bits && route_has(route, dst)) {
			*hop = route->via;
			bits = route->prefix;
		}
	}
	if (bits < 0 && iface->config.has_gateway && wire_addr_is_v4(dst) == iface->v4) {
		*hop = iface->config.gateway;
		bits = 0;
	}
	return bits;
}

/* Returns the index of the interface with the longest prefix for `dst`, and the next hop; or -errno. */
static int
iface_towards(const struct neigh *neigh, uint16_t port, const struct wire_addr *dst, struct wire_addr *hop)
{
	int best = -EINVAL, best_bits = -1;

	for (uint16_t i = 0; i < neigh->num_ports; i++) {
		struct wire_addr to;
		int bits;

		if (neigh->port[i].config.port != port)
			continue;
		bits = prefix_towards(&neigh->port[i], dst, &to);
		if (bits > best_bits) {
			*hop = to;
			best = i;
			best_bits = bits;
		} else if (best < 0) {
			best = -ENETUNREACH;
		}
	}
	if (best < 0)
		return best;
	return wire_addr_equal(hop, dst) && is_network(&neigh->port[best], dst) ? -EINVAL : best;
}

int
neigh_hop(const struct neigh *neigh, uint16_t port, const struct wire_addr *dst, struct wire_addr *hop)
{
	int iface = iface_towards(neigh, port, dst, hop);

	return iface < 0 ? iface : 0;
}

int
neigh_source(const struct neigh *neigh, uint16_t port, const struct wire_addr *dst, struct wire_addr *src)
{
	struct wire_addr hop;
	int iface = iface_towards(neigh, port, dst, &hop);

	if (iface < 0)
		return iface;
	*src = neigh->port[iface].config.addr;
	return prefix_towards(&neigh->port[iface], dst, &hop);
}

int
neigh_lookup(struct neigh *neigh, uint16_t port, const struct wire_addr *dst, uint64_t now, uint8_t mac[6])
{
	struct neigh_entry *entry;
	struct wire_addr hop;
	uint16_t ours;
	int iface;

	if (neigh->num_ports == 0 || !is_unicast(&neigh->port[0], dst))
		return -EINVAL;
	if (is_any_of_ours(neigh, dst, &ours)) {
		memcpy(mac, neigh->port[ours].config.mac, 6);
		return 0;
	}
	iface = iface_towards(neigh, port, dst, &hop);
	if (iface < 0)
		return iface;
	entry = entry_find(neigh, (uint16_t)iface, &hop);
	if (entry == NULL || entry->state == NEIGH_INCOMPLETE)
		return -ENOENT;
	if (entry->state == NEIGH_FAILED)
		return -EHOSTUNREACH;
	memcpy(mac, entry->mac, 6);
	if (is_stale(entry, now)) {
		entry_ask(neigh, entry, NEIGH_PROBE, now);
	} else if (entry->list == &neigh->idle) {
		entry_move(entry, &neigh->idle);
	}
	return 0;
}

/* True if `asker` already has 3/4 of the table in unanswered neighbours. */
static bool
has_share(const struct neigh *neigh, uint32_t asker)
{
	const uint32_t share = NEIGH_ENTRIES - NEIGH_ENTRIES / 4;
	uint32_t n = 0;

	/* The scan is needed only if the total reaches the share. */
	if (asker == NEIGH_NOBODY || neigh->incomplete < share)
		return false;
	for (uint32_t i = 0; i < NEIGH_ENTRIES; i++)
		n += neigh->entry[i].state == NEIGH_INCOMPLETE && neigh->entry[i].asker == asker;
	return n >= share;
}

int
neigh_resolve(struct neigh *neigh, uint16_t port, const struct wire_addr *dst, uint64_t now, uint8_t mac[6],
	      uint32_t asker, struct neigh_waiter *waiter)
{
	struct neigh_entry *entry;
	struct wire_addr hop;
	int error = neigh_lookup(neigh, port, dst, now, mac), iface;

	if (error != -ENOENT)
		return error;
	iface = iface_towards(neigh, port, dst, &hop);
	entry = entry_find(neigh, (uint16_t)iface, &hop);
	if (entry == NULL) {
		entry = has_share(neigh, asker) ? NULL : entry_new(neigh, (uint16_t)iface, &hop, true, now);
		if (entry == NULL)
			return -ENOBUFS;
		entry->asker = asker;
		entry_ask(neigh, entry, NEIGH_INCOMPLETE, now);
	}
	if (waiter != NULL) {
		waiter->waits = true;
		LIST_INSERT_HEAD(&entry->waiters, waiter, link);
	}
	return -EINPROGRESS;
}

void
neigh_suspect(struct neigh *neigh, uint16_t port, const struct wire_addr *dst, uint64_t now)
{
	struct neigh_entry *entry;
	struct wire_addr hop;
	uint8_t mac[6];
	int iface;

	if (neigh_resolve(neigh, port, dst, now, mac, NEIGH_NOBODY, NULL) != 0)
		return;
	iface = iface_towards(neigh, port, dst, &hop);
	if (iface < 0)
		return;
	entry = entry_find(neigh, (uint16_t)iface, &hop);
	if (entry == NULL || (entry->state != NEIGH_PROBE && now - entry->asked < SUSPECT_NS))
		return;
	if (entry->state != NEIGH_PROBE)
		entry_ask(neigh, entry, NEIGH_PROBE, now);
	entry->suspected = true;
}

void
neigh_cancel(struct neigh_waiter *waiter)
{
	if (waiter->waits)
		LIST_REMOVE(waiter, link);
	waiter->waits = false;
}

uint64_t
neigh_deadline(const struct neigh *neigh)
{
	const uint64_t deadlines[] = {neigh->rate_deadline, neigh->answer_deadline,
				      neigh_claim_deadline(neigh)};
	uint64_t first = neigh->deadline;

	for (size_t i = 0; i < sizeof(deadlines) / sizeof(deadlines[0]); i++)
		first = deadlines[i] < first ? deadlines[i] : first;
	return first;
}

static void
rate_timeout(struct neigh *neigh, uint64_t now)
{
	if (now < neigh->rate_deadline)
		return;
	neigh->rate_deadline = NEIGH_NEVER;
	for (uint16_t i = 0; i < neigh->num_ports; i++)
		send_due(neigh, &neigh->port[i], now);
}

/* Next step of an entry whose query timed out.  A known neighbour is confirmed if the transport receives from
 * the known MAC (RFC 4861, 7.3.1).  If its answer may have been lost, the queries start again. */
static void
query_timed_out(struct neigh *neigh, struct neigh_entry *entry, uint64_t now)
{
	bool known = entry->state == NEIGH_PROBE && entry->queries >= PROBES_UNICAST;

	if (known && is_heard(neigh, entry, now)) {
		entry->confirmed = now;
		schedule_notify(neigh, entry, NEIGH_REACHABLE);
	} else if (known && may_have_answered(neigh, entry)) {
		entry_ask(neigh, entry, NEIGH_PROBE, now);
	} else if (entry->queries < QUERIES) {
		entry_query(neigh, entry, now);
	} else {
		schedule_notify(neigh, entry, NEIGH_FAILED);
	}
}

static void
queries_timeout(struct neigh *neigh, uint64_t now)
{
	struct neigh_entry *entry, *next;

	if (now < neigh->deadline)
		return;
	neigh->deadline = NEIGH_NEVER;
	for (entry = TAILQ_FIRST(&neigh->pending); entry != NULL; entry = next) {
		next = TAILQ_NEXT(entry, order);
		if (entry->next > now) {
			if (entry->next < neigh->deadline)
				neigh->deadline = entry->next;
		} else {
			query_timed_out(neigh, entry, now);
		}
	}
}

void
neigh_timeout(struct neigh *neigh, uint64_t now)
{
	neigh_claim_timeout(neigh, now);
	rate_timeout(neigh, now);
	queries_timeout(neigh, now);
	notify_waiters(neigh, now);
}

bool
neigh_get(const struct neigh *neigh, uint32_t index, uint64_t now, struct neigh_info *out)
{
	if (index >= NEIGH_ENTRIES || neigh->entry[index].state == NEIGH_NONE ||
	    neigh->entry[index].state == NEIGH_FAILED)
		return false;
	const struct neigh_entry *entry = &neigh->entry[index];
	*out = (struct neigh_info){.addr = entry->addr,
				   .port = neigh->port[entry->port].config.port,
				   .state = is_stale(entry, now) ? NEIGH_STALE : entry->state};
	if (entry->state != NEIGH_INCOMPLETE)
		memcpy(out->mac, entry->mac, 6);
	return true;
}
