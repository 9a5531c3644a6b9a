/* SPDX-License-Identifier: BSD-3-Clause */
#include "copier.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "client/internal.h"
#include "client/wait.h"

#define STOP_TIMEOUT_S 1
#define HOLD_TIMEOUT_NS 100000000l
/* Polls before the thread sleeps, some 50 us: waking a thread that polls takes no system call, and requests
 * of a busy flow come sooner than a sleeper wakes up. */
#define LOOKS 100u

struct batch;

/* Requests of one polling core. */
struct copies_lane {
	struct one_copies *shm;
	uint32_t head; /* requests taken; used only by the thread */
};

struct copier {
	struct one_arena *arena; /* first page of the arena */
	struct copies_lane lane[ONE_LANES_MAX];
	uint32_t num_lanes; /* the first is there from the beginning; the thread adds others */
	size_t page;
	int arena_fd, wake_fd;
	pid_t pid;
	pthread_t thread;
	struct copied_set allowed; /* guarded by `allowing` */
	_Atomic bool stop;
	_Atomic bool left; /* set by the thread at its end, or by copier_stop when it gives up waiting:
			      the second of both frees */
	struct batch *batch;
};

/* Makes atomics of all attachments of this process exclude each other. */
static pthread_mutex_t atomics = PTHREAD_MUTEX_INITIALIZER;

/* Copies hold the lock shared; held for writing, it excludes them. Writers are preferred, or a busy copy
 * thread would starve them. */
static pthread_rwlock_t copying = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static _Atomic uint32_t count;

/* ---- allowed memory ---- */

/* Shared by all attachments. No holder waits for memory. */
static pthread_mutex_t allowing = PTHREAD_MUTEX_INITIALIZER;

void
copier_allow(struct copier *copier, struct copied *memory)
{
	pthread_mutex_lock(&allowing);
	copied_add(&copier->allowed, memory);
	pthread_mutex_unlock(&allowing);
}

void
copier_forbid(struct copied *memory)
{
	pthread_mutex_lock(&allowing);
	copied_remove(memory);
	pthread_mutex_unlock(&allowing);
}

static void
forbid_all(struct copier *copier)
{
	pthread_mutex_lock(&allowing);
	copied_clear(&copier->allowed);
	pthread_mutex_unlock(&allowing);
}

/* *at: where the memory is. */
static bool
may_copy(const struct copier *copier, uint64_t addr, uint64_t len, bool write, uint64_t *at)
{
	bool may;

	pthread_mutex_lock(&allowing);
	may = copied_find(&copier->allowed, addr, len, write, at);
	pthread_mutex_unlock(&allowing);
	return may;
}

void
copier_move(struct copied *memory, uint64_t at)
{
	bool held = copiers_hold();

	pthread_mutex_lock(&allowing);
	memory->shift = at - memory->start;
	pthread_mutex_unlock(&allowing);
	if (held)
		copiers_release();
}

/* ---- copies ---- */

#define BATCH 16u                              /* requests per system call */
#define BATCH_PIECES (2 * ONE_MAX_SGE * BATCH) /* the end of a span is a separate piece */

/* Pieces of memory of this process and of staging memory, in the order of copying. */
struct pieces {
	uint32_t num;
	size_t bytes;
	struct iovec here[BATCH_PIECES], there[BATCH_PIECES];
};

/* Copies by one system call; returns the number of bytes copied. */
static size_t
move_pieces(const struct copier *copier, const struct pieces *pieces, bool in)
{
	ssize_t done;

	if (pieces->num == 0)
		return 0;
	done = in ? process_vm_writev(copier->pid, pieces->here, pieces->num, pieces->there, pieces->num, 0)
		  : process_vm_readv(copier->pid, pieces->here, pieces->num, pieces->there, pieces->num, 0);
	return done > 0 ? (size_t)done : 0;
}

static uint32_t
move_all(const struct copier *copier, const struct pieces *pieces, bool in)
{
	return move_pieces(copier, pieces, in) == pieces->bytes ? 0 : EFAULT;
}

