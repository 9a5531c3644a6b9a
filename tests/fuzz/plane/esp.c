/* SPDX-License-Identifier: BSD-3-Clause */
/* Protected frames from the port, by a peer with the keys and by one without: authentic new frames yield what
 * was protected, all others are refused, and the inner frame reaches the transport as a plain one would. */
#include <string.h>

#include "dataplane/esp/esp.h"
#include "dataplane/wire/bytes.h"
#include "plane.h"
#include "roce.h"
#include "sender.h"

#define BURST 8u
#define PLAIN_MAX 1200u

#define HOW_LEN 10u /* bytes that select how a frame is protected */
#define TURNS_MAX 4096u
#define GROWTH 80u /* bytes that ESP adds, at most */

/* SHAPE_FOREIGN changes a VLAN tag from a priority tag (VLAN 0), which is the port's own network, to VLAN 5.
 */
enum { SHAPE_VLAN = 1, SHAPE_CHAINED = 2, SHAPE_FOREIGN = 4 };

static uint8_t frame[ROCE_ROOM];
static struct sent sent[BURST];

static struct core *
core0(void)
{
	return engine.core[0];
}

/* ---- from the port ---- */

/* Receives a frame behind those that the queue pairs have sent and that the port loops back; returns when all
 * have been handled. */
static void
receive(const uint8_t *bytes, uint32_t len)
{
	uint32_t turns = 0;

	plane_receive(bytes, len);
	while (core0()->rx_more && turns++ < TURNS_MAX)
		plane_turn(1000);
	if (core0()->rx_more)
		fuzz_fail("the port never falls silent");
}

static void
by_port(const struct sent *one)
{
	uint64_t before = core0()->stats.esp_received, highest = one->from->sa->window.highest;
	bool may = sender_may(one), must, taken;

	receive(one->frame, one->len);
	must = sender_must(one, highest, 1);
	taken = core0()->stats.esp_received != before;
	if (taken && !may)
		fuzz_fail("a frame is taken that is not authentic, or not new");
	if (!taken && must)
		fuzz_fail("a good frame is not taken");
	sender_note(one, taken);
}

static void
protected_roce(struct bytes *record)
{
	struct bytes first = *record;
	uint32_t len;

	record_fill(record, frame, HOW_LEN); /* the frame's fields follow */
	len = roce_built(record, frame);
	first.left = first.left < HOW_LEN ? first.left : HOW_LEN;
	if (len == 0 || len + GROWTH > SENDER_ROOM || len + GROWTH > plane_frame_room())
		return;
	sender_wrap(&first, frame, len, &sent[0]);
	by_port(&sent[0]);
}

static void
protected_bytes(struct bytes *record)
{
	sender_send(record, (uint32_t)record_number(record, 2) % PLAIN_MAX, &sent[0]);
	by_port(&sent[0]);
}

/* Inputs a frame of the peer without ESP. */
static void
plain_roce(struct bytes *record)
{
	uint64_t before = core0()->stats.esp_drop[ENGINE_ESP_PLAIN];
	uint32_t len = roce_built(record, frame);

	if (len == 0)
		return;
	receive(frame, len);
	if (core0()->stats.esp_drop[ENGINE_ESP_PLAIN] - before != (senders_encrypt() ? 1 : 0))
		fuzz_fail("the policy is not kept");
}

static void
anything(struct bytes *record)
{
	uint32_t len = roce_raw(record, frame);

	if (len > 0)
		receive(frame, len);
}

/* ---- bursts, and the outcome of each frame ---- */

static struct rte_mbuf *
buffer(const uint8_t *from, uint32_t len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(core0()->pool);

	if (m == NULL)
		fuzz_fail("no packet buffer is left");
	memcpy(rte_pktmbuf_append(m, (uint16_t)len), from, len);
	return m;
}

static struct rte_mbuf *
shaped(const struct sent *one, uint8_t shape)
{
	uint32_t first = (shape & SHAPE_CHAINED) != 0 ? one->len * (shape >> 3) / 32 : one->len;
	struct rte_mbuf *m = buffer(one->frame, first);

	if (first < one->len && rte_pktmbuf_chain(m, buffer(one->frame + first, one->len - first)) != 0)
		fuzz_fail("no chain");
	if ((shape & SHAPE_VLAN) != 0 && first >= SENDER_ETH) {
		uint8_t *data = (uint8_t *)rte_pktmbuf_prepend(m, 4);

		memmove(data, data + 4, 12);
		store_be16(data + 12, 0x8100);
		store_be16(data + 14, (shape & SHAPE_FOREIGN) != 0 ? 5 : 0xa000);
	}
	return m;
}

static bool
is_foreign(const struct rte_mbuf *m)
{
	const uint8_t *data = rte_pktmbuf_mtod(m, const uint8_t *);

	return m->data_len >= SENDER_ETH + 4 && load_be16(data + 12) == 0x8100 && load_be16(data + 14) == 5;
}

