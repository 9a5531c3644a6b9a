/* SPDX-License-Identifier: BSD-3-Clause */
/* Fixture of the tests of neighbours: it records what is sent, and builds frames independently of the code
 * under test. */
#ifndef TESTS_UNIT_NEIGH_FIXTURE_H
#define TESTS_UNIT_NEIGH_FIXTURE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "control/neigh/neigh_internal.h"

#define SECOND 1000000000ull
#define OUT_MAX 128 /* more than the rate of queries lets out at once */

extern const uint8_t our_mac[6], peer_mac[6], other_mac[6], everyone[6];

struct out {
	uint16_t port;
	uint32_t len;
	uint8_t bytes[NEIGH_FRAME_MAX];
};

struct fixture {
	struct neigh_env env;
	struct neigh *neigh;
	struct out out[OUT_MAX];
	uint32_t sent; /* count of all; the last OUT_MAX are recorded, at their number modulo OUT_MAX */
	uint32_t changes, conflicts;
	bool heard;    /* the transport hears the neighbour at its known place */
	uint32_t lost; /* frames that ports have lost */
	uint8_t changed_mac[6];
};

#define ME 1000u /* a uid */

struct waiting {
	struct neigh_waiter waiter;
	int calls, status;
	uint8_t mac[6];
	struct waiting *cancel; /* another waiter, to be canceled from within the call */
};

/* Prepares a waiter for neigh_resolve(). */
struct neigh_waiter *waits(struct waiting *w);
struct wire_addr v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d);
struct wire_addr v6(uint8_t net, uint8_t last);
int setup(void **state);
int teardown(void **state);
uint32_t arp_frame(uint8_t *frame, const uint8_t dst[6], uint16_t op, const uint8_t sha[6],
		   struct wire_addr spa, const uint8_t tha[6], struct wire_addr tpa);
uint16_t checksum(const uint8_t *data, uint32_t len, uint64_t sum);
void store16(uint8_t *at, uint16_t value);
uint32_t echo4(uint8_t *frame, struct wire_addr src, struct wire_addr dst, uint32_t data);
uint32_t icmp6_frame(uint8_t *frame, const uint8_t dst_mac[6], struct wire_addr src, struct wire_addr dst,
		     uint8_t hops, const uint8_t *icmp, uint32_t len);
uint32_t nd_frame(uint8_t *frame, const uint8_t dst_mac[6], struct wire_addr src, struct wire_addr dst,
		  uint8_t type, uint8_t flags, struct wire_addr target, uint8_t option, const uint8_t mac[6]);
struct wire_addr group_of(struct wire_addr addr);
void group_mac(struct wire_addr group, uint8_t mac[6]);
void assert_icmp6(const struct out *out);
uint32_t known(struct fixture *f);
void introduce(struct fixture *f, uint8_t host, const uint8_t mac[6], uint64_t now);
void fix_ip(uint8_t *frame);

#endif
