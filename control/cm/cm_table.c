/* SPDX-License-Identifier: BSD-3-Clause */
#include "cm_table.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#define TABLE_LOG2_FIRST 6u
#define TABLE_LOG2_LAST 24u
#define HEAP_FIRST 64u

int
cm_table_init(struct cm_table *table)
{
	table->log2 = TABLE_LOG2_FIRST;
	table->count = 0;
	table->bucket = calloc((size_t)1 << table->log2, sizeof(*table->bucket));
	return table->bucket == NULL ? -ENOMEM : 0;
}

void
cm_table_fini(struct cm_table *table)
{
	free(table->bucket);
	table->bucket = NULL;
}

static struct cm_node **
bucket_of(const struct cm_table *table, uint64_t hash)
{
	return &table->bucket[hash >> (64 - table->log2)];
}

/* Doubles the number of buckets.  Without memory the table works as before, with longer chains. */
static void
table_grow(struct cm_table *table)
{
	struct cm_table bigger = {.log2 = table->log2 + 1};

	if (bigger.log2 > TABLE_LOG2_LAST)
		return;
	bigger.bucket = calloc((size_t)1 << bigger.log2, sizeof(*bigger.bucket));
	if (bigger.bucket == NULL)
		return;
	for (size_t i = 0; i < (size_t)1 << table->log2; i++) {
		struct cm_node *node, *next;

		for (node = table->bucket[i]; node != NULL; node = next) {
			struct cm_node **head = bucket_of(&bigger, node->hash);

			next = node->next;
			node->next = *head;
			*head = node;
		}
	}
	free(table->bucket);
	table->bucket = bigger.bucket;
	table->log2 = bigger.log2;
}

void
cm_table_insert(struct cm_table *table, struct cm_node *node, uint64_t hash)
{
	struct cm_node **head;

	if (table->count >> table->log2 != 0)
		table_grow(table);
	head = bucket_of(table, hash);
	node->hash = hash;
	node->next = *head;
	node->linked = true;
	*head = node;
	table->count++;
}

void
cm_table_remove(struct cm_table *table, struct cm_node *node)
{
	struct cm_node **at;

	if (!node->linked)
		return;
	for (at = bucket_of(table, node->hash); *at != node; at = &(*at)->next)
		;
	*at = node->next;
	node->linked = false;
	table->count--;
}

static struct cm_node *
same_hash(struct cm_node *node, uint64_t hash)
{
	while (node != NULL && node->hash != hash)
		node = node->next;
	return node;
}

struct cm_node *
cm_table_first(const struct cm_table *table, uint64_t hash)
{
	return same_hash(*bucket_of(table, hash), hash);
}

struct cm_node *
cm_table_next(const struct cm_node *node)
{
	return same_hash(node->next, node->hash);
}

static uint64_t
hash_fold(uint64_t a, uint64_t b)
{
	__uint128_t product = (__uint128_t)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t
cm_hash(const uint64_t secret[2], uint64_t a, uint64_t b)
{
	/* Each input is multiplied by a nonzero constant: a zero factor would erase the other one. */
	uint64_t h = hash_fold(a ^ secret[0], 0x9e3779b97f4a7c15u) + b;

	h = hash_fold(h ^ secret[1], 0xd6e8feb86659fd93u);
	return hash_fold(h ^ secret[0], 0xa0761d6478bd642fu);
}

void
cm_heap_fini(struct cm_heap *heap)
{
	free(heap->timer);
	heap->timer = NULL;
	heap->count = heap->room = 0;
}

int
cm_heap_reserve(struct cm_heap *heap, uint32_t timers)
{
	struct cm_timer **bigger;
	uint32_t room = heap->room == 0 ? HEAP_FIRST : heap->room;

	if (timers <= heap->room)
		return 0;
	while (room < timers)
		room *= 2;
	bigger = realloc(heap->timer, (size_t)room * sizeof(*bigger));
	if (bigger == NULL)
		return -ENOMEM;
	heap->timer = bigger;
	heap->room = room;
	return 0;
}

static void
heap_put(struct cm_heap *heap, uint32_t place, struct cm_timer *timer)
{
	heap->timer[place - 1] = timer;
	timer->place = place;
}

/* Places `timer`, starting at the free place `at`: moves towards the root, then away from it. */
static void
heap_sift(struct cm_heap *heap, uint32_t at, struct cm_timer *timer)
{
	while (at > 1 && heap->timer[at / 2 - 1]->deadline > timer->deadline) {
		heap_put(heap, at, heap->timer[at / 2 - 1]);
		at /= 2;
	}
	for (;;) {
		uint32_t child = 2 * at;

		if (child > heap->count)
			break;
		if (child < heap->count && heap->timer[child]->deadline < heap->timer[child - 1]->deadline)
			child++;
		if (heap->timer[child - 1]->deadline >= timer->deadline)
			break;
		heap_put(heap, at, heap->timer[child - 1]);
		at = child;
	}
	heap_put(heap, at, timer);
}

void
cm_heap_set(struct cm_heap *heap, struct cm_timer *timer, uint64_t deadline)
{
	timer->deadline = deadline;
	if (timer->place == 0)
		timer->place = ++heap->count;
	heap_sift(heap, timer->place, timer);
}

void
cm_heap_clear(struct cm_heap *heap, struct cm_timer *timer)
{
	struct cm_timer *last;
	uint32_t place = timer->place;

	if (place == 0)
		return;
	timer->place = 0;
	last = heap->timer[--heap->count];
	if (last != timer)
		heap_sift(heap, place, last);
}

uint64_t
cm_heap_deadline(const struct cm_heap *heap)
{
	return heap->count == 0 ? UINT64_MAX : heap->timer[0]->deadline;
}

struct cm_timer *
cm_heap_due(struct cm_heap *heap, uint64_t now)
{
	struct cm_timer *first = heap->count == 0 ? NULL : heap->timer[0];

	if (first == NULL || first->deadline > now)
		return NULL;
	cm_heap_clear(heap, first);
	return first;
}
