/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports as the control thread sees them: addresses, paths to neighbours, and management datagrams on QP1.
 * Datagrams to an address of our own never use a port: a queue holds them until the next loop. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/route.h"
#include "control/path/path.h"

#define RESPONSE_TIMEOUT 20u /* code of 4.3 s */
#define MAX_RETRIES 15u
#define SIDR_RETRIES 8u /* 14 s in all */
#define RETRY_NS (250 * NS_PER_MS)
#define HOPS 64u
#define DSCP_BITS 0xfcu
#define UDP_LEN 8u
#define IPV4_LEN 20u
#define IPV6_LEN 40u

struct held_mad {
	TAILQ_ENTRY(held_mad) link;
	struct neigh_waiter waiter; /* while unresolved */
	struct path_port *port;
	struct cm_path path; /* looped: reply path for the receiver */
	uint8_t mad[CM_MAD_LEN];
};

TAILQ_HEAD(held_mads, held_mad);
static struct held_mads looped, unresolved;
static uint32_t num_looped, num_unresolved;
static uint64_t refresh_at;
static struct neigh_env neigh_env;
static const struct path_calls *path_calls;

struct path_port path_port[CONFIG_PORTS_MAX];
uint32_t path_num_ports;

/* ---- addresses ---- */

void
addr_to_wire(uint16_t family, const uint8_t bytes[16], struct wire_addr *out)
{
	*out = wire_addr_of(family != AF_INET6, bytes);
}

uint16_t
addr_from_wire(const struct wire_addr *addr, uint8_t bytes[16])
{
	memset(bytes, 0, 16);
	if (!wire_addr_is_v4(addr)) {
		memcpy(bytes, addr->gid, 16);
		return AF_INET6;
	}
	memcpy(bytes, &addr->gid[12], 4);
	return AF_INET;
}

const char *
addr_text(const struct wire_addr *addr)
{
	static char text[INET6_ADDRSTRLEN];
	uint8_t bytes[16];
	uint16_t family = addr_from_wire(addr, bytes);

	return inet_ntop(family, bytes, text, sizeof(text));
}

struct path_port *
path_port_by_name(const char *name)
{
	for (uint32_t i = 0; i < path_num_ports; i++)
		if (strcmp(path_port[i].info->name, name) == 0)
			return &path_port[i];
	return NULL;
}

/* ---- sending ---- */

static void
send_frame(struct path_port *port, const struct cm_path *path, const uint8_t dst_mac[6],
	   const uint8_t mad[CM_MAD_LEN])
{
	struct wire_path wire = {
		.src = path->src,
		.dst = path->dst,
		.udp_src_port = wire_udp_source_port(path->flow_label, 1, 1),
		.tos = wire_without_ecn(path->traffic_class),
		.ttl = path->hop_limit != 0 ? path->hop_limit : HOPS,
		.flow_label = path->flow_label,
	};
	struct wire_build build = {
		.opcode = WIRE_UD_SEND_ONLY,
		.qpn = 1,
		.psn = port->mad_psn,
		.qkey = WIRE_QKEY_GSI,
		.src_qpn = 1,
		.payload_len = CM_MAD_LEN,
	};
	uint8_t frame[WIRE_HEADERS_MAX + CM_MAD_LEN + 4 + WIRE_ICRC_LEN];
	struct wire_template template;
	uint32_t len;

	port->mad_psn = (port->mad_psn + 1) & 0xffffff;
	memcpy(wire.src_mac, port->info->mac, sizeof(wire.src_mac));
	memcpy(wire.dst_mac, dst_mac, sizeof(wire.dst_mac));
	wire_template_init(&template, &wire);
	len = wire_frame_len(&template, build.opcode, build.payload_len);
	if (len > sizeof(frame))
		return;
	memcpy(wire_build(&template, &build, frame), mad, CM_MAD_LEN);
	wire_seal(frame, len);
	/* The end that waits for an answer retransmits a lost MAD. */
	if (engine_send_frame(port->index, frame, len) != 0)
		log_debug("port %s: a management datagram could not be sent\n", port->info->name);
}

