/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The local transport with a DMA device: DPDK's dma_skeleton, which copies on a thread of
 * its own.  What a device can do wrong is done in front of its functions.
 */
#define ALLOW_EXPERIMENTAL_API /* rte_dmadev.h */
#include <stdlib.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_dmadev.h>

#include "local.h"

#define DEVICE "dma_skeleton"

/* ---- a device that can be held, and made to fail ---- */

static struct {
	struct rte_dma_fp_object real;
	bool hold;                       /* it tells of nothing, */
	uint64_t hold_until;             /* or not before then; TSC */
	enum rte_dma_status_code status; /* of every copy; of those that fail it moves one byte */
	uint32_t room;                   /* copies that it still takes */
} device;

static int
device_copy(void *dev, uint16_t channel, rte_iova_t from, rte_iova_t to, uint32_t len, uint64_t flags)
{
	if (device.room == 0)
		return -ENOSPC;
	device.room--;
	if (device.status != RTE_DMA_STATUS_SUCCESSFUL)
		len = 1;
	return device.real.copy(dev, channel, from, to, len, flags);
}

static uint16_t
device_completed(void *dev, uint16_t channel, const uint16_t most, uint16_t *last,
		 enum rte_dma_status_code *status)
{
	bool held = device.hold || rte_rdtsc() < device.hold_until;
	uint16_t n = held ? 0 : device.real.completed_status(dev, channel, most, last, status);

	for (uint16_t i = 0; i < n; i++)
		status[i] = device.status;
	return n;
}

static int
setup_dma(void **state)
{
	struct rte_dma_fp_object *functions;

	fixture_dma = DEVICE;
	fixture_start(1, ONE_IDLE_SPIN);
	functions = &rte_dma_fp_objs[rte_dma_get_dev_id_by_name(DEVICE)];
	memset(&device, 0, sizeof(device));
	device.real = *functions;
	device.room = UINT32_MAX;
	functions->copy = device_copy;
	functions->completed_status = device_completed;
	setup(state);
	for (uint32_t i = 0; i < 2; i++)
		fill(&w.memory[i], LONG, 100 + i);
	return 0;
}

static int
teardown_dma(void **state)
{
	device.hold = false;
	teardown(state);
	fixture_stop();
	return 0;
}

static struct engine_stats *
stats(void)
{
	return &engine.core[0]->stats;
}

/* ---- */

static void
post_read(uint32_t len, uint64_t cookie)
{
	struct one_wqe *wqe = pair_send(&w.pair[0]);

	wqe->op = ONE_OP_READ;
	wqe->num_sge = 1;
	wqe->length = len;
	wqe->cookie = cookie;
	wqe->remote_addr = w.memory[1].region.va;
	wqe->rkey = w.memory[1].region.key;
	wqe->sge =
		(struct one_sge){.addr = w.memory[0].region.va, .len = len, .lkey = w.memory[0].region.key};
	pair_commit_send(&w.pair[0]);
}

static void
test_operations(void **state)
{
	static const uint32_t lengths[] = {
		DMA_MIN + 1, DMA_MIN + DMA_TAIL, DMA_CHUNK, DMA_CHUNK + DMA_TAIL + 1, 1u << 20, LONG};

	for (uint32_t i = 0; i < RTE_DIM(lengths); i++) {
		uint64_t before = stats()->dma_copies;
		uint32_t len = lengths[i];

		fill(&w.memory[0], LONG, i);
		memset(w.memory[1].bytes, 0, LONG);
		post_write(&w.pair[0], &w.memory[0], &w.memory[1], len, 1);
		expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
		assert_memory_equal(w.memory[0].bytes, w.memory[1].bytes, len);
		assert_true(len == LONG || w.memory[1].bytes[len] == 0);

		fill(&w.memory[1], LONG, i + 10);
		memset(w.memory[0].bytes, 0, LONG);
		post_read(len, 2);
		expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 2);
		assert_memory_equal(w.memory[0].bytes, w.memory[1].bytes, len);
		assert_true(len == LONG || w.memory[0].bytes[len] == 0);

		fill(&w.memory[0], LONG, i + 20);
		post_recv(&w.pair[1], &w.memory[1], LONG, 3);
		post_send(&w.pair[0], &w.memory[0], len, 4);
		expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 4);
		expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_SUCCESS, 3);
		assert_memory_equal(w.memory[0].bytes, w.memory[1].bytes, len);
		assert_true(stats()->dma_copies >= before + 3);
	}
	assert_int_equal(stats()->dma_failed, 0);
	/* All but what is too short, and the ends. */
	assert_true(stats()->dma_bytes > stats()->local_bytes / 10 * 8);
	/* Short ones are the core's. */
	uint64_t before = stats()->dma_copies;
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], DMA_MIN, 5);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 5);
	assert_int_equal(stats()->dma_copies, before);
}

