/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

const uint8_t our_mac[6] = {2, 0, 0, 0, 0, 1}, peer_mac[6] = {2, 0, 0, 0, 0, 2},
	      other_mac[6] = {2, 0, 0, 0, 0, 3}, everyone[6] = {255, 255, 255, 255, 255, 255};

static void
on_send(struct neigh_env *env, uint16_t port, const uint8_t *frame, uint32_t len)
{
	struct fixture *f = (struct fixture *)(void *)env;
	assert_true(len >= 60 && len <= NEIGH_FRAME_MAX);
	struct out *out = &f->out[f->sent++ % OUT_MAX];
	out->port = port;
	out->len = len;
	memcpy(out->bytes, frame, len);
}

static void
on_changed(struct neigh_env *env, uint16_t port, const struct wire_addr *addr, const uint8_t mac[6])
{
	struct fixture *f = (struct fixture *)(void *)env;
	(void)port;
	(void)addr;
	f->changes++;
	memcpy(f->changed_mac, mac, 6);
}

static bool
on_heard(struct neigh_env *env, uint16_t port, const struct wire_addr *addr, uint64_t ns)
{
	const struct fixture *f = (struct fixture *)(void *)env;

	(void)port;
	(void)addr;
	(void)ns;
	return f->heard;
}

static void
on_conflict(struct neigh_env *env, uint16_t port, const struct wire_addr *addr, const uint8_t mac[6])
{
	(void)port;
	(void)addr;
	(void)mac;
	((struct fixture *)(void *)env)->conflicts++;
}

static uint32_t
on_lost(struct neigh_env *env)
{
	return ((struct fixture *)(void *)env)->lost;
}

static void
on_done(void *user, int status, const uint8_t mac[6])
{
	struct waiting *w = user;
	w->calls++;
	w->status = status;
	memcpy(w->mac, mac, 6);
	if (w->cancel != NULL)
		neigh_cancel(&w->cancel->waiter);
}

struct neigh_waiter *
waits(struct waiting *w)
{
	w->waiter = (struct neigh_waiter){.done = on_done, .user = w};
	return &w->waiter;
}

struct wire_addr
v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
	return (struct wire_addr){{[10] = 0xff, 0xff, a, b, c, d}};
}

struct wire_addr
v6(uint8_t net, uint8_t last)
{
	return (struct wire_addr){{0x20, 1, 0x0d, 0xb8, 0, 0, 0, net, [15] = last}};
}

/* Port 0 is IPv4 192.0.2.1/24 with a gateway, port 1 IPv6 2001:db8:0:1::1/64 without. */
int
setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct neigh_port ports[2] = {
		{.addr = v4(192, 0, 2, 1), .prefix = 24, .has_gateway = true, .gateway = v4(192, 0, 2, 254)},
		{.port = 1, .addr = v6(1, 1), .prefix = 64},
	};
	assert_non_null(f);
	memcpy(ports[0].mac, our_mac, 6);
	memcpy(ports[1].mac, our_mac, 6);
	f->env.send = on_send;
	f->env.changed = on_changed;
	f->env.heard = on_heard;
	f->env.lost = on_lost;
	f->env.conflict = on_conflict;
	f->neigh = neigh_new(&f->env, ports, 2);
	assert_non_null(f->neigh);
	*state = f;
	return 0;
}

int
teardown(void **state)
{
	struct fixture *f = *state;
	neigh_free(f->neigh);
	free(f);
	return 0;
}

/* ---- frames, built independently of the code under test ---- */

uint32_t
arp_frame(uint8_t *frame, const uint8_t dst[6], uint16_t op, const uint8_t sha[6], struct wire_addr spa,
	  const uint8_t tha[6], struct wire_addr tpa)
{
	const uint8_t fixed[] = {0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, (uint8_t)op};
	memset(frame, 0, 60);
	memcpy(frame, dst, 6);
	memcpy(frame + 6, sha, 6);
	memcpy(frame + 12, fixed, sizeof(fixed));
	memcpy(frame + 22, sha, 6);
	memcpy(frame + 28, &spa.gid[12], 4);
	memcpy(frame + 32, tha, 6);
	memcpy(frame + 38, &tpa.gid[12], 4);
	return 60;
}