static void
add_piece(struct pieces *pieces, uint64_t addr, void *here, size_t len)
{
	pieces->here[pieces->num] = (struct iovec){here, len};
	pieces->there[pieces->num++] = (struct iovec){(void *)(uintptr_t)addr, len};
	pieces->bytes += len;
}

static uint32_t
move_word(const struct copier *copier, uint64_t addr, uint64_t *word, bool in)
{
	struct pieces pieces = {.num = 0};

	add_piece(&pieces, addr, word, sizeof(*word));
	return move_all(copier, &pieces, in);
}

/* Returns the length of the largest aligned word that ends at `end`. The word carries the last byte. */
static size_t
tail_of(uint64_t end, size_t len)
{
	size_t tail = 8;

	while (tail > len || (end & (tail - 1)) != 0)
		tail /= 2;
	return tail;
}

/* Adds the pieces of a request; false: the request names memory that must not be copied. */
static bool
add_request(const struct copier *copier, const struct copies_lane *lane,
	    const struct one_copy_request *request, struct pieces *pieces)
{
	uint8_t *slot = lane->shm->slot[request->slot % ONE_COPIES];
	uint32_t before = pieces->num;
	size_t bytes = pieces->bytes;
	bool in = request->op == ONE_COPY_IN;

	for (uint32_t i = 0; i < request->num_spans && i < ONE_MAX_SGE; i++) {
		const struct one_copy_span *span = &request->span[i];
		uint64_t at;
		size_t tail = 0;

		if (span->len == 0 || span->at > ONE_COPY_LEN || span->len > ONE_COPY_LEN - span->at ||
		    !may_copy(copier, span->addr, span->len, in, &at)) {
			pieces->num = before;
			pieces->bytes = bytes;
			return false;
		}
		/* The kernel copies pieces in order, but guarantees no order within a piece. An application
		 * may poll for the last bytes, so they are a separate piece. */
		if (in)
			tail = tail_of(at + span->len, span->len);
		if (span->len > tail)
			add_piece(pieces, at, slot + span->at, span->len - tail);
		if (tail != 0)
			add_piece(pieces, at + span->len - tail, slot + span->at + span->len - tail, tail);
	}
	return true;
}

static uint32_t
change_word(const struct copier *copier, const struct one_copy_request *request, uint64_t *found)
{
	uint64_t next = request->operand, at;
	uint32_t error = EFAULT;

	if (request->op != ONE_COPY_FETCH_ADD && request->op != ONE_COPY_CMP_SWAP)
		return error;
	pthread_mutex_lock(&atomics);
	if (may_copy(copier, request->span[0].addr, sizeof(*found), true, &at))
		error = move_word(copier, at, found, false);
	if (error == 0 && (request->op == ONE_COPY_FETCH_ADD || *found == request->compare)) {
		if (request->op == ONE_COPY_FETCH_ADD)
			next += *found;
		error = move_word(copier, at, &next, true);
	}
	pthread_mutex_unlock(&atomics);
	return error;
}

static bool
is_move(const struct one_copy_request *request)
{
	return request->op == ONE_COPY_IN || request->op == ONE_COPY_OUT;
}

/* ---- the thread ---- */

static void
answer_request(const struct copies_lane *lane, uint32_t sequence, uint32_t error, uint64_t value)
{
	struct one_copy_answer *slot = &lane->shm->answer[sequence % ONE_COPIES];

	slot->value = value;
	slot->sequence = sequence;
	slot->error = error;
	/* Pairs with the acquire load of the core. */
	atomic_store_explicit(&slot->phase, one_ring_phase(sequence, ONE_COPY_LOG2), memory_order_release);
}

/* Wakes the core if it sleeps until answers come. Only the first lane's sleep is checked: cores of other
 * lanes are always woken. */
static void
wake_core(const struct copier *copier, const struct copies_lane *lane)
{
	if (copier->wake_fd < 0)
		return;
	/* Pairs with the core's fence between announcing its sleep and its last poll. */
	atomic_thread_fence(memory_order_seq_cst);
	if (lane != copier->lane ||
	    atomic_load_explicit(&copier->arena->engine_asleep, memory_order_relaxed) != 0)
		eventfd_write(copier->wake_fd, 1);
}