/* A long piece, a short one, and two long ones, into two. */
static void
test_pieces(void **state)
{
	static const uint32_t out[4] = {300000, 17, 90000, 400000}, in[2] = {380001, 500000};
	struct one_wqe *wqe = pair_recv(&w.pair[1]);
	struct one_wqe_ext *ext = (struct one_wqe_ext *)&w.pair[1].rq[1];
	uint32_t sum = 0;

	wqe->op = ONE_OP_RECV;
	wqe->num_sge = 2;
	wqe->length = in[0] + in[1];
	wqe->sge = (struct one_sge){w.memory[1].region.va, in[0], w.memory[1].region.key};
	ext->sge[0] = (struct one_sge){w.memory[1].region.va + in[0], in[1], w.memory[1].region.key};
	pair_commit_recv(&w.pair[1]);
	wqe = pair_send(&w.pair[0]);
	ext = (struct one_wqe_ext *)&w.pair[0].sq[1];
	wqe->op = ONE_OP_SEND;
	wqe->num_sge = 4;
	for (uint32_t i = 0; i < 4; i++) {
		struct one_sge sge = {w.memory[0].region.va + sum, out[i], w.memory[0].region.key};

		*(i == 0 ? &wqe->sge : &ext->sge[i - 1]) = sge;
		sum += out[i];
	}
	wqe->length = sum;
	pair_commit_send(&w.pair[0]);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 0);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_SUCCESS, 0);
	assert_memory_equal(w.memory[0].bytes, w.memory[1].bytes, sum);
	assert_true(stats()->dma_copies >= 2);
}

/* Before the device has told of all, nothing of the end is there, and others are served. */
static void
test_end_comes_last(void **state)
{
	const uint32_t len = 2 * DMA_CHUNK + 99;
	uint8_t *end = w.memory[1].bytes + len;
	struct pair more[2];
	uint8_t before[DMA_TAIL];

	for (int i = 0; i < 2; i++)
		pair_new(&w.app[i], &w.recv[i], NULL, NULL, NULL, &more[i]);
	for (int i = 0; i < 2; i++)
		pair_connect(&more[i], &more[!i], RC_RTS, true);
	memcpy(before, end - DMA_TAIL, DMA_TAIL);
	device.hold = true;
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], len, 1);
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 8, 2);
	expect_none(&w.send[0]);
	assert_memory_equal(end - DMA_TAIL, before, DMA_TAIL);
	assert_int_equal(w.pair[0].qp->copying, 2);
	post_write(&more[0], &w.memory[0], &w.memory[1], 8, 3);
	expect(&w.recv[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 3);
	/* A peer that rings wakes it, which changes nothing. */
	post_recv(&w.pair[1], &w.memory[1], 8, 4);
	expect_none(&w.send[0]);
	assert_memory_equal(end - DMA_TAIL, before, DMA_TAIL);
	device.hold = false;
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 2);
	assert_memory_equal(w.memory[0].bytes, w.memory[1].bytes, len);
	for (int i = 0; i < 2; i++)
		pair_end(&more[i]);
}

