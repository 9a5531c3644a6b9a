/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps a uDAPL connection until standard input ends, for tests that query the data plane about it.
 *
 *   net-dat-connected CLIENT_SOCKET SERVER_SOCKET
 *
 * The program prints "ready" when connected. For each line of standard input the client requests one more
 * connection and prints what dat_ep_connect() returns. For a line that begins with "w" it writes to the
 * server's buffer instead, and prints "written" when the write is complete.
 */
#include <stdio.h>

#include "dat_pair.h"

static void
server(struct pair *pair)
{
	struct dat_buffer buffer;
	struct dat_side side;

	dat_side_start(&side, pair, true, &buffer, 65536);
	dat_buffer_offer(&side, &buffer);
	pair_barrier(pair);
	dat_buffer_free(&side, &buffer);
	dat_side_close(&side);
}

static void
one_more(struct dat_side *side)
{
	DAT_EP_HANDLE ep = dat_side_ep(side);
	const char *major = "?", *minor = "?";
	DAT_RETURN ret = dat_ep_connect(ep, (DAT_IA_ADDRESS_PTR)&side->address, side->qual, 10000000, 0, NULL,
					DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);

	dat_strerror(ret, &major, &minor);
	printf("%s\n", major);
	fflush(stdout);
	dat_ep_free(ep);
}

static void
write_once(struct dat_side *side, const struct dat_buffer *buffer, const struct dat_remote *remote)
{
	DAT_CHECK(side, dat_write(side->ep, buffer, 0, 8, 1, remote, 0, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(side, side->request, 1, DAT_DTO_SUCCESS, 8);
	printf("written\n");
	fflush(stdout);
}

static void
client(struct pair *pair)
{
	struct dat_buffer buffer;
	struct dat_remote remote;
	struct dat_side side;
	char line[64];

	dat_side_start(&side, pair, false, &buffer, 65536);
	dat_remote_take(&side, &remote);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		if (line[0] == 'w')
			write_once(&side, &buffer, &remote);
		else
			one_more(&side);
	}
	pair_barrier(pair);
	dat_buffer_free(&side, &buffer);
	dat_side_close(&side);
}

int
main(int argc, char **argv)
{
	static const struct pair_case cases[] = {{"connected", server, client, false}};

	return pair_main(argc, argv, cases, 1);
}
