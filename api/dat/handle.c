/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocator of handles; see handle.h. */
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>

#include "client/order.h"
#include "client/explain.h"
#include "handle.h"
#include "dat/object.h"

#define GROW_BYTES ((uintptr_t)64 * 1024)

struct handle_range handle_range;

static struct {
	pthread_mutex_t lock;
	uint32_t used; /* slots ever allocated */
	uint32_t num_free;
	struct handle_slot *first_free, *last_free; /* FIFO, oldest first */
} slots = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Returns a slot never used before, or NULL.  slots.lock held. */
static struct handle_slot *
fresh_slot(void)
{
	uintptr_t base = one_load_locked(&handle_range.base);
	uintptr_t limit = one_load_locked(&handle_range.limit);

	if (slots.used == HANDLE_SLOTS_MAX)
		return NULL;
	if (base == 0) {
		void *range = mmap(NULL, (size_t)HANDLE_SLOTS_MAX * HANDLE_SLOT, PROT_NONE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (range == MAP_FAILED)
			return NULL;
		base = (uintptr_t)range;
		/* The release store of the limit below publishes the base. */
		atomic_store_explicit(&handle_range.base, base, memory_order_relaxed);
	}
	if ((uintptr_t)slots.used * HANDLE_SLOT == limit) {
		if (mprotect((uint8_t *)base + limit, GROW_BYTES, PROT_READ | PROT_WRITE) < 0)
			return NULL;
		/* Pairs with the acquire load in handle_below, as does the store of `direct`. */
		atomic_store_explicit(&handle_range.limit, limit + GROW_BYTES, memory_order_release);
		if (!one_explaining)
			atomic_store_explicit(&handle_range.direct, limit + GROW_BYTES, memory_order_release);
	}
	return (struct handle_slot *)base + slots.used++;
}

DAT_HANDLE
handle_new(const DAT_PROVIDER *provider, DAT_HANDLE_TYPE type, void *object)
{
	struct handle_slot *slot = NULL;

	pthread_mutex_lock(&slots.lock);
	if (slots.num_free < HANDLE_REUSE_AFTER)
		slot = fresh_slot();
	if (slot == NULL && slots.first_free != NULL) {
		slot = slots.first_free;
		slots.first_free = slot->next_free;
		slots.num_free--;
	}
	pthread_mutex_unlock(&slots.lock);
	if (slot == NULL)
		return DAT_HANDLE_NULL;
	slot->provider = provider;
	slot->generation++;
	slot->next_free = NULL;
	one_store_alone(&slot->context, 0);
	/* The release store of the type publishes both.  Pairs with the acquire loads in handle_object and
	 * handle_kind. */
	atomic_store_explicit(&slot->object, object, memory_order_relaxed);
	atomic_store_explicit(&slot->type, (uint32_t)type + 1, memory_order_release);
	return slot;
}

void
handle_free(DAT_HANDLE handle)
{
	struct handle_slot *slot = handle;

	/* The provider pointer remains, so that calls on a freed handle reach our functions, which refuse it.
	 * A lookup that still sees the type finds NULL, or the object, whose memory lives as long as its IA.
	 */
	one_store_alone(&slot->type, 0);
	one_store_alone(&slot->object, NULL);
	pthread_mutex_lock(&slots.lock);
	if (slots.first_free == NULL)
		slots.first_free = slot;
	else
		slots.last_free->next_free = slot;
	slots.last_free = slot;
	slots.num_free++;
	pthread_mutex_unlock(&slots.lock);
}

bool
handle_forget(DAT_HANDLE handle)
{
	struct handle_slot *slot = handle_slot(handle);
	uint32_t inherited = HANDLE_INHERITED;

	/* Atomic so that only one of two concurrent closes succeeds; publishes nothing. */
	return slot != NULL && atomic_compare_exchange_strong(&slot->type, &inherited, 0);
}

/* fork handlers: the lock is held across fork, so the child gets a consistent allocator. */
static void
fork_prepare(void)
{
	pthread_mutex_lock(&slots.lock);
}

static void
fork_parent(void)
{
	pthread_mutex_unlock(&slots.lock);
}

static void
fork_child(void)
{
	struct handle_slot *slot = (struct handle_slot *)one_load_locked(&handle_range.base);

	for (uint32_t i = 0; i < slots.used; i++) {
		uint32_t type = one_load_alone(&slot[i].type); /* the child has only this thread */

		/* Free slots are not written to, so that their pages stay shared with the parent. */
		if (type != 0)
			one_store_alone(&slot[i].type, type == DAT_HANDLE_TYPE_IA + 1 ? HANDLE_INHERITED : 0);
	}
	pthread_mutex_unlock(&slots.lock);
}

__attribute__((constructor)) static void
watch_forks(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* ---- consumer contexts and handle types, which are stored in the handle's slot ---- */

DAT_RETURN
dapl_set_consumer_context(DAT_HANDLE dat_handle, DAT_CONTEXT context)
{
	struct handle_slot *slot = handle_live(dat_handle);

	if (slot == NULL)
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
	one_store_alone(&slot->context, context.as_64);
	return DAT_SUCCESS;
}

DAT_RETURN
dapl_get_consumer_context(DAT_HANDLE dat_handle, DAT_CONTEXT *context)
{
	struct handle_slot *slot = handle_live(dat_handle);

	if (slot == NULL)
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
	if (context == NULL)
		return BAD_ARG(2);
	context->as_64 = one_load_alone(&slot->context);
	return DAT_SUCCESS;
}

DAT_RETURN
dapl_get_handle_type(DAT_HANDLE dat_handle, DAT_HANDLE_TYPE *handle_type)
{
	uint32_t kind = handle_kind(dat_handle);

	if (kind == 0)
		return DAT_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
	if (handle_type == NULL)
		return BAD_ARG(2);
	*handle_type = (DAT_HANDLE_TYPE)(kind - 1);
	return DAT_SUCCESS;
}