uint16_t
checksum(const uint8_t *data, uint32_t len, uint64_t sum)
{
	for (uint32_t i = 0; i < len; i++)
		sum += (i & 1) ? data[i] : (uint64_t)data[i] << 8;
	while (sum > 0xffff)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

void
store16(uint8_t *at, uint16_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

uint32_t
echo4(uint8_t *frame, struct wire_addr src, struct wire_addr dst, uint32_t data)
{
	memset(frame, 0, 42);
	memcpy(frame, our_mac, 6);
	memcpy(frame + 6, peer_mac, 6);
	frame[12] = 8;
	uint8_t *ip = frame + 14, *icmp = ip + 20;
	ip[0] = 0x45;
	ip[1] = 0xbb; /* DSCP 46, ECN 3 */
	store16(ip + 2, (uint16_t)(28 + data));
	ip[5] = 77;
	ip[8] = 3;
	ip[9] = 1;
	memcpy(ip + 12, &src.gid[12], 4);
	memcpy(ip + 16, &dst.gid[12], 4);
	store16(ip + 10, checksum(ip, 20, 0));
	icmp[0] = 8;
	store16(icmp + 4, 0x1234);
	store16(icmp + 6, 0x5678);
	for (uint32_t i = 0; i < data; i++)
		icmp[8 + i] = (uint8_t)(i * 7 + 1);
	store16(icmp + 2, checksum(icmp, 8 + data, 0));
	return 42 + data;
}

uint32_t
icmp6_frame(uint8_t *frame, const uint8_t dst_mac[6], struct wire_addr src, struct wire_addr dst,
	    uint8_t hops, const uint8_t *icmp, uint32_t len)
{
	memset(frame, 0, 54);
	memcpy(frame, dst_mac, 6);
	memcpy(frame + 6, peer_mac, 6);
	store16(frame + 12, 0x86dd);
	uint8_t *ip = frame + 14;
	ip[0] = 0x60;
	store16(ip + 4, (uint16_t)len);
	ip[6] = 58;
	ip[7] = hops;
	memcpy(ip + 8, src.gid, 16);
	memcpy(ip + 24, dst.gid, 16);
	memcpy(ip + 40, icmp, len);
	store16(ip + 42, 0);
	uint64_t pseudo = 58 + len;
	for (uint32_t i = 8; i < 40; i += 2)
		pseudo += (uint64_t)(ip[i] << 8 | ip[i + 1]);
	store16(ip + 42, checksum(ip + 40, len, pseudo));
	return 54 + len;
}

/* A solicitation or advertisement; option type 0: none. */
uint32_t
nd_frame(uint8_t *frame, const uint8_t dst_mac[6], struct wire_addr src, struct wire_addr dst, uint8_t type,
	 uint8_t flags, struct wire_addr target, uint8_t option, const uint8_t mac[6])
{
	uint8_t icmp[32] = {type, 0, 0, 0, flags};
	memcpy(icmp + 8, target.gid, 16);
	icmp[24] = option;
	icmp[25] = 1;
	memcpy(icmp + 26, mac, 6);
	return icmp6_frame(frame, dst_mac, src, dst, 255, icmp, option != 0 ? 32 : 24);
}

struct wire_addr
group_of(struct wire_addr addr)
{
	return (struct wire_addr){{0xff, 2, [11] = 1, 0xff, addr.gid[13], addr.gid[14], addr.gid[15]}};
}

void
group_mac(struct wire_addr group, uint8_t mac[6])
{
	mac[0] = mac[1] = 0x33;
	memcpy(mac + 2, &group.gid[12], 4);
}

void
assert_icmp6(const struct out *out)
{
	const uint8_t *ip = out->bytes + 14;
	uint32_t len = (uint32_t)(ip[4] << 8 | ip[5]);
	uint64_t pseudo = 58 + len;
	assert_int_equal(out->len, 54 + len);
	for (uint32_t i = 8; i < 40; i += 2)
		pseudo += (uint64_t)(ip[i] << 8 | ip[i + 1]);
	assert_int_equal(checksum(ip + 40, len, pseudo), 0);
}

uint32_t
known(struct fixture *f)
{
	struct neigh_info info;
	uint32_t count = 0;
	for (uint32_t i = 0; i < NEIGH_ENTRIES; i++)
		count += neigh_get(f->neigh, i, 0, &info);
	return count;
}

/* The peer sends an ARP request for our address, so that it is known. */
void
introduce(struct fixture *f, uint8_t host, const uint8_t mac[6], uint64_t now)
{
	uint8_t frame[64];
	uint32_t len =
		arp_frame(frame, everyone, 1, mac, v4(192, 0, 2, host), (uint8_t[6]){0}, v4(192, 0, 2, 1));
	neigh_input(f->neigh, 0, frame, len, now);
}

void
fix_ip(uint8_t *frame)
{
	store16(frame + 24, 0);
	store16(frame + 24, checksum(frame + 14, 20, 0));
}
