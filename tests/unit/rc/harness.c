/* SPDX-License-Identifier: BSD-3-Clause */
#include "harness.h"

#define BOARDS 2u /* one for each direction */
#define KEY_A_LOCAL 0x11000101u
#define KEY_A_REMOTE 0x22000202u
#define KEY_B_LOCAL 0x33000303u
#define KEY_B_REMOTE 0x44000404u

static struct end *
end_of(struct rc_env *env)
{
	return (struct end *)env;
}

static uint8_t *
tx_begin(struct rc_env *env, struct rc_qp *qp, uint32_t len)
{
	struct end *end = end_of(env);

	assert_null(end->env.begun);
	if (end->starve)
		return NULL;
	assert_true(end->num_out < FRAMES);
	end->frames++;
	return test_env_begin(env, qp, len);
}

static void
tx_end(struct rc_env *env, struct rc_qp *qp, bool sealed)
{
	struct end *end = end_of(env);
	struct frame *frame = &end->out[end->num_out++];

	assert_non_null(end->env.begun);
	frame->bytes = end->env.begun;
	frame->len = end->env.begun_len;
	end->env.begun = NULL;
	if (!sealed)
		wire_seal(frame->bytes, frame->len);
	assert_int_equal(wire_parse(frame->bytes, frame->len, &frame->packet), WIRE_OK);
}

static bool
take_recv(struct rc_env *env, struct rc_qp *qp, struct recv_work *out)
{
	struct end *end = end_of(env);

	if (end->recv_head == end->recv_tail)
		return false;
	*out = end->recv[end->recv_head++];
	return true;
}

static void
complete(struct rc_env *env, struct rc_qp *qp, const struct completion *c)
{
	struct end *end = end_of(env);

	assert_int_equal(end->failures, 0);
	assert_true(end->num_done < RECORDS);
	end->silent[end->num_done] = end->retired;
	end->done[end->num_done++] = *c;
}

static void
retired(struct rc_env *env, struct rc_qp *qp, uint32_t count)
{
	struct end *end = end_of(env);

	assert_int_equal(end->failures, 0);
	end->retired += count;
}

static void
failed(struct rc_env *env, struct rc_qp *qp, enum rc_error error)
{
	struct end *end = end_of(env);

	assert_int_equal(rc_state(qp), RC_ERROR);
	end->failures++;
	end->error = error;
}

static void
bind(struct rc_env *env, struct rc_qp *qp, const struct work *work)
{
	struct end *end = end_of(env);

	end->bound = *work;
	end->binds++;
	if (end->bind_at_once)
		rc_bind_done(qp, end->bind_result, 0);
}

static bool
invalidate(struct rc_env *env, struct rc_qp *qp, uint32_t key)
{
	struct end *end = end_of(env);

	end->invalidated = key;
	end->invalidations++;
	return !end->refuse_invalidate;
}

static void
established(struct rc_env *env, struct rc_qp *qp)
{
	end_of(env)->established++;
	if (!end_of(env)->stays)
		rc_set_rts(qp);
}

static void
recognized(struct rc_env *env, struct rc_qp *qp, uint16_t udp_port)
{
	struct end *end = end_of(env);

	end->attr.path.udp_src_port = udp_port;
	end->attr.path.tos |= WIRE_ECT;
	rc_set_path(qp, &end->attr.path);
}

static struct wire_addr
v4(uint8_t last)
{
	struct wire_addr addr = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last}};

	return addr;
}

