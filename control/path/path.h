/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports as the control thread sees them: addresses, paths to neighbours, management datagrams. */
#ifndef CONTROL_PATH_PATH_H
#define CONTROL_PATH_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "control/base/port_space.h"
#include "control/cm/cm.h"
#include "control/cm/sidr.h"
#include "control/base/loop.h"
#include "control/neigh/neigh.h"
#include "dataplane/engine.h"
#include "dataplane/wire/bytes.h"

enum {
	PATH_LOOPED_MAX =
		65536, /* datagrams between queue pairs of this data plane, waiting for the next loop */
	PATH_UNRESOLVED_MAX = 512, /* datagrams waiting for a MAC */
	PATH_REQUESTS_MAX =
		4096 /* per port: half-open connection requests of peers, and as many service ID queries */
};

struct path_port {
	uint16_t index;
	const struct engine_port_info *info;
	const struct config_port *config;
	struct cm *cm;
	struct cm_env env;
	struct sidr *sidr;
	struct sidr_env sidr_env;
	struct port_space tcp; /* ports with a listener */
	uint32_t mad_psn;
	bool link_up;       /* at the last poll */
	bool link_reported; /* state last reported to programs, perhaps by the data plane before this one */
	bool narrow;        /* the interface's MTU is less than the port's */
	uint8_t mac[6];
	uint64_t link_changed_at;
};
extern struct path_port path_port[CONFIG_PORTS_MAX];
extern uint32_t path_num_ports;

/* Callbacks into the rooms above. */
struct path_calls {
	void (*cm)(struct cm_env *env, const struct cm_event *event);
	bool (*sidr)(struct path_port *port, enum sidr_event_type type, struct sidr_query *query,
		     const struct sidr_remote *remote);
	/* Called for each MAD before SIDR and the CM.  True if the MAD was consumed. */
	bool (*mad)(struct path_port *port, const struct cm_path *reply_path, const uint8_t *mad);
	/* The link is up, or has been down for a while.  `link_reported` is the state reported before. */
	void (*link)(const struct path_port *port);
	/* True if an open connection sends to `dst` from that UDP port. */
	bool (*sends)(const struct path_port *port, const struct wire_addr *dst, uint16_t udp_src_port);
};
int paths_init(const struct config *config, const struct path_calls *calls, char *why, size_t why_len);
void paths_fini(void);
void paths_poll(void);
uint64_t paths_deadline(void);
bool paths_pending(void);
void path_frame(uint16_t port, uint8_t *frame, uint32_t len, const struct wire_packet *packet);
struct path_port *path_port_by_name(const char *name);
void path_send_mad(struct path_port *port, const struct cm_path *path, const uint8_t mad[CM_MAD_LEN]);
/* Sends a MAD at once: to the next hop's MAC if known, else to `mac`. */
void path_send_mad_known(struct path_port *port, const struct cm_path *path, const uint8_t mac[6],
			 const uint8_t mad[CM_MAD_LEN]);
void addr_to_wire(uint16_t family, const uint8_t bytes[16], struct wire_addr *out);
uint16_t addr_from_wire(const struct wire_addr *addr, uint8_t bytes[16]);
const char *addr_text(const struct wire_addr *addr); /* static buffer */

/* ---- links.c ---- */
void path_links_open(void (*changed)(const struct path_port *port));
void path_links_close(void);
/* After a take-over: sets the state that the old data plane has reported to programs. */
void path_link_inherit(struct path_port *port, bool up);
/* Looks at the links often for a while: one was lost, and may be up again soon. */
void path_links_watch(void);
void path_links_poll(void);
uint64_t path_links_deadline(void);

/* ---- pmtu.c ---- */
/* Returns the largest path MTU for a connection to `dst`. */
uint16_t path_mtu_to(const struct path_port *port, const struct wire_addr *dst);
/* Returns the largest payload of packets to a oneside peer, a multiple of 64; path_mtu_to() if the
 * configuration sets path_mtu. */
uint16_t path_link_mtu_to(const struct path_port *port, const struct wire_addr *dst);
/* Processes a router's report that a packet had more than `mtu` bytes. */
void path_too_big(uint16_t index, const struct wire_addr *dst, uint16_t udp_src_port, uint32_t mtu);
/* Call when a packet with `payload` bytes was lost at each retry, and the peer answers short messages. */
void path_loses(const struct path_port *port, const struct wire_addr *dst, uint32_t payload);
void path_mtus_forget(void);
extern uint64_t path_mtu_reports; /* number of reports accepted */
/* For this room only. */
bool path_sends(const struct path_port *port, const struct wire_addr *dst, uint16_t udp_src_port);
/* ---- source.c ---- */

/* Returns the port of this data plane that has the address, or NULL. */
struct path_port *path_own(const struct wire_addr *addr);
/* Returns the number of an address among the port's own, from 1; 0 if the address is not the port's. */
uint32_t path_addr_number(const struct path_port *port, const struct wire_addr *addr);
/* Selects the port's source address for packets to `dst`: the address with this number, or, with 0, the one
 * that the path to `dst` needs.  Returns 0, -EINVAL for an invalid number, or -EAFNOSUPPORT. */
int path_source(const struct path_port *port, uint32_t number, const struct wire_addr *dst,
		struct wire_addr *src);

/* ---- moves.c ---- */

/* A sender of frames to an address, embedded in the sender's own structure.  All zero: not watched. */
struct path_user {
	LIST_ENTRY(path_user) link;
	const struct path_port *port; /* NULL: not watched */
	const struct wire_addr *dst;
	void (*moved)(struct path_user *user, const uint8_t mac[6]); /* the next hop's; maybe unchanged */
	void (*renamed)(struct path_user *user); /* the port's MAC changed: own_mac is the new one */
	uint8_t own_mac[6];                      /* the port's MAC, as last reported to the user */
	/* True if the next hop's MAC in use was heard in the last `ns`.  NULL for datagrams, which get no
	 * answers: path_refresh() resolves their next hops regularly. */
	bool (*heard)(const struct path_user *user, uint64_t ns);
};
/* Makes paths_poll() call `moved` when the next hop to `dst` has a new MAC.  `dst` must stay valid while
 * watched. */
void path_watch(struct path_user *user, const struct path_port *port, const struct wire_addr *dst);
void path_unwatch(struct path_user *user);
/* Call when frames to the user's `dst` get no answer: queries the next hop again, and uses a MAC that
 * differs.
 */
void path_suspect(struct path_user *user);
/* For this room only. */
void path_hop_moved(const struct path_port *port, const struct wire_addr *hop);
void path_port_renamed(void); /* call after path_port.mac of a port has changed */
bool path_hop_heard(const struct path_port *port, const struct wire_addr *hop, uint64_t ns);
void path_refresh(void); /* once a second */
void path_moves_poll(void);
bool path_moves_pending(void);
void path_moves_fini(void);

static inline uint64_t
mac_number(const uint8_t mac[6])
{
	return (uint64_t)load_be24(mac) << 24 | load_be24(mac + 3);
}

#endif
