/* SPDX-License-Identifier: BSD-3-Clause */
#include "peer.h"

#include <endian.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void
check(bool good, const char *what)
{
	if (!good) {
		fprintf(stderr, "peer: %s\n", what);
		abort();
	}
}

static void
report(struct peer *peer, uint32_t i, int code)
{
	struct one_cqe cqe = {
		.object = peer->qp[i], .type = ONE_CQE_RSM, .status = (uint8_t)code, .flags = ONE_CQE_NOTIFY};

	check(mock_cqe(peer->mock, peer->cq[i], &cqe), "no room to report the connection");
}

static void
answer_connect(struct peer *peer)
{
	uint32_t newest = mock_newest(peer->mock, ONE_MSG_RSM_CONNECT), i = peer->num_qps;
	struct one_qp_shm *shm;
	struct one_msg msg;

	if (newest == peer->last_import || atomic_load(&peer->silent))
		return;
	usleep(atomic_load(&peer->delay_us));
	peer->last_import = newest;
	check(i < PEER_QPS, "too many imports");
	check(mock_last(peer->mock, ONE_MSG_RSM_CONNECT, &msg), "no connect");
	peer->qp[i] = newest;
	peer->cq[i] = msg.rsm_connect.cq;
	peer->broken[i] = false;
	shm = mock_qp_shm(peer->mock, newest);
	shm->rsm_addr = PEER_BASE;
	shm->rsm_size = peer->size;
	shm->rsm_key = PEER_KEY;
	shm->rsm_flags = atomic_load(&peer->flags);
	report(peer, i, atomic_load(&peer->outcome));
	if (atomic_load(&peer->outcome) == RSM_SUCCESS)
		peer->num_qps++;
}

static uint8_t *
local(struct peer *peer, const struct one_sge *sge)
{
	if (mock_mr_of_key(peer->mock, sge->lkey) != 0) {
		peer->direct++;
		return (uint8_t *)(uintptr_t)sge->addr; /* the same process */
	}
	check((sge->lkey & 0xff) == 0x22 && sge->addr + sge->len <= ONE_ARENA_SIZE, "a key that nobody gave");
	peer->staged++;
	return mock_arena(peer->mock) + sge->addr;
}

static void
move(struct peer *peer, const struct one_wqe *wqe, const struct one_sge *sge)
{
	uint64_t offset = wqe->remote_addr - PEER_BASE;

	if (wqe->op == ONE_OP_SEND_IMM) {
		check(wqe->length == 0 && wqe->num_sge == 0, "a signal with data");
		atomic_store(&peer->signal, be32toh(wqe->imm));
		peer->signals++;
		return;
	}
	check(wqe->rkey == PEER_KEY, "rkey");
	check(offset <= peer->size && wqe->length <= peer->size - offset, "range of the segment");
	peer->bytes += wqe->length;
	if (wqe->op == ONE_OP_WRITE && (wqe->flags & ONE_WQE_INLINE) != 0) {
		check(wqe->num_sge == 0 && wqe->length == wqe->inline_len, "inline");
		peer->inlined++;
		memcpy(peer->memory + offset, wqe->inline_data, wqe->inline_len);
		return;
	}
	if (wqe->num_sge == 0) {
		check(wqe->length == 0, "no pieces");
		return;
	}
	check(wqe->num_sge == 1 && sge->len == wqe->length, "pieces");
	if (wqe->op == ONE_OP_WRITE)
		memcpy(peer->memory + offset, local(peer, sge), wqe->length);
	else if (wqe->op == ONE_OP_READ)
		memcpy(local(peer, sge), peer->memory + offset, wqe->length);
	else
		check(false, "operation");
}

