/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports as the control thread sees them: addresses, the way to a neighbour, management datagrams. */
#ifndef CONTROL_PATH_PATH_H
#define CONTROL_PATH_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "control/base/port_space.h"
#include "control/cm/cm.h"
#include "control/cm/sidr.h"
#include "control/loop/loop.h"
#include "control/neigh/neigh.h"
#include "dataplane/engine.h"
#include "dataplane/wire/bytes.h"

enum {
	PATH_LOOPED_MAX =
		65536, /* datagrams between queue pairs of this data plane, waiting for the next loop */
	PATH_UNRESOLVED_MAX = 512, /* waiting for a MAC */
	PATH_REQUESTS_MAX =
		4096 /* of others, half-open: of connections, and as many for service IDs; a port's */
};

struct path_port {
	uint16_t index;
	const struct engine_port_info *info;
	const struct config_port *config;
	struct cm *cm;
	struct cm_env env;
	struct sidr *sidr;
	struct sidr_env sidr_env;
	struct port_space tcp; /* with a listener */
	uint32_t mad_psn;
	bool link_up; /* as last seen */
	bool narrow;  /* the interface's MTU is less than the port's */
	uint8_t mac[6];
};
extern struct path_port path_port[CONFIG_PORTS_MAX];
extern uint32_t path_num_ports;

/* What the rooms above want to hear of. */
struct path_calls {
	void (*cm)(struct cm_env *env, const struct cm_event *event);
	bool (*sidr)(struct path_port *port, enum sidr_event_type type, struct sidr_query *query,
		     const struct sidr_remote *remote);
	/* A datagram that is not the connection manager's: true when it was theirs. */
	bool (*mad)(struct path_port *port, const struct cm_path *reply_path, const uint8_t *mad);
	void (*link)(const struct path_port *port); /* it is up, or down, now */
	/* Does an open connection send to `dst` from that UDP port? */
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
/* The same, at once: to the MAC `mac` while the next hop's is not known better. */
void path_send_mad_known(struct path_port *port, const struct cm_path *path, const uint8_t mac[6],
			 const uint8_t mad[CM_MAD_LEN]);
void addr_to_wire(uint16_t family, const uint8_t bytes[16], struct wire_addr *out);
uint16_t addr_from_wire(const struct wire_addr *addr, uint8_t bytes[16]);
const char *addr_text(const struct wire_addr *addr); /* static buffer */

/* ---- links.c ---- */
void path_links_open(void (*changed)(const struct path_port *port));
void path_links_close(void);
void path_links_poll(void);
uint64_t path_links_deadline(void);

/* ---- pmtu.c ---- */
/* The path MTU that a connection to `dst` may have. */
uint16_t path_mtu_to(const struct path_port *port, const struct wire_addr *dst);
/* The largest multiple of 64 that packets to a oneside end may carry; path_mtu_to() where the configuration
 * says what that is. */
uint16_t path_link_mtu_to(const struct path_port *port, const struct wire_addr *dst);
/* A router reports that a packet was longer than `mtu` bytes. */
void path_too_big(uint16_t index, const struct wire_addr *dst, uint16_t udp_src_port, uint32_t mtu);
void path_mtus_forget(void);
extern uint64_t path_mtu_reports; /* so far */
/* Within this room. */
bool path_sends(const struct path_port *port, const struct wire_addr *dst, uint16_t udp_src_port);
/* ---- source.c ---- */

/* The port of this data plane that has the address; NULL: it is not ours. */
struct path_port *path_own(const struct wire_addr *addr);
/* The place of an address among the port's own, counted from 1; 0: it is not the port's. */
uint32_t path_addr_number(const struct path_port *port, const struct wire_addr *addr);
/* The port's own address from which packets to `dst` go: that of the number, or, with 0, the one that the way
 * to `dst` asks for.  0, -EINVAL: no such number, or -EAFNOSUPPORT. */
int path_source(const struct path_port *port, uint32_t number, const struct wire_addr *dst,
		struct wire_addr *src);

/* ---- moves.c ---- */

/* Something with frames to an address, in the memory of whoever it is; all zero: not watched. */
struct path_user {
	LIST_ENTRY(path_user) link;
	const struct path_port *port; /* NULL: it is not watched */
	const struct wire_addr *dst;
	void (*moved)(struct path_user *user, const uint8_t mac[6]); /* the next hop's; may be as before */
	void (*renamed)(struct path_user *user); /* the port has another MAC than the user was told of */
	uint8_t own_mac[6];                      /* path_watch() and `renamed` told the user of */
	/* The next hop was heard in the last `ns` from the MAC that is used; NULL: no answers come, as for
	 * datagrams, and the neighbour is asked now and then. */
	bool (*heard)(const struct path_user *user, uint64_t ns);
};
/* `moved` is called, by paths_poll(), when the next hop on the way to `dst`, which stays where it is, has
 * another MAC than it had. */
void path_watch(struct path_user *user, const struct path_port *port, const struct wire_addr *dst);
void path_unwatch(struct path_user *user);
/* Frames to the user's `dst` are not answered: its next hop is asked anew, and its MAC used if that differs.
 */
void path_suspect(struct path_user *user);
/* Within this room. */
void path_hop_moved(const struct path_port *port, const struct wire_addr *hop);
void path_port_renamed(void); /* path_port.mac of a port has changed */
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
