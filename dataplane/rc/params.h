/* SPDX-License-Identifier: BSD-3-Clause */
/* What the transport is tuned by, and the attributes of its functions. */
#ifndef DATAPLANE_RC_PARAMS_H
#define DATAPLANE_RC_PARAMS_H

#define RC_PSN_MASK 0xFFFFFFu
#define RC_MTU_MIN 256u
#define RC_MTU_MAX 16320u
#define RC_MTU_UNIT 64u     /* path MTUs between oneside ends are multiples: payload is moved in such units */
#define RC_POSTED_MAX 1024u /* work requests taken from one send ring and not yet completed */
#define RC_POSTED_PSNS (1u << 30)
#define RC_POOL_FEW 64u
#define RC_CHUNK                                                                                       \
	128u                   /* packets asked for by one READ request: longer READs are cut, so that \
				* what may be in flight is bounded by the window; a power of two */
#define RC_WINDOW_MAX 1024u    /* packets: 100 Gb/s x 80 us at 1024 bytes, 50 us at 640 */
#define RC_WINDOW_OTHER 128u   /* towards peers that did not announce oneside: what Soft-RoCE allows itself */
#define RC_WINDOW_START 65536u /* bytes: many may start at once */
#define RC_WINDOW_MIN 16u      /* after a NAK */
#define RC_LOSS_RANDOM 16u     /* up to 1/16 of a window lost is no sign of congestion */
#define RC_WINDOW_TIMEOUT 4u   /* after a timeout: it is a probe */
#define RC_WINDOW_LEAST 2u     /* while congested: many senders share little */
#define RC_SCOREBOARD 4096u    /* PSNs from a hole on that selective repeat knows of; a power of two */
/* PSNs behind the expected one that a peer may have sent: its window, and the rest of a READ's chunk that
 * begins in the window.  A peer sends one more for each packet that it knows to be held. */
#define RC_AHEAD_MAX (RC_WINDOW_MAX + RC_CHUNK)
#define RC_SCOREBOARD_IDLE 50000000u      /* ns: a scoreboard without news is given to others that need one */
#define RC_RESCUES 3u                     /* times that all holes are sent again before going back */
#define RC_REPORT_MAX (RC_SCOREBOARD / 8) /* bytes of the bitmap in a sequence NAK */
/* What is held at the peer is not in flight: the window is larger by that, as far as the scoreboard reaches.
 */
#define RC_SACKED_MAX (RC_SCOREBOARD - RC_WINDOW_MAX - RC_CHUNK)
#define RC_ACK_EVERY 64u      /* the A bit inside long messages */
#define RC_RTO_FLOOR 2000000u /* ns: peers share processors with others, and then answer late */
#define RC_RTO_START 10000000u
#define RC_TLP_FLOOR 200000u /* for one packet, between ends that repeat selectively */
#define RC_MIN_RTO_MAX                                                                                      \
	32000000u /* ns: the floor of both towards peers that answer late, and at first where an end yields \
		   */
#define RC_RTO_MAX 536870912u          /* ns: a peer that may be silent for longer is asked this often */
#define RC_RTO_UNBOUNDED 1000000000ull /* when the CM gave no bound */
#define RC_BACKOFF_MAX 10u
#define RC_SILENT_EXPIRIES 3u  /* in a row make a peer silent: it may not be where frames are sent to */
#define RC_CNP_INTERVAL 50000u /* ns between two CNPs of ours */
#define RC_MESSAGE_MAX 0x80000000u
#define RC_MOVE_MIN 512u   /* bytes from which on it pays to leave a copy to env->move */
#define RC_PACKED_MORE 16u /* bytes behind the BTH of a packed frame, beyond a path MTU: a RETH's */
#define RC_SHORT 64u       /* bytes: longer payloads are wire_fill's */

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define RC_COLD __attribute__((noinline, cold))

#endif
