/* SPDX-License-Identifier: BSD-3-Clause */
/* Id tables, the arena's allocator, quotas, and which descriptors may be mapped. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/base/arena.h"
#include "control/base/port_space.h"
#include "control/base/quota.h"
#include "control/objects/objects.h"
#include "control/base/table.h"
#include "tests.h"

#define PAGE 4096u

static void
close_arena(struct arena *arena)
{
	assert_int_equal(munmap(arena->base, arena->size), 0);
	arena_leave(arena);
}

/* ---- tables ---- */

static void
test_table_ids(void **state)
{
	int a, b, c;
	struct table table;
	uint32_t ia, ib, again;

	table_init(&table, 2);
	ia = table_add(&table, &a);
	ib = table_add(&table, &b);
	assert_int_not_equal(ia, 0);
	assert_int_not_equal(ib, 0);
	assert_int_not_equal(ia, ib);
	assert_int_equal(table_add(&table, &c), 0);
	assert_ptr_equal(table_get(&table, ia), &a);
	assert_ptr_equal(table_get(&table, ib), &b);
	assert_null(table_get(&table, 0));
	assert_null(table_get(&table, ia + 0x10000));
	assert_null(table_get(&table, 0x00010000 | 7));
	assert_null(table_get(&table, UINT32_MAX));
	/* The slot is reused with another id, and the old id remains unknown. */
	assert_ptr_equal(table_remove(&table, ia), &a);
	assert_null(table_get(&table, ia));
	assert_null(table_remove(&table, ia));
	again = table_add(&table, &c);
	assert_int_not_equal(again, ia);
	assert_int_equal(table_index(again), table_index(ia));
	assert_null(table_get(&table, ia));
	assert_ptr_equal(table_get(&table, again), &c);
	assert_int_equal(table.used, 2);
	table_fini(&table);
}

/* A successor gives out no id that its predecessor has freed, of slots between objects and behind the last.
 */
static void
test_table_resumed(void **state)
{
	int a, b, c;
	struct table old, new;
	uint16_t generation[16];
	uint32_t first, middle, freed[2];

	table_init(&old, 16);
	first = table_add(&old, &a);
	freed[0] = table_add(&old, &b);
	middle = table_add(&old, &b);
	freed[1] = table_add(&old, &c);
	table_remove(&old, freed[0]);
	table_remove(&old, freed[1]);
	assert_int_equal(old.size, 16);
	table_generations(&old, generation);
	table_init(&new, 4);
	assert_int_equal(table_resume(&new, generation, old.size), 0);
	assert_int_equal(table_put(&new, first, &a), 0);
	assert_int_equal(table_put(&new, middle, &b), 0);
	table_relink(&new);
	for (int i = 0; i < 2; i++) {
		uint32_t id = table_add(&new, &c);

		assert_int_equal(table_index(id), table_index(freed[i]));
		assert_int_not_equal(id, freed[i]);
	}
	assert_int_equal(table_add(&new, &c), 0);
	assert_ptr_equal(table_get(&new, first), &a);
	table_fini(&new);
	table_fini(&old);
}

static void
test_table_generations(void **state)
{
	struct table table;
	uint32_t first, id = 0;
	int a;

	table_init(&table, 1);
	first = table_add(&table, &a);
	id = first;
	for (uint32_t i = 0; i < 65534; i++) {
		assert_ptr_equal(table_remove(&table, id), &a);
		id = table_add(&table, &a);
		assert_int_not_equal(id, 0);
		assert_int_not_equal(id, first);
	}
	/* An id is reused only after all generations of its slot. */
	table_remove(&table, id);
	assert_int_equal(table_add(&table, &a), first);
	table_fini(&table);
}

static void
test_table_grows(void **state)
{
	static int objects[5000];
	static uint32_t ids[5000];
	struct table table;
	uint32_t seen = 0;

	table_init(&table, 5000);
	for (int i = 0; i < 5000; i++) {
		ids[i] = table_add(&table, &objects[i]);
		assert_int_equal(table_index(ids[i]), i); /* dense: some are array indices elsewhere */
	}
	for (int i = 0; i < 5000; i++)
		assert_ptr_equal(table_get(&table, ids[i]), &objects[i]);
	for (int i = 0; i < 5000; i += 2)
		table_remove(&table, ids[i]);
	for (uint32_t i = 0; i < table.size; i++)
		seen += table_at(&table, i) != NULL;
	assert_int_equal(seen, 2500);
	table_fini(&table);
	table_init(&table, 0);
	assert_int_equal(table_add(&table, &objects[0]), 0);
	table_fini(&table);
}

