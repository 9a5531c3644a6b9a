/* SPDX-License-Identifier: BSD-3-Clause */
/* ARP (RFC 826, 5227), neighbour discovery (RFC 4861) and echo replies (RFC 792,
 * 4443): frame formats.  Each length is checked against the frame before use.  Malformed frames are dropped
 * and counted. */
#include "dataplane/wire/bytes.h"
#include "neigh_internal.h"

#define REPLIES_PER_SECOND 1000u
#define ECHOES_PER_SECOND 10000u
#define REPORTS_PER_SECOND 10u /* packet-too-big reports; each one searches all connections */
#define UDP_LEN 8u
#define UDP_PROTOCOL 17u
#define ROCE_PORT 4791u

#define ETH 14u
#define ETH_MIN 60u /* without the FCS */
#define TYPE_ARP 0x0806u
#define TYPE_IPV4 0x0800u
#define TYPE_IPV6 0x86ddu
#define ARP_LEN 28u
#define IPV4_LEN 20u
#define IPV6_LEN 40u
#define ICMP_LEN 8u
#define ND_LEN 24u /* type, code, checksum, flags, target */

enum { ARP_REQUEST = 1, ARP_REPLY = 2 };
enum { ICMP_ECHO_REPLY = 0, ICMP_ECHO = 8, IPPROTO_ICMP4 = 1, IPPROTO_ICMP6 = 58 };
enum { ICMP6_ECHO = 128, ICMP6_ECHO_REPLY = 129, ICMP6_NS = 135, ICMP6_NA = 136 };
enum { ICMP_UNREACHABLE = 3, ICMP_FRAGMENTATION_NEEDED = 4, ICMP6_TOO_BIG = 2 };
enum { ND_OPTION_SOURCE = 1, ND_OPTION_TARGET = 2 };
enum { NA_SOLICITED = 0x40, NA_OVERRIDE = 0x20 };

