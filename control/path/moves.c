/* SPDX-License-Identifier: BSD-3-Clause */
/* Notifies the users of a next hop when the hop's MAC, or the port's own MAC, changes.  Users are indexed by
 * hop, and notified a few per loop, since all peers may be behind one gateway.  A user gets the MAC that the
 * table of neighbours has at that time, so a further change meanwhile only needs another pass. */
#include <string.h>

#include "control/path/path.h"

#define BUCKETS 4096u
#define MOVES 64u           /* users notified per loop */
#define HEARD_LOOKS 1024u   /* limit of users asked whether their hop is heard */
#define REFRESH_SECONDS 30u /* duration of one round of path_refresh() */

struct bucket {
	LIST_HEAD(, path_user) users, late; /* `late`: not notified yet */
	bool again;                         /* another pass over all users is due */
	bool queued;
	STAILQ_ENTRY(bucket) link;
};

static struct bucket bucket[BUCKETS];
static STAILQ_HEAD(, bucket) queue = STAILQ_HEAD_INITIALIZER(queue); /* buckets with a pass to do */

static struct bucket *
bucket_of(const struct path_port *port, const struct wire_addr *hop)
{
	uint64_t gid[2];

	memcpy(gid, hop->gid, sizeof(gid));
	return &bucket[cm_hash(control.segment_secret, gid[0] ^ port->index, gid[1]) % BUCKETS];
}

void
path_watch(struct path_user *user, const struct path_port *port, const struct wire_addr *dst)
{
	struct wire_addr hop;

	path_unwatch(user);
	if (neigh_hop(control.neigh, port->index, dst, &hop) != 0)
		return;
	user->port = port;
	user->dst = dst;
	memcpy(user->own_mac, port->mac, sizeof(user->own_mac));
	LIST_INSERT_HEAD(&bucket_of(port, &hop)->users, user, link);
}

void
path_unwatch(struct path_user *user)
{
	if (user->port != NULL)
		LIST_REMOVE(user, link);
	user->port = NULL;
}

/* Moves all users to `late`, which is empty.  Constant time. */
static void
make_late(struct bucket *of)
{
	struct path_user *first = LIST_FIRST(&of->users);

	of->again = false;
	of->late.lh_first = first;
	if (first != NULL)
		first->link.le_prev = &of->late.lh_first;
	LIST_INIT(&of->users);
}

static void
bucket_enqueue(struct bucket *of)
{
	of->again = true;
	if (of->queued)
		return;
	of->queued = true;
	STAILQ_INSERT_TAIL(&queue, of, link);
}

void
path_hop_moved(const struct path_port *port, const struct wire_addr *hop)
{
	bucket_enqueue(bucket_of(port, hop));
}

/* user_update() notifies only users whose port has a new MAC. */
void
path_port_renamed(void)
{
	for (uint32_t i = 0; i < BUCKETS; i++)
		if (!LIST_EMPTY(&bucket[i].users) || !LIST_EMPTY(&bucket[i].late))
			bucket_enqueue(&bucket[i]);
}

static void
user_update(struct path_user *user)
{
	uint8_t mac[6];

	if (memcmp(user->own_mac, user->port->mac, sizeof(user->own_mac)) != 0) {
		memcpy(user->own_mac, user->port->mac, sizeof(user->own_mac));
		user->renamed(user);
	}
	if (neigh_lookup(control.neigh, user->port->index, user->dst, control.now, mac) == 0)
		user->moved(user, mac);
}

/* Notifies the bucket's next user, or begins a pass.  False if no pass is due. */
static bool
report_one(struct bucket *of)
{
	struct path_user *user = LIST_FIRST(&of->late);

	if (user == NULL && !of->again)
		return false;
	if (user == NULL) {
		make_late(of);
		return true;
	}
	LIST_REMOVE(user, link);
	LIST_INSERT_HEAD(&of->users, user, link);
	user_update(user);
	return true;
}

void
path_suspect(struct path_user *user)
{
	if (user->port == NULL)
		return;
	/* The neighbour may have moved while the user still received from the old MAC and ignored the change.
	 */
	user_update(user);
	neigh_suspect(control.neigh, user->port->index, user->dst, control.now);
}

static bool
goes_by(const struct path_user *user, const struct path_port *port, const struct wire_addr *hop)
{
	struct wire_addr own;

	return user->port == port && neigh_hop(control.neigh, port->index, user->dst, &own) == 0 &&
	       wire_addr_equal(&own, hop);
}

bool
path_hop_heard(const struct path_port *port, const struct wire_addr *hop, uint64_t ns)
{
	struct bucket *of = bucket_of(port, hop);
	struct path_user *lists[] = {LIST_FIRST(&of->users), LIST_FIRST(&of->late)};
	uint32_t looks = 0;

	for (uint32_t i = 0; i < 2; i++)
		for (struct path_user *user = lists[i]; user != NULL && looks++ < HEARD_LOOKS;
		     user = LIST_NEXT(user, link)) {
			if (user->heard == NULL || !user->heard(user, ns) || !goes_by(user, port, hop))
				continue;
			/* The next call asks this user first. */
			LIST_REMOVE(user, link);
			LIST_INSERT_HEAD(&of->users, user, link);
			return true;
		}
	return false;
}

/* Datagrams get no answers, whose absence would show an outdated MAC.  So the next hop is resolved as for
 * sending, which queries a neighbour that is stale or was evicted. */
static void
refresh_user(struct path_user *user)
{
	uint8_t mac[6];

	if (neigh_resolve(control.neigh, user->port->index, user->dst, control.now, mac, NEIGH_NOBODY,
			  NULL) == 0)
		user->moved(user, mac);
}

void
path_refresh(void)
{
	static uint32_t next;
	struct path_user *user;

	for (uint32_t i = 0; i <= BUCKETS / REFRESH_SECONDS; i++) {
		LIST_FOREACH(user, &bucket[next].users, link)
			if (user->heard == NULL)
				refresh_user(user);
		next = (next + 1) % BUCKETS;
	}
}

void
path_moves_poll(void)
{
	struct bucket *of;

	for (uint32_t i = 0; i < MOVES && (of = STAILQ_FIRST(&queue)) != NULL; i++) {
		if (report_one(of))
			continue;
		STAILQ_REMOVE_HEAD(&queue, link);
		of->queued = false;
	}
}

bool
path_moves_pending(void)
{
	return !STAILQ_EMPTY(&queue);
}

void
path_moves_fini(void)
{
	memset(bucket, 0, sizeof(bucket));
	STAILQ_INIT(&queue);
}
