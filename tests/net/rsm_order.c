/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Explicit mode: data put before an order barrier is in memory before data put after the barrier, even when
 * frames are lost, doubled or delayed.
 *
 *   net-rsm-order SOCKET EXPORTERS-SOCKET [swapped]
 *
 * In each round the importer puts a first number, a block whose every word is the number, and a last number,
 * with an order barrier between them, in spans of several rounds. The exporter polls all the time: no word of
 * the block may be less than a last number that was seen before, nor greater than a first number seen after.
 *
 * ORDER_SECONDS is the least duration. The test also runs until the exporter has seen enough changes, and for
 * enough rounds that a cable which loses, doubles and delays one of 200 frames does each to some of their
 * 5,000 frames. "swapped" puts the last number before the block, to prove that the exporter would notice.
 */
#include <sched.h>
#include <stdint.h>
#include <sys/socket.h>

#include "rsm_pair.h"

#define WORDS 8192u /* length of the block: 64 KiB, 16 frames or more */
#define FIRST 0u
#define LAST 4096u
#define BLOCK 8192u
#define ROUNDS 250u
#define SEEN 20u /* changes that the exporter must have seen */

static bool swapped;

static uint64_t
seconds(void)
{
	const char *text = getenv("ORDER_SECONDS");

	return text != NULL ? strtoull(text, NULL, 10) : 10;
}

static uint64_t
look(const struct exporter *e, size_t at)
{
	/* Pairs with the engine's release store of a write's last byte. */
	return __atomic_load_n((uint64_t *)(void *)(e->base + at), __ATOMIC_ACQUIRE);
}

static void
order_server(struct pair *pair)
{
	uint64_t looks = 0, wrong = 0, last = 0, before = 0, changes = 0;
	bool reported = false;
	struct exporter e;
	rsm_node_id_t peer;
	char end;

	exporter_open(&e, pair, &peer);
	publish(&e, pair, peer, 0666);
	pair_barrier(pair);
	while (last != UINT64_MAX) {
		uint64_t low = UINT64_MAX, high = 0, first;

		last = look(&e, LAST);
		if (last == UINT64_MAX)
			break;
		CHECK(pair, recv(pair->fd, &end, 1, MSG_PEEK | MSG_DONTWAIT) != 0, "the importer has gone");
		for (uint32_t k = 0; k < WORDS; k++) {
			uint64_t word = look(&e, BLOCK + 8 * k);

			low = word < low ? word : low;
			high = word > high ? word : high;
		}
		first = look(&e, FIRST);
		if (low < last || high > first) {
			CHECK(pair, swapped,
			      "a word of %lu after the last number was %lu; one of %lu before the first was %lu",
			      low, last, high, first);
			wrong++;
		}
		changes += last != before;
		before = last;
		looks++;
		if (!reported && changes > SEEN && (!swapped || wrong > 0)) {
			pair_send(pair, "e", 1);
			reported = true;
		}
		sched_yield(); /* a polling core may need this processor */
	}
	for (uint32_t k = 0; k < WORDS; k++)
		CHECK(pair, look(&e, BLOCK + 8 * k) == look(&e, FIRST), "word %u after the end", k);
	printf("%lu rounds, %lu looks at %lu different ones", look(&e, FIRST), looks, changes);
	if (swapped)
		printf(", %lu out of order", wrong);
	printf("\n");
	CHECK(pair, reported, "too few rounds were seen under way, or what is out of order is not noticed");
	pair_barrier(pair);
	exporter_close(&e, pair);
}

/* Puts the block in pieces of unequal size, for frames of all sizes. */
static void
put_block(struct importer *i, struct pair *pair, uint64_t round, uint64_t *block)
{
	uint32_t from = 0, n;

	for (uint32_t k = 0; k < WORDS; k++)
		block[k] = round;
	for (; from < WORDS; from += n) {
		n = 1 + (uint32_t)(round * 2654435761u + from * 40503u) % 3000;
		n = n < WORDS - from ? n : WORDS - from;
		RSM_CHECK(pair, rsm_memseg_import_put64(i->import, BLOCK + 8 * from, block + from, n),
			  RSM_SUCCESS);
	}
}

static void
order_client(struct pair *pair)
{
	uint64_t *block = malloc(8 * WORDS), round = 0, end;
	bool enough = false;
	struct importer i;
	char byte;

	importer_open(&i, pair);
	pair_barrier(pair);
	importer_connect(&i, pair, RSM_PERM_RDWR);
	RSM_CHECK(pair, rsm_memseg_import_set_mode(i.import, RSM_BARRIER_MODE_EXPLICIT), RSM_SUCCESS);
	end = pair_now_ms() + 1000 * seconds();
	while (!enough || round < ROUNDS || pair_now_ms() < end) {
		if (!enough)
			enough = recv(pair->fd, &byte, 1, MSG_DONTWAIT) == 1;
		RSM_CHECK(pair, rsm_memseg_import_open_barrier(&i.barrier), RSM_SUCCESS);
		for (uint32_t k = 0; k < 8; k++) {
			round++;
			RSM_CHECK(pair, rsm_memseg_import_put64(i.import, FIRST, &round, 1), RSM_SUCCESS);
			RSM_CHECK(pair, rsm_memseg_import_order_barrier(&i.barrier), RSM_SUCCESS);
			if (!swapped) {
				put_block(&i, pair, round, block);
				RSM_CHECK(pair, rsm_memseg_import_order_barrier(&i.barrier), RSM_SUCCESS);
			}
			RSM_CHECK(pair, rsm_memseg_import_put64(i.import, LAST, &round, 1), RSM_SUCCESS);
			if (swapped)
				put_block(&i, pair, round, block);
		}
		RSM_CHECK(pair, rsm_memseg_import_close_barrier(&i.barrier), RSM_SUCCESS);
	}
	RSM_CHECK(pair, rsm_memseg_import_open_barrier(&i.barrier), RSM_SUCCESS);
	end = UINT64_MAX;
	RSM_CHECK(pair, rsm_memseg_import_put64(i.import, LAST, &end, 1), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_close_barrier(&i.barrier), RSM_SUCCESS);
	pair_barrier(pair);
	importer_disconnect(&i, pair);
	free(block);
}

static const struct pair_case cases[] = {{"order", order_server, order_client, false}};

int
main(int argc, char **argv)
{
	swapped = argc > 3 && strcmp(argv[3], "swapped") == 0;
	return pair_main(argc > 3 ? 3 : argc, argv, cases, 1);
}