static void
end_init(struct pair *pair, struct end *end, struct end *peer, const struct pair_options *o, bool is_a)
{
	struct rc_attr *attr = &end->attr;

	end->peer = peer;
	test_env_init(&end->env, pair->mem, POOL, BOARDS);
	end->env.rc.yields = o->yields;
	end->env.rc.tx_begin = tx_begin;
	end->env.rc.tx_end = tx_end;
	end->env.rc.take_recv = take_recv;
	end->env.rc.complete = complete;
	end->env.rc.retired = retired;
	end->env.rc.failed = failed;
	end->env.rc.bind = bind;
	end->env.rc.invalidate = invalidate;
	end->env.rc.established = established;
	end->env.rc.recognized = recognized;
	end->area = calloc(1, AREA);
	end->local = (struct mem_region){
		.key = is_a ? KEY_A_LOCAL : KEY_B_LOCAL,
		.pz = 7,
		.access = ONE_ACCESS_LOCAL_READ | ONE_ACCESS_LOCAL_WRITE,
		.va = 0x100000000ull,
		.length = AREA,
		.base = end->area,
	};
	end->remote = end->local;
	end->remote.key = is_a ? KEY_A_REMOTE : KEY_B_REMOTE;
	end->remote.access = ONE_ACCESS_REMOTE_READ | ONE_ACCESS_REMOTE_WRITE | ONE_ACCESS_REMOTE_ATOMIC;
	mem_publish(pair->mem, &end->local);
	mem_publish(pair->mem, &end->remote);

	attr->peer_yields = o->peer_yields;
	attr->qpn = is_a ? 0x111 : 0x222;
	attr->peer_qpn = is_a ? 0x222 : 0x111;
	attr->pz = 7;
	attr->access = end->remote.access;
	attr->send_psn = is_a ? o->psn : 0x500;
	attr->recv_psn = is_a ? 0x500 : o->psn;
	attr->path_mtu = o->mtu;
	attr->rd_atomic_in = o->rd_atomic;
	attr->rd_atomic_out = o->rd_atomic;
	attr->retry_count = o->retry_count;
	attr->rnr_retry = o->rnr_retry;
	attr->min_rnr_timer = 12;
	attr->timeout = o->timeout;
	attr->oneside_peer = !o->other_peer;
	attr->selective = o->selective || o->packed;
	attr->packed = o->packed;
	attr->path.src = v4(is_a ? 1 : 2);
	attr->path.dst = v4(is_a ? 2 : 1);
	attr->path.ttl = 64;
	attr->path.udp_src_port = 0xc001;
	if (o->hello)
		attr->hello_port = is_a ? HELLO_PORT_A : HELLO_PORT_B;

	end->qp = calloc(1, rc_qp_size());
	rc_init(end->qp, &end->env.rc, 0, end);
	rc_connect(end->qp, attr, is_a || o->b_state == 0 ? RC_RTS : o->b_state);
}

struct pair *
pair_new(const struct pair_options *options)
{
	struct pair_options o = {0};
	struct pair *pair = calloc(1, sizeof(*pair));

	if (options != NULL)
		o = *options;
	if (o.mtu == 0)
		o.mtu = 1024;
	if (o.rd_atomic == 0)
		o.rd_atomic = 4;
	if (o.retry_count == 0)
		o.retry_count = 7;
	if (o.rnr_retry == 0)
		o.rnr_retry = 7;
	if (o.timeout == 0)
		o.timeout = 14;
	if (o.psn == 0)
		o.psn = 0x1000;
	wire_init();
	pair->now = 1000;
	pair->mem = mem_table_new(8);
	end_init(pair, &pair->a, &pair->b, &o, true);
	end_init(pair, &pair->b, &pair->a, &o, false);
	return pair;
}

void
drop_one(struct end *from)
{
	assert_true(from->num_out > 0);
	free(from->out[0].bytes);
	from->num_out--;
	memmove(from->out, from->out + 1, from->num_out * sizeof(from->out[0]));
}

static void
end_free(struct end *end)
{
	rc_reset(end->qp);
	assert_int_equal(end->env.holds, 0);
	while (end->num_out > 0)
		drop_one(end);
	test_env_fini(&end->env);
	free(end->area);
	free(end->qp);
}

void
pair_free(struct pair *pair)
{
	end_free(&pair->a);
	end_free(&pair->b);
	mem_table_free(pair->mem);
	free(pair);
}

void
flush_output(struct pair *pair, struct end *end)
{
	for (int i = 0; i < 1000 && rc_wants_output(end->qp); i++) {
		if (end->starve)
			return;
		rc_output(end->qp, 32, pair->now);
	}
	assert_false(rc_wants_output(end->qp));
}

bool
deliver_in_burst(struct pair *pair, struct end *from)
{
	struct end *to = from->peer;
	struct frame frame;

	if (from->num_out == 0)
		return false;
	frame = from->out[0];
	from->num_out--;
	memmove(from->out, from->out + 1, from->num_out * sizeof(from->out[0]));
	if (pair->lose != NULL && pair->lose(pair, from, &frame)) {
		free(frame.bytes);
		return true;
	}
	assert_int_equal(test_env_parse(&to->env, frame.bytes, frame.len, &frame.packet), WIRE_OK);
	free(to->input);
	to->input = frame.bytes;
	test_env_input(&to->env, to->qp, &frame.packet, pair->now);
	pair->last_moved++;
	return true;
}

void
end_burst(struct end *to)
{
	test_env_quiesce(&to->env);
	free(to->input);
	to->input = NULL;
}

bool
deliver_one(struct pair *pair, struct end *from)
{
	bool delivered = deliver_in_burst(pair, from);

	end_burst(from->peer);
	return delivered;
}

