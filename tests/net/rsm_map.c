/* SPDX-License-Identifier: BSD-3-Clause */
/* RSMAPI between two applications: mappings, their revocation, and rebinding. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rsm_pair.h"

#define PAGE 4096u
#define MAGIC 0x1122334455667788ull

static sigjmp_buf fault;

static void
on_fault(int number)
{
	(void)number;
	siglongjmp(fault, 1);
}

/* Does a store to that address fault? */
static bool
store_faults(volatile uint8_t *at)
{
	struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER}, old;
	bool faulted;

	sigaction(SIGSEGV, &action, &old);
	faulted = sigsetjmp(fault, 1) != 0;
	if (!faulted)
		*at = 1;
	sigaction(SIGSEGV, &old, NULL);
	return faulted;
}

/* ---- maps ---- */

static void
map_server(struct pair *pair)
{
	struct exporter e;
	rsm_node_id_t peer;

	exporter_open(&e, pair, &peer);
	publish(&e, pair, peer, 0666);
	for (uint32_t k = 0; k < SIZE; k++)
		e.base[k] = (uint8_t)(k * 7);
	pair_barrier(pair);
	pair_barrier(pair); /* the importer has stored through its mapping */
	if (pair->local) {
		CHECK(pair, e.base[0] == 0x5A && e.base[SIZE - 1] == 0xA5,
		      "stores through the mapping are not seen");
		CHECK(pair, *(uint64_t *)(void *)(e.base + PAGE) == MAGIC,
		      "put64 through the mapping is not seen");
		CHECK(pair, pair_pattern_check(e.base + 2 * PAGE + 3, 100001, 5) == 100001,
		      "put through the mapping");
		e.base[PAGE + 100] = 0x77; /* the importer checks this byte */
	}
	pair_barrier(pair);
	pair_barrier(pair);
	exporter_close(&e, pair);
}

static void
refused_across_hosts(struct importer *i, struct pair *pair)
{
	rsmapi_controller_attr_t attr;
	void *address = NULL;

	RSM_CHECK(pair, rsm_get_controller_attr(i->controller, &attr), RSM_SUCCESS);
	CHECK(pair, attr.attr_direct_access_sizes == 0 && attr.attr_max_import_map_size == 0,
	      "the attributes say that it can be mapped");
	RSM_CHECK(pair, rsm_memseg_import_map(i->import, &address, RSM_MAP_NONE, RSM_PERM_READ, 0, PAGE),
		  RSMERR_MAP_FAILED);
	RSM_CHECK(pair, rsm_memseg_import_unmap(i->import), RSMERR_SEG_NOT_MAPPED);
}

static void
whole(struct importer *i, struct pair *pair)
{
	uint8_t *buffer = malloc(200000), *map;
	uint64_t magic = MAGIC, v = 0;
	void *address = NULL;

	RSM_CHECK(pair, rsm_memseg_import_map(i->import, &address, RSM_MAP_NONE, RSM_PERM_RDWR, 0, SIZE),
		  RSM_SUCCESS);
	map = address;
	for (uint32_t k = 0; k < SIZE; k++)
		CHECK(pair, map[k] == (uint8_t)(k * 7), "byte %u of the mapping", k);
	RSM_CHECK(pair, rsm_memseg_import_map(i->import, &address, RSM_MAP_NONE, RSM_PERM_RDWR, 0, SIZE),
		  RSMERR_SEG_ALREADY_MAPPED);
	RSM_CHECK(pair, rsm_memseg_import_disconnect(i->import), RSMERR_SEG_STILL_MAPPED);
	map[0] = 0x5A;
	map[SIZE - 1] = 0xA5;
	RSM_CHECK(pair, rsm_memseg_import_put64(i->import, PAGE, &magic, 1), RSM_SUCCESS);
	CHECK(pair, *(uint64_t *)(void *)(map + PAGE) == MAGIC, "put64 is not in the mapping");
	RSM_CHECK(pair, rsm_memseg_import_get64(i->import, PAGE, &v, 1), RSM_SUCCESS);
	CHECK(pair, v == MAGIC, "get64: %#lx", v);
	pair_pattern(buffer, 100001, 5);
	RSM_CHECK(pair, rsm_memseg_import_put(i->import, 2 * PAGE + 3, buffer, 100001), RSM_SUCCESS);
	memset(buffer, 0, 100001);
	RSM_CHECK(pair, rsm_memseg_import_get(i->import, 2 * PAGE + 3, buffer, 100001), RSM_SUCCESS);
	CHECK(pair, pair_pattern_check(buffer, 100001, 5) == 100001, "get through the mapping");
	pair_barrier(pair);
	pair_barrier(pair);
	CHECK(pair, map[PAGE + 100] == 0x77, "the exporter's store is not seen");
	RSM_CHECK(pair, rsm_memseg_import_unmap(i->import), RSM_SUCCESS);
	free(buffer);
}

