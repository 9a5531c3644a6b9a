/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits, and malformed frames of every length. */
#include "fixture.h"

/* ---- limits ---- */

static void
test_replies_are_limited(void **state)
{
	struct fixture *f = *state;
	uint8_t frame[128];
	uint32_t len = echo4(frame, v4(192, 0, 2, 2), v4(192, 0, 2, 1), 10);

	for (int i = 0; i < 5000; i++)
		introduce(f, 2, peer_mac, SECOND);
	assert_int_equal(f->sent, 100);
	for (int i = 0; i < 5000; i++)
		neigh_input(f->neigh, 0, frame, len, SECOND);
	assert_int_equal(f->sent, 1100);
	assert_int_equal(f->neigh->stats.rate_limited, 4900 + 4000);
	introduce(f, 2, peer_mac, 2 * SECOND); /* later replies are sent again */
	assert_int_equal(f->sent, 1101);
}

/* Replaces the ports by one on 10.0.0.0/8, for tests with many hosts. */
static void
use_wide_link(struct fixture *f)
{
	struct neigh_port wide = {.addr = v4(10, 0, 0, 1), .prefix = 8};

	memcpy(wide.mac, our_mac, 6);
	neigh_free(f->neigh);
	f->neigh = neigh_new(&f->env, &wide, 1);
	assert_non_null(f->neigh);
}

/* Resolves hosts of 10.NET/16 from the first on until there is no room; returns their number. */
static uint32_t
ask_for_all(struct fixture *f, uint8_t net, uint32_t asker, uint64_t now)
{
	uint32_t n = 0;
	uint8_t mac[6];

	for (; n < 65536; n++) {
		struct wire_addr next = v4(10, net, (uint8_t)(n >> 8), (uint8_t)n);
		int ret = neigh_resolve(f->neigh, 0, &next, now, mac, asker, NULL);

		if (ret == -ENOBUFS)
			break;
		assert_int_equal(ret, -EINPROGRESS);
	}
	return n;
}

static void
run_out(struct fixture *f)
{
	while (neigh_deadline(f->neigh) != NEIGH_NEVER)
		neigh_timeout(f->neigh, neigh_deadline(f->neigh));
}

static void
test_table_is_bounded(void **state)
{
	struct fixture *f = *state;
	uint8_t mac[6], frame[64];
	struct wire_addr friend = v4(10, 200, 0, 1), own = v4(10, 0, 0, 1);
	uint64_t now = SECOND;

	use_wide_link(f);
	/* More strangers than entries send requests, slowly enough to be answered: entries in use remain. */
	for (uint32_t i = 0; i < NEIGH_ENTRIES + 500; i++) {
		struct wire_addr stranger = v4(10, 1, (uint8_t)(i >> 8), (uint8_t)i);
		uint32_t len = arp_frame(frame, everyone, 1, peer_mac, stranger, (uint8_t[6]){0}, own);
		now += SECOND / 1000;
		neigh_input(f->neigh, 0, frame, len, now);
	}
	assert_int_equal(known(f), NEIGH_ENTRIES);
	assert_int_equal(f->sent, NEIGH_ENTRIES + 500);
	/* a resolution of ours replaces the entry unused for longest */
	assert_int_equal(neigh_resolve(f->neigh, 0, &friend, now, mac, ME, NULL), -EINPROGRESS);
	assert_int_equal(known(f), NEIGH_ENTRIES);
	/* resolutions in progress are bounded, too */
	assert_int_equal(ask_for_all(f, 2, NEIGH_NOBODY, now), NEIGH_ENTRIES - 1);
	assert_true(f->neigh->stats.queries <= 101);
	run_out(f);
	assert_int_equal(known(f), 0);
}

