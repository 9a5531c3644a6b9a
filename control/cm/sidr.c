/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/cm/sidr.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "control/cm/cm_mad.h"
#include "control/cm/cm_table.h"
#include "dataplane/wire/bytes.h"

#define ATTRIBUTE_REQ 0x17u
#define ATTRIBUTE_REP 0x18u
#define REQ_PRIVATE_AT (CM_MAD_HEADER_LEN + 16u)
#define REP_PRIVATE_AT (CM_MAD_HEADER_LEN + 96u)
#define PATIENCE 7u /* doublings until an unanswered request no longer counts: the peer has given up */
#define BACKOFF 3u  /* doublings of the interval between requests */

struct sidr_query {
	struct sidr *sidr;
	LIST_ENTRY(sidr_query) all;
	struct cm_node node; /* by id and the peer's address */
	struct cm_timer timer;
	void *user;
	struct cm_path path;
	bool ours;
	bool counted;  /* in sidr->requests */
	bool answered; /* `mad` is the answer, repeated if the request is retransmitted */
	uint32_t id;
	uint32_t retries;
	uint64_t tid, service_id;
	uint8_t mad[CM_MAD_LEN];
};

struct sidr {
	struct sidr_env *env;
	uint64_t secret[2];
	struct cm_table queries;
	struct cm_heap timers;
	LIST_HEAD(, sidr_query) all;
	uint32_t count;
	uint32_t requests; /* queries with `counted` */
};

#define QUERY_OF(node_, member) ((struct sidr_query *)((char *)(node_)-offsetof(struct sidr_query, member)))

struct sidr *
sidr_new(struct sidr_env *env)
{
	struct sidr *sidr = calloc(1, sizeof(*sidr));

	if (sidr == NULL)
		return NULL;
	sidr->env = env;
	sidr->secret[0] = env->random(env);
	sidr->secret[1] = env->random(env);
	LIST_INIT(&sidr->all);
	if (cm_table_init(&sidr->queries) != 0) {
		free(sidr);
		return NULL;
	}
	return sidr;
}

void
sidr_free(struct sidr *sidr)
{
	struct sidr_query *query;

	if (sidr == NULL)
		return;
	while ((query = LIST_FIRST(&sidr->all)) != NULL) {
		LIST_REMOVE(query, all);
		free(query);
	}
	cm_table_fini(&sidr->queries);
	cm_heap_fini(&sidr->timers);
	free(sidr);
}

/* ---- queries ---- */

static uint64_t
query_hash(const struct sidr *sidr, bool ours, uint32_t id, const struct cm_path *path)
{
	uint64_t gid[2];

	memcpy(gid, path->dst.gid, sizeof(gid));
	return cm_hash(sidr->secret, (uint64_t)ours << 32 | id, cm_hash(sidr->secret, gid[0], gid[1]));
}

static struct sidr_query *
query_find(const struct sidr *sidr, bool ours, uint32_t id, const struct cm_path *path)
{
	struct cm_node *node = cm_table_first(&sidr->queries, query_hash(sidr, ours, id, path));

	for (; node != NULL; node = cm_table_next(node)) {
		struct sidr_query *query = QUERY_OF(node, node);

		if (query->ours == ours && query->id == id && cm_path_same_ends(&query->path, path))
			return query;
	}
	return NULL;
}

static struct sidr_query *
query_new(struct sidr *sidr, const struct cm_path *path, bool ours, uint32_t id)
{
	struct sidr_query *query;

	/* Reserve the query's timer now: setting the timer must not fail. */
	if (cm_heap_reserve(&sidr->timers, sidr->count + 1) != 0)
		return NULL;
	query = calloc(1, sizeof(*query));
	if (query == NULL)
		return NULL;
	query->sidr = sidr;
	query->path = *path;
	query->ours = ours;
	query->counted = !ours;
	query->id = id;
	cm_table_insert(&sidr->queries, &query->node, query_hash(sidr, ours, id, path));
	LIST_INSERT_HEAD(&sidr->all, query, all);
	sidr->count++;
	sidr->requests += query->counted;
	return query;
}

