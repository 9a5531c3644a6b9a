/* SPDX-License-Identifier: BSD-3-Clause */
/* oneside-micro: the pieces of the message path, each alone. */
#include <stdlib.h>
#include <string.h>

#include "abi/ring.h"
#include "dataplane/mem.h"
#include "dataplane/wire.h"
#include "gbench.h"

/* A slot written by a producer and read by a consumer, on one core: the instructions, not the cache. */
static void
work_ring(struct gbench_state *state, void *user)
{
	enum { LOG2 = 10 };
	static struct one_wqe ring[1u << LOG2];
	uint32_t index = 0;

	memset(ring, 0, sizeof(ring));
	while (gbench_running(state)) {
		struct one_wqe *slot = &ring[one_ring_slot(index, LOG2)], copy;

		slot->op = ONE_OP_WRITE;
		slot->length = 8;
		slot->cookie = index;
		/* Pairs with the acquire load below. */
		atomic_store_explicit(&slot->phase, one_ring_phase(index, LOG2), memory_order_release);
		if (atomic_load_explicit(&slot->phase, memory_order_acquire) == one_ring_phase(index, LOG2))
			memcpy(&copy, slot, sizeof(copy));
		gbench_use(&copy);
		index++;
	}
	gbench_set_items(state, gbench_iterations(state));
}

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

static struct wire_template
some_template(void)
{
	static const struct wire_path path = {
		.src_mac = {2, 0, 0, 0, 0, 1},
		.dst_mac = {2, 0, 0, 0, 0, 2},
		.src.gid = {[10] = 0xff, 0xff, 192, 0, 2, 1},
		.dst.gid = {[10] = 0xff, 0xff, 192, 0, 2, 2},
		.udp_src_port = 0xc000,
		.ttl = 64,
	};
	struct wire_template t;

	wire_template_init(&t, &path);
	return t;
}

/* Headers, payload already there, pad and ICRC of an RDMA write. */
static void
build_write(struct gbench_state *state, void *user)
{
	struct wire_template t = some_template();
	struct wire_build b = {.opcode = WIRE_WRITE_ONLY,
			       .qpn = 17,
			       .rkey = 3,
			       .dma_length = (uint32_t)gbench_arg(state),
			       .payload_len = (uint32_t)gbench_arg(state)};
	static uint8_t frame[8192];

	while (gbench_running(state)) {
		b.psn = (b.psn + 1) & 0xffffff;
		wire_build(&t, &b, frame);
		wire_seal(frame, wire_frame_len(&t, b.opcode, b.payload_len));
		gbench_use(frame);
	}
	gbench_set_bytes(state, gbench_iterations(state) * b.payload_len);
}

static void
parse_write(struct gbench_state *state, void *user)
{
	struct wire_template t = some_template();
	struct wire_build b = {.opcode = WIRE_WRITE_ONLY,
			       .qpn = 17,
			       .rkey = 3,
			       .dma_length = (uint32_t)gbench_arg(state),
			       .payload_len = (uint32_t)gbench_arg(state)};
	static uint8_t frame[8192];
	uint32_t len = wire_frame_len(&t, b.opcode, b.payload_len);
	struct wire_packet packet;

	wire_build(&t, &b, frame);
	wire_seal(frame, len);
	while (gbench_running(state)) {
		if (wire_parse(frame, len, &packet) != WIRE_OK) {
			gbench_skip(state, "the frame just built was refused");
			break;
		}
		gbench_use(&packet);
	}
	gbench_set_bytes(state, gbench_iterations(state) * b.payload_len);
}

/* The group bytes of an attachment, none rung. */
static void
doorbell_scan(struct gbench_state *state, void *user)
{
	static struct one_doorbells doorbells;
	uint32_t groups = (uint32_t)(gbench_arg(state) + ONE_DOORBELL_GROUP - 1) / ONE_DOORBELL_GROUP;

	while (gbench_running(state)) {
		const uint64_t *word = (const uint64_t *)(uintptr_t)doorbells.group;
		uint64_t any = 0;

		for (uint32_t i = 0; i * 8 < groups; i++)
			any |= word[i];
		gbench_use(any);
	}
	gbench_set_items(state, gbench_iterations(state) * (uint64_t)gbench_arg(state));
}

int
main(int argc, char **argv)
{
	static bool placing;
	static const int64_t sizes[] = {8, 64, 1024, 4096}, copies[] = {8, 64, 4096, 1 << 20},
			     endpoints[] = {64, 1024, 10000};

	wire_init();
	gbench_register("work_ring", work_ring, NULL, NULL, 0);
	gbench_register("key_lookup", key_lookup, NULL, NULL, 0);
	gbench_register("build_write", build_write, NULL, sizes, 4);
	gbench_register("parse_write", parse_write, NULL, sizes, 4);
	gbench_register("mem_place", copy, &placing, copies, 4);
	gbench_register("memcpy", copy, NULL, copies, 4);
	gbench_register("doorbell_scan", doorbell_scan, NULL, endpoints, 3);
	return gbench_main(argc, argv);
}
