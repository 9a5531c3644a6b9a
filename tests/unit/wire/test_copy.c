/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies that are made in the same pass as an ICRC: what is copied, and what the ICRC covers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "dataplane/wire/icrc.h"
#include "dataplane/wire/wire.h"
#include "reference.h"

/* Copied and covered in one go, with every length of headers and payload, from and to anywhere. */
static void
copy_and_cover(void)
{
	static uint8_t frame[8 + FRAME_MAX + 64], expected[FRAME_MAX], from[FRAME_MAX + 64], guard[64];
	uint64_t seed = 0xc0b1e5;

	memset(guard, 0xee, sizeof(guard));
	for (uint32_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)next_random(&seed);
	for (uint32_t n = 0; n <= 4300; n++) {
		uint32_t ip_len = n & 1 ? 40 : 20,
			 headers = ip_len + 8 + 12 + (uint32_t)(next_random(&seed) % 29);
		uint32_t at = (uint32_t)(next_random(&seed) % 64), len = headers + n;
		uint8_t *ip = frame + 8 + at, *src = from + next_random(&seed) % 64;

		for (uint32_t i = 0; i < headers; i++)
			ip[i] = expected[i] = (uint8_t)next_random(&seed);
		ip[0] = expected[0] = ip_len == 20 ? 0x45 : 0x60;
		memset(ip + headers, 0xcc, n);
		memset(ip + len, 0xee, sizeof(guard));
		memcpy(expected + headers, src, n);
		assert_int_equal(icrc_copy(ip, ip_len, len, src, n), slow_icrc(expected, ip_len, len));
		assert_memory_equal(ip, expected, len);
		assert_memory_equal(ip + len, guard, sizeof(guard));
	}
}

static void
test_icrc_copy(void **state)
{
	copy_and_cover();
	icrc_init(false); /* as CPUs without the wide instructions do it */
	copy_and_cover();
	wire_init();
}

/* wire_fill, and wire_seal where that says so, are the same frame as a copy and wire_seal. */
static void
fill_frames(bool sealing)
{
	static const uint32_t lens[] = {0, 1, 65, 511, 512, 513, 1023, 1024, 1025, 2044, 4095, 4096};
	static uint8_t from[4096], one[FRAME_MAX], other[FRAME_MAX];
	uint64_t seed = 0xf111;

	for (uint32_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)next_random(&seed);
	for (size_t i = 0; i < 2 * sizeof(lens) / sizeof(lens[0]); i++) {
		struct wire_path path = {
			.src.gid = {[0] = 0x20, [15] = 9}, .dst.gid = {[0] = 0x20, [15] = 8}, .ttl = 64};
		uint32_t len = lens[i / 2], frame_len;
		struct wire_build b = {
			.opcode = WIRE_WRITE_ONLY, .qpn = 7, .dma_length = len, .payload_len = len};
		struct wire_template t;
		bool sealed;

		if (i & 1) {
			memcpy(path.src.gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2\1", 16);
			memcpy(path.dst.gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2\2", 16);
		}
		wire_template_init(&t, &path);
		frame_len = wire_frame_len(&t, b.opcode, len);
		memset(one, 0xcc, sizeof(one));
		memset(other, 0xcc, sizeof(other));
		memcpy(wire_build(&t, &b, one), from, len);
		wire_seal(one, frame_len);
		sealed = wire_fill(&t, other, wire_build(&t, &b, other), from, len);
		assert_int_equal(sealed, sealing && len >= 512 && len % 4 == 0);
		if (!sealed)
			wire_seal(other, frame_len);
		assert_memory_equal(one, other, sizeof(one));
	}
}

static void
test_fill(void **state)
{
	fill_frames(icrc_wide_supported());
	icrc_init(false);
	fill_frames(false);
	wire_init();
}

/* Whatever comes of a frame, the move is made, all of it and no more. */
static void
test_beside(void **state)
{
	static const uint32_t moves[] = {0, 64, 192, 256, 512, 1024, 1088, 4032, 4096};
	static uint8_t from[4096 + 64], to[4096 + 128], expected[4096 + 128];
	const struct wire_path path = {.src.gid = {[0] = 0x20, [15] = 9}, .dst.gid = {[0] = 0x20, [15] = 8}};
	uint64_t seed = 0xbe51de;
	struct wire_template t;

	wire_template_init(&t, &path);
	for (uint32_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)next_random(&seed);
	for (uint32_t round = 0; round < 4000; round++) {
		struct wire_build b = {.opcode = WIRE_SEND_ONLY, .qpn = 7};
		uint32_t move_len = moves[next_random(&seed) % (sizeof(moves) / sizeof(moves[0]))], frame_len;
		uint8_t frame[FRAME_MAX], *at = to + next_random(&seed) % 64;
		uint8_t *src = from + next_random(&seed) % 64, *payload;
		struct wire_move move = {.to = at, .from = src, .len = move_len};
		struct wire_seen seen = {.len = 0};
		bool good = next_random(&seed) % 4 != 0;

		b.payload_len = (uint32_t)(next_random(&seed) % 4097);
		frame_len = wire_frame_len(&t, b.opcode, b.payload_len);
		payload = wire_build(&t, &b, frame);
		for (uint32_t k = 0; k < b.payload_len; k++)
			payload[k] = (uint8_t)next_random(&seed);
		wire_seal(frame, frame_len);
		if (!good) /* found before, or by the ICRC */
			frame[round & 1 ? 12 : frame_len - 1] ^= 0xff;
		memset(to, 0xee, sizeof(to));
		memset(expected, 0xee, sizeof(expected));
		memcpy(expected + (at - to), src, move_len);
		if (wire_moves())
			assert_int_equal(
				wire_parse_received(frame, frame_len, false, &seen, &move) == WIRE_OK, good);
		else
			wire_move(&move);
		assert_int_equal(move.len, 0);
		assert_memory_equal(to, expected, sizeof(to));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_icrc_copy),
		cmocka_unit_test(test_fill),
		cmocka_unit_test(test_beside),
	};

	wire_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