static void
part(struct importer *i, struct pair *pair)
{
	uint64_t v = 3;
	void *at = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *address;
	uint8_t *before = at;

	/* Pages 3 and 4, at a given address; the length is no multiple of the page size. */
	memset(at, 0xEE, 8 * PAGE);
	address = before + 2 * PAGE;
	RSM_CHECK(pair,
		  rsm_memseg_import_map(i->import, &address, RSM_MAP_FIXED, RSM_PERM_RDWR, 3 * PAGE,
					PAGE + 100),
		  RSM_SUCCESS);
	CHECK(pair, address == before + 2 * PAGE, "mapped elsewhere");
	CHECK(pair, before[2 * PAGE - 1] == 0xEE && before[4 * PAGE] == 0xEE, "more was replaced");
	CHECK(pair, pair_pattern_check(before + 2 * PAGE, 64, 99) != 64, "no data");
	RSM_CHECK(pair, rsm_memseg_import_put64(i->import, 3 * PAGE, &v, 1), RSM_SUCCESS);
	CHECK(pair, *(uint64_t *)(void *)(before + 2 * PAGE) == 3, "put is not in the window");
	RSM_CHECK(pair, rsm_memseg_import_put64(i->import, 2 * PAGE, &v, 1), RSMERR_BAD_OFFSET);
	RSM_CHECK(pair, rsm_memseg_import_put64(i->import, 4 * PAGE + 96, &v, 1), RSMERR_BAD_OFFSET);
	RSM_CHECK(pair, rsm_memseg_import_put64(i->import, 4 * PAGE + 88, &v, 1), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_unmap(i->import), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_put64(i->import, 2 * PAGE, &v, 1), RSM_SUCCESS);
	munmap(at, 2 * PAGE);
	munmap(before + 4 * PAGE, 4 * PAGE);
}

static void
read_only(struct importer *i, struct pair *pair)
{
	rsm_memseg_import_handle_t reader;
	void *address = NULL;
	uint64_t v = 0;

	RSM_CHECK(pair, rsm_memseg_import_connect(i->controller, i->node, SEGMENT, RSM_PERM_READ, &reader),
		  RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_map(reader, &address, RSM_MAP_NONE, RSM_PERM_RDWR, 0, PAGE),
		  RSMERR_BAD_PERMS);
	RSM_CHECK(pair, rsm_memseg_import_map(reader, &address, RSM_MAP_NONE, RSM_PERM_READ, 0, PAGE),
		  RSM_SUCCESS);
	CHECK(pair, store_faults(address), "a store to a read-only mapping did not fault");
	CHECK(pair, mprotect(address, PAGE, PROT_READ | PROT_WRITE) != 0 && errno == EACCES,
	      "a read-only mapping could be made writable");
	RSM_CHECK(pair, rsm_memseg_import_set_mode(reader, RSM_BARRIER_MODE_EXPLICIT), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_get64(reader, 8, &v, 1), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_put64(reader, 8, &v, 1), RSMERR_PERM_DENIED);
	RSM_CHECK(pair, rsm_memseg_import_unmap(reader), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_disconnect(reader), RSM_SUCCESS);
	/* A writable page is readable, too: a connection with the right to write only cannot map. */
	RSM_CHECK(pair, rsm_memseg_import_connect(i->controller, i->node, SEGMENT, RSM_PERM_WRITE, &reader),
		  RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_map(reader, &address, RSM_MAP_NONE, RSM_PERM_WRITE, 0, PAGE),
		  RSMERR_MAP_FAILED);
	RSM_CHECK(pair, rsm_memseg_import_disconnect(reader), RSM_SUCCESS);
	/* A mapping may have fewer rights than the connection. */
	RSM_CHECK(pair, rsm_memseg_import_map(i->import, &address, RSM_MAP_NONE, RSM_PERM_READ, 0, PAGE),
		  RSM_SUCCESS);
	CHECK(pair, store_faults(address), "a store to a mapping for reading did not fault");
	v = 9;
	RSM_CHECK(pair, rsm_memseg_import_put64(i->import, 16, &v, 1), RSM_SUCCESS);
	CHECK(pair, ((volatile uint64_t *)address)[2] == 9, "put beside a mapping for reading");
	RSM_CHECK(pair, rsm_memseg_import_unmap(i->import), RSM_SUCCESS);
}

