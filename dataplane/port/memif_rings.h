/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rings of a memif: one for each pair of a core of this end and a core of the far end, and direction.
 * Both ends agree on their number inside of the driver's handshake: doc/steering.md.
 */
#ifndef DATAPLANE_PORT_MEMIF_RINGS_H
#define DATAPLANE_PORT_MEMIF_RINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct port;

#define RINGS_MESSAGE 128u /* bytes of each message of memif's socket */

/* Cores that have rings: `own` at this end, `far` at the other. */
struct rings {
	uint8_t own, far;
};

/* The most rings in each direction that the shared memory of a client with these arguments may have. */
uint16_t rings_limit(const char *args);
/* The larger number of cores loses one until both have rings in pairs, `limit` at most. */
struct rings rings_reduce(uint32_t own, uint32_t far, uint32_t limit);

/* ---- DPDK's interrupt thread ---- */
/* A message of RINGS_MESSAGE bytes that the driver is about to send, or is about to be given.  Either may be
 * completed. */
void rings_sending(int fd, uint8_t *message);
void rings_received(int fd, uint8_t *message);
/* Each memif whose link is down has one ring. */
void rings_forget(void);

#endif
