/* SPDX-License-Identifier: BSD-3-Clause */
/* A network of connection managers in virtual time. Each MAD takes DELAY; a test may lose, delay or double
 * it. Sent MADs and events are recorded. */
#ifndef TESTS_UNIT_CM_NET_H
#define TESTS_UNIT_CM_NET_H

#include "control/cm/cm_internal.h"

#define MS 1000000ull
#define SECOND (1000 * MS)
#define LONG_ENOUGH (300 * SECOND) /* all retries and waits end within */
#define DELAY (1 * MS)
#define INTERVAL (500 * MS)
#define RETRIES 7u
#define HOSTS 4
#define TOLD_MAX 32

enum answer {
	ANSWER_ACCEPT,
	ANSWER_REJECT,
	ANSWER_LATER /* the test calls cm_accept or cm_reject */
};

struct net;
struct host;

/* Events of one end of a connection; the `user` of its conn. */
struct end {
	struct host *host;
	struct cm_conn *conn; /* NULL after CM_GONE */
	bool active;
	enum cm_event_type reported[TOLD_MAX];
	uint64_t when[TOLD_MAX];
	int count;
	uint16_t reason;
	uint8_t reject_data[CM_PRIVATE_REJ];
	struct cm_remote remote;
	struct end *next; /* next end of the host */
};

struct host {
	struct cm_env env; /* first */
	struct net *net;
	struct cm *cm;
	struct wire_addr addr;
	struct end *ends; /* newest first */
	enum answer answer;
	bool confirm_later;
	uint16_t private_len; /* length of private data in our REPs and REJs */
	uint8_t private_data[CM_PRIVATE_REP];
	uint32_t next_qpn;
	bool down; /* neither sends nor receives */
	int sent[CM_DREP + 1];
	int received[CM_DREP + 1];
};

enum fate {
	PASS,
	LOSE,
	TWICE,
	SLOW /* 20 times DELAY: later messages overtake */
};

struct net {
	struct host host[HOSTS];
	uint64_t now;
	uint64_t seed;
	int sent; /* number of the next message, for `fate` */
	enum fate (*fate)(struct net *net, const struct host *from, const struct cm_mad *mad, int number);
	int fate_arg, fate_arg2;
	struct flight *flights; /* sorted by time */
};

struct net *net_new(void);
void net_free(struct net *net);
/* Setup and teardown for cmocka: each test has a net, in *state. */
int net_setup(void **state);
int net_teardown(void **state);
uint64_t net_random(struct net *net);
/* Advances time to `until`, or until nothing is left to happen. */
void net_run(struct net *net, uint64_t until);
/* Connects `from` to `service_id` at `to`; returns the active end, which is also in from->ends. */
struct end *net_connect(struct net *net, int from, int to, uint64_t service_id);
struct cm_connect net_params(struct net *net, int from, int to, uint64_t service_id);
struct end *net_connect_params(struct net *net, int from, const struct cm_connect *params);
struct cm_path net_path(struct net *net, int from, int to);
struct cm_local net_local(struct host *host);
/* Delivers a MAD at once, as if `from` had sent it to `to`. */
void net_inject(struct net *net, int from, int to, const struct cm_mad *mad);
/* True if the end had exactly these events, in this order; 0 ends the list. */
bool end_reported(const struct end *end, ...);
bool end_has(const struct end *end, enum cm_event_type type);
void end_show(const struct end *end);
/* True if no conn, half-open request or timer is left. */
bool net_is_clean(const struct net *net);
/* Runs until nothing is left to happen, then checks net_is_clean(). */
bool net_ends_clean(struct net *net);

#endif
