/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An exporter and an importer that go on while their data planes are replaced (takeover.sh rsm).
 *
 *   net-rsm-takeover SOCKET EXPORTERS-SOCKET
 *
 * In each round the importer puts a block and numbers, with a signal behind each number. The exporter counts
 * the signals, compares all of it, and answers with signals of its own. A second import stores a number,
 * through a mapping if both are on one data plane, and gets the signals, too. A third one comes, gets the
 * block and goes. The exporter maps another segment of its own, which its node may only read, and which moves
 * to other memory now and then; an importer of another node writes to it. The rounds end when the file UNTIL
 * exists; then the segment is withdrawn and published again.
 */
#include <stdint.h>
#include <unistd.h>

#include "rsm_pair.h"

#define LONG_MS ((int)(20000 * PAIR_SHARE))
#define BLOCK 65536u
#define BLOCK_AT 8192u
#define NUMBERS 32u
#define ANSWERS 5u
#define STORED_AT 4096u
#define ANSWERED_AT 4104u
#define END UINT64_MAX
#define GUARDED 0x400300u
#define GUARDED_SIZE 131072u

static void
count_signals(struct pair *pair, void *segment, uint64_t round, uint32_t expected)
{
	for (uint32_t k = 0; k < expected; k++)
		CHECK(pair, rsm_intr_signal_wait(segment, LONG_MS) == RSM_SUCCESS,
		      "round %lu: signal %u of %u did not come", round, k, expected);
	CHECK(pair, rsm_intr_signal_wait(segment, 0) == RSMERR_TIMEOUT, "round %lu: more than %u signals",
	      round, expected);
}

static volatile uint64_t *
word(uint8_t *base, size_t at)
{
	return (volatile uint64_t *)(void *)(base + at);
}

/* ---- a segment that the exporter's node may only read ---- */

struct guarded {
	rsm_memseg_export_handle_t export;
	rsm_memseg_import_handle_t import; /* of the exporter itself */
	uint8_t *memory, *other;
	uint8_t *map;
};

static void
guarded_open(struct guarded *g, const struct exporter *e, struct pair *pair, rsm_node_id_t peer)
{
	rsmapi_access_entry_t list[2] = {{.ae_node = e->node, .ae_permission = 0444},
					 {.ae_node = peer, .ae_permission = 0666}};
	rsm_memseg_id_t id = GUARDED;
	void *map;

	g->memory = aligned_alloc(4096, GUARDED_SIZE);
	g->other = aligned_alloc(4096, GUARDED_SIZE);
	memset(g->memory, 0, GUARDED_SIZE);
	RSM_CHECK(pair,
		  rsm_memseg_export_create(e->controller, &g->export, g->memory, GUARDED_SIZE,
					   RSM_ALLOW_REBIND),
		  RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_export_publish(g->export, &id, list, pair->local ? 1 : 2), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_connect(e->controller, e->node, GUARDED, RSM_PERM_READ, &g->import),
		  RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_map(g->import, &map, RSM_MAP_NONE, RSM_PERM_READ, 0, GUARDED_SIZE),
		  RSM_SUCCESS);
	g->map = map;
}

/* The data plane copies the memory where a process before mapped it. */
static void
guarded_check(struct guarded *g, struct pair *pair, uint64_t round)
{
	uint8_t *before = g->memory;

	if (pair->local) {
		*word(g->memory, 0) = round;
	} else {
		CHECK(pair, *word(g->memory, 0) == round, "round %lu: the guarded word is %lu", round,
		      *word(g->memory, 0));
		CHECK(pair, pair_pattern_check(g->memory + BLOCK_AT, BLOCK, (uint32_t)round) == BLOCK,
		      "round %lu: the guarded block differs", round);
	}
	CHECK(pair, memcmp(g->map, g->memory, GUARDED_SIZE) == 0, "round %lu: the mapping differs", round);
	if (round % 3 != 0)
		return;
	memcpy(g->other, before, GUARDED_SIZE);
	*word(g->other, GUARDED_SIZE - 8) = round;
	RSM_CHECK(pair, rsm_memseg_export_rebind(g->export, g->other, 0, GUARDED_SIZE), RSM_SUCCESS);
	g->memory = g->other;
	g->other = before;
	CHECK(pair, *word(g->map, GUARDED_SIZE - 8) == round, "round %lu: the mapping did not follow", round);
}

static void
guarded_close(struct guarded *g, struct pair *pair)
{
	RSM_CHECK(pair, rsm_memseg_import_unmap(g->import), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_disconnect(g->import), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_export_destroy(g->export), RSM_SUCCESS);
	free(g->memory);
	free(g->other);
}

