/* SPDX-License-Identifier: BSD-3-Clause */
/* The TCP port numbers with a listener: a free one is found in PORT_SPACE_WORDS steps at most. */
#ifndef CONTROL_PORT_SPACE_H
#define CONTROL_PORT_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#define PORT_SPACE 65536u
#define PORT_SPACE_ANY 1024u /* requests for any port get none below */
/* Linux's default range of ephemeral ports, which requests for any port get first: services have the others.
 */
#define PORT_SPACE_EPHEMERAL 32768u
#define PORT_SPACE_EPHEMERALS 28232u
#define PORT_SPACE_WORDS (PORT_SPACE / 64)

struct port_space {
	uint64_t used[PORT_SPACE_WORDS];
	uint32_t next; /* offset in the ephemeral range where the next search begins */
};

bool port_space_take(struct port_space *space, uint16_t port); /* false: it is in use */
uint16_t port_space_take_any(struct port_space *space);        /* 0: all are */
void port_space_give(struct port_space *space, uint16_t port);

#endif
