/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration of a data plane: a file of sections and keys, overridden by
 * options of the same names.  Read at the start, and again by a reload (config_reload).
 *
 *   [dataplane]  node = 1, socket = /run/oneside/oneside.sock, idle = spin|yield|sleep, ...
 *   [port NAME]  device = net_memif0, address = 192.0.2.1/24 2001:db8::1/64, mtu = 4096, ...
 *   [peer N]     address = 192.0.2.2, port = NAME, secret_file = PATH, old_secret_file = PATH
 *   [ipsec NAME] address = 192.0.2.2, out = SPI:FILE, in = SPI:FILE, ...
 *   [user NAME]  weight = 2, max_ops = 100000, ...
 *   [limits]     max_qp = ..., ...
 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/message.h" /* struct one_limits, enum one_idle */
#include "config/address.h"
#include "config/peer.h"

#define CONFIG_PORTS_MAX 16u
#define CONFIG_ADDRS_MAX ONE_PORT_ADDRS_MAX /* per port */
#define CONFIG_GATEWAYS_MAX 2u              /* per port: one of each family */
#define CONFIG_ROUTES_MAX 16u               /* per port */
#define CONFIG_USERS_MAX 64u
#define CONFIG_WEIGHT_MAX 1000u
#define CONFIG_PATH_MAX 108u /* sun_path */
#define CONFIG_NO_GROUP ((gid_t)-1)
#define CONFIG_RNR_RETRY_ENDLESS 7u
#define CONFIG_ACK_TIMEOUT 19u /* 2.1 s */
#define CONFIG_ACK_TIMEOUT_MIN 14u
#define CONFIG_ACK_TIMEOUT_MAX 24u

struct config_port {
	char name[ONE_PORT_NAME]; /* applications' name for the port: the IA, the RSM controller */
	char device[64];          /* DPDK device name; "": ports in DPDK's order */
	/* Used entries come first; the others have family 0. The first is the primary address. */
	struct config_addr addr[CONFIG_ADDRS_MAX];
	struct config_addr gateway[CONFIG_GATEWAYS_MAX];
	struct config_route route[CONFIG_ROUTES_MAX];
	struct config_marks marks;
	uint16_t mtu;      /* Ethernet payload; 0: the device's */
	uint16_t path_mtu; /* 0: derived from the MTU */
	/* code for 4.096 us x 2^n, CONFIG_ACK_TIMEOUT_*; eight timeouts break a connection */
	uint8_t ack_timeout;
	/* limit on a uDAPL peer's SENDs that find no receive; CONFIG_RNR_RETRY_ENDLESS */
	uint8_t rnr_retry;
};

/* User's share of the cores. */
struct config_user {
	uid_t uid;
	uint32_t weight;             /* 1..CONFIG_WEIGHT_MAX */
	uint64_t max_ops, max_bytes; /* per second; 0: no rate limit */
	struct config_marks marks;
};

/* Listening address: "unix:PATH", "ADDRESS:PORT", "[ADDRESS]:PORT", or "off". */
struct config_listen {
	uint16_t family; /* AF_UNIX, AF_INET or AF_INET6; 0: off */
	uint16_t port;
	uint8_t addr[16]; /* network order; IPv4 in the first four */
	char path[CONFIG_PATH_MAX];
	char text[CONFIG_PATH_MAX + 8]; /* as configured */
};

/* On which polling core a queue pair is: control/objects/place.c. */
enum config_placement {
	CONFIG_PLACEMENT_AUTO,
	CONFIG_PLACEMENT_FIXED, /* as AUTO, but nothing moves by itself */
	CONFIG_PLACEMENT_ONE,   /* all queue pairs of an attachment on one core */
	CONFIG_PLACEMENT_NEXT   /* each queue pair on the next core */
};

