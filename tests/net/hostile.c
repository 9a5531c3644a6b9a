/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Applications that break every rule they can, against a running data plane: malformed messages, descriptors
 * by the dozen, rings and arena full of random bytes, memory that is withdrawn. After each case an honest
 * application must be served.
 *
 *   net-hostile SOCKET [SEED [CASE]]
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hostile.h"
#include "client/client.h"
#include "lingering.h"
#include "stuck_file.h"

const char *socket_path;
static uint64_t random_state;

static uint64_t
random64(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

void
must(bool condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "  %s: %s\n", what, strerror(errno));
		_exit(1);
	}
}

static void
wrong_sizes(void)
{
	static const size_t sizes[] = {1, 4, 8, 255, 1023, 1025, 4096};
	uint8_t bytes[4096];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct one_msg msg = hello();
		int fd = raw_connect();

		memset(bytes, 0, sizeof(bytes));
		memcpy(bytes, &msg, sizes[i] < sizeof(msg) ? sizes[i] : sizeof(msg));
		raw_send(fd, bytes, sizes[i], NULL, 0);
		answer_or_end(fd);
	}
}

static void
wrong_hello(void)
{
	struct one_msg msg;
	int fd;

	for (int k = 0; k < 6; k++) {
		msg = hello();
		switch (k) {
		case 0:
			msg.hello.magic ^= 1;
			break;
		case 1:
			msg.hello.version++;
			break;
		case 2:
			msg.hello.kind = 77;
			break;
		case 3:
			memset(msg.hello.port, 'x', sizeof(msg.hello.port)); /* not terminated */
			break;
		case 4:
			msg.type = ONE_MSG_QP_CREATE; /* a request before HELLO */
			break;
		default:
			msg.type = 0xffffffff;
			break;
		}
		fd = raw_connect();
		raw_send(fd, &msg, sizeof(msg), NULL, 0);
		answer_or_end(fd);
	}
}

/* Sends descriptors with messages that take none, and more than the data plane accepts. */
static void
descriptors(void)
{
	static const uint32_t counts[] = {1, 8, 9, 100, 253};
	int fds[253], null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (uint32_t i = 0; i < 253; i++)
		fds[i] = null;
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		for (int round = 0; round < 50; round++) {
			struct one_msg msg = hello();
			int fd = raw_connect();

			raw_send(fd, &msg, sizeof(msg), fds, counts[i]);
			answer_or_end(fd);
		}
	}
	close(null);
}

static int lingering_peer[32];
static uint32_t num_lingering;

static void
close_peers(void)
{
	while (num_lingering > 0)
		close(lingering_peer[--num_lingering]);
}

/*
 * Sends one message with `num` descriptors that are slow to close. Those not sent are closed here, without
 * the delay.
 */
static void
send_lingering(int fd, const struct one_msg *msg, uint32_t num)
{
	int fds[12] = {0}, peers[12];
	bool sent;

	for (uint32_t k = 0; k < num; k++)
		must((fds[k] = lingering_open(&peers[k])) >= 0, "a connection");
	sent = raw_send(fd, msg, sizeof(*msg), fds, num);
	for (uint32_t k = 0; k < num; k++) {
		if (!sent)
			setsockopt(fds[k], SOL_SOCKET, SO_LINGER, &(struct linger){0}, sizeof(struct linger));
		close(fds[k]);
		lingering_peer[num_lingering++] = peers[k];
	}
}

/* Descriptors that are slow to close, in three states: accepted, refused as too many, and never read. */
static void
slow_to_close(void)
{
	static const uint32_t counts[] = {1, 12, 12};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct one_msg msg = hello();
		int fd = raw_connect();

		if (i == 2)
			raw_send(fd, &msg, 3, NULL, 0); /* the next message stays unread */
		send_lingering(fd, &msg, counts[i]);
		answer_or_end(fd);
		must(healthy(), "the data plane waits");
		close_peers();
	}
}

