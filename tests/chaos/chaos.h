/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State that the applications of a chaos run share: the board, on which the driver and the applications
 * report who is alive, and the header of each block of data.
 *
 * An application never guesses whether an error is due to a death: each counter below changes *before* the
 * event that it counts. So an error is excused exactly if a counter that it depends on has changed since the
 * connection began.
 */
#ifndef TESTS_CHAOS_H
#define TESTS_CHAOS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHAOS_SLOTS 16u
#define CHAOS_PLANES 2u
#define CHAOS_CONTROLS 4u /* slots of control applications, which the driver neither kills nor stops */

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

/* State of a data plane. Written by the driver, read by applications. */
struct chaos_plane {
	_Atomic uint32_t life; /* odd: being killed, or not up again */
	uint32_t reserved;
	_Atomic uint64_t killed_ns; /* time of the last kill, by CLOCK_MONOTONIC */
	_Atomic uint64_t gone_ns;   /* time at which the kernel had released the process; 0: not yet */
};

struct chaos_slot {
	_Atomic uint32_t killed;      /* by the driver. Odd: being killed, or no process */
	_Atomic uint32_t life;        /* by the application. Odd: it listens, or its segment is published */
	_Atomic uint32_t paused;      /* by the driver: number of stops */
	_Atomic uint32_t ready;       /* by the application: open connections or imports */
	_Atomic uint32_t imports;     /* by the application: ids of imports */
	_Atomic uint32_t doomed;      /* by the application: it has armed its own end in phase `doomed` - 1 */
	_Atomic uint32_t reported_ms; /* longest time from the kill of its data plane to its notice */
	_Atomic uint32_t late_ms;   /* longest time from the end of that data plane's process to the notice */
	_Atomic uint32_t reported;  /* number of such notices */
	_Atomic uint32_t unended;   /* connections with work that never completed; see lose_plane */
	_Atomic uint64_t blocks;    /* sent or put, read back and compared */
	_Atomic uint64_t received;  /* received and verified */
	_Atomic uint64_t connected; /* connections or imports made */
	_Atomic uint64_t excused;   /* ends of connections that a death explains */
};

/* Progress that an importer reports to an exporter: id << 32 | sequence. */
struct chaos_stream {
	_Atomic uint64_t begun, done;
	_Atomic uint32_t publication; /* life of the exporter for which begun and done are valid */
	uint32_t reserved;
};

struct chaos_board {
	_Atomic uint32_t stop; /* 1: applications must end; 2: control applications, too */
	_Atomic uint32_t failures;
	_Atomic uint32_t slots; /* slots in use */
	uint32_t reserved;
	struct chaos_plane plane[CHAOS_PLANES];
	struct chaos_slot slot[CHAOS_SLOTS];
	struct chaos_stream stream[CHAOS_SLOTS][CHAOS_SLOTS]; /* [importer][exporter] */
};

/* Values of the counters that a connection with `slot` depends on, from its beginning. */
struct chaos_lives {
	uint32_t slot, own, plane, life, killed;
};

extern struct chaos_board *chaos_board;
extern uint32_t chaos_self;
extern bool chaos_control; /* the driver neither kills nor stops this application */

/* argv: BOARD SLOT SEED SOCKET UID DOOM-PHASE DOOM-COUNT DOOM-MICROSECONDS */
void chaos_start(int argc, char **argv);
_Noreturn void chaos_fail(const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
#define CHAOS_CHECK(condition, ...)                                  \
	do {                                                         \
		if (!(condition))                                    \
			chaos_fail(__FILE__, __LINE__, __VA_ARGS__); \
	} while (0)

/* Must this application end? */
bool chaos_stops(void);
uint64_t chaos_number(uint64_t below);
uint64_t chaos_now_ns(void);

/* Called before each call of that kind; may arm the timer that kills this process. */
void chaos_enter(enum chaos_phase phase);
/* Sets whether peers may find this application. */
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

/* Returns 0 for uDAPL, 1 for RSM. */
static inline uint32_t
chaos_api(uint32_t slot)
{
	return slot / 2 % 2;
}

/* Chooses an application of the same API to connect with. */
uint32_t chaos_choose(void);
/* Reads the counters. Returns false if the peer, its data plane or this application's data plane is not
 * up. */
bool chaos_lives_begin(struct chaos_lives *lives, uint32_t slot);
/* Stores the counters that a peer has sent. */
void chaos_lives_take(struct chaos_lives *lives, const struct chaos_lives *reported);
bool chaos_excused(const struct chaos_lives *lives);

/* The application's own data plane. chaos_attached() waits until it is up and returns its life. After the
 * loss of the data plane, an application calls chaos_reported() once every object has reported the loss. A
 * thread fails the process if that takes too long. An attempt that failed leaves nothing attached. */
uint32_t chaos_attached(void);
void chaos_attach_done(uint32_t life);
/* May an attempt to attach fail? True if the data plane has gone since chaos_attached(), or the machine was
 * so slow that the library's wait has expired. */
bool chaos_attach_excused(uint32_t life);
bool chaos_plane_lives(void);
void chaos_reported(void);

/* ---- blocks ---- */

#define CHAOS_BLOCK_MIN 64u
#define CHAOS_LENGTH_AT 28u /* offset of the length in a block's header */

struct chaos_origin {
	uint32_t slot, stream, sequence;
};

void chaos_block_fill(void *block, uint32_t len, struct chaos_origin origin);
/* Returns NULL, or a description of the error. */
const char *chaos_block_wrong(const void *block, uint32_t len, struct chaos_origin origin);

#endif
