/* SPDX-License-Identifier: BSD-3-Clause */
#include "attach_client.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "fake_engine.h"
#include "tests.h"

char app_socket[108];

void
app_connect(struct app *app)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	memset(app, 0, sizeof(*app));
	memcpy(address.sun_path, app_socket, sizeof(address.sun_path));
	app->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_true(app->fd >= 0);
	assert_int_equal(connect(app->fd, (struct sockaddr *)&address, sizeof(address)), 0);
}

static void
add(struct msghdr *header, int type, const void *data, size_t len)
{
	struct cmsghdr *cmsg =
		(struct cmsghdr *)(void *)((char *)header->msg_control + header->msg_controllen);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = type;
	cmsg->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(cmsg), data, len);
	header->msg_controllen += CMSG_SPACE(len);
}

bool
app_send(struct app *app, const void *data, size_t len, const int *fds, uint32_t num_fds)
{
	union {
		char bytes[CMSG_SPACE(64 * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} ancillary;
	struct one_msg copy[2];
	struct iovec iov = {copy, len};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};

	fake_quiescent();
	memcpy(copy, data, len);
	memset(&ancillary, 0, sizeof(ancillary));
	header.msg_control = &ancillary;
	if (num_fds != 0)
		add(&header, SCM_RIGHTS, fds, num_fds * sizeof(int));
	if (app->as != NULL)
		add(&header, SCM_CREDENTIALS, app->as, sizeof(*app->as));
	return sendmsg(app->fd, &header, MSG_NOSIGNAL) == (ssize_t)len;
}

/* Channels must refuse socket filters: a filter would run on the core that sends. */
static void
assert_takes_no_filter(int fd)
{
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, UINT32_MAX);
	const struct sock_fprog filter = {.len = 1, .filter = &all};
	const int off = 0;

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &off, sizeof(off)), -1);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)), -1);
	assert_int_equal(errno, EPERM);
}