static void
query_free(struct sidr_query *query)
{
	struct sidr *sidr = query->sidr;

	cm_heap_clear(&sidr->timers, &query->timer);
	cm_table_remove(&sidr->queries, &query->node);
	LIST_REMOVE(query, all);
	sidr->count--;
	sidr->requests -= query->counted;
	free(query);
}

void *
sidr_user(const struct sidr_query *query)
{
	return query->user;
}

void
sidr_set_user(struct sidr_query *query, void *user)
{
	query->user = user;
}

/* ---- messages ---- */

static void
query_send(struct sidr_query *query)
{
	struct sidr_env *env = query->sidr->env;

	env->send(env, &query->path, query->mad);
}

struct sidr_query *
sidr_ask(struct sidr *sidr, const struct cm_path *path, uint64_t service_id, uint16_t ip_port,
	 const void *private_data, uint32_t len, void *user, uint64_t now)
{
	const struct cm_ip_header ip = {ip_port, path->src, path->dst};
	struct sidr_query *query;
	uint32_t id;

	do
		id = (uint32_t)sidr->env->random(sidr->env);
	while (id == 0 || query_find(sidr, true, id, path) != NULL);
	query = query_new(sidr, path, true, id);
	if (query == NULL)
		return NULL;
	query->user = user;
	query->tid = sidr->env->random(sidr->env);
	query->service_id = service_id;
	cm_mad_begin(query->mad, query->tid, ATTRIBUTE_REQ, query->id);
	store_be16(query->mad + CM_MAD_HEADER_LEN + 4, 0xffff); /* P_Key */
	store_be64(query->mad + CM_MAD_HEADER_LEN + 8, service_id);
	cm_ip_header_build(&ip, query->mad + REQ_PRIVATE_AT);
	if (len > 0)
		memcpy(query->mad + REQ_PRIVATE_AT + CM_IP_HEADER_LEN, private_data,
		       len < SIDR_PRIVATE_REQ ? len : SIDR_PRIVATE_REQ);
	query_send(query);
	cm_heap_set(&sidr->timers, &query->timer, now + sidr->env->retry_interval);
	return query;
}

void
sidr_answer(struct sidr_query *query, enum sidr_status status, uint32_t qpn, uint32_t qkey,
	    const void *private_data, uint32_t len, uint64_t now)
{
	struct sidr *sidr = query->sidr;
	uint8_t *p = query->mad + CM_MAD_HEADER_LEN;

	cm_mad_begin(query->mad, query->tid, ATTRIBUTE_REP, query->id);
	p[4] = (uint8_t)status;
	store_be24(p + 8, qpn);
	store_be64(p + 12, query->service_id);
	store_be32(p + 20, qkey);
	if (len > 0)
		memcpy(query->mad + REP_PRIVATE_AT, private_data,
		       len < SIDR_PRIVATE_REP ? len : SIDR_PRIVATE_REP);
	query->user = NULL;
	query->answered = true;
	query_send(query);
	/* Keep the answer for a retransmitted request, unless many requests are open. */
	cm_heap_set(&sidr->timers, &query->timer,
		    sidr->requests <= sidr->env->max_requests / 2
			    ? now + (sidr->env->retry_interval << (BACKOFF + 1))
			    : now);
}

void
sidr_give_up(struct sidr_query *query)
{
	query_free(query);
}

/* ---- received messages ---- */

