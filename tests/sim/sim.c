/* SPDX-License-Identifier: BSD-3-Clause */
#include "dataplane/rc/rc_internal.h"
#include "sim.h"

#include <stdarg.h>

#define MAX_EVENTS 4000000u
#define MAX_TIME (600ull * 1000 * MS)
#define BURST 32u /* frames that a core takes in one loop */

/* ---- random numbers ---- */

uint64_t
sim_random(struct sim *sim)
{
	return next_random(&sim->random);
}

uint32_t
sim_below(struct sim *sim, uint32_t n)
{
	return n == 0 ? 0 : (uint32_t)(((sim_random(sim) >> 32) * n) >> 32);
}

bool
sim_chance(struct sim *sim, double p)
{
	return p > 0 && (double)(sim_random(sim) >> 11) < p * 9007199254740992.0;
}

/* ---- messages ---- */

const char *const repeat_names[3] = {
	[REPEAT_MIXED] = "mixed", [REPEAT_SELECTIVE] = "selective", [REPEAT_GO_BACK] = "go-back"};

const char *const stops_names[3] = {
	[STOPS_NONE] = "none", [STOPS_PAUSE] = "pause", [STOPS_VANISH] = "vanish"};

void
sim_fail(const struct sim *sim, const struct side *side, const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fprintf(stderr, "sim: seed %llu, t=%llu ns: ", (unsigned long long)sim->seed,
		(unsigned long long)sim->now);
	if (side != NULL)
		fprintf(stderr, "side %u: ", side->index);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\nreplay: sim --seed %llu --count 1 --loss %g --repeat %s --stops %s%s%s -v\n",
		(unsigned long long)sim->seed, sim->options->loss, repeat_names[sim->options->repeat],
		stops_names[sim->options->stops], sim->options->moves ? " --moves" : "",
		sim->options->takeovers ? " --takeovers" : "");
	exit(1);
}

