/* SPDX-License-Identifier: BSD-3-Clause */
/* Rings of a memif: in each direction one per pair of a core here and a core of the peer. Both ends agree on
 * the number inside of the driver's handshake: doc/steering.md. */
#ifndef DATAPLANE_PORT_MEMIF_RINGS_H
#define DATAPLANE_PORT_MEMIF_RINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct port;

#define RINGS_MESSAGE 128u /* bytes of each message on memif's socket */

/* Cores that have rings: `own` here, `far` at the peer. */
struct rings {
	uint8_t own, far;
};

/* Maximum of rings in each direction for the shared memory of a client with these arguments. */
uint16_t rings_limit(const char *args);
/* Reduce the larger number of cores by one, repeatedly, until all pairs have rings, at most `limit`. */
struct rings rings_reduce(uint32_t own, uint32_t far, uint32_t limit);

/* ---- DPDK's interrupt thread ---- */
/* Read and complete a message of RINGS_MESSAGE bytes that the driver is about to send, or to receive. */
void rings_sending(int fd, uint8_t *message);
void rings_received(int fd, uint8_t *message);
/* Reset each memif whose link is down to one ring. */
void rings_forget(void);

#endif
