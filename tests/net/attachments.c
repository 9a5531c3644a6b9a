/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Holds two attachments with queue pairs of each, for tests that query the data plane about them:
 *
 *   net-attachments SOCKET FIRST SECOND
 *
 * The attachments get FIRST and SECOND queue pairs, and one registered region each. The program prints a line
 * when they exist, and ends with its standard input.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/client.h"

static void
must(int error, const char *what)
{
	if (error == 0)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-error));
	exit(1);
}

static struct one_reply
call(struct one_client *client, struct one_msg msg, const int *fd, const char *what)
{
	struct one_reply reply;

	must(one_call(client, &msg, fd, fd != NULL, &reply), what);
	return reply;
}

static void
attachment(const char *socket, int num_qps)
{
	struct one_attach attach = {.socket = socket, .kind = ONE_KIND_DAT};
	struct one_qp_create create = {.max_send_wr = 4, .max_send_sge = 1};
	int fd = memfd_create("region", MFD_CLOEXEC);
	struct one_client *client;
	struct one_cq cq;
	struct one_qp qp;
	uint32_t region;

	must(one_attach(&attach, &client), "one_attach");
	must(one_cq_create(client, 16, &cq), "one_cq_create");
	create.pz = call(client, (struct one_msg){.type = ONE_MSG_PZ_CREATE}, NULL, "PZ_CREATE").id.id;
	create.send_cq = create.conn_cq = cq.id;
	for (int i = 0; i < num_qps; i++)
		must(one_qp_create(client, &create, &qp), "one_qp_create");
	must(fd < 0 || posix_fallocate(fd, 0, 4096) != 0 ? -1 : 0,
	     "memfd"); /* the region is of the application's own file: its owner populates it */
	region = call(client, (struct one_msg){.type = ONE_MSG_REGION_ADD, .region_add = {.size = 4096}}, &fd,
		      "REGION_ADD")
			 .id.id;
	call(client,
	     (struct one_msg){.type = ONE_MSG_MR_CREATE,
			      .mr_create = {.pz = create.pz,
					    .access = ONE_ACCESS_ALL,
					    .va = 4096,
					    .length = 4096,
					    .num_pieces = 1,
					    .piece = {{.region = region, .length = 4096}}}},
	     NULL, "MR_CREATE");
}

int
main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	attachment(argv[1], atoi(argv[2]));
	attachment(argv[1], atoi(argv[3]));
	printf("ready\n");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