static bool
serve(struct peer *peer, uint32_t i)
{
	struct one_sge sge[ONE_MAX_SGE];
	enum one_status status = ONE_STATUS_SUCCESS;
	struct one_wqe wqe;

	if (!mock_take(peer->mock, peer->qp[i], false, &wqe, sge))
		return false;
	usleep(atomic_load(&peer->delay_us));
	peer->ops++;
	if ((wqe.flags & ONE_WQE_SUPPRESS) != 0)
		peer->suppressed++;
	if (peer->broken[i]) {
		status = ONE_STATUS_FLUSHED;
	} else if (atomic_load(&peer->fail_after) == 0) {
		status = (enum one_status)atomic_load(&peer->fail_status);
		peer->broken[i] = true;
	} else {
		if (atomic_load(&peer->fail_after) > 0)
			peer->fail_after--;
		move(peer, &wqe, sge);
	}
	peer->served++;
	mock_complete(peer->mock, peer->qp[i], &wqe, status);
	return true;
}

static void *
run(void *arg)
{
	struct peer *peer = arg;

	while (!atomic_load(&peer->stop)) {
		bool busy = false;

		pthread_mutex_lock(&peer->lock);
		answer_connect(peer);
		for (uint32_t i = 0; i < peer->num_qps && !atomic_load(&peer->hold); i++)
			busy |= serve(peer, i);
		pthread_mutex_unlock(&peer->lock);
		if (!busy)
			sched_yield();
	}
	return NULL;
}

/* Takes the lock, so that no pass that has already read `hold` takes work posted after this call. */
void
peer_hold(struct peer *peer)
{
	pthread_mutex_lock(&peer->lock);
	atomic_store(&peer->hold, true);
	pthread_mutex_unlock(&peer->lock);
}

/* The mock keeps the queue pair, because the peer's thread may still read the rings. */
static bool
on_disconnect(struct mock *mock, const struct one_msg *msg, const int *fds, uint32_t num_fds,
	      struct one_reply *reply, void *user)
{
	return true;
}

struct peer *
peer_start(size_t size)
{
	struct peer *peer = calloc(1, sizeof(*peer));

	check(peer != NULL, "memory");
	peer->size = size;
	peer->fd = memfd_create("segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	check(peer->fd >= 0 && ftruncate(peer->fd, (off_t)size) == 0 &&
		      fcntl(peer->fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0,
	      "memfd");
	peer->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, peer->fd, 0);
	check(peer->memory != MAP_FAILED, "memory of the segment");
	peer->mock = mock_start();
	atomic_store(&peer->fail_after, -1);
	atomic_store(&peer->fail_status, ONE_STATUS_REMOTE_ACCESS);
	mock_on(peer->mock, ONE_MSG_RSM_DISCONNECT, on_disconnect, NULL);
	pthread_mutex_init(&peer->lock, NULL);
	check(pthread_create(&peer->thread, NULL, run, peer) == 0, "thread");
	return peer;
}

void
peer_forget(struct peer *peer)
{
	pthread_mutex_lock(&peer->lock);
	peer->num_qps = 0;
	pthread_mutex_unlock(&peer->lock);
}

void
peer_stop(struct peer *peer)
{
	atomic_store(&peer->stop, true);
	pthread_join(peer->thread, NULL);
	mock_stop(peer->mock);
	pthread_mutex_destroy(&peer->lock);
	munmap(peer->memory, peer->size);
	close(peer->fd);
	free(peer);
}

void
peer_abort(struct peer *peer, int code)
{
	pthread_mutex_lock(&peer->lock);
	for (uint32_t i = 0; i < peer->num_qps; i++) {
		peer->broken[i] = true;
		while (serve(peer, i))
			;
		report(peer, i, code);
	}
	pthread_mutex_unlock(&peer->lock);
}

void
peer_withdraw(struct peer *peer)
{
	struct one_qp_shm *shm = mock_qp_shm(peer->mock, mock_newest(peer->mock, ONE_MSG_RSM_CONNECT));

	atomic_fetch_or(&shm->rsm_flags, ONE_RSM_GONE);
}
