/* SPDX-License-Identifier: BSD-3-Clause */
/* Other hosts in the configuration: RSM nodes, and IPsec ESP peers. */
#ifndef CONFIG_PEER_H
#define CONFIG_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/message.h" /* ONE_PORT_NAME */
#include "config/address.h"

#define CONFIG_PEERS_MAX 64u
#define CONFIG_PEER_SECRETS 2u
#define CONFIG_IPSEC_MAX 64u

/* Marks in the IP headers of connections, unless the application sets its own. */
struct config_marks {
	uint32_t flow_label; /* 20 bits, or CONFIG_NO_FLOW_LABEL */
	uint8_t dscp;        /* 6 bits, or CONFIG_NO_DSCP */
};
#define CONFIG_NO_DSCP UINT8_MAX
#define CONFIG_NO_FLOW_LABEL UINT32_MAX
#define CONFIG_NO_MARKS ((struct config_marks){CONFIG_NO_FLOW_LABEL, CONFIG_NO_DSCP})

struct config_secret; /* secret.h */

struct config_peer {
	uint32_t node; /* 1..63 */
	char port[ONE_PORT_NAME];
	struct config_addr addr;
	struct config_marks marks;
	bool added; /* by config_peer_add(): no file or option has it */
	/* the first is sent, both are accepted; NULL: none */
	struct config_secret *secret[CONFIG_PEER_SECRETS];
};

/* ESP security association; a file holds its key. */
struct config_sa {
	uint32_t spi; /* 0: none */
	char file[192];
};

struct config_ipsec {
	char name[ONE_PORT_NAME];
	struct config_addr addr;  /* of the peer */
	char port[ONE_PORT_NAME]; /* "": whichever port reaches the peer */
	bool plain;               /* policy: also send and accept plain traffic */
	struct config_sa out, in, in_next;
	uint64_t soft_packets, soft_bytes, hard_packets, hard_bytes; /* limits per key; 0: none */
};

#endif
