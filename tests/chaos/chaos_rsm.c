/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An application of RSM in a chaos run: it exports a segment, withdraws and publishes it, imports the
 * segments of other applications, puts blocks, gets and compares them, signals and maps.
 *
 * Each importer has areas of its own in every segment, uses a new one for each import, and puts its blocks
 * into the two halves of the area in turn. The importer reports its progress on the board, so that an
 * exporter knows which half is not being written, and which block must be there.
 */
#include <rsmapi.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "chaos.h"

#define HALF 8192u
#define AREAS 4u /* areas of an importer, used in turn */
#define AREA_OF(slot, id) (((slot)*AREAS + (id) % AREAS) * 2u * HALF)
#define SIZE (CHAOS_SLOTS * AREAS * 2u * HALF)
#define SEGMENT 0x480000u
#define IMPORTS 4u
#define WITHDRAWN 0xEE
#define PACE_US 1000

static rsmapi_controller_handle_t controller;

/* ---- the exporter ---- */

static struct {
	rsm_memseg_export_handle_t export;
	uint8_t *memory;
	bool published;
} own;

/* Checks that the last block that `importer` has put into this publication is complete, unless it is being
 * overwritten. */
static void
check_stream(uint32_t importer, uint32_t life)
{
	struct chaos_stream *stream = &chaos_board->stream[importer][chaos_self];
	uint64_t done = atomic_load(&stream->done), begun; /* Pairs with the stores in move_block(). */
	uint32_t id = (uint32_t)(done >> 32), sequence = (uint32_t)done, len;
	const uint8_t *block = own.memory + AREA_OF(importer, id) + sequence % 2 * HALF;
	static uint8_t copy[HALF];
	const char *wrong;

	if (sequence == 0 || atomic_load(&stream->publication) != life)
		return;
	memcpy(copy, block, HALF);
	begun = atomic_load(&stream->begun);
	if (begun >> 32 != id || (uint32_t)begun > sequence + 1 || atomic_load(&stream->publication) != life)
		return;
	memcpy(&len, copy + CHAOS_LENGTH_AT, sizeof(len));
	wrong = len < CHAOS_BLOCK_MIN || len > HALF
			? "the length is wrong"
			: chaos_block_wrong(copy, len, (struct chaos_origin){importer, id, sequence});
	/* After the death of a data plane, the block may have gone into the private copy that its importer
	 * kept. */
	if (wrong != NULL && chaos_plane_lives())
		chaos_fail(__FILE__, __LINE__, "block %u of import %u of slot %u: %s", sequence, id, importer,
			   wrong);
	atomic_fetch_add(&chaos_slot()->received, wrong == NULL);
}

static void
check_streams(void)
{
	uint32_t life = atomic_load(&chaos_slot()->life);

	for (uint32_t slot = 0; slot < CHAOS_SLOTS && (life & 1); slot++)
		check_stream(slot, life);
}

static void
create(void)
{
	int error;

	chaos_enter(CHAOS_REGISTER);
	error = rsm_memseg_export_create(controller, &own.export, own.memory, SIZE, 0);
	if (error == RSMERR_CTLR_NOT_PRESENT && !chaos_plane_lives())
		own.export = NULL;
	else
		CHAOS_CHECK(error == RSM_SUCCESS, "create: %s", rsm_strerror(error));
}

static void
publish(void)
{
	rsm_memseg_id_t id = SEGMENT + chaos_self;
	int error;

	memset(own.memory, 0, SIZE);
	if (own.export == NULL)
		create();
	if (own.export == NULL)
		return;
	chaos_enter(CHAOS_LISTEN);
	error = rsm_memseg_export_publish(own.export, &id, NULL, 0);
	if (error == RSMERR_SEGID_IN_USE && !chaos_control)
		return; /* the slot's previous process has not completely gone */
	if (error != RSM_SUCCESS && !chaos_plane_lives())
		return;
	CHAOS_CHECK(error == RSM_SUCCESS, "publish: %s", rsm_strerror(error));
	own.published = true;
	chaos_listening(true);
}