static const uint8_t broadcast[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
static const struct wire_addr all_nodes = {{0xff, 2, [15] = 1}};
static const struct wire_addr unspecified;

static uint32_t
sum16(const uint8_t *data, uint32_t len, uint32_t sum)
{
	for (uint32_t i = 0; i + 1 < len; i += 2)
		sum += load_be16(data + i);
	if (len & 1)
		sum += (uint32_t)data[len - 1] << 8;
	return (sum & 0xffff) + (sum >> 16);
}

static uint16_t
fold_sum(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* Checksum of the ICMPv6 message that follows the IPv6 header `ip`; 0 if the stored checksum is correct. */
static uint16_t
icmp6_checksum(const uint8_t *ip, const uint8_t *icmp, uint32_t len)
{
	return fold_sum(sum16(icmp, len, sum16(ip + 8, 32, len + IPPROTO_ICMP6)));
}

static bool
mac_unicast(const uint8_t mac[6])
{
	static const uint8_t zero[6];
	return (mac[0] & 1) == 0 && memcmp(mac, zero, 6) != 0;
}

static struct wire_addr
solicited_node(const struct wire_addr *addr)
{
	return (struct wire_addr){{0xff, 2, [11] = 1, 0xff, addr->gid[13], addr->gid[14], addr->gid[15]}};
}

/* Sends neigh->frame, padded to Ethernet's minimum length. */
static void
frame_transmit(struct neigh *neigh, uint16_t port, uint32_t len)
{
	if (len < ETH_MIN) {
		memset(neigh->frame + len, 0, ETH_MIN - len);
		len = ETH_MIN;
	}
	neigh->env->send(neigh->env, neigh->port[port].config.port, neigh->frame, len);
}

static uint8_t *
put_ethernet(struct neigh *neigh, uint16_t port, const uint8_t dst[6], uint16_t type)
{
	memcpy(neigh->frame, dst, 6);
	memcpy(neigh->frame + 6, neigh->port[port].config.mac, 6);
	store_be16(neigh->frame + 12, type);
	return neigh->frame + ETH;
}

/* The target MAC of a reply is `dst`; that of a request is unknown.  `sender_ip`: ours, or zero in a probe.
 */
static void
send_arp(struct neigh *neigh, uint16_t port, uint16_t op, const uint8_t dst[6], const uint8_t sender_ip[4],
	 const uint8_t target_ip[4])
{
	static const uint8_t unknown[6];
	const struct neigh_port *config = &neigh->port[port].config;
	uint8_t *arp = put_ethernet(neigh, port, dst, TYPE_ARP);

	store_be16(arp, 1);
	store_be16(arp + 2, TYPE_IPV4);
	arp[4] = 6;
	arp[5] = 4;
	store_be16(arp + 6, op);
	memcpy(arp + 8, config->mac, 6);
	memcpy(arp + 14, sender_ip, 4);
	memcpy(arp + 18, op == ARP_REPLY ? dst : unknown, 6);
	memcpy(arp + 24, target_ip, 4);
	frame_transmit(neigh, port, ETH + ARP_LEN);
}

static uint8_t *
put_ipv6(uint8_t *ip, uint32_t payload, uint8_t hops, const struct wire_addr *src,
	 const struct wire_addr *dst)
{
	memset(ip, 0, IPV6_LEN);
	ip[0] = 0x60;
	store_be16(ip + 4, (uint16_t)payload);
	ip[6] = IPPROTO_ICMP6;
	ip[7] = hops;
	memcpy(ip + 8, src->gid, 16);
	memcpy(ip + 24, dst->gid, 16);
	return ip + IPV6_LEN;
}

/* Sends a solicitation or advertisement.  The option with our MAC is left out of a probe (from the
 * unspecified address).  `mac` NULL: the MAC of the multicast address `dst`. */
static void
send_nd(struct neigh *neigh, uint16_t port, uint8_t type, uint8_t flags, const uint8_t *mac,
	const struct wire_addr *src, const struct wire_addr *dst, const struct wire_addr *target)
{
	const uint8_t multicast[6] = {0x33, 0x33, dst->gid[12], dst->gid[13], dst->gid[14], dst->gid[15]};
	uint32_t len = wire_addr_equal(src, &unspecified) ? ND_LEN : ND_LEN + 8;
	uint8_t *ip = put_ethernet(neigh, port, mac != NULL ? mac : multicast, TYPE_IPV6);
	uint8_t *icmp = put_ipv6(ip, len, 255, src, dst);

	memset(icmp, 0, ND_LEN);
	icmp[0] = type;
	icmp[4] = flags;
	memcpy(icmp + 8, target->gid, 16);
	icmp[24] = type == ICMP6_NS ? ND_OPTION_SOURCE : ND_OPTION_TARGET;
	icmp[25] = 1;
	memcpy(icmp + 26, neigh->port[port].config.mac, 6);
	store_be16(icmp + 2, icmp6_checksum(ip, icmp, len));
	frame_transmit(neigh, port, ETH + IPV6_LEN + len);
}

void
neigh_send_query(struct neigh *neigh, uint16_t port, const struct wire_addr *addr, const uint8_t *mac)
{
	const struct neigh_iface *iface = &neigh->port[port];

	if (iface->v4) {
		send_arp(neigh, port, ARP_REQUEST, mac != NULL ? mac : broadcast, &iface->config.addr.gid[12],
			 &addr->gid[12]);
		return;
	}
	struct wire_addr dst = mac != NULL ? *addr : solicited_node(addr);
	/* The answer is addressed to `src`, so `src` must belong to this interface. */
	const struct wire_addr *src = neigh_addr_link_local(addr) && iface->first_of_family
					      ? &iface->link_local
					      : &iface->config.addr;
	send_nd(neigh, port, ICMP6_NS, 0, mac, src, &dst, addr);
}

void
neigh_send_probe(struct neigh *neigh, uint16_t port)
{
	const struct neigh_iface *iface = &neigh->port[port];
	const struct wire_addr *addr = &iface->config.addr;
	struct wire_addr group = solicited_node(addr);

	if (iface->v4)
		send_arp(neigh, port, ARP_REQUEST, broadcast, unspecified.gid, &addr->gid[12]);
	else
		send_nd(neigh, port, ICMP6_NS, 0, NULL, &unspecified, &group, addr);
}

void
neigh_send_announcement(struct neigh *neigh, uint16_t port)
{
	const struct neigh_iface *iface = &neigh->port[port];
	const struct wire_addr *addr = &iface->config.addr;

	if (iface->v4)
		send_arp(neigh, port, ARP_REQUEST, broadcast, &addr->gid[12], &addr->gid[12]);
	else
		send_nd(neigh, port, ICMP6_NA, NA_OVERRIDE, NULL, addr, &all_nodes, addr);
}

static bool
is_own_mac(const struct neigh_iface *iface, const uint8_t mac[6])
{
	return memcmp(mac, iface->config.mac, 6) == 0;
}

/* A bool *_input() function returns false if the frame is malformed. */
static bool
arp_input(struct neigh *neigh, uint16_t port, const uint8_t *arp, uint32_t len, uint64_t now)
{
	struct neigh_iface *iface = &neigh->port[port];

	if (len < ARP_LEN || load_be16(arp) != 1 || load_be16(arp + 2) != TYPE_IPV4 || arp[4] != 6 ||
	    arp[5] != 4 || !mac_unicast(arp + 8))
		return false;
	const uint8_t *mac = arp + 8;
	uint16_t op = load_be16(arp + 6);
	struct wire_addr sender = wire_addr_of(true, arp + 14), target = wire_addr_of(true, arp + 24);
	bool probe = memcmp(arp + 14, unspecified.gid, 4) == 0; /* duplicate address probe */

	if (!iface->v4)
		return true;
	if (neigh_is_ours(iface, &sender)) {
		/* The kernel's end of a tap has our MAC: only the address identifies our own frames. */
		if (!is_own_mac(iface, mac))
			neigh_conflict(neigh, port, mac, now);
		return true;
	}
	/* A second host probes the address that we are probing. */
	if (op == ARP_REQUEST && probe && neigh_is_ours(iface, &target) && neigh_is_probing(iface) &&
	    !is_own_mac(iface, mac))
		neigh_conflict(neigh, port, mac, now);
	bool known_place = neigh_is_on_link(iface, &sender);
	if (op == ARP_REQUEST && neigh_is_ours(iface, &target) && (probe || neigh_may_ask(iface, &sender))) {
		if (!neigh_rate_ok(neigh, &iface->replies, REPLIES_PER_SECOND, now))
			return true;
		send_arp(neigh, port, ARP_REPLY, mac, &iface->config.addr.gid[12], arp + 14);
		/* Frames to another network go to the gateway, so the sender's MAC is not needed. */
		if (known_place)
			neigh_asked(neigh, port, &sender, mac, now);
	} else if (known_place && op == ARP_REPLY) {
		neigh_answered(neigh, port, &sender, mac, neigh_is_ours(iface, &target), now);
	} else if (known_place && op == ARP_REQUEST && wire_addr_equal(&sender, &target)) {
		neigh_answered(neigh, port, &sender, mac, false, now);
	}
	return true;
}

/* Turns the echo request `icmp` into a reply.  The IP header (`ip_len` bytes) is already in neigh->frame. */
static void
send_echo_reply(struct neigh *neigh, uint16_t port, uint32_t ip_len, const uint8_t *icmp, uint32_t len,
		uint8_t type)
{
	uint8_t *ip = neigh->frame + ETH, *out = ip + ip_len;

	memcpy(out, icmp, len);
	out[0] = type;
	store_be16(out + 2, 0);
	store_be16(out + 2, ip_len == IPV6_LEN ? icmp6_checksum(ip, out, len) : fold_sum(sum16(out, len, 0)));
	frame_transmit(neigh, port, ETH + ip_len + len);
}

/* `quoted`: the start of the packet that was too big; the report is ignored unless that packet is ours. */
static void
too_big_input(struct neigh *neigh, uint16_t port, const uint8_t *quoted, uint32_t len, uint32_t mtu,
	      uint64_t now)
{
	struct neigh_iface *iface = &neigh->port[port];
	uint32_t ip_len = iface->v4 ? IPV4_LEN : IPV6_LEN;
	const uint8_t *udp = quoted + ip_len;
	struct wire_addr src, dst;

	if (len < ip_len + UDP_LEN || (iface->v4 ? quoted[0] != 0x45 : quoted[0] >> 4 != 6) ||
	    quoted[iface->v4 ? 9 : 6] != UDP_PROTOCOL || load_be16(udp + 2) != ROCE_PORT)
		return;
	src = wire_addr_of(iface->v4, quoted + (iface->v4 ? 12 : 8));
	dst = wire_addr_of(iface->v4, quoted + (iface->v4 ? 16 : 24));
	if (neigh_is_ours(iface, &src) && neigh->env->too_big != NULL &&
	    neigh_rate_ok(neigh, &iface->reports, REPORTS_PER_SECOND, now))
		neigh->env->too_big(neigh->env, iface->config.port, &dst, load_be16(udp), mtu);
}

static bool
ipv4_input(struct neigh *neigh, uint16_t port, const uint8_t *frame, uint32_t len, uint64_t now)
{
	struct neigh_iface *iface = &neigh->port[port];
	const uint8_t *ip = frame + ETH;

	if (len < ETH + IPV4_LEN || ip[0] != 0x45 || load_be16(ip + 2) < IPV4_LEN ||
	    load_be16(ip + 2) > len - ETH || fold_sum(sum16(ip, IPV4_LEN, 0)) != 0)
		return false;
	uint32_t payload = load_be16(ip + 2) - IPV4_LEN;
	const uint8_t *icmp = ip + IPV4_LEN;
	struct wire_addr src = wire_addr_of(true, ip + 12), dst = wire_addr_of(true, ip + 16);

	/* Accept unfragmented ICMP for our address and MAC from a valid unicast source. */
	if (ip[9] != IPPROTO_ICMP4 || !neigh_is_ours(iface, &dst) ||
	    memcmp(frame, iface->config.mac, 6) != 0 || (load_be16(ip + 6) & 0x3fff) != 0 || ip[12] == 0 ||
	    ip[12] == 127 || ip[12] >= 224 || neigh_is_ours(iface, &src))
		return true;
	if (payload < ICMP_LEN || fold_sum(sum16(icmp, payload, 0)) != 0)
		return false;
	if (icmp[0] == ICMP_UNREACHABLE && icmp[1] == ICMP_FRAGMENTATION_NEEDED)
		too_big_input(neigh, port, icmp + ICMP_LEN, payload - ICMP_LEN, load_be16(icmp + 6), now);
	if (icmp[0] != ICMP_ECHO || icmp[1] != 0 || ETH + IPV4_LEN + payload > NEIGH_FRAME_MAX)
		return true;
	if (!neigh_rate_ok(neigh, &iface->echoes, ECHOES_PER_SECOND, now))
		return true;

	uint8_t *out = put_ethernet(neigh, port, frame + 6, TYPE_IPV4);
	memset(out, 0, IPV4_LEN);
	out[0] = 0x45;
	out[1] = ip[1] & 0xfc; /* keep the DSCP, clear the ECN bits */
	store_be16(out + 2, (uint16_t)(IPV4_LEN + payload));
	memcpy(out + 4, ip + 4, 2);
	out[8] = 64;
	out[9] = IPPROTO_ICMP4;
	memcpy(out + 12, ip + 16, 4);
	memcpy(out + 16, ip + 12, 4);
	store_be16(out + 10, fold_sum(sum16(out, IPV4_LEN, 0)));
	send_echo_reply(neigh, port, IPV4_LEN, icmp, payload, ICMP_ECHO_REPLY);
	return true;
}

/* Finds the MAC in option `type`; *mac is NULL without the option.  False if the options are malformed. */
static bool
nd_option(const uint8_t *option, uint32_t len, uint8_t type, const uint8_t **mac)
{
	*mac = NULL;
	while (len > 0) {
		if (len < 8 || option[1] == 0 || option[1] * 8u > len)
			return false;
		if (option[0] == type) {
			if (option[1] != 1 || !mac_unicast(option + 2))
				return false;
			*mac = option + 2;
		}
		len -= option[1] * 8u;
		option += option[1] * 8u;
	}
	return true;
}

struct nd {
	struct wire_addr src, dst, target;
	const uint8_t *mac; /* from the option; NULL without one */
	uint8_t flags;
};

static void
solicitation_input(struct neigh *neigh, uint16_t port, const struct nd *nd, const uint8_t eth_src[6],
		   uint64_t now)
{
	struct neigh_iface *iface = &neigh->port[port];
	struct wire_addr group = solicited_node(&nd->target);
	bool probe = wire_addr_equal(&nd->src, &unspecified); /* duplicate address probe */

	if (!neigh_is_ours(iface, &nd->target) ||
	    !(wire_addr_equal(&nd->dst, &group) || (!probe && neigh_is_ours(iface, &nd->dst))) ||
	    !(probe || neigh_may_ask(iface, &nd->src)) || (probe && nd->mac != NULL) ||
	    !neigh_rate_ok(neigh, &iface->replies, REPLIES_PER_SECOND, now))
		return;
	if (probe) {
		/* A second host probes the address that we are probing. */
		if (neigh_is_probing(iface) && !is_own_mac(iface, eth_src))
			neigh_conflict(neigh, port, eth_src, now);
		send_nd(neigh, port, ICMP6_NA, NA_OVERRIDE, NULL, &nd->target, &all_nodes, &nd->target);
		return;
	}
	/* A unicast solicitation may omit the option: use the frame's source MAC. */
	const uint8_t *mac = nd->mac != NULL ? nd->mac : eth_src;
	send_nd(neigh, port, ICMP6_NA, NA_SOLICITED | NA_OVERRIDE, mac, &nd->target, &nd->src, &nd->target);
	if (neigh_is_on_link(iface, &nd->src))
		neigh_asked(neigh, port, &nd->src, mac, now);
}

static void
advertisement_input(struct neigh *neigh, uint16_t port, const struct nd *nd, const uint8_t eth_src[6],
		    uint64_t now)
{
	struct neigh_iface *iface = &neigh->port[port];
	bool solicited = (nd->flags & NA_SOLICITED) != 0 && neigh_is_ours(iface, &nd->dst);
	/* The answer to a unicast query may omit the option: use the frame's source MAC. */
	const uint8_t *mac = nd->mac != NULL ? nd->mac : eth_src;

	if (neigh_is_ours(iface, &nd->target) && !is_own_mac(iface, mac))
		neigh_conflict(neigh, port, mac, now);
	else if (neigh_is_on_link(iface, &nd->target) && (solicited || wire_addr_equal(&nd->dst, &all_nodes)))
		neigh_answered(neigh, port, &nd->target, mac, solicited, now);
}

static bool
nd_input(struct neigh *neigh, uint16_t port, const uint8_t *frame, const uint8_t *icmp, uint32_t len,
	 uint64_t now)
{
	const uint8_t *ip = frame + ETH;
	struct nd nd = {.src = wire_addr_of(false, ip + 8), .dst = wire_addr_of(false, ip + 24)};
	bool asks = icmp[0] == ICMP6_NS;

	/* A hop limit of 255 proves that the frame is from this link. */
	if (ip[7] != 255 || icmp[1] != 0 || len < ND_LEN || icmp[8] == 0xff ||
	    !nd_option(icmp + ND_LEN, len - ND_LEN, asks ? ND_OPTION_SOURCE : ND_OPTION_TARGET, &nd.mac))
		return false;
	nd.target = wire_addr_of(false, icmp + 8);
	nd.flags = icmp[4];
	if (asks)
		solicitation_input(neigh, port, &nd, frame + 6, now);
	else
		advertisement_input(neigh, port, &nd, frame + 6, now);
	return true;
}

static bool
ipv6_input(struct neigh *neigh, uint16_t port, const uint8_t *frame, uint32_t len, uint64_t now)
{
	struct neigh_iface *iface = &neigh->port[port];
	const uint8_t *ip = frame + ETH, *icmp = ip + IPV6_LEN;

	if (len < ETH + IPV6_LEN || ip[0] >> 4 != 6 || load_be16(ip + 4) > len - ETH - IPV6_LEN)
		return false;
	uint32_t payload = load_be16(ip + 4);
	if (iface->v4 || ip[6] != IPPROTO_ICMP6)
		return true;
	if (payload < ICMP_LEN || icmp6_checksum(ip, icmp, payload) != 0)
		return false;
	if (icmp[0] == ICMP6_NS || icmp[0] == ICMP6_NA)
		return nd_input(neigh, port, frame, icmp, payload, now);
	struct wire_addr src = wire_addr_of(false, ip + 8), dst = wire_addr_of(false, ip + 24);
	if (!neigh_is_ours(iface, &dst) || memcmp(frame, iface->config.mac, 6) != 0 || src.gid[0] == 0xff ||
	    wire_addr_equal(&src, &unspecified) || neigh_is_ours(iface, &src))
		return true;
	if (icmp[0] == ICMP6_TOO_BIG)
		too_big_input(neigh, port, icmp + ICMP_LEN, payload - ICMP_LEN, load_be32(icmp + 4), now);
	if (icmp[0] != ICMP6_ECHO || icmp[1] != 0 || ETH + IPV6_LEN + payload > NEIGH_FRAME_MAX)
		return true;
	if (!neigh_rate_ok(neigh, &iface->echoes, ECHOES_PER_SECOND, now))
		return true;
	put_ipv6(put_ethernet(neigh, port, frame + 6, TYPE_IPV6), payload, 64, &dst, &src);
	send_echo_reply(neigh, port, IPV6_LEN, icmp, payload, ICMP6_ECHO_REPLY);
	return true;
}

static bool
iface_input(struct neigh *neigh, uint16_t port, const uint8_t *frame, uint32_t len, uint64_t now)
{
	bool well_formed = true;

	if ((frame[0] & 1) == 0 && memcmp(frame, neigh->port[port].config.mac, 6) != 0)
		return true;
	switch (load_be16(frame + 12)) {
	case TYPE_ARP:
		well_formed = arp_input(neigh, port, frame + ETH, len - ETH, now);
		break;
	case TYPE_IPV4:
		well_formed = ipv4_input(neigh, port, frame, len, now);
		break;
	case TYPE_IPV6:
		well_formed = ipv6_input(neigh, port, frame, len, now);
		break;
	}
	return well_formed;
}

void
neigh_input(struct neigh *neigh, uint16_t port, const uint8_t *frame, uint32_t len, uint64_t now)
{
	bool well_formed = true;

	if (len < ETH || !mac_unicast(frame + 6))
		return;
	for (uint16_t i = 0; i < neigh->num_ports; i++)
		if (neigh->port[i].config.port == port)
			well_formed &= iface_input(neigh, i, frame, len, now);
	neigh->stats.malformed += !well_formed;
}
