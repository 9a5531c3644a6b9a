/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The codec of connection management MADs: between 256 bytes on the wire and
 * fields.  No state and no policy: reserved bits are ignored, ranges are the
 * state machine's to check.
 */
#ifndef CONTROL_CM_MAD_H
#define CONTROL_CM_MAD_H

#include <stdbool.h>
#include <stdint.h>

#include "cm.h"

enum cm_attribute { CM_REQ = 0x10, CM_MRA, CM_REJ, CM_REP, CM_RTU, CM_DREQ, CM_DREP };

/* Which message an MRA or REJ answers. */
enum cm_answered { CM_ANSWERS_REQ = 0, CM_ANSWERS_REP, CM_ANSWERS_OTHER };

#define CM_ARI_LEN 72u
#define CM_ALTERNATE_LEN 44u
#define CM_PRIVATE_LARGEST 224u

struct cm_req {
	uint32_t vendor_id; /* 24 bits, like every QPN, PSN and EECN here */
	uint64_t service_id;
	uint64_t guid;
	uint32_t qkey;
	uint32_t qpn, psn;
	uint8_t responder_resources, initiator_depth;
	uint32_t local_eecn, remote_eecn;
	uint8_t remote_response_timeout, local_response_timeout, ack_timeout;
	uint8_t transport, extended_transport;
	bool flow_control, rdc_exists, srq, subnet_local;
	uint8_t retry_count, rnr_retry, max_cm_retries;
	uint16_t pkey;
	uint8_t mtu; /* code 1..5 */
	uint16_t local_lid, remote_lid;
	uint8_t local_gid[16], remote_gid[16];
	uint32_t flow_label;
	uint8_t rate, traffic_class, hop_limit, sl;
	uint8_t alternate[CM_ALTERNATE_LEN]; /* alternate path, or our announcement */
};

struct cm_rep {
	uint32_t vendor_id;
	uint32_t qkey;
	uint32_t qpn, psn, eecn;
	uint8_t responder_resources, initiator_depth;
	uint8_t ack_delay, failover, rnr_retry;
	bool flow_control, srq;
	uint64_t guid;
};

struct cm_mra {
	uint8_t answers; /* enum cm_answered */
	uint8_t service_timeout;
};

struct cm_rej {
	uint8_t answers;
	uint8_t info_len;
	uint16_t reason;
	uint8_t info[CM_ARI_LEN];
};

struct cm_mad {
	uint16_t attribute; /* enum cm_attribute */
	uint32_t modifier;
	uint64_t tid;
	uint32_t local_id, remote_id; /* of the sender of the message; REQ has no remote */
	union {
		struct cm_req req;
		struct cm_rep rep;
		struct cm_mra mra;
		struct cm_rej rej;
		uint32_t remote_qpn; /* DREQ */
	};
	uint8_t private_data[CM_PRIVATE_LARGEST]; /* cm_private_len() bytes */
};

#define CM_MAD_HEADER_LEN 24u
/* By its class, version and method. */
bool cm_mad_is_ours(const uint8_t *bytes);
/* All zero but for that, and what every message has. */
void cm_mad_begin(uint8_t bytes[CM_MAD_LEN], uint64_t tid, uint16_t attribute, uint32_t local_id);
/* 0, or -EPROTO: not a message of connection management that we speak. */
int cm_mad_parse(const uint8_t *bytes, uint32_t len, struct cm_mad *mad);
void cm_mad_build(const struct cm_mad *mad, uint8_t bytes[CM_MAD_LEN]);

/* rdma_cm's header in front of a REQ's private data. */
#define CM_IP_HEADER_LEN 36u
struct cm_ip_header {
	uint16_t port; /* of the active side */
	struct wire_addr src, dst;
};
void cm_ip_header_build(const struct cm_ip_header *header, uint8_t *bytes);
/* 0, or -EPROTO: another version, or addresses that no host can have. */
int cm_ip_header_parse(const uint8_t *bytes, struct cm_ip_header *header);
/* The port in it; false: it is none, or does not say what the packet says, whose way back is `path`. */
bool cm_ip_header_take(const uint8_t *bytes, const struct cm_path *path, uint16_t *port);

/*
 * The announcement between oneside ends.  In REQ it lies in the alternate
 * path's GIDs and flow label, which nobody looks at when the alternate LID is 0, and takes
 * what private data did not fit; in REP and REJ it is the end of the private
 * data.  A REJ tells the length only.
 */
#define CM_ANNOUNCE_REP_LEN 16u
struct cm_announce {
	uint32_t capabilities; /* 8 bits; the rest of their word is `steering` */
	struct cm_steering steering;
	uint16_t link_mtu;    /* a multiple of CM_MTU_UNIT, at most 255 of them; 0: not announced */
	uint16_t private_len; /* exact length of the user's private data */
};
/* `room` is what a REQ's private data area leaves to the user. */
void cm_announce_req_build(struct cm_mad *mad, const struct cm_announce *announce, const void *data,
			   uint32_t room);
bool cm_announce_req_parse(const struct cm_mad *mad, struct cm_announce *announce, uint32_t room,
			   uint8_t *data);
void cm_announce_rep_build(struct cm_mad *mad, const struct cm_announce *announce);
bool cm_announce_rep_parse(const struct cm_mad *mad, struct cm_announce *announce);
/* `area` has CM_PRIVATE_REJ bytes, `len` leaves room for the announcement. */
void cm_announce_rej_build(uint8_t *area, const void *data, uint16_t len);
/* How many bytes of the area are the user's: all of them, unless the peer tells. */
uint32_t cm_announce_rej_parse(const uint8_t *area);
/* In a DREQ: which request was refused, and why (rc_refusal()); 0: none. */
void cm_announce_dreq_build(struct cm_mad *mad, uint32_t refusal);
uint32_t cm_announce_dreq_parse(const struct cm_mad *mad);

/* Path MTU in bytes from and to its code; 0: no such. */
uint16_t cm_mtu_bytes(uint8_t code);
uint8_t cm_mtu_code(uint16_t bytes);

#endif
