/* SPDX-License-Identifier: BSD-3-Clause */
/* Records of queue pairs in any state, written by the core's part of a take-over, changed, and read again.
 * The queue pair goes on with what was accepted. */
#include <stdlib.h>
#include <string.h>

#include "dataplane/engine/takeover.h"
#include "dataplane/qp/move.h"
#include "plane.h"

/* Bytes of records beyond this one are changed alike, relative to the stream. */
static void
change_bytes(struct record_out *out, struct bytes *record)
{
	while (record->left > 0) {
		size_t at = (size_t)record_number(record, 2) % out->length;

		out->bytes[at] ^= (uint8_t)record_number(record, 1);
	}
}

/* The queue pair is as in a new process, whose constructor has made it. */
static void
forget_frozen(struct engine_qp *qp, struct engine_move *move)
{
	if (move == NULL)
		return;
	qp_moved(qp_core(qp), move);
	atomic_fetch_sub(&qp->client->home->moving, 1);
	qp->move = NULL;
	qp->frozen = false;
	engine_move_free(move);
}

/* Reads the records of a stream. Returns 0 or -EINVAL. */
static int
read_stream(struct engine_qp *qp, const struct record_out *out)
{
	struct record_in in = {.bytes = out->bytes, .length = out->length};
	struct record core, rc;
	bool has_rc;

	if (record_take(&in, &core) <= 0)
		return -1;
	has_rc = record_take(&in, &rc) > 0;
	return engine_qp_read(qp, &core, has_rc ? &rc : NULL, true);
}

static struct record_out
copy_of(const struct record_out *out)
{
	struct record_out copy = {.bytes = malloc(out->length), .length = out->length};

	if (copy.bytes == NULL)
		abort();
	memcpy(copy.bytes, out->bytes, out->length);
	return copy;
}

/* A new transport, as engine_qp_new() makes it. */
static void
make_transport_anew(struct engine_qp *qp)
{
	if (qp->rc != NULL && rc_state(qp->rc) != RC_RESET)
		rc_reset(qp->rc);
	if (qp->rc != NULL)
		rc_init(qp->rc, &qp_core(qp)->env, qp->client->number, qp);
}

static void
hand_over(struct bytes *record)
{
	struct engine_qp *qp = plane.pair[record_number(record, 1) % PLANE_PAIRS].qp;
	struct record_out out = {.bytes = NULL}, changed;
	struct engine_move *move;

	if (qp == NULL || engine_qp_freeze(qp, &move) != 0)
		return;
	engine_qp_write(qp, move, &out);
	forget_frozen(qp, move);
	make_transport_anew(qp);
	changed = copy_of(&out);
	change_bytes(&changed, record);
	if (read_stream(qp, &changed) != 0) {
		make_transport_anew(qp);
		if (read_stream(qp, &out) != 0)
			fuzz_fail("a record is refused that was not changed");
	}
	engine_qp_go_on(qp);
	free(changed.bytes);
	record_out_free(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes input = {data, size}, record;

	plane_begin();
	while (record_next(&input, &record)) {
		uint8_t kind = (uint8_t)record_number(&record, 1);

		if (kind % 5 == 4)
			hand_over(&record);
		else
			plane_record(kind % 5, &record);
		plane_turn(1000);
	}
	plane_end();
	return 0;
}