/* Deliver all that `from` has to send; returns false if nothing was sent. */
static bool
deliver_all(struct pair *pair, struct end *from)
{
	bool moved = false;

	pair->now += US;
	flush_output(pair, from);
	while (deliver_in_burst(pair, from))
		moved = true;
	end_burst(from->peer);
	return moved;
}

void
pump(struct pair *pair)
{
	bool moved = true;

	pair->last_moved = 0;
	for (int rounds = 0; moved; rounds++) {
		assert_true(rounds < 10000);
		moved = deliver_all(pair, &pair->a);
		moved |= deliver_all(pair, &pair->b);
	}
}

bool
run_timer(struct pair *pair)
{
	uint64_t a = rc_deadline(pair->a.qp), b = rc_deadline(pair->b.qp), next = a < b ? a : b;

	if (next == RC_NEVER)
		return false;
	if (next > pair->now)
		pair->now = next;
	if (a <= pair->now)
		rc_timeout(pair->a.qp, pair->now);
	if (b <= pair->now)
		rc_timeout(pair->b.qp, pair->now);
	return true;
}

struct work
make_work(struct end *end, uint8_t op, uint64_t cookie, uint64_t offset, uint32_t len, uint64_t remote_offset)
{
	struct work work;

	memset(&work, 0, sizeof(work));
	work.op = op;
	work.cookie = cookie;
	work.length = len;
	work.num_sge = 1;
	work.sge[0].addr = end->local.va + offset;
	work.sge[0].len = len;
	work.sge[0].lkey = end->local.key;
	work.remote_addr = end->peer->remote.va + remote_offset;
	work.rkey = end->peer->remote.key;
	return work;
}

void
post(struct pair *pair, struct end *end, const struct work *work)
{
	assert_int_equal(rc_post(end->qp, work, pair->now), 0);
}

void
post_simple(struct pair *pair, struct end *end, uint8_t op, uint64_t cookie, uint64_t offset, uint32_t len,
	    uint64_t remote_offset)
{
	struct work work = make_work(end, op, cookie, offset, len, remote_offset);

	post(pair, end, &work);
}

struct recv_work *
post_recv(struct end *end, uint64_t cookie, uint64_t offset, uint32_t len)
{
	struct recv_work *recv = &end->recv[end->recv_tail++];

	assert_true(end->recv_tail <= 64);
	memset(recv, 0, sizeof(*recv));
	recv->cookie = cookie;
	recv->length = len;
	recv->num_sge = 1;
	recv->sge[0].addr = end->local.va + offset;
	recv->sge[0].len = len;
	recv->sge[0].lkey = end->local.key;
	return recv;
}

void
inject(struct pair *pair, struct end *from, const struct wire_build *build, const void *payload)
{
	struct wire_template template;
	struct wire_packet packet;
	struct wire_build b = *build;
	uint8_t *frame, *at;
	uint32_t len;

	if (b.qpn == 0)
		b.qpn = from->attr.peer_qpn;
	wire_template_init(&template, &from->attr.path);
	len = wire_frame_len(&template, b.opcode, b.payload_len);
	frame = malloc(len);
	at = wire_build(&template, &b, frame);
	if (payload != NULL)
		memcpy(at, payload, b.payload_len);
	else
		memset(at, 0x5a, b.payload_len);
	wire_seal(frame, len);
	assert_int_equal(wire_parse(frame, len, &packet), WIRE_OK);
	rc_input(from->peer->qp, &packet, pair->now);
	free(frame);
}

uint64_t
load64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return v;
}

void
store64(uint8_t *p, uint64_t v)
{
	memcpy(p, &v, 8);
}

void
fill(uint8_t *area, uint32_t len, uint32_t seed)
{
	for (uint32_t i = 0; i < len; i++) {
		seed = seed * 1664525u + 1013904223u;
		area[i] = (uint8_t)(seed >> 24);
	}
}

void
expect_done(struct end *end, uint32_t index, uint64_t cookie, uint8_t type, uint8_t status, uint32_t length)
{
	const struct completion *c = &end->done[index];

	assert_true(index < end->num_done);
	assert_int_equal(c->cookie, cookie);
	assert_int_equal(c->type, type);
	assert_int_equal(c->status, status);
	if (status == ONE_STATUS_SUCCESS)
		assert_int_equal(c->length, length);
}

void
expect_reply(struct end *end, uint8_t syndrome, uint32_t psn)
{
	const struct wire_packet *packet;

	assert_true(end->num_out > 0);
	packet = &end->out[end->num_out - 1].packet;
	assert_int_equal(packet->opcode, WIRE_ACKNOWLEDGE);
	assert_int_equal(packet->syndrome, syndrome);
	assert_int_equal(packet->psn, psn & 0xffffff);
}