/* Reads request `sequence`; false: there is none yet. *cancelled: do not begin the request, only answer. */
static bool
read_request(const struct copies_lane *lane, uint32_t sequence, struct one_copy_request *request,
	     bool *cancelled)
{
	const struct one_copy_request *shared = &lane->shm->request[sequence % ONE_COPIES];

	/* Pairs with the release store of the core. */
	if (atomic_load_explicit(&shared->phase, memory_order_acquire) !=
	    one_ring_phase(sequence, ONE_COPY_LOG2))
		return false;
	/* Read once: a hostile core could change the request meanwhile. */
	memcpy(request, (const void *)shared, offsetof(struct one_copy_request, cancelled));
	/* Pairs with the store in bounce_cancel. */
	*cancelled = atomic_load_explicit(&shared->cancelled, memory_order_acquire) != 0;
	return true;
}

static uint32_t
request_len(const struct one_copy_request *request)
{
	uint64_t len = 0;

	for (uint32_t i = 0; i < request->num_spans && i < ONE_MAX_SGE; i++)
		len += request->span[i].len;
	return len < ONE_COPY_LEN ? (uint32_t)len : ONE_COPY_LEN;
}

/* Requests carried out by one system call: of one direction, and together at most ONE_COPY_LEN long. */
struct batch {
	uint32_t num;
	struct one_copy_request request[BATCH];
	bool refused[BATCH]; /* refused, or cancelled, in which case there is no error */
	uint32_t error[BATCH];
	size_t bytes[BATCH];
	struct pieces pieces;
};

static void
collect_batch(const struct copier *copier, const struct copies_lane *lane, struct batch *batch)
{
	uint32_t bytes = 0;
	bool cancelled;

	batch->num = 0;
	batch->pieces.num = 0;
	batch->pieces.bytes = 0;
	while (batch->num < BATCH) {
		uint32_t i = batch->num;
		struct one_copy_request *request = &batch->request[i];

		if (!read_request(lane, lane->head + i, request, &cancelled))
			return;
		bytes += request_len(request);
		if (i > 0 &&
		    (request->op != batch->request[0].op || !is_move(request) || bytes > ONE_COPY_LEN))
			return;
		batch->num++;
		batch->bytes[i] = batch->pieces.bytes;
		batch->refused[i] = cancelled ||
				    (is_move(request) && !add_request(copier, lane, request, &batch->pieces));
		batch->bytes[i] = batch->pieces.bytes - batch->bytes[i];
		batch->error[i] = batch->refused[i] && !cancelled ? EFAULT : 0;
	}
}

/* Copies request by request after a failure. The first `done` bytes were copied and are not copied again: the
 * application may have changed them since. */
static void
move_one_by_one(const struct copier *copier, const struct copies_lane *lane, struct batch *batch, size_t done)
{
	for (uint32_t i = 0; i < batch->num; i++) {
		if (batch->refused[i])
			continue;
		if (done >= batch->bytes[i]) {
			done -= batch->bytes[i];
			continue;
		}
		done = 0;
		batch->pieces.num = 0;
		batch->pieces.bytes = 0;
		batch->error[i] = EFAULT;
		if (add_request(copier, lane, &batch->request[i], &batch->pieces))
			batch->error[i] =
				move_all(copier, &batch->pieces, batch->request[i].op == ONE_COPY_IN);
	}
}

/* Carries out the oldest requests; false: there are none. */
static bool
serve_lane(struct copier *copier, struct copies_lane *lane)
{
	struct batch *batch = copier->batch;
	uint64_t value = 0;
	size_t done;

	pthread_rwlock_rdlock(&copying);
	collect_batch(copier, lane, batch);
	done = move_pieces(copier, &batch->pieces, batch->request[0].op == ONE_COPY_IN);
	if (done != batch->pieces.bytes)
		move_one_by_one(copier, lane, batch, done);
	if (batch->num == 1 && !batch->refused[0] && !is_move(&batch->request[0]))
		batch->error[0] = change_word(copier, &batch->request[0], &value);
	pthread_rwlock_unlock(&copying);
	for (uint32_t i = 0; i < batch->num; i++)
		answer_request(lane, lane->head++, batch->error[i], value);
	if (batch->num > 0)
		wake_core(copier, lane);
	return batch->num > 0;
}

