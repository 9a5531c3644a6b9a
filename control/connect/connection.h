/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What two ends of a connection agree on.
 */
#ifndef CONTROL_CONNECTION_H
#define CONTROL_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "control/cm/cm.h"

/* READs and atomics at once: what we send is bounded by what the peer serves, and the other way round.
 * The same rule on both sides, so both come to the same numbers. */
static inline void
connection_negotiate(struct cm_local *local, const struct cm_remote *remote)
{
	if (remote->rd_atomic_in < local->rd_atomic_out)
		local->rd_atomic_out = remote->rd_atomic_in;
	if (remote->rd_atomic_out < local->rd_atomic_in)
		local->rd_atomic_in = remote->rd_atomic_out;
}

#define CONNECTION_LIFETIME 16u /* code: of packets, as others assume it */

/*
 * The code of the transport's timeout: for how long a peer may be silent.  As
 * passive side what its REQ says; as active side packet lifetime and the ACK
 * delay of its REP, as Linux combines them, but a oneside end's REP says the
 * same as its REQ would.  Never less than `own`, which the port has.  It is an
 * upper bound: the transport measures.
 */
static inline uint8_t
connection_timeout(bool oneside, bool passive, uint8_t peer, uint8_t own)
{
	uint8_t timeout = CONNECTION_LIFETIME + 1;

	if (oneside || passive)
		timeout = peer == 0 ? timeout : peer & 31;
	else if (timeout >= peer)
		timeout += peer >= timeout - 1;
	else
		timeout = (uint8_t)(peer + (timeout >= peer - 1));
	if (timeout < own)
		timeout = own;
	return timeout > 31 ? 31 : timeout;
}

#endif