static void
map_client(struct pair *pair)
{
	struct importer i;

	importer_open(&i, pair);
	pair_barrier(pair);
	importer_connect(&i, pair, RSM_PERM_RDWR);
	if (pair->local) {
		whole(&i, pair);
		part(&i, pair);
		read_only(&i, pair);
	} else {
		refused_across_hosts(&i, pair);
		pair_barrier(pair);
		pair_barrier(pair);
	}
	pair_barrier(pair);
	importer_disconnect(&i, pair);
}

/* ---- revocation of a mapping ---- */

static void
revoke_server(struct pair *pair)
{
	struct exporter e;
	rsm_node_id_t peer;

	exporter_open(&e, pair, &peer);
	for (int round = 0; round < 3; round++) {
		publish(&e, pair, peer, 0666);
		memset(e.base, 0x10 + round, SIZE);
		pair_barrier(pair);
		pair_barrier(pair); /* the importer has mapped the segment */
		RSM_CHECK(pair, rsm_memseg_export_unpublish(e.export), RSM_SUCCESS);
		CHECK(pair, e.base[0] == 0x10 + round && e.base[SIZE - 1] == 0x10 + round,
		      "contents were lost");
		memset(e.base, 0xEE, SIZE);
		pair_barrier(pair);
		pair_barrier(pair); /* the importer has read and stored through its mapping */
		for (uint32_t k = 0; k < SIZE; k++)
			CHECK(pair, e.base[k] == 0xEE, "byte %u was changed after unpublish", k);
	}
	publish(&e, pair, peer, 0666);
	pair_barrier(pair);
	pair_barrier(pair);
	RSM_CHECK(pair, rsm_memseg_export_destroy(e.export), RSM_SUCCESS);
	memset(e.base, 0xDD, SIZE);
	pair_barrier(pair);
	pair_barrier(pair);
	CHECK(pair, e.base[100] == 0xDD, "changed after destroy");
	pair_barrier(pair);
}

/*
 * An importer that keeps using its mapping only sees, and changes, a private copy of the segment's last
 * contents.
 */
static void
look_and_store(struct importer *i, struct pair *pair, volatile uint8_t *map, int expected)
{
	uint64_t v = 1;

	for (uint32_t k = 0; k < SIZE; k += 61)
		CHECK(pair, map[k] == expected, "byte %u of the withdrawn segment is %#x", k, map[k]);
	RSM_CHECK(pair, rsm_memseg_import_put64(i->import, 0, &v, 1), RSMERR_CONN_ABORTED);
	RSM_CHECK(pair, rsm_memseg_import_get64(i->import, 0, &v, 1), RSMERR_CONN_ABORTED);
	for (uint32_t k = 0; k < SIZE; k += 61)
		map[k] = 0xCC; /* no fault */
}

static void
revoke_client(struct pair *pair)
{
	struct importer i;
	void *address;

	importer_open(&i, pair);
	for (int round = 0; round < 4; round++) {
		pair_barrier(pair);
		importer_connect(&i, pair, RSM_PERM_RDWR);
		address = NULL;
		if (pair->local)
			RSM_CHECK(pair,
				  rsm_memseg_import_map(i.import, &address, RSM_MAP_NONE, RSM_PERM_RDWR, 0,
							SIZE),
				  RSM_SUCCESS);
		pair_barrier(pair);
		pair_barrier(pair); /* the exporter has withdrawn the segment */
		if (pair->local) {
			look_and_store(&i, pair, address, round < 3 ? 0x10 + round : 0xEE);
			RSM_CHECK(pair, rsm_memseg_import_unmap(i.import), RSM_SUCCESS);
			RSM_CHECK(pair,
				  rsm_memseg_import_map(i.import, &address, RSM_MAP_NONE, RSM_PERM_RDWR, 0,
							SIZE),
				  RSMERR_CONN_ABORTED);
		}
		importer_disconnect(&i, pair);
		pair_barrier(pair);
	}
	pair_barrier(pair);
}