static bool
served(void)
{
	struct one_msg msg = hello();
	int fd = raw_connect();

	raw_send(fd, &msg, sizeof(msg), NULL, 0);
	return answer_or_end(fd);
}

/* Slow descriptors on connections that are refused because there are too many. */
static void
turned_away(void)
{
	struct one_msg msg = hello();
	int fd[200];

	for (uint32_t i = 0; i < 200; i++) {
		fd[i] = raw_connect();
		if (i >= 190)
			send_lingering(fd[i], &msg, 2);
	}
	for (uint32_t i = 0; i < 200; i++)
		close(fd[i]);
	/*
	 * The data plane hangs up at once until it has noticed the closed connections and freed their
	 * places.
	 */
	while (!served())
		usleep(10000);
	must(healthy(), "the data plane waits");
	close_peers();
}

/* Counts the descriptors that the data plane has open. */
static uint32_t
descriptors_of_plane(void)
{
	const struct dirent *entry;
	struct ucred cred;
	socklen_t len = sizeof(cred);
	char path[64];
	uint32_t n = 0;
	int fd = raw_connect();
	DIR *dir;

	must(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0, "SO_PEERCRED");
	close(fd);
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)cred.pid);
	dir = opendir(path);
	must(dir != NULL, path);
	while ((entry = readdir(dir)) != NULL)
		n++;
	closedir(dir);
	return n;
}

/* Waits until the data plane has closed the descriptors of closed connections. */
static void
keeps_no_more_than(uint32_t most)
{
	while (descriptors_of_plane() > most)
		usleep(10000);
}

/* Makes later connections those of another user, if this process is root. */
static void
act_as(uid_t uid)
{
	must(getuid() != 0 || seteuid(uid) == 0, "seteuid");
}

