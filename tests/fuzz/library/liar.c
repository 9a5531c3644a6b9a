/* SPDX-License-Identifier: BSD-3-Clause */
#include "liar.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "abi/ring.h"

#define LIES 16u
#define SQ_LOG2 5u
#define ANY_REPLY 0xffu
#define TICK_NS 10000000u
#define ATTACHMENTS 64u
#define PORTS 2u
#define CHANNELS 8u
#define PAGE 4096u
#define SEGMENT_AT PAGE /* offset in the arena */

/* Falsify the length or the descriptors, instead of a byte of the reply. */
enum { AT_LENGTH = 0xff, AT_FDS = 0xfe };

struct liar liar;

static struct {
	int sock, ours;
} attachments[ATTACHMENTS];
static uint32_t num_attachments;
static int arena_fd = -1, wake_fd = -1, given_fd; /* given_fd: sent with the next reply */
static int channels[CHANNELS][2];                 /* the program's end, ours; -1: none */
static uint32_t num_channels;
static struct one_msg asked;
static uint64_t used, now, keys_at;
static uint32_t last_id, replies, patience;
static struct {
	uint8_t reply, at, value;
} lies[LIES];
static uint32_t num_lies;
static pthread_t program; /* the program's thread; the library has others */

/* ---- the system calls of the library ---- */

int __real_connect(int fd, const struct sockaddr *address, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t len);
ssize_t __real_sendmsg(int fd, const struct msghdr *header, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *header, int flags);
ssize_t __real_recvmsg(int fd, struct msghdr *header, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *header, int flags);
int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __real_sched_yield(void);
int __wrap_sched_yield(void);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* Bounds waits without a limit: the attachment fails once `patience` is used up. */
static void
grow_tired(void)
{
	if (patience > 0 && --patience == 0)
		atomic_store(&((struct one_arena *)(void *)liar.arena)->fault, 1);
}

/* Advances the clock with each call, so that waits for something that never comes soon end. */
int
__wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	if (now == 0 || !pthread_equal(pthread_self(), program))
		return __real_clock_gettime(clock, ts);
	now += TICK_NS;
	if (liar.serves)
		liar_serve();
	grow_tired();
	ts->tv_sec = (time_t)(now / 1000000000);
	ts->tv_nsec = (long)(now % 1000000000);
	return 0;
}

/* Serves requests when the library polls the arena, or yields to another thread. */
int
__wrap_sched_yield(void)
{
	struct one_keys *keys;

	if (now == 0 || !pthread_equal(pthread_self(), program))
		return __real_sched_yield();
	keys = (struct one_keys *)(void *)(liar.arena + keys_at);
	if (liar.serves) {
		liar_serve();
		atomic_store(&keys->answered, atomic_load(&keys->asked));
	}
	grow_tired();
	return 0;
}

/* Ends waits on a futex at once, as if they had timed out, because nothing wakes the program. Arguments that
 * the caller did not give are read and passed on, too. */
__attribute__((no_sanitize("address"))) long
__wrap_syscall(long number, ...)
{
	long argument[6];
	bool waits;
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		argument[i] = va_arg(list, long);
	va_end(list);
	waits = number == SYS_futex_waitv ||
		(number == SYS_futex && (argument[1] & ~FUTEX_PRIVATE_FLAG) != FUTEX_WAKE);
	if (now == 0 || !waits || !pthread_equal(pthread_self(), program))
		return __real_syscall(number, argument[0], argument[1], argument[2], argument[3], argument[4],
				      argument[5]);
	grow_tired();
	errno = liar.waits != NULL && liar.waits() ? EAGAIN : ETIMEDOUT;
	return -1;
}