/* ---- the exporter dies while its segment is mapped ---- */

static void
died_server(struct pair *pair)
{
	struct exporter e;
	rsm_node_id_t peer;
	pid_t child;

	exporter_open(&e, pair, &peer);
	publish(&e, pair, peer, 0666);
	memset(e.base, 0x42, SIZE);
	/* The segment is not the child's, which lives until the client ends it. */
	child = fork();
	if (child == 0) {
		char byte;

		recv(pair->fd, &byte, 1, 0); /* returns when the client sends a byte, or has gone */
		_exit(0);
	}
	CHECK(pair, child > 0, "fork");
	pair_send(pair, &child, sizeof(child));
	for (;;)
		pause();
}

static void
died_client(struct pair *pair)
{
	void *address = NULL;
	struct importer i;
	uint64_t v = 2, start;
	pid_t child;
	int error;

	importer_open(&i, pair);
	pair_recv(pair, &child, sizeof(child));
	importer_connect(&i, pair, RSM_PERM_RDWR);
	if (pair->local)
		RSM_CHECK(pair,
			  rsm_memseg_import_map(i.import, &address, RSM_MAP_NONE, RSM_PERM_RDWR, 0, SIZE),
			  RSM_SUCCESS);
	CHECK(pair, kill(pair->peer, SIGKILL) == 0, "kill");
	start = pair_now_ms();
	do {
		error = rsm_memseg_import_put64(i.import, 64, &v, 1);
		CHECK(pair, pair_now_ms() - start < 5000 * PAIR_SHARE,
		      "puts still succeed long after the exporter's death");
	} while (error == RSM_SUCCESS);
	CHECK(pair, error == RSMERR_CONN_ABORTED, "put: %d", error);
	if (pair->local) {
		for (uint32_t k = 100; k < SIZE; k += PAGE)
			CHECK(pair, ((volatile uint8_t *)address)[k] == 0x42, "byte %u", k);
		RSM_CHECK(pair, rsm_memseg_import_unmap(i.import), RSM_SUCCESS);
	}
	CHECK(pair, kill(child, SIGKILL) == 0, "the child did not outlive the exporter");
	importer_disconnect(&i, pair);
}

/* ---- rebind ---- */

static void
rebind_server(struct pair *pair)
{
	uint8_t *other = aligned_alloc(PAGE, SIZE), *first;
	rsm_memseg_export_handle_t fixed;
	struct exporter e;
	rsm_node_id_t peer;

	exporter_open(&e, pair, &peer);
	first = e.base;
	RSM_CHECK(pair, rsm_memseg_export_rebind(e.export, other, 0, SIZE), RSMERR_REBIND_NOT_ALLOWED);
	RSM_CHECK(pair, rsm_memseg_export_destroy(e.export), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_export_create(e.controller, &fixed, first, SIZE, RSM_ALLOW_REBIND),
		  RSM_SUCCESS);
	e.export = fixed;
	memset(first, 0x11, SIZE);
	memset(other, 0x22, SIZE);
	RSM_CHECK(pair, rsm_memseg_export_rebind(e.export, first, 0, SIZE), RSM_SUCCESS);
	publish(&e, pair, peer, 0666);
	pair_barrier(pair);
	pair_barrier(pair); /* the importer has seen the first memory */
	RSM_CHECK(pair, rsm_memseg_export_rebind(e.export, other, 0, SIZE), RSM_SUCCESS);
	CHECK(pair, first[0] == 0x11 && first[SIZE - 1] == 0x11, "the old memory lost its contents");
	CHECK(pair, other[1] == 0x22 && other[SIZE - 1] == 0x22, "the new memory lost its contents");
	memset(first, 0x33, SIZE);
	pair_barrier(pair);
	pair_barrier(pair); /* the importer has seen the second memory, and put into it */
	CHECK(pair, *(uint64_t *)(void *)(other + 8) == MAGIC, "a put after rebind is not in the new memory");
	CHECK(pair, *(uint64_t *)(void *)(first + 8) == 0x3333333333333333ull,
	      "a put went to the old memory");
	RSM_CHECK(pair, rsm_memseg_export_rebind(e.export, first, 0, SIZE), RSM_SUCCESS); /* back again */
	pair_barrier(pair);
	pair_barrier(pair);
	RSM_CHECK(pair, rsm_memseg_export_unpublish(e.export), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_export_rebind(e.export, other, 0, SIZE),
		  RSM_SUCCESS); /* rebinding works while unpublished */
	publish(&e, pair, peer, 0666);
	other[77] = 0x55;
	pair_barrier(pair);
	pair_barrier(pair);
	exporter_close(&e, pair);
	CHECK(pair, other[77] == 0x55 && first[77] == 0x33, "contents");
	free(other);
	free(first);
}