/* Withdraws the segment; checks that nobody changes its memory after that. */
static void
withdraw(void)
{
	bool destroy = chaos_number(4) == 0;
	int error;

	check_streams();
	chaos_listening(false);
	chaos_enter(CHAOS_END);
	error = destroy ? rsm_memseg_export_destroy(own.export) : rsm_memseg_export_unpublish(own.export);
	CHAOS_CHECK(error == RSM_SUCCESS || !chaos_plane_lives(), "%s: %s", destroy ? "destroy" : "unpublish",
		    rsm_strerror(error));
	own.published = false;
	if (destroy)
		own.export = NULL;
	memset(own.memory, WITHDRAWN, SIZE);
	usleep((useconds_t)chaos_number(3000));
	for (uint32_t at = 0; at < SIZE; at++)
		CHAOS_CHECK(((volatile uint8_t *)own.memory)[at] == WITHDRAWN,
			    "byte %u was changed after the segment was withdrawn", at);
}

static void
export_step(void)
{
	int error = RSM_SUCCESS;

	if (!own.published) {
		publish();
		return;
	}
	if (!chaos_control && chaos_number(40) == 0) {
		withdraw();
		return;
	}
	while (error == RSM_SUCCESS)
		error = rsm_intr_signal_wait(own.export, 0);
	CHAOS_CHECK(error == RSMERR_TIMEOUT || !chaos_plane_lives(), "wait: %s", rsm_strerror(error));
	check_streams();
}

/* ---- importers ---- */

struct import {
	rsm_memseg_import_handle_t import; /* NULL: not connected */
	rsmapi_barrier_t barrier;
	struct chaos_lives lives;
	void *map;
	uint32_t id, sequence;
};

static struct import imports[IMPORTS];

static void
count_ready(void)
{
	uint32_t ready = own.published;

	for (uint32_t k = 0; k < IMPORTS; k++)
		ready += imports[k].import != NULL && !chaos_excused(&imports[k].lives);
	atomic_store(&chaos_slot()->ready, ready);
}

static void
import_end(struct import *i)
{
	int error = RSM_SUCCESS;

	chaos_enter(CHAOS_END);
	if (i->map != NULL)
		error = rsm_memseg_import_unmap(i->import);
	CHAOS_CHECK(error == RSM_SUCCESS, "unmap: %s", rsm_strerror(error));
	error = rsm_memseg_import_destroy_barrier(&i->barrier);
	CHAOS_CHECK(error == RSM_SUCCESS, "destroy_barrier: %s", rsm_strerror(error));
	error = rsm_memseg_import_disconnect(i->import);
	CHAOS_CHECK(error == RSM_SUCCESS, "disconnect: %s", rsm_strerror(error));
	memset(i, 0, sizeof(*i));
}

/* Returns true, and ends the import, if `error` reports its end, which a death or a withdrawal must
 * explain. */
static bool
is_over(struct import *i, int error, const char *what)
{
	if (error == RSM_SUCCESS)
		return false;
	CHAOS_CHECK(chaos_excused(&i->lives), "%s: %s, and nothing has happened to slot %u or its data plane",
		    what, rsm_strerror(error), i->lives.slot);
	CHAOS_CHECK(error == RSMERR_CONN_ABORTED || error == RSMERR_BARRIER_FAILURE ||
			    error == RSMERR_REMOTE_NODE_UNREACHABLE || error == RSMERR_MAP_FAILED,
		    "%s: %s", what, rsm_strerror(error));
	atomic_fetch_add(&chaos_slot()->excused, 1);
	import_end(i);
	return true;
}

static bool
is_imported(uint32_t slot)
{
	for (uint32_t k = 0; k < IMPORTS; k++)
		if (imports[k].import != NULL && imports[k].lives.slot == slot)
			return true;
	return false;
}

