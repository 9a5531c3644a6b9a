/* SPDX-License-Identifier: BSD-3-Clause */
/* Validation of work requests: a table of valid and invalid ones. */
#include <string.h>

#include "dataplane/qp/wqe.h"
#include "fixture.h"

struct row {
	const char *what;
	struct one_wqe wqe;
	uint32_t ext_len; /* of each piece in the extension slots */
	bool right;
	uint32_t length; /* of the work if right */
};

#define SGE(l) .sge = {.addr = 0x1000, .len = (l), .lkey = 5}
#define S(op_, flags_, num_, len_, ...)                                                          \
	{                                                                                        \
		.op = (op_), .flags = (flags_), .num_sge = (num_), .length = (len_), __VA_ARGS__ \
	}

static const struct row rows[] = {
	{"send of one piece", S(ONE_OP_SEND, 0, 1, 10, SGE(10)), 0, true, 10},
	{"send of nothing", S(ONE_OP_SEND, 0, 0, 0, SGE(0)), 0, true, 0},
	{"send of nothing, piece empty", S(ONE_OP_SEND, 0, 1, 0, SGE(0)), 0, true, 0},
	{"send of eight pieces", S(ONE_OP_SEND, 0, 8, 80, SGE(10)), 10, true, 80},
	{"send of nine pieces", S(ONE_OP_SEND, 0, 9, 90, SGE(10)), 10, false, 0},
	{"length below the sum", S(ONE_OP_SEND, 0, 1, 9, SGE(10)), 0, false, 0},
	{"length above the sum", S(ONE_OP_WRITE, 0, 1, 11, SGE(10)), 0, false, 0},
	{"length without pieces", S(ONE_OP_WRITE, 0, 0, 1, SGE(1)), 0, false, 0},
	{"sum wraps 32 bits", S(ONE_OP_WRITE, 0, 2, 0, SGE(0x80000000u)), 0x80000000u, false, 0},
	{"longest message", S(ONE_OP_WRITE, 0, 1, 0x80000000u, SGE(0x80000000u)), 0, true, 0x80000000u},
	{"too long", S(ONE_OP_WRITE, 0, 1, 0x80000001u, SGE(0x80000001u)), 0, false, 0},
	{"operation 0", S(0, 0, 1, 10, SGE(10)), 0, false, 0},
	{"receive in a send ring", S(ONE_OP_RECV, 0, 1, 10, SGE(10)), 0, false, 0},
	{"operation unknown", S(ONE_OP_MAX, 0, 1, 10, SGE(10)), 0, false, 0},
	{"operation 255", S(255, 0, 1, 10, SGE(10)), 0, false, 0},
	{"all flags but inline", S(ONE_OP_SEND, 0x0f, 1, 10, SGE(10)), 0, true, 10},
	{"unknown flag", S(ONE_OP_SEND, 0x20, 1, 10, SGE(10)), 0, false, 0},
	{"inline", S(ONE_OP_WRITE, ONE_WQE_INLINE, 0, 24, .inline_len = 24), 0, true, 24},
	{"inline, empty", S(ONE_OP_SEND_IMM, ONE_WQE_INLINE, 0, 0, .inline_len = 0), 0, true, 0},
	{"inline too long", S(ONE_OP_WRITE, ONE_WQE_INLINE, 0, 25, .inline_len = 25), 0, false, 0},
	{"inline, lengths differ", S(ONE_OP_WRITE, ONE_WQE_INLINE, 0, 8, .inline_len = 4), 0, false, 0},
	{"inline with a piece", S(ONE_OP_WRITE, ONE_WQE_INLINE, 1, 8, .inline_len = 8), 0, false, 0},
	{"inline read", S(ONE_OP_READ, ONE_WQE_INLINE, 0, 8, .inline_len = 8), 0, false, 0},
	{"read, exact", S(ONE_OP_READ, 0, 1, 10, SGE(10)), 0, true, 10},
	{"read into more", S(ONE_OP_READ, 0, 2, 15, SGE(10)), 10, true, 15},
	{"read into less", S(ONE_OP_READ, 0, 1, 11, SGE(10)), 0, false, 0},
	{"read too long", S(ONE_OP_READ, 0, 2, 0x80000001u, SGE(0x80000000u)), 0x80000000u, false, 0},
	{"fetch and add", S(ONE_OP_FETCH_ADD, 0, 1, 0, SGE(8)), 0, true, 8},
	{"atomic into four bytes", S(ONE_OP_CMP_SWAP, 0, 1, 0, SGE(4)), 0, false, 0},
	{"atomic into nothing", S(ONE_OP_CMP_SWAP, 0, 0, 0, SGE(8)), 0, false, 0},
	{"atomic into two pieces", S(ONE_OP_CMP_SWAP, 0, 2, 0, SGE(4)), 4, false, 0},
	{"bind", S(ONE_OP_BIND, 0, 1, 0x62, SGE(4096)), 0, true, 0x62},
	{"bind to nothing", S(ONE_OP_BIND, 0, 1, 0, SGE(0)), 0, true, 0},
	{"bind with local rights", S(ONE_OP_BIND, 0, 1, 0x01, SGE(4096)), 0, false, 0},
	{"bind without a range", S(ONE_OP_BIND, 0, 0, 0, SGE(0)), 0, false, 0},
	{"reserved bits", S(ONE_OP_SEND, 0, 1, 10, SGE(10), .reserved = {[6] = 1}), 0, false, 0},
};