void
sim_log(const struct sim *sim, const struct side *side, const char *format, ...)
{
	va_list args;

	if (!sim->options->verbose)
		return;
	printf("%12llu ", (unsigned long long)sim->now);
	if (side != NULL)
		printf("%u: ", side->index);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

/* ---- callbacks of the transport ---- */

static struct host *
host_of(struct rc_env *env)
{
	return (struct host *)env;
}

static uint8_t *
tx_begin(struct rc_env *env, struct rc_qp *qp, uint32_t len)
{
	struct host *host = host_of(env);

	if (sim_chance(host->sim, host->sim->weather.starve))
		return NULL;
	return test_env_begin(env, qp, len);
}

static void
log_frame(struct sim *sim, struct side *side, const uint8_t *bytes, uint32_t len)
{
	struct wire_packet packet;
	uint8_t *copy;

	if (!sim->options->verbose)
		return;
	copy = malloc(len);
	memcpy(copy, bytes, len);
	memset(&packet, 0, sizeof(packet));
	wire_parse(copy, len, &packet);
	sim_log(sim, side, "  sends opcode %02x psn %06x%s len %u syndrome %02x", packet.opcode, packet.psn,
		packet.ack_request ? " A" : "", packet.payload_len, packet.syndrome);
	free(copy);
}

static void
tx_end(struct rc_env *env, struct rc_qp *qp, bool sealed)
{
	struct side *side = rc_user(qp);
	struct host *host = host_of(env);

	if (!sealed)
		wire_seal(host->env.begun, host->env.begun_len);
	log_frame(host->sim, side, host->env.begun, host->env.begun_len);
	network_send(host->sim, side->peer->host, host->env.begun, host->env.begun_len);
}

static bool
take_recv(struct rc_env *env, struct rc_qp *qp, struct recv_work *out)
{
	struct side *side = rc_user(qp);

	if (side->recv_taken == side->recv_posted)
		return false;
	*out = side->recv[side->recv_taken++].recv;
	return true;
}

static void
complete(struct rc_env *env, struct rc_qp *qp, const struct completion *c)
{
	struct side *side = rc_user(qp);

	if (side->failed)
		sim_fail(side->sim, side, "completion after failed()");
	if (c->type == ONE_CQE_SEND || c->type == ONE_CQE_BIND)
		workload_send_done(side->sim, side, c);
	else
		workload_recv_done(side->sim, side, c);
}

static void
stop_later(struct sim *sim, struct side *side)
{
	/* Mostly the connection manager informs the peer; sometimes the peer must detect the end itself. */
	if (side->peer->stop_at == NEVER && sim_below(sim, 4) != 0)
		side->peer->stop_at = sim->now + sim_below(sim, 20 * MS);
}

static void
failed(struct rc_env *env, struct rc_qp *qp, enum rc_error error)
{
	struct side *side = rc_user(qp);

	sim_log(side->sim, side, "failed, error %u", error);
	if (side->failed || rc_state(qp) != RC_ERROR)
		sim_fail(side->sim, side, "failed() twice or in a wrong state");
	side->failed = true;
	stop_later(side->sim, side);
}

static void
bind(struct rc_env *env, struct rc_qp *qp, const struct work *work)
{
	struct side *side = rc_user(qp);

	if (work->cookie != side->op[side->done].work.cookie)
		sim_fail(side->sim, side, "a bind was begun before earlier work had completed");
	side->bind_at = side->sim->now + sim_below(side->sim, 100 * US);
}

static bool
invalidate(struct rc_env *env, struct rc_qp *qp, uint32_t key)
{
	struct side *side = rc_user(qp);
	const struct op *op = side->recv[side->recv_done].op;

	if (side->recv_done == side->recv_taken || op->work.op != ONE_OP_SEND_INV || op->work.imm != key)
		sim_fail(side->sim, side, "invalidate of a key that no message named");
	return !(side->peer->poison == POISON_INVALIDATE && op == &side->peer->op[side->peer->poison_op]);
}

static const struct wire_packet *
hold(struct rc_env *env, const struct wire_packet *packet)
{
	struct host *host = host_of(env);

	if (sim_chance(host->sim, host->sim->weather.starve))
		return NULL;
	return test_env_hold(env, packet);
}

/* ---- set-up ---- */

static struct wire_addr
address(uint32_t host, bool v6)
{
	struct wire_addr addr = {{0}};

	if (v6) {
		addr.gid[0] = 0xfd;
	} else {
		addr.gid[10] = addr.gid[11] = 0xff;
		addr.gid[12] = 10;
	}
	addr.gid[15] = (uint8_t)(host + 1);
	return addr;
}

static void
recognized(struct rc_env *env, struct rc_qp *qp, uint16_t udp_port)
{
	struct side *side = rc_user(qp);

	side->attr.path.udp_src_port = udp_port;
	side->attr.path.tos |= WIRE_ECT;
	rc_set_path(qp, &side->attr.path);
}

/* `first`: the host's first core; NULL: this is the first. */
static void
host_new(struct sim *sim, struct host *host, uint32_t index, struct host *first)
{
	host->sim = sim;
	if (first != NULL)
		host->lost = -(uint64_t)sim_below(sim, 100 * MS);
	host->v4 = address(index, false);
	host->v6 = address(index, true);
	host->inbox_end = &host->inbox;
	host->poll_at = host->away_from = host->away_until = NEVER;
	host->give_at = host->take_at = NEVER;
	test_env_init(&host->env, sim->mem, POOL_NODES, BOARDS);
	host->env.rc.tx_begin = tx_begin;
	host->env.rc.tx_end = tx_end;
	host->env.rc.take_recv = take_recv;
	host->env.rc.complete = complete;
	host->env.rc.failed = failed;
	host->env.rc.bind = bind;
	host->env.rc.invalidate = invalidate;
	host->env.rc.hold = hold;
	host->env.rc.recognized = recognized;
	host->lane = first != NULL;
	copies_open(host, first);
}

static struct side *
side_new(struct sim *sim, struct host *host)
{
	struct side *side = calloc(1, sizeof(*side));

	side->sim = sim;
	side->host = host;
	side->index = sim->sides;
	side->stop_at = side->revoke_at = side->bind_at = side->rtu_at = NEVER;
	side->move_at = side->thaw_at = NEVER;
	side->qp = calloc(1, rc_qp_size());
	rc_init(side->qp, &host->env.rc, host->lane, side);
	sim->side[sim->sides++] = side;
	return side;
}

static void
side_areas(struct sim *sim, struct side *side, uint32_t len)
{
	uint32_t pz = 100 + side->index;

	side->attr.pz = pz;
	side->attr.access = ONE_ACCESS_REMOTE_READ | ONE_ACCESS_REMOTE_WRITE | ONE_ACCESS_REMOTE_ATOMIC;
	area_new(sim, &side->source, len, pz, ONE_ACCESS_LOCAL_READ);
	area_new(sim, &side->landing, len, pz, ONE_ACCESS_LOCAL_WRITE);
	area_new(sim, &side->receive, len, pz, ONE_ACCESS_LOCAL_WRITE);
	area_new(sim, &side->target, len, pz, side->attr.access);
	/* Not with hosts that stop: the bounds on their peers' wait (stops.c) do not include bounced
	 * accesses. */
	side->unmapped = sim_below(sim, 8) == 0 && sim->options->stops == STOPS_NONE;
	for (struct area *area = &side->source; side->unmapped && area <= &side->target; area++)
		copies_unmap(side->host, area);
	side->readable = side->target.region;
	side->readable.access = ONE_ACCESS_REMOTE_READ;
	do
		side->readable.key = (uint32_t)sim_random(sim);
	while (sim->mem->slot[mem_key_slot(sim->mem, side->readable.key)] != NULL);
	mem_publish(sim->mem, &side->readable);
}

static void
connect_sides(struct sim *sim, struct side *a, struct side *b)
{
	static const uint16_t mtus[] = {256, 512, 1024, 2048, 4096, 320, 1344, 1408, 3712, 8896};
	uint16_t mtu = mtus[sim_below(sim, 10)];
	bool v6 = sim_below(sim, 4) == 0, out_of_band = sim_below(sim, 3) == 0;
	bool oneside = !out_of_band && sim_below(sim, 2) == 0;
	bool selective = oneside && (sim->options->repeat == REPEAT_SELECTIVE ||
				     (sim->options->repeat == REPEAT_MIXED && sim_below(sim, 2) == 0));
	bool packed = selective && sim_below(sim, 2) == 0;
	uint32_t rd[2];

	for (int i = 0; i < 2; i++)
		rd[i] = 1 + sim_below(sim, 16);
	a->peer = b;
	b->peer = a;
	for (int i = 0; i < 2; i++) {
		struct side *side = i ? b : a;
		struct rc_attr *attr = &side->attr;

		attr->qpn = 0x100 + side->index;
		attr->peer_qpn = 0x100 + side->peer->index;
		/* Often just before the wrap of the 24 bits. */
		attr->send_psn = sim_below(sim, 2) ? sim_below(sim, 1 << 24) : 0xffffff - sim_below(sim, 100);
		attr->path_mtu = mtu;
		attr->rd_atomic_in = (uint8_t)rd[i];
		attr->rd_atomic_out = (uint8_t)rd[!i];
		attr->retry_count = 7;
		attr->rnr_retry = sim_below(sim, 10) == 0 && sim->options->stops == STOPS_NONE
					  ? (uint8_t)(3 + sim_below(sim, 4))
					  : 7;
		attr->min_rnr_timer = (uint8_t)(1 + sim_below(sim, 14));
		attr->timeout = 14;
		attr->oneside_peer = oneside;
		attr->selective = selective;
		attr->packed = packed;
		attr->path.src = v6 ? side->host->v6 : side->host->v4;
		attr->path.dst = v6 ? side->peer->host->v6 : side->peer->host->v4;
		attr->path.ttl = 64;
		attr->path.udp_src_port = 0xc000;
		if (out_of_band && sim->options->repeat != REPEAT_GO_BACK)
			attr->hello_port = (uint16_t)(0xc001 + side->index);
		side->ops = 1 + sim_below(sim, sim_below(sim, 4) ? 40 : MAX_OPS);
		side->depth = 1 + sim_below(sim, 64);
		side->recv_slack = 1 + sim_below(sim, 16);
	}
	a->attr.recv_psn = b->attr.send_psn;
	b->attr.recv_psn = a->attr.send_psn;
	rc_connect(a->qp, &a->attr, RC_RTS);
	/* The passive side may have to wait for the RTU. */
	rc_connect(b->qp, &b->attr, RC_RTR);
	b->rtu_at = sim_below(sim, 2) ? 0 : sim_below(sim, 10 * MS);
}

static void
set_up(struct sim *sim)
{
	uint32_t conns = 1 + sim_below(sim, sim_below(sim, 3) ? 1 : MAX_CONNS);
	uint32_t len = sim_below(sim, 12) ? 16384 : 400000, hosts;

	sim->mem = mem_table_new(10);
	sim->hosts = 2 + sim_below(sim, 2);
	weather_draw(sim);
	hosts = sim->hosts;
	for (uint32_t i = 0; i < hosts; i++)
		host_new(sim, &sim->host[i], i, NULL);
	for (uint32_t i = 0; (sim->options->moves || sim->options->takeovers) && i < hosts; i++)
		host_new(sim, &sim->host[sim->hosts++], i, &sim->host[i]);
	for (uint32_t i = 0; i < conns; i++) {
		struct side *a = side_new(sim, &sim->host[sim_below(sim, hosts)]);
		struct side *b = side_new(sim, &sim->host[sim_below(sim, hosts)]);

		side_areas(sim, a, len);
		side_areas(sim, b, len);
		connect_sides(sim, a, b);
		workload_plan(sim, a);
		workload_plan(sim, b);
	}
	stops_draw(sim);
	if (sim->options->moves)
		moves_draw(sim);
	if (sim->options->takeovers)
		takeovers_draw(sim);
	sim_log(sim, NULL,
		"%u connections, %u hosts, loss %.3f dup %.3f corrupt %.3f reorder %.3f spike %.3f", conns,
		sim->hosts, sim->weather.loss, sim->weather.duplicate, sim->weather.corrupt,
		sim->weather.reorder, sim->weather.spike);
	for (uint32_t i = 0; i < sim->sides; i++)
		sim_log(sim, sim->side[i], "%u work requests, mtu %u, poison %u at %u, psn %06x",
			sim->side[i]->ops, sim->side[i]->attr.path_mtu, sim->side[i]->poison,
			sim->side[i]->poison_op, sim->side[i]->attr.send_psn);
}

static void
tear_down(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->sides; i++) {
		struct side *side = sim->side[i];

		rc_reset(side->qp);
		workload_free(side);
		area_free(&side->source);
		area_free(&side->landing);
		area_free(&side->receive);
		area_free(&side->target);
		free(side->qp);
		free(side);
	}
	for (uint32_t i = 0; i < sim->hosts; i++) {
		for (uint32_t c = 0; c < RC_COUNT_MAX; c++)
			sim->totals->counter[c] += sim->host[i].env.rc.counter[c];
		if (sim->host[i].env.holds != 0)
			sim_fail(sim, NULL, "%u packets are still held", sim->host[i].env.holds);
		test_env_fini(&sim->host[i].env);
		copies_close(&sim->host[i]);
	}
	free(sim->heap);
	mem_table_free(sim->mem);
}

