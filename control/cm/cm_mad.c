/* SPDX-License-Identifier: BSD-3-Clause */
#include "cm_mad.h"

#include <errno.h>
#include <string.h>

#include "dataplane/wire/bytes.h"

#define MAD_BASE_VERSION 1u
#define MAD_CLASS_CM 7u
#define MAD_CLASS_VERSION 2u
#define MAD_METHOD_SEND 3u

#define ANNOUNCE_MAGIC 0x4f4e4531u /* "ONE1" */
#define ANNOUNCE_AT 4u             /* offset in the alternate path: its local GID */
#define ANNOUNCE_DATA_AT (ANNOUNCE_AT + 10u)
#define ANNOUNCE_DATA_LEN 22u
#define REQ_MTU_AT 36u /* offset in the alternate path: its flow label */

/* Offset and length of a message's private data within the CM data. */
struct layout {
	uint8_t at, len;
};
static const struct layout layouts[] = {
	[CM_REQ - CM_REQ] = {140, 92}, [CM_MRA - CM_REQ] = {10, 222}, [CM_REJ - CM_REQ] = {84, 148},
	[CM_REP - CM_REQ] = {36, 196}, [CM_RTU - CM_REQ] = {8, 224},  [CM_DREQ - CM_REQ] = {12, 220},
	[CM_DREP - CM_REQ] = {8, 224},
};

static uint32_t
cm_private_len(uint16_t attribute)
{
	return layouts[attribute - CM_REQ].len;
}

uint16_t
cm_mtu_bytes(uint8_t code)
{
	return code >= 1 && code <= 5 ? (uint16_t)(128u << code) : 0;
}

uint8_t
cm_mtu_code(uint16_t bytes)
{
	for (uint8_t code = 1; code <= 5; code++)
		if (cm_mtu_bytes(code) == bytes)
			return code;
	return 0;
}

static void
parse_req(const uint8_t *p, struct cm_req *req)
{
	req->vendor_id = load_be24(p + 5);
	req->service_id = load_be64(p + 8);
	req->guid = load_be64(p + 16);
	req->qkey = load_be32(p + 28);
	req->qpn = load_be24(p + 32);
	req->responder_resources = p[35];
	req->local_eecn = load_be24(p + 36);
	req->initiator_depth = p[39];
	req->remote_eecn = load_be24(p + 40);
	req->remote_response_timeout = p[43] >> 3;
	req->transport = p[43] >> 1 & 3;
	req->flow_control = p[43] & 1;
	req->psn = load_be24(p + 44);
	req->local_response_timeout = p[47] >> 3;
	req->retry_count = p[47] & 7;
	req->pkey = load_be16(p + 48);
	req->mtu = p[50] >> 4;
	req->rdc_exists = p[50] >> 3 & 1;
	req->rnr_retry = p[50] & 7;
	req->max_cm_retries = p[51] >> 4;
	req->srq = p[51] >> 3 & 1;
	req->extended_transport = p[51] & 7;
	req->local_lid = load_be16(p + 52);
	req->remote_lid = load_be16(p + 54);
	memcpy(req->local_gid, p + 56, 16);
	memcpy(req->remote_gid, p + 72, 16);
	req->flow_label = load_be32(p + 88) >> 12;
	req->rate = p[91] & 0x3f;
	req->traffic_class = p[92];
	req->hop_limit = p[93];
	req->sl = p[94] >> 4;
	req->subnet_local = p[94] >> 3 & 1;
	req->ack_timeout = p[95] >> 3;
	memcpy(req->alternate, p + 96, CM_ALTERNATE_LEN);
}

