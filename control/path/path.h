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
	/* The next hop `hop` of `port` has another MAC now. */
	void (*moved)(const struct path_port *port, const struct wire_addr *hop, const uint8_t mac[6]);
	void (*link)(const struct path_port *port); /* it is up, or down, now */
};
int paths_init(const struct config *config, const struct path_calls *calls, char *why, size_t why_len);
void paths_fini(void);
void paths_poll(void);
uint64_t paths_deadline(void);
bool paths_pending(void);
void path_frame(uint16_t port, uint8_t *frame, uint32_t len, const struct wire_packet *packet);
struct path_port *path_own(const struct wire_addr *addr); /* the port of this data plane with that address */
/* Frames from `port` to `dst` go by way of `hop`. */
bool path_goes_by(const struct path_port *port, const struct wire_addr *dst, const struct wire_addr *hop);
struct path_port *path_port_by_name(const char *name);
void path_send_mad(struct path_port *port, const struct cm_path *path, const uint8_t mad[CM_MAD_LEN]);
/* The same, at once: to the MAC `mac` while the next hop's is not known better. */
void path_send_mad_known(struct path_port *port, const struct cm_path *path, const uint8_t mac[6],
			 const uint8_t mad[CM_MAD_LEN]);
void addr_to_wire(uint16_t family, const uint8_t bytes[16], struct wire_addr *out);
uint16_t addr_from_wire(const struct wire_addr *addr, uint8_t bytes[16]);
const char *addr_text(const struct wire_addr *addr); /* static buffer */

static inline uint64_t
mac_number(const uint8_t mac[6])
{
	uint64_t number = 0;

	for (int i = 0; i < 6; i++)
		number = number << 8 | mac[i];
	return number;
}

#endif
