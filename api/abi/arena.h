/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arena is the one sealed memfd of an attachment. The data plane creates the file, seals its size and
 * decides the layout; the application learns offsets from replies. The file is sparse: only what is handed
 * out has pages.
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
/* A core wakes at most this number of threads; the first thread that wakes up wakes the rest. */
#define ONE_CHANNEL_WAKES 16u

/* A channel is a futex word to sleep on. The waker adds 1 (atomic) and wakes. Only sleepers read the word, so
 * a hostile value harms only its own process. */
struct one_channel {
	_Atomic uint32_t word;
	/* Written by the application: number of threads asleep in futex(2) on `word`. A waker adds to `word`
	 * (sequentially consistent), then loads `sleepers` (sequentially consistent). If the load returns 0,
	 * waiters are still spinning, and the waker may omit the system call. A false count delays only its
	 * own process. */
	_Atomic uint32_t sleepers;
	uint8_t pad[56];
};
_Static_assert(sizeof(struct one_channel) == ONE_CACHE_LINE, "one_channel");

struct one_arena {
	uint32_t magic;
	uint32_t version; /* ONE_ABI_VERSION */
	uint64_t size;
	uint64_t doorbells; /* offset of the first lane's doorbells; `keys` and engine_asleep are the first
			       lane's, too */
	uint64_t channels;  /* offset */
	uint64_t keys;      /* offset */
	/* Written by the control thread: changes each second while a request of this attachment is in
	 * progress. */
	_Atomic uint32_t control_alive;
	uint8_t pad0[20];
	/* Written by the engine: nonzero when it sleeps and needs a write to the eventfd after a doorbell.
	 * Nonzero only if one_welcome.idle is ONE_IDLE_SLEEP: then the application executes a full fence
	 * between the doorbell and this load. */
	_Atomic uint32_t engine_asleep;
	/* nonzero (enum one_fault): this attachment was found faulty and is served no more */
	_Atomic uint32_t fault;
	/* Number of regions that the control thread has reclaimed for want of room of their user. Ids of
	 * these regions and of registrations on them are unknown from then on. */
	_Atomic uint32_t reclaimed;
	uint8_t pad1[52];
};
_Static_assert(sizeof(struct one_arena) == 128, "one_arena");

/* The application revokes and renews keys of memory regions (ONE_MR_RENEWABLE) without the control thread.
 * One request is in progress at a time: the application stores the request, then a new value to `asked`
 * (release), then 1 to one_doorbells.keys (release). The attachment's core carries the request out between
 * two accesses to memory of each lane, and stores `refused`, then `answered` = asked (release). Before any
 * request but RENEW the core begins all work requests that were posted earlier. */
enum one_key_op {
	ONE_KEY_REVOKE = 1, /* invalidates `key`; no access that began with the key goes on */
	ONE_KEY_RENEW,      /* gives the region whose last key was `key` the key `next`, in the same slot */
	ONE_KEY_NONE        /* only begins the work requests that were posted earlier */
};

struct one_keys {
	/* Written by the application. */
	_Atomic uint32_t asked;
	_Atomic uint32_t op;
	_Atomic uint32_t key;
	_Atomic uint32_t next;
	uint8_t pad0[48];
	/* Written by the engine. */
	_Atomic uint32_t answered;
	_Atomic uint32_t refused; /* nonzero: ask the control thread instead (MR_FREE, MR_CREATE) */
	uint8_t pad1[56];
};
_Static_assert(sizeof(struct one_keys) == 128, "one_keys");

/* Bits of a key that hold only its slot in the data plane's table. */
#define ONE_KEY_SLOT 0x00ffff00u

enum one_fault {
	ONE_FAULT_RING = 1, /* a ring index or descriptor that no correct library writes */
	ONE_FAULT_MEMORY,   /* a shared mapping faulted: the file was truncated */
	ONE_FAULT_PROTOCOL  /* a malformed message */
};

#endif