/* An asker of many absent hosts leaves entries to others, whose queries are sent soon. */
static void
test_askers_share(void **state)
{
	struct fixture *f = *state;
	const uint32_t share = NEIGH_ENTRIES - NEIGH_ENTRIES / 4;
	struct waiting other = {0};
	struct wire_addr friend = v4(10, 200, 0, 1);
	uint64_t now = SECOND;
	uint8_t mac[6], frame[64];
	uint32_t len = arp_frame(frame, our_mac, 2, peer_mac, friend, our_mac, v4(10, 0, 0, 1)), before;

	use_wide_link(f);
	assert_int_equal(ask_for_all(f, 2, ME, now), share);
	/* Each host has been queried once, and queries are being repeated. */
	for (; f->neigh->stats.queries < share + 1000; now = neigh_deadline(f->neigh)) {
		assert_true(now < 5 * SECOND + share * (SECOND / 1000));
		neigh_timeout(f->neigh, now);
	}
	before = f->sent;
	assert_int_equal(neigh_resolve(f->neigh, 0, &friend, now, mac, ME + 1, waits(&other)), -EINPROGRESS);
	while (f->sent == before) {
		now = neigh_deadline(f->neigh);
		assert_int_not_equal(now, NEIGH_NEVER);
		neigh_timeout(f->neigh, now);
	}
	/* The next frame was the other asker's query. */
	assert_int_equal(f->sent, before + 1);
	assert_memory_equal(f->out[before % OUT_MAX].bytes + 38, friend.gid + 12, 4);
	neigh_input(f->neigh, 0, frame, len, now);
	assert_int_equal(other.calls, 1);
	assert_int_equal(other.status, 0);
	/* The other asker has a share of its own. */
	assert_int_equal(ask_for_all(f, 3, ME, now), 0);
	assert_int_equal(ask_for_all(f, 3, ME + 1, now), NEIGH_ENTRIES - share);
	run_out(f);
	assert_int_equal(known(f), 0);
	assert_int_equal(ask_for_all(f, 2, ME, now + 100 * SECOND), share);
}

/* Resolving a thousand hosts that all answer succeeds for all, at the rate of queries. */
static void
test_a_thousand_hosts(void **state)
{
	static struct waiting waiting[1000];
	struct fixture *f = *state;
	uint64_t now = SECOND, next;
	uint32_t found = 0, answered = 0;
	uint8_t mac[6], frame[64];

	memset(waiting, 0, sizeof(waiting));
	use_wide_link(f);
	for (uint32_t i = 0; i < 1000; i++) {
		struct wire_addr host = v4(10, 1, (uint8_t)(i >> 8), (uint8_t)i);

		assert_int_equal(neigh_resolve(f->neigh, 0, &host, now, mac, ME, waits(&waiting[i])),
				 -EINPROGRESS);
	}
	while ((next = neigh_deadline(f->neigh)) != NEIGH_NEVER) {
		now = next;
		neigh_timeout(f->neigh, now);
		/* Each queried host answers. */
		for (; answered < f->sent; answered++) {
			const uint8_t *target = f->out[answered % OUT_MAX].bytes + 38;
			struct wire_addr host = v4(target[0], target[1], target[2], target[3]);
			uint32_t len = arp_frame(frame, our_mac, 2, peer_mac, host, our_mac, v4(10, 0, 0, 1));

			neigh_input(f->neigh, 0, frame, len, now);
		}
	}
	for (uint32_t i = 0; i < 1000; i++)
		found += waiting[i].calls == 1 && waiting[i].status == 0;
	assert_int_equal(found, 1000);
	assert_int_equal(f->sent, 1000);
	assert_true(now <= 2 * SECOND);
}

/* ---- hostile frames ---- */

/* Copies the frame to memory of its exact length, so that the sanitizer sees reads beyond the end. */
static void
input_exact(struct fixture *f, uint16_t port, const uint8_t *frame, uint32_t len, uint64_t now)
{
	uint8_t *exact = malloc(len > 0 ? len : 1);
	assert_non_null(exact);
	memcpy(exact, frame, len);
	neigh_input(f->neigh, port, exact, len, now);
	free(exact);
}