/* The frame must be the one that was protected. */
static void
check_inside(const struct sent *one, struct rte_mbuf *m)
{
	const uint8_t *data = rte_pktmbuf_mtod(m, const uint8_t *), *ip;
	uint32_t tag = load_be16(data + 12) == 0x8100 ? 4 : 0, headers = SENDER_ETH + tag + one->from->ip_len;

	ip = data + SENDER_ETH + tag;
	if (m->nb_segs != 1 || m->pkt_len != m->data_len || m->data_len != headers + one->inside)
		fuzz_fail("its length is not that of what was protected");
	if (memcmp(data + headers, one->plain, RTE_MIN(one->inside, one->plain_len)) != 0)
		fuzz_fail("it is not what was protected");
	if (one->from->v4 ? load_be16(ip + 2) != 20 + one->inside || ip[9] != one->proto
			  : load_be16(ip + 4) != one->inside || ip[6] != one->proto)
		fuzz_fail("its IP header does not say what is in it");
}

/* The window is unchanged, or was moved by one of these frames. */
static void
check_highest(uint32_t num, const struct sender *of, uint64_t before)
{
	uint64_t after = of->sa->window.highest;

	for (uint32_t i = 0; i < num; i++)
		if (sent[i].from == of && sent[i].authentic && sent[i].number == after)
			return;
	if (after != before)
		fuzz_fail("the window was moved by what is not authentic");
}

struct burst {
	uint32_t num;
	uint16_t port;
	uint64_t highest[SENDERS];
	uint32_t len[BURST];
	bool foreign[BURST]; /* tagged for another VLAN: ESP leaves the frame for the parser to drop */
	struct rte_mbuf *frame[BURST];
};

/* `left`: the frame came out of the burst, either accepted as ESP or unchanged, because damage made it a
 * plain frame of another host. */
static void
settle_one(const struct burst *burst, uint32_t i, bool left)
{
	const struct sent *one = &sent[i];
	bool taken = left && burst->frame[i]->pkt_len != burst->len[i];

	if (burst->foreign[i]) {
		if (!left || taken)
			fuzz_fail("ESP takes a frame of another VLAN");
		sender_note(one, false);
		return;
	}
	if (left && !taken && one->headers_whole)
		fuzz_fail("ESP is let through as it is");
	if (taken && (burst->port != 0 || !sender_may(one)))
		fuzz_fail("a frame of a burst is taken that is not authentic, or not new");
	if (!taken && burst->port == 0 && sender_must(one, burst->highest[one->from - sender], burst->num))
		fuzz_fail("a good frame of a burst is not taken");
	if (taken && one->headers_whole)
		check_inside(one, burst->frame[i]);
	sender_note(one, taken);
}

static void
pass(struct burst *burst)
{
	struct rte_mbuf *frames[BURST];
	uint32_t kept, next = 0;

	memcpy(frames, burst->frame, sizeof(frames));
	for (uint32_t i = 0; i < SENDERS; i++)
		burst->highest[i] = sender[i].sa->window.highest;
	kept = esp_in(core0(), burst->port, frames, (uint16_t)burst->num);
	for (uint32_t i = 0; i < burst->num; i++) {
		bool left = next < kept && frames[next] == burst->frame[i];

		settle_one(burst, i, left);
		next += left;
	}
	if (next != kept)
		fuzz_fail("frames changed their order");
	for (uint32_t i = 0; i < SENDERS; i++)
		check_highest(burst->num, &sender[i], burst->highest[i]);
	rte_pktmbuf_free_bulk(frames, kept);
}

static void
many(struct bytes *record)
{
	struct burst burst = {.port = (uint16_t)record_number(record, 1) % 8 == 7};

	while (burst.num < BURST && record->left > 0) {
		uint32_t i = burst.num++;
		uint8_t shape = (uint8_t)record_number(record, 1);

		sender_send(record, (uint32_t)record_number(record, 1), &sent[i]);
		burst.frame[i] = shaped(&sent[i], shape);
		burst.foreign[i] = is_foreign(burst.frame[i]);
		burst.len[i] = burst.frame[i]->pkt_len;
	}
	pass(&burst);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const kinds[])(struct bytes *) = {protected_roce,  protected_roce, many,    many,
							protected_bytes, plain_roce,     anything};
	struct bytes input = {data, size}, record = {data, 0};

	plane_begin();
	record_next(&input, &record);
	senders_begin(&record);
	while (record_next(&input, &record)) {
		uint8_t kind = (uint8_t)record_number(&record, 1) % (RTE_DIM(kinds) + 4);

		if (kind < RTE_DIM(kinds))
			kinds[kind](&record);
		else
			plane_record(kind - RTE_DIM(kinds), &record);
	}
	senders_end();
	plane_end();
	return 0;
}
