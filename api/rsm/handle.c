/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles. Each kind of object has a table of slots in one reserved range of addresses, which is never
 * unmapped. A handle is an address within its slot: slot address + generation. The library can therefore
 * check any value: the range identifies the kind, the generation detects a stale handle, and the slot's lock
 * can be taken whatever became of the object.
 *
 * After fork, the child's copies belong to the parent's attachment, and may hold locks of threads that the
 * child does not have. Such slots are foreign: the child never touches their locks.
 */
#include "client/attach.h"
#include "rsm/handle.h"

#include <string.h>
#include <sys/mman.h>

_Atomic uint32_t rsm_process;

#define TABLE(name)                                                                           \
	{                                                                                     \
		.lock = PTHREAD_MUTEX_INITIALIZER, .free = STAILQ_HEAD_INITIALIZER(name.free) \
	}
struct rsm_table rsm_controllers = TABLE(rsm_controllers);
struct rsm_table rsm_exports = TABLE(rsm_exports);
struct rsm_table rsm_imports = TABLE(rsm_imports);
struct rsm_table rsm_localmems = TABLE(rsm_localmems);

pthread_mutex_t rsm_attach_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t rsm_polled_lock = PTHREAD_MUTEX_INITIALIZER;

static pthread_mutex_t *const brief[] = {&rsm_controllers.lock, &rsm_exports.lock, &rsm_imports.lock,
					 &rsm_localmems.lock, &rsm_polled_lock};
#define NUM_BRIEF (sizeof(brief) / sizeof(brief[0]))

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The locks in `brief` are held briefly. Fork takes them all, so that the child inherits consistent lists. */
static void
fork_prepare(void)
{
	for (size_t i = 0; i < NUM_BRIEF; i++)
		pthread_mutex_lock(brief[i]);
}

static void
fork_parent(void)
{
	for (size_t i = NUM_BRIEF; i-- > 0;)
		pthread_mutex_unlock(brief[i]);
}

static void
fork_child(void)
{
	fork_parent();
	pthread_mutex_init(&rsm_attach_lock, NULL); /* a thread of the parent may hold it for long */
	one_store_alone(&rsm_process, rsm_this_process() + 1);
}

static void
register_fork(void)
{
	/* Failure needs no handling: one_attach() then fails as well. */
	one_at_fork(fork_prepare, fork_parent, fork_child);
}

void
rsm_watch_forks(void)
{
	pthread_once(&once, register_fork);
}

static struct rsm_slot *
slot_of(uint8_t *base, uint32_t index)
{
	return (struct rsm_slot *)(base + (size_t)index * RSM_SLOT_SIZE);
}