/* ---- time ---- */

static void
poll_at(struct host *host, uint64_t at)
{
	if (at < host->poll_at)
		host->poll_at = at;
}

static void
poll_soon(struct sim *sim, struct host *host)
{
	poll_at(host, sim->now + 1 + sim_below(sim, (uint32_t)sim->weather.poll_jitter + 1));
}

/* A held host cannot output: it polls again after a while. */
static void
poll_wanted(struct sim *sim, struct side *side)
{
	if (side->record != NULL || !rc_wants_output(side->qp))
		return;
	if (side->host->env.rc.throttle != RC_UNTHROTTLED)
		poll_at(side->host, sim->now + 20 * US);
	else
		poll_soon(sim, side->host);
}

static struct side *
side_by_qpn(struct sim *sim, struct host *host, uint32_t qpn)
{
	struct side *side;

	if (qpn - 0x100 >= sim->sides)
		return NULL;
	side = sim->side[qpn - 0x100];
	return wire_addr_equal(&side->host->v4, &host->v4) ? side : NULL;
}

/* Runs one loop of a polling core: all frames received, then all output wanted. */
static void
poll_host(struct sim *sim, struct host *host)
{
	uint32_t burst = sim->options->stops == STOPS_NONE ? UINT32_MAX : BURST;
	struct frame *frame, *before = NULL;

	host->poll_at = NEVER;
	while (burst-- > 0 && (frame = host->inbox) != NULL) {
		struct wire_packet packet;
		struct side *side;

		host->inbox = frame->next;
		if (host->inbox == NULL)
			host->inbox_end = &host->inbox;
		if (frame_parse(sim, host, frame, &packet)) {
			side = side_by_qpn(sim, host, packet.qpn);
			if (side == NULL)
				sim_fail(sim, NULL, "a frame came to the wrong host");
			if (moves_take(side, host, frame)) {
				poll_soon(sim, side->host);
				continue;
			}
			test_env_input(&host->env, side->qp, &packet, host_now(host));
		}
		frame_free(before);
		before = frame;
	}
	test_env_quiesce(&host->env);
	frame_free(before);
	if (host->inbox != NULL)
		poll_soon(sim, host);
	host->env.rc.throttle = sim_chance(sim, sim->weather.held) ? RC_THROTTLED : RC_UNTHROTTLED;
	for (uint32_t i = 0; i < sim->sides; i++) {
		struct side *side = sim->side[i];
		uint32_t budget = 1 + sim_below(sim, 64);

		if (side->host != host || side->record != NULL)
			continue;
		if (rc_wants_output(side->qp) && rc_output(side->qp, budget, host_now(host)) > budget)
			sim_fail(sim, side, "rc_output exceeded its budget");
		poll_wanted(sim, side);
	}
}

