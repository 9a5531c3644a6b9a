/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A polling core and one application with queue pairs of every kind, in virtual time: what the targets of the
 * data path share.  Each input begins with a new application, and after it nothing of it is left.
 */
#ifndef TESTS_FUZZ_PLANE_H
#define TESTS_FUZZ_PLANE_H

#include "tests/fuzz/base/records.h"
#include "tests/unit/engine/fixture.h"

enum {
	PLANE_ACTIVE,    /* RC_RTS, its peer on the wire */
	PLANE_PASSIVE,   /* RC_RTR, before the RTU */
	PLANE_SELECTIVE, /* RC_RTS, repeats selectively */
	PLANE_SHARED,    /* RC_RTS, receives from the shared queue */
	PLANE_HERE,      /* RC_RTS, its peer is PLANE_THERE, by direct copies */
	PLANE_THERE,
	PLANE_LOOPED, /* RC_RTS, its own peer, by frames */
	PLANE_UD,
	PLANE_UD_SHARED, /* receives from the shared queue */
	PLANE_SIGNALS,   /* RC_RTS, an exporter's end of RSM: without rings, what comes is counted */
	PLANE_PAIRS
};

#define PLANE_MEMORY 16384u
#define PLANE_QKEY 0x11111111u

struct plane {
	struct app app;
	struct ring send, recv, conn, async, few, counter; /* few: soon full, of those that share */
	struct pair pair[PLANE_PAIRS];
	struct memory memory, read_only, window, foreign, slow; /* slow: moved by the copy thread */
	struct reach *reach;
	struct one_copies *copies;
	struct one_keys *keys;
	struct engine_srq *srq;
	struct one_srq_shm *srq_shm;
	struct one_wqe *srq_ring;
	uint32_t srq_tail;
	struct engine_ah *ah[2]; /* to the peer on the wire, and to ourselves */
	uint32_t binds[PLANE_PAIRS];
	uint32_t copied; /* that the copy thread has answered */
};
extern struct plane plane;

void plane_begin(void);
void plane_end(void);
/* A loop of the core, so long after the one before, and one of the control thread. */
void plane_turn(uint64_t ns);
/* As if it came by the port; at most as long as a receive buffer. */
void plane_receive(const uint8_t *frame, uint32_t len);
uint32_t plane_frame_room(void);
/* Gives a frame of RoCE its ICRC, and an IPv4 header its checksum. */
void plane_seal(uint8_t *frame, uint32_t len);
/* Where IP and BTH of the frame begin; false: it has none. */
bool plane_headers(const uint8_t *frame, uint32_t len, uint32_t *ip, uint32_t *bth);
/* IP and UDP say that they are as long as the frame, but for what is no multiple of 4. */
void plane_fix_lengths(uint8_t *frame, uint32_t len, uint32_t ip, uint32_t bth);
/* A key of one of the memories, or any number. */
uint32_t plane_key(uint8_t which);
struct wire_addr plane_addr(uint8_t last);

static inline bool
plane_is_ud(const struct pair *pair)
{
	return pair == &plane.pair[PLANE_UD] || pair == &plane.pair[PLANE_UD_SHARED];
}

/* Records that the targets have in common, by their first byte: work, time, what the control thread does. */
void plane_record(uint8_t kind, struct bytes *record);

#endif
