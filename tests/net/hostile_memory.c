/* SPDX-License-Identifier: BSD-3-Clause */
/* Registrations that would make the data plane allocate memory which the application does not have. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostile.h"
#include "stuck_file.h"

static uint32_t
pz_create(struct victim *v)
{
	struct one_reply reply;
	struct one_msg msg;

	memset(&msg, 0, sizeof(msg));
	msg.type = ONE_MSG_PZ_CREATE;
	must(one_call(v->client, &msg, NULL, 0, &reply) == 0, "ONE_MSG_PZ_CREATE");
	return reply.id.id;
}

/* Large sparse memory: the data plane must not allocate its pages by touching them. */
void
sparse(void)
{
	const uint64_t size = 64ull << 30;
	int fd = (int)syscall(SYS_memfd_create, "sparse", MFD_CLOEXEC);
	struct one_reply reply;
	struct one_msg msg;
	struct victim v;
	struct stat st;

	must(fd >= 0 && ftruncate(fd, (off_t)size) == 0, "memfd");
	victim_open(&v);
	for (uint64_t part = size; part >= 1 << 20; part /= 2) {
		memset(&msg, 0, sizeof(msg));
		msg.type = ONE_MSG_REGION_ADD;
		msg.region_add.size = part;
		if (one_call(v.client, &msg, &fd, 1, &reply) != 0)
			continue;
		memset(&msg, 0, sizeof(msg));
		msg.type = ONE_MSG_MR_CREATE;
		msg.mr_create.pz = pz_create(&v);
		msg.mr_create.access = ONE_ACCESS_ALL;
		msg.mr_create.length = part;
		msg.mr_create.num_pieces = 1;
		msg.mr_create.piece[0] = (struct one_mr_piece){.region = reply.id.id, .length = part};
		must(one_call(v.client, &msg, NULL, 0, &reply) == -EFAULT &&
			     reply.subject == ONE_SUBJECT_ADDRESS && reply.value == 0,
		     "holes were registered");
	}
	must(fstat(fd, &st) == 0 && st.st_blocks == 0, "the data plane has allocated pages");
	close(fd);
	one_detach(v.client);
}

/* A range of one byte with pieces of many gigabytes. */
void
pieces(void)
{
	int fd = (int)syscall(SYS_memfd_create, "pieces", MFD_CLOEXEC);
	struct one_reply reply;
	struct one_msg msg;
	struct victim v;

	must(fd >= 0 && ftruncate(fd, 8 << 20) == 0, "memfd");
	victim_open(&v);
	memset(&msg, 0, sizeof(msg));
	msg.type = ONE_MSG_REGION_ADD;
	msg.region_add.size = 8 << 20;
	must(one_call(v.client, &msg, &fd, 1, &reply) == 0, "ONE_MSG_REGION_ADD");
	memset(&msg, 0, sizeof(msg));
	msg.type = ONE_MSG_MR_CREATE;
	msg.mr_create.pz = pz_create(&v);
	msg.mr_create.length = 1;
	msg.mr_create.num_pieces = ONE_MR_PIECES;
	for (uint32_t i = 0; i < ONE_MR_PIECES; i++)
		msg.mr_create.piece[i] = (struct one_mr_piece){.region = reply.id.id, .length = 8 << 20};
	must(one_call(v.client, &msg, NULL, 0, &reply) == -EINVAL && reply.subject == ONE_SUBJECT_LENGTH,
	     "more was mapped than the range needs");
	close(fd);
	one_detach(v.client);
}

/*
 * An application writes to its arena from memory that does not answer, and so holds a lock of the file.
 * When the data plane frees pages of that arena, no other application waits, and freeing completes after
 * the write.
 */
void
holds_its_arena(void)
{
	struct one_msg create, destroy;
	struct stuck_file file;
	struct one_reply reply;
	void *never;
	int fd, arena;
	pid_t writer;

	if (!stuck_file_open(&file, 1 << 20)) {
		printf("  left out: this user cannot mount\n");
		return;
	}
	never = mmap(NULL, 1 << 20, PROT_READ, MAP_SHARED, file.fd, 0);
	fd = raw_connect();
	arena = raw_attach(fd);
	must(never != MAP_FAILED && arena >= 0, "attach");
	memset(&create, 0, sizeof(create));
	create.type = ONE_MSG_CQ_CREATE;
	create.cq_create.entries = 16384;
	must(raw_call(fd, &create, &reply) == 0, "ONE_MSG_CQ_CREATE");
	writer = fork();
	if (writer == 0)
		_exit(pwrite(arena, never, 4096, 0) == 4096 ? 0 : 1);
	/* Time for the child to enter its write. If it does not, the case proves less, but passes. */
	usleep(200000);
	memset(&destroy, 0, sizeof(destroy));
	destroy.type = ONE_MSG_CQ_FREE;
	destroy.id.id = reply.cq.cq;
	must(raw_call(fd, &destroy, &reply) == 0, "ONE_MSG_CQ_FREE");
	must(healthy(), "others wait");
	must(raw_call(fd, &create, &reply) == 0, "its own next request");
	must(waitpid(writer, NULL, WNOHANG) == 0, "the write did not wait");
	kill(writer, SIGKILL);
	stuck_file_close(&file);
	waitpid(writer, NULL, 0);
	for (int i = 0; i < 200; i++) { /* repeat until the freed entries have been reused */
		destroy.id.id = reply.cq.cq;
		must(raw_call(fd, &destroy, &reply) == 0, "ONE_MSG_CQ_FREE afterwards");
		must(raw_call(fd, &create, &reply) == 0, "ONE_MSG_CQ_CREATE afterwards");
	}
	close(arena);
	close(fd);
}