static void
guarded_put(const struct importer *i, struct pair *pair, uint64_t round, uint8_t *block)
{
	if (pair->local)
		return;
	RSM_CHECK(pair, rsm_memseg_import_put(i->import, BLOCK_AT, block, BLOCK), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_put64(i->import, 0, &round, 1), RSM_SUCCESS);
}

static void
guarded_get(const struct importer *i, struct pair *pair, uint64_t round)
{
	uint64_t number;

	RSM_CHECK(pair, rsm_memseg_import_get64(i->import, 0, &number, 1), RSM_SUCCESS);
	CHECK(pair, number == round, "round %lu: the guarded segment has %lu", round, number);
}

/* ---- the exporter ---- */

static void
check_round(struct exporter *e, struct pair *pair, uint64_t round)
{
	count_signals(pair, e->export, round, NUMBERS);
	for (uint32_t k = 0; k < NUMBERS; k++)
		CHECK(pair, *word(e->base, 8 * k) == round * NUMBERS + k, "round %lu: number %u is %lu",
		      round, k, *word(e->base, 8 * k));
	CHECK(pair, pair_pattern_check(e->base + BLOCK_AT, BLOCK, (uint32_t)round) == BLOCK,
	      "round %lu: the block differs", round);
	CHECK(pair, *word(e->base, STORED_AT) == round, "round %lu: the second import stored %lu", round,
	      *word(e->base, STORED_AT));
	*word(e->base, ANSWERED_AT) = round;
	for (uint32_t k = 0; k < ANSWERS; k++)
		RSM_CHECK(pair, rsm_intr_signal_post(e->export, 0), RSM_SUCCESS);
}

static void
takeover_server(struct pair *pair)
{
	struct exporter e;
	struct guarded guarded;
	rsm_node_id_t peer;
	uint64_t round;

	alarm(0); /* the script ends what hangs */
	exporter_open(&e, pair, &peer);
	publish(&e, pair, peer, 0666);
	guarded_open(&guarded, &e, pair, peer);
	pair_barrier(pair);
	for (;;) {
		pair_recv(pair, &round, sizeof(round));
		if (round == END)
			break;
		guarded_check(&guarded, pair, round);
		check_round(&e, pair, round);
		pair_barrier(pair);
	}
	guarded_close(&guarded, pair);
	usleep(100000);
	count_signals(pair, e.export, round, 0);
	RSM_CHECK(pair, rsm_memseg_export_unpublish(e.export), RSM_SUCCESS);
	pair_barrier(pair);
	pair_barrier(pair); /* the importer has noticed */
	publish(&e, pair, peer, 0666);
	pair_barrier(pair);
	pair_barrier(pair); /* the importer has put the last number */
	CHECK(pair, *word(e.base, 0) == END, "a number put after all take-overs is %lu", *word(e.base, 0));
	exporter_close(&e, pair);
}

/* ---- the importer ---- */

/* The second import. */
struct second {
	struct importer import;
	uint8_t *map; /* NULL: on another data plane */
};

static void
second_open(struct second *second, struct pair *pair, const struct importer *i)
{
	void *map = NULL;

	second->import = *i;
	importer_connect(&second->import, pair, RSM_PERM_RDWR);
	if (pair->local)
		RSM_CHECK(pair,
			  rsm_memseg_import_map(second->import.import, &map, RSM_MAP_NONE, RSM_PERM_RDWR, 0,
						SIZE),
			  RSM_SUCCESS);
	second->map = map;
}

static void
second_store(struct second *second, struct pair *pair, uint64_t round)
{
	if (second->map != NULL)
		*word(second->map, STORED_AT) = round;
	else
		RSM_CHECK(pair, rsm_memseg_import_put64(second->import.import, STORED_AT, &round, 1),
			  RSM_SUCCESS);
}

static void
second_check(struct second *second, struct pair *pair, uint64_t round)
{
	uint64_t answered;

	if (second->map != NULL)
		answered = *word(second->map, ANSWERED_AT);
	else
		RSM_CHECK(pair, rsm_memseg_import_get64(second->import.import, ANSWERED_AT, &answered, 1),
			  RSM_SUCCESS);
	CHECK(pair, answered == round, "round %lu: the second import reads %lu", round, answered);
	count_signals(pair, second->import.import, round, ANSWERS);
}

