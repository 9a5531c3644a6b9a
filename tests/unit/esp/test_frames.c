/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames through ESP, in and out: good ones pass, and no others, wherever they are damaged. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer.h"

#include "dataplane/esp/esp.h"
#include "dataplane/esp/table.h"
#include "dataplane/wire/bytes.h"

#define US 0xc0000201u
#define PEER 0xc0000202u
#define PLAIN_PEER 0xc0000203u
#define SPI_OUT 0x1001u
#define SPI_IN 0x1002u
#define SPI_NEXT 0x2002u

static char directory[] = "/tmp/oneside-esp.XXXXXX";
static struct peer_key key_out, key_in, key_next;
static struct config config;
static const char *device; /* the program's argument */
static uint64_t before[ENGINE_ESP_DROP_MAX];

static struct core *
core0(void)
{
	return engine.core[0];
}

static void
in_force(const struct config *next)
{
	struct esp_change *change;
	char why[512] = "";

	if (engine_ipsec_prepare(next, false, &change, why, sizeof(why)) != 0)
		fail_msg("%s", why);
	engine_ipsec_commit(change);
}

static void
set_sa(struct config_sa *sa, uint32_t spi, const char *name, const struct peer_key *key)
{
	sa->spi = spi;
	snprintf(sa->file, sizeof(sa->file), "%s", peer_key_file(directory, name, key));
}

static int
start(void **state)
{
	struct config_ipsec *ipsec = &config.ipsec[0];

	fixture_start(2, ONE_IDLE_SPIN);
	peer_device(device);
	assert_non_null(mkdtemp(directory));
	peer_key_random(&key_out, 36);
	peer_key_random(&key_in, 20);
	peer_key_random(&key_next, 36);
	config = fixture_config;
	snprintf(config.state, sizeof(config.state), "%s/state", directory);
	config.num_ipsec = 1;
	strcpy(ipsec->name, "peer");
	ipsec->addr.family = AF_INET;
	memcpy(ipsec->addr.bytes, (uint8_t[]){192, 0, 2, 2}, 4);
	set_sa(&ipsec->out, SPI_OUT, "out", &key_out);
	set_sa(&ipsec->in, SPI_IN, "in", &key_in);
	set_sa(&ipsec->in_next, SPI_NEXT, "next", &key_next);
	in_force(&config);
	if (device != NULL)
		assert_string_equal(esp_crypto_name(), device);
	return 0;
}

static int
stop(void **state)
{
	char line[128];

	fixture_stop();
	snprintf(line, sizeof(line), "rm -rf %s", directory);
	assert_int_equal(system(line), 0);
	return 0;
}

/* ---- helpers ---- */

static void
mark(void)
{
	memcpy(before, core0()->stats.esp_drop, sizeof(before));
}

/* `count` frames were dropped for this reason since mark(), and none for another. */
static void
assert_dropped(enum engine_esp_drop reason, uint64_t count)
{
	for (uint32_t i = 0; i < ENGINE_ESP_DROP_MAX; i++)
		assert_int_equal(core0()->stats.esp_drop[i] - before[i], i == reason ? count : 0);
}

static struct rte_mbuf *
pass_in(struct rte_mbuf *m)
{
	return esp_in(core0(), 0, &m, 1) == 1 ? m : NULL;
}

static void
assert_in_dropped(struct rte_mbuf *m, enum engine_esp_drop reason)
{
	mark();
	assert_null(pass_in(m));
	assert_dropped(reason, 1);
}

static uint64_t number_in; /* of the last packet to us */

static struct peer_packet
packet_in(const uint8_t *payload, uint32_t len)
{
	number_in++;
	return (struct peer_packet){.spi = SPI_IN,
				    .src = PEER,
				    .dst = US,
				    .number = number_in,
				    .iv = 77 * number_in,
				    .key = &key_in,
				    .proto = 17,
				    .payload = payload,
				    .len = len,
				    .pad = 0xff};
}

static void
fill(uint8_t *bytes, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)rand();
}

/* ---- in ---- */