int
__wrap_connect(int fd, const struct sockaddr *address, socklen_t len)
{
	int ends[2];

	if (num_attachments == ATTACHMENTS) {
		errno = ECONNREFUSED;
		return -1;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return -1;
	dup2(ends[0], fd);
	close(ends[0]);
	attachments[num_attachments].sock = fd;
	attachments[num_attachments++].ours = ends[1];
	return 0;
}

static bool
is_attachment(int fd)
{
	for (uint32_t i = 0; i < num_attachments; i++)
		if (attachments[i].sock == fd)
			return true;
	return false;
}

ssize_t
__wrap_sendmsg(int fd, const struct msghdr *header, int flags)
{
	if (!is_attachment(fd))
		return __real_sendmsg(fd, header, flags);
	memcpy(&asked, header->msg_iov->iov_base, sizeof(asked));
	return (ssize_t)sizeof(asked);
}

/* ---- replies ---- */

static uint64_t
arena_new(uint64_t size)
{
	uint64_t at = used;

	if (size > LIAR_ARENA || used + size > LIAR_ARENA)
		return LIAR_ARENA - 4096; /* an invalid offset */
	used += (size + 63) / 64 * 64;
	return at;
}

static uint32_t
log2_of(uint32_t entries)
{
	uint32_t log2 = 1;

	while (log2 < 12 && 1u << log2 < entries + 1)
		log2++;
	return log2;
}

static void
ring_lay_out(uint32_t entries, struct liar_ring *ring, struct one_cq_created *out)
{
	out->cq = ring->id;
	out->log2 = log2_of(entries);
	out->offset = arena_new(sizeof(struct one_cq_shm) + (sizeof(struct one_cqe) << out->log2));
	out->bundle = (uint32_t)arena_new(sizeof(struct one_cq_bundle));
	((struct one_cq_bundle *)(void *)(liar.arena + out->bundle))->rings = 1;
	ring->shm = (struct one_cq_shm *)(void *)(liar.arena + out->offset);
	ring->tail = 0;
	/* A ring beyond the end of the arena: the library gets the false size, and we use a single page. */
	ring->log2 = out->offset + (sizeof(struct one_cqe) << out->log2) < LIAR_ARENA - 4096 ? out->log2 : 4;
}

static void
ring_new(uint32_t entries, struct one_cq_created *out)
{
	struct liar_ring *ring = &liar.ring[liar.num_rings++ % LIAR_RINGS];

	ring->id = ++last_id;
	ring_lay_out(entries, ring, out);
}

void
liar_store(struct liar_ring *ring, struct one_cqe *cqe)
{
	struct one_cqe *slots = (struct one_cqe *)(ring->shm + 1);

	cqe->phase = one_ring_phase(ring->tail, ring->log2);
	memcpy((void *)&slots[one_ring_slot(ring->tail, ring->log2)], (const void *)cqe, sizeof(*cqe));
	ring->tail++;
	atomic_store(&ring->shm->tail, ring->tail);
}

static void
ring_resize(struct one_cq_created *out)
{
	struct one_cqe end = {.type = ONE_CQE_SWITCHED};

	for (uint32_t i = 0; i < LIAR_RINGS; i++) {
		if (liar.ring[i].shm == NULL || liar.ring[i].id != asked.cq_resize.cq)
			continue;
		liar_store(&liar.ring[i], &end);
		ring_lay_out(asked.cq_resize.entries, &liar.ring[i], out);
	}
}

static void
qp_new(uint32_t send_cq, struct one_qp_created *out)
{
	uint32_t place = liar.num_qps++ % LIAR_QPS;

	out->qp = liar.qp[place] = ++last_id;
	liar.send_cq[place] = send_cq;
	liar.sq_head[place] = 0;
	out->qpn = 0x100 + last_id;
	out->doorbell = liar.num_qps;
	out->sq_log2 = SQ_LOG2;
	out->rq_log2 = 5;
	out->shm = arena_new(sizeof(struct one_qp_shm));
	out->sq = arena_new(sizeof(struct one_wqe) << SQ_LOG2);
	out->rq = arena_new(sizeof(struct one_wqe) << 5);
	liar.qp_shm[place] = (struct one_qp_shm *)(void *)(liar.arena + out->shm);
	liar.sq[place] = (struct one_wqe *)(void *)(liar.arena + out->sq);
}

static void
welcome(struct one_welcome *w)
{
	struct one_cq_created async;

	given_fd = arena_fd;
	ring_new(15, &async);
	*w = (struct one_welcome){.version = ONE_ABI_VERSION,
				  .family = AF_INET,
				  .mtu = 4096,
				  .port = "p0",
				  .addr = {192, 0, 2, 1},
				  .arena_size = LIAR_ARENA,
				  .async_cq = async.cq,
				  .async_cq_offset = async.offset,
				  .async_cq_bundle = async.bundle,
				  .async_cq_log2 = async.log2,
				  .node_id = 1};
	w->limits = (struct one_limits){.max_pz = 256,
					.max_cq = 64,
					.max_cq_entries = 1024,
					.max_qp = 64,
					.max_qp_wr = 32,
					.max_sge = ONE_MAX_SGE,
					.max_listen = 16,
					.max_mr = 64,
					.max_mw = 64,
					.max_srq = 16,
					.max_srq_wr = 32,
					.max_ah = 16,
					.max_rd_atomic = 16,
					.max_private_data = 64,
					.max_segments = 16,
					.max_mr_bytes = 1 << 20,
					.max_mr_total = 1 << 20,
					.max_message = ONE_MESSAGE_MAX};
}

static void
channel_new(void)
{
	uint32_t place = num_channels++ % CHANNELS;

	for (int i = 0; i < 2; i++)
		if (channels[place][i] >= 0)
			close(channels[place][i]);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channels[place]) != 0)
		fuzz_fail("no channel");
	given_fd = channels[place][0];
}

