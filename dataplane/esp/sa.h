/* SPDX-License-Identifier: BSD-3-Clause */
/* A security association: one direction, one SPI, one key. Created and freed outside of the cores (change.c).
 * All cores share an outbound one; the window of an inbound one belongs to its owner, the core that received
 * its first packet. */
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

/* Sequence numbers may be used once the file has a later number. */
#define ESP_BLOCK_FIRST (1ull << 20) /* first block after a start: a crash wastes it */
#define ESP_BLOCK (1ull << 24)       /* later blocks: fetched when half of the previous one is left */
#define ESP_BLOCK_LEAST (1ull << 15) /* minimum where blocks are a fraction of a hard limit */
#define ESP_BLOCK_BYTES 8192u        /* assumed bytes per number */
#define ESP_CHECK_LEN 16u
#define ESP_NO_OWNER UINT32_MAX

/* State in a file that outlives restarts. */
struct esp_saved {
	uint64_t number;         /* outbound: first unused; inbound: highest received */
	uint64_t iv;             /* outbound: first unused */
	uint64_t packets, bytes; /* upper bounds of what the key has served */
};

/* State of a limit: cores set ESP_REACHED, the keeper reports it once and sets ESP_REPORTED; a new limit
 * resets it. */
enum esp_reported { ESP_BELOW, ESP_REACHED, ESP_REPORTED };

struct esp_sa {
	/* Fields that each frame needs, in one cache line. */
	uint32_t spi;
	bool outbound;
	uint16_t port;
	uint8_t salt[ESP_SALT_LEN];
	void *session;
	uint64_t iv_base; /* IV minus sequence number; wraps */
	_Atomic uint64_t soft_packets, soft_bytes, hard_packets,
		hard_bytes; /* 0: no limit; reload changes them */

	struct wire_addr local, peer;
	uint64_t begun;               /* inbound: initial value of the window's highest */
	uint8_t check[ESP_CHECK_LEN]; /* fingerprint of the key, which reveals nothing about it */

	/* Written by cores, read by all. */
	_Atomic uint64_t packets __rte_cache_aligned, bytes;
	_Atomic uint64_t next;    /* outbound: first unused number; inbound: one above the window's highest */
	_Atomic uint64_t ceiling; /* outbound: numbers below may be used; written by the keeper */
	_Atomic uint64_t wake_at; /* the keeper is woken when `next` reaches this; UINT64_MAX: was woken */
	_Atomic uint8_t soft, hard; /* enum esp_reported */
	_Atomic uint32_t owner;     /* inbound: index of the core */
	struct esp_window window;

	/* With a hard limit: the file's values, beyond which nothing is served; written by the keeper. */
	_Atomic uint64_t packets_saved, bytes_saved;
	_Atomic uint64_t dropped[ENGINE_ESP_DROP_MAX];
};
_Static_assert(offsetof(struct esp_sa, local) <= RTE_CACHE_LINE_SIZE,
	       "fields that each frame reads: one cache line");
_Static_assert(offsetof(struct esp_sa, window.seen) - offsetof(struct esp_sa, packets) <= RTE_CACHE_LINE_SIZE,
	       "fields that each frame writes, without the window's bits: one cache line");

/* Take `count` sequence numbers and return the first; 0: none are left now, or a limit is reached. */
uint64_t esp_sa_take(struct esp_sa *sa, uint32_t count, uint32_t bytes);
/* True if `packets` and `bytes` more are within the hard limits, and within what the file has of those. */
bool esp_sa_admits(struct esp_sa *sa, uint32_t packets, uint32_t bytes);
/* Count inbound packets that were authenticated and new. */
void esp_sa_count(struct esp_sa *sa, uint32_t packets, uint32_t bytes);
/* State to save for `block` more numbers; a restart begins there. */
struct esp_saved esp_sa_saved(const struct esp_sa *sa, uint64_t block);
/* Initialize, or continue after a restart; `iv` is a number that grows over restarts. */
void esp_sa_begin(struct esp_sa *sa, const struct esp_saved *saved, uint64_t iv);
/* Returns the number of sequence numbers that a file should be ahead, at most `most`. */
uint64_t esp_sa_block(const struct esp_sa *sa, uint64_t most);
/* The file has `saved`: allow numbers up to there. */
void esp_sa_allow(struct esp_sa *sa, const struct esp_saved *saved);
/* True if both have one key and SPI, and with that one file of numbers. */
bool esp_sa_has_same_file(const struct esp_sa *a, const struct esp_sa *b);
/* True if a change of the configuration lets one continue as the other. */
bool esp_sa_is_same(const struct esp_sa *a, const struct esp_sa *b);

/* ---- state.c ---- */
/*
 * State of security associations that outlives the process: one file per key and SPI, in a directory that one
 * data plane has for itself. These functions wait for the disk: do not call them on cores, nor on the control
 * thread once it serves.
 *
 * Open the directory; later calls have no effect. Returns 0, or -errno with a sentence in `why` that lacks
 * its subject.
 */
int esp_state_open(const char *directory, char *why, size_t why_len);
/* Returns the descriptor of the open directory, whose lock it has; -1: none is open. */
int esp_state_directory(void);
/* Call before esp_state_open(), which then opens no other directory than this one: another process passes it
 * on with its lock. The function owns `fd`; -1 forgets the one before. */
void esp_state_inherit(int fd);
void esp_state_close(void);
/* *saved is all zero if there is no file. */
int esp_state_load(const struct esp_sa *sa, struct esp_saved *saved, char *why, size_t why_len);
/* Returns 0: all of it is on the disk; -errno: the file is unchanged. */
int esp_state_save(const struct esp_sa *sa, const struct esp_saved *saved);

/* ---- keeper.c ---- */
/* The keeper, a thread next to cores and control thread: saves sequence numbers to files before they are
 * used, reports limits, and frees tables that no core uses any more. */
struct esp_table;
/* Start the thread; later calls have no effect. Returns 0 or -errno. */
int esp_keeper_start(void);
/* Call after the cores have stopped. */
void esp_keeper_stop(void);
/* Call after esp_keeper_stop(): gives back all unused numbers. */
void esp_keeper_free(void);
/* Any thread: wake the keeper. */
void esp_keeper_wake(void);
/* Retire a table that is out of use: when no core has it any more, free it, with the security associations
 * that its successor does not have. */
void esp_keeper_retire(struct esp_table *table);
/* Wait until the files of all retired tables have their final numbers: then the same keys may be used
 * again. */
void esp_keeper_quiesce(void);

/* Control thread: from now on no file is written, and no table freed, until esp_keeper_release(): a take-over
 * passes on what cores and files have. False, and no hold: the keeper works, or a retired table has not been
 * freed. */
bool esp_keeper_hold(void);
void esp_keeper_release(void);
bool esp_keeper_on_hold(void);

/* Write a file that is ahead by a block, and allow those numbers. Call before cores have the SA, or on the
 * keeper. Returns 0 or -errno. */
int esp_keeper_reserve(struct esp_sa *sa, uint64_t block);
void esp_sa_free(struct esp_sa *sa);

#endif