static void
post_some(struct sim *sim, struct side *side)
{
	uint32_t burst = 1 + sim_below(sim, side->depth);

	side->next_post = sim->now + 1 + sim_below(sim, 50 * US);
	while (burst-- > 0 && side->posted < side->ops && side->posted - side->done < side->depth) {
		int rc = rc_post(side->qp, &side->op[side->posted].work, host_now(side->host));

		if (rc != 0)
			break;
		if (side->posted == side->done)
			side->busy_since = sim->now;
		side->posted++;
		sim->totals->work++;
	}
	poll_wanted(sim, side);
	if (side->posted == side->ops || rc_state(side->qp) == RC_ERROR)
		side->next_post = NEVER;
}

static bool
is_broken(const struct side *side)
{
	return side->record == NULL && rc_state(side->qp) == RC_ERROR;
}

static void
post_receives(struct sim *sim, struct side *side)
{
	uint32_t goal = side->recv_taken + sim_below(sim, side->recv_slack + 1);

	if (goal > side->recvs)
		goal = side->recvs;
	if (goal > side->recv_posted)
		side->recv_posted = goal;
	side->next_recv = sim->now + 1 + sim_below(sim, 200 * US);
	if (side->recv_posted == side->recvs || is_broken(side) || is_broken(side->peer))
		side->next_recv = NEVER;
}

