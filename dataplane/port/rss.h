/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes the receive queue that a device's RSS leads a RoCEv2 frame to: doc/steering.md. */
#ifndef DATAPLANE_PORT_RSS_H
#define DATAPLANE_PORT_RSS_H

#include <stdbool.h>
#include <stdint.h>

#include "dataplane/wire/wire.h"

enum { RSS_KEY_LEN = 40, RSS_TABLE_MAX = 512 };

struct rss {
	bool v4, v6;    /* the hash of this family includes UDP ports */
	uint16_t table; /* entries, a power of two */
	uint8_t key[RSS_KEY_LEN];
	uint16_t queue[RSS_TABLE_MAX];
};

/* Call when the device is started. If the device does not report all of its hash, v4 and v6 are false. */
void rss_read(uint16_t device, struct rss *rss);
/* Returns the receive queue of a RoCEv2 frame between two addresses of one family. */
uint16_t rss_queue(const struct rss *rss, const struct wire_addr *src, const struct wire_addr *dst,
		   uint16_t udp_src_port);
/* Returns a UDP source port that leads to `queue`; 0: the hash is unknown, or no port drawn leads there. */
uint16_t rss_draw_port(const struct rss *rss, const struct wire_addr *src, const struct wire_addr *dst,
		       uint16_t queue, uint64_t (*draw)(void));

#endif