static struct held_mad *
mad_hold(struct path_port *port, const struct cm_path *path, const uint8_t mad[CM_MAD_LEN])
{
	struct held_mad *held = malloc(sizeof(*held));

	if (held == NULL)
		return NULL;
	held->port = port;
	held->path = *path;
	memcpy(held->mad, mad, CM_MAD_LEN);
	return held;
}

static void
loop_mad(struct path_port *to, const struct cm_path *path, const uint8_t mad[CM_MAD_LEN])
{
	struct held_mad *held = num_looped < PATH_LOOPED_MAX ? mad_hold(to, path, mad) : NULL;

	if (held == NULL)
		return;
	held->path.port = to->index;
	held->path.src = path->dst;
	held->path.dst = path->src;
	TAILQ_INSERT_TAIL(&looped, held, link);
	num_looped++;
}

static void
mad_resolved(void *user, int status, const uint8_t mac[6])
{
	struct held_mad *held = user;

	TAILQ_REMOVE(&unresolved, held, link);
	num_unresolved--;
	if (status == 0)
		send_frame(held->port, &held->path, mac, held->mad);
	free(held);
}

void
path_send_mad(struct path_port *port, const struct cm_path *path, const uint8_t mad[CM_MAD_LEN])
{
	struct path_port *own = path_own(&path->dst);
	struct held_mad *held;
	uint8_t mac[6];
	int error;

	if (own != NULL) {
		loop_mad(own, path, mad);
		return;
	}
	error = neigh_lookup(control.neigh, port->index, &path->dst, control.now, mac);
	if (error == 0)
		send_frame(port, path, mac, mad);
	if (error == -ENETUNREACH)
		log_of_others(
			warning,
			"event=no_route port=%s peer=%s text=\"cannot send a connection message: the peer is not on the link, and the port has no gateway\" remedy=\"give the port a gateway\"\n",
			port->info->name, addr_text(&path->dst));
	/* Bounded: MADs to hosts that do not answer must not prevent those to others. */
	if (error != -ENOENT || num_unresolved >= PATH_UNRESOLVED_MAX)
		return;
	held = mad_hold(port, path, mad);
	if (held == NULL)
		return;
	held->waiter = (struct neigh_waiter){.done = mad_resolved, .user = held};
	error = neigh_resolve(control.neigh, port->index, &path->dst, control.now, mac, NEIGH_NOBODY,
			      &held->waiter);
	if (error == -EINPROGRESS) {
		TAILQ_INSERT_TAIL(&unresolved, held, link);
		num_unresolved++;
		return;
	}
	free(held);
}

void
path_send_mad_known(struct path_port *port, const struct cm_path *path, const uint8_t mac[6],
		    const uint8_t mad[CM_MAD_LEN])
{
	uint8_t hop[6];

	if (neigh_resolve(control.neigh, port->index, &path->dst, control.now, hop, NEIGH_NOBODY, NULL) != 0)
		memcpy(hop, mac, sizeof(hop));
	send_frame(port, path, hop, mad);
}

/* ---- receiving ---- */

static void
input_mad(struct path_port *port, const struct cm_path *reply_path, const uint8_t *mad, uint32_t len)
{
	if (len == CM_MAD_LEN &&
	    (path_calls->mad(port, reply_path, mad) || sidr_input(port->sidr, reply_path, mad, control.now)))
		return;
	cm_input(port->cm, reply_path, mad, len, control.now);
}

/* A reply has the DSCP and flow label of the received frame, whatever those of its connection are. */
static void
take_marks(const struct wire_packet *packet, struct cm_path *path)
{
	bool v4 = wire_addr_is_v4(&packet->src);
	uint32_t extensions = (uint32_t)wire_extension_len(packet->opcode);
	const uint8_t *ip =
		packet->payload - extensions - WIRE_BTH_LEN - UDP_LEN - (v4 ? IPV4_LEN : IPV6_LEN);

	path->traffic_class = (v4 ? ip[1] : (uint8_t)(ip[0] << 4 | ip[1] >> 4)) & DSCP_BITS;
	path->flow_label = v4 ? 0 : load_be24(ip + 1) & 0xfffff;
}

