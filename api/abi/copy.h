/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that cannot be shared (stacks, private mappings of files, device memory) is copied from and to
 * staging memory in the arena by a thread of the application, the copy thread, at the request of the core.
 *
 * Both rings follow ring.h, each with one producer and one consumer: the core produces requests, the copy
 * thread answers. Answer n belongs to request n: requests are answered in order. At most ONE_COPIES are in
 * progress, so neither ring overruns.
 *
 * The copy thread sleeps on `wake`: it loads the word, looks for a request, adds itself to the sleepers and
 * waits for the word to change. The core stores the phase of a request, adds 1 to the word, and loads
 * `sleepers` (all sequentially consistent). The attachment's eventfd wakes the core, as for a doorbell, only
 * when the core sleeps (one_arena.engine_asleep).
 */
#ifndef ONE_ABI_COPY_H
#define ONE_ABI_COPY_H

#include "arena.h"

#define ONE_COPY_LOG2 6u
#define ONE_COPIES (1u << ONE_COPY_LOG2) /* in progress at once */
#define ONE_COPY_LEN 65536u              /* bytes per request */

enum one_copy_op {
	ONE_COPY_OUT = 1, /* from the application's memory to the staging slot */
	ONE_COPY_IN,      /* back, in address order, the last byte of each span last */
	ONE_COPY_FETCH_ADD,
	ONE_COPY_CMP_SWAP
};

struct one_copy_span {
	uint64_t addr; /* in the application's address space */
	uint32_t len;
	uint32_t at; /* offset in the staging slot */
};

/* Written by the core. */
struct one_copy_request {
	struct one_copy_span span[ONE_MAX_SGE];
	uint64_t compare, operand; /* of an atomic on the 8 bytes of span 0 */
	uint32_t sequence;         /* number of the request, from 0 */
	uint32_t slot;             /* index in one_copies.slot */
	uint8_t op;                /* enum one_copy_op */
	uint8_t num_spans;
	uint8_t reserved[36];
	_Atomic uint8_t cancelled; /* nonzero: do not begin this request, only answer */
	_Atomic uint8_t phase;
};
_Static_assert(sizeof(struct one_copy_request) == 192, "one_copy_request");

/* Written by the copy thread. */
struct one_copy_answer {
	uint64_t value;    /* value found by an atomic */
	uint32_t sequence; /* number of the request */
	uint32_t error;    /* 0, or EFAULT: part of the memory is not accessible; any other value makes the
			      client faulty */
	uint8_t reserved[15];
	_Atomic uint8_t phase;
};
_Static_assert(sizeof(struct one_copy_answer) == 32, "one_copy_answer");

/* Each lane has a struct one_copies (doc/cores.md). The copy thread serves all, and sleeps on `wake` of the
 * first. */
struct one_copies {
	struct one_channel wake;
	/* Written by the control thread: offset in the arena of the next lane's struct; 0: none yet. */
	_Atomic uint64_t next;
	uint8_t pad[56];
	struct one_copy_request request[ONE_COPIES];
	struct one_copy_answer answer[ONE_COPIES];
	uint8_t slot[ONE_COPIES][ONE_COPY_LEN];
};
_Static_assert(sizeof(struct one_copies) % ONE_CACHE_LINE == 0, "one_copies");

#endif