/* A few of one queue pair at once, and the next one when one has ended. */
static void
test_several_under_way(void **state)
{
	device.hold = true;
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], LONG, 1);
	turn(50);
	assert_int_equal(w.pair[0].qp->copying, DMA_COPIES);
	assert_int_equal(stats()->dma_copies, DMA_COPIES);
	device.hold = false;
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	assert_memory_equal(w.memory[0].bytes, w.memory[1].bytes, LONG);
	assert_int_equal(w.pair[0].qp->copying, 0);
	assert_false(dma_busy(engine.core[0]->dma));
}

/* Whoever waits for a grace period before it unmaps waits for what is being copied. */
static void
test_removal(void **state)
{
	uint64_t token;

	device.hold = true;
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], LONG, 1);
	turn(10);
	mem_remove(engine.mem, w.memory[1].region.key);
	token = engine_grace_start();
	turn(100);
	assert_false(engine_grace_over(token));
	assert_int_equal(w.pair[0].failed, 0); /* not before its copies have ended */
	device.hold = false;
	TURN_UNTIL(engine_grace_over(token));
	assert_int_equal(stats()->dma_copies, DMA_COPIES); /* no other has begun */
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_REMOTE_ACCESS, 1);
	assert_both_broken();
}

/* Once a connection has ended nothing is placed any more, however long a device takes. */
static void
test_flush(void **state)
{
	static uint8_t seen[LONG];

	for (int side = 0; side < 2; side++) {
		uint64_t slow = rte_get_tsc_hz() / 20;

		device.hold_until = rte_rdtsc() + slow;
		post_write(&w.pair[0], &w.memory[0], &w.memory[1], LONG, 1);
		turn(1);
		assert_int_equal(w.pair[0].qp->copying, DMA_COPIES);
		assert_int_equal(
			command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair[side].qp}), 0);
		assert_true(rte_rdtsc() >= device.hold_until);
		assert_int_equal(w.pair[0].qp->copying, 0);
		assert_false(dma_busy(engine.core[0]->dma));
		memcpy(seen, w.memory[1].bytes, LONG);
		usleep(5000);
		assert_memory_equal(seen, w.memory[1].bytes, LONG);
		if (side == 0) {
			expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_FLUSHED, 1);
			for (int i = 0; i < 2; i++)
				assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RESET,
										 .qp = w.pair[i].qp}),
						 0);
			for (int i = 0; i < 2; i++)
				pair_connect(&w.pair[i], &w.pair[!i], RC_RTS, true);
			fill(&w.memory[0], LONG, 77);
		}
	}
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_RETRY_EXCEEDED, 1);
	assert_int_equal(stats()->dma_failed, 0);
}

/* The device hangs, and then one end goes: what it had not copied nobody copies any more. */
static void
test_hang_and_flush(void **state)
{
	static uint8_t seen[LONG];
	uint64_t token;

	device.hold = true;
	device.status = RTE_DMA_STATUS_ERROR_UNKNOWN; /* it has not moved anything either */
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], LONG, 1);
	turn(10);
	assert_int_equal(w.pair[0].qp->copying, DMA_COPIES);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair[1].qp}), 0);
	token = engine_grace_start();
	assert_int_equal(w.pair[0].qp->copying, 0);
	memcpy(seen, w.memory[1].bytes, LONG);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_RETRY_EXCEEDED, 1);
	TURN_UNTIL(engine_grace_over(token));
	assert_int_equal(stats()->dma_failed, DMA_COPIES);
	assert_memory_equal(seen, w.memory[1].bytes, LONG);
}

/* It goes, though its copies do not end. */
static void
test_queue_pair_vanishes(void **state)
{
	uint64_t token;

	device.hold = true;
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], LONG, 1);
	turn(10);
	assert_int_equal(w.pair[0].qp->copying, DMA_COPIES);
	token = engine_grace_start();
	for (int i = 0; i < 100; i++)
		core_iterate(engine.core[0]);
	assert_false(engine_grace_over(token));
	pair_end(&w.pair[0]); /* it hangs, and is stopped */
	TURN_UNTIL(engine_grace_over(token));
	turn(2);
	assert_null(engine.reap);
	assert_false(dma_busy(engine.core[0]->dma));
	pair_new(&w.app[0], &w.send[0], &w.recv[0], NULL, NULL, &w.pair[0]); /* for the teardown */
}