static void
test_work(void **state)
{
	for (size_t i = 0; i < RTE_DIM(rows); i++) {
		struct one_wqe_ext ext[ONE_WQE_SLOTS_MAX - 1] = {0};
		struct one_wqe wqe = rows[i].wqe;
		struct work work;

		for (uint32_t j = 0; j < 9; j++)
			ext[j / 3].sge[j % 3].len = rows[i].ext_len;
		wqe.cookie = i;
		wqe.phase = 1;
		wqe_to_work(&wqe, ext, &work);
		if ((work.status == ONE_STATUS_SUCCESS) != rows[i].right)
			fail_msg("%s: status %u", rows[i].what, work.status);
		assert_int_equal(work.cookie, i);
		if (rows[i].right) {
			if (work.length != rows[i].length)
				fail_msg("%s: length %u", rows[i].what, work.length);
		} else {
			assert_int_equal(work.status, ONE_STATUS_LOCAL_QP);
			assert_int_equal(work.num_sge, 0);
			assert_int_equal(work.length, 0);
		}
	}
}

/* Plain requests, which are copied without a full check, give the same work. All usual requests are plain. */
static void
test_plain(void **state)
{
	struct one_wqe_ext ext[ONE_WQE_SLOTS_MAX - 1] = {0};

	for (size_t i = 0; i < RTE_DIM(rows); i++) {
		struct one_wqe wqe = rows[i].wqe;
		struct work work, plain;
		bool usual = rows[i].right && wqe.op <= ONE_OP_WRITE_IMM && wqe.num_sge == 1 &&
			     wqe.inline_len == 0;

		memset(&work, 0xcc, sizeof(work));
		memset(&plain, 0xcc, sizeof(plain));
		wqe.phase = 1;
		wqe.remote_addr = 0x123456789abcdef0;
		wqe.rkey = 0xfedcba98;
		if (wqe_take_plain(&wqe, 1, &plain) != usual)
			fail_msg("%s: taken for the usual", rows[i].what);
		assert_false(wqe_take_plain(&wqe, 0, &plain));
		if (!usual)
			continue;
		wqe_to_work(&wqe, ext, &work);
		assert_memory_equal(&work, &plain, sizeof(work));
	}
}

static void
test_pieces_in_order(void **state)
{
	struct one_wqe wqe = S(ONE_OP_SEND, 0, 8, 36, SGE(1));
	struct one_wqe_ext ext[ONE_WQE_SLOTS_MAX - 1] = {0};
	struct work work;

	for (uint32_t i = 1; i < 8; i++)
		ext[(i - 1) / 3].sge[(i - 1) % 3] = (struct one_sge){.addr = i, .len = i + 1, .lkey = i * 2};
	wqe_to_work(&wqe, ext, &work);
	assert_int_equal(work.status, ONE_STATUS_SUCCESS);
	for (uint32_t i = 1; i < 8; i++) {
		assert_int_equal(work.sge[i].addr, i);
		assert_int_equal(work.sge[i].len, i + 1);
		assert_int_equal(work.sge[i].lkey, i * 2);
	}
	ext[2].reserved[3] = 1;
	wqe_to_work(&wqe, ext, &work);
	assert_int_equal(work.status, ONE_STATUS_LOCAL_QP);
}

static void
test_atomic_operands(void **state)
{
	struct one_wqe wqe = {.op = ONE_OP_CMP_SWAP, .num_sge = 1, .length = 0x89abcdef, .imm = 0x01234567};
	struct work work;

	wqe.atomic.result = (struct one_sge){.addr = 64, .len = 8, .lkey = 3};
	wqe.atomic.add_or_swap = 42;
	wqe_to_work(&wqe, NULL, &work);
	assert_int_equal(work.status, ONE_STATUS_SUCCESS);
	assert_true(work.compare == 0x0123456789abcdefull);
	assert_int_equal(work.add_or_swap, 42);
	assert_int_equal(work.sge[0].addr, 64);
}

static void
test_receives(void **state)
{
	static const struct row receives[] = {
		{"one piece", S(ONE_OP_RECV, 0, 1, 10, SGE(10)), 0, true, 10},
		{"unsignaled", S(ONE_OP_RECV, ONE_WQE_UNSIGNALED, 1, 10, SGE(10)), 0, true, 10},
		{"nothing", S(ONE_OP_RECV, 0, 0, 0, SGE(0)), 0, true, 0},
		{"suppressed", S(ONE_OP_RECV, ONE_WQE_SUPPRESS, 1, 10, SGE(10)), 0, false, 0},
		{"send in a receive ring", S(ONE_OP_SEND, 0, 1, 10, SGE(10)), 0, false, 0},
		{"wrong sum", S(ONE_OP_RECV, 0, 2, 10, SGE(10)), 10, false, 0},
		{"nine pieces", S(ONE_OP_RECV, 0, 9, 90, SGE(10)), 10, false, 0},
		{"reserved", S(ONE_OP_RECV, 0, 1, 10, SGE(10), .reserved = {1}), 0, false, 0},
	};

	for (size_t i = 0; i < RTE_DIM(receives); i++) {
		struct one_wqe_ext ext[ONE_WQE_SLOTS_MAX - 1] = {0};
		struct recv_work recv;

		for (uint32_t j = 0; j < 9; j++)
			ext[j / 3].sge[j % 3].len = receives[i].ext_len;
		wqe_to_recv(&receives[i].wqe, ext, &recv);
		if ((recv.status == ONE_STATUS_SUCCESS) != receives[i].right)
			fail_msg("%s: status %u", receives[i].what, recv.status);
		assert_int_equal(recv.length, receives[i].length);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_work),
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_pieces_in_order),
		cmocka_unit_test(test_atomic_operands),
		cmocka_unit_test(test_receives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
