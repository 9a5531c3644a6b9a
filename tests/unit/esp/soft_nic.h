/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A NIC with inline crypto for ESP, of software: what a device of DPDK's sends and receives passes it, as the
 * wire would be behind such a NIC.  Its queries, sessions and flow rules are in place of the device's; the
 * ciphers are OpenSSL's, written after RFC 4303 and 4106 and not after the code under test.
 *
 * What has this file linked or preloaded has it at each port.
 */
#ifndef TESTS_ESP_SOFT_NIC_H
#define TESTS_ESP_SOFT_NIC_H

#include <stdbool.h>
#include <stdint.h>

struct soft_nic {
	/* What it lacks. */
	bool no_offload, no_configuration, no_context, no_esn, no_long_keys, no_ipv6, no_rules;
	bool makes_trailers;
	uint32_t sessions_max; /* 0: no limit */
	/* What has been done. */
	_Atomic uint32_t sessions, rules; /* there are */
	_Atomic uint32_t made;            /* sessions, ever */
	_Atomic uint64_t encrypted, decrypted, failed;
	_Atomic uint64_t orphans;   /* frames for a session that is not there */
	_Atomic uint64_t malformed; /* that say other than what they are */
	bool asked;                 /* the port was configured for it */
};
extern struct soft_nic soft_nic;

#endif