static void
write_some(uint32_t times)
{
	for (uint32_t i = 0; i < times; i++) {
		fill(&w.memory[0], 2 * DMA_CHUNK, i);
		memset(w.memory[1].bytes, 0, 2 * DMA_CHUNK);
		post_write(&w.pair[0], &w.memory[0], &w.memory[1], 2 * DMA_CHUNK, i);
		expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, i);
		assert_memory_equal(w.memory[0].bytes, w.memory[1].bytes, 2 * DMA_CHUNK);
	}
}

static void
test_failures(void **state)
{
	uint64_t copies;

	device.status = RTE_DMA_STATUS_BUS_ERROR;
	write_some(3);
	assert_int_equal(stats()->dma_copies, 6);
	assert_int_equal(stats()->dma_failed, 6);
	device.status = RTE_DMA_STATUS_SUCCESSFUL;
	write_some(1);
	assert_int_equal(stats()->dma_failed, 6);
	/* Too many in a row, and it is left alone. */
	device.status = RTE_DMA_STATUS_BUS_ERROR;
	write_some(20);
	copies = stats()->dma_copies;
	assert_int_equal(stats()->dma_failed, 6 + 16);
	write_some(3);
	assert_int_equal(stats()->dma_copies, copies);
	assert_false(dma_in_trouble()); /* the control thread has been told */
}

/* An application can make pages vanish: not the device's fault. */
static void
test_page_faults(void **state)
{
	device.status = RTE_DMA_STATUS_PAGE_FAULT;
	write_some(20);
	assert_int_equal(stats()->dma_copies, 40);
	assert_int_equal(stats()->dma_failed, 40);
}

static void
test_no_room(void **state)
{
	device.room = 0;
	write_some(2);
	assert_int_equal(stats()->dma_copies, 0);
	assert_true(stats()->dma_full >= 2);
	/* The rest waits for what was taken, or is the core's. */
	device.room = 3;
	write_some(4);
	assert_int_equal(stats()->dma_copies, 3);
	assert_int_equal(stats()->dma_failed, 0);
}

/* More than a core has under way at once, from many queue pairs. */
static void
test_channel_full(void **state)
{
	enum { PAIRS = DMA_FLIGHT / DMA_COPIES + 2 };
	static struct pair more[2][PAIRS];
	static struct memory to[PAIRS];
	const uint32_t len = (DMA_COPIES + 1) * DMA_CHUNK;

	device.hold = true;
	for (int k = 0; k < PAIRS; k++) {
		for (int i = 0; i < 2; i++)
			pair_new(&w.app[i], &w.recv[i], NULL, NULL, NULL, &more[i][k]);
		for (int i = 0; i < 2; i++)
			pair_connect(&more[i][k], &more[!i][k], RC_RTS, true);
		memory_new(&w.app[1], ONE_ACCESS_ALL, len, &to[k]);
		post_write(&more[0][k], &w.memory[0], &to[k], len, (uint64_t)k);
	}
	/* Those without room are through. */
	for (int k = 0; k < 2; k++)
		expect(&w.recv[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, (uint64_t)(PAIRS - 2 + k));
	assert_int_equal(stats()->dma_copies, DMA_FLIGHT);
	assert_true(stats()->dma_full > 0);
	expect_none(&w.recv[0]);
	device.hold = false;
	for (int k = 0; k < PAIRS - 2; k++) {
		struct one_cqe cqe;

		TURN_UNTIL(ring_poll(&w.recv[0], &cqe));
		assert_int_equal(cqe.status, ONE_STATUS_SUCCESS);
	}
	for (int k = 0; k < PAIRS; k++) {
		assert_memory_equal(w.memory[0].bytes, to[k].bytes, len);
		for (int i = 0; i < 2; i++)
			pair_end(&more[i][k]);
		memory_end(&to[k]);
	}
}

/* Neither what overlaps nor a window that may be invalidated meanwhile is a device's. */
static void
test_not_for_devices(void **state)
{
	struct one_wqe *wqe;
	struct memory window;
	static uint8_t expected[2 * DMA_CHUNK];

	memory_new(&w.app[1], REMOTE, 2 * DMA_CHUNK, &window);
	window.region.window = true;
	post_write(&w.pair[0], &w.memory[0], &window, 2 * DMA_CHUNK, 1);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	assert_memory_equal(w.memory[0].bytes, window.bytes, 2 * DMA_CHUNK);
	memory_end(&window);
	assert_int_equal(stats()->dma_copies, 0);

	/* Both sides name the same memory, 64 bytes apart, downwards: a copy in order is right. */
	w.memory[1].region.base = w.memory[0].region.base;
	memcpy(expected, w.memory[0].bytes + 64, sizeof(expected));
	wqe = pair_send(&w.pair[0]);
	wqe->op = ONE_OP_WRITE;
	wqe->num_sge = 1;
	wqe->length = sizeof(expected);
	wqe->remote_addr = w.memory[1].region.va;
	wqe->rkey = w.memory[1].region.key;
	wqe->sge = (struct one_sge){w.memory[0].region.va + 64, sizeof(expected), w.memory[0].region.key};
	pair_commit_send(&w.pair[0]);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 0);
	assert_memory_equal(w.memory[0].bytes, expected, sizeof(expected));
	assert_int_equal(stats()->dma_copies, 0);
	w.memory[1].region.base = w.memory[1].bytes;
}