static void
expect_byte(struct importer *i, struct pair *pair, const volatile uint8_t *map, off_t at, uint8_t expected)
{
	uint8_t v = 0;

	RSM_CHECK(pair, rsm_memseg_import_get8(i->import, at, &v, 1), RSM_SUCCESS);
	CHECK(pair, v == expected, "byte %ld is %#x instead of %#x", (long)at, v, expected);
	if (map != NULL)
		CHECK(pair, map[at] == expected, "byte %ld of the mapping is %#x instead of %#x", (long)at,
		      map[at], expected);
}

static void
rebind_client(struct pair *pair)
{
	rsm_memseg_import_handle_t unmapped;
	uint64_t magic = MAGIC, v = 0;
	void *address = NULL;
	struct importer i;
	rsmapi_barrier_t barrier;

	importer_open(&i, pair);
	pair_barrier(pair);
	importer_connect(&i, pair, RSM_PERM_RDWR);
	RSM_CHECK(pair, rsm_memseg_import_connect(i.controller, i.node, SEGMENT, RSM_PERM_RDWR, &unmapped),
		  RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_init_barrier(unmapped, RSM_BARRIER_SEGMENT, &barrier), RSM_SUCCESS);
	if (pair->local)
		RSM_CHECK(pair,
			  rsm_memseg_import_map(i.import, &address, RSM_MAP_NONE, RSM_PERM_RDWR, 0, SIZE),
			  RSM_SUCCESS);
	expect_byte(&i, pair, address, 0, 0x11);
	pair_barrier(pair);
	pair_barrier(pair);
	expect_byte(&i, pair, address, 0, 0x22);
	expect_byte(&i, pair, address, SIZE - 1, 0x22);
	RSM_CHECK(pair, rsm_memseg_import_put64(unmapped, 8, &magic, 1), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_get64(i.import, 8, &v, 1), RSM_SUCCESS);
	CHECK(pair, v == MAGIC, "get64 after rebind: %#lx", v);
	pair_barrier(pair);
	pair_barrier(pair);
	expect_byte(&i, pair, address, 100, 0x33);
	if (address != NULL)
		RSM_CHECK(pair, rsm_memseg_import_unmap(i.import), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_destroy_barrier(&barrier), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_disconnect(unmapped), RSM_SUCCESS);
	importer_disconnect(&i, pair);
	pair_barrier(pair);
	pair_barrier(pair);
	importer_connect(&i, pair, RSM_PERM_RDWR);
	expect_byte(&i, pair, NULL, 77, 0x55);
	importer_disconnect(&i, pair);
	pair_barrier(pair);
}

/* ---- memory that has more than one registration ---- */

