/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A TCP connection with data that nobody takes: closing it waits for a minute.
 */
#ifndef TESTS_NET_LINGERING_H
#define TESTS_NET_LINGERING_H

/* -1: there is none.  It waits no more when the peer is closed. */
int lingering_open(int *peer);

#endif