static void
side_timers(struct sim *sim, struct side *side)
{
	moves_run(sim, side);
	if (side->record != NULL)
		return;
	if (side->next_post <= sim->now)
		post_some(sim, side);
	if (side->next_recv <= sim->now)
		post_receives(sim, side);
	if (side->revoke_at <= sim->now) {
		side->revoke_at = NEVER;
		side->revoked = true;
		mem_remove(sim->mem, side->target.region.key);
		sim_log(sim, side, "revokes its key");
	}
	if (side->bind_at <= sim->now) {
		bool ok = !(side->poison == POISON_BIND && side->done == side->poison_op);

		side->bind_at = NEVER;
		rc_bind_done(side->qp, ok, host_now(side->host));
	}
	if (side->rtu_at <= sim->now) {
		side->rtu_at = NEVER;
		rc_set_rts(side->qp);
	}
	if (side->stop_at <= sim->now) {
		side->stop_at = NEVER;
		if (rc_state(side->qp) != RC_ERROR) {
			sim_log(sim, side, "is stopped");
			side->stopped = true;
			if (sim->vanish_at == NEVER)
				stop_later(sim, side);
			rc_flush(side->qp);
		}
	}
	if (side_deadline(side) <= sim->now && !stops_hold_timers(side->host))
		rc_timeout(side->qp, host_now(side->host));
	poll_wanted(sim, side);
}