static void
twice_server(struct pair *pair)
{
	uint8_t *other = aligned_alloc(PAGE, SIZE);
	rsm_memseg_export_handle_t second;
	rsm_localmemory_handle_t local;
	rsm_memseg_id_t id = SEGMENT + 1;
	struct exporter e;
	rsm_node_id_t peer;

	exporter_open(&e, pair, &peer);
	RSM_CHECK(pair, rsm_memseg_export_create(e.controller, &second, e.base, SIZE, RSM_ALLOW_REBIND),
		  RSM_SUCCESS);
	publish(&e, pair, peer, 0666);
	RSM_CHECK(pair, rsm_memseg_export_publish(second, &id, NULL, 0), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_export_rebind(second, other, 0, SIZE), RSMERR_INSUFFICIENT_RESOURCES);
	pair_barrier(pair);
	pair_barrier(pair); /* importers of both segments have put */
	CHECK(pair, *(uint64_t *)(void *)e.base == MAGIC && *(uint64_t *)(void *)(e.base + PAGE) == MAGIC,
	      "puts");
	/* The first segment outlives the second. */
	RSM_CHECK(pair, rsm_memseg_export_destroy(second), RSM_SUCCESS);
	pair_barrier(pair);
	pair_barrier(pair);
	CHECK(pair, *(uint64_t *)(void *)(e.base + 2 * PAGE) == MAGIC, "put after the other segment's end");
	RSM_CHECK(pair, rsm_memseg_export_unpublish(e.export), RSM_SUCCESS);
	publish(&e, pair, peer, 0666); /* the memory has one segment now, and can be mapped */
	RSM_CHECK(pair, rsm_create_localmemory_handle(e.controller, &local, (caddr_t)e.base, SIZE),
		  RSM_SUCCESS);
	pair_barrier(pair);
	pair_barrier(pair); /* the importer has mapped the segment */
	RSM_CHECK(pair, rsm_memseg_export_unpublish(e.export), RSM_SUCCESS);
	memset(e.base, 0x77, SIZE);
	pair_barrier(pair);
	pair_barrier(pair);
	CHECK(pair, e.base[0] == 0x77 && e.base[SIZE - 1] == 0x77, "changed after unpublish");
	RSM_CHECK(pair, rsm_free_localmemory_handle(e.controller, local), RSM_SUCCESS);
	exporter_close(&e, pair);
	free(other);
}

static void
twice_client(struct pair *pair)
{
	rsm_memseg_import_handle_t second;
	rsmapi_barrier_t barrier = {0};
	uint64_t magic = MAGIC;
	void *address = NULL;
	struct importer i;

	importer_open(&i, pair);
	pair_barrier(pair);
	importer_connect(&i, pair, RSM_PERM_RDWR);
	RSM_CHECK(pair, rsm_memseg_import_connect(i.controller, i.node, SEGMENT + 1, RSM_PERM_RDWR, &second),
		  RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_init_barrier(second, RSM_BARRIER_SEGMENT, &barrier), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_map(i.import, &address, RSM_MAP_NONE, RSM_PERM_RDWR, 0, SIZE),
		  RSMERR_MAP_FAILED);
	RSM_CHECK(pair, rsm_memseg_import_put64(i.import, 0, &magic, 1), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_put64(second, PAGE, &magic, 1), RSM_SUCCESS);
	pair_barrier(pair);
	pair_barrier(pair);
	RSM_CHECK(pair, rsm_memseg_import_put64(i.import, 2 * PAGE, &magic, 1), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_put64(second, PAGE, &magic, 1), RSMERR_CONN_ABORTED);
	RSM_CHECK(pair, rsm_memseg_import_disconnect(second), RSM_SUCCESS);
	pair_barrier(pair);
	pair_barrier(pair); /* the exporter has published the segment again */
	importer_disconnect(&i, pair);
	importer_connect(&i, pair, RSM_PERM_RDWR);
	if (pair->local)
		RSM_CHECK(pair,
			  rsm_memseg_import_map(i.import, &address, RSM_MAP_NONE, RSM_PERM_RDWR, 0, SIZE),
			  RSM_SUCCESS);
	pair_barrier(pair);
	pair_barrier(pair);
	if (pair->local) {
		for (uint32_t k = 0; k < SIZE; k += PAGE) {
			CHECK(pair, ((volatile uint8_t *)address)[k] != 0x77,
			      "byte %u was written after unpublish", k);
			((volatile uint8_t *)address)[k] = 0x66;
		}
		RSM_CHECK(pair, rsm_memseg_import_unmap(i.import), RSM_SUCCESS);
	}
	importer_disconnect(&i, pair);
	pair_barrier(pair);
}

/* ---- a segment without write rights for anybody ---- */

