/* SPDX-License-Identifier: BSD-3-Clause */
/* The peer of a security association, written after RFC 4303 and 4106, independent of the code under test. */
#ifndef TESTS_ESP_PEER_H
#define TESTS_ESP_PEER_H

#include "../engine/fixture.h"

#include "dataplane/esp/crypto.h"

#define PEER_ETH 14u
#define PEER_IPV4 20u
#define PEER_ESP 16u

/* Key and salt, in the format of a key file. */
struct peer_key {
	uint8_t bytes[36];
	uint32_t len; /* 20 or 36 */
};

struct peer_packet { /* an ESP packet over IPv4 */
	uint32_t spi, src, dst;
	uint64_t number, iv;
	const struct peer_key *key;
	uint8_t proto;
	const uint8_t *payload;
	uint32_t len;
	uint8_t pad; /* 0xff: as alignment requires */
};

/* Adds this crypto device to EAL for the following tests; NULL: none, and the data plane creates its own. */
void peer_device(const char *driver);

/* Writes a file with the key; the returned path is static. */
const char *peer_key_file(const char *directory, const char *name, const struct peer_key *key);
void peer_key_random(struct peer_key *key, uint32_t len);

/* Builds the frame in a new buffer. */
struct rte_mbuf *peer_frame(const struct peer_packet *packet);
/* Builds an IPv4 frame with `proto` and this payload. */
struct rte_mbuf *peer_plain(uint32_t src, uint32_t dst, uint8_t proto, const uint8_t *payload, uint32_t len);
/* Decrypts a frame that we sent; false: not authentic. `payload` must have room. */
bool peer_open(struct rte_mbuf *m, const struct peer_key *key, uint64_t high, struct peer_packet *packet,
	       uint8_t *payload);
uint16_t peer_sum(const uint8_t *bytes, uint32_t len);

#endif