static void
topology(struct one_rsm_port *out)
{
	out->num_ports = PORTS;
	out->num_peers = ONE_RSM_PEERS + 1;
	snprintf(out->name, sizeof(out->name), "p%u", asked.rsm_topology.port % PORTS);
	for (uint32_t i = 0; i < ONE_RSM_PEERS; i++)
		out->peer[i] = (struct one_rsm_peer){.node = 2 + i, .state = ONE_RSM_PATH_UP, .name = "p0"};
}

/* Creates an import that is already connected. */
static void
segment_new(struct one_qp_created *out)
{
	struct one_cqe cqe = {.type = ONE_CQE_RSM, .status = liar.outcome};
	struct one_qp_shm *shm;

	qp_new(asked.rsm_connect.cq, out);
	shm = (struct one_qp_shm *)(void *)(liar.arena + out->shm);
	shm->rsm_addr = 4096;
	shm->rsm_size = LIAR_SEGMENT;
	shm->rsm_key = 77;
	cqe.object = out->qp;
	for (uint32_t i = 0; i < LIAR_RINGS; i++)
		if (liar.ring[i].shm != NULL && liar.ring[i].id == asked.rsm_connect.cq)
			liar_store(&liar.ring[i], &cqe);
}

static void
answer(struct one_reply *reply)
{
	memset(reply, 0, sizeof(*reply));
	reply->type = asked.type;
	reply->seq = asked.seq;
	switch (asked.type) {
	case ONE_MSG_HELLO:
		welcome(&reply->welcome);
		break;
	case ONE_MSG_CQ_CREATE:
		ring_new(asked.cq_create.entries, &reply->cq);
		break;
	case ONE_MSG_CQ_RESIZE:
		ring_resize(&reply->cq);
		break;
	case ONE_MSG_QP_CREATE:
		qp_new(asked.qp_create.send_cq, &reply->qp);
		break;
	case ONE_MSG_SRQ_CREATE:
		reply->srq.srq = liar.srq = ++last_id;
		reply->srq.log2 = 5;
		reply->srq.lanes = 1;
		reply->srq.shm = arena_new(one_srq_shm_size(1));
		reply->srq.rq = arena_new(sizeof(struct one_wqe) << 5);
		break;
	case ONE_MSG_LISTEN:
		reply->listening.listener = liar.listener = ++last_id;
		reply->listening.service = asked.listen.service != 0 ? asked.listen.service : 2000;
		break;
	case ONE_MSG_MW_CREATE:
		reply->mw.mw = ++last_id;
		reply->mw.key = last_id << 8;
		break;
	case ONE_MSG_MR_CREATE:
		reply->mr.mr = ++last_id;
		reply->mr.lkey = reply->mr.rkey = last_id << 8;
		reply->mr.renewable = 1;
		break;
	case ONE_MSG_CHANNEL_OPEN:
		reply->id.id = ++last_id;
		channel_new();
		break;
	case ONE_MSG_PORT:
		reply->error = asked.port_query.port < PORTS ? 0 : -ENODEV;
		reply->port =
			(struct one_port){.num_ports = PORTS, .mbps = 100000, .link_up = 1, .num_addrs = 1};
		reply->port.addr[0] =
			(struct one_port_addr){.family = AF_INET, .prefix = 24, .addr = {192, 0, 2, 1}};
		snprintf(reply->port.name, sizeof(reply->port.name), "p%u", asked.port_query.port % PORTS);
		break;
	case ONE_MSG_STAGING:
		reply->staged.size = asked.staging.size / 4; /* as a data plane with little memory */
		reply->staged.offset = arena_new(reply->staged.size);
		reply->staged.lkey = ++last_id;
		break;
	case ONE_MSG_COPIES:
		used = (used + PAGE - 1) / PAGE * PAGE;
		reply->copies.offset = arena_new(sizeof(struct one_copies));
		liar.copies = (struct one_copies *)(void *)(liar.arena + reply->copies.offset);
		break;
	case ONE_MSG_RSM_TOPOLOGY:
		topology(&reply->rsm_port);
		break;
	case ONE_MSG_RSM_CONNECT:
		segment_new(&reply->qp);
		break;
	case ONE_MSG_RSM_MAP:
		given_fd = arena_fd;
		reply->rsm_mapped = (struct one_rsm_mapped){.offset = SEGMENT_AT, .length = LIAR_SEGMENT};
		break;
	default:
		reply->id.id = ++last_id;
		break;
	}
}