struct config {
	uint32_t node; /* RSM node id; 0: RSM between nodes is off */
	char socket[CONFIG_PATH_MAX];
	mode_t socket_mode;
	char ctl[CONFIG_PATH_MAX]; /* control socket; "": next to `socket`, see config_ctl_path() */
	gid_t ctl_group;           /* may look; CONFIG_NO_GROUP: only root and the data plane's user */
	gid_t ctl_admin_group;     /* may look and change */
	uint32_t log_level;        /* RTE_LOG_* level of oneside's own messages; 0: EAL's */
	enum one_idle idle;
	struct config_listen metrics;
	struct config_port port[CONFIG_PORTS_MAX];
	uint32_t num_ports;
	struct config_peer peer[CONFIG_PEERS_MAX];
	uint32_t num_peers;
	struct config_ipsec ipsec[CONFIG_IPSEC_MAX];
	uint32_t num_ipsec;
	struct config_user
		user[CONFIG_USERS_MAX]; /* others have weight 1 and no rate limits: config_user_of() */
	uint32_t num_users;
	char state[CONFIG_PATH_MAX]; /* directory of persistent state: sequence numbers of keys */
	struct one_limits limits;    /* per attachment */
	uint32_t max_clients;
	uint32_t max_clients_per_uid;
	uint64_t max_bytes_per_uid; /* registered memory and arenas */
	uint32_t keepalive_ms;      /* silence after which the peer of an RSM import is lost */
	uint32_t work_pool;         /* work nodes per core */
	uint32_t mbufs;             /* per core and port */
	enum config_placement placement;
	/* access memory that cannot be adopted through the application's copy thread */
	bool process_memory;
};

void config_defaults(struct config *config);
/* Memory available to this process. `root`: "", or a test's copy of /proc and /sys. */
uint64_t config_memory(const char *root);
/* Is this process in a cgroup whose limits cannot be read, since no file system shows them? */
bool config_memory_hidden(const char *root);
/* Copies share the secrets. config_release() drops those of an initialised configuration. */
void config_copy(struct config *to, const struct config *from);
void config_release(struct config *config);

/* Each returns 0, or -errno with one sentence in `why` that names object, value and remedy ("port p0: address
 * 10.0.0.1/40: prefix is above 32; write address = 10.0.0.1/24"). */
int config_read(struct config *config, const char *path, char *why, size_t why_len);
int config_set(struct config *config, const char *section, const char *key, const char *value, char *why,
	       size_t why_len);
enum config_action {
	CONFIG_SERVE,
	CONFIG_TAKE_OVER,
	CONFIG_CHECK,
	CONFIG_PRECHECK,
	CONFIG_HELP,
	CONFIG_VERSION
};

/* Parses the options after `--`; *action is the last of --take-over, --check, --precheck, --help and
 * --version. */
int config_options(struct config *config, int argc, char **argv, enum config_action *action, char *why,
		   size_t why_len);

/* Does "--port" or "--port=..." belong after `--`? */
bool config_is_option(const char *arg);
/* Path of the control socket. False: too long for a Unix socket. */
bool config_ctl_path(const struct config *config, char path[CONFIG_PATH_MAX]);
/* Checks across sections: at least one port, unique names and addresses, peers reachable. */
int config_validate(const struct config *config, char *why, size_t why_len);
void config_usage(void *file);
/* Converts "notice" and so on to RTE_LOG_*; 0: no such level. */
uint32_t config_log_level(const char *name);
/* Bytes of 2 MiB hugepages that cgroups allow this process; UINT64_MAX: no limit. `root` as for
 * config_memory(). */
uint64_t config_huge_memory(const char *root);
#define CONFIG_LOG_LEVELS "emergency, alert, critical, error, warning, notice, info, debug"

/* Applies `next` to a running data plane's `config`. If anything fixed differs, returns -EBUSY with its name
 * in `why`, and changes nothing; else returns 0. `changed` receives the names of what changed. */
int config_reload(struct config *config, const struct config *next, char *changed, size_t changed_len,
		  char *why, size_t why_len);
/* Adds a peer without a secret. `port` "": any port that reaches the peer. The caller validates the whole. */
int config_peer_add(struct config *config, uint32_t node, const char *address, const char *port, char *why,
		    size_t why_len);
/* Removes the peer; -ENOENT and the remedy if there is none. */
int config_peer_remove(struct config *config, uint32_t node, char *why, size_t why_len);

/* False: `limit` is at its key's maximum, or no key ("") raises it. */
bool config_can_raise(const char *key, uint64_t limit);

/* User's section, or the defaults. */
struct config_user config_user_of(const struct config *config, uid_t uid);

#endif
