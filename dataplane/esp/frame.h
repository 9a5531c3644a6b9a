/* SPDX-License-Identifier: BSD-3-Clause */
/* Layout of a frame that has an IP header; lengths are checked. */
#ifndef DATAPLANE_ESP_FRAME_H
#define DATAPLANE_ESP_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_ip.h>

#include "dataplane/wire/bytes.h"
#include "dataplane/wire/wire.h"

#define ESP_HEADER 16u /* SPI, sequence number, IV */
#define ESP_PROTO 50u
#define ESP_ETH_LEN 14u
#define ESP_VLAN_LEN 4u
#define ESP_IPV4_LEN 20u
#define ESP_IPV6_LEN 40u

struct esp_frame {
	uint8_t *ip;
	uint32_t at;     /* offset of `ip` in the frame */
	uint32_t ip_len; /* 20 or 40: without options and extension headers */
	bool v4;
	uint8_t proto; /* next header */
	struct wire_addr src, dst;
};

/* Find the IP header. False: the frame has none, or an incomplete one, or the tag of another network. */
static inline bool
esp_frame_parse(uint8_t *data, uint32_t len, struct esp_frame *frame)
{
	uint16_t type;

	frame->at = ESP_ETH_LEN;
	if (len < ESP_ETH_LEN + ESP_IPV4_LEN)
		return false;
	type = load_be16(data + 12);
	if (type == 0x8100 && (load_be16(data + 14) & WIRE_VLAN_ID) == 0) {
		type = load_be16(data + 16);
		frame->at += ESP_VLAN_LEN;
	}
	frame->v4 = type == 0x0800;
	if (!frame->v4 && type != 0x86dd)
		return false;
	frame->ip_len = frame->v4 ? ESP_IPV4_LEN : ESP_IPV6_LEN;
	if (len < frame->at + frame->ip_len)
		return false;
	frame->ip = data + frame->at;
	frame->proto = frame->v4 ? frame->ip[9] : frame->ip[6];
	frame->src = wire_addr_of(frame->v4, frame->ip + (frame->v4 ? 12 : 8));
	frame->dst = wire_addr_of(frame->v4, frame->ip + (frame->v4 ? 16 : 24));
	return true;
}

/* Neighbour discovery (types 133 to 137) finds the host that keys are for, and stays plain, like ARP. */
static inline bool
esp_frame_is_discovery(const struct esp_frame *frame, uint32_t len)
{
	const uint8_t *icmp = frame->ip + ESP_IPV6_LEN;

	return !frame->v4 && frame->proto == 58 && len > frame->at + ESP_IPV6_LEN && icmp[0] >= 133 &&
	       icmp[0] <= 137;
}

/* Change the IP header: protocol, and `len` bytes after the header. */
static inline void
esp_frame_become(uint8_t *ip, bool v4, uint8_t proto, uint32_t len)
{
	if (v4) {
		struct rte_ipv4_hdr *header = (struct rte_ipv4_hdr *)ip;

		header->total_length = rte_cpu_to_be_16((uint16_t)(ESP_IPV4_LEN + len));
		header->next_proto_id = proto;
		header->hdr_checksum = 0;
		header->hdr_checksum = rte_ipv4_cksum(header);
	} else {
		store_be16(ip + 4, (uint16_t)len);
		ip[6] = proto;
	}
}

#endif
