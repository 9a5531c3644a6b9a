/* SPDX-License-Identifier: BSD-3-Clause */
/* Contents that an application writes into its arena: work requests that no library makes, indices of rings,
 * doorbells, requests for keys, answers of its copy thread, and any byte at any time. */
#include <string.h>

#include "plane.h"

/* Number of bytes of the arena in use. */
static uint64_t
arena_used(void)
{
	return plane.app.next;
}

/* Returns an address that suits the key of the same `which`. */
static uint64_t
address(uint8_t which, uint64_t offset)
{
	const struct memory *of[] = {&plane.memory, &plane.read_only, &plane.window, &plane.foreign,
				     &plane.slow};

	return which % 8 < 5 ? of[which % 8]->region.va + offset : offset;
}

static void
fill_sge(struct one_sge *sge, struct bytes *record)
{
	uint8_t which = (uint8_t)record_number(record, 1);

	sge->lkey = plane_key(which);
	sge->addr = address(which, record_number(record, 2));
	sge->len = (uint32_t)record_number(record, 2);
}

/* Fills a slot with fields that mostly fit together; `length` is their sum, unless the record falsifies
 * it. */
static uint32_t
fill_request(struct one_wqe *ring, uint32_t tail, bool ud, struct bytes *record)
{
	struct one_wqe *wqe = &ring[one_ring_slot(tail, RING_LOG2)];
	uint8_t to = (uint8_t)record_number(record, 1), lie = (uint8_t)record_number(record, 1);
	uint32_t slots;

	wqe->op = (uint8_t)record_number(record, 1);
	wqe->flags = (uint8_t)record_number(record, 1);
	wqe->num_sge = (uint8_t)record_number(record, 1);
	wqe->inline_len = (wqe->flags & ONE_WQE_INLINE) != 0 ? lie >> 3 : 0;
	wqe->cookie = tail;
	wqe->rkey = ud ? PLANE_QKEY : plane_key(to);
	wqe->imm = (uint32_t)record_number(record, 4);
	wqe->remote_addr = ud ? one_ud_to(0x30007u + to % 4, plane.pair[PLANE_UD + to / 4 % 2].qpn)
			      : address(to, record_number(record, 2));
	memset(wqe->reserved, lie == 0xff, sizeof(wqe->reserved));
	wqe->length = (wqe->flags & ONE_WQE_INLINE) != 0 ? wqe->inline_len : 0;
	slots = one_wqe_slots(wqe->num_sge <= ONE_MAX_SGE ? wqe->num_sge : 1);
	fill_sge(&wqe->sge, record);
	wqe->length += wqe->sge.len;
	for (uint32_t i = 1; i < slots; i++) {
		struct one_wqe_ext *ext = (struct one_wqe_ext *)&ring[one_ring_slot(tail + i, RING_LOG2)];

		for (uint32_t j = 0; j < ONE_SGE_PER_EXT; j++) {
			fill_sge(&ext->sge[j], record);
			wqe->length += (i - 1) * ONE_SGE_PER_EXT + j + 1 < wqe->num_sge ? ext->sge[j].len : 0;
		}
	}
	if ((lie & 7) == 7)
		wqe->length = (uint32_t)record_number(record, 4);
	return slots;
}

static void
commit(struct one_wqe *ring, uint32_t tail, uint32_t slots)
{
	while (slots-- > 0)
		atomic_store(&ring[one_ring_slot(tail + slots, RING_LOG2)].phase,
			     one_ring_phase(tail + slots, RING_LOG2));
}

static void
request(struct bytes *record)
{
	uint8_t which = (uint8_t)record_number(record, 1);
	struct pair *pair = &plane.pair[which % PLANE_PAIRS];
	bool ud = plane_is_ud(pair);
	uint32_t slots;

	if (pair->sq == NULL)
		return;
	if (which >= 0xc0) {
		slots = fill_request(plane.srq_ring, plane.srq_tail, false, record);
		atomic_store(&plane.srq_shm->posted, plane.srq_tail + which % 4);
		commit(plane.srq_ring, plane.srq_tail, slots);
		plane.srq_tail += slots;
	} else if (which >= 0x80) {
		slots = fill_request(pair->rq, pair->rq_tail, false, record);
		commit(pair->rq, pair->rq_tail, slots);
		pair->rq_tail += slots;
	} else {
		slots = fill_request(pair->sq, pair->sq_tail, ud, record);
		commit(pair->sq, pair->sq_tail, slots);
		pair->sq_tail += slots;
	}
	one_doorbell_ring(plane.app.doorbells, pair->doorbell);
}

/* Writes bytes anywhere in the arena. */
static void
poke(struct bytes *record)
{
	uint64_t at = record_number(record, 4) % arena_used();

	record_fill(record, plane.app.arena + at,
		    record->left < arena_used() - at ? record->left : arena_used() - at);
}

static void
completions(struct bytes *record)
{
	struct ring *const rings[] = {&plane.send,  &plane.recv, &plane.conn,
				      &plane.async, &plane.few,  &plane.counter};
	struct ring *ring = rings[record_number(record, 1) % 6];
	uint8_t what = (uint8_t)record_number(record, 1);
	uint32_t value = (uint32_t)record_number(record, 4);

	atomic_store(&ring->bundle->descriptor, value >> 3);
	if (what % 2 == 0)
		atomic_store(&ring->shm->head, what >= 0x80 ? value : ring->cq->tail - value % 8);
	else
		ring_arm(ring, one_arm((uint16_t)record_number(record, 2), (uint16_t)record_number(record, 2),
				       ring->cq->tail - value % 4));
}

static void
keys(struct bytes *record)
{
	struct one_keys *room = plane.keys;
	uint8_t which = (uint8_t)record_number(record, 1);

	atomic_store(&room->op, (uint32_t)record_number(record, 1) % 4);
	atomic_store(&room->key, plane_key(which));
	atomic_store(&room->next, plane_key(which) ^ (uint32_t)record_number(record, 4));
	atomic_fetch_add(&room->asked, 1);
	atomic_store(&plane.app.doorbells->keys, 1);
}

/* Writes an answer of the copy thread, correct unless the record falsifies it. */
static void
answer(struct bytes *record)
{
	uint8_t lie = (uint8_t)record_number(record, 1);
	uint32_t sequence = (uint32_t)record_number(record, 1);
	struct one_copy_answer *a = &plane.copies->answer[one_ring_slot(sequence, ONE_COPY_LOG2)];

	a->value = lie;
	a->sequence = (lie & 2) != 0 ? (uint32_t)record_number(record, 4) : sequence;
	a->error = (lie & 4) != 0 ? (uint32_t)record_number(record, 1) : 0;
	atomic_store(&a->phase, one_ring_phase(sequence, ONE_COPY_LOG2));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes input = {data, size}, record;

	plane_begin();
	while (record_next(&input, &record)) {
		uint8_t kind = (uint8_t)record_number(&record, 1);

		switch (kind % 12) {
		case 0:
			poke(&record);
			break;
		case 1:
			completions(&record);
			break;
		case 2:
			keys(&record);
			break;
		case 3:
			answer(&record);
			break;
		case 4:
		case 5:
		case 6:
		case 7:
			plane_record(kind % 12 - 4, &record);
			break;
		default:
			request(&record);
			plane_turn(1000);
			break;
		}
	}
	plane_end();
	return 0;
}