static void
earlier(uint64_t *time, uint64_t other)
{
	if (other < *time)
		*time = other;
}

static uint64_t
next_time(struct sim *sim)
{
	struct frame *frame = network_next(sim);
	uint64_t time = frame != NULL ? frame->at : NEVER;

	earlier(&time, takeovers_next(sim));
	for (uint32_t i = 0; i < sim->hosts; i++) {
		earlier(&time, host_due(&sim->host[i], sim->host[i].poll_at));
		earlier(&time, host_due(&sim->host[i], sim->host[i].copy_at));
	}
	for (uint32_t i = 0; i < sim->sides; i++) {
		struct side *side = sim->side[i];
		uint64_t own = moves_next(side);

		if (side->record != NULL) {
			earlier(&time, own);
			continue;
		}
		earlier(&own, side->next_post);
		earlier(&own, side->next_recv);
		earlier(&own, side->bind_at);
		earlier(&own, side->rtu_at);
		earlier(&own, side->stop_at);
		earlier(&own, side->revoke_at);
		earlier(&own, side_deadline(side));
		earlier(&time, host_due(side->host, own));
	}
	return time;
}

/* Checks that all nodes have returned to the pool: none was lost. */
static void
check_pool(struct sim *sim, struct host *host)
{
	struct side *side = NULL;

	for (uint32_t i = 0; i < sim->sides; i++)
		if (sim->side[i]->host == host)
			side = sim->side[i];
	if (side == NULL)
		return;
	rc_reset(side->qp);
	if (host->env.rc.pool->available != POOL_NODES)
		sim_fail(sim, side, "%u of %u work nodes are in the pool", host->env.rc.pool->available,
			 POOL_NODES);
}

