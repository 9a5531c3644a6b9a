/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peer's end of security associations, by RFC 4303 and 4106: it has the keys, so what it sends is
 * authentic, and a model of what the data plane may take, which remembers every number.
 */
#ifndef TESTS_FUZZ_SENDER_H
#define TESTS_FUZZ_SENDER_H

#include "dataplane/esp/sa.h"
#include "tests/fuzz/base/records.h"

#define SENDERS 3u /* IPv4 with 128 and 256 bits, IPv6 */
#define SENDER_ETH 14u
#define SENDER_NUMBERS 4096u /* taken from one in an input */
#define SENDER_BURNT (1ull << 63)
#define SENDER_ROOM 4096u

struct sender {
	struct esp_sa *sa;
	void *session; /* the peer's, of the same key */
	bool v4;
	uint32_t ip_len;
	uint32_t num_taken;
	uint64_t taken[SENDER_NUMBERS]; /* those with SENDER_BURNT may have been */
};
extern struct sender sender[SENDERS];

struct sent {
	struct sender *from;
	uint64_t number;
	uint8_t proto;
	uint32_t plain_len, text_len; /* behind the IP header: of what is protected, and with its padding */
	uint32_t inside;              /* as the padding says; UINT32_MAX: it says nonsense */
	bool authentic, headers_whole;
	uint32_t len;
	uint8_t frame[SENDER_ROOM];
	uint8_t plain[SENDER_ROOM]; /* behind the IP header */
};

/* Security associations anew, in force.  `record`: where their windows begin, limits, policy. */
void senders_begin(struct bytes *record);
void senders_end(void);
bool senders_encrypt(void); /* the policy */

/* A frame around what the record has left, at most `len` bytes of it, or around that of `plain`. */
void sender_send(struct bytes *record, uint32_t len, struct sent *sent);
void sender_wrap(struct bytes *record, const uint8_t *plain, uint32_t len, struct sent *sent);

/* Before and after a burst: what of it has to be taken, and what must not. */
bool sender_may(const struct sent *sent);
bool sender_must(const struct sent *sent, uint64_t highest_before, uint32_t burst);
/* What became of it: remembered. */
void sender_note(const struct sent *sent, bool taken);

#endif
