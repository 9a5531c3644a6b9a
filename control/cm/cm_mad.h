/* SPDX-License-Identifier: BSD-3-Clause */
/* Codec of connection management MADs: converts between 256 bytes on the wire and
 * fields.  No state and no policy: reserved bits are ignored, and the state machine
 * checks ranges. */
#ifndef CONTROL_CM_MAD_H
#define CONTROL_CM_MAD_H

#include <stdbool.h>
#include <stdint.h>

#include "cm.h"

enum cm_attribute { CM_REQ = 0x10, CM_MRA, CM_REJ, CM_REP, CM_RTU, CM_DREQ, CM_DREP };

/* The message that an MRA or REJ answers. */
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
	uint32_t local_id, remote_id; /* local is the sender's; a REQ has no remote */
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
/* True for a CM MAD, by class, version and method. */
bool cm_mad_is_ours(const uint8_t *bytes);
/* Fills the fields that every message has; the rest is zero. */
void cm_mad_begin(uint8_t bytes[CM_MAD_LEN], uint64_t tid, uint16_t attribute, uint32_t local_id);
/* Returns 0, or -EPROTO if the MAD is malformed or no message of enum cm_attribute. */
int cm_mad_parse(const uint8_t *bytes, uint32_t len, struct cm_mad *mad);
void cm_mad_build(const struct cm_mad *mad, uint8_t bytes[CM_MAD_LEN]);

/* Header of rdma_cm at the start of a REQ's private data. */
#define CM_IP_HEADER_LEN 36u
struct cm_ip_header {
	uint16_t port; /* of the active side */
	struct wire_addr src, dst;
};
void cm_ip_header_build(const struct cm_ip_header *header, uint8_t *bytes);
/* Returns 0, or -EPROTO for another version or addresses that no host can have. */
int cm_ip_header_parse(const uint8_t *bytes, struct cm_ip_header *header);
/* Parses the header and stores the port.  False if the header is malformed, or has other addresses than the
 * packet, to which `path` replies. */
bool cm_ip_header_take(const uint8_t *bytes, const struct cm_path *path, uint16_t *port);

/* Announcement between oneside peers.  In a REQ the announcement uses the alternate
 * path's GIDs and flow label, which receivers ignore when the alternate LID is 0, and
 * has room for private data that did not fit.  In a REP, REJ and DREQ the announcement
 * is at the end of the private data.  A REJ announces the length only. */
#define CM_ANNOUNCE_REP_LEN 16u
struct cm_announce {
	uint32_t capabilities; /* 8 bits; the rest of the word on the wire is `steering` */
	struct cm_steering steering;
	uint16_t link_mtu;    /* a multiple of CM_MTU_UNIT, at most 255 units; 0: not announced */
	uint16_t private_len; /* exact length of the user's private data */
};
/* `room`: bytes of the REQ's private data that are the user's. */
void cm_announce_req_build(struct cm_mad *mad, const struct cm_announce *announce, const void *data,
			   uint32_t room);
bool cm_announce_req_parse(const struct cm_mad *mad, struct cm_announce *announce, uint32_t room,
			   uint8_t *data);
void cm_announce_rep_build(struct cm_mad *mad, const struct cm_announce *announce);
bool cm_announce_rep_parse(const struct cm_mad *mad, struct cm_announce *announce);
/* `area` has CM_PRIVATE_REJ bytes; `len` is at most CM_ANNOUNCED_REJ. */
void cm_announce_rej_build(uint8_t *area, const void *data, uint16_t len);
/* Returns the length of the user's data in `area`: all of it, unless the peer announced the length. */
uint32_t cm_announce_rej_parse(const uint8_t *area);
/* Refusal in a DREQ: the refused request and the reason (rc_refusal()); 0: none. */
void cm_announce_dreq_build(struct cm_mad *mad, uint32_t refusal);
uint32_t cm_announce_dreq_parse(const struct cm_mad *mad);

/* Converts between a path MTU in bytes and its code; 0 if there is none. */
uint16_t cm_mtu_bytes(uint8_t code);
uint8_t cm_mtu_code(uint16_t bytes);

#endif
