/* SPDX-License-Identifier: BSD-3-Clause */
/* Microbenchmarks: keys, copies, adoption. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client/adopt/ranges.h"
#include "dataplane/mem/mem.h"
#include "micro.h"

/* memcpy, or mem_place when `user` is not NULL. */
static void
copy(struct gbench_state *state, void *user)
{
	size_t len = (size_t)gbench_arg(state);
	uint8_t *from = aligned_alloc(4096, (len + 4095) & ~(size_t)4095);
	uint8_t *to = aligned_alloc(4096, (len + 4095) & ~(size_t)4095);
	bool place = user != NULL;

	memset(from, 1, len);
	memset(to, 2, len);
	while (gbench_running(state)) {
		if (place)
			mem_place(to, from, len);
		else
			memcpy(to, from, len);
		gbench_use(to);
	}
	gbench_set_bytes(state, gbench_iterations(state) * len);
	free(from);
	free(to);
}

/* Keys of 4096 regions, looked up in random order. */
static void
key_lookup(struct gbench_state *state, void *user)
{
	enum { KEYS = 4096 };
	struct mem_table *table = mem_table_new(16);
	struct mem_region *region = calloc(KEYS, sizeof(*region));
	static uint8_t byte;
	uint32_t i = 0;

	for (uint32_t k = 0; k < KEYS; k++) {
		region[k] = (struct mem_region){.key = mem_key_new(table),
						.pz = 1,
						.access = ONE_ACCESS_ALL,
						.va = 4096,
						.length = 4096,
						.base = &byte};
		mem_publish(table, &region[k]);
	}
	while (gbench_running(state)) {
		i = i * 1664525u + 1013904223u;
		gbench_use(mem_check(table, region[i >> 20].key, 1, 7, ONE_ACCESS_REMOTE_WRITE, 4096, 64));
	}
	gbench_set_items(state, gbench_iterations(state));
	mem_table_free(table);
	free(region);
}

/* `arg` MiB of private memory, with a file under it, and given back: what a registration pays once. */
static void
adopt(struct gbench_state *state, void *user)
{
	static struct acquired acquired;
	size_t len = (size_t)gbench_arg(state) << 20;
	uint8_t *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t start = (uintptr_t)memory;

	if (memory == MAP_FAILED) {
		gbench_skip(state, "no memory");
		return;
	}
	memset(memory, 1, len);
	while (gbench_running(state)) {
		struct file *retired = NULL;

		memset(&acquired, 0, sizeof(acquired));
		if (ranges_acquire(start, start + len, true, &acquired, &retired) != 0 ||
		    acquired.num_ranges == 0) {
			gbench_skip(state, "memory cannot be adopted here");
			break;
		}
		piece_close_fds(&acquired);
		ranges_release(acquired.range, acquired.num_ranges, NULL, 0, &retired);
		while (retired != NULL) {
			struct file *next = retired->next;

			file_free(retired);
			retired = next;
		}
	}
	gbench_set_bytes(state, gbench_iterations(state) * len);
	munmap(memory, len);
}

void
micro_memory(void)
{
	static const int64_t copies[] = {8, 64, 1024, 4096, 65536, 1 << 20}, mib[] = {1, 16};
	static bool placing;

	gbench_register("key_lookup", key_lookup, NULL, NULL, 0);
	gbench_register("mem_place", copy, &placing, copies, 6);
	gbench_register("memcpy", copy, NULL, copies, 6);
	gbench_register("adopt", adopt, NULL, mib, 2);
}
