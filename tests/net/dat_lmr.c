/* SPDX-License-Identifier: BSD-3-Clause */
/* Local regions on real data planes. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dat_pair.h"

#define SIZE 16384u
#define HOLE_PAGES 256u /* so large that no mapping which the kernel places itself fills the hole */

static DAT_EVENT event;

/* ---- creating, querying, freeing ---- */

static DAT_RETURN
create(struct dat_side *s, void *va, DAT_VLEN length, uint32_t privileges, struct dat_buffer *b)
{
	DAT_REGION_DESCRIPTION region;

	memset(&region, 0, sizeof(region));
	region.for_va = va;
	b->data = va;
	b->size = length;
	return dat_lmr_create(s->ia, DAT_MEM_TYPE_VIRTUAL, region, length, s->pz,
			      (DAT_MEM_PRIV_FLAGS)privileges, &b->lmr, &b->lmr_context, &b->rmr_context, NULL,
			      NULL);
}

static void
regions_client(struct pair *pair)
{
	const long page = sysconf(_SC_PAGESIZE);
	uint8_t *hole, *memory = malloc(SIZE);
	struct dat_buffer b, local;
	DAT_LMR_PARAM param;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	memset(memory, 7, SIZE);
	/* Unmapped memory, and memory without write permission, are refused. */
	hole = mmap(NULL, HOLE_PAGES * (size_t)page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(pair, hole != MAP_FAILED, "mmap");
	DAT_CHECK_CODE(&s, create(&s, hole, (DAT_VLEN)page, 0x33, &b), DAT_BAD_ARG(3));
	CHECK(pair, munmap(hole + page, (HOLE_PAGES - 2) * (size_t)page) == 0, "munmap");
	DAT_CHECK_CODE(&s, create(&s, hole, HOLE_PAGES * (DAT_VLEN)page, DAT_MEM_PRIV_LOCAL_READ_FLAG, &b),
		       DAT_BAD_ARG(3));

	DAT_CHECK(&s, create(&s, memory + 3, 4001, DAT_MEM_PRIV_ALL_FLAG, &b));
	CHECK(pair, b.lmr_context != 0 && b.rmr_context != 0, "a context of 0");
	DAT_CHECK(&s, dat_lmr_query(b.lmr, DAT_LMR_FIELD_ALL, &param));
	CHECK(pair,
	      param.ia_handle == s.ia && param.mem_type == DAT_MEM_TYPE_VIRTUAL &&
		      param.region_desc.for_va == memory + 3 && param.length == 4001 &&
		      param.pz_handle == s.pz && param.mem_priv == DAT_MEM_PRIV_ALL_FLAG &&
		      param.lmr_context == b.lmr_context && param.rmr_context == b.rmr_context &&
		      param.registered_size >= 4001 && param.registered_address <= (uintptr_t)memory + 3,
	      "dat_lmr_query is wrong");
	/* Without a remote right there is no remote context. */
	DAT_CHECK(&s, create(&s, memory, SIZE, DAT_MEM_PRIV_LOCAL_WRITE_FLAG, &local));
	CHECK(pair, local.rmr_context == 0, "a remote context without a remote right");
	DAT_CHECK(&s, dat_lmr_free(local.lmr));
	DAT_CHECK(&s, create(&s, memory, SIZE, DAT_MEM_PRIV_NONE_FLAG, &local));
	DAT_CHECK(&s, dat_lmr_free(local.lmr));
	DAT_CHECK(&s, dat_lmr_free(b.lmr));
	for (size_t i = 0; i < SIZE; i++)
		CHECK(pair, memory[i] == 7, "registering changed byte %zu", i);
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- an LMR of an LMR: the same memory with other rights, in another zone ---- */

static void
copies_server(struct pair *pair)
{
	DAT_REGION_DESCRIPTION region;
	struct dat_buffer b, reader;
	struct dat_remote offer;
	struct dat_side s;
	DAT_LMR_PARAM param;
	DAT_LMR_HANDLE elsewhere;
	DAT_PZ_HANDLE other;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	memset(&region, 0, sizeof(region));
	region.for_lmr_handle = b.lmr;
	reader = b;
	DAT_CHECK(&s, dat_lmr_create(s.ia, DAT_MEM_TYPE_LMR, region, 1, s.pz,
				     DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_REMOTE_READ_FLAG,
				     &reader.lmr, &reader.lmr_context, &reader.rmr_context, NULL, NULL));
	DAT_CHECK(&s, dat_lmr_query(reader.lmr, DAT_LMR_FIELD_ALL, &param));
	CHECK(pair, param.mem_type == DAT_MEM_TYPE_LMR && param.length == SIZE,
	      "the length of a region of type LMR is that of its source");
	DAT_CHECK(&s, dat_pz_create(s.ia, &other));
	DAT_CHECK(&s, dat_lmr_create(s.ia, DAT_MEM_TYPE_LMR, region, 0, other, DAT_MEM_PRIV_ALL_FLAG,
				     &elsewhere, NULL, NULL, NULL, NULL));
	/* Both regions are used and freed independently of each other. */
	offer = (struct dat_remote){.address = (uintptr_t)b.data, .length = SIZE, .context = b.rmr_context};
	offer.reserved = reader.rmr_context;
	dat_side_connect(&s, true);
	pair_send(pair, &offer, sizeof(offer));
	pair_barrier(pair); /* the client has written through the first region */
	CHECK(pair, pair_pattern_check(b.data, 5000, 1) == 5000, "wrong data");
	DAT_CHECK(&s, dat_lmr_free(b.lmr));
	DAT_CHECK(&s, dat_lmr_free(elsewhere));
	DAT_CHECK(&s, dat_pz_free(other));
	pair_barrier(pair);
	dat_side_expect_end(&s);
	CHECK(pair, pair_pattern_check(b.data, 5000, 1) == 5000,
	      "written through a region without the right");
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
copies_client(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_remote r;
	struct dat_side s;

	dat_side_start(&s, pair, false, &b, SIZE);
	dat_remote_take(&s, &r);
	pair_pattern(b.data, 5000, 1);
	DAT_CHECK(&s, dat_write(s.ep, &b, 0, 5000, 1, &r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 1, DAT_DTO_SUCCESS, 5000);
	pair_barrier(pair);
	pair_barrier(pair); /* the first region has been freed; the second can still be read */
	r.context = r.reserved;
	memset(b.data, 0, SIZE);
	DAT_CHECK(&s, dat_read(s.ep, &b, 0, 5000, 2, &r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 2, DAT_DTO_SUCCESS, 5000);
	CHECK(pair, pair_pattern_check(b.data, 5000, 1) == 5000, "read wrong data through a copy");
	DAT_CHECK(&s, dat_write(s.ep, &b, 5000, 64, 3, &r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 3, DAT_DTO_ERR_REMOTE_ACCESS, 0);
	dat_side_expect_end(&s);
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- shared memory: both processes map one object and register it under one name ---- */

static void
register_shared(struct dat_side *s, const char *path, struct dat_buffer *b)
{
	static char id[DAT_LMR_COOKIE_SIZE] = "oneside: shared, forty bytes that all co";
	int fd = shm_open(path, O_RDWR | O_CREAT, 0600);
	DAT_REGION_DESCRIPTION region;
	DAT_LMR_PARAM param;

	CHECK(s->pair, fd >= 0 && ftruncate(fd, SIZE) == 0, "shm_open");
	b->size = SIZE;
	b->data = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(s->pair, b->data != MAP_FAILED, "mmap");
	close(fd);
	memset(&region, 0, sizeof(region));
	region.for_shared_memory = (DAT_SHARED_MEMORY){.virtual_address = b->data, .shared_memory_id = &id};
	DAT_CHECK(s, dat_lmr_create(s->ia, DAT_MEM_TYPE_SHARED_VIRTUAL, region, SIZE, s->pz,
				    DAT_MEM_PRIV_ALL_FLAG, &b->lmr, &b->lmr_context, &b->rmr_context, NULL,
				    NULL));
	DAT_CHECK(s, dat_lmr_query(b->lmr, DAT_LMR_FIELD_ALL, &param));
	CHECK(s->pair,
	      param.mem_type == DAT_MEM_TYPE_SHARED_VIRTUAL &&
		      param.region_desc.for_shared_memory.virtual_address == b->data &&
		      memcmp(*param.region_desc.for_shared_memory.shared_memory_id, id, sizeof(id)) == 0,
	      "dat_lmr_query of shared memory is wrong");
}

static void
shared_server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;
	char path[32];

	dat_side_open(&s, pair, true);
	snprintf(path, sizeof(path), "/oneside-lmr-%d", (int)getpid());
	pair_send(pair, path, sizeof(path));
	register_shared(&s, path, &b);
	dat_side_connect(&s, true);
	dat_buffer_offer(&s, &b);
	pair_barrier(pair);
	shm_unlink(path);
	CHECK(pair, pair_pattern_check(b.data + 1, 9000, 3) == 9000,
	      "a write into shared memory: wrong data");
	pair_barrier(pair);
	DAT_CHECK(&s, dat_lmr_free(b.lmr));
	CHECK(pair, pair_pattern_check(b.data + 1, 9000, 3) == 9000, "freeing the region changed the memory");
	dat_side_close(&s);
}

static void
shared_client(struct pair *pair)
{
	struct dat_buffer b, out;
	struct dat_remote r;
	struct dat_side s;
	char path[32];

	dat_side_open(&s, pair, false);
	pair_recv(pair, path, sizeof(path));
	register_shared(&s, path, &b);
	dat_buffer_make(&s, &out, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	pair_pattern(out.data, 9000, 3);
	dat_side_connect(&s, false);
	dat_remote_take(&s, &r);
	DAT_CHECK(&s, dat_write(s.ep, &out, 0, 9000, 1, &r, 1, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 1, DAT_DTO_SUCCESS, 9000);
	/* The write to the server's region shows up here: both regions are the same memory. */
	CHECK(pair, pair_pattern_check(b.data + 1, 9000, 3) == 9000, "shared memory is not shared");
	memset(out.data, 0, SIZE);
	DAT_CHECK(&s, dat_read(s.ep, &b, 10000, 2000, 2, &r, 1, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 2, DAT_DTO_SUCCESS, 2000);
	CHECK(pair, pair_pattern_check(b.data + 10000, 2000, 3) == 2000,
	      "a read into shared memory: wrong data");
	pair_barrier(pair);
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- a region is freed while a receive refers to it ---- */

static void
freed_server(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, true);
	dat_buffer_make(&s, &b, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	s.ep = dat_side_ep(&s);
	DAT_CHECK(&s, dat_recv(s.ep, &b, 0, 4096, 1));
	DAT_CHECK(&s, dat_recv(s.ep, &b, 4096, 4096, 2));
	dat_side_connect(&s, true);
	DAT_CHECK(&s, dat_lmr_free(b.lmr));
	memset(b.data, 0x5A, SIZE);
	pair_barrier(pair);
	dat_side_complete(&s, s.recv, 1, DAT_DTO_ERR_LOCAL_PROTECTION, 0);
	dat_side_complete(&s, s.recv, 2, DAT_DTO_ERR_FLUSHED, 0);
	dat_side_expect(&s, s.conn, DAT_CONNECTION_EVENT_BROKEN, 10000, &event);
	for (size_t i = 0; i < SIZE; i++)
		CHECK(pair, b.data[i] == 0x5A, "byte %zu of a freed region was written", i);
	pair_barrier(pair);
	dat_side_close(&s);
}

static void
freed_client(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_side s;

	dat_side_start(&s, pair, false, &b, SIZE);
	pair_barrier(pair);
	DAT_CHECK(&s, dat_send(s.ep, &b, 0, 3000, 1, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 1, DAT_DTO_ERR_REMOTE_RESPONDER, 0);
	dat_side_expect_end(&s);
	pair_barrier(pair);
	dat_side_close(&s);
}

/* ---- memory that cannot be shared ---- */

static void
make_of(struct dat_side *s, struct dat_buffer *b, uint8_t *memory, size_t size)
{
	DAT_REGION_DESCRIPTION region;
	DAT_VLEN registered;
	DAT_VADDR address;

	memset(&region, 0, sizeof(region));
	*b = (struct dat_buffer){.data = memory, .size = size};
	region.for_va = memory;
	DAT_CHECK(s, dat_lmr_create(s->ia, DAT_MEM_TYPE_VIRTUAL, region, size, s->pz, DAT_MEM_PRIV_ALL_FLAG,
				    &b->lmr, &b->lmr_context, &b->rmr_context, &registered, &address));
}

/*
 * Stacks of both processes: written, read, received into and sent from, without touching the memory around
 * them.
 */
static void
stacks_server(struct pair *pair)
{
	uint8_t stack[SIZE + 2], *middle = stack + 1;
	struct dat_buffer b;
	struct dat_side s;

	memset(stack, 0xee, sizeof(stack));
	dat_side_open(&s, pair, true);
	make_of(&s, &b, middle, SIZE);
	s.ep = dat_side_ep(&s);
	DAT_CHECK(&s, dat_recv(s.ep, &b, 8192, 5000, 9));
	dat_side_connect(&s, true);
	dat_buffer_offer(&s, &b);
	dat_side_complete(&s, s.recv, 9, DAT_DTO_SUCCESS, 5000);
	/* The WRITE preceded the message. */
	CHECK(pair, pair_pattern_check(middle, 5001, 3) == 5001, "wrong data were written");
	CHECK(pair, pair_pattern_check(middle + 8192, 5000, 4) == 5000, "wrong data were received");
	CHECK(pair, stack[0] == 0xee && stack[SIZE + 1] == 0xee && middle[5001] == 0xee,
	      "memory beside was written");
	pair_barrier(pair);
	DAT_CHECK(&s, dat_ep_disconnect(s.ep, DAT_CLOSE_ABRUPT_FLAG));
	DAT_CHECK(&s, dat_lmr_free(b.lmr));
	dat_side_close(&s);
}

static void
stacks_client(struct pair *pair)
{
	uint8_t stack[SIZE];
	struct dat_buffer b;
	struct dat_remote r;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	make_of(&s, &b, stack, SIZE);
	dat_side_connect(&s, false);
	dat_remote_take(&s, &r);
	pair_pattern(stack, 5001, 3);
	DAT_CHECK(&s, dat_write(s.ep, &b, 0, 5001, 1, &r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 1, DAT_DTO_SUCCESS, 5001);
	memset(stack, 0, sizeof(stack));
	DAT_CHECK(&s, dat_read(s.ep, &b, 77, 5001, 2, &r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 2, DAT_DTO_SUCCESS, 5001);
	CHECK(pair, pair_pattern_check(stack + 77, 5001, 3) == 5001, "wrong data were read");
	pair_pattern(stack, 5000, 4);
	DAT_CHECK(&s, dat_send(s.ep, &b, 0, 5000, 3, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_complete(&s, s.request, 3, DAT_DTO_SUCCESS, 5000);
	pair_barrier(pair);
	dat_side_expect_end(&s);
	dat_side_close(&s);
}

/* Memory unmapped after its registration: the peer gets an error, the application survives. */
static void
unmapped_server(struct pair *pair)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	uint8_t *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	struct dat_buffer b;
	struct dat_side s;

	CHECK(pair, fd >= 0 && memory != MAP_FAILED, "no private mapping");
	close(fd);
	dat_side_open(&s, pair, true);
	make_of(&s, &b, memory, SIZE);
	CHECK(pair, munmap(memory, SIZE) == 0, "munmap");
	dat_side_connect(&s, true);
	dat_buffer_offer(&s, &b);
	dat_side_expect_end(&s);
	pair_barrier(pair);
	DAT_CHECK(&s, dat_lmr_free(b.lmr));
	dat_side_close(&s);
}

static void
unmapped_client(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_remote r;
	struct dat_side s;

	dat_side_start(&s, pair, false, &b, SIZE);
	dat_remote_take(&s, &r);
	DAT_CHECK(&s, dat_write(s.ep, &b, 0, 5000, 1, &r, 0, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_expect(&s, s.request, DAT_DTO_COMPLETION_EVENT, 10000, &event);
	CHECK(pair, event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS,
	      "written to memory that is not there");
	dat_side_expect_end(&s);
	pair_barrier(pair);
	dat_side_close(&s);
}

static const struct pair_case cases[] = {
	{"regions", dat_bystander, regions_client, false},
	{"copies", copies_server, copies_client, false},
	{"shared_memory", shared_server, shared_client, false},
	{"freed_under_receive", freed_server, freed_client, false},
	{"stacks", stacks_server, stacks_client, false},
	{"unmapped", unmapped_server, unmapped_client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
