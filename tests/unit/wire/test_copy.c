/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames whose payload is copied in the same pass as the ICRC, and the choice of its implementation. */
#include "tests/unit/unit.h"

#include <string.h>

#include <rte_vect.h>

#include "dataplane/wire/icrc.h"
#include "dataplane/wire/wire.h"
#include "reference.h"

/* Runs the test with each implementation of the ICRC that this CPU has. */
static void
with_each(void (*test)(void))
{
	for (const struct icrc_impl *const *impl = icrc_impls; *impl != NULL; impl++)
		if (icrc_use((*impl)->name))
			test();
	wire_init();
}

/* wire_fill(), and wire_seal() where wire_fill() requires it, make the same frame as a copy and
 * wire_seal(). */
static void
fill_frames(void)
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
		assert_int_equal(sealed, len >= 512 && len % 4 == 0);
		if (!sealed)
			wire_seal(other, frame_len);
		assert_memory_equal(one, other, sizeof(one));
	}
}

static void
test_fill(void **state)
{
	with_each(fill_frames);
}

/* The move is made exactly, whether or not the frame is accepted. */
static void
parse_beside(void)
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
		if (!good) /* damage found before the ICRC is compared, or by the ICRC */
			frame[round & 1 ? 12 : frame_len - 1] ^= 0xff;
		memset(to, 0xee, sizeof(to));
		memset(expected, 0xee, sizeof(expected));
		memcpy(expected + (at - to), src, move_len);
		assert_int_equal(wire_parse_received(frame, frame_len, false, &seen, &move) == WIRE_OK, good);
		assert_int_equal(move.len, 0);
		assert_memory_equal(to, expected, sizeof(to));
	}
}

static void
test_beside(void **state)
{
	with_each(parse_beside);
}

static const char *
chosen_with(uint16_t bits)
{
	assert_int_equal(rte_vect_set_max_simd_bitwidth(bits), 0);
	wire_init();
	return icrc->name;
}

/* The limit of EAL (--force-max-simd-bitwidth) selects the implementation; without EAL, the CPU does. */
static void
test_bitwidth(void **state)
{
	const char *best = icrc->name;

	assert_int_equal(rte_vect_get_max_simd_bitwidth(), 0);
	assert_string_equal(chosen_with(RTE_VECT_SIMD_DISABLED), "shift");
	if (icrc_use("clmul"))
		assert_string_equal(chosen_with(RTE_VECT_SIMD_128), "clmul");
	assert_string_equal(chosen_with(RTE_VECT_SIMD_256), best);
	assert_string_equal(chosen_with(RTE_VECT_SIMD_512), best);
	assert_false(icrc_use("abacus"));
	assert_string_equal(icrc->name, best);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fill), cmocka_unit_test(test_beside),
		cmocka_unit_test(test_bitwidth), /* must be last: changes EAL's limit */
	};

	wire_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
