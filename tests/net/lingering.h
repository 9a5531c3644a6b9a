/* SPDX-License-Identifier: BSD-3-Clause */
/* A TCP connection with unread data: closing it blocks for a minute. */
#ifndef TESTS_NET_LINGERING_H
#define TESTS_NET_LINGERING_H

/* Returns -1 on failure. Closing the peer ends the delay. */
int lingering_open(int *peer);

#endif