static void
build_req(const struct cm_req *req, uint8_t *p)
{
	store_be24(p + 5, req->vendor_id);
	store_be64(p + 8, req->service_id);
	store_be64(p + 16, req->guid);
	store_be32(p + 28, req->qkey);
	store_be24(p + 32, req->qpn);
	p[35] = req->responder_resources;
	store_be24(p + 36, req->local_eecn);
	p[39] = req->initiator_depth;
	store_be24(p + 40, req->remote_eecn);
	p[43] = (uint8_t)(req->remote_response_timeout << 3 | (req->transport & 3) << 1 | req->flow_control);
	store_be24(p + 44, req->psn);
	p[47] = (uint8_t)(req->local_response_timeout << 3 | (req->retry_count & 7));
	store_be16(p + 48, req->pkey);
	p[50] = (uint8_t)(req->mtu << 4 | req->rdc_exists << 3 | (req->rnr_retry & 7));
	p[51] = (uint8_t)(req->max_cm_retries << 4 | req->srq << 3 | (req->extended_transport & 7));
	store_be16(p + 52, req->local_lid);
	store_be16(p + 54, req->remote_lid);
	memcpy(p + 56, req->local_gid, 16);
	memcpy(p + 72, req->remote_gid, 16);
	store_be32(p + 88, req->flow_label << 12 | (req->rate & 0x3f));
	p[92] = req->traffic_class;
	p[93] = req->hop_limit;
	p[94] = (uint8_t)(req->sl << 4 | req->subnet_local << 3);
	p[95] = (uint8_t)(req->ack_timeout << 3);
	memcpy(p + 96, req->alternate, CM_ALTERNATE_LEN);
}

static void
parse_rep(const uint8_t *p, struct cm_rep *rep)
{
	rep->qkey = load_be32(p + 8);
	rep->qpn = load_be24(p + 12);
	rep->vendor_id = (uint32_t)p[15] << 16 | (uint32_t)p[19] << 8 | p[23];
	rep->eecn = load_be24(p + 16);
	rep->psn = load_be24(p + 20);
	rep->responder_resources = p[24];
	rep->initiator_depth = p[25];
	rep->ack_delay = p[26] >> 3;
	rep->failover = p[26] >> 1 & 3;
	rep->flow_control = p[26] & 1;
	rep->rnr_retry = p[27] >> 5;
	rep->srq = p[27] >> 4 & 1;
	rep->guid = load_be64(p + 28);
}

static void
build_rep(const struct cm_rep *rep, uint8_t *p)
{
	store_be32(p + 8, rep->qkey);
	store_be24(p + 12, rep->qpn);
	p[15] = (uint8_t)(rep->vendor_id >> 16);
	store_be24(p + 16, rep->eecn);
	p[19] = (uint8_t)(rep->vendor_id >> 8);
	store_be24(p + 20, rep->psn);
	p[23] = (uint8_t)rep->vendor_id;
	p[24] = rep->responder_resources;
	p[25] = rep->initiator_depth;
	p[26] = (uint8_t)(rep->ack_delay << 3 | (rep->failover & 3) << 1 | rep->flow_control);
	p[27] = (uint8_t)(rep->rnr_retry << 5 | rep->srq << 4);
	store_be64(p + 28, rep->guid);
}

/* First bytes of every CM MAD. */
static const uint8_t magic[4] = {MAD_BASE_VERSION, MAD_CLASS_CM, MAD_CLASS_VERSION, MAD_METHOD_SEND};

bool
cm_mad_is_ours(const uint8_t *bytes)
{
	return memcmp(bytes, magic, sizeof(magic)) == 0;
}

void
cm_mad_begin(uint8_t bytes[CM_MAD_LEN], uint64_t tid, uint16_t attribute, uint32_t local_id)
{
	memset(bytes, 0, CM_MAD_LEN);
	memcpy(bytes, magic, sizeof(magic));
	store_be64(bytes + 8, tid);
	store_be16(bytes + 16, attribute);
	store_be32(bytes + CM_MAD_HEADER_LEN, local_id);
}