/* Checks that nothing was sent twice where nothing can go wrong. */
static void
check_fair(struct sim *sim)
{
	const struct weather *w = &sim->weather;
	uint64_t rnr = 0, again = 0;

	for (uint32_t i = 0; i < sim->hosts; i++) {
		rnr += sim->host[i].env.rc.counter[RC_COUNT_RNR_RECEIVED];
		again += sim->host[i].env.rc.counter[RC_COUNT_RETRANSMIT];
	}
	for (uint32_t i = 0; i < sim->sides; i++)
		rnr += sim->side[i]->failed || sim->side[i]->stopped || sim->side[i]->unmapped;
	if (w->loss + w->duplicate + w->corrupt + w->reorder + w->spike == 0 && w->jitter == 0 && rnr == 0 &&
	    sim->options->stops == STOPS_NONE && !sim->options->moves && !sim->options->takeovers &&
	    again != 0)
		sim_fail(sim, NULL, "%llu packets sent again on a perfect network",
			 (unsigned long long)again);
}

/* Checks that nothing is outstanding at the end. Rests of a loss, a READ or a late peer would disturb later
 * work. */
static void
check_rest(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->sides; i++) {
		const struct rc_qp *qp = sim->side[i]->qp;

		if (qp->req.scoreboard != NULL || qp->req.sacked != 0 || qp->rsp.scoreboard != NULL)
			sim_fail(sim, sim->side[i], "a scoreboard is left at the end");
		if (qp->req.rd_out != 0)
			sim_fail(sim, sim->side[i], "%u READs count as unanswered at the end",
				 qp->req.rd_out);
		if (qp->req.snd != qp->req.una || qp->req.max != qp->req.una || qp->rsp.pending != 0)
			sim_fail(sim, sim->side[i], "something is under way at the end");
	}
	for (uint32_t i = 0; i < sim->hosts; i++)
		if (sim->host[i].env.holds != 0)
			sim_fail(sim, NULL, "%u packets are held at the end", sim->host[i].env.holds);
}

void
sim_run(uint64_t seed, const struct options *options, struct totals *totals)
{
	struct sim *sim = calloc(1, sizeof(*sim));
	bool failure = false;
	uint64_t time;

	sim->seed = seed;
	sim->random = seed;
	sim->options = options;
	sim->totals = totals;
	sim->vanish_at = NEVER;
	set_up(sim);
	for (uint32_t events = 0; (time = next_time(sim)) != NEVER; events++) {
		struct frame *frame;

		if (time > sim->now)
			sim->now = time;
		if (events > MAX_EVENTS || sim->now > MAX_TIME)
			sim_fail(sim, NULL, "does not come to an end");
		while ((frame = network_next(sim)) != NULL && frame->at <= sim->now) {
			network_take(sim);
			*frame->to->inbox_end = frame;
			frame->to->inbox_end = &frame->next;
			poll_soon(sim, frame->to);
		}
		stops_end(sim);
		takeovers_run(sim);
		for (uint32_t i = 0; i < sim->hosts; i++)
			if (sim->host[i].poll_at <= sim->now && !host_is_away(&sim->host[i]))
				poll_host(sim, &sim->host[i]);
		for (uint32_t i = 0; i < sim->hosts; i++)
			if (sim->host[i].copy_at <= sim->now && !host_is_away(&sim->host[i])) {
				copies_run(sim, &sim->host[i]);
				poll_soon(sim, &sim->host[i]);
			}
		for (uint32_t i = 0; i < sim->sides; i++)
			if (!host_is_away(sim->side[i]->host))
				side_timers(sim, sim->side[i]);
		for (uint32_t i = 0; i < sim->hosts; i++)
			copies_await(sim, &sim->host[i]);
	}
	for (uint32_t i = 0; i < sim->sides; i++) {
		workload_check_end(sim, sim->side[i]);
		failure |= sim->side[i]->failed || sim->side[i]->stopped;
	}
	if (failure && options->stops == STOPS_PAUSE)
		sim_fail(sim, NULL, "a connection broke, and nothing was lost");
	check_fair(sim);
	if (!failure)
		check_rest(sim);
	for (uint32_t i = 0; i < sim->hosts; i++)
		check_pool(sim, &sim->host[i]);
	totals->runs++;
	totals->failures += failure;
	totals->virtual_ms += sim->now / MS;
	tear_down(sim);
	free(sim);
}
