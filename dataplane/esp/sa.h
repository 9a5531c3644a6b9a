/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A security association: one direction, one SPI, one key.  Made and freed off the cores (change.c); an
 * outbound one is shared by all cores, the window of an inbound one is its owner's, the core that its packets
 * came to first.
 */
#ifndef DATAPLANE_ESP_SA_H
#define DATAPLANE_ESP_SA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rte_common.h>

#include "dataplane/engine.h"
#include "dataplane/esp/crypto.h"
#include "dataplane/esp/window.h"

/* Sequence numbers are used when the file says that those before a later one may have been. */
#define ESP_BLOCK_FIRST (1ull << 20) /* that a start takes: an end without a farewell wastes them */
#define ESP_BLOCK (1ull << 24)       /* later ones: fetched when half of the one before is left */
#define ESP_BLOCK_LEAST (1ull << 15) /* of a key that has a hard limit: the blocks are a part of that */
#define ESP_BLOCK_BYTES 8192u        /* for each number */
#define ESP_CHECK_LEN 16u
#define ESP_NO_OWNER UINT32_MAX

/* What is kept over restarts, in a file. */
struct esp_saved {
	uint64_t number;         /* outbound: the first that is free; inbound: the highest taken */
	uint64_t iv;             /* outbound: the first that is free */
	uint64_t packets, bytes; /* that the key has served at most */
};

/* A limit that is reached: cores set ESP_REACHED, the keeper tells of it once, and another limit begins anew.
 */
enum esp_told { ESP_BELOW, ESP_REACHED, ESP_TOLD };

struct esp_sa {
	/* What each frame needs, in one cache line. */
	uint32_t spi;
	bool outbound;
	uint16_t port;
	uint8_t salt[ESP_SALT_LEN];
	void *session;
	uint64_t iv_base; /* IV less the sequence number; wraps */
	_Atomic uint64_t soft_packets, soft_bytes, hard_packets,
		hard_bytes; /* 0: none; reload changes them */

	struct wire_addr local, peer;
	uint64_t begun;               /* inbound: the window's highest at first */
	uint8_t check[ESP_CHECK_LEN]; /* tells keys apart, and tells nothing of them */

	/* Written by cores, read by all. */
	_Atomic uint64_t packets __rte_cache_aligned, bytes;
	_Atomic uint64_t
		next; /* outbound: the first number not used; inbound: one above the window's highest */
	_Atomic uint64_t ceiling;   /* outbound: numbers below it may be used; written by the keeper */
	_Atomic uint64_t wake_at;   /* the keeper is woken when `next` is here; UINT64_MAX: it has been */
	_Atomic uint8_t soft, hard; /* enum esp_told */
	_Atomic uint32_t owner;     /* inbound: core */
	struct esp_window window;

	/* With a hard limit: no more is served than the file says; written by the keeper. */
	_Atomic uint64_t packets_saved, bytes_saved;
	_Atomic uint64_t dropped[ENGINE_ESP_DROP_MAX];
};
_Static_assert(offsetof(struct esp_sa, local) <= RTE_CACHE_LINE_SIZE,
	       "what each frame needs is one cache line");
_Static_assert(offsetof(struct esp_sa, window.seen) - offsetof(struct esp_sa, packets) <= RTE_CACHE_LINE_SIZE,
	       "so is what each frame changes, but for the window's bits");

/* Takes `count` sequence numbers; 0: none are left at the moment, or a limit is reached. */
uint64_t esp_sa_take(struct esp_sa *sa, uint32_t count, uint32_t bytes);
/* So many more keep to the hard limits, and to what the file says of those. */
bool esp_sa_admits(struct esp_sa *sa, uint32_t packets, uint32_t bytes);
/* Inbound packets that were authenticated and new. */
void esp_sa_count(struct esp_sa *sa, uint32_t packets, uint32_t bytes);
/* What a file is to say, for so many numbers more; a restart begins there. */
struct esp_saved esp_sa_saved(const struct esp_sa *sa, uint64_t block);
/* Begin, or go on after a restart; `iv` is a number that only grows over restarts. */
void esp_sa_begin(struct esp_sa *sa, const struct esp_saved *saved, uint64_t iv);
/* How many numbers a file is to be ahead, at most. */
uint64_t esp_sa_block(const struct esp_sa *sa, uint64_t most);
/* The file says so: numbers up to there may be used. */
void esp_sa_allow(struct esp_sa *sa, const struct esp_saved *saved);

#endif