int
cm_mad_parse(const uint8_t *bytes, uint32_t len, struct cm_mad *mad)
{
	const uint8_t *p = bytes + CM_MAD_HEADER_LEN;
	const struct layout *layout;

	if (len != CM_MAD_LEN || !cm_mad_is_ours(bytes))
		return -EPROTO;
	memset(mad, 0, sizeof(*mad));
	mad->attribute = load_be16(bytes + 16);
	if (mad->attribute < CM_REQ || mad->attribute > CM_DREP)
		return -EPROTO;
	mad->tid = load_be64(bytes + 8);
	mad->modifier = load_be32(bytes + 20);
	mad->local_id = load_be32(p);
	if (mad->attribute != CM_REQ)
		mad->remote_id = load_be32(p + 4);
	switch (mad->attribute) {
	case CM_REQ:
		parse_req(p, &mad->req);
		break;
	case CM_REP:
		parse_rep(p, &mad->rep);
		break;
	case CM_MRA:
		mad->mra.answers = p[8] >> 6;
		mad->mra.service_timeout = p[9] >> 3;
		break;
	case CM_REJ:
		mad->rej.answers = p[8] >> 6;
		mad->rej.info_len = p[9] >> 1;
		mad->rej.reason = load_be16(p + 10);
		memcpy(mad->rej.info, p + 12, CM_ARI_LEN);
		if (mad->rej.info_len > CM_ARI_LEN)
			return -EPROTO;
		break;
	case CM_DREQ:
		mad->remote_qpn = load_be24(p + 8);
		break;
	default:
		break;
	}
	layout = &layouts[mad->attribute - CM_REQ];
	memcpy(mad->private_data, p + layout->at, layout->len);
	return 0;
}

void
cm_mad_build(const struct cm_mad *mad, uint8_t bytes[CM_MAD_LEN])
{
	const struct layout *layout = &layouts[mad->attribute - CM_REQ];
	uint8_t *p = bytes + CM_MAD_HEADER_LEN;

	cm_mad_begin(bytes, mad->tid, mad->attribute, mad->local_id);
	store_be32(bytes + 20, mad->modifier);
	if (mad->attribute != CM_REQ)
		store_be32(p + 4, mad->remote_id);
	switch (mad->attribute) {
	case CM_REQ:
		build_req(&mad->req, p);
		break;
	case CM_REP:
		build_rep(&mad->rep, p);
		break;
	case CM_MRA:
		p[8] = (uint8_t)(mad->mra.answers << 6);
		p[9] = (uint8_t)(mad->mra.service_timeout << 3);
		break;
	case CM_REJ:
		p[8] = (uint8_t)(mad->rej.answers << 6);
		p[9] = (uint8_t)(mad->rej.info_len << 1);
		store_be16(p + 10, mad->rej.reason);
		memcpy(p + 12, mad->rej.info, CM_ARI_LEN);
		break;
	case CM_DREQ:
		store_be24(p + 8, mad->remote_qpn);
		break;
	default:
		break;
	}
	memcpy(p + layout->at, mad->private_data, layout->len);
}

/* Stores an address as in rdma_cm's header, where twelve zero bytes precede an IPv4 address, unlike in a GID.
 */
static void
ip_store(uint8_t *p, const struct wire_addr *addr)
{
	memset(p, 0, 16);
	if (wire_addr_is_v4(addr))
		memcpy(p + 12, addr->gid + 12, 4);
	else
		memcpy(p, addr->gid, 16);
}

static int
ip_load(const uint8_t *p, uint8_t version, struct wire_addr *addr)
{
	static const uint8_t zero[16], loopback[16] = {[15] = 1};

	if (version == 4) {
		if (memcmp(p, zero, 12) != 0 || p[12] == 0 || p[12] == 127 || p[12] >= 224)
			return -EPROTO;
		memset(addr->gid, 0, 10);
		memset(addr->gid + 10, 0xff, 2);
		memcpy(addr->gid + 12, p + 12, 4);
		return 0;
	}
	memcpy(addr->gid, p, 16);
	if (p[0] == 0xff || memcmp(p, zero, 16) == 0 || memcmp(p, loopback, 16) == 0 || wire_addr_is_v4(addr))
		return -EPROTO;
	return 0;
}

