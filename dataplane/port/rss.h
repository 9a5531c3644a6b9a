/* SPDX-License-Identifier: BSD-3-Clause */
/* Which receive queue a device's RSS leads a frame of RoCEv2 to: doc/steering.md. */
#ifndef DATAPLANE_PORT_RSS_H
#define DATAPLANE_PORT_RSS_H

#include <stdbool.h>
#include <stdint.h>

#include "dataplane/wire/wire.h"

enum { RSS_KEY_LEN = 40, RSS_TABLE_MAX = 512 };

struct rss {
	bool v4, v6;    /* frames of this family are hashed by their UDP ports, too */
	uint16_t table; /* entries, a power of two */
	uint8_t key[RSS_KEY_LEN];
	uint16_t queue[RSS_TABLE_MAX];
};

/* When the device is started; of a device that does not report its hash, or not all of it, both families are
 * false. */
void rss_read(uint16_t device, struct rss *rss);
/* The receive queue of a frame of RoCEv2 between two addresses of one family. */
uint16_t rss_queue(const struct rss *rss, const struct wire_addr *src, const struct wire_addr *dst,
		   uint16_t udp_src_port);
/* A port that leads to `queue`; 0: the hash is not known, or none of many that were drawn does. */
uint16_t rss_draw_port(const struct rss *rss, const struct wire_addr *src, const struct wire_addr *dst,
		       uint16_t queue, uint64_t (*draw)(void));

#endif