/* It is stopped, what it had not told of is copied, and memory can be given back. */
static void
test_hang(void **state)
{
	uint64_t token;

	device.hold = true;
	device.status = RTE_DMA_STATUS_ERROR_UNKNOWN; /* it has not moved anything either */
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], LONG, 1);
	turn(10);
	assert_int_equal(w.pair[0].qp->copying, DMA_COPIES);
	token = engine_grace_start();
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	assert_memory_equal(w.memory[0].bytes, w.memory[1].bytes, LONG);
	assert_true(engine_grace_over(token));
	assert_int_equal(stats()->dma_copies, DMA_COPIES);
	assert_int_equal(stats()->dma_failed, DMA_COPIES);
	assert_false(dma_in_trouble());
	write_some(2);
	assert_int_equal(stats()->dma_copies, DMA_COPIES);
}

/* ---- what is refused ---- */

static void
refused(const char *names, const char *text)
{
	char why[512] = "";

	strcpy(fixture_config.dma, names);
	assert_true(engine_init(&fixture_config, why, sizeof(why)) < 0);
	if (strstr(why, text) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", why, text);
}

static void
test_refusals(void **state)
{
	fixture_dma = DEVICE;
	fixture_start(1, ONE_IDLE_SPIN);
	engine_fini();
	refused("dma_other", "dma = dma_other: DPDK has no such DMA device; name one of " DEVICE);
	refused(DEVICE ",dma_other", "dma = dma_other");
	/* What has been refused has left nothing behind. */
	fixture_stop();
	fixture_start(1, ONE_IDLE_SPIN);
	assert_true(engine.core[0]->dma != NULL);
	fixture_stop();
	fixture_dma = NULL;
	fixture_start(1, ONE_IDLE_SPIN);
	assert_null(engine.core[0]->dma);
	engine_fini();
	refused(DEVICE, "dma = " DEVICE ": DPDK has no DMA device");
	fixture_stop();
}

#define D(f) cmocka_unit_test_setup_teardown(f, setup_dma, teardown_dma)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		D(test_operations),
		D(test_pieces),
		D(test_end_comes_last),
		D(test_several_under_way),
		D(test_removal),
		D(test_flush),
		D(test_hang_and_flush),
		D(test_queue_pair_vanishes),
		D(test_failures),
		D(test_page_faults),
		D(test_no_room),
		D(test_channel_full),
		D(test_not_for_devices),
		D(test_hang),
		cmocka_unit_test(test_refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