void *
rsm_slot_new(struct rsm_table *table)
{
	struct rsm_slot *slot;
	uint8_t *base;
	uint32_t used;

	pthread_mutex_lock(&table->lock);
	base = one_load_locked(&table->base);
	if (base == NULL) {
		void *map = mmap(NULL, (size_t)RSM_SLOTS * RSM_SLOT_SIZE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (map == MAP_FAILED) {
			pthread_mutex_unlock(&table->lock);
			return NULL;
		}
		base = map;
		/* Pairs with the acquire load in rsm_table_base. */
		atomic_store_explicit(&table->base, base, memory_order_release);
	}
	used = one_load_locked(&table->used);
	slot = STAILQ_FIRST(&table->free);
	if (slot != NULL) {
		STAILQ_REMOVE_HEAD(&table->free, next_free);
	} else if (used < RSM_SLOTS) {
		slot = slot_of(base, used);
		pthread_mutex_init(&slot->lock, NULL);
		one_store_alone(&slot->process, rsm_this_process());
		/* Pairs with the acquire load in rsm_table_used(): the slot's lock is initialised. */
		atomic_store_explicit(&table->used, used + 1, memory_order_release);
	}
	if (slot != NULL) {
		one_store_alone(&slot->polled_by, NULL);
		memset((uint8_t *)slot + sizeof(*slot), 0, RSM_SLOT_SIZE - sizeof(*slot));
		if (rsm_slot_foreign(slot)) {
			pthread_mutex_init(&slot->lock, NULL); /* a thread of the parent may hold it */
			one_store_alone(&slot->process, rsm_this_process());
		}
	}
	pthread_mutex_unlock(&table->lock);
	return slot;
}

void *
rsm_slot_handle(const void *object)
{
	return (uint8_t *)(uintptr_t)object + ((const struct rsm_slot *)object)->generation;
}

void *
rsm_slot_publish(void *object)
{
	struct rsm_slot *slot = object;

	pthread_mutex_lock(&slot->lock);
	slot->live = true;
	pthread_mutex_unlock(&slot->lock);
	return rsm_slot_handle(object);
}

/* Returns the slot that contains the handle, and the handle's generation; NULL if no slot does. */
static struct rsm_slot *
find(struct rsm_table *table, const void *handle, uint16_t *generation)
{
	uint8_t *base = rsm_table_base(table);
	uint32_t used = rsm_table_used(table);
	uintptr_t offset = (uintptr_t)handle - (uintptr_t)base;

	if (base == NULL || offset / RSM_SLOT_SIZE >= used)
		return NULL;
	*generation = (uint16_t)(offset % RSM_SLOT_SIZE);
	return slot_of(base, (uint32_t)(offset / RSM_SLOT_SIZE));
}

enum rsm_found
rsm_slot_lock(struct rsm_table *table, const void *handle, void **object)
{
	uint16_t generation = 0;
	struct rsm_slot *slot = find(table, handle, &generation);

	if (slot == NULL)
		return RSM_NONE;
	if (rsm_slot_foreign(slot)) {
		if (!slot->live || slot->generation != generation)
			return RSM_NONE;
		*object = slot;
		return RSM_FOREIGN;
	}
	pthread_mutex_lock(&slot->lock);
	if (!slot->live || slot->generation != generation) {
		pthread_mutex_unlock(&slot->lock);
		return RSM_NONE;
	}
	*object = slot;
	return RSM_LIVE;
}

void *
rsm_slot_at(struct rsm_table *table, uint32_t index)
{
	struct rsm_slot *slot;

	if (index >= rsm_table_used(table))
		return NULL;
	slot = slot_of(rsm_table_base(table), index);
	if (rsm_slot_foreign(slot))
		return NULL;
	pthread_mutex_lock(&slot->lock);
	if (!slot->live) {
		pthread_mutex_unlock(&slot->lock);
		return NULL;
	}
	return slot;
}

void *
rsm_slot_polled(struct rsm_table *table, uint32_t index, struct rsm_link *link)
{
	struct rsm_slot *slot = slot_of(rsm_table_base(table), index);
	void *handle = NULL;

	/* A lock-free check first: the slot's lock may be held for long. The load needs no order, because the
	 * value is only compared, never dereferenced. */
	if (one_load_alone(&slot->polled_by) != link)
		return NULL;
	slot = rsm_slot_at(table, index);
	if (slot != NULL) {
		handle = rsm_slot_handle(slot);
		rsm_slot_unlock(slot);
	}
	return handle;
}

void
rsm_slot_unlock(void *object)
{
	struct rsm_slot *slot = object;

	if (!rsm_slot_foreign(slot))
		pthread_mutex_unlock(&slot->lock);
}

void
rsm_slot_drop(struct rsm_table *table, void *object)
{
	struct rsm_slot *slot = object;

	pthread_mutex_lock(&table->lock);
	STAILQ_INSERT_TAIL(&table->free, slot, next_free);
	pthread_mutex_unlock(&table->lock);
}

void
rsm_slot_retire(struct rsm_table *table, void *object)
{
	struct rsm_slot *slot = object;

	slot->live = false;
	slot->generation = (uint16_t)((slot->generation + 1) % RSM_SLOT_SIZE);
	rsm_slot_unlock(slot);
	rsm_slot_drop(table, slot);
}