void
cm_ip_header_build(const struct cm_ip_header *header, uint8_t *bytes)
{
	bytes[0] = 0;
	bytes[1] = wire_addr_is_v4(&header->dst) ? 0x40 : 0x60;
	store_be16(bytes + 2, header->port);
	ip_store(bytes + 4, &header->src);
	ip_store(bytes + 20, &header->dst);
}

int
cm_ip_header_parse(const uint8_t *bytes, struct cm_ip_header *header)
{
	uint8_t version = bytes[1] >> 4;

	if (bytes[0] != 0 || (version != 4 && version != 6))
		return -EPROTO;
	header->port = load_be16(bytes + 2);
	if (ip_load(bytes + 4, version, &header->src) != 0)
		return -EPROTO;
	return ip_load(bytes + 20, version, &header->dst);
}

bool
cm_ip_header_take(const uint8_t *bytes, const struct cm_path *path, uint16_t *port)
{
	struct cm_ip_header header;

	if (cm_ip_header_parse(bytes, &header) != 0 || !wire_addr_equal(&header.src, &path->dst) ||
	    !wire_addr_equal(&header.dst, &path->src))
		return false;
	*port = header.port;
	return true;
}

/* Earlier versions of oneside read only the two lowest bits, and send zeros in the others. */
#define WORD_CAPABILITIES 0xffu
#define WORD_CORE_AT 8
#define WORD_PORT_AT 16
#define WORD_PORT_IS_NAMED (1u << 30)
#define PORT_LOW 0x3fffu /* RoCEv2's UDP source ports begin at PORT_FIRST */
#define PORT_FIRST 0xc000u

static uint32_t
word_of(const struct cm_announce *announce)
{
	const struct cm_steering *steering = &announce->steering;
	uint32_t port = steering->udp_port != 0
				? (steering->udp_port & PORT_LOW) << WORD_PORT_AT | WORD_PORT_IS_NAMED
				: 0;

	return (announce->capabilities & WORD_CAPABILITIES) | (uint32_t)steering->core << WORD_CORE_AT | port;
}

static void
load_word(uint32_t word, struct cm_announce *announce)
{
	announce->capabilities = word & WORD_CAPABILITIES;
	announce->steering.core = (uint8_t)(word >> WORD_CORE_AT);
	announce->steering.udp_port = (word & WORD_PORT_IS_NAMED) != 0
					      ? (uint16_t)(PORT_FIRST | (word >> WORD_PORT_AT & PORT_LOW))
					      : 0;
}

/* Earlier versions of oneside ignore this byte, and send 0. */
static uint8_t
mtu_units(const struct cm_announce *announce)
{
	uint32_t units = announce->link_mtu / CM_MTU_UNIT;

	return (uint8_t)(units <= UINT8_MAX ? units : UINT8_MAX);
}

void
cm_announce_req_build(struct cm_mad *mad, const struct cm_announce *announce, const void *data, uint32_t room)
{
	uint8_t *p = mad->req.alternate + ANNOUNCE_AT;
	uint8_t *area = mad->private_data + cm_private_len(CM_REQ) - room;
	uint16_t len = announce->private_len;
	uint32_t fits = len < room ? len : room;

	store_be32(p, ANNOUNCE_MAGIC);
	store_be32(p + 4, word_of(announce));
	store_be16(p + 8, len);
	mad->req.alternate[REQ_MTU_AT] = mtu_units(announce);
	if (fits > 0)
		memcpy(area, data, fits);
	if (len > fits)
		memcpy(mad->req.alternate + ANNOUNCE_DATA_AT, (const uint8_t *)data + fits, len - fits);
}