/* A user sends sockets whose queues hold descriptors that are slow to close: only that user is delayed. */
static void
lingers_in_a_queue(void)
{
	uint32_t before = descriptors_of_plane();

	act_as(65534);
	for (uint32_t i = 0; i < 4; i++) {
		struct one_msg msg = hello();
		int fd = raw_connect(), pair[2];

		must(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
		send_lingering(pair[1], &msg, 1);
		raw_send(fd, &msg, sizeof(msg), &pair[0], 1);
		close(pair[0]);
		close(pair[1]);
		answer_or_end(fd);
	}
	act_as(0);
	for (uint32_t i = 0; i < 200; i++)
		must(served(), "others are not served");
	keeps_no_more_than(before + 8);
	close_peers();
}

/* A file whose close() never ends. The test forks no children here: they could not exit either. */
static void
never_closes(void)
{
	struct one_msg msg = hello();
	struct stuck_file file;
	uint8_t reply[4096];
	int fds[253], fd;
	uint32_t before = descriptors_of_plane(), rounds = 0;

	if (!stuck_file_open_for_good(&file)) {
		printf("  left out: this user cannot mount\n");
		return;
	}
	fd = raw_connect();
	raw_send(fd, &msg, sizeof(msg), NULL, 0);
	must(recv(fd, reply, sizeof(reply), 0) > 0, "a good HELLO was not answered");
	memset(&msg, 0, sizeof(msg));
	msg.type = ONE_MSG_REGION_ADD;
	msg.region_add.size = 4096;
	raw_send(fd, &msg, sizeof(msg), &file.fd, 1);
	must(recv(fd, reply, sizeof(reply), 0) > 0, "it was not refused");
	close(fd);
	/* Other applications attach and leave, without leaking descriptors. */
	for (uint32_t i = 0; i < 200; i++)
		must(served(), "others are not served");
	keeps_no_more_than(before + 8);
	/* Many such files: their user is no longer served, however often it connects. */
	for (uint32_t i = 0; i < 253; i++)
		fds[i] = file.fd;
	for (; served() && rounds < 100; rounds++) {
		fd = raw_connect();
		msg = hello();
		raw_send(fd, &msg, sizeof(msg), fds, 253);
		answer_or_end(fd);
	}
	must(rounds < 100, "nothing bounds it");
	before = descriptors_of_plane();
	for (uint32_t i = 0; i < 100; i++) {
		fd = raw_connect();
		raw_send(fd, &msg, sizeof(msg), fds, 253);
		close(fd);
	}
	keeps_no_more_than(before + 8);
	/* Closing the files ends the refusal. */
	stuck_file_close(&file);
	while (!served())
		usleep(10000);
}

/* Connections that never send anything, or close early. */
static void
silent(void)
{
	int fd[50];

	for (int i = 0; i < 50; i++)
		fd[i] = raw_connect();
	for (int i = 0; i < 50; i++)
		close(fd[i]);
}

/* After a valid HELLO: messages of every type with random contents. */
static void
random_messages(void)
{
	for (uint32_t round = 0; round < 400; round++) {
		struct one_msg msg = hello();
		int fd = raw_connect(), null = open("/dev/null", O_RDWR | O_CLOEXEC);
		struct timeval limit = {.tv_sec = 5 * SHARE};
		uint8_t reply[4096];

		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		raw_send(fd, &msg, sizeof(msg), NULL, 0);
		must(recv(fd, reply, sizeof(reply), 0) > 0, "a good HELLO was not answered");
		for (uint32_t k = 0; k < 20; k++) {
			uint64_t *words = (uint64_t *)(void *)&msg;

			for (size_t i = 0; i < sizeof(msg) / 8; i++) {
				words[i] = random64();
				/* Small numbers may be ids and counts that exist. */
				if (random64() % 2 == 0)
					words[i] &= 0x0000000700000007ull;
			}
			msg.type = (uint32_t)(random64() % (ONE_MSG_MAX + 2));
			msg.seq = k;
			raw_send(fd, &msg, sizeof(msg), &null, (uint32_t)(random64() % 2));
			if (recv(fd, reply, sizeof(reply), 0) <= 0)
				break;
		}
		close(null);
		close(fd);
	}
}

/* ---- attached through the library, then writing to its memory directly ---- */

void
victim_open(struct victim *v)
{
	struct one_attach attach = {.socket = socket_path, .kind = ONE_KIND_DAT};
	struct one_qp_create create = {
		.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 4};
	struct one_msg msg;
	struct one_reply reply;

	errno = -one_attach(&attach, &v->client);
	must(errno == 0, "one_attach");
	errno = -one_cq_create(v->client, 64, &v->cq);
	must(errno == 0, "one_cq_create");
	memset(&msg, 0, sizeof(msg));
	msg.type = ONE_MSG_PZ_CREATE;
	errno = -one_call(v->client, &msg, NULL, 0, &reply);
	must(errno == 0, "ONE_MSG_PZ_CREATE");
	create.pz = reply.id.id;
	create.send_cq = create.recv_cq = create.conn_cq = v->cq.id;
	errno = -one_qp_create(v->client, &create, &v->qp);
	must(errno == 0, "one_qp_create");
}

/* Random bytes all over the used part of the arena, while all doorbells ring. */
static void
scribble(void)
{
	for (uint32_t round = 0; round < 20; round++) {
		struct victim v;
		uint8_t *arena;

		victim_open(&v);
		arena = one_client_span(v.client, 0, 0);
		for (uint32_t i = 0; i < 20000; i++) {
			uint64_t where = random64() % (1u << 20);

			arena[where] = (uint8_t)random64();
			if (i % 64 != 0)
				continue;
			one_doorbell_ring(v.qp.doorbells, v.qp.doorbell);
			atomic_store_explicit(&v.qp.doorbells->keys, 1, memory_order_release);
		}
		for (uint32_t i = 0; i < ONE_QPS_MAX; i++)
			one_doorbell_ring(v.qp.doorbells, i);
		for (uint32_t i = 0; i < 64u << 1; i++) {
			uint8_t *slot = (uint8_t *)&v.qp.sq[i % (1u << v.qp.sq_log2)];

			for (uint32_t k = 0; k < 64; k++)
				slot[k] = (uint8_t)random64();
			one_doorbell_ring(v.qp.doorbells, v.qp.doorbell);
		}
		usleep(2000);
		one_detach(v.client);
	}
}

/* Values that no library writes, in a completion ring's consumer index and in counters. */
static void
indices(void)
{
	static const uint32_t values[] = {0xffffffff, 0x80000000, 0x7fffffff, 65537, 100};

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		struct victim v;

		victim_open(&v);
		atomic_store(&v.cq.at.shm->head, values[i]);
		atomic_store(&v.cq.bundle->arm, ~0ull);
		atomic_store(&v.cq.at.shm->arm, ~0ull);
		/* A malformed request makes the engine post a completion. */
		v.qp.sq[0].op = 200;
		atomic_store(&v.qp.sq[0].phase, 1);
		one_doorbell_ring(v.qp.doorbells, v.qp.doorbell);
		usleep(2000);
		one_detach(v.client);
	}
}

