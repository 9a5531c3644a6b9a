/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between the two processes of a take-over, on a connection of the control socket. */
#ifndef CONTROL_TAKEOVER_WIRE_H
#define CONTROL_TAKEOVER_WIRE_H

#include <sys/socket.h>

#include "control/takeover/takeover.h"
#include "dataplane/mem/slab.h"
#include "dataplane/wire/wire.h"

#define TAKEOVER_MAGIC 0x6f6e6574u
#define TAKEOVER_FDS 200u /* in one message; the kernel takes 253 */
#define TAKEOVER_FDS_MAX (1u << 20)
#define TAKEOVER_SIZES 64u /* of objects */

enum takeover_kind {
	TAKEOVER_OFFER = 1, /* old: what must be equal */
	TAKEOVER_BEGIN,     /* new: stop */
	TAKEOVER_BATCH,     /* old: descriptors */
	TAKEOVER_STATE,     /* old: the sealed file, after all descriptors; it has stopped */
	TAKEOVER_COMMIT,    /* new: it has read everything, and its cores respond */
	TAKEOVER_BYE,       /* old: it ends */
	TAKEOVER_REFUSED    /* either: a sentence; the old process goes on */
};

struct takeover_message {
	uint32_t magic, kind;
	/* BEGIN: 1 if the new one has opened its ports; BATCH: descriptors; STATE: all before; BYE: 1 if a
	 * reload is due */
	uint32_t count;
	char text[300];
};

struct takeover_port {
	char name[ONE_PORT_NAME];
	uint32_t mtu, path_mtu, num_addrs, link_reported;
	struct wire_addr addr[CONFIG_ADDRS_MAX];
};

struct takeover_offer {
	uint32_t magic, kind;
	uint32_t version, node, num_ports, room;
	uint32_t physical; /* devices of the old process use physical addresses */
	struct takeover_port port[CONFIG_PORTS_MAX];
	uint32_t num_sizes;
	struct slab_use size[TAKEOVER_SIZES]; /* a hint: objects that will come */
};

/* Returns a pidfd of the process at the other end; -1: it is of another pid namespace, or has ended.  `cred`:
 * of that process, with pid 0 in another pid namespace. */
int takeover_peer(int socket, struct ucred *cred);
/* Waits for poll()'s events.  Returns 0 or -errno. */
int takeover_wait(int fd, short what, uint64_t deadline);
/* Sends a message with `num` descriptors, waiting until `deadline`.  Returns 0 or -errno. */
int takeover_send(int socket, const void *message, size_t size, const int *fds, uint32_t num,
		  uint64_t deadline);
int takeover_say(int socket, enum takeover_kind kind, uint32_t count, const int *fds, uint32_t num,
		 uint64_t deadline);
void takeover_refuse(int socket, const char *text);
/* Receives a message into `to`, and up to TAKEOVER_FDS descriptors, which the caller then owns.  Returns its
 * size; -EPIPE: the other process has closed the connection; -ETIMEDOUT; or -errno. */
int takeover_receive_into(int socket, void *to, size_t size, int *fds, uint32_t *num, uint64_t deadline);
/* Receives a struct takeover_message without descriptors.  Returns its kind or -errno. */
int takeover_hear(int socket, struct takeover_message *message, uint64_t deadline);

#endif