bool
cm_announce_req_parse(const struct cm_mad *mad, struct cm_announce *announce, uint32_t room, uint8_t *data)
{
	const uint8_t *p = mad->req.alternate + ANNOUNCE_AT;
	const uint8_t *area = mad->private_data + cm_private_len(CM_REQ) - room;
	uint32_t fits;

	/* With a nonzero alternate LID these fields are a real alternate path. */
	if (load_be16(mad->req.alternate) != 0 || load_be32(p) != ANNOUNCE_MAGIC ||
	    load_be16(p + 8) > room + ANNOUNCE_DATA_LEN)
		return false;
	load_word(load_be32(p + 4), announce);
	announce->private_len = load_be16(p + 8);
	announce->link_mtu = (uint16_t)(mad->req.alternate[REQ_MTU_AT] * CM_MTU_UNIT);
	fits = announce->private_len < room ? announce->private_len : room;
	memcpy(data, area, fits);
	memcpy(data + fits, mad->req.alternate + ANNOUNCE_DATA_AT, announce->private_len - fits);
	return true;
}

void
cm_announce_rep_build(struct cm_mad *mad, const struct cm_announce *announce)
{
	uint8_t *p = mad->private_data + CM_PRIVATE_REP - CM_ANNOUNCE_REP_LEN;

	store_be32(p, ANNOUNCE_MAGIC);
	store_be32(p + 4, word_of(announce));
	store_be16(p + 8, announce->private_len);
	p[10] = mtu_units(announce);
}

bool
cm_announce_rep_parse(const struct cm_mad *mad, struct cm_announce *announce)
{
	const uint8_t *p = mad->private_data + CM_PRIVATE_REP - CM_ANNOUNCE_REP_LEN;

	if (load_be32(p) != ANNOUNCE_MAGIC || load_be16(p + 8) > CM_PRIVATE_REP - CM_ANNOUNCE_REP_LEN)
		return false;
	load_word(load_be32(p + 4), announce);
	announce->private_len = load_be16(p + 8);
	announce->link_mtu = (uint16_t)(p[10] * CM_MTU_UNIT);
	return true;
}

#define DREQ_ANNOUNCE_AT (220u - CM_ANNOUNCE_REP_LEN)

void
cm_announce_dreq_build(struct cm_mad *mad, uint32_t refusal)
{
	store_be32(mad->private_data + DREQ_ANNOUNCE_AT, ANNOUNCE_MAGIC);
	store_be32(mad->private_data + DREQ_ANNOUNCE_AT + 4, refusal);
}

uint32_t
cm_announce_dreq_parse(const struct cm_mad *mad)
{
	const uint8_t *p = mad->private_data + DREQ_ANNOUNCE_AT;

	return load_be32(p) == ANNOUNCE_MAGIC ? load_be32(p + 4) : 0;
}

#define REJ_ANNOUNCE_AT (CM_PRIVATE_REJ - CM_ANNOUNCE_REP_LEN)
_Static_assert(CM_ANNOUNCED_REP == CM_PRIVATE_REP - CM_ANNOUNCE_REP_LEN &&
		       CM_ANNOUNCED_REJ == REJ_ANNOUNCE_AT,
	       "the announcement is at the end");

void
cm_announce_rej_build(uint8_t *area, const void *data, uint16_t len)
{
	memset(area, 0, CM_PRIVATE_REJ);
	if (len > 0)
		memcpy(area, data, len);
	store_be32(area + REJ_ANNOUNCE_AT, ANNOUNCE_MAGIC);
	store_be16(area + REJ_ANNOUNCE_AT + 8, len);
}

uint32_t
cm_announce_rej_parse(const uint8_t *area)
{
	uint32_t len = load_be16(area + REJ_ANNOUNCE_AT + 8);

	if (load_be32(area + REJ_ANNOUNCE_AT) != ANNOUNCE_MAGIC || len > REJ_ANNOUNCE_AT)
		return CM_PRIVATE_REJ;
	return len;
}