void
path_frame(uint16_t index, uint8_t *frame, uint32_t len, const struct wire_packet *packet)
{
	struct path_port *port;
	struct cm_path path;

	if (index >= path_num_ports)
		return;
	port = &path_port[index];
	if (packet == NULL) {
		neigh_input(control.neigh, index, frame, len, control.now);
		return;
	}
	/* Drop a frame whose source is an address of ours: MADs from ourselves are looped and never arrive at
	 * a port. */
	if (packet->qpn != 1 || packet->opcode != WIRE_UD_SEND_ONLY || packet->qkey != WIRE_QKEY_GSI ||
	    path_addr_number(port, &packet->dst) == 0 || path_own(&packet->src) != NULL)
		return;
	path = (struct cm_path){.port = index, .src = packet->dst, .dst = packet->src, .hop_limit = HOPS};
	take_marks(packet, &path);
	input_mad(port, &path, packet->payload, packet->payload_len);
}

void
paths_poll(void)
{
	path_links_poll();
	if (control.now >= refresh_at) {
		path_refresh();
		refresh_at = control.now + NS_PER_S;
	}
	/* Process the MADs queued now: the answers wait for the next loop. */
	for (uint32_t n = num_looped; n > 0; n--) {
		struct held_mad *held = TAILQ_FIRST(&looped);

		TAILQ_REMOVE(&looped, held, link);
		num_looped--;
		input_mad(held->port, &held->path, held->mad, CM_MAD_LEN);
		free(held);
	}
	for (uint32_t i = 0; i < path_num_ports; i++) {
		if (cm_deadline(path_port[i].cm) <= control.now)
			cm_timeout(path_port[i].cm, control.now);
		if (sidr_deadline(path_port[i].sidr) <= control.now)
			sidr_timeout(path_port[i].sidr, control.now);
	}
	if (neigh_deadline(control.neigh) <= control.now)
		neigh_timeout(control.neigh, control.now);
	path_moves_poll();
}

bool
paths_pending(void)
{
	return num_looped != 0 || path_moves_pending();
}

uint64_t
paths_deadline(void)
{
	uint64_t deadline = neigh_deadline(control.neigh);

	if (path_links_deadline() < deadline)
		deadline = path_links_deadline();
	for (uint32_t i = 0; i < path_num_ports; i++) {
		if (cm_deadline(path_port[i].cm) < deadline)
			deadline = cm_deadline(path_port[i].cm);
		if (sidr_deadline(path_port[i].sidr) < deadline)
			deadline = sidr_deadline(path_port[i].sidr);
	}
	return deadline;
}

/* ---- beginning and end ---- */

static void
env_send(struct cm_env *env, const struct cm_path *path, const uint8_t mad[CM_MAD_LEN])
{
	path_send_mad((struct path_port *)(void *)((char *)env - offsetof(struct path_port, env)), path, mad);
}

static void
env_silent(struct cm_env *env, const struct cm_path *path)
{
	neigh_suspect(control.neigh, path->port, &path->dst, control.now);
}

static void
sidr_env_silent(struct sidr_env *env, const struct cm_path *path)
{
	neigh_suspect(control.neigh, path->port, &path->dst, control.now);
}

static struct path_port *
port_of_sidr(struct sidr_env *env)
{
	return (struct path_port *)(void *)((char *)env - offsetof(struct path_port, sidr_env));
}

static void
sidr_env_send(struct sidr_env *env, const struct cm_path *path, const uint8_t mad[CM_MAD_LEN])
{
	path_send_mad(port_of_sidr(env), path, mad);
}

