/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mappings that another process can make fault, by truncating the file or punching what its filesystem
 * cannot give back.  The SIGBUS handler replaces the whole mapping by zeroed private memory, so that the
 * core goes on, and notes the owner, which the control thread then detaches.
 *
 * The table is written by the control thread and read by handlers on any thread.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "guard.h"

struct guard {
	_Atomic uintptr_t base; /* 0: free */
	_Atomic size_t len;
	void *owner; /* control thread */
	_Atomic bool faulted;
};

static struct guard guards[ENGINE_GUARDS_MAX];
static _Atomic uint32_t used;       /* guards before this may be in use */
static _Atomic uint32_t num_faults; /* not yet asked for */
static uint32_t hint;               /* control thread: free ones are from here on */
static struct sigaction previous;
static int told; /* eventfd, written at a fault */

static struct guard *
find(uintptr_t addr)
{
	/* Pair with the release stores in engine_guard_add. */
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

static void
on_sigbus(int signal_number, siginfo_t *info, void *context)
{
	int saved = errno;
	struct guard *guard = find((uintptr_t)info->si_addr);

	/* Only system calls from here on: mmap, write.  What find() has acquired is loaded again. */
	if (guard != NULL &&
	    mmap((void *)atomic_load_explicit(&guard->base, memory_order_relaxed),
		 atomic_load_explicit(&guard->len, memory_order_relaxed), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED) {
		/* Pairs with the exchange in engine_guard_fault. */
		if (!atomic_exchange_explicit(&guard->faulted, true, memory_order_release)) {
			atomic_fetch_add_explicit(&num_faults, 1, memory_order_release);
			eventfd_write(told, 1);
		}
		errno = saved;
		return;
	}
	/* Not a client's doing: die of it, with a core dump that shows where. */
	sigaction(SIGBUS, &previous, NULL);
	errno = saved;
}

int
guard_init(int event_fd)
{
	struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};

	told = event_fd;
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

	/* Only this thread stores `base`; the release store below publishes the others to find(). */
	while (i < ENGINE_GUARDS_MAX && atomic_load_explicit(&guards[i].base, memory_order_relaxed) != 0)
		i++;
	if (i == ENGINE_GUARDS_MAX)
		return -ENOSPC;
	guards[i].owner = owner;
	atomic_store_explicit(&guards[i].faulted, false, memory_order_relaxed);
	atomic_store_explicit(&guards[i].len, len, memory_order_relaxed);
	atomic_store_explicit(&guards[i].base, (uintptr_t)base, memory_order_release); /* pairs with find() */
	if (i >= atomic_load_explicit(&used, memory_order_relaxed))
		atomic_store_explicit(&used, i + 1, memory_order_release); /* pairs with find() */
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

void
engine_guard_remove(int guard)
{
	uint32_t i = (uint32_t)guard - 1;

	/* Pairs with nothing: no thread touches the mapping any more, so no handler looks for it. */
	atomic_store_explicit(&guards[i].base, 0, memory_order_relaxed);
	take_fault(&guards[i]);
	if (i < hint)
		hint = i;
	/* Stored by this thread. */
	if (i + 1 == atomic_load_explicit(&used, memory_order_relaxed))
		atomic_store_explicit(&used, i, memory_order_relaxed);
}

void *
engine_guard_fault(void)
{
	uint32_t n = atomic_load_explicit(&used, memory_order_relaxed); /* this thread's */

	/* Pairs with the handler's. */
	if (atomic_load_explicit(&num_faults, memory_order_acquire) == 0)
		return NULL;
	for (uint32_t i = 0; i < n; i++)
		if (take_fault(&guards[i]))
			return guards[i].owner;
	return NULL;
}