static void
assert_plain(struct rte_mbuf *m, const uint8_t *payload, uint32_t len)
{
	uint8_t *ip = rte_pktmbuf_mtod(m, uint8_t *) + PEER_ETH;

	assert_int_equal(m->data_len, PEER_ETH + PEER_IPV4 + len);
	assert_int_equal(m->pkt_len, m->data_len);
	assert_int_equal(load_be16(ip + 2), PEER_IPV4 + len);
	assert_int_equal(ip[9], 17);
	assert_int_equal(ip[1], 0x68);
	assert_int_equal(peer_sum(ip, PEER_IPV4), 0);
	assert_memory_equal(ip + PEER_IPV4, payload, len);
}

static void
test_in_good(void **state)
{
	uint8_t payload[1000];

	for (uint32_t len = 1; len <= sizeof(payload); len += 1 + len / 10) {
		struct peer_packet packet;
		struct rte_mbuf *m;

		fill(payload, len);
		packet = packet_in(payload, len);
		m = pass_in(peer_frame(&packet));
		assert_non_null(m);
		assert_plain(m, payload, len);
		rte_pktmbuf_free(m);
	}
}

/* A burst of frames with two keys and plain frames among them: order is kept. */
static void
test_in_burst(void **state)
{
	struct rte_mbuf *frames[CORE_BURST];
	uint8_t payload[CORE_BURST][64];
	static uint64_t next;
	uint16_t left;

	for (uint32_t i = 0; i < CORE_BURST; i++) {
		struct peer_packet packet;

		fill(payload[i], 64);
		if (i % 8 == 7) {
			frames[i] = peer_plain(PLAIN_PEER, US, 17, payload[i], 64);
			continue;
		}
		packet = packet_in(payload[i], 64);
		if (i % 4 == 3) {
			packet.spi = SPI_NEXT;
			packet.key = &key_next;
			packet.number = ++next;
		}
		if (i == 9)
			packet.number = 1; /* a replay */
		frames[i] = peer_frame(&packet);
	}
	mark();
	left = esp_in(core0(), 0, frames, CORE_BURST);
	assert_int_equal(left, CORE_BURST - 1);
	assert_dropped(ENGINE_ESP_REPLAY, 1);
	for (uint32_t i = 0; i < left; i++)
		assert_plain(frames[i], payload[i < 9 ? i : i + 1], 64);
	rte_pktmbuf_free_bulk(frames, left);
}

static void
test_in_replay(void **state)
{
	uint8_t payload[32] = {1};
	struct peer_packet packet = packet_in(payload, sizeof(payload));
	struct rte_mbuf *pair[2];
	struct rte_mbuf *m = pass_in(peer_frame(&packet));

	assert_non_null(m);
	rte_pktmbuf_free(m);
	assert_in_dropped(peer_frame(&packet), ENGINE_ESP_REPLAY);
	/* A burst has the same packet twice. */
	packet = packet_in(payload, sizeof(payload));
	pair[0] = peer_frame(&packet);
	pair[1] = peer_frame(&packet);
	mark();
	assert_int_equal(esp_in(core0(), 0, pair, 2), 1);
	assert_dropped(ENGINE_ESP_REPLAY, 1);
	rte_pktmbuf_free(pair[0]);
	/* Far behind the window: the half number is taken for one of the next 2^32 numbers, which fails the
	 * ICV. */
	number_in += 3 * ESP_WINDOW;
	packet = packet_in(payload, sizeof(payload));
	rte_pktmbuf_free(pass_in(peer_frame(&packet)));
	packet.number -= 2 * ESP_WINDOW;
	assert_in_dropped(peer_frame(&packet), ENGINE_ESP_ICV);
	packet.number = 0;
	assert_in_dropped(peer_frame(&packet), ENGINE_ESP_ICV);
}