static bool
sidr_env_event(struct sidr_env *env, enum sidr_event_type type, struct sidr_query *query,
	       const struct sidr_remote *remote)
{
	return path_calls->sidr(port_of_sidr(env), type, query, remote);
}

static uint64_t
sidr_env_random(struct sidr_env *env)
{
	return control_random();
}

static uint64_t
env_random(struct cm_env *env)
{
	return control_random();
}

static void
env_frame(struct neigh_env *env, uint16_t port, const uint8_t *frame, uint32_t len)
{
	if (engine_send_frame(port, frame, len) != 0)
		log_debug("port %u: a frame could not be sent\n", port);
}

static void
env_changed(struct neigh_env *env, uint16_t port, const struct wire_addr *addr, const uint8_t mac[6])
{
	if (port < path_num_ports)
		path_hop_moved(&path_port[port], addr);
}

static bool
env_heard(struct neigh_env *env, uint16_t port, const struct wire_addr *addr, uint64_t ns)
{
	return port < path_num_ports && path_hop_heard(&path_port[port], addr, ns);
}

static void
env_conflict(struct neigh_env *env, uint16_t port, const struct wire_addr *addr, const uint8_t mac[6])
{
	const struct engine_port_info *info = path_port[port].info;

	log_warning(
		"event=address_conflict port=%s address=%s mac=%02x:%02x:%02x:%02x:%02x:%02x text=\"another host uses this address: frames for one may reach the other; change the address of one of them\"\n",
		info->name, addr_text(addr), mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
}

static uint32_t
env_lost(struct neigh_env *env)
{
	return engine_neigh_lost();
}

static void
env_too_big(struct neigh_env *env, uint16_t port, const struct wire_addr *dst, uint16_t udp_src_port,
	    uint32_t mtu)
{
	path_too_big(port, dst, udp_src_port, mtu);
}

bool
path_sends(const struct path_port *port, const struct wire_addr *dst, uint16_t udp_src_port)
{
	return path_calls->sends(port, dst, udp_src_port);
}

/* Returns the MAC as EUI-64: stable over restarts, since peers identify a device by its GUID. */
static uint64_t
guid_of(const uint8_t mac[6])
{
	const uint8_t bytes[8] = {mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};

	return load_be64(bytes);
}

static int
port_init(struct path_port *port, uint16_t index, const struct config *config)
{
	port->index = index;
	port->info = engine_port(index);
	port->link_up = false; /* so that the first poll announces our addresses */
	memcpy(port->mac, port->info->mac, sizeof(port->mac));
	port->mad_psn = (uint32_t)control_random() & 0xffffff;
	port->config = &config->port[index];
	port->env = (struct cm_env){
		.send = env_send,
		.event = path_calls->cm,
		.silent = env_silent,
		.random = env_random,
		.guid = guid_of(port->info->mac),
		.capabilities = WIRE_CAPABILITY_SELECTIVE_REPEAT | WIRE_CAPABILITY_STEERED |
				WIRE_CAPABILITY_PACKED |
				(config->idle != ONE_IDLE_SPIN ? WIRE_CAPABILITY_YIELDS : 0),
		.response_timeout = RESPONSE_TIMEOUT,
		.max_retries = MAX_RETRIES,
		.retry_interval = RETRY_NS,
		.max_half_open = PATH_REQUESTS_MAX,
	};
	port->sidr_env = (struct sidr_env){
		.send = sidr_env_send,
		.event = sidr_env_event,
		.silent = sidr_env_silent,
		.random = sidr_env_random,
		.retry_interval = RETRY_NS,
		.max_retries = SIDR_RETRIES,
		.max_requests = PATH_REQUESTS_MAX,
	};
	port->cm = cm_new(&port->env);
	port->sidr = sidr_new(&port->sidr_env);
	return port->cm == NULL || port->sidr == NULL ? -ENOMEM : 0;
}

/* Returns the port's address whose link has the router: queries for the router come from that address. */
static struct neigh_port *
addr_towards(const struct path_port *port, const struct config_addr *router, struct neigh_port *addrs)
{
	int bits, source = config_source(port->config, router, &bits);

	return &addrs[source < 0 ? 0 : source];
}

static void
fill_ways(const struct path_port *port, struct neigh_port *addrs)
{
	const struct config_port *config = port->config;

	for (uint32_t i = 0; i < CONFIG_GATEWAYS_MAX; i++) {
		struct neigh_port *addr = addr_towards(port, &config->gateway[i], addrs);

		if (config->gateway[i].family == 0)
			continue;
		addr->has_gateway = true;
		addr_to_wire(config->gateway[i].family, config->gateway[i].bytes, &addr->gateway);
	}
	for (uint32_t i = 0; i < CONFIG_ROUTES_MAX; i++) {
		const struct config_route *from = &config->route[i];
		struct neigh_port *addr = addr_towards(port, &from->via, addrs);
		struct neigh_route *route = &addr->route[addr->num_routes];

		if (from->net.family == 0)
			continue;
		addr_to_wire(from->net.family, from->net.bytes, &route->net);
		addr_to_wire(from->via.family, from->via.bytes, &route->via);
		route->prefix = from->net.prefix;
		addr->num_routes++;
	}
}

static void
fill_addrs(const struct path_port *port, struct neigh_port *addrs)
{
	for (uint32_t i = 0; i < port->info->num_addrs; i++) {
		addrs[i].port = port->index;
		memcpy(addrs[i].mac, port->info->mac, sizeof(addrs[i].mac));
		addrs[i].addr = port->info->addr[i];
		addrs[i].prefix = port->config->addr[i].prefix;
	}
	fill_ways(port, addrs);
}

int
paths_init(const struct config *config, const struct path_calls *calls, char *why, size_t why_len)
{
	struct neigh_port *addrs = calloc((size_t)CONFIG_PORTS_MAX * CONFIG_ADDRS_MAX, sizeof(*addrs));
	uint32_t n = engine_num_ports(), num_addrs = 0;
	int error = 0;

	memset(path_port, 0, sizeof(path_port));
	path_num_ports = 0;
	path_calls = calls;
	TAILQ_INIT(&looped);
	TAILQ_INIT(&unresolved);
	num_looped = num_unresolved = 0;
	if (addrs == NULL)
		error = -ENOMEM;
	for (uint32_t i = 0; i < n && i < CONFIG_PORTS_MAX && error == 0; i++) {
		struct path_port *port = &path_port[i];

		error = port_init(port, (uint16_t)i, config);
		if (error != 0)
			break;
		path_num_ports++;
		fill_addrs(port, &addrs[num_addrs]);
		num_addrs += port->info->num_addrs;
	}
	neigh_env = (struct neigh_env){
		.send = env_frame,
		.changed = env_changed,
		.heard = env_heard,
		.conflict = env_conflict,
		.lost = env_lost,
		.too_big = env_too_big,
	};
	if (error == 0)
		control.neigh = neigh_new(&neigh_env, addrs, (uint16_t)num_addrs);
	free(addrs);
	if (control.neigh == NULL) {
		paths_fini();
		return config_refuse(why, why_len, -ENOMEM,
				     "no memory for the ports' connection managers; free some");
	}
	refresh_at = control.now;
	path_links_open(calls->link);
	return 0;
}

void
paths_fini(void)
{
	struct held_mad *held;

	TAILQ_CONCAT(&looped, &unresolved, link);
	while ((held = TAILQ_FIRST(&looped)) != NULL) {
		TAILQ_REMOVE(&looped, held, link);
		free(held);
	}
	num_looped = num_unresolved = 0;
	path_links_close();
	for (uint32_t i = 0; i < path_num_ports; i++) {
		cm_free(path_port[i].cm);
		sidr_free(path_port[i].sidr);
	}
	path_num_ports = 0;
	path_mtus_forget();
	path_moves_fini();
	if (control.neigh != NULL)
		neigh_free(control.neigh);
	control.neigh = NULL;
}
