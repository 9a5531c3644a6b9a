/* SPDX-License-Identifier: BSD-3-Clause */
/* ARP, neighbour discovery and echoes, on a link of IPv4 and on one of IPv6, while addresses are being
 * resolved. */
#include "tests/fuzz/base/records.h"
#include "tests/unit/control/neigh/fixture.h"

#define TIME_LOG2_MAX 36u
#define ASKED_MAX 32u

static struct fixture *f;
static uint64_t now;
static struct neigh_waiter waiters[ASKED_MAX];
static uint32_t asked, reported;

static void
count(void *user, int status, const uint8_t mac[6])
{
	reported++;
}

/* Reports of the transport and of the ports. */
static void
learn_more(uint8_t what, uint16_t port, const struct wire_addr *addr)
{
	f->heard = (what & 0x10) != 0;
	f->lost += (what & 0x08) != 0;
	if ((what & 0x20) != 0)
		neigh_announce(f->neigh, port, now);
	if ((what & 0x40) != 0)
		neigh_suspect(f->neigh, port, addr, now);
}

static void
look_for(struct bytes *record)
{
	uint8_t what = (uint8_t)record_number(record, 1);
	uint16_t port = what % 2;
	uint8_t host = (uint8_t)record_number(record, 1), mac[6];
	struct wire_addr addr = port == 0 ? v4(192, 0, 2, host) : v6(1, host);

	learn_more(what, port, &addr);
	neigh_lookup(f->neigh, port, &addr, now, mac);
	if (asked == ASKED_MAX)
		return;
	waiters[asked] = (struct neigh_waiter){.done = count};
	if (neigh_resolve(f->neigh, port, &addr, now, mac, host % 3, &waiters[asked]) == -EINPROGRESS)
		asked++;
}

/* Corrects checksums, and addresses the frame to us, as far as the record requests. */
static void
put_right(uint8_t *frame, uint32_t len, uint8_t how)
{
	if (len < 14 + 20 + 8)
		return;
	if ((how & 1) != 0)
		memcpy(frame, our_mac, 6);
	if (frame[12] == 8 && frame[13] == 0) {
		if ((how & 2) != 0)
			memcpy(frame + 30, v4(192, 0, 2, 1).gid + 12, 4);
		fix_ip(frame);
		if ((how & 4) != 0) {
			store16(frame + 36, 0);
			store16(frame + 36, checksum(frame + 34, len - 34, 0));
		}
	} else if (frame[12] == 0x86 && len > 14 + 40 + 4) {
		uint32_t n = len - 54;
		uint64_t pseudo = 58 + n;

		if ((how & 2) != 0)
			memcpy(frame + 38, v6(1, 1).gid, 16);
		if ((how & 8) == 0)
			store16(frame + 18, (uint16_t)n);
		if ((how & 4) == 0)
			return;
		for (uint32_t i = 22; i < 54; i += 2)
			pseudo += (uint64_t)(frame[i] << 8 | frame[i + 1]);
		store16(frame + 56, 0);
		store16(frame + 56, checksum(frame + 54, n, pseudo));
	}
}

static void
receive(struct bytes *record)
{
	uint8_t how = (uint8_t)record_number(record, 1);
	uint32_t len = (uint32_t)record->left;
	uint8_t *frame = malloc(len > 0 ? len : 1); /* of exact size, for AddressSanitizer */

	record_fill(record, frame, len);
	put_right(frame, len, how);
	neigh_input(f->neigh, how >> 7, frame, len, now);
	free(frame);
}

/* Inputs an ARP or ND frame made from fields: its sender, and the address announced or requested. */
static void
say(struct bytes *record)
{
	uint8_t frame[128], how = (uint8_t)record_number(record, 1), host = (uint8_t)record_number(record, 1);
	uint8_t mac[6] = {2, 0, 0, 0, 0, (uint8_t)record_number(record, 1)};
	uint32_t len;

	if ((how & 0x80) == 0) {
		len = arp_frame(frame, (how & 4) != 0 ? our_mac : everyone, 1 + how % 3, mac,
				v4(192, 0, 2, host), our_mac, v4(192, 0, 2, (how & 8) != 0 ? host : 1));
	} else {
		struct wire_addr target = v6(1, (how & 1) != 0 ? 1 : host);
		bool asks = (how & 1) != 0;

		len = nd_frame(frame, our_mac, v6(1, host), (how & 2) != 0 ? group_of(target) : v6(1, 1),
			       asks ? 135 : 136, (uint8_t)(how << 2), target,
			       (how & 0x40) != 0 ? 0
			       : asks            ? 1
						 : 2,
			       mac);
	}
	neigh_input(f->neigh, how >> 7, frame, len, now);
}

static void
pass(struct bytes *record)
{
	uint64_t until = now + (1ull << record_number(record, 1) % TIME_LOG2_MAX), next;

	while ((next = neigh_deadline(f->neigh)) <= until) {
		if (next > now)
			now = next;
		neigh_timeout(f->neigh, now);
	}
	now = until;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const kinds[])(struct bytes *) = {receive, say, look_for, pass};
	struct bytes input = {data, size}, record;
	void *state = NULL;

	setup(&state);
	f = state;
	now = 77 * SECOND;
	asked = reported = 0;
	while (record_next(&input, &record))
		kinds[record_number(&record, 1) % 4](&record);
	record = (struct bytes){(const uint8_t[]){TIME_LOG2_MAX - 1}, 1};
	pass(&record);
	if (reported != asked)
		fuzz_fail("who looks for a neighbour is notified once");
	teardown(&state);
	return 0;
}