/* ---- arena ---- */

#define ARENA_SIZE (64u << 20)

static bool
is_zero(const uint8_t *at, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		if (at[i] != 0)
			return false;
	return true;
}

static uint64_t
file_bytes(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

static void
test_arena_is_sealed(void **state)
{
	struct arena arena;
	int fd = arena_open(&arena, ARENA_SIZE, 3 * PAGE);

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(ftruncate(fd, 2 * ARENA_SIZE), -1);
	assert_int_equal(arena.used, 3 * PAGE);
	close(fd);
	close_arena(&arena);
}

static void
test_arena_alloc(void **state)
{
	struct arena arena;
	int fd = arena_open(&arena, ARENA_SIZE, PAGE);
	uint64_t a, b, c, d, bytes;

	assert_true(fd >= 0);
	assert_int_equal(arena_alloc(&arena, 1, &a), 0);
	assert_int_equal(arena_alloc(&arena, PAGE + 1, &b), 0);
	assert_int_equal(arena_alloc(&arena, 10 * PAGE, &c), 0);
	assert_true(a >= PAGE && a % PAGE == 0 && b % PAGE == 0 && c % PAGE == 0);
	assert_true(b >= a + PAGE && c >= b + 2 * PAGE);
	assert_int_equal(arena.used, 14 * PAGE);
	assert_int_equal(arena_populate(arena.base + c, 10 * PAGE), 0);
	bytes = file_bytes(fd);
	assert_true(bytes >= 10 * PAGE);
	arena_punch(arena.base + c, 10 * PAGE);
	assert_true(file_bytes(fd) <= bytes - 10 * PAGE); /* freed in the file */
	arena_free(&arena, c, 10 * PAGE);
	assert_int_equal(arena_alloc(&arena, 10 * PAGE, &d), 0);
	assert_int_equal(d, c);
	assert_int_equal(arena_alloc(&arena, ARENA_SIZE, &d), -ENOSPC);
	assert_int_equal(arena_alloc(&arena, UINT64_MAX, &d), -ENOSPC);
	close(fd);
	close_arena(&arena);
}

/* Parts of all sizes, until the arena is full. Freed parts are reused, zeroed. */
static void
test_small(void **state)
{
	static const uint64_t bytes[] = {1, 256, 257, 320, 1000, 2048, 2049, 4096};
	struct arena arena;
	struct arena_slabs small = {0};
	int fd = arena_open(&arena, 32 * PAGE, PAGE);
	uint64_t offset, used, last[8];

	assert_true(fd >= 0);
	close(fd);
	for (size_t i = 0; i < 8; i++) {
		uint64_t need = arena_slab_need(&small, bytes[i]);

		used = arena.used;
		assert_int_equal(arena_slab_alloc(&small, &arena, bytes[i], &last[i]), 0);
		assert_int_equal(arena.used, used + need);
		assert_true(last[i] >= PAGE && last[i] % ONE_CACHE_LINE == 0);
		memset(arena.base + last[i], (int)i + 1, bytes[i]);
		for (size_t k = 0; k < i; k++)
			assert_true(last[k] + bytes[k] <= last[i] || last[i] + bytes[i] <= last[k]);
	}
	for (size_t i = 0; i < 8; i++)
		for (size_t k = 0; k < bytes[i]; k++)
			assert_int_equal(arena.base[last[i] + k], i + 1);
	used = arena.used;
	for (size_t i = 0; i < 8; i++) {
		arena_slab_free(&small, last[i], bytes[i]);
		/* A hostile application still writes there, or frees the page in the file. */
		memset(arena.base + last[i], 0xa5, bytes[i]);
		if (bytes[i] == 4096)
			assert_int_equal(madvise(arena.base + last[i] / PAGE * PAGE, PAGE, MADV_REMOVE), 0);
		assert_int_equal(arena_slab_need(&small, bytes[i]), 0);
		assert_int_equal(arena_slab_alloc(&small, &arena, bytes[i], &offset), 0);
		assert_int_equal(offset, last[i]);
		assert_true(is_zero(arena.base + offset, bytes[i]));
	}
	assert_int_equal(arena.used, used);
	while (arena_slab_alloc(&small, &arena, 4096, &offset) == 0)
		assert_true(offset + 4096 <= 32 * PAGE);
	assert_int_equal(arena_slab_alloc(&small, &arena, 4096, &offset), -ENOSPC);
	arena_slab_free(&small, last[7], 4096);
	assert_int_equal(arena_slab_alloc(&small, &arena, 4096, &offset), 0);
	arena_slab_fini(&small);
	close_arena(&arena);
}

/* Random allocations, checked against a map of used pages; finally all free space is one extent. */
static void
test_arena_random(void **state)
{
	static uint8_t owner[ARENA_SIZE / PAGE];
	struct {
		uint64_t offset, size;
	} part[200] = {{0, 0}};
	struct arena arena;
	int fd = arena_open(&arena, ARENA_SIZE, PAGE);
	uint64_t offset;

	assert_true(fd >= 0);
	close(fd);
	srandom(1);
	memset(owner, 0, sizeof(owner));
	owner[0] = 255;
	for (int i = 0; i < 5000; i++) {
		int n = (int)(random() % 200);

		if (part[n].size == 0) {
			uint64_t size = 1 + (uint64_t)random() % (60 * PAGE);

			assert_int_equal(arena_alloc(&arena, size, &part[n].offset), 0);
			part[n].size = size;
			for (uint64_t p = 0; p < arena_rounded(size) / PAGE; p++) {
				assert_int_equal(owner[part[n].offset / PAGE + p], 0);
				owner[part[n].offset / PAGE + p] = 1;
			}
		} else {
			arena_free(&arena, part[n].offset, part[n].size);
			memset(&owner[part[n].offset / PAGE], 0, arena_rounded(part[n].size) / PAGE);
			part[n].size = 0;
		}
	}
	for (int n = 0; n < 200; n++)
		if (part[n].size != 0)
			arena_free(&arena, part[n].offset, part[n].size);
	assert_int_equal(arena.used, PAGE);
	assert_int_equal(arena.num_free, 1);
	assert_int_equal(arena_alloc(&arena, ARENA_SIZE - PAGE, &offset), 0);
	assert_int_equal(offset, PAGE);
	close_arena(&arena);
}

/* Freeing every other part needs the most extents: there must be room for them. */
static void
test_arena_fragments(void **state)
{
	static uint64_t part[2000];
	struct arena arena;
	int fd = arena_open(&arena, ARENA_SIZE, PAGE);

	assert_true(fd >= 0);
	close(fd);
	for (int i = 0; i < 2000; i++)
		assert_int_equal(arena_alloc(&arena, PAGE, &part[i]), 0);
	for (int i = 0; i < 2000; i += 2)
		arena_free(&arena, part[i], PAGE);
	assert_int_equal(arena.num_free, 1001);
	assert_true(arena.num_free <= arena.cap_free);
	for (int i = 1; i < 2000; i += 2)
		arena_free(&arena, part[i], PAGE);
	assert_int_equal(arena.num_free, 1);
	close_arena(&arena);
}

/* ---- quotas ---- */

static void
gone(struct quota *quota, struct quota_account *account)
{
	quota_disconnect(quota, account);
	quota_leave(quota, account);
}

/* A user that has disconnected makes room for connections at once, and for attachments once its last one is
 * freed. */
static void
test_quota_leaving(void **state)
{
	struct quota quota = {.max_clients = 2, .max_clients_per_uid = 1};
	struct quota_account *a = quota_connect(&quota, 10);
	struct quota_limit limit = {0};

	assert_int_equal(quota_attach(&quota, a, &limit), 0);
	assert_false(quota_is_leaving(a));
	for (uint32_t i = 0; i < 1000; i++) {
		uint32_t left = a->left;

		quota_disconnect(&quota, a);
		assert_true(quota_is_leaving(a));
		assert_ptr_equal(quota_connect(&quota, 10), a);
		assert_int_equal(quota_attach(&quota, a, &limit), -EDQUOT);
		quota_detach(&quota, a);
		quota_leave(&quota, a);
		assert_int_not_equal(a->left, left); /* waiters for room check again */
		assert_false(quota_is_leaving(a));
		assert_int_equal(quota_attach(&quota, a, &limit), 0);
	}
	quota_detach(&quota, a);
	gone(&quota, a);
	assert_true(LIST_EMPTY(&quota.accounts));
}

/* The data plane's own memory for a user has a limit in addition to that of all memory. */
static void
test_quota_own(void **state)
{
	struct quota quota = {
		.max_clients = 1, .max_clients_per_uid = 1, .max_bytes_per_uid = 100, .max_own_per_uid = 60};
	struct quota_account *a = quota_connect(&quota, 10);
	struct quota_limit limit = {0};
	uint64_t used = 0;

	assert_int_equal(quota_charge_own(&quota, a, 61, &limit), -EDQUOT);
	assert_int_equal(limit.value, 60);
	assert_string_equal(limit.key, ONE_LIMIT_MEMORY);
	assert_int_equal(quota_charge_own(&quota, a, 60, &limit), 0);
	assert_int_equal(quota_charge_own(&quota, a, 1, &limit), -EDQUOT);
	assert_int_equal(quota_charge(&quota, a, &used, UINT64_MAX, 40, &limit), 0);
	quota_release_own(a, 10);
	assert_int_equal(quota_charge_own(&quota, a, 11, &limit), -EDQUOT);
	assert_int_equal(quota_charge(&quota, a, &used, UINT64_MAX, 10, &limit), 0);
	assert_int_equal(quota_charge_own(&quota, a, 1, &limit), -EDQUOT);
	assert_int_equal(limit.value, 100);
	quota_release(a, &used, 50);
	quota_release_own(a, 50);
	assert_int_equal(a->bytes + a->own, 0);
	gone(&quota, a);
}

static void
test_quota_clients(void **state)
{
	struct quota quota = {.max_clients = 3, .max_clients_per_uid = 2, .max_bytes_per_uid = 100};
	struct quota_account *a = quota_connect(&quota, 10), *b = quota_connect(&quota, 11);
	struct quota_limit limit = {0};

	assert_ptr_equal(quota_connect(&quota, 10), a);
	assert_ptr_equal(quota_connect(&quota, 10), a);
	assert_ptr_not_equal(a, b);
	assert_int_equal(quota_attach(&quota, a, &limit), 0);
	assert_int_equal(quota_attach(&quota, a, &limit), 0);
	assert_int_equal(quota_attach(&quota, a, &limit), -EDQUOT);
	assert_int_equal(limit.value, 2);
	assert_int_equal(quota_attach(&quota, b, &limit), 0);
	assert_int_equal(quota_attach(&quota, b, &limit), -EDQUOT);
	assert_int_equal(limit.value, 3);
	quota_detach(&quota, a);
	assert_int_equal(quota_attach(&quota, b, &limit), 0);
	quota_detach(&quota, a);
	quota_detach(&quota, b);
	quota_detach(&quota, b);
	for (int i = 0; i < 3; i++)
		gone(&quota, a);
	gone(&quota, b);
	assert_true(LIST_EMPTY(&quota.accounts));
	assert_int_equal(quota.clients + quota.connections, 0);
}

static void
test_quota_common(void **state)
{
	struct quota quota = {.max_clients = 9, .max_clients_per_uid = 3};
	struct quota_account *a = quota_connect(&quota, 10), *b = quota_connect(&quota, 11);
	struct quota_limit limit = {0};

	quota.max_common[QUOTA_KEYS] = 100;
	quota.max_common[QUOTA_ZONES] = 1;
	/* A single user gets at most three quarters; all users together get all. */
	assert_int_equal(quota_take(&quota, a, QUOTA_KEYS, 74, &limit), 0);
	assert_int_equal(quota_take(&quota, a, QUOTA_KEYS, 2, &limit), -EDQUOT);
	assert_int_equal(limit.value, 75);
	assert_string_equal(limit.key, "");
	assert_int_equal(quota_take(&quota, a, QUOTA_KEYS, 1, &limit), 0);
	assert_int_equal(quota_take(&quota, a, QUOTA_KEYS, 1, &limit), -EDQUOT);
	assert_int_equal(quota_take(&quota, b, QUOTA_KEYS, 26, &limit), -EDQUOT);
	assert_int_equal(limit.value, 100);
	assert_int_equal(quota_take(&quota, b, QUOTA_KEYS, UINT32_MAX, &limit), -EDQUOT);
	assert_int_equal(quota_take(&quota, b, QUOTA_KEYS, 25, &limit), 0);
	/* Keys that a user gives back are available to others. */
	quota_give(&quota, a, QUOTA_KEYS, 5);
	assert_int_equal(quota_take(&quota, b, QUOTA_KEYS, 6, &limit), -EDQUOT);
	assert_int_equal(quota_take(&quota, b, QUOTA_KEYS, 5, &limit), 0);
	/* Each resource has a limit of its own. */
	assert_int_equal(quota_take(&quota, b, QUOTA_ZONES, 1, &limit), 0);
	assert_int_equal(quota_take(&quota, b, QUOTA_QPNS, 1, &limit), -EDQUOT);
	assert_int_equal(limit.value, 0);
	quota_give(&quota, b, QUOTA_ZONES, 1);
	quota_give(&quota, b, QUOTA_KEYS, 30);
	quota_give(&quota, a, QUOTA_KEYS, 70);
	assert_int_equal(quota.common[QUOTA_KEYS], 0);
	gone(&quota, a);
	gone(&quota, b);
}

/* ---- TCP ports ---- */

static void
test_port_space(void **state)
{
	static struct port_space space;
	uint32_t n = 0;

	assert_true(port_space_take(&space, 5000));
	assert_false(port_space_take(&space, 5000));
	assert_true(port_space_take(&space, 0) && port_space_take(&space, UINT16_MAX));
	/* Any port: each once, ephemeral ports first, ports below 1024 never. */
	assert_int_equal(port_space_take_any(&space), PORT_SPACE_EPHEMERAL);
	for (uint32_t last = PORT_SPACE_EPHEMERAL, port; (port = port_space_take_any(&space)) != 0;
	     last = port) {
		assert_int_equal(port, last == 60999                      ? PORT_SPACE_ANY
				       : last == 4999                     ? 5001
				       : last == PORT_SPACE_EPHEMERAL - 1 ? 61000
									  : last + 1);
		n++;
	}
	assert_int_equal(n, PORT_SPACE - PORT_SPACE_ANY - 3);
	assert_false(port_space_take(&space, 40000));
	assert_true(port_space_take(&space, 80));
	/* A port that was given back is found, wherever the search begins. */
	for (uint32_t port = UINT16_MAX; port >= PORT_SPACE_ANY; port -= 7) {
		port_space_give(&space, (uint16_t)port);
		assert_int_equal(port_space_take_any(&space), port);
	}
	port_space_give(&space, 80);
	assert_int_equal(port_space_take_any(&space), 0);
}

static void
test_quota_connections(void **state)
{
	struct quota quota = {.max_clients = 2, .max_clients_per_uid = 1};
	struct quota_account *a = NULL, *first;
	uint32_t n = 0;

	/* A single user cannot take all connections. */
	for (struct quota_account *next; (next = quota_connect(&quota, 10)) != NULL; n++)
		a = next;
	assert_int_equal(n, 1 + QUOTA_SPARE_CONNECTIONS);
	assert_non_null(quota_connect(&quota, 11));
	assert_null(quota_connect(&quota, 12));
	first = LIST_FIRST(&quota.accounts);
	gone(&quota, first->uid == 11 ? first : LIST_NEXT(first, link));
	while (n-- > 0)
		gone(&quota, a);
	assert_true(LIST_EMPTY(&quota.accounts));
}

static void
test_quota_bytes(void **state)
{
	struct quota quota = {.max_clients = 9, .max_clients_per_uid = 9, .max_bytes_per_uid = 100};
	struct quota_account *a = quota_connect(&quota, 10);
	struct quota_limit limit = {0};
	uint64_t one = 0, two = 0;

	assert_int_equal(quota_charge(&quota, a, &one, 70, 60, &limit), 0);
	assert_int_equal(quota_charge(&quota, a, &one, 70, 11, &limit), -EDQUOT);
	assert_int_equal(limit.value, 70);
	assert_int_equal(quota_charge(&quota, a, &two, 70, 41, &limit), -EDQUOT);
	assert_int_equal(limit.value, 100);
	assert_int_equal(quota_charge(&quota, a, &two, 70, 40, &limit), 0);
	assert_int_equal(quota_charge(&quota, a, &two, UINT64_MAX, UINT64_MAX - 10, &limit), -EDQUOT);
	assert_int_equal(one, 60);
	assert_int_equal(two, 40);
	quota_release(a, &one, 60);
	assert_int_equal(quota_charge(&quota, a, &two, 200, 60, &limit), 0);
	assert_int_equal(quota_charge(&quota, a, &two, 200, 1, &limit), -EDQUOT);
	quota_release(a, &two, 100);
	assert_int_equal(a->bytes, 0);
	gone(&quota, a);
}

/* ---- regions ---- */

static void
test_region_check(void **state)
{
	int sealed = memfd_create("sealed", MFD_ALLOW_SEALING),
	    open_fd = memfd_create("open", MFD_ALLOW_SEALING);
	int pipe_fd[2], sockets[2], directory, file;
	char path[] = "/tmp/test-control.XXXXXX";
	uint64_t page = 0;

	assert_int_equal(ftruncate(sealed, 4 * PAGE), 0);
	assert_int_equal(ftruncate(open_fd, 4 * PAGE), 0);
	assert_int_equal(fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(region_check(sealed, 4 * PAGE, true, &page), 0);
	assert_int_equal(page, PAGE);
	assert_int_equal(region_check(sealed, PAGE, true, &page), 0);
	assert_int_equal(region_check(open_fd, 4 * PAGE, true, &page), -EPERM);
	assert_int_equal(region_check(open_fd, 4 * PAGE, false, &page), 0);
	assert_int_equal(region_check(sealed, 5 * PAGE, true, &page), -EINVAL);
	assert_int_equal(region_check(sealed, PAGE + 1, true, &page), -EINVAL);
	assert_int_equal(region_check(sealed, 0, true, &page), -EINVAL);
	assert_int_equal(region_check(sealed, UINT64_MAX & ~(uint64_t)(PAGE - 1), true, &page), -EINVAL);
	/* The file may end within the last page. */
	assert_int_equal(ftruncate(open_fd, 3 * PAGE + 1), 0);
	assert_int_equal(region_check(open_fd, 4 * PAGE, false, &page), 0);
	assert_int_equal(region_check(open_fd, 5 * PAGE, false, &page), -EINVAL);
	close(sealed);
	close(open_fd);

	/* Descriptors other than plain memory are refused before their size is queried. */
	assert_int_equal(pipe(pipe_fd), 0);
	assert_int_equal(region_check(pipe_fd[0], PAGE, false, &page), -EBADF);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	assert_int_equal(region_check(sockets[0], PAGE, false, &page), -EBADF);
	directory = open("/", O_RDONLY | O_DIRECTORY);
	assert_int_equal(region_check(directory, PAGE, false, &page), -EBADF);
	assert_int_equal(region_check(-1, PAGE, false, &page), -EBADF);
	file = open("/proc/self/exe", O_RDONLY); /* on a disk, or wherever the build is */
	assert_true(file >= 0);
	if (fcntl(file, F_GET_SEALS) < 0)
		assert_int_equal(region_check(file, PAGE, false, &page), -EBADF);
	close(file);
	for (int i = 0; i < 2; i++) {
		close(pipe_fd[i]);
		close(sockets[i]);
	}
	close(directory);
	/* A directory of tmpfs has no mappable size. */
	if (mkdtemp(path) != NULL) {
		directory = open(path, O_RDONLY | O_DIRECTORY);
		assert_int_equal(region_check(directory, PAGE, false, &page), -EBADF);
		close(directory);
		rmdir(path);
	}
}

static void
test_populate(void **state)
{
	int fd = memfd_create("populate", MFD_ALLOW_SEALING);
	uint8_t *base;

	assert_int_equal(ftruncate(fd, 4 * PAGE), 0);
	base = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(base, MAP_FAILED);
	base[PAGE] = 7;
	assert_int_equal(arena_populate(base, 4 * PAGE), 0);
	assert_int_equal(base[PAGE], 7);
	assert_int_equal(file_bytes(fd), 4 * PAGE);
	/* Beyond the end of the file the result is an error, not a signal. */
	assert_int_equal(arena_populate(base, 8 * PAGE), -EFAULT);
	munmap(base, 8 * PAGE);
	close(fd);
}

int
memory_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table_ids),         cmocka_unit_test(test_table_resumed),
		cmocka_unit_test(test_table_generations), cmocka_unit_test(test_table_grows),
		cmocka_unit_test(test_arena_is_sealed),   cmocka_unit_test(test_arena_alloc),
		cmocka_unit_test(test_arena_random),      cmocka_unit_test(test_small),
		cmocka_unit_test(test_arena_fragments),   cmocka_unit_test(test_quota_clients),
		cmocka_unit_test(test_quota_leaving),     cmocka_unit_test(test_quota_own),
		cmocka_unit_test(test_port_space),        cmocka_unit_test(test_quota_connections),
		cmocka_unit_test(test_quota_common),      cmocka_unit_test(test_quota_bytes),
		cmocka_unit_test(test_region_check),      cmocka_unit_test(test_populate),
	};

	return cmocka_run_group_tests_name("control: memory", tests, NULL, NULL);
}
