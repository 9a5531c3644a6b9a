/* SPDX-License-Identifier: BSD-3-Clause */
/* Tuning constants of the transport, and attributes of its functions. */
#ifndef DATAPLANE_RC_PARAMS_H
#define DATAPLANE_RC_PARAMS_H

#define RC_PSN_MASK 0xFFFFFFu
#define RC_MTU_MIN 256u
#define RC_MTU_MAX 16320u
#define RC_MTU_UNIT 64u /* path MTUs between oneside peers are multiples: payload is copied in such units */
#define RC_POSTED_MAX 1024u /* work requests taken from one send ring and not yet completed */
#define RC_POSTED_PSNS (1u << 30)
#define RC_POOL_FEW 64u
/* Packets requested by one READ request; a power of two. Longer READs are split, so that the window bounds
 * what is in flight. */
#define RC_CHUNK 128u
#define RC_CWND_MAX 1024u    /* packets: 100 Gb/s x 80 us at 1024 bytes, 50 us at 640 */
#define RC_CWND_OTHER 128u   /* packets towards peers without oneside: Soft-RoCE's own limit */
#define RC_CWND_START 65536u /* bytes: small, since many may start at once */
#define RC_CWND_MIN 16u      /* packets after a NAK */
#define RC_LOSS_RANDOM 16u   /* up to 1/16 of a window lost counts as random, not as congestion */
#define RC_CWND_TIMEOUT 4u   /* packets after a timeout, as a probe */
#define RC_CWND_LEAST 2u     /* packets while congested, since many senders share the path */
#define RC_SCOREBOARD 4096u  /* PSNs after a hole that selective repeat tracks; a power of two */
/* PSNs after the expected one that a peer may have sent: its window, plus the rest of a READ chunk that
 * begins within the window. A peer may send one more for each packet that it knows to be held. */
#define RC_AHEAD_MAX (RC_CWND_MAX + RC_CHUNK)
#define RC_SCOREBOARD_IDLE 50000000u      /* ns without news after which a scoreboard may be taken away */
#define RC_RESCUES 3u                     /* times that all holes are sent again before going back */
#define RC_REPORT_MAX (RC_SCOREBOARD / 8) /* bytes of the bitmap in a sequence NAK */
/* Packets held at the peer are not in flight: the window is enlarged by their number, as far as the
 * scoreboard reaches. */
#define RC_SACKED_MAX (RC_SCOREBOARD - RC_CWND_MAX - RC_CHUNK)
#define RC_ACK_EVERY 64u      /* packets between A bits in a long message */
#define RC_RTO_FLOOR 2000000u /* ns: peers share processors with other processes, and then answer late */
#define RC_RTO_START 10000000u
#define RC_TLP_FLOOR 200000u /* ns: floor for a tail loss probe between peers with selective repeat */
/* ns: highest floor of both timers for peers that answer late; initial floor where an end yields. */
#define RC_MIN_RTO_MAX 32000000u
#define RC_RTO_MAX 536870912u          /* ns: longest time between retransmissions to a silent peer */
#define RC_RTO_UNBOUNDED 1000000000ull /* ns: limit where the CM gave none */
#define RC_BACKOFF_MAX 10u
#define RC_SILENT_EXPIRIES 3u  /* in a row: the peer counts as silent, frames may go to the wrong place */
#define RC_CNP_INTERVAL 50000u /* ns between two CNPs of ours */
#define RC_MESSAGE_MAX 0x80000000u
#define RC_MOVE_MIN 512u   /* bytes: shorter payloads are not left to env->move, since that would not pay */
#define RC_PACKED_MORE 16u /* bytes after the BTH that a packed frame may have beyond a path MTU: a RETH */
#define RC_SHORT 64u       /* bytes: wire_fill() copies longer payloads */

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define RC_COLD __attribute__((noinline, cold))

#endif