static void
sealed_server(struct pair *pair)
{
	uint8_t *other = aligned_alloc(PAGE, SIZE);
	struct exporter e;
	rsm_node_id_t peer;

	exporter_open(&e, pair, &peer);
	RSM_CHECK(pair, rsm_memseg_export_destroy(e.export), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_export_create(e.controller, &e.export, e.base, SIZE, RSM_ALLOW_REBIND),
		  RSM_SUCCESS);
	publish(&e, pair, peer, 0444);
	memset(e.base, 0x21, SIZE);
	pair_barrier(pair);
	pair_barrier(pair); /* the importer has mapped the segment and tried to write */
	for (uint32_t k = 0; k < SIZE; k++)
		CHECK(pair, e.base[k] == 0x21, "byte %u was written by who may only read", k);
	memset(other, 0x43, SIZE);
	RSM_CHECK(pair, rsm_memseg_export_rebind(e.export, other, 0, SIZE), RSM_SUCCESS);
	other[SIZE - 1] = 0x65;
	pair_barrier(pair);
	pair_barrier(pair);
	/* With another access list, later connections can map for writing. */
	RSM_CHECK(pair, rsm_memseg_export_unpublish(e.export), RSM_SUCCESS);
	publish(&e, pair, peer, 0666);
	pair_barrier(pair);
	pair_barrier(pair);
	CHECK(pair, !pair->local || other[5] == 0x66, "a store of who may write is not seen");
	exporter_close(&e, pair);
	free(other);
}

/* A malicious importer could open the kernel's descriptor of its mapping: writing must fail there, too. */
static void
try_to_write(struct pair *pair, const void *address)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx", (unsigned long)address,
		 (unsigned long)address + SIZE);
	chmod(path, 0666);
	fd = open(path, O_RDWR);
	if (fd < 0) {
		/* Only root may follow these links. */
		CHECK(pair, geteuid() != 0, "%s cannot be opened: %s", path, strerror(errno));
		return;
	}
	CHECK(pair, pwrite(fd, "x", 1, 0) < 0 && errno == EPERM, "pwrite: %s", strerror(errno));
	CHECK(pair,
	      mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EPERM,
	      "it could be mapped for writing");
	CHECK(pair, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE) < 0, "a hole");
	CHECK(pair, ftruncate(fd, 0) < 0, "it could be truncated");
	close(fd);
}

static void
sealed_client(struct pair *pair)
{
	void *address = NULL;
	struct importer i;

	importer_open(&i, pair);
	pair_barrier(pair);
	RSM_CHECK(pair, rsm_memseg_import_connect(i.controller, i.node, SEGMENT, RSM_PERM_RDWR, &i.import),
		  RSMERR_PERM_DENIED);
	importer_connect(&i, pair, RSM_PERM_READ);
	if (pair->local) {
		RSM_CHECK(pair,
			  rsm_memseg_import_map(i.import, &address, RSM_MAP_NONE, RSM_PERM_READ, 0, SIZE),
			  RSM_SUCCESS);
		CHECK(pair, store_faults(address), "a store to a read-only mapping did not fault");
		try_to_write(pair, address);
	}
	expect_byte(&i, pair, address, 1, 0x21);
	pair_barrier(pair);
	pair_barrier(pair); /* the exporter has rebound the segment to other memory */
	expect_byte(&i, pair, address, 1, 0x43);
	expect_byte(&i, pair, address, SIZE - 1, 0x65);
	pair_barrier(pair);
	pair_barrier(pair); /* the exporter has published with another access list */
	if (address != NULL)
		RSM_CHECK(pair, rsm_memseg_import_unmap(i.import), RSM_SUCCESS);
	importer_disconnect(&i, pair);
	importer_connect(&i, pair, RSM_PERM_RDWR);
	if (pair->local) {
		address = NULL;
		RSM_CHECK(pair,
			  rsm_memseg_import_map(i.import, &address, RSM_MAP_NONE, RSM_PERM_RDWR, 0, SIZE),
			  RSM_SUCCESS);
		((uint8_t *)address)[5] = 0x66;
		RSM_CHECK(pair, rsm_memseg_import_unmap(i.import), RSM_SUCCESS);
	}
	pair_barrier(pair);
	importer_disconnect(&i, pair);
}

static const struct pair_case cases[] = {
	{"map", map_server, map_client, false},       {"revoke", revoke_server, revoke_client, false},
	{"died", died_server, died_client, true},     {"rebind", rebind_server, rebind_client, false},
	{"twice", twice_server, twice_client, false}, {"sealed", sealed_server, sealed_client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