/* Holes are punched into the arena while it is in use. */
static void
holes(void)
{
	for (uint32_t round = 0; round < 10; round++) {
		struct victim v;

		victim_open(&v);
		/* MADV_REMOVE is a hole punch by address. */
		madvise(one_client_span(v.client, 0, 0), 1u << 20, MADV_REMOVE);
		for (uint32_t i = 0; i < 1000; i++)
			one_doorbell_ring(v.qp.doorbells, i);
		usleep(1000);
		one_detach(v.client);
	}
}

/* An unsealed file of a region is truncated after the data plane has mapped it. */
static void
truncated_region(void)
{
	struct victim v;
	struct one_msg msg;
	struct one_reply reply;
	int fd = (int)syscall(SYS_memfd_create, "truncated", MFD_CLOEXEC), error;

	must(fd >= 0 && ftruncate(fd, 1 << 20) == 0, "memfd");
	victim_open(&v);
	memset(&msg, 0, sizeof(msg));
	msg.type = ONE_MSG_REGION_ADD;
	msg.region_add.size = 1 << 20;
	msg.region_add.flags = ONE_REGION_SEALED;
	must(one_call(v.client, &msg, &fd, 1, &reply) < 0, "an unsealed file passed for a sealed one");
	memset(&msg, 0, sizeof(msg));
	msg.type = ONE_MSG_REGION_ADD;
	msg.region_add.size = 1 << 20;
	error = one_call(v.client, &msg, &fd, 1, &reply);
	if (error == 0) {
		must(ftruncate(fd, 0) == 0, "ftruncate");
		/* Registering the region makes the data plane access its pages. */
		struct one_msg mr;

		memset(&mr, 0, sizeof(mr));
		mr.type = ONE_MSG_MR_CREATE;
		mr.mr_create.pz = 1;
		mr.mr_create.access = ONE_ACCESS_ALL;
		mr.mr_create.va = 4096;
		mr.mr_create.length = 1 << 20;
		mr.mr_create.num_pieces = 1;
		mr.mr_create.piece[0] = (struct one_mr_piece){.region = reply.id.id, .length = 1 << 20};
		(void)one_call(v.client, &mr, NULL, 0, &reply);
	}
	usleep(10000);
	close(fd);
	one_detach(v.client);
}

/*
 * Adds as many regions as the data plane accepts. A process has a limited number of mappings; a data plane
 * without any left could not register memory, attach anybody, or survive a fault.
 */
