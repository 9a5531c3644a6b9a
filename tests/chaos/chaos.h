/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the applications of a chaos run share: the board, on which the driver and
 * they tell each other who is alive, and what every block of data says of itself.
 *
 * An application never guesses whether an error is somebody's death: each counter
 * below changes *before* what it stands for is done.  So an error is excused exactly
 * if a counter that it depends on has changed since the connection began.
 */
#ifndef TESTS_CHAOS_H
#define TESTS_CHAOS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHAOS_SLOTS 16u
#define CHAOS_PLANES 2u
#define CHAOS_CONTROLS 4u /* slots of applications that nobody touches */

enum chaos_phase {
	CHAOS_ATTACH,
	CHAOS_REGISTER,
	CHAOS_LISTEN,
	CHAOS_CONNECT,
	CHAOS_ACCEPT,
	CHAOS_TRANSFER,
	CHAOS_MAP,
	CHAOS_END,
	CHAOS_PHASES
};

/* The driver writes, applications read. */
struct chaos_plane {
	_Atomic uint32_t life; /* odd: it is being killed, or not up again */
	uint32_t reserved;
	_Atomic uint64_t killed_ns; /* when, by CLOCK_MONOTONIC */
	_Atomic uint64_t gone_ns;   /* when the kernel was done with the process; 0: not yet */
};

struct chaos_slot {
	_Atomic uint32_t killed;    /* the driver's.  Odd: it is being killed, or there is none */
	_Atomic uint32_t life;      /* the application's.  Odd: it listens, or its segment is published */
	_Atomic uint32_t paused;    /* the driver's: how often it was stopped */
	_Atomic uint32_t ready;     /* the application's: connections or imports that are open */
	_Atomic uint32_t imports;   /* the application's: ids of imports */
	_Atomic uint32_t doomed;    /* the application's: it has armed its own end in the phase - 1 */
	_Atomic uint32_t told_ms;   /* from the kill of its data plane; the longest */
	_Atomic uint32_t late_ms;   /* the same from the moment at which the kernel was done with it */
	_Atomic uint32_t told;      /* how often */
	_Atomic uint32_t unended;   /* connections with work that never ended; see lose_plane */
	_Atomic uint64_t blocks;    /* sent or put, read back and compared */
	_Atomic uint64_t received;  /* verified by who received them */
	_Atomic uint64_t connected; /* connections or imports made */
	_Atomic uint64_t excused;   /* ends of connections that somebody's death explains */
};

/* What an importer tells an exporter: id << 32 | sequence. */
struct chaos_stream {
	_Atomic uint64_t begun, done;
	_Atomic uint32_t publication; /* the exporter's life that it holds for */
	uint32_t reserved;
};

struct chaos_board {
	_Atomic uint32_t stop; /* 1: applications are to end; 2: those that nobody touches, too */
	_Atomic uint32_t failures;
	_Atomic uint32_t slots; /* in use */
	uint32_t reserved;
	struct chaos_plane plane[CHAOS_PLANES];
	struct chaos_slot slot[CHAOS_SLOTS];
	struct chaos_stream stream[CHAOS_SLOTS][CHAOS_SLOTS]; /* [importer][exporter] */
};

/* The counters that a connection with `slot` depends on, as they were when it began. */
struct chaos_lives {
	uint32_t slot, own, plane, life, killed;
};

extern struct chaos_board *chaos_board;
extern uint32_t chaos_self;
extern bool chaos_control; /* nobody touches this application */

/* argv: BOARD SLOT SEED SOCKET UID DOOM-PHASE DOOM-COUNT DOOM-MICROSECONDS */
void chaos_start(int argc, char **argv);
_Noreturn void chaos_fail(const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
#define CHAOS_CHECK(condition, ...)                                  \
	do {                                                         \
		if (!(condition))                                    \
			chaos_fail(__FILE__, __LINE__, __VA_ARGS__); \
	} while (0)

/* Whether this application is to end. */
bool chaos_stops(void);
uint64_t chaos_number(uint64_t below);
uint64_t chaos_now_ns(void);

/* Before each call of that kind; may be the last thing that this process does. */
void chaos_enter(enum chaos_phase phase);
/* Whether peers may find this application. */
void chaos_listening(bool listening);

static inline struct chaos_slot *
chaos_slot(void)
{
	return &chaos_board->slot[chaos_self];
}

static inline struct chaos_plane *
chaos_plane_of(uint32_t slot)
{
	return &chaos_board->plane[slot % CHAOS_PLANES];
}

/* 0: uDAPL, 1: RSM. */
static inline uint32_t
chaos_face(uint32_t slot)
{
	return slot / 2 % 2;
}

/* Somebody of the same face to connect with. */
uint32_t chaos_choose(void);
/* False: one of them is not there. */
bool chaos_lives_begin(struct chaos_lives *lives, uint32_t slot);
/* The same of a peer that has told its counters. */
void chaos_lives_take(struct chaos_lives *lives, const struct chaos_lives *told);
bool chaos_excused(const struct chaos_lives *lives);

/*
 * The own data plane: chaos_attached waits for one and gives its life; whoever finds
 * it gone calls chaos_told when everything has said so.  A thread fails this
 * process when that takes too long.
 */
uint32_t chaos_attached(void);
void chaos_attach_done(uint32_t life);
/* Whether an attempt to attach could fail: the data plane has gone since chaos_attached(), or the machine has
 * kept it from answering for as long as the library waits. */
bool chaos_attach_excused(void);
bool chaos_plane_lives(void);
void chaos_told(void);

/* ---- blocks ---- */

#define CHAOS_BLOCK_MIN 64u
#define CHAOS_LENGTH_AT 28u /* of a block, where its length stands */

struct chaos_origin {
	uint32_t slot, stream, sequence;
};

void chaos_block_fill(void *block, uint32_t len, struct chaos_origin origin);
/* NULL, or what is wrong with it. */
const char *chaos_block_wrong(const void *block, uint32_t len, struct chaos_origin origin);

#endif