static bool
serve_lanes(struct copier *copier)
{
	bool served = false;

	for (uint32_t i = 0; i < copier->num_lanes; i++)
		if (serve_lane(copier, &copier->lane[i]))
			served = true;
	return served;
}

/* Sleeps without FUTEX_PRIVATE_FLAG: the word is shared with another process. */
static void
await_request(struct copier *copier, uint32_t ticket)
{
	struct one_channel *wake = &copier->lane[0].shm->wake;

	/* Pairs with the core's addition to the word and load of sleepers, all sequentially consistent:
	 * either the core sees a sleeper, or futex(2) the new word. */
	atomic_fetch_add_explicit(&wake->sleepers, 1, memory_order_seq_cst);
	syscall(SYS_futex, &wake->word, FUTEX_WAIT, ticket, NULL, NULL, 0);
	/* Relaxed: a wake-up that still counts this sleeper costs one system call too many. */
	atomic_fetch_sub_explicit(&wake->sleepers, 1, memory_order_relaxed);
}

static void
copier_destroy(struct copier *copier)
{
	if (copier->arena != MAP_FAILED)
		munmap(copier->arena, copier->page);
	for (uint32_t i = 0; i < copier->num_lanes; i++)
		munmap(copier->lane[i].shm, sizeof(struct one_copies));
	if (copier->arena_fd >= 0)
		close(copier->arena_fd);
	if (copier->wake_fd >= 0)
		close(copier->wake_fd);
	free(copier->batch);
	free(copier);
}

/* Maps for this process alone: a child has no copy thread. */
static void *
map_shared(int fd, uint64_t offset, size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);

	if (at != MAP_FAILED)
		madvise(at, size, MADV_DONTFORK);
	return at;
}

static bool
add_lane(struct copier *copier, uint64_t offset)
{
	struct one_copies *shm;
	struct stat arena;

	if (copier->num_lanes == ONE_LANES_MAX || offset % copier->page != 0 ||
	    fstat(copier->arena_fd, &arena) != 0 || (uint64_t)arena.st_size < sizeof(*shm) ||
	    offset > (uint64_t)arena.st_size - sizeof(*shm))
		return false;
	shm = map_shared(copier->arena_fd, offset, sizeof(*shm));
	if (shm == MAP_FAILED)
		return false;
	copier->lane[copier->num_lanes++].shm = shm;
	return true;
}

/* Adds lanes created since. If memory is lacking, or an offset is wrong, copies of that lane get no
 * answer. */
static void
look_for_lanes(struct copier *copier)
{
	uint64_t next;

	do
		/* Pairs with the control thread's release store. */
		next = atomic_load_explicit(&copier->lane[copier->num_lanes - 1].shm->next,
					    memory_order_acquire);
	while (next != 0 && add_lane(copier, next));
}

static void *
copier_run(void *argument)
{
	struct copier *copier = argument;
	uint32_t looks = 0;

	/* Pairs with the store in copier_stop. */
	while (!atomic_load_explicit(&copier->stop, memory_order_acquire)) {
		/* Pairs with the core's addition: serve_lanes sees a request that was stored before it. */
		uint32_t ticket = atomic_load_explicit(&copier->lane[0].shm->wake.word, memory_order_acquire);

		look_for_lanes(copier);
		if (serve_lanes(copier)) {
			looks = 0;
		} else if (looks < LOOKS) {
			looks++;
			one_yield();
		} else if (!atomic_load_explicit(&copier->stop, memory_order_acquire)) {
			await_request(copier, ticket);
			looks = 0;
		}
	}
	/* Counted down before the thread ends: the count never exceeds the number of threads. */
	atomic_fetch_sub_explicit(&count, 1, memory_order_relaxed);
	/* Pairs with the exchange in copier_stop. */
	if (atomic_exchange_explicit(&copier->left, true, memory_order_acq_rel))
		copier_destroy(copier);
	return NULL;
}