static void
mappings(void)
{
	int fd = (int)syscall(SYS_memfd_create, "mappings", MFD_CLOEXEC), error;
	struct one_reply reply;
	struct one_msg msg;
	struct victim v;
	uint32_t n = 0;

	must(fd >= 0 && ftruncate(fd, 4096) == 0, "memfd");
	victim_open(&v);
	do {
		memset(&msg, 0, sizeof(msg));
		msg.type = ONE_MSG_REGION_ADD;
		msg.region_add.size = 4096;
		error = one_call(v.client, &msg, &fd, 1, &reply);
	} while (error == 0 && ++n < 1u << 17);
	errno = -error;
	must(error == -EDQUOT && reply.subject == ONE_SUBJECT_QUOTA && reply.value <= n, "no limit was met");
	must(healthy(), "nobody else can attach");
	/* A removed region makes room for one. */
	msg.type = ONE_MSG_REGION_REMOVE;
	msg.id.id = 1u << 16; /* id of the first region */
	must(one_call(v.client, &msg, NULL, 0, &reply) == 0, "ONE_MSG_REGION_REMOVE");
	msg.type = ONE_MSG_REGION_ADD;
	msg.region_add.size = 4096;
	msg.region_add.flags = 0;
	must(one_call(v.client, &msg, &fd, 1, &reply) == 0, "one more");
	/* All regions lose their pages, so each access faults; then all go at once with the attachment. */
	must(ftruncate(fd, 0) == 0, "ftruncate");
	close(fd);
	one_detach(v.client);
}

/* Applications that attach and are killed. */
static void
killed(void)
{
	for (uint32_t i = 0; i < 100; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			struct victim v;

			victim_open(&v);
			for (;;)
				one_doorbell_ring(v.qp.doorbells, v.qp.doorbell);
		}
		usleep((useconds_t)(random64() % 20000));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

/* ---- an honest application ---- */

bool
healthy(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct victim v;

		alarm(20 * SHARE);
		/*
		 * Cores answer requests for rings and queue pairs: success shows that both the control
		 * thread and a core are alive.
		 */
		victim_open(&v);
		errno = -one_qp_free(&v.qp);
		must(errno == 0, "one_qp_free");
		errno = -one_cq_free(&v.cq);
		must(errno == 0, "one_cq_free");
		one_detach(v.client);
		_exit(0);
	}
	return waitpid(pid, &status, 0) == pid && status == 0;
}

int
main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{"wrong_sizes", wrong_sizes},
		{"wrong_hello", wrong_hello},
		{"descriptors", descriptors},
		{"slow_to_close", slow_to_close},
		{"turned_away", turned_away},
		{"lingers_in_a_queue", lingers_in_a_queue},
		{"never_closes", never_closes},
		{"holds_its_arena", holds_its_arena},
		{"silent", silent},
		{"random_messages", random_messages},
		{"scribble", scribble},
		{"indices", indices},
		{"holes", holes},
		{"truncated_region", truncated_region},
		{"mappings", mappings},
		{"sparse", sparse},
		{"pieces", pieces},
		{"killed", killed},
	};
	uint32_t passed = 0, failed = 0;

	if (argc < 2) {
		fprintf(stderr, "usage: %s SOCKET [SEED [CASE]]\n", argv[0]);
		return 2;
	}
	socket_path = argv[1];
	random_state = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL);
	random_state |= 1;
	printf("seed %llu\n", (unsigned long long)random_state);
	fflush(stdout);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pid_t pid;
		int status = 1;
		bool ok;

		if (argc > 3 && strcmp(argv[3], cases[i].name) != 0)
			continue;
		pid = fork();
		if (pid == 0) {
			alarm(60 * SHARE);
			cases[i].run();
			_exit(0);
		}
		waitpid(pid, &status, 0);
		ok = status == 0 && healthy();
		printf("%-6s %s\n", ok ? "ok" : "FAILED", cases[i].name);
		fflush(stdout);
		ok ? passed++ : failed++;
	}
	printf("%u passed, %u failed\n", passed, failed);
	return failed == 0 && passed > 0 ? 0 : 1;
}