static void
test_every_length(void **state)
{
	struct fixture *f = *state;
	uint8_t frame[4][256], mac[6];
	uint32_t len[4], needed[4] = {42, 14 + 28 + 56, 54 + 32, 54 + 60};
	struct wire_addr us = v6(1, 1), peer = v6(1, 2), group = group_of(us);
	uint8_t icmp[60] = {128};
	uint64_t now = SECOND;

	group_mac(group, mac);
	len[0] = arp_frame(frame[0], everyone, 1, peer_mac, v4(192, 0, 2, 2), (uint8_t[6]){0},
			   v4(192, 0, 2, 1));
	len[1] = echo4(frame[1], v4(192, 0, 2, 2), v4(192, 0, 2, 1), 56);
	len[2] = nd_frame(frame[2], mac, peer, group, 135, 0, us, 1, peer_mac);
	len[3] = icmp6_frame(frame[3], our_mac, peer, us, 64, icmp, sizeof(icmp));
	for (int kind = 0; kind < 4; kind++) {
		for (uint32_t i = 0; i <= len[kind]; i++) {
			uint32_t before = f->sent;
			now += SECOND;
			input_exact(f, kind / 2, frame[kind], i, now);
			assert_int_equal(f->sent - before, i >= needed[kind] ? 1 : 0);
		}
	}
}

static void
test_every_byte(void **state)
{
	struct fixture *f = *state;
	uint8_t frame[256], mac[6];
	struct wire_addr us = v6(1, 1), peer = v6(1, 2), group = group_of(us);
	uint64_t now = SECOND;

	group_mac(group, mac);
	for (int kind = 0; kind < 4; kind++) {
		uint32_t len = 0;
		for (uint32_t i = 0; i < 98; i++) {
			for (uint32_t value = 0; value < 256; value += i < 60 ? 1 : 17) {
				uint8_t icmp[60] = {128};
				if (kind == 0)
					len = arp_frame(frame, everyone, 1, peer_mac, v4(192, 0, 2, 2),
							(uint8_t[6]){0}, v4(192, 0, 2, 1));
				else if (kind == 1)
					len = echo4(frame, v4(192, 0, 2, 2), v4(192, 0, 2, 1), 56);
				else if (kind == 2)
					len = nd_frame(frame, mac, peer, group, 135, 0, us, 1, peer_mac);
				else
					len = icmp6_frame(frame, our_mac, peer, us, 64, icmp, sizeof(icmp));
				if (i >= len)
					continue;
				frame[i] = (uint8_t)value;
				/* correct checksums, so that the code after their check is reached */
				if (kind == 1)
					fix_ip(frame);
				if (kind >= 2 && (i < 54 || i > 57)) {
					memcpy(icmp, frame + 54, len - 54);
					struct wire_addr src, dst;
					memcpy(src.gid, frame + 22, 16);
					memcpy(dst.gid, frame + 38, 16);
					uint8_t copy[256];
					memcpy(copy, frame, 54);
					icmp6_frame(frame, copy, src, dst, copy[21], icmp, len - 54);
					memcpy(frame, copy, 54);
				}
				now += SECOND;
				uint32_t before = f->sent;
				input_exact(f, kind / 2, frame, len, now);
				/* The frame is answered; a neighbour that seems to have moved is also
				 * queried. */
				assert_true(f->sent - before <= (kind == 0 || kind == 2 ? 2u : 1u));
			}
		}
	}
	assert_true(f->neigh->stats.malformed > 1000);
}

static void
test_random_frames(void **state)
{
	struct fixture *f = *state;
	uint8_t frame[160];
	uint64_t random = 88172645463325252ull, now = SECOND;
	static const uint16_t types[] = {0x0806, 0x0800, 0x86dd, 0x8100};

	for (int i = 0; i < 200000; i++) {
		for (size_t j = 0; j < sizeof(frame); j++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			frame[j] = (uint8_t)random;
		}
		memcpy(frame, our_mac, 6);
		frame[6] &= 0xfe;
		store16(frame + 12, types[random & 3]);
		if ((random & 3) == 1)
			frame[14] = 0x45;
		now += SECOND / 100;
		input_exact(f, (uint16_t)((random >> 8) % 3), frame,
			    (uint32_t)((random >> 16) % sizeof(frame)), now);
		neigh_timeout(f->neigh, now);
	}
	assert_int_equal(f->sent, 0);
	assert_int_equal(known(f), 0);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_replies_are_limited), TEST(test_table_is_bounded), TEST(test_askers_share),
		TEST(test_a_thousand_hosts),    TEST(test_every_length),     TEST(test_every_byte),
		TEST(test_random_frames),
	};

	return cmocka_run_group_tests_name("neigh-hostile", tests, NULL, NULL);
}