static void
input_req(struct sidr *sidr, const struct cm_path *path, const uint8_t *mad, uint64_t now)
{
	struct sidr_remote remote = {.path = *path, .service_id = load_be64(mad + CM_MAD_HEADER_LEN + 8)};
	uint32_t id = load_be32(mad + CM_MAD_HEADER_LEN);
	struct sidr_query *query = query_find(sidr, false, id, path);

	if (query != NULL) {
		if (query->answered)
			query_send(query);
		return;
	}
	if (id == 0 || sidr->requests >= sidr->env->max_requests)
		return;
	query = query_new(sidr, path, false, id);
	if (query == NULL)
		return;
	query->tid = load_be64(mad + 8);
	query->service_id = remote.service_id;
	if (!sidr_service_is_udp(remote.service_id)) {
		sidr_answer(query, SIDR_UNSUPPORTED, 0, 0, NULL, 0, now);
		return;
	}
	cm_heap_set(&sidr->timers, &query->timer, now + (sidr->env->retry_interval << PATIENCE));
	memcpy(remote.private_data, mad + REQ_PRIVATE_AT + CM_IP_HEADER_LEN, SIDR_PRIVATE_REQ);
	if (!cm_ip_header_take(mad + REQ_PRIVATE_AT, path, &remote.ip_port))
		sidr_answer(query, SIDR_REJECT, 0, 0, NULL, 0, now);
	else if (!sidr->env->event(sidr->env, SIDR_REQUESTED, query, &remote))
		sidr_answer(query, SIDR_UNSUPPORTED, 0, 0, NULL, 0, now);
}

static void
input_rep(struct sidr *sidr, const struct cm_path *path, const uint8_t *mad)
{
	const uint8_t *p = mad + CM_MAD_HEADER_LEN;
	struct sidr_query *query = query_find(sidr, true, load_be32(p), path);
	struct sidr_remote remote = {.path = *path};

	if (query == NULL || load_be64(mad + 8) != query->tid)
		return;
	remote.service_id = query->service_id;
	remote.status = p[4];
	remote.qpn = load_be24(p + 8);
	remote.qkey = load_be32(p + 20);
	/* Applications have the queue pairs 2 to 0xfffffe. */
	if (remote.status == SIDR_SUCCESS && (remote.qpn <= 1 || remote.qpn == 0xffffff))
		remote.status = SIDR_NO_QP;
	memcpy(remote.private_data, mad + REP_PRIVATE_AT, SIDR_PRIVATE_REP);
	sidr->env->event(sidr->env, SIDR_ANSWERED, query, &remote);
	query_free(query);
}

bool
sidr_input(struct sidr *sidr, const struct cm_path *reply_path, const uint8_t mad[CM_MAD_LEN], uint64_t now)
{
	uint16_t attribute = load_be16(mad + 16);

	if (!cm_mad_is_ours(mad) || (attribute != ATTRIBUTE_REQ && attribute != ATTRIBUTE_REP))
		return false;
	if (attribute == ATTRIBUTE_REQ)
		input_req(sidr, reply_path, mad, now);
	else
		input_rep(sidr, reply_path, mad);
	return true;
}

/* ---- time ---- */

uint64_t
sidr_deadline(const struct sidr *sidr)
{
	return cm_heap_deadline(&sidr->timers);
}

static void
query_timeout(struct sidr_query *query, uint64_t now)
{
	struct sidr_env *env = query->sidr->env;
	uint32_t doubled = query->retries < BACKOFF ? query->retries + 1 : BACKOFF;

	if (!query->ours && !query->answered) {
		/* Stop counting the query, so that further requests are accepted.  The query remains until
		 * its user answers. */
		query->sidr->requests -= query->counted;
		query->counted = false;
	} else if (!query->ours) {
		query_free(query);
	} else if (query->retries >= env->max_retries) {
		env->event(env, SIDR_SILENCE, query, NULL);
		query_free(query);
	} else {
		if (query->retries > 0 && env->silent != NULL)
			env->silent(env, &query->path);
		query->retries++;
		query_send(query);
		cm_heap_set(&query->sidr->timers, &query->timer, now + (env->retry_interval << doubled));
	}
}

void
sidr_timeout(struct sidr *sidr, uint64_t now)
{
	struct cm_timer *timer;

	for (uint32_t i = 0; i < CM_TIMEOUTS && (timer = cm_heap_due(&sidr->timers, now)) != NULL; i++)
		query_timeout(QUERY_OF(timer, timer), now);
}
