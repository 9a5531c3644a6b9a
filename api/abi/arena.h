/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arena: the one sealed memfd of an attachment.  The data plane makes it,
 * seals its size, and decides what lies where; the application learns offsets
 * from replies.  It is sparse: only what is handed out has pages.
 *
 *   0                      struct one_arena
 *   one_arena.keys         struct one_keys
 *   one_arena.doorbells    struct one_doorbells
 *   one_arena.channels     ONE_CHANNELS x struct one_channel
 *   ...                    completion rings, queue pairs, work rings, staging memory
 */
#ifndef ONE_ABI_ARENA_H
#define ONE_ABI_ARENA_H

#include "ring.h"

#define ONE_ARENA_MAGIC 0x314e454eu /* "NEN1" in memory order */
#define ONE_ARENA_SIZE (1ull << 30)
#define ONE_CHANNELS 1024u
/* Threads that a core wakes at most; a thread that it wakes wakes the others. */
#define ONE_CHANNEL_WAKES 16u

/* A place to sleep: a futex word.  The waker adds one (atomic) and wakes; nothing but a
 * sleeper reads it, so a hostile value harms only its own process. */
struct one_channel {
	_Atomic uint32_t word;
	/* Written by the application: threads asleep in futex(2) on `word`.  Whoever wakes may leave the
	 * system call out when, after adding to `word` (sequentially consistent), it loads 0 here
	 * (sequentially consistent): then waiters are still spinning.  A lie delays only its own process. */
	_Atomic uint32_t sleepers;
	uint8_t pad[56];
};
_Static_assert(sizeof(struct one_channel) == ONE_CACHE_LINE, "one_channel");

struct one_arena {
	uint32_t magic;
	uint32_t version; /* ONE_ABI_VERSION */
	uint64_t size;
	uint64_t doorbells; /* offset; of the first lane, as `keys` and engine_asleep */
	uint64_t channels;  /* offset */
	uint64_t keys;      /* offset */
	/* written by the control thread: changes each second while it has requests of this attachment */
	_Atomic uint32_t control_alive;
	uint8_t pad0[20];
	/* written by the engine: nonzero when it sleeps and wants the eventfd written after a
	 * doorbell.  Only ever nonzero when one_welcome.idle is ONE_IDLE_SLEEP: then the
	 * application executes a full fence between the doorbell and this load. */
	_Atomic uint32_t engine_asleep;
	/* nonzero: this attachment was found faulty (enum one_fault) and serves nothing more */
	_Atomic uint32_t fault;
	/* Counts regions that the control thread has given up, since their user lacked room: their ids and
	 * those of their registrations are unknown. */
	_Atomic uint32_t reclaimed;
	uint8_t pad1[52];
};
_Static_assert(sizeof(struct one_arena) == 128, "one_arena");

/*
 * Memory regions (ONE_MR_RENEWABLE) whose key the application ends, and lets begin again as another one,
 * without the control thread.  One request at a time: the application stores it, then `asked` (release),
 * which differs from the last one, then 1 to one_doorbells.keys (release).  The core of the attachment
 * carries it out between two accesses to memory of each lane, and stores `refused`, then `answered` = asked
 * (release). Before it does (but RENEW), it begins the requests that were posted before.
 */
enum one_key_op {
	ONE_KEY_REVOKE = 1, /* `key` counts no more, and nothing that began with it goes on */
	ONE_KEY_RENEW,      /* the region whose last key was `key` has the key `next`, of the same slot */
	ONE_KEY_NONE        /* nothing more than what is said below of requests */
};

struct one_keys {
	/* written by the application */
	_Atomic uint32_t asked;
	_Atomic uint32_t op;
	_Atomic uint32_t key;
	_Atomic uint32_t next;
	uint8_t pad0[48];
	/* written by the engine */
	_Atomic uint32_t answered;
	_Atomic uint32_t refused; /* the control thread has to be asked (MR_FREE, MR_CREATE) */
	uint8_t pad1[56];
};
_Static_assert(sizeof(struct one_keys) == 128, "one_keys");

/* The bits of a key that tell nothing but its slot in the data plane's table. */
#define ONE_KEY_SLOT 0x00ffff00u

enum one_fault {
	ONE_FAULT_RING = 1, /* a ring index or descriptor that no honest library writes */
	ONE_FAULT_MEMORY,   /* a shared mapping faulted: truncated file */
	ONE_FAULT_PROTOCOL  /* a malformed message */
};

#endif
