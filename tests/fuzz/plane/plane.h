/* SPDX-License-Identifier: BSD-3-Clause */
/* A polling core and an application with queue pairs of every kind, in virtual time, for all targets of the
 * data path. Each input begins with a new application, of which nothing is left afterwards. */
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
	PLANE_SIGNALS,   /* RC_RTS, an RSM exporter's: without rings, signals are counted */
	PLANE_PAIRS
};

#define PLANE_MEMORY 16384u
#define PLANE_QKEY 0x11111111u

struct plane {
	struct app app;
	struct ring send, recv, conn, async, few, counter; /* few: a shared ring that is soon full */
	struct pair pair[PLANE_PAIRS];
	struct memory memory, read_only, window, foreign, slow; /* slow: accessed by the copy thread */
	struct bounce *bounce;
	struct one_copies *copies;
	struct one_keys *keys;
	struct engine_srq *srq;
	struct one_srq_shm *srq_shm;
	struct one_wqe *srq_ring;
	uint32_t srq_tail;
	struct engine_ah *ah[2]; /* to the peer on the wire, and to ourselves */
	uint32_t binds[PLANE_PAIRS];
	uint32_t copied; /* requests to the copy thread that are answered */
};
extern struct plane plane;

void plane_begin(void);
void plane_end(void);
/* Runs a loop of the core, `ns` after the previous one, and a loop of the control thread. */
void plane_turn(uint64_t ns);
/* Receives a frame from the port; at most as long as a receive buffer. */
void plane_receive(const uint8_t *frame, uint32_t len);
uint32_t plane_frame_room(void);
/* Gives a frame of RoCE its ICRC, and an IPv4 header its checksum. */
void plane_seal(uint8_t *frame, uint32_t len);
/* Finds where IP and BTH of the frame begin; false: the frame has none. */
bool plane_headers(const uint8_t *frame, uint32_t len, uint32_t *ip, uint32_t *bth);
/* Sets the lengths in IP and UDP to the frame's, rounded down to a multiple of 4. */
void plane_fix_lengths(uint8_t *frame, uint32_t len, uint32_t ip, uint32_t bth);
/* Returns a key of one of the memories, or any number. */
uint32_t plane_key(uint8_t which);
struct wire_addr plane_addr(uint8_t last);

static inline bool
plane_is_ud(const struct pair *pair)
{
	return pair == &plane.pair[PLANE_UD] || pair == &plane.pair[PLANE_UD_SHARED];
}

/* Carries out a record that all targets share, by its first byte: work, time, the control thread's
 * commands. */
void plane_record(uint8_t kind, struct bytes *record);

#endif