/* A forged number far ahead does not move the window. */
static void
test_in_forged(void **state)
{
	uint8_t payload[32] = {2};
	struct peer_packet packet = packet_in(payload, sizeof(payload)), forged = packet;
	struct rte_mbuf *m;

	forged.number += 1000000;
	forged.key = &key_next;
	assert_in_dropped(peer_frame(&forged), ENGINE_ESP_ICV);
	m = pass_in(peer_frame(&packet));
	assert_non_null(m);
	rte_pktmbuf_free(m);
}

/* The sender's numbers pass 2^32, while packets carry the lower half only. */
static void
test_in_extended(void **state)
{
	uint8_t payload[32] = {3};
	struct peer_packet packet;
	struct rte_mbuf *m;

	for (uint64_t number = number_in + (1u << 31); number < 3ull << 32; number += 1u << 31) {
		number_in = number;
		packet = packet_in(payload, sizeof(payload));
		m = pass_in(peer_frame(&packet));
		assert_non_null(m);
		rte_pktmbuf_free(m);
	}
	/* Equal lower halves with other upper halves. */
	packet.number -= 1ull << 32;
	assert_in_dropped(peer_frame(&packet), ENGINE_ESP_REPLAY);
	packet.number += (1ull << 32) + 1;
	packet.number += 1ull << 32;
	assert_in_dropped(peer_frame(&packet), ENGINE_ESP_ICV);
}