int
app_receive(struct app *app)
{
	union {
		char bytes[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} ancillary;
	struct iovec iov = {&app->reply, sizeof(app->reply)};
	struct msghdr header = {.msg_iov = &iov,
				.msg_iovlen = 1,
				.msg_control = &ancillary,
				.msg_controllen = sizeof(ancillary)};
	ssize_t n = recvmsg(app->fd, &header, MSG_CMSG_CLOEXEC);
	struct cmsghdr *cmsg;

	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return 0;
	assert_int_equal(n, sizeof(app->reply));
	cmsg = CMSG_FIRSTHDR(&header);
	if (cmsg != NULL) {
		int fds[2];

		if (cmsg->cmsg_len == CMSG_LEN(sizeof(int))) { /* a channel's descriptor */
			memcpy(fds, CMSG_DATA(cmsg), sizeof(int));
			if (app->reply.type == ONE_MSG_CHANNEL_OPEN)
				assert_takes_no_filter(fds[0]);
			close(fds[0]);
			return 1;
		}
		assert_int_equal(cmsg->cmsg_len, CMSG_LEN(sizeof(fds)));
		memcpy(fds, CMSG_DATA(cmsg), sizeof(fds));
		assert_int_equal(fcntl(fds[0], F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
		app->arena = mmap(NULL, ONE_ARENA_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
		assert_ptr_not_equal(app->arena, MAP_FAILED);
		close(fds[0]);
		close(fds[1]);
	}
	return 1;
}

static int
answer(struct app *app, enum one_msg_type type)
{
	assert_int_equal(app_receive(app), 1);
	assert_int_equal(app->reply.type, type);
	assert_int_equal(app->reply.seq, app->msg.seq);
	return app->reply.error;
}

void
app_post(struct app *app, enum one_msg_type type)
{
	app->msg.type = type;
	app->msg.seq++;
	assert_true(app_send(app, &app->msg, sizeof(app->msg), NULL, 0));
}

int
app_call(struct app *app, enum one_msg_type type)
{
	app_post(app, type);
	return answer(app, type);
}

int
app_call_fds(struct app *app, enum one_msg_type type, const int *fds, uint32_t num_fds)
{
	app->msg.type = type;
	app->msg.seq++;
	assert_true(app_send(app, &app->msg, sizeof(app->msg), fds, num_fds));
	return answer(app, type);
}

int
app_call_fd(struct app *app, enum one_msg_type type, int fd)
{
	return app_call_fds(app, type, &fd, 1);
}

int
app_call_id(struct app *app, enum one_msg_type type, uint32_t id)
{
	memset(app->msg.bytes, 0, sizeof(app->msg.bytes));
	app->msg.id.id = id;
	return app_call(app, type);
}

void
app_hello(struct app *app, enum one_kind kind)
{
	app_connect(app);
	app->msg.hello = (struct one_hello){.magic = ONE_MSG_MAGIC, .version = ONE_ABI_VERSION, .kind = kind};
	assert_int_equal(app_call(app, ONE_MSG_HELLO), 0);
	app->welcome = app->reply.welcome;
	assert_non_null(app->arena);
}

void
app_close(struct app *app)
{
	if (app->arena != NULL)
		munmap(app->arena, ONE_ARENA_SIZE);
	app->arena = NULL;
	fake_quiescent();
	close(app->fd);
	app->fd = -1;
}

uint32_t
app_pz(struct app *app)
{
	assert_int_equal(app_call(app, ONE_MSG_PZ_CREATE), 0);
	return app->reply.id.id;
}

uint32_t
app_cq(struct app *app, uint32_t entries)
{
	app->msg.cq_create.entries = entries;
	assert_int_equal(app_call(app, ONE_MSG_CQ_CREATE), 0);
	assert_true(1u << app->reply.cq.log2 > entries);
	return app->reply.cq.cq;
}

struct one_qp_created
app_qp(struct app *app, uint32_t pz, uint32_t cq)
{
	app->msg.qp_create = (struct one_qp_create){.pz = pz,
						    .send_cq = cq,
						    .recv_cq = cq,
						    .conn_cq = cq,
						    .max_send_wr = 10,
						    .max_recv_wr = 10,
						    .max_send_sge = 4,
						    .max_recv_sge = 1,
						    .rd_atomic_in = 4,
						    .rd_atomic_out = 8};
	assert_int_equal(app_call(app, ONE_MSG_QP_CREATE), 0);
	assert_int_equal(app->reply.qp.sq_log2, 5); /* 10 x 2 slots */
	assert_int_equal(app->reply.qp.rq_log2, 4);
	return app->reply.qp;
}

uint32_t
app_region(struct app *app, uint64_t size)
{
	int fd = memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(fallocate(fd, 0, 0, (off_t)size), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	app->msg.region_add = (struct one_region_add){.size = size, .flags = ONE_REGION_SEALED};
	assert_int_equal(app_call_fd(app, ONE_MSG_REGION_ADD, fd), 0);
	close(fd);
	return app->reply.id.id;
}

struct one_mr_created
app_mr(struct app *app, uint32_t pz, uint32_t region, uint64_t va, uint64_t size)
{
	app->msg.mr_create =
		(struct one_mr_create){.pz = pz,
				       .access = ONE_ACCESS_ALL,
				       .va = va,
				       .length = size,
				       .num_pieces = 1,
				       .piece = {{.region = region, .length = size + va % 4096}}};
	assert_int_equal(app_call(app, ONE_MSG_MR_CREATE), 0);
	assert_int_not_equal(app->reply.mr.lkey, 0);
	return app->reply.mr;
}

int
app_connect_qp(struct app *app, uint32_t qp, uint64_t service, uint64_t timeout_us)
{
	app->msg.qp_connect = (struct one_qp_connect){.qp = qp,
						      .family = AF_INET,
						      .addr = {192, 0, 2, 1},
						      .service = service,
						      .timeout_us = timeout_us,
						      .private_len = 3,
						      .private_data = {7, 8, 9}};
	return app_call(app, ONE_MSG_QP_CONNECT);
}