/* Attaches one or two descriptors. */
static void
give_fds(struct msghdr *header, uint32_t num)
{
	int fds[2] = {dup(given_fd), dup(wake_fd)};
	struct cmsghdr *cmsg = header->msg_control;

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(num * sizeof(int));
	memcpy(CMSG_DATA(cmsg), fds, num * sizeof(int));
	header->msg_controllen = CMSG_SPACE(num * sizeof(int));
	for (uint32_t i = num; i < 2; i++)
		close(fds[i]);
}

static bool
is_believed(uint32_t type)
{
	return liar.frees && (type == ONE_MSG_PZ_FREE || type == ONE_MSG_CQ_FREE || type == ONE_MSG_QP_FREE ||
			      type == ONE_MSG_SRQ_FREE || type == ONE_MSG_CHANNEL_CLOSE ||
			      type == ONE_MSG_AH_FREE || type == ONE_MSG_MR_FREE);
}

ssize_t
__wrap_recvmsg(int fd, struct msghdr *header, int flags)
{
	uint32_t num_fds = 0;
	ssize_t len = (ssize_t)sizeof(struct one_reply);
	struct one_reply reply;

	if (!is_attachment(fd))
		return __real_recvmsg(fd, header, flags);
	given_fd = -1;
	answer(&reply);
	if (given_fd >= 0)
		num_fds = asked.type == ONE_MSG_HELLO ? 2 : 1;
	else
		given_fd = arena_fd; /* for a reply that falsely has one */
	for (uint32_t i = 0; i < num_lies && !is_believed(asked.type); i++) {
		if (lies[i].reply != ANY_REPLY && lies[i].reply != replies)
			continue;
		if (asked.type == ONE_MSG_COPIES)
			liar.copies = NULL; /* offset unknown, because the reply was falsified */
		if (lies[i].at == AT_LENGTH)
			len = lies[i].value;
		else if (lies[i].at == AT_FDS)
			num_fds = lies[i].value % 3;
		else
			((uint8_t *)&reply)[lies[i].at] = lies[i].value;
	}
	replies++;
	memcpy(header->msg_iov->iov_base, &reply, sizeof(reply));
	header->msg_flags = 0;
	header->msg_controllen = 0;
	if (num_fds > 0)
		give_fds(header, num_fds);
	return len;
}

