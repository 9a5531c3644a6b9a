/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mappings that another process can make fault, by truncating the file or by punching pages that its
 * filesystem cannot supply again. The SIGBUS handler replaces the faulting piece of the mapping by zeroed
 * private memory, so that the core continues. The handler marks the mapping; the control thread then detaches
 * its owner.
 *
 * A core may hold the last reference to the file, and then frees what it replaces. So the handler replaces at
 * most PIECE bytes: freeing a mapping of some GiB takes seconds. The worker of the owner's user
 * (control/attach/worker.c) frees the rest when the attachment ends.
 *
 * The kernel limits the number of mappings, and each piece adds up to two. After PIECES_MAX pieces the
 * handler replaces whole mappings, which adds none.
 *
 * The control thread writes the table; handlers on any thread read it.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "guard.h"

#define PIECE ((uintptr_t)2 << 20)
#define PIECES_MAX 1024u /* in all mappings together */

struct guard {
	_Atomic uintptr_t base; /* 0: free */
	_Atomic size_t len;
	_Atomic uint32_t pieces; /* replaced pieces */
	void *owner;             /* control thread only */
	_Atomic bool faulted;
};

static struct guard guards[ENGINE_GUARDS_MAX];
static _Atomic uint32_t used;       /* guards below this index may be in use */
static _Atomic uint32_t num_faults; /* faults not yet fetched by engine_guard_fault() */
static _Atomic uint32_t num_pieces; /* replaced pieces in mappings that are not unmapped yet */
static uint32_t hint;               /* control thread only: guards below this index are in use */
static struct sigaction previous;
static int reported; /* eventfd, written at a fault */

static struct guard *
find_guard(uintptr_t addr)
{
	/* Both acquire loads pair with the release stores in engine_guard_add(). */
	uint32_t n = atomic_load_explicit(&used, memory_order_acquire);

	for (uint32_t i = 0; i < n; i++) {
		uintptr_t base = atomic_load_explicit(&guards[i].base, memory_order_acquire);

		/* `len` is stored before the base. */
		if (base != 0 && addr >= base &&
		    addr - base < atomic_load_explicit(&guards[i].len, memory_order_relaxed))
			return &guards[i];
	}
	return NULL;
}

static bool
map_zeroes(uintptr_t from, uintptr_t to)
{
	return mmap((void *)from, to - from, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

static bool
replace_piece(struct guard *guard, uintptr_t addr, uintptr_t base, uintptr_t end)
{
	uintptr_t from = addr & ~(PIECE - 1), to = from + PIECE;

	/* Pairs with the same addition by handlers on other threads. */
	if (atomic_fetch_add_explicit(&num_pieces, 1, memory_order_relaxed) < PIECES_MAX &&
	    map_zeroes(from < base ? base : from, to > end ? end : to)) {
		/* Pairs with the load in engine_guard_remove(), which runs after the last fault. */
		atomic_fetch_add_explicit(&guard->pieces, 1, memory_order_relaxed);
		return true;
	}
	atomic_fetch_sub_explicit(&num_pieces, 1, memory_order_relaxed);
	return false;
}

/* Only makes system calls, as required of a signal handler. A mapping of hugepages larger than PIECE cannot
 * be cut, and freeing such pages is quick. */
static bool
replace_memory(struct guard *guard, uintptr_t addr)
{
	/* Relaxed: find_guard() acquired both fields. */
	uintptr_t base = atomic_load_explicit(&guard->base, memory_order_relaxed);
	uintptr_t end = base + atomic_load_explicit(&guard->len, memory_order_relaxed);

	return replace_piece(guard, addr, base, end) || map_zeroes(base, end);
}

static void
on_sigbus(int signal_number, siginfo_t *info, void *context)
{
	int saved = errno;
	uintptr_t addr = (uintptr_t)info->si_addr;
	struct guard *guard = find_guard(addr);

	if (guard != NULL && replace_memory(guard, addr)) {
		/* Pairs with the exchange in take_fault(). */
		if (!atomic_exchange_explicit(&guard->faulted, true, memory_order_release)) {
			atomic_fetch_add_explicit(&num_faults, 1, memory_order_release);
			eventfd_write(reported, 1);
		}
		errno = saved;
		return;
	}
	/* No application caused this fault: die of SIGBUS, with a core dump that shows the place. */
	sigaction(SIGBUS, &previous, NULL);
	errno = saved;
}

int
guard_init(int event_fd)
{
	struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};

	reported = event_fd;
	sigemptyset(&action.sa_mask);
	return sigaction(SIGBUS, &action, &previous) == 0 ? 0 : -errno;
}

void
guard_fini(void)
{
	sigaction(SIGBUS, &previous, NULL);
}

int
engine_guard_add(void *base, size_t len, void *owner)
{
	uint32_t i = hint;

	/* Relaxed: only this thread stores `base`. The release store below publishes the other fields to
	 * find_guard(). */
	while (i < ENGINE_GUARDS_MAX && atomic_load_explicit(&guards[i].base, memory_order_relaxed) != 0)
		i++;
	if (i == ENGINE_GUARDS_MAX)
		return -ENOSPC;
	guards[i].owner = owner;
	atomic_store_explicit(&guards[i].faulted, false, memory_order_relaxed);
	atomic_store_explicit(&guards[i].pieces, 0, memory_order_relaxed);
	atomic_store_explicit(&guards[i].len, len, memory_order_relaxed);
	atomic_store_explicit(&guards[i].base, (uintptr_t)base, memory_order_release); /* for find_guard() */
	if (i >= atomic_load_explicit(&used, memory_order_relaxed))
		atomic_store_explicit(&used, i + 1, memory_order_release); /* pairs with find_guard() */
	hint = i + 1;
	return (int)hint;
}

static uint32_t
take_fault(struct guard *guard)
{
	/* Pairs with the exchange in the handler. */
	if (!atomic_exchange_explicit(&guard->faulted, false, memory_order_acquire))
		return 0;
	atomic_fetch_sub_explicit(&num_faults, 1, memory_order_relaxed);
	return 1;
}

uint32_t
engine_guard_remove(int guard)
{
	uint32_t i = (uint32_t)guard - 1;

	/* Pairs with nothing: no thread accesses the mapping any more, so no handler searches for it. */
	atomic_store_explicit(&guards[i].base, 0, memory_order_relaxed);
	take_fault(&guards[i]);
	if (i < hint)
		hint = i;
	/* Relaxed: only this thread stores `used`. */
	if (i + 1 == atomic_load_explicit(&used, memory_order_relaxed))
		atomic_store_explicit(&used, i, memory_order_relaxed);
	/* Pairs with the addition in replace_piece(). */
	return atomic_load_explicit(&guards[i].pieces, memory_order_relaxed);
}

void
engine_guard_unmapped(uint32_t pieces)
{
	/* Pairs with the addition in replace_piece(). */
	atomic_fetch_sub_explicit(&num_pieces, pieces, memory_order_relaxed);
}

void *
engine_guard_fault(void)
{
	uint32_t n = atomic_load_explicit(&used, memory_order_relaxed); /* stored by this thread only */

	/* Pairs with the addition in the handler. */
	if (atomic_load_explicit(&num_faults, memory_order_acquire) == 0)
		return NULL;
	for (uint32_t i = 0; i < n; i++)
		if (take_fault(&guards[i]))
			return guards[i].owner;
	return NULL;
}
