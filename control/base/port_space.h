/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP port numbers with a listener. A free port is found in at most PORT_SPACE_WORDS steps. */
#ifndef CONTROL_PORT_SPACE_H
#define CONTROL_PORT_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#define PORT_SPACE 65536u
#define PORT_SPACE_ANY 1024u /* lowest port returned by port_space_take_any() */
/* Linux's default ephemeral range. port_space_take_any() prefers it, to leave the other ports to services. */
#define PORT_SPACE_EPHEMERAL 32768u
#define PORT_SPACE_EPHEMERALS 28232u
#define PORT_SPACE_WORDS (PORT_SPACE / 64)

struct port_space {
	uint64_t used[PORT_SPACE_WORDS];
	uint32_t next; /* offset in the ephemeral range where the next search begins */
};

bool port_space_take(struct port_space *space, uint16_t port); /* false: in use */
uint16_t port_space_take_any(struct port_space *space);        /* 0: all in use */
void port_space_give(struct port_space *space, uint16_t port);

#endif