static void
put_round(struct importer *i, struct pair *pair, uint64_t round, uint8_t *block)
{
	pair_pattern(block, BLOCK, (uint32_t)round);
	RSM_CHECK(pair, rsm_memseg_import_open_barrier(&i->barrier), RSM_SUCCESS);
	for (uint32_t at = 0, n; at < BLOCK; at += n) {
		n = 1 + (uint32_t)(round * 2654435761u + at * 40503u) % 20000;
		n = n < BLOCK - at ? n : BLOCK - at;
		RSM_CHECK(pair, rsm_memseg_import_put(i->import, BLOCK_AT + at, block + at, n), RSM_SUCCESS);
	}
	RSM_CHECK(pair, rsm_memseg_import_order_barrier(&i->barrier), RSM_SUCCESS);
	for (uint32_t k = 0; k < NUMBERS; k++) {
		uint64_t number = round * NUMBERS + k;

		RSM_CHECK(pair, rsm_memseg_import_put64(i->import, 8 * k, &number, 1), RSM_SUCCESS);
		RSM_CHECK(pair, rsm_intr_signal_post(i->import, 0), RSM_SUCCESS);
	}
	RSM_CHECK(pair, rsm_memseg_import_close_barrier(&i->barrier), RSM_SUCCESS);
}

/* Connects, gets the block in implicit mode, and disconnects. */
static void
get_round(const struct importer *i, struct pair *pair, uint64_t round, uint8_t *block)
{
	struct importer third = *i;
	uint64_t number;

	importer_connect(&third, pair, RSM_PERM_READ);
	memset(block, 0, BLOCK);
	RSM_CHECK(pair, rsm_memseg_import_get(third.import, BLOCK_AT, block, BLOCK), RSM_SUCCESS);
	CHECK(pair, pair_pattern_check(block, BLOCK, (uint32_t)round) == BLOCK,
	      "round %lu: the block that was got differs", round);
	RSM_CHECK(pair, rsm_memseg_import_get64(third.import, 0, &number, 1), RSM_SUCCESS);
	CHECK(pair, number == round * NUMBERS, "round %lu: number %lu was got", round, number);
	importer_disconnect(&third, pair);
}

static void
importer_round(struct importer *i, struct second *second, const struct importer *guarded, struct pair *pair,
	       uint64_t round)
{
	static uint8_t block[BLOCK];

	second_store(second, pair, round);
	put_round(i, pair, round, block);
	guarded_put(guarded, pair, round, block);
	pair_send(pair, &round, sizeof(round));
	count_signals(pair, i->import, round, ANSWERS);
	second_check(second, pair, round);
	guarded_get(guarded, pair, round);
	if (round % 2 == 0)
		get_round(i, pair, round, block);
	pair_barrier(pair);
	printf("round %lu\n", round);
	fflush(stdout);
}

/* The segment has been withdrawn, and is published again. */
static void
after_rounds(struct importer *i, struct second *second, struct pair *pair)
{
	uint64_t number = END;

	RSM_CHECK(pair, rsm_memseg_import_set_mode(i->import, RSM_BARRIER_MODE_IMPLICIT), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_put64(i->import, 0, &number, 1), RSMERR_CONN_ABORTED);
	RSM_CHECK(pair, rsm_intr_signal_wait(i->import, LONG_MS), RSMERR_CONN_ABORTED);
	RSM_CHECK(pair, rsm_intr_signal_wait(second->import.import, LONG_MS), RSMERR_CONN_ABORTED);
	importer_disconnect(&second->import, pair);
	importer_disconnect(i, pair);
	pair_barrier(pair);
	pair_barrier(pair);
	importer_connect(i, pair, RSM_PERM_RDWR);
	RSM_CHECK(pair, rsm_memseg_import_put64(i->import, 0, &number, 1), RSM_SUCCESS);
	importer_disconnect(i, pair);
	pair_barrier(pair);
}

static void
takeover_client(struct pair *pair)
{
	const char *until = getenv("UNTIL");
	uint64_t round = 0, end = END;
	struct importer i, guarded;
	struct second second;

	CHECK(pair, until != NULL, "UNTIL is not set");
	alarm(0); /* the script ends what hangs */
	importer_open(&i, pair);
	pair_barrier(pair);
	importer_connect(&i, pair, RSM_PERM_RDWR);
	second_open(&second, pair, &i);
	guarded = i;
	importer_connect_to(&guarded, pair, GUARDED, pair->local ? RSM_PERM_READ : RSM_PERM_RDWR);
	RSM_CHECK(pair, rsm_memseg_import_set_mode(i.import, RSM_BARRIER_MODE_EXPLICIT), RSM_SUCCESS);
	while (access(until, F_OK) != 0)
		importer_round(&i, &second, &guarded, pair, ++round);
	importer_disconnect(&guarded, pair);
	if (second.map != NULL)
		RSM_CHECK(pair, rsm_memseg_import_unmap(second.import.import), RSM_SUCCESS);
	pair_send(pair, &end, sizeof(end));
	pair_barrier(pair);
	after_rounds(&i, &second, pair);
}

static const struct pair_case cases[] = {{"takeover", takeover_server, takeover_client, false}};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, 1);
}