static void
stream_begin(struct import *i)
{
	struct chaos_stream *stream = &chaos_board->stream[chaos_self][i->lives.slot];

	i->id = atomic_fetch_add(&chaos_slot()->imports, 1) + 1;
	atomic_store(&stream->begun, (uint64_t)i->id << 32);
	atomic_store(&stream->done, (uint64_t)i->id << 32);
	atomic_store(&stream->publication, i->lives.life);
}

static void
map(struct import *i)
{
	int error;

	chaos_enter(CHAOS_MAP);
	error = rsm_memseg_import_map(i->import, &i->map, RSM_MAP_NONE, RSM_PERM_RDWR, 0, SIZE);
	if (error != RSM_SUCCESS)
		i->map = NULL;
	is_over(i, error, "map");
}

static void
import_begin(struct import *i)
{
	uint32_t slot = chaos_choose();
	int error;

	if (is_imported(slot) || !chaos_lives_begin(&i->lives, slot))
		return;
	chaos_enter(CHAOS_CONNECT);
	error = rsm_memseg_import_connect(controller, slot % CHAOS_PLANES + 1, SEGMENT + slot, RSM_PERM_RDWR,
					  &i->import);
	if (error != RSM_SUCCESS) {
		i->import = NULL;
		CHAOS_CHECK(chaos_excused(&i->lives),
			    "connect to slot %u: %s, and nothing has happened to it", slot,
			    rsm_strerror(error));
		return;
	}
	atomic_fetch_add(&chaos_slot()->connected, 1);
	memset(&i->barrier, 0, sizeof(i->barrier));
	error = rsm_memseg_import_init_barrier(i->import, RSM_BARRIER_SEGMENT, &i->barrier);
	CHAOS_CHECK(error == RSM_SUCCESS, "init_barrier: %s", rsm_strerror(error));
	/* The exporter may have published anew meanwhile: its later errors could not be judged. */
	if (chaos_excused(&i->lives)) {
		import_end(i);
		return;
	}
	stream_begin(i);
	if (slot % CHAOS_PLANES == chaos_self % CHAOS_PLANES && chaos_number(2) == 0)
		map(i);
}

static int
put_pieces(struct import *i, off_t at, uint8_t *block, uint32_t len)
{
	int error = rsm_memseg_import_set_mode(i->import, RSM_BARRIER_MODE_EXPLICIT), end;

	CHAOS_CHECK(error == RSM_SUCCESS, "set_mode: %s", rsm_strerror(error));
	error = rsm_memseg_import_open_barrier(&i->barrier);
	CHAOS_CHECK(error == RSM_SUCCESS, "open_barrier: %s", rsm_strerror(error));
	for (uint32_t from = 0, n; from < len; from += n) {
		n = 1 + (uint32_t)chaos_number(len - from);
		error = rsm_memseg_import_put(i->import, at + (off_t)from, block + from, n);
		CHAOS_CHECK(error == RSM_SUCCESS, "a put inside a span: %s", rsm_strerror(error));
	}
	end = rsm_memseg_import_close_barrier(&i->barrier);
	error = rsm_memseg_import_set_mode(i->import, RSM_BARRIER_MODE_IMPLICIT);
	CHAOS_CHECK(error == RSM_SUCCESS, "set_mode: %s", rsm_strerror(error));
	return end;
}