void
liar_lie(struct bytes *record)
{
	replies = 0;
	for (num_lies = 0; num_lies < LIES && record->left >= 3; num_lies++) {
		lies[num_lies].reply = (uint8_t)record_number(record, 1);
		lies[num_lies].at = (uint8_t)record_number(record, 1);
		lies[num_lies].value = (uint8_t)record_number(record, 1);
	}
}

/* ---- the arena ---- */

static uint32_t
object_of(uint8_t which)
{
	if (which < 0x80)
		return liar.qp[which % LIAR_QPS];
	return which == 0x80 ? liar.listener : which == 0x81 ? liar.srq : which == 0x82 ? 2 : which - 0x83u;
}

void
liar_complete(struct bytes *record)
{
	struct liar_ring *ring = &liar.ring[record_number(record, 1) % LIAR_RINGS];
	struct one_cqe cqe = {.type = (uint8_t)record_number(record, 1)};
	uint8_t cookie;

	if (ring->shm == NULL)
		return;
	cqe.status = (uint8_t)record_number(record, 1);
	cqe.object = object_of((uint8_t)record_number(record, 1));
	cqe.flags = (uint8_t)record_number(record, 1);
	cookie = (uint8_t)record_number(record, 1);
	cqe.cookie = cookie == 0xff ? record_number(record, 8) : cookie * 4096ull;
	cqe.length = (uint32_t)record_number(record, 4);
	cqe.imm = (uint32_t)record_number(record, 4);
	cqe.op = (uint8_t)record_number(record, 1);
	liar_store(ring, &cqe);
}

void
liar_count_one(struct bytes *record)
{
	struct liar_ring *ring = &liar.ring[record_number(record, 1) % LIAR_RINGS];
	uint32_t count = (uint32_t)record_number(record, 1);

	if (ring->shm != NULL)
		atomic_fetch_add(&ring->shm->tail, count < 0xff ? count : (uint32_t)record_number(record, 4));
}

