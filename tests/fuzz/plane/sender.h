/* SPDX-License-Identifier: BSD-3-Clause */
/* The peer of security associations, by RFC 4303 and 4106. The peer has the keys, so its frames are
 * authentic; a model remembers every number, and determines which frames the data plane may accept. */
#ifndef TESTS_FUZZ_SENDER_H
#define TESTS_FUZZ_SENDER_H

#include "dataplane/esp/sa.h"
#include "tests/fuzz/base/records.h"

#define SENDERS 3u /* IPv4 with 128 and 256 bits, IPv6 */
#define SENDER_ETH 14u
#define SENDER_NUMBERS 4096u /* accepted from one sender in an input */
#define SENDER_BURNT (1ull << 63)
#define SENDER_ROOM 4096u

struct sender {
	struct esp_sa *sa;
	void *session; /* the peer's session, with the same key */
	bool v4;
	uint32_t ip_len;
	uint32_t num_taken;
	uint64_t taken[SENDER_NUMBERS]; /* numbers with SENDER_BURNT may have been used up */
};
extern struct sender sender[SENDERS];

struct sent {
	struct sender *from;
	uint64_t number;
	uint8_t proto;
	uint32_t plain_len, text_len; /* protected bytes behind the IP header, without and with padding */
	uint32_t inside;              /* bytes without padding, by its length; UINT32_MAX: invalid */
	bool authentic, headers_whole;
	uint32_t len;
	uint8_t frame[SENDER_ROOM];
	uint8_t plain[SENDER_ROOM]; /* bytes behind the IP header */
};

/* Renews the security associations and puts them in force. `record`: begin of the windows, limits, policy. */
void senders_begin(struct bytes *record);
void senders_end(void);
bool senders_encrypt(void); /* the policy requires ESP */

/* Protects what the record has left, at most `len` bytes of it, or the frame `plain`. */
void sender_send(struct bytes *record, uint32_t len, struct sent *sent);
void sender_wrap(struct bytes *record, const uint8_t *plain, uint32_t len, struct sent *sent);

/* True if a frame may be accepted, and if it must be, in a burst of `burst` frames; `highest_before`: the
 * head of the window before the burst. */
bool sender_may(const struct sent *sent);
bool sender_must(const struct sent *sent, uint64_t highest_before, uint32_t burst);
/* Records the outcome of a frame. */
void sender_note(const struct sent *sent, bool taken);

#endif
