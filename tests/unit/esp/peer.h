/* SPDX-License-Identifier: BSD-3-Clause */
/* The other end of a security association, written after RFC 4303 and 4106 and not after the code under test.
 */
#ifndef TESTS_ESP_PEER_H
#define TESTS_ESP_PEER_H

#include "../engine/fixture.h"

#include "dataplane/esp/crypto.h"

#define PEER_ETH 14u
#define PEER_IPV4 20u
#define PEER_ESP 16u

/* Key and salt, as a file has them. */
struct peer_key {
	uint8_t bytes[36];
	uint32_t len; /* 20 or 36 */
};

struct peer_packet { /* of ESP, over IPv4 */
	uint32_t spi, src, dst;
	uint64_t number, iv;
	const struct peer_key *key;
	uint8_t proto;
	const uint8_t *payload;
	uint32_t len;
	uint8_t pad; /* 0xff: what alignment asks for */
};

/* The crypto device that EAL has, from then on; NULL: none, the data plane makes its own. */
void peer_device(const char *driver);

/* A file with the key; its path is static. */
const char *peer_key_file(const char *directory, const char *name, const struct peer_key *key);
void peer_key_random(struct peer_key *key, uint32_t len);

/* The frame, in a buffer of its own. */
struct rte_mbuf *peer_frame(const struct peer_packet *packet);
/* IPv4 with `proto` and this behind it. */
struct rte_mbuf *peer_plain(uint32_t src, uint32_t dst, uint8_t proto, const uint8_t *payload, uint32_t len);
/* What a frame of ours has inside; false: not authentic.  `payload` has room. */
bool peer_open(struct rte_mbuf *m, const struct peer_key *key, uint64_t high, struct peer_packet *packet,
	       uint8_t *payload);
uint16_t peer_sum(const uint8_t *bytes, uint32_t len);

#endif
