/* SPDX-License-Identifier: BSD-3-Clause */
/* The listening socket of metrics. */
#ifndef CONTROL_METRICS_OPEN_H
#define CONTROL_METRICS_OPEN_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/un.h>

struct config_listen;

struct metrics_address {
	struct sockaddr_un path; /* of the Unix socket that is ours, */
	ino_t inode;             /* as long as this is its; 0: none */
};

/* A socket that listens and does not block; -errno, with a sentence in `why`. */
int metrics_open(const struct config_listen *where, struct metrics_address *address, char *why,
		 size_t why_len);
void metrics_close(int fd, struct metrics_address *address);

#endif