/* Each bit from the SPI on is flipped. */
static void
test_in_altered(void **state)
{
	uint8_t payload[24] = {4};
	struct peer_packet packet = packet_in(payload, sizeof(payload));
	struct rte_mbuf *good = peer_frame(&packet), *m;
	uint32_t len = good->data_len;

	for (uint32_t bit = (PEER_ETH + PEER_IPV4) * 8; bit < len * 8; bit++) {
		m = peer_frame(&packet);
		rte_pktmbuf_mtod(m, uint8_t *)[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_null(pass_in(m));
	}
	m = pass_in(good);
	assert_non_null(m);
	assert_plain(m, payload, sizeof(payload));
	rte_pktmbuf_free(m);
}

/* Cut at each length, with an IP header that agrees, and with one that does not: no byte behind the end is
 * read. */
static void
test_in_cut(void **state)
{
	uint8_t payload[24] = {5};
	struct peer_packet packet = packet_in(payload, sizeof(payload));
	uint32_t len = PEER_ETH + PEER_IPV4 + PEER_ESP + 28 + 16;

	for (uint32_t cut = 0; cut < len; cut++) {
		for (int agrees = 0; agrees < 2; agrees++) {
			struct rte_mbuf *m = peer_frame(&packet);
			uint8_t *ip = rte_pktmbuf_mtod(m, uint8_t *) + PEER_ETH;

			assert_int_equal(m->data_len, len);
			if (agrees && cut >= PEER_ETH) {
				store_be16(ip + 2, (uint16_t)(cut - PEER_ETH));
				store_be16(ip + 10, 0);
				store_be16(ip + 10, peer_sum(ip, PEER_IPV4));
			}
			rte_pktmbuf_trim(m, (uint16_t)(len - cut));
			m = pass_in(m);
			/* A frame without an IP header is left to the parser. */
			assert_true((m != NULL) == (cut < PEER_ETH + PEER_IPV4));
			rte_pktmbuf_free(m);
		}
	}
}

/* An authentic packet whose padding is longer than the packet. */
static void
test_in_padding(void **state)
{
	uint8_t payload[8] = {6};
	struct peer_packet packet = packet_in(payload, 4);
	struct rte_mbuf *m;

	packet.pad = 200;
	assert_in_dropped(peer_frame(&packet), ENGINE_ESP_LENGTH);
	packet = packet_in(payload, 6);
	packet.pad = 0;
	m = pass_in(peer_frame(&packet));
	assert_non_null(m);
	assert_plain(m, payload, 6);
	rte_pktmbuf_free(m);
	/* All of the packet is padding. */
	packet = packet_in(payload, 6);
	packet.pad = 6;
	m = pass_in(peer_frame(&packet));
	assert_non_null(m);
	assert_plain(m, payload, 0);
	rte_pktmbuf_free(m);
}

static void
spoil(struct rte_mbuf *m, uint32_t offset, uint16_t value)
{
	uint8_t *ip = rte_pktmbuf_mtod(m, uint8_t *) + PEER_ETH;

	store_be16(ip + offset, value);
	store_be16(ip + 10, 0);
	store_be16(ip + 10, peer_sum(ip, PEER_IPV4));
}

static void
test_in_headers(void **state)
{
	uint8_t payload[24] = {7};
	struct peer_packet packet = packet_in(payload, sizeof(payload)), other;
	struct rte_mbuf *m;

	other = packet;
	other.spi = 0x7777;
	assert_in_dropped(peer_frame(&other), ENGINE_ESP_SPI);
	other.spi = SPI_OUT; /* the SPI of the outbound SA */
	other.key = &key_out;
	assert_in_dropped(peer_frame(&other), ENGINE_ESP_SPI);
	/* The ICV does not cover the IP header. */
	other = packet;
	other.src = PLAIN_PEER;
	assert_in_dropped(peer_frame(&other), ENGINE_ESP_ADDRESS);
	other = packet;
	other.dst = PLAIN_PEER;
	assert_in_dropped(peer_frame(&other), ENGINE_ESP_ADDRESS);
	m = peer_frame(&packet);
	spoil(m, 6, 0x2000); /* a fragment */
	assert_in_dropped(m, ENGINE_ESP_LENGTH);
	m = peer_frame(&packet);
	spoil(m, 0, 0x4668); /* options */
	assert_in_dropped(m, ENGINE_ESP_LENGTH);
	m = peer_frame(&packet);
	rte_pktmbuf_mtod(m, uint8_t *)[PEER_ETH + 10] ^= 1; /* a bad header checksum */
	assert_in_dropped(m, ENGINE_ESP_LENGTH);
	m = pass_in(peer_frame(&packet));
	assert_non_null(m);
	rte_pktmbuf_free(m);
}

static void
assert_kept(struct rte_mbuf *m)
{
	mark();
	assert_ptr_equal(pass_in(m), m);
	assert_dropped(ENGINE_ESP_OK, 0);
	rte_pktmbuf_free(m);
}

/* Accepted in several buffers and with a priority tag, but not with the tag of another VLAN. */
static void
test_in_shapes(void **state)
{
	uint8_t payload[200];
	struct peer_packet packet;
	struct rte_mbuf *m, *rest;

	fill(payload, sizeof(payload));
	packet = packet_in(payload, sizeof(payload));
	m = peer_frame(&packet);
	rest = rte_pktmbuf_alloc(core0()->pool);
	assert_non_null(rest);
	memcpy(rte_pktmbuf_append(rest, 100), rte_pktmbuf_mtod(m, uint8_t *) + m->data_len - 100, 100);
	rte_pktmbuf_trim(m, 100);
	assert_int_equal(rte_pktmbuf_chain(m, rest), 0);
	m = pass_in(m);
	assert_non_null(m);
	assert_plain(m, payload, sizeof(payload));
	rte_pktmbuf_free(m);

	packet = packet_in(payload, sizeof(payload));
	m = peer_frame(&packet);
	memmove(rte_pktmbuf_prepend(m, 4), rte_pktmbuf_mtod(m, uint8_t *) + 4, 12);
	store_be16(rte_pktmbuf_mtod(m, uint8_t *) + 12, 0x8100);
	store_be16(rte_pktmbuf_mtod(m, uint8_t *) + 14, 5u << 13);
	m = pass_in(m);
	assert_non_null(m);
	assert_int_equal(m->data_len, PEER_ETH + 4 + PEER_IPV4 + sizeof(payload));
	assert_memory_equal(rte_pktmbuf_mtod(m, uint8_t *) + PEER_ETH + 4 + PEER_IPV4, payload,
			    sizeof(payload));
	rte_pktmbuf_free(m);

	/* Not decrypted, so that no window moves: the parser drops the frame. */
	m = peer_frame(&packet);
	memmove(rte_pktmbuf_prepend(m, 4), rte_pktmbuf_mtod(m, uint8_t *) + 4, 12);
	store_be16(rte_pktmbuf_mtod(m, uint8_t *) + 12, 0x8100);
	store_be16(rte_pktmbuf_mtod(m, uint8_t *) + 14, 5);
	assert_kept(m);
}

static void
test_in_plain(void **state)
{
	uint8_t payload[64] = {8};
	struct rte_mbuf *m;

	assert_in_dropped(peer_plain(PEER, US, 17, payload, sizeof(payload)), ENGINE_ESP_PLAIN);
	assert_in_dropped(peer_plain(PEER, US, 1, payload, sizeof(payload)), ENGINE_ESP_PLAIN);
	m = peer_plain(PEER, US, 17, payload, sizeof(payload));
	spoil(m, 6, 0x2000);
	assert_in_dropped(m, ENGINE_ESP_PLAIN);
	assert_kept(peer_plain(PLAIN_PEER, US, 17, payload, sizeof(payload)));
	m = peer_plain(PEER, US, 17, payload, sizeof(payload));
	store_be16(rte_pktmbuf_mtod(m, uint8_t *) + 12, 0x0806); /* ARP */
	assert_kept(m);
}

/* ---- out ---- */

static struct rte_mbuf *
pass_out(struct rte_mbuf *m, uint32_t mtu)
{
	return esp_out(core0(), 0, mtu, &m, 1) == 1 ? m : NULL;
}

static void
test_out(void **state)
{
	uint8_t payload[1400], inside[1500];
	uint64_t number = 0, iv = 0;

	for (uint32_t len = 1; len <= sizeof(payload); len += 1 + len / 10) {
		struct peer_packet packet;
		struct rte_mbuf *m;

		fill(payload, len);
		m = pass_out(peer_plain(US, PEER, 17, payload, len), 1500);
		assert_non_null(m);
		assert_true(m->data_len <= PEER_ETH + PEER_IPV4 + len + ESP_OVERHEAD);
		/* Passes again, as a frame that the port did not take. */
		assert_ptr_equal(pass_out(m, 1500), m);
		assert_true(peer_open(m, &key_out, 0, &packet, inside));
		assert_int_equal(packet.spi, SPI_OUT);
		assert_int_equal(packet.proto, 17);
		assert_int_equal(packet.src, US);
		assert_int_equal(packet.len, len);
		assert_memory_equal(inside, payload, len);
		assert_true(packet.number == number + 1 && (number == 0 || packet.iv == iv + 1));
		number = packet.number;
		iv = packet.iv;
		rte_pktmbuf_free(m);
	}
}

/* Sequence numbers pass 2^32 inside a burst: the ICV of each packet covers its own upper half. */
static void
test_out_extended(void **state)
{
	struct esp_sa *sa = atomic_load(&esp_table)->peer[0].out;
	uint64_t next = atomic_load(&sa->next), wrap = 1ull << 32;
	uint8_t payload[64] = {12}, inside[128];
	struct rte_mbuf *frames[8];

	atomic_store(&sa->ceiling, 2 * wrap);
	atomic_store(&sa->wake_at, UINT64_MAX);
	atomic_store(&sa->next, wrap - 4);
	for (uint32_t i = 0; i < 8; i++)
		frames[i] = peer_plain(US, PEER, 17, payload, sizeof(payload));
	assert_int_equal(esp_out(core0(), 0, 1500, frames, 8), 8);
	for (uint32_t i = 0; i < 8; i++) {
		struct peer_packet packet;

		assert_true(peer_open(frames[i], &key_out, i / 4, &packet, inside));
		assert_true(packet.number == wrap - 4 + i);
		rte_pktmbuf_free(frames[i]);
	}
	atomic_store(&sa->next, next);
}

static void
test_out_policy(void **state)
{
	uint8_t payload[1460] = {9};
	struct rte_mbuf *m = peer_plain(US, PLAIN_PEER, 17, payload, 64), *frames[3];

	assert_ptr_equal(pass_out(m, 1500), m);
	assert_int_equal(m->data_len, PEER_ETH + PEER_IPV4 + 64);
	rte_pktmbuf_free(m);
	/* Longer than the MTU with ESP: dropped, and the next frames move up. */
	frames[0] = peer_plain(US, PLAIN_PEER, 17, payload, 64);
	frames[1] = peer_plain(US, PEER, 17, payload, sizeof(payload));
	frames[2] = m = peer_plain(US, PEER, 17, payload, 64);
	mark();
	assert_int_equal(esp_out(core0(), 0, 1500, frames, 3), 2);
	assert_dropped(ENGINE_ESP_LENGTH, 1);
	assert_ptr_equal(frames[1], m);
	assert_int_equal(rte_pktmbuf_mtod(m, uint8_t *)[PEER_ETH + 9], 50);
	rte_pktmbuf_free_bulk(frames, 2);
	/* By another port than the section's. */
	m = peer_plain(US, PEER, 17, payload, 64);
	mark();
	assert_int_equal(esp_out(core0(), 1, 1500, &m, 1), 0);
	assert_dropped(ENGINE_ESP_NO_SA, 1);
}

/* At the hard limit nothing leaves, neither plain nor encrypted; a new limit resumes sending. */
static void
test_limit(void **state)
{
	static struct config limited;
	const struct esp_table *table;
	uint8_t payload[64] = {10};
	struct rte_mbuf *m;
	uint64_t packets;

	limited = config;
	table = atomic_load(&esp_table);
	packets = atomic_load(&table->peer[0].out->packets);
	limited.ipsec[0].hard_packets = packets + 2;
	in_force(&limited);
	for (int i = 0; i < 2; i++) {
		m = pass_out(peer_plain(US, PEER, 17, payload, 64), 1500);
		assert_non_null(m);
		rte_pktmbuf_free(m);
	}
	mark();
	assert_null(pass_out(peer_plain(US, PEER, 17, payload, 64), 1500));
	assert_dropped(ENGINE_ESP_LIMIT, 1);
	in_force(&config);
	m = pass_out(peer_plain(US, PEER, 17, payload, 64), 1500);
	assert_non_null(m);
	rte_pktmbuf_free(m);
}

/* The core that receives the first good packet owns the window. Other cores hand over frames unchanged. */
static void
test_owner(void **state)
{
	uint8_t payload[64] = {11};
	struct peer_packet packet = packet_in(payload, sizeof(payload));
	struct rte_mbuf *m = peer_frame(&packet), *held;
	uint16_t len = m->data_len;

	held = m;
	assert_int_equal(esp_in(engine.core[1], 0, &m, 1), 0);
	assert_int_equal(rte_ring_dequeue(core0()->inbound, (void **)&m), 0);
	assert_ptr_equal(m, held);
	assert_int_equal(m->data_len, len);
	assert_true(frame_info(m)->esp && !frame_info(m)->parsed);
	/* The owner handles the frame as one from its own queue. */
	assert_int_equal(rte_ring_enqueue(core0()->inbound, m), 0);
	mark();
	packet.number = core0()->stats.esp_received;
	turn(1);
	assert_true(core0()->stats.esp_received == packet.number + 1);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_good),     cmocka_unit_test(test_in_burst),
		cmocka_unit_test(test_in_replay),   cmocka_unit_test(test_in_forged),
		cmocka_unit_test(test_in_altered),  cmocka_unit_test(test_in_cut),
		cmocka_unit_test(test_in_padding),  cmocka_unit_test(test_in_headers),
		cmocka_unit_test(test_in_shapes),   cmocka_unit_test(test_in_plain),
		cmocka_unit_test(test_in_extended), cmocka_unit_test(test_out),
		cmocka_unit_test(test_out_policy),  cmocka_unit_test(test_limit),
		cmocka_unit_test(test_owner),       cmocka_unit_test(test_out_extended),
	};

	device = argc > 1 ? argv[1] : NULL;
	return cmocka_run_group_tests(tests, start, stop);
}