/* ---- one attachment's copier ---- */

/* Tries both system calls on own words: sandboxes may refuse them. */
static bool
is_allowed(const struct copier *copier)
{
	uint64_t word = 1, copy = 0;

	return move_word(copier, (uintptr_t)&word, &copy, false) == 0 && copy == 1 &&
	       move_word(copier, (uintptr_t)&copy, &word, true) == 0;
}

static int
open_place(struct copier *copier, const struct copier_place *place, uint64_t offset)
{
	copier->arena_fd = fcntl(place->arena_fd, F_DUPFD_CLOEXEC, 0);
	if (copier->arena_fd < 0)
		return -errno;
	copier->arena = map_shared(copier->arena_fd, 0, copier->page);
	if (copier->arena == MAP_FAILED)
		return -errno;
	if (!add_lane(copier, offset))
		return -ENOMEM;
	copier->wake_fd = place->wake_fd < 0 ? -1 : fcntl(place->wake_fd, F_DUPFD_CLOEXEC, 0);
	if (place->wake_fd >= 0 && copier->wake_fd < 0)
		return -errno;
	return is_allowed(copier) ? 0 : -EPERM;
}

int
copier_start(const struct copier_place *place, uint64_t offset, struct copied *first, struct copier **out)
{
	struct copier *copier = calloc(1, sizeof(*copier));
	int error;

	if (copier == NULL || (copier->batch = calloc(1, sizeof(*copier->batch))) == NULL) {
		free(copier);
		return -ENOMEM;
	}
	copier->arena = MAP_FAILED;
	copier->arena_fd = copier->wake_fd = -1;
	copier->page = (size_t)sysconf(_SC_PAGESIZE);
	copier->pid = getpid();
	error = open_place(copier, place, offset);
	copier_allow(copier, first);
	if (error == 0)
		error = client_thread(&copier->thread, copier_run, copier);
	if (error != 0) {
		copier_forbid(first);
		copier_destroy(copier);
		return error;
	}
	/* Pairs with copiers_count. Until a new thread is counted, it is taken for a thread of the
	 * application. */
	atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
	*out = copier;
	return 0;
}

void
copier_stop(struct copier *copier)
{
	pthread_t thread = copier->thread;
	struct one_channel *wake = &copier->lane[0].shm->wake;
	struct timespec until;

	forbid_all(copier);
	/* Pairs with the loads of the thread. */
	atomic_store_explicit(&copier->stop, true, memory_order_release);
	atomic_fetch_add_explicit(&wake->word, 1, memory_order_seq_cst);
	syscall(SYS_futex, &wake->word, FUTEX_WAKE, 1, NULL, NULL, 0);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += STOP_TIMEOUT_S;
	if (pthread_timedjoin_np(thread, NULL, &until) == 0) {
		copier_destroy(copier);
		return;
	}
	pthread_detach(thread);
	/* Pairs with the exchange of the thread: the second of both frees. */
	if (atomic_exchange_explicit(&copier->left, true, memory_order_acq_rel))
		copier_destroy(copier);
}

void
copier_forget(struct copier *copier)
{
	/* Threads of the parent may have held the locks and changed the lists. The lists are not walked, and
	 * their elements belong to the parent. */
	pthread_mutex_init(&atomics, NULL);
	pthread_mutex_init(&allowing, NULL);
	one_store_alone(&count, 0);
	copier->arena = MAP_FAILED;
	copier->num_lanes = 0;
	copier_destroy(copier);
}

void
copiers_fork_child(void)
{
	const pthread_rwlock_t fresh = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

	copying = fresh;
}

uint32_t
copiers_count(void)
{
	return one_load_alone(&count);
}

bool
copiers_hold(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += HOLD_TIMEOUT_NS;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	return pthread_rwlock_timedwrlock(&copying, &until) == 0;
}

void
copiers_release(void)
{
	pthread_rwlock_unlock(&copying);
}