static void
move_block(struct import *i)
{
	static uint8_t block[HALF], back[HALF];
	struct chaos_stream *stream = &chaos_board->stream[chaos_self][i->lives.slot];
	uint32_t len =
		CHAOS_BLOCK_MIN + (uint32_t)chaos_number(chaos_number(2) ? 64 : HALF - CHAOS_BLOCK_MIN);
	struct chaos_origin origin = {chaos_self, i->id, ++i->sequence};
	off_t at = AREA_OF(chaos_self, i->id) + i->sequence % 2 * HALF;
	const char *wrong;
	int error;

	chaos_block_fill(block, len, origin);
	/* Pairs with check_stream() of the exporter, as does the store of `done` below. */
	atomic_store(&stream->begun, (uint64_t)i->id << 32 | i->sequence);
	chaos_enter(CHAOS_TRANSFER);
	error = chaos_number(3) ? rsm_memseg_import_put(i->import, at, block, len)
				: put_pieces(i, at, block, len);
	if (is_over(i, error, "put"))
		return;
	atomic_store(&stream->done, (uint64_t)i->id << 32 | i->sequence);
	memset(back, 0, len);
	error = rsm_memseg_import_get(i->import, at, back, len);
	if (is_over(i, error, "get"))
		return;
	wrong = chaos_block_wrong(back, len, origin);
	CHAOS_CHECK(wrong == NULL || chaos_excused(&i->lives),
		    "block %u that was put to slot %u came back: %s", i->sequence, i->lives.slot, wrong);
	atomic_fetch_add(&chaos_slot()->blocks, wrong == NULL);
	if (chaos_number(4) == 0)
		is_over(i, rsm_intr_signal_post(i->import, RSM_SIGPOST_NO_ACCUMULATE), "post");
}

static void
import_step(struct import *i)
{
	if (i->import == NULL)
		import_begin(i);
	else if (chaos_number(chaos_control ? 1000 : 60) == 0)
		import_end(i);
	else
		move_block(i);
}

/* ---- the process ---- */

static void
attach(void)
{
	static char name[] = "p0";
	int error;

	for (;;) {
		uint32_t life = chaos_attached();

		chaos_enter(CHAOS_ATTACH);
		error = rsm_get_controller(name, &controller);
		if (error == RSM_SUCCESS) {
			chaos_attach_done(life);
			return;
		}
		CHAOS_CHECK(chaos_attach_excused(life), "no controller: %s", rsm_strerror(error));
	}
}

/* After the loss of the data plane: every import must report its end, and the export that it is not
 * published. Then waits for a new data plane. */
static void
lose_plane(void)
{
	uint64_t word;
	bool more = true;

	chaos_listening(false);
	while (more) {
		more = false;
		for (uint32_t k = 0; k < IMPORTS; k++)
			if (imports[k].import != NULL)
				more |= !is_over(&imports[k],
						 rsm_memseg_import_get64(imports[k].import, 0, &word, 1),
						 "get");
	}
	if (own.published) {
		int error = rsm_memseg_export_unpublish(own.export);

		CHAOS_CHECK(error == RSMERR_SEG_NOT_PUBLISHED || error == RSM_SUCCESS, "unpublish: %s",
			    rsm_strerror(error));
	}
	own.published = false;
	chaos_reported();
	chaos_attach_done(chaos_attached());
}

static void
end(void)
{
	int error;

	for (uint32_t k = 0; k < IMPORTS; k++)
		if (imports[k].import != NULL)
			import_end(&imports[k]);
	if (own.published)
		withdraw();
	if (own.export != NULL) {
		error = rsm_memseg_export_destroy(own.export);
		CHAOS_CHECK(error == RSM_SUCCESS, "destroy: %s", rsm_strerror(error));
	}
	error = rsm_release_controller(controller);
	CHAOS_CHECK(error == RSM_SUCCESS, "release: %s", rsm_strerror(error));
}

int
main(int argc, char **argv)
{
	chaos_start(argc, argv);
	own.memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHAOS_CHECK(own.memory != MAP_FAILED, "no memory");
	attach();
	while (!chaos_stops()) {
		if (!chaos_plane_lives())
			lose_plane();
		else if (!own.published || chaos_number(8) == 0)
			export_step();
		else
			import_step(&imports[chaos_number(IMPORTS)]);
		count_ready();
		usleep(chaos_control ? 4 * PACE_US : PACE_US);
	}
	chaos_listening(false);
	end();
	return 0;
}
