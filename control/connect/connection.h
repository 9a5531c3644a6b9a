/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parameters on which both ends of a connection agree.
 */
#ifndef CONTROL_CONNECTION_H
#define CONTROL_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "control/cm/cm.h"

/* Limits outstanding READs and atomics: each end's initiator depth to the other's responder resources.  Both
 * ends apply the same rule, and get the same values. */
static inline void
connection_negotiate(struct cm_local *local, const struct cm_remote *remote)
{
	if (remote->rd_atomic_in < local->rd_atomic_out)
		local->rd_atomic_out = remote->rd_atomic_in;
	if (remote->rd_atomic_out < local->rd_atomic_in)
		local->rd_atomic_in = remote->rd_atomic_out;
}

#define CONNECTION_LIFETIME 16u /* code of the packet lifetime that other implementations assume */

/*
 * Returns the code of the transport's ACK timeout, during which a peer may be silent.
 * Passive side: the code in the peer's REQ.  Active side: the packet lifetime and the
 * ACK delay in the peer's REP, combined as Linux does; but a oneside peer's REP has the
 * code that a REQ would have.  The result is at least `own`, the code of this end.  The
 * timeout is an upper bound, since the transport measures.
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