void
liar_announce(struct bytes *record)
{
	int fd = channels[record_number(record, 1) % CHANNELS][1];
	uint32_t ring = (uint32_t)record_number(record, 1), len = (uint32_t)record_number(record, 1);

	ring = ring < LIAR_RINGS ? liar.ring[ring].id : ring;
	if (fd >= 0 && send(fd, &ring, len % 8 == 7 ? 3 : 4, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return; /* the socket is full */
}

void
liar_hang_up(uint32_t which)
{
	int *end = &channels[which % CHANNELS][1];

	if (*end >= 0)
		close(*end);
	*end = -1;
}

void
liar_poke(struct bytes *record)
{
	uint64_t at = record_number(record, 4) % LIAR_ARENA;

	record_fill(record, liar.arena + at, record->left < LIAR_ARENA - at ? record->left : LIAR_ARENA - at);
}

void
liar_progress(struct bytes *record)
{
	struct one_qp_shm *shm = liar.qp_shm[record_number(record, 1) % LIAR_QPS];

	if (shm == NULL)
		return;
	atomic_store(&shm->state, (uint32_t)record_number(record, 1));
	atomic_store(&shm->sq_head, (uint32_t)record_number(record, 4));
	atomic_store(&shm->sq_done, (uint32_t)record_number(record, 4));
	atomic_store(&shm->rq_head, (uint32_t)record_number(record, 4));
	atomic_store(&shm->rq_done, (uint32_t)record_number(record, 4));
	shm->private_len = (uint16_t)record_number(record, 2);
	shm->family = (uint16_t)record_number(record, 2);
}

static void
serve_queue_pair(uint32_t place)
{
	for (uint32_t i = 0; i < 1u << SQ_LOG2; i++) {
		uint32_t head = liar.sq_head[place];
		struct one_wqe *wqe = &liar.sq[place][one_ring_slot(head, SQ_LOG2)];
		struct one_cqe cqe = {.type = ONE_CQE_SEND, .object = liar.qp[place], .cookie = wqe->cookie};
		uint8_t num_sge = wqe->num_sge <= ONE_MAX_SGE ? wqe->num_sge : 0;

		if (atomic_load(&wqe->phase) != one_ring_phase(head, SQ_LOG2))
			return;
		liar.sq_head[place] += one_wqe_slots(num_sge);
		cqe.op = wqe->op;
		cqe.length = wqe->length;
		for (uint32_t r = 0; (wqe->flags & ONE_WQE_SUPPRESS) == 0 && r < LIAR_RINGS; r++)
			if (liar.ring[r].shm != NULL && liar.ring[r].id == liar.send_cq[place])
				liar_store(&liar.ring[r], &cqe);
		atomic_store(&liar.qp_shm[place]->sq_head, liar.sq_head[place]);
		atomic_fetch_add(&liar.qp_shm[place]->sq_done, 1);
	}
}

/* Acts as a correct data plane with a fast peer: completes all requests in send rings. */
void
liar_serve(void)
{
	for (uint32_t i = 0; i < LIAR_QPS; i++)
		if (liar.sq[i] != NULL)
			serve_queue_pair(i);
}

void
liar_be_patient(void)
{
	patience = LIAR_PATIENCE;
}

void
liar_start(struct bytes *input)
{
	struct bytes record;

	liar_be_patient();
	if (record_next(input, &record))
		liar_lie(&record);
}

bool
liar_step(struct bytes *input, liar_kind *const kinds[], size_t num)
{
	struct bytes record;

	if (!record_next(input, &record))
		return false;
	liar_be_patient();
	kinds[record_number(&record, 1) % num](&record);
	return true;
}

void
liar_begin(void)
{
	struct one_arena *header;

	memset(&liar, 0, sizeof(liar));
	arena_fd = memfd_create("arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (arena_fd < 0 || wake_fd < 0 || ftruncate(arena_fd, LIAR_ARENA) != 0 ||
	    fcntl(arena_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
		fuzz_fail("no file in memory");
	liar.arena = mmap(NULL, LIAR_ARENA, PROT_READ | PROT_WRITE, MAP_SHARED, arena_fd, 0);
	if (liar.arena == MAP_FAILED)
		fuzz_fail("no arena");
	used = SEGMENT_AT + LIAR_SEGMENT;
	last_id = 0;
	replies = 0;
	num_lies = 0;
	patience = 0;
	num_attachments = num_channels = 0;
	memset(channels, -1, sizeof(channels));
	program = pthread_self();
	now = 1000000000ull * 1000000;
	header = (struct one_arena *)(void *)liar.arena;
	header->magic = ONE_ARENA_MAGIC;
	header->version = ONE_ABI_VERSION;
	header->size = LIAR_ARENA;
	header->doorbells = arena_new(sizeof(struct one_doorbells));
	header->channels = arena_new(ONE_CHANNELS * sizeof(struct one_channel));
	header->keys = keys_at = arena_new(sizeof(struct one_keys));
}

void
liar_end(void)
{
	now = 0;
	munmap(liar.arena, LIAR_ARENA);
	close(arena_fd);
	close(wake_fd);
	for (uint32_t i = 0; i < CHANNELS; i++)
		for (int end = 0; end < 2; end++) {
			if (channels[i][end] >= 0)
				close(channels[i][end]);
			channels[i][end] = -1;
		}
	while (num_attachments > 0)
		close(attachments[--num_attachments].ours);
}
