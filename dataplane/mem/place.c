/* SPDX-License-Identifier: BSD-3-Clause */
#include "place.h"

#include <errno.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#define CPUID_7_EBX_ERMS (1u << 9)
#endif

#define PLACE_CHUNK 4096u /* bytes placed in order: each chunk is complete before the next begins */
#define MOVE_CHUNK 2048u  /* bytes per memmove(), few enough that no C library uses `rep movsb` */
#define ALIAS_PAGE 4096u  /* bytes: distance from source to destination counts modulo this */
#define ALIAS_NEAR 64u    /* bytes: a shorter distance, but not 0, makes `rep movsb` slow */

/* Store one word with release order. Pairs with the load by which the application polls its buffer: acquire,
 * or volatile where the CPU keeps loads in order. */
static inline bool
place_word(void *dst, const void *src, size_t len)
{
	uint64_t v64;
	uint32_t v32;
	uint16_t v16;

	if (((uintptr_t)dst & (len - 1)) != 0)
		return false;
	/* The release stores pair with the load of an application that polls the word. */
	switch (len) {
	case 1:
		__atomic_store_n((uint8_t *)dst, *(const uint8_t *)src, __ATOMIC_RELEASE);
		return true;
	case 2:
		memcpy(&v16, src, 2);
		__atomic_store_n((uint16_t *)dst, v16, __ATOMIC_RELEASE);
		return true;
	case 4:
		memcpy(&v32, src, 4);
		__atomic_store_n((uint32_t *)dst, v32, __ATOMIC_RELEASE);
		return true;
	case 8:
		memcpy(&v64, src, 8);
		__atomic_store_n((uint64_t *)dst, v64, __ATOMIC_RELEASE);
		return true;
	default:
		return false;
	}
}

static inline bool
is_word(size_t len)
{
	return len == 1 || len == 2 || len == 4 || len == 8;
}

#ifdef __x86_64__
static bool have_string_moves;

__attribute__((constructor)) static void
find_string_moves(void)
{
	unsigned int a, b, c, d;

	have_string_moves = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & CPUID_7_EBX_ERMS) != 0;
}

/* Move one PLACE_CHUNK by `rep movsb`, if the CPU has fast string moves (ERMS): as fast as the longest
 * memcpy, or faster. Exception: if the low 12 bits of the destination are slightly above those of the source,
 * Zen 4 moves 3.5 GB/s instead of 49; memmove() itself has that problem. The stores within are unordered,
 * like those of memmove(); stores before and after are not reordered with them. */
static inline bool
move_string(void *dst, const void *src)
{
	size_t count = PLACE_CHUNK, ahead = ((uintptr_t)dst - (uintptr_t)src) % ALIAS_PAGE;

	if (!have_string_moves || (ahead != 0 && ahead < ALIAS_NEAR))
		return false;
	__asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(count) : : "memory");
	return true;
}
#else
static inline bool
move_string(void *dst, const void *src)
{
	return false;
}
#endif

/* memmove(), since a peer may name overlapping ranges. */
static inline void
move_chunks(uint8_t *to, const uint8_t *from, size_t len)
{
	for (; len > MOVE_CHUNK; len -= MOVE_CHUNK) {
		memmove(to, from, MOVE_CHUNK);
		to += MOVE_CHUNK;
		from += MOVE_CHUNK;
	}
	memmove(to, from, len);
}

void
mem_place(void *dst, const void *src, size_t len)
{
	const uint8_t *from = src;
	uint8_t *to = dst;
	size_t tail;

	if (len == 0 || (is_word(len) && place_word(dst, src, len)))
		return;
	/* A move may store the end of a chunk before its start. So order holds only between chunks, and in
	 * the last chunk by its own last store: that chunk is long enough for a whole word at its end. */
	while (len > PLACE_CHUNK + sizeof(uint64_t)) {
		if (!move_string(to, from))
			move_chunks(to, from, PLACE_CHUNK);
		/* Pairs with the load of an application that polls the end of the written range. */
		atomic_thread_fence(memory_order_release);
		to += PLACE_CHUNK;
		from += PLACE_CHUNK;
		len -= PLACE_CHUNK;
	}
	tail = mem_tail_len(to + len, len);
	if (len > tail)
		move_chunks(to, from, len - tail);
	place_word(to + len - tail, from + len - tail, tail);
}

int
mem_read(const struct mem_region *region, uint64_t va, void *dst, size_t len)
{
	if (len == 0)
		return 0;
	if (region->base == NULL)
		return -EFAULT;
	/* Load an aligned word whole: a peer that reads a counter sees no half of it. The acquire loads pair
	 * with the application's release store of the word. */
	if (!(is_word(len) && ((uintptr_t)mem_at(region, va) & (len - 1)) == 0)) {
		move_chunks(dst, mem_at(region, va), len);
		return 0;
	}
	switch (len) {
	case 1:
		*(uint8_t *)dst = __atomic_load_n(mem_at(region, va), __ATOMIC_ACQUIRE);
		break;
	case 2:
		memcpy(dst, &(uint16_t){__atomic_load_n((uint16_t *)mem_at(region, va), __ATOMIC_ACQUIRE)},
		       2);
		break;
	case 4:
		memcpy(dst, &(uint32_t){__atomic_load_n((uint32_t *)mem_at(region, va), __ATOMIC_ACQUIRE)},
		       4);
		break;
	default:
		memcpy(dst, &(uint64_t){__atomic_load_n((uint64_t *)mem_at(region, va), __ATOMIC_ACQUIRE)},
		       8);
		break;
	}
	return 0;
}

int
mem_write(const struct mem_region *region, uint64_t va, const void *src, size_t len)
{
	if (len == 0)
		return 0;
	if (region->base == NULL)
		return -EFAULT;
	mem_place(mem_at(region, va), src, len);
	return 0;
}

int
mem_copy(const struct mem_region *to, uint64_t to_va, const struct mem_region *from, uint64_t from_va,
	 size_t len)
{
	if (len == 0)
		return 0;
	if (from->base == NULL)
		return -EFAULT;
	return mem_write(to, to_va, mem_at(from, from_va), len);
}

int
mem_fetch_add(const struct mem_region *region, uint64_t va, uint64_t add, uint64_t *found)
{
	if ((va & 7) != 0 || region->base == NULL)
		return -EFAULT;
	if (((uintptr_t)mem_at(region, va) & 7) != 0)
		return -EFAULT;
	/* Acquire and release: pairs with the application's accesses to the word, and with other cores'
	 * atomics. */
	*found = __atomic_fetch_add((uint64_t *)mem_at(region, va), add, __ATOMIC_ACQ_REL);
	return 0;
}

int
mem_cmp_swap(const struct mem_region *region, uint64_t va, uint64_t compare, uint64_t swap, uint64_t *found)
{
	if ((va & 7) != 0 || region->base == NULL)
		return -EFAULT;
	if (((uintptr_t)mem_at(region, va) & 7) != 0)
		return -EFAULT;
	*found = compare; /* unchanged on success, else the value found */
	/* Pairs like the addition in mem_fetch_add(). */
	__atomic_compare_exchange_n((uint64_t *)mem_at(region, va), found, swap, false, __ATOMIC_ACQ_REL,
				    __ATOMIC_ACQUIRE);
	return 0;
}
